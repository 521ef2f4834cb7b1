"""Options that write results and verdicts for other programs: CI, spreadsheets, Prometheus."""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from nova_perf_tuning import whole_file

if TYPE_CHECKING:
    from nova_perf_tuning.budget import model, verdict

_FILES = {
    "junit": "JUnit XML for CI: a test case for each budget; FAIL is a failure, INVALID an error, INCONCLUSIVE"
    " skipped; of several results files a suite for each",
    "csv": "CSV: a row for each figure of each trial of one results file",
    "prometheus": "medians, ratios and verdicts of one results file for the textfile collector of Prometheus'"
    " node exporter (FILE.prom)",
}


def add(parser: argparse.ArgumentParser) -> None:
    """Add ``--junit``, ``--csv`` and ``--prometheus``."""
    for name, text in _FILES.items():
        parser.add_argument(f"--{name}", metavar="FILE", help=f"write {text}")


def check(args: argparse.Namespace, inputs: int = 1, made: Sequence[str] = ()) -> None:
    """Find out before anything is measured that a file could not be written, or would take another one's place.

    :param inputs: how many results files there are; :param made: what else the command writes.
    :raises whole_file.OutputError: a folder is missing, something else than a file is there, several results
        would go into one table, or one file would take the place of another or of what is read.
    """
    read = _read(args)
    for path in made:
        if any(_same(path, other) for other in read):
            raise whole_file.OutputError(f"{path}: it is what is read, and would be written; give another place")
    taken = dict.fromkeys(read, "it is what is read") | dict.fromkeys(made, "results or the report go there")
    for name, path in _wanted(args).items():
        if inputs > 1 and name != "junit":
            raise whole_file.OutputError(f"--{name} is made of one results file, and {inputs} were given")
        whole_file.check(path)
        why = next((why for other, why in taken.items() if _same(path, other)), None)
        if why is not None:
            raise whole_file.OutputError(f"--{name} {path}: {why}; give another file")
        taken[path] = f"--{name} writes it"


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
    from nova_perf_tuning.budget import counted, exports, store, summary, wording

    limits = counted.limits([one.budget for one in judged])
    unjudged = (unjudged or wording.NO_BUDGET) if args.budget else "no budget was given; give one with --budget"
    summaries = functools.cache(lambda: summary.summarise(results, limits=limits))
    uncounted = functools.cache(lambda: exports.left_out(results, summaries(), judged, limits))
    made: dict[str, Callable[[], str]] = {
        "junit": lambda: exports.junit(results, judged, unjudged, recorded=recorded),
        "csv": lambda: exports.table(results, uncounted()),
        "prometheus": lambda: exports.prometheus(results, summaries(), judged, uncounted(), recorded=recorded),
    }
    wanted = _wanted(args)
    for name, path in wanted.items():
        store.write_atomically(path, made[name]())
    return list(wanted.values())


@contextlib.contextmanager
def withdrawn_on_error(args: argparse.Namespace) -> Iterator[None]:
    """Leave no verdict of an earlier run where the block ends by an error: the JUnit file gets it, the others go.

    To be used behind :func:`check`, which sees that no other file is in their place.
    """
    try:
        yield
    except BrokenPipeError:  # who reads the output has gone, the files are written
        raise
    except BaseException as error:
        _withdraw(args, " ".join(str(error).split()) or type(error).__name__)
        raise


def _withdraw(args: argparse.Namespace, why: str) -> None:
    from nova_perf_tuning.budget import exports, model, store

    for name, path in _wanted(args).items():
        with contextlib.suppress(OSError, whole_file.OutputError):  # what went wrong before is what is told
            os.unlink(path)
        if name == "junit":
            with contextlib.suppress(OSError, whole_file.OutputError):
                store.write_atomically(path, exports.junit(model.Results({}, []), [], why))


def _read(args: argparse.Namespace) -> list[str]:
    """Return the files that a command reads or keeps.

    :raises nova_perf_tuning.errors.PerfTuningError: the database of runs is no URL, or its extra is missing.
    """
    found: list[str] = []
    for name in ("results", "budget", "noise_file", "bare_host"):
        given = getattr(args, name, None) or []
        found += [given] if isinstance(given, str) else given
    history, database = getattr(args, "history", None), getattr(args, "database", None)
    if database or history is not None and history is not False or getattr(args, "launcher", None) == "heat":
        from nova_perf_tuning.database import engine

        kept = engine.file_of(database or (history if isinstance(history, str) else None))
        found += [] if kept is None else [kept]
    return found


def _same(path: str, other: str) -> bool:
    """Return whether two names are of one file, or will be."""
    try:
        return os.path.samefile(path, other)
    except OSError:
        return os.path.realpath(path) == os.path.realpath(other)


def _wanted(args: argparse.Namespace) -> dict[str, str]:
    return {name: path for name in _FILES if (path := getattr(args, name)) is not None}
