"""``nova-perf-agent``: keeps this host tuned for its guests."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.agent import arbiter, book, coexist, host, notify, reconcile, service, sources, watch
from nova_perf_tuning.agent import guests as guests_module
from nova_perf_tuning.agent import state as state_module
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host import irqbalance, novaconf, privileged
from nova_perf_tuning.host.plan import model as plan_model
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import restore as restore_module
from nova_perf_tuning.host.transaction import rivals

LOG = logging.getLogger("nova-perf-agent")

_CONFIG: Final = "/etc/nova-perf-tuning/nova-perf-tuning.conf"


class AgentError(errors.PerfTuningError):
    """The agent cannot start."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit code: 0 when it was asked to stop, 3 when it cannot work."""
    parser = _parser()
    args = parser.parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if args.debug else logging.INFO, format="%(levelname)s %(message)s"
    )
    try:
        return _run(args)
    except (errors.PerfTuningError, OSError) as error:
        if args.debug:
            raise
        print(f"nova-perf-agent: {' '.join(str(error).split())}", file=sys.stderr)
        return int(error.exit_code if isinstance(error, errors.PerfTuningError) else errors.ExitCode.ERROR)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nova-perf-agent",
        description="Keep interrupts, vhost workers, emulator and I/O threads of this compute host where the plan "
        "of 'nova-perf plan' says, as guests, NICs and CPUs come and go. Originals are journaled; what happens at "
        "the end is [agent] on_stop. Exit code 0: asked to stop (SIGTERM); 1: not everything could be put back; "
        "3: it cannot work, and says why.",
    )
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        help=f"read [agent] and [nova_perf_tuning] of FILE; may be repeated (default: {_CONFIG} if it is there)",
    )
    parser.add_argument(
        "--sysroot", metavar="DIR", default="/", help="root of a generated host's files instead of this host"
    )
    parser.add_argument("--once", action="store_true", help="make one pass, say what was done and end")
    parser.add_argument("--debug", action="store_true", help="log more, and show tracebacks")
    return parser


def _run(args: argparse.Namespace) -> int:
    files = args.config_file
    if files is None:
        files = [_CONFIG] if os.path.exists(_CONFIG) else []
    conf = opts.load(files)
    privileged.require(args.sysroot)
    live = os.path.realpath(args.sysroot) == "/"
    run_dir = conf.agent.run_dir
    if not live and run_dir == state_module.RUN_DIR:  # the default is of the live host
        run_dir = os.path.join(os.path.realpath(args.sysroot), "run/nova-perf-tuning")
    state_module.prepare(run_dir)
    notes = _book(conf, args.sysroot, live)
    with notes.agent():
        return _serve(args, conf, notes, run_dir, live)


def _book(conf: Any, root: str, live: bool) -> book.Book:
    folder = conf.nova_perf_tuning.state_dir
    if not live and folder == f"/{journal_module.STATE_DIR}":
        folder = journal_module.default_state_dir(root)
    return book.Book(folder, root, conf.nova_perf_tuning.lock_timeout)


def _serve(args: argparse.Namespace, conf: Any, notes: book.Book, run_dir: str, live: bool) -> int:
    options = conf.agent
    target = host.TunedHost(args.sysroot, options.nova_config, _given(options), plan_model.Policy(rps=options.rps))
    list(target.kinds().values())  # finding the installed kinds takes long: not while a guest waits
    others = coexist.Coexistence(ban=options.irqbalance == "ban") if live else None
    reconciler = reconcile.Reconciler(
        target,
        notes,
        arbiter.Arbiter(options.rewrite_limit, options.rewrite_pause_max),
        extra=others.settings if others else None,
    )
    if args.once:
        return _once(reconciler, others)
    with contextlib.ExitStack() as stack:
        waker = sources.Waker()
        if others:
            others.wake = functools.partial(waker.wake, sources.RIVAL)
        guests = _guests(options.libvirt_uri, waker) if live else None
        agent = service.Service(
            reconciler,
            watch.Watch(args.sysroot, options.nova_config),
            options,
            run_dir,
            waker=waker,
            notifier=notify.Notifier(),
            guests_fault=(lambda: guests.fault) if guests else None,
            describe=others.findings if others else None,
            lookout=rivals.Lookout(args.sysroot),
        )
        stack.callback(agent.close)
        for source in _sources(args.sysroot, live):
            agent.add(source)
        agent.catch_signals()
        if guests:
            guests.start()
            stack.callback(guests.stop)
        if options.metrics_port:
            stack.callback(_metrics(agent, options.metrics_address, options.metrics_port))
        stack.callback(state_module.remove, run_dir)
        with irqbalance.patience(coexist.PATIENCE_S):
            agent.run()
        return _end(agent, options.on_stop)


