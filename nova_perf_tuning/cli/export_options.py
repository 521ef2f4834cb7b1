"""Options that write results and verdicts for other programs: CI, spreadsheets, Prometheus."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nova_perf_tuning import whole_file

if TYPE_CHECKING:
    from nova_perf_tuning.budget import model, verdict

_FILES = {
    "junit": "JUnit XML for CI: a test case for each budget; FAIL is a failure, INVALID an error, INCONCLUSIVE"
    " skipped",
    "csv": "CSV: a row for each figure of each trial",
    "prometheus": "medians, ratios and verdicts for the textfile collector of Prometheus' node exporter"
    " (FILE.prom)",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add ``--junit``, ``--csv`` and ``--prometheus``."""
    for name, text in _FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=f"write {text}")


def check(args: argparse.Namespace, inputs: int = 1) -> None:
    """Find out before anything is measured that a file could not be written.

    :param inputs: how many results files there are.
    :raises whole_file.OutputError: a folder is missing, something else than a file is there, or several results
        would go into one file.
    """
    for name, path in _wanted(args).items():
        if inputs > 1:
            raise whole_file.OutputError(f"--{name} is made of one results file, and {inputs} were given")
        whole_file.check(path)


def write(
    args: argparse.Namespace,
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    *,
    recorded: bool = False,
) -> list[str]:
    """Write the files that were asked for and return their paths.

    :param recorded: verdicts on hosts of a fleet are those of the file, not judged again.
    :raises OSError: one cannot be written.
    """
    from nova_perf_tuning.budget import exports, store, summary, wording

    unjudged = wording.NO_BUDGET if args.budget else "no budget was given; give one with --budget"
    made: dict[str, Callable[[], str]] = {
        "junit": lambda: exports.junit(results, judged, unjudged, recorded=recorded),
        "csv": lambda: exports.table(results),
        "prometheus": lambda: exports.prometheus(results, summary.summarise(results), judged, recorded=recorded),
    }
    wanted = _wanted(args)
    for name, path in wanted.items():
        store.write_atomically(path, made[name]())
    return list(wanted.values())


def _wanted(args: argparse.Namespace) -> dict[str, str]:
    return {name: path for name in _FILES if (path := getattr(args, name)) is not None}
