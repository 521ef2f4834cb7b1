"""``--junit``: verdicts for CI."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence

from nova_perf_tuning import atomic_write
from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.measure import model, store
from nova_perf_tuning.validation.report import junit, text

_UNFINISHED = "the command did not come to a verdict; see what it printed"


def add(parser: argparse.ArgumentParser) -> None:
    """Add ``--junit``."""
    parser.add_argument(
        "--junit",
        metavar="FILE",
        help="write JUnit XML for CI: a test case for each budget; FAIL is a failure, INVALID an error,"
        " INCONCLUSIVE skipped",
    )


def check_output(path: str, results: str) -> None:
    """Refuse a file that cannot be written.

    :param results: the file that is read; empty: none.
    :raises atomic_write.OutputError: no file can be there, or it would take the place of the results.
    """
    atomic_write.check(path)
    if results and os.path.realpath(path) == os.path.realpath(results):
        raise atomic_write.OutputError(f"{path}: this command reads that file; give another one")


def begin(args: argparse.Namespace, results: str = "") -> None:
    """Leave no verdict of an earlier run: until :func:`write` the file has an error.

    :param results: as for :func:`check_output`, which this raises the errors of.
    """
    if args.junit is not None:
        check_output(args.junit, results)
        store.write_atomically(args.junit, junit.junit(model.Results({}, []), [], _UNFINISHED))


def write(
    args: argparse.Namespace, results: model.Results, judged: Sequence[verdict.Judgement], unjudged: str = ""
) -> None:
    """Write the file if it was asked for.

    :param unjudged: why no budget applies, if so.
    :raises OSError: it cannot be written.
    """
    if args.junit is not None:
        unjudged = (unjudged or text.NO_BUDGET) if args.budget else "no budget was given; give one with --budget"
        store.write_atomically(args.junit, junit.junit(results, judged, unjudged))
