"""Options of commands that judge: which budgets apply to a host, and verdicts for CI."""

import argparse
import dataclasses
import os
from collections.abc import Sequence

from nova_perf_tuning import atomic_write
from nova_perf_tuning.validation.environment import Environment
from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.measure import model, store
from nova_perf_tuning.validation.report import junit, text

_UNFINISHED = "the command did not come to a verdict; see what it printed"


def add_places(parser: argparse.ArgumentParser, *, flavor: bool = True) -> None:
    """Add ``--host-group`` and ``--flavor``."""
    parser.add_argument(
        "--host-group",
        metavar="NAME",
        help="group of hosts that this one belongs to, for budgets with 'host_group'; recorded in the results",
    )
    if flavor:
        parser.add_argument("--flavor", metavar="NAME", help="flavor that is judged, for budgets with 'flavor'")


def with_places(results: model.Results, host_group: str | None, flavor: str | None) -> model.Results:
    """Return recorded results with what the command line says of their host."""
    before = results.environment
    host_group, flavor = host_group or before.host_group, flavor or before.flavor
    environment = dataclasses.replace(before, host_group=host_group, flavor=flavor)
    return dataclasses.replace(results, environment=environment)


def add_junit(parser: argparse.ArgumentParser) -> None:
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


def begin_junit(path: str | None, results: str = "") -> None:
    """Leave no verdict of an earlier run: until :func:`write_junit` the file has an error.

    :param results: as for :func:`check_output`, which this raises the errors of.
    """
    if path is not None:
        check_output(path, results)
        store.write_atomically(path, junit.junit(model.Results(Environment(), []), [], _UNFINISHED))


def write_junit(
    path: str | None,
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    budget: str | None,
    unjudged: str = "",
) -> None:
    """Write the file if it was asked for.

    :param budget: the budget file; :param unjudged: why no budget of it applies, if so.
    :raises OSError: it cannot be written.
    """
    if path is not None:
        why = (unjudged or text.NO_BUDGET) if budget else "no budget was given; give one with --budget"
        store.write_atomically(path, junit.junit(results, judged, why))
