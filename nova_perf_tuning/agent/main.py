# SPDX-License-Identifier: Apache-2.0
"""``nova-perf-agent``: keeps this host tuned for its guests."""

import argparse
import contextlib
import logging
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from oslo_config import cfg

from nova_perf_tuning import arguments, atomic_write, errors, printing, streams
from nova_perf_tuning.agent import (
    findings,
    forecast,
    journal_session,
    own_cpus,
    reconcile,
    rewrite_limit,
    service,
    sources,
    state,
)
from nova_perf_tuning.agent.observe import Observer
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.transaction import refusals
from nova_perf_tuning.host.transaction.journal import STATE_DIR, default_state_dir
from nova_perf_tuning.host.transaction.restore import KEPT, RestoreResult

LOG = logging.getLogger("nova-perf-agent")

#: Seconds before an agent that cannot start ends: systemd starts it again at once, as is right for
#: a killed one.
_PAUSE_S: Final = 5.0


class _Formatter(logging.Formatter):
    """Logs names of guests and devices without a character that a terminal would obey."""

    def format(self, record: logging.LogRecord) -> str:
        return printing.printable(super().format(record), "\n\t")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit code: 0 when it was asked to stop, 3 when it cannot work."""
    streams.prepare()
    try:
        args = _parser().parse_args(argv)
    except SystemExit as stop:  # after --help
        raise SystemExit(streams.exit_code("nova-perf-agent", int(stop.code or 0))) from None
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Formatter("%(levelname)s %(message)s"))
    logging.basicConfig(level=logging.DEBUG if args.debug else logging.INFO, handlers=[handler])
    notifier = state.Notifier()
    try:
        return run(args.sysroot, args.config_file or (), notifier, observe=args.observe)
    except (
        Exception
    ) as error:  # Python would end with 1, which says that originals were not put back
        if args.debug:
            sys.stderr.write(printing.printable("".join(traceback.format_exception(error)), "\n"))
        text = printing.one_line(error)
        if not isinstance(error, errors.PerfTuningError | OSError):
            text = f"internal error, please report: {type(error).__name__}: {text} (--debug shows where)"
        print(printing.printable(f"nova-perf-agent: {text}"), file=sys.stderr, flush=True)
        notifier.send(STATUS=f"cannot work: {text}")
        if "NOTIFY_SOCKET" in os.environ:
            time.sleep(_PAUSE_S)
        return errors.ExitCode.ERROR


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nova-perf-agent",
        description="Keep interrupts, vhost workers, emulator and I/O threads where 'nova-perf plan' places them, "
        "while guests, NICs and CPUs come and go. With --observe, only report what would be moved. "
        "All originals are saved in the journal; [agent] on_stop decides whether they are put back "
        "when the agent stops.\n\nExit code: 0 stopped by SIGTERM; 1 not everything could be put "
        "back; 3 the agent cannot work; the message says why.",
        formatter_class=arguments.HelpFormatter,
    )
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        help="configuration file with the groups [agent] and [nova_perf_tuning]; may be repeated "
        f"(default: {opts.CONFIG} if it exists and --sysroot is not given)",
    )
    parser.add_argument(
        "--sysroot",
        metavar="DIR",
        default="/",
        help="root of a generated host, a synthetic tree of /proc and /sys (default: /, this host)",
    )
    parser.add_argument(
        "--observe",
        action="store_true",
        help="write nothing, whatever [agent] mode says, and report what would be written",
    )
    parser.add_argument("--debug", action="store_true", help="log more, and show tracebacks")
    arguments.strict(parser)
    return parser


def run(
    root: str, config_files: Sequence[str], notifier: state.Notifier, *, observe: bool = False
) -> int:
    """Keep the host below ``root`` until asked to stop, and return the exit code.

    :param config_files: the configuration; none: the default file if it is there and this host is
        meant.
    :param observe: write nothing, whatever the configuration says.
    :raises PerfTuningError: it cannot work.
    """
    conf = opts.load(config_files or opts.default_files(root))
    privileged.require(root)
    live = os.path.realpath(root) == "/"
    options, run_dir, state_dir = conf.agent, conf.agent.run_dir, conf.nova_perf_tuning.state_dir
    sysroot = state_sysroot = ""
    if not live:  # the defaults are of the live host
        reader.open_root(root)  # which refuses what is no recorded host
        if run_dir == state.RUN_DIR:
            sysroot = os.path.realpath(root)
            run_dir = os.path.join(sysroot, state.RUN_DIR.lstrip("/"))
        if state_dir == f"/{STATE_DIR}":
            state_dir, state_sysroot = default_state_dir(root), os.path.realpath(root)
    try:
        atomic_write.make_directory(run_dir, inside=sysroot)  # its files are for everybody to read
    except OSError as error:
        raise errors.PerfTuningError(
            f"{run_dir}: {error.strerror}: name another directory with [agent] run_dir"
        ) from None
    journal = journal_session.JournalSession(state_dir, root)
    cpus = options.housekeeping and novaconf.parse_cpu_spec(
        options.housekeeping, "[agent] housekeeping"
    )
    host = reconcile.TunedHost(
        root, options.nova_config, cpus, options.rps, options.leave_interrupts
    )
    host.kinds()  # finding the installed kinds takes long: not while a guest waits
    daemons = findings.CompetingDaemons("/" if live else root)
    limit, poller = (
        rewrite_limit.RewriteLimit(options.rewrite_limit),
        sources.Poller(root, host.nova_files),
    )
    is_observer = observe or options.mode == "observe"
    reconciler: reconcile.Reconciler
    with contextlib.ExitStack() as stack:
        if is_observer:
            changes = forecast.Forecast(state_dir, state_sysroot)
            reconciler = Observer(host, journal, limit, changes, extra=daemons.ban)
        else:
            memory = refusals.RefusalMemory(root)
            reconciler = reconcile.Reconciler(
                host, journal, limit, extra=daemons.ban, memory=memory
            )
            stack.enter_context(journal.agent())
        own: own_cpus.OwnCpus | None = None
        if live and not is_observer:
            own = own_cpus.OwnCpus()
        agent = service.Service(
            reconciler, poller, options, run_dir, daemons, notifier, sysroot, own
        )
        stack.callback(agent.close)
        for source in _sources(root, live):
            agent.add(source)
        agent.catch_signals()
        stack.callback(state.remove, run_dir, sysroot)
        if options.metrics_port:
            stack.callback(_metrics(agent, conf))
        agent.run()
        if is_observer:
            LOG.info("stopped; nothing was written")
            return errors.ExitCode.PASS
        return _end(reconciler, options.on_stop)


def _sources(root: str, live: bool) -> Iterator[sources.Source]:
    """Make the sources of events.

    Sources that this kernel or container lacks are passed over; the timers remain.
    """
    makers: list[tuple[str, Callable[[], sources.Source]]] = [
        ("files", lambda: sources.GuestWatch(root))
    ]
    if live:
        makers += [("links", sources.links), ("uevents", sources.uevents)]
    for name, make in makers:
        try:
            yield make()
        except OSError as error:
            LOG.warning(
                "events of %s: %s: such changes are found by the timers",
                name,
                error.strerror or error,
            )


def _metrics(agent: service.Service, conf: cfg.ConfigOpts) -> Callable[[], None]:
    """Start to answer Prometheus and return what ends it."""
    try:
        from nova_perf_tuning.agent import metrics  # prometheus_client is an extra
    except ImportError:
        raise errors.PerfTuningError(
            "[agent] metrics_port needs the package prometheus_client: pip install 'nova-perf-tuning[agent]'"
        ) from None
    file = conf.nova_perf_tuning.result_file
    return metrics.serve(agent, conf.agent.metrics_address, conf.agent.metrics_port, file)


def _end(reconciler: reconcile.Reconciler, on_stop: str) -> int:
    if on_stop != "restore":
        LOG.info("stopped; everything stays as placed, 'nova-perf restore' undoes it")
        return errors.ExitCode.PASS
    restored, exit_code = 0, errors.ExitCode.PASS
    for restoration in reconciler.restore():
        entry, result = restoration.entry, restoration.result
        if result in KEPT:
            LOG.warning(
                "%s %s: %s: %s", entry.kind, entry.target, result.value, restoration.detail
            )
            exit_code = errors.ExitCode.FAIL
        elif result is RestoreResult.RESTORED:
            restored += 1
    LOG.info("stopped; %d originals put back", restored)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
