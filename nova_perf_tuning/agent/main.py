"""``nova-perf-agent``: keeps this host tuned for its guests.

Signals are caught before the slow imports, which come with :mod:`nova_perf_tuning.agent.run`.
"""

from __future__ import annotations

import argparse
import logging
import sys
import traceback
from collections.abc import Sequence

from nova_perf_tuning import errors
from nova_perf_tuning.agent import starting
from nova_perf_tuning.conf import default


def main(argv: Sequence[str] | None = None) -> int:
    """Run the agent and return its exit code: 0 when it was asked to stop, 3 when it cannot work."""
    signals = starting.Signals()
    notes = starting.Notes()
    try:
        return _main(argv, signals, notes)
    except SystemExit as end:  # of the command line
        if end.code:
            notes.put_off_next_start("wrong usage", signals)
        raise
    except Exception as error:
        if not notes.may_put_off(signals):
            raise
        traceback.print_exc()
        ended = notes.put_off_next_start(f"{type(error).__name__}: {error}", signals)
        return int(errors.ExitCode.PASS if ended else errors.ExitCode.FAIL)


def _main(argv: Sequence[str] | None, signals: starting.Signals, notes: starting.Notes) -> int:
    args = _parser().parse_args(argv)
    if args.once:
        signals.release()  # a person waits for it
    logging.basicConfig(
        stream=sys.stderr, level=logging.DEBUG if args.debug else logging.INFO, format="%(levelname)s %(message)s"
    )
    from nova_perf_tuning.agent import run  # takes longer than all before it

    try:
        return run.run(args, signals, notes)
    except (errors.PerfTuningError, OSError) as error:
        if args.debug:
            raise
        text = " ".join(str(error).split())
        print(f"nova-perf-agent: {text}", file=sys.stderr, flush=True)
        if notes.put_off_next_start(text, signals):
            return int(errors.ExitCode.PASS)
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
        help="read [agent] and [nova_perf_tuning] of FILE; may be repeated "
        f"(default: {default.CONFIG} if it is there and --sysroot is not given)",
    )
    parser.add_argument(
        "--sysroot", metavar="DIR", default="/", help="root of a generated host's files instead of this host"
    )
    parser.add_argument("--once", action="store_true", help="make one pass, say what was done and end")
    parser.add_argument("--debug", action="store_true", help="log more, and show tracebacks")
    return parser


if __name__ == "__main__":
    sys.exit(main())
