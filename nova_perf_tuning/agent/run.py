"""What ``nova-perf-agent`` is made of, from its options to its end."""

from __future__ import annotations

import argparse
import contextlib
import functools
import logging
import os
import time
from collections.abc import Iterator
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.agent import arbiter, book, coexist, host, reconcile, service, sources, starting, watch
from nova_perf_tuning.agent import guests as guests_module
from nova_perf_tuning.agent import state as state_module
from nova_perf_tuning.conf import default, opts
from nova_perf_tuning.host import irqbalance, novaconf, privileged
from nova_perf_tuning.host.plan import model as plan_model
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import restore as restore_module
from nova_perf_tuning.host.transaction import rivals

LOG = logging.getLogger("nova-perf-agent")


class AgentError(errors.PerfTuningError):
    """The agent cannot start."""


def run(args: argparse.Namespace, signals: starting.Signals, notes: starting.Notes) -> int:
    """Keep the host until asked to stop, and return the exit code.

    :raises PerfTuningError: it cannot work.
    """
    files = args.config_file or default.files(args.sysroot)
    conf = opts.load(files)
    for line in opts.unknown(files):
        LOG.warning("%s", line)
    privileged.require(args.sysroot)
    live = os.path.realpath(args.sysroot) == "/"
    run_dir = conf.agent.run_dir
    if not live and run_dir == state_module.RUN_DIR:  # the default is of the live host
        run_dir = os.path.join(os.path.realpath(args.sysroot), "run/nova-perf-tuning")
    state_module.prepare(run_dir)
    journal = _book(conf, args.sysroot, live)
    with contextlib.ExitStack() as stack:
        if not _take_place(stack, journal, conf.nova_perf_tuning.lock_timeout, signals):
            LOG.info("stopped while another agent kept this host; nothing was placed")
            return int(errors.ExitCode.PASS)
        return _serve(args, conf, journal, run_dir, live, signals, notes)


def _book(conf: Any, root: str, live: bool) -> book.Book:
    folder = conf.nova_perf_tuning.state_dir
    if not live and folder == f"/{journal_module.STATE_DIR}":
        folder = journal_module.default_state_dir(root)
    return book.Book(folder, root, 0.0)


def _take_place(
    stack: contextlib.ExitStack, journal: book.Book, patience: float, signals: starting.Signals
) -> bool:
    """Become this host's only agent, in short attempts between which the end may be asked for; False then."""
    deadline = time.monotonic() + patience
    while True:
        try:
            stack.enter_context(journal.agent())
        except book.SecondAgentError:
            if signals.asked:
                return False
            if time.monotonic() >= deadline:
                raise
        except journal_module.JournalError as error:  # which names the option of the commands
            text = str(error).replace("--state-dir", "[nova_perf_tuning] state_dir")
            raise journal_module.JournalError(text) from None
        else:
            return True


def _serve(
    args: argparse.Namespace,
    conf: Any,
    journal: book.Book,
    run_dir: str,
    live: bool,
    signals: starting.Signals,
    notes: starting.Notes,
) -> int:
    options = conf.agent
    target = host.TunedHost(args.sysroot, options.nova_config, _given(options), plan_model.Policy(rps=options.rps))
    list(target.kinds().values())  # finding the installed kinds takes long: not while a guest waits
    others = coexist.Coexistence(ban=options.irqbalance == "ban") if live else None
    reconciler = reconcile.Reconciler(
        target,
        journal,
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
            notifier=notes,
            guests_fault=(lambda: guests.fault) if guests else None,
            describe=others.findings if others else None,
            lookout=rivals.Lookout(args.sysroot),
        )
        stack.callback(agent.close)
        for source in _sources(args.sysroot, live):
            agent.add(source)
        agent.catch_signals()
        stack.callback(state_module.remove, run_dir)
        if signals.asked:  # before that: nothing is placed any more, the end is as configured
            return _end(agent, options.on_stop)
        if guests:
            guests.start()
            stack.callback(guests.stop)
        if options.metrics_port:
            stack.callback(_metrics(agent, options.metrics_address, options.metrics_port))
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