def _given(options: Any) -> plan_model.CpuSets:
    """Return the sets of the configuration file, in the kernel's form."""

    def cpus(name: str) -> str | None:
        return novaconf.parse_cpu_spec(options[name], f"[agent] {name}") if options[name] else None

    return plan_model.CpuSets(cpus("dedicated"), cpus("shared"), cpus("housekeeping"))


def _once(reconciler: reconcile.Reconciler, others: coexist.Coexistence | None) -> int:
    done = reconciler.reconcile(excused=True)
    print(f"{done.wanted} settings: {len(done.written)} written, {len(done.withdrawn)} put back", end="")
    print(f", {len(done.faults)} not in force" if done.faults else "")
    for one in others.findings() if others is not None else ():
        if one["what"] == "irqbalance":
            print(f"irqbalance (pid {one['pid']}): {one['detail']}")
    return int(errors.ExitCode.FAIL if done.faults or done.kept_extra else errors.ExitCode.PASS)


def _guests(uri: str, waker: sources.Waker) -> guests_module.LibvirtEvents | None:
    """Return libvirt's events; None where they are not wanted or not to be had."""
    if not uri:
        return None
    try:
        return guests_module.LibvirtEvents(uri, lambda: waker.wake(sources.GUEST))
    except ImportError:
        LOG.warning("libvirt's Python module is not installed: guests are seen by libvirt's files alone")
        return None


def _sources(root: str, live: bool) -> Iterator[sources.Source]:
    """Make the kernel's sources; one that this kernel or container has not is passed over, the timers remain."""
    makers: list[Any] = [functools.partial(sources.FileWatch, root)]
    if live:
        makers += [sources.Links, sources.Uevents, sources.EthtoolMonitor]
    for make in makers:
        try:
            yield make()
        except OSError as error:
            name = getattr(make, "__name__", "files")
            LOG.warning("events of %s: %s: such changes are found by the timers", name, error.strerror or error)


def _metrics(agent: service.Service, address: str, port: int) -> Any:
    """Start to answer Prometheus and return what ends it."""
    try:
        from nova_perf_tuning.agent import metrics
    except ImportError:
        raise AgentError(
            "[agent] metrics_port needs the package prometheus_client: pip install 'nova-perf-tuning[metrics]'"
        ) from None
    return metrics.serve(agent, address, port)


def _end(agent: service.Service, on_stop: str) -> int:
    if on_stop != "restore":
        LOG.info("stopped; everything stays as placed, 'nova-perf restore' undoes it")
        return int(errors.ExitCode.PASS)
    with irqbalance.waiting(irqbalance.END_S):
        done = agent.restore()
    kept = [one for one in done if one.result in restore_module.KEPT]
    for one in kept:
        LOG.warning("%s %s: %s: %s", one.entry.kind, one.entry.target, one.result.value, one.detail)
    LOG.info("stopped; %d originals put back", sum(one.result is restore_module.Undone.RESTORED for one in done))
    return int(errors.ExitCode.FAIL if kept else errors.ExitCode.PASS)


if __name__ == "__main__":
    sys.exit(main())
