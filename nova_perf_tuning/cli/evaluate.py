# SPDX-License-Identifier: Apache-2.0
"""``nova-perf evaluate``: a verdict from recorded samples alone."""

import argparse
import contextlib
import dataclasses
import os
from collections.abc import Sequence

from nova_perf_tuning import atomic_write
from nova_perf_tuning.cli import command, options, result_tables
from nova_perf_tuning.validation.cloud import fleet
from nova_perf_tuning.validation.environment import Environment
from nova_perf_tuning.validation.judge import ablation, budget_file, verdict
from nova_perf_tuning.validation.measure import model, store
from nova_perf_tuning.validation.measure.reasons import Reason
from nova_perf_tuning.validation.report import data, junit, text


class Evaluate(command.PerfCommand):
    """Judge recorded results by overhead budgets; nothing is run.

    Results of a run over many hosts are judged host by host, as the run itself did.

    Exit code: 0 PASS (all intervals inside their budgets), 1 FAIL (one wholly outside), 2 INCONCLUSIVE (more
    trials are needed), 3 INVALID or error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(parser, "results", "RESULTS.json", "what 'nova-perf validate' wrote")
        budgets = f"overhead budgets (YAML; default: '{budget_file.SHIPPED}', those shipped with this program)"
        options.add(parser, "--budget", "FILE", budgets, default=budget_file.SHIPPED)
        add_places(parser)
        add_junit(parser)

    def take_action(self, args: argparse.Namespace) -> int:
        with JunitFile(args.junit, args.results) as junit_file:
            return self._judge(args, junit_file)

    def _judge(self, args: argparse.Namespace, junit_file: "JunitFile") -> int:
        budgets = budget_file.load(args.budget)
        results = store.load(args.results)
        results.environment = results.environment.placed(args.host_group, args.flavor)
        left_out = budget_file.left_out(results, budgets)
        hosts, knobs = None, list[ablation.Knob]()
        no_verdict: Reason | None = None
        if results.environment.fleet is not None:
            results, many = fleet.judge(results, budgets)
            judged: Sequence[verdict.Judgement] = many.judgements
            whole, hosts = many.whole or verdict.Verdict.INVALID, many.hosts
        else:
            judged = verdict.judge_all(results, budgets)
            whole, knobs = verdict.overall(judged), ablation.judge(results, budgets)
            no_verdict = None if judged else budget_file.why_none(results)
        why = text.lines([no_verdict] if no_verdict else [])
        junit_file.write(results, judged, args.budget, why)
        if args.format == "json":
            shown = {"verdict": whole.value, **data.verdicts(results, judged, knobs)}
            shown |= data.lines("left_out", left_out) | data.line("why", [no_verdict])
            shown |= {} if hosts is None else {"hosts": list(map(dataclasses.asdict, hosts))}
            command.print_json(shown)
            return int(whole.exit_code)
        result_tables.print_findings(results)
        if hosts is None:
            result_tables.print_verdicts(judged)
        else:
            result_tables.print_hosts(hosts)
        result_tables.print_ablation(knobs)
        if why:
            command.say(why)
        command.say(*map(text.of, left_out), prefix="note: ")
        result_tables.print_diagnosis(results, judged)
        command.say("", f"{whole.value}")
        return int(whole.exit_code)


def add_places(parser: argparse.ArgumentParser, *, flavor: bool = True) -> None:
    group = "group of hosts that this one belongs to, for budgets with 'host_group'; recorded in the results"
    options.add(parser, "--host-group", "NAME", group)
    if flavor:
        options.add(parser, "--flavor", "NAME", "flavor that is judged, for budgets with 'flavor'")


def add_junit(parser: argparse.ArgumentParser) -> None:
    cases = "a test case for each budget; FAIL is a failure, INVALID an error, INCONCLUSIVE skipped"
    options.add(parser, "--junit", "FILE", f"write JUnit XML for CI: {cases}")


def check_output(path: str, results: str) -> None:
    """Refuse a file that cannot be written or that is ``results``, which is read; empty: there are none."""
    atomic_write.check(path)
    if results and os.path.realpath(path) == os.path.realpath(results):
        raise atomic_write.OutputError(f"{path}: this command reads that file; give another one")


class JunitFile(contextlib.AbstractContextManager["JunitFile"]):
    """The JUnit XML that a command was asked for, in a directory that is open from the beginning to the end.

    Until :meth:`write` the file has an error, so that no verdict of an earlier run stays.

    :param path: None: there is none, and nothing is written.
    :param results: a file that the command reads, and that it must not be; empty: it reads none.
    """

    def __init__(self, path: str | None, results: str = "") -> None:
        self._path = path
        self._directory: atomic_write.Directory | None = None
        if path is not None:
            check_output(path, results)
            self._directory = atomic_write.open_directory(os.path.dirname(os.path.abspath(path)))
            unfinished = "the command did not come to a verdict; see what it printed"
            self._write(model.Results(Environment(), []), [], unfinished)

    def __exit__(self, *exc: object) -> None:
        if self._directory is not None:
            self._directory.close()

    def write(
        self,
        results: model.Results,
        judged: Sequence[verdict.Judgement],
        budget: str | None,
        unjudged: str = "",
    ) -> None:
        """Write the verdicts; ``unjudged``: why no budget of the file ``budget`` applies, if so."""
        why = (unjudged or text.NO_BUDGET) if budget else "no budget was given; give one with --budget"
        self._write(results, judged, why)

    def _write(self, results: model.Results, judged: Sequence[verdict.Judgement], why: str) -> None:
        if self._path is not None:
            store.write_atomically(self._path, junit.junit(results, judged, why), self._directory)
