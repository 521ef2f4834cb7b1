# SPDX-License-Identifier: Apache-2.0
"""Options of commands that judge results, and the files that they name."""

import argparse
import contextlib
import os
import re
from collections.abc import Sequence

from nova_perf_tuning import atomic_write
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.validation.judge import budget_file, host_results, verdict
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import junit, text
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Environment


def add_host_group(parser: argparse.ArgumentParser) -> None:
    options.add(
        parser,
        "--host-group",
        "NAME",
        "group that this host belongs to, for budgets with 'host_group'; recorded in the results",
    )


def add_flavor(parser: argparse.ArgumentParser) -> None:
    options.add(parser, "--flavor", "NAME", "name of the flavor, to match 'flavor' in the budgets")


def add_junit(parser: argparse.ArgumentParser) -> None:
    options.add(
        parser,
        "--junit",
        "FILE",
        "write JUnit XML for CI: a test case for each budget; FAIL is a failure, INVALID an error, "
        "INCONCLUSIVE skipped",
    )


def budget_files(path: str | None) -> list[str]:
    """Return the budget file that a command reads: none without ``--budget``, and for the shipped ones."""
    if path is None or path == budget_file.SHIPPED:
        return []
    return [path]


class JunitFile(contextlib.AbstractContextManager["JunitFile"]):
    """The JUnit XML that a command was asked for, in a directory that is open from the beginning to the end.

    Until :meth:`write` the file has an error, so that no verdict of an earlier run stays; where the
    command ends with one, it is that one.

    :param path: None: there is none, and nothing is written. :func:`.options.output.check` has
        checked it, and it is written at once.
    """

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._directory: atomic_write.Directory | None = None
        self._written = False
        if path is not None:
            atomic_write.check(path)
            self._directory = atomic_write.open_directory(os.path.dirname(os.path.abspath(path)))
            unfinished = "the command did not come to a verdict; see what it printed"
            self._write(model.Results(Environment(), []), [], unfinished)

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._directory is None:
            return
        try:
            if isinstance(error, Exception) and not self._written:
                line = command.error_line(error, "nova-perf")
                self._write(model.Results(Environment(), []), [], line)
        finally:
            self._directory.close()

    def write(
        self,
        results: model.Results,
        judged: Sequence[verdict.Judgement],
        budget: str | None,
        unjudged: str = "",
    ) -> None:
        """Write the verdicts; ``unjudged``: why no budget of the file ``budget`` applies, if so."""
        why = "no budget was given; give one with --budget"
        if budget:
            why = unjudged or text.NO_BUDGET
        self._write(results, judged, why)
        self._written = True

    def _write(
        self, results: model.Results, judged: Sequence[verdict.Judgement], why: str
    ) -> None:
        if self._path is not None:
            results_file.write_atomically(
                self._path, junit.junit(results, judged, why), self._directory
            )


def read(args: argparse.Namespace) -> host_results.HostResults:
    """Return the verdicts in RESULT, by the budgets that were given."""
    if not args.budget:
        return host_results.read(args.result)
    name, _extension = os.path.splitext(os.path.basename(args.budget))
    if not re.fullmatch(vocabulary.NAME_PATTERN, name):
        name = ""
    budgets = budget_file.load(args.budget)
    return host_results.read(args.result, budgets, name, (args.host_group, args.flavor))
