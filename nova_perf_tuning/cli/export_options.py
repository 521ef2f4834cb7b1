"""Options that write results and verdicts for other programs: CI, spreadsheets, Prometheus."""

from __future__ import annotations

import argparse
import contextlib
import os
from collections.abc import Sequence

from nova_perf_tuning import whole_file
from nova_perf_tuning.budget import exports, model, store, summary, text, trial_filter, verdict

_FILES = {
    "junit": "JUnit XML for CI: a test case for each budget; FAIL is a failure, INVALID an error, INCONCLUSIVE"
    " skipped",
    "csv": "CSV: a row for each figure of each trial",
    "prometheus": "medians, ratios and verdicts for the textfile collector of Prometheus'"
    " node exporter (FILE.prom)",
}
_UNFINISHED = "the command did not come to a verdict; see what it printed"


def add(parser: argparse.ArgumentParser) -> None:
    """Add ``--junit``, ``--csv`` and ``--prometheus``."""
    for name, form in _FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=f"write {form}")


def begin(args: argparse.Namespace, results: str = "", outputs: Sequence[str] = ()) -> None:
    """Refuse files that cannot be written, and leave no verdict of an earlier run.

    Until :func:`write` the JUnit file has an error, and the others are not there.

    :param results: the file that is read; :param outputs: other files that are written.
    :raises whole_file.OutputError: no file can be there, or it would take the place of the results.
    """
    wanted = _wanted(args)
    for path in (*outputs, *wanted.values()):
        whole_file.check(path)
        if results and os.path.realpath(path) == os.path.realpath(results):
            raise whole_file.OutputError(f"{path}: this command reads that file; give another one")
    for name, path in wanted.items():
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        if name == "junit":
            store.write_atomically(path, exports.junit(model.Results({}, []), [], _UNFINISHED))


def write(
    args: argparse.Namespace,
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    *,
    unjudged: str = "",
    recorded: bool = False,
) -> list[str]:
    """Write the files that were asked for and return their paths.

    :param unjudged: why no budget applies, if so.
    :param recorded: verdicts on hosts of a fleet are those of the file, not judged again.
    :raises OSError: one cannot be written.
    """
    wanted = _wanted(args)
    if "junit" in wanted:
        unjudged = (unjudged or text.NO_BUDGET) if args.budget else "no budget was given; give one with --budget"
        store.write_atomically(wanted["junit"], exports.junit(results, judged, unjudged, recorded=recorded))
    if wanted.keys() - {"junit"}:
        summaries = summary.summarise(results, limits=trial_filter.limits([one.budget for one in judged]))
        if "csv" in wanted:
            store.write_atomically(wanted["csv"], exports.table(results, summary.left_out(summaries)))
        if "prometheus" in wanted:
            gauges = exports.prometheus(results, summaries, judged, recorded=recorded)
            store.write_atomically(wanted["prometheus"], gauges)
    return list(wanted.values())


def _wanted(args: argparse.Namespace) -> dict[str, str]:
    return {name: path for name in _FILES if (path := getattr(args, name)) is not None}
