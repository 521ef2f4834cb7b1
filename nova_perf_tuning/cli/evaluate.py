"""``nova-perf evaluate``: a verdict from recorded samples alone."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

from nova_perf_tuning.budget import (
    ablation,
    budget_file,
    diagnosis,
    exports,
    fleet_diagnosis,
    model,
    schema,
    store,
    text,
    wording,
)
from nova_perf_tuning.budget import verdict as judging
from nova_perf_tuning.cli import budget_options, command, export_options, figures
from nova_perf_tuning.cloud import fleet, rejudge

_Floors = Sequence[Mapping[str, Any]]
_Budgets = Sequence[budget_file.Budget]


class Evaluate(command.PerfCommand):
    """Judge recorded results by overhead budgets; nothing is run.

    Results of a run over many hosts are judged host by host, as the run itself did. Of several files each is
    judged by itself, with a row of its own; the verdict on all is the worst, and a file that is no results file
    is INVALID.

    Exit code: 0 PASS (all intervals inside their budgets), 1 FAIL (one wholly outside), 2 INCONCLUSIVE (more
    trials are needed), 3 INVALID or error.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "results", metavar="RESULTS.json", nargs="+", help="what 'nova-perf validate' wrote; one file or more"
        )
        parser.add_argument(
            "--budget",
            metavar="FILE",
            default=budget_file.SHIPPED,
            help=f"overhead budgets (YAML; default: '{budget_file.SHIPPED}', those shipped with this program)",
        )
        budget_options.add(parser)
        export_options.add(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        export_options.begin(args, args.results)
        budgets = budget_file.load(args.budget)
        floors = budget_options.floors(args)
        if len(args.results) > 1:
            return _judge_files(args, budgets, floors)
        return _judge_one(args, _judged(args.results[0], args, budgets, floors))


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    """What became of a results file.

    :ivar why: why nothing was judged, or what is wrong with the file; empty: something was.
    :ivar hosts: of a run over many; :ivar left_out: budgets that were not judged.
    """

    path: str
    verdict: judging.Verdict
    results: model.Results
    why: str = ""
    judgements: Sequence[judging.Judgement] = ()
    hosts: Sequence[fleet.HostVerdict] = ()
    advice: diagnosis.Diagnosis | None = None
    left_out: Sequence[str] = ()
    knobs: Sequence[ablation.Knob] = ()

    @property
    def findings(self) -> list[str]:
        """Return where guests are not what was asked for."""
        return diagnosis.spoilt(self.results)

    @property
    def told(self) -> str:
        """Return the reason that decided in one line."""
        why = self.why if self.advice is None else self.advice.sentence.partition(": ")[2]
        return "; ".join(filter(None, [why, *self.left_out]))

    def suite(self) -> ElementTree.Element:
        """Return it for JUnit."""
        return exports.junit_suite(self.results, self.judgements, self.why, name=self.path)

    def as_data(self) -> dict[str, Any]:
        """Return the verdict for JSON."""
        data: dict[str, Any] = {
            "verdict": self.verdict.value,
            "culprit": self.advice.culprit if self.advice else "",
        }
        data["judgements"] = list(map(text.judgement, self.judgements))
        data |= {"left_out": list(self.left_out), "findings": self.findings}
        if self.hosts:
            data["hosts"] = [host.as_data() for host in self.hosts]
        return data | ({"knobs": list(map(text.knob, self.knobs))} if self.knobs else {})


def _judged(path: str, args: argparse.Namespace, budgets: _Budgets, floors: _Floors) -> _File:
    """Return the verdict on a results file, with what the command line says of its host.

    :param floors: of the noise file.
    :raises schema.InputError: unreadable, or no results.
    """
    results = budget_options.applied(store.load(path), path, args, floors, "nova-perf evaluate")
    left_out = judging.left_out(results, budgets)
    if "fleet" in results.environment:
        results, judged_fleet = rejudge.judge(results, budgets)
        whole = judging.Verdict(results.environment["fleet"]["verdict"])
        return _File(
            path,
            whole,
            results,
            "" if judged_fleet.judgements else wording.NO_BUDGET,
            judged_fleet.judgements,
            hosts=judged_fleet.hosts,
            advice=fleet_diagnosis.diagnose(results.environment),
            left_out=left_out,
        )
    judged = judging.judge_all(results, budgets)
    return _File(
        path,
        judging.overall(judged),
        results,
        "" if judged else budget_file.why_none(budgets, results),
        judged,
        advice=diagnosis.diagnose(results, judged),
        left_out=left_out,
        knobs=ablation.judge(results, budgets),
    )


def _judge_one(args: argparse.Namespace, file: _File) -> int:
    """Print the verdict with what to do and return the exit code."""
    export_options.write(args, file.results, file.judgements, unjudged=file.why)
    if args.format == "json":
        command.print_json(file.as_data())
        return int(file.verdict.exit_code)
    figures.print_findings(file.results)
    if "fleet" in file.results.environment:
        figures.print_hosts(file.hosts, file.verdict)
        figures.print_fleet_diagnosis(file.results)
        figures.print_left_out(file.left_out)
        return int(file.verdict.exit_code)
    figures.print_verdicts(file.judgements)
    figures.print_ablation(file.knobs)
    if file.why:
        command.say(file.why)
    figures.print_left_out(file.left_out)
    if file.advice is not None:
        figures.print_diagnosis(file.advice)
    print(f"\n{file.verdict.value}")
    return int(file.verdict.exit_code)


def _judge_files(args: argparse.Namespace, budgets: _Budgets, floors: _Floors) -> int:
    """Print a row for each file and return the exit code of the worst; no results are kept."""
    rows, found, suites, warnings = [], [], [], []
    for path in args.results:
        try:
            file = _judged(path, args, budgets, floors)
        except schema.InputError as error:
            wrong = str(error).removeprefix(f"{path}: ")
            file = _File(path, judging.Verdict.INVALID, model.Results({}, []), wrong)
        rows.append((path, file.verdict, file.told))
        warnings += [f"warning: {path}: guests of {finding}" for finding in file.findings]
        if args.junit is not None:
            suites.append(file.suite())
        if args.format == "json":
            found.append({"file": path, "why": file.told, **file.as_data()})
    whole = judging.worst(verdict for _, verdict, _ in rows)
    if args.junit is not None:
        store.write_atomically(args.junit, exports.junit_document(suites))
    if args.format == "json":
        command.print_json({"verdict": whole.value, "files": found})
    else:
        for warning in warnings:
            command.say(warning)
        figures.print_files(rows, whole)
    return int(whole.exit_code)
