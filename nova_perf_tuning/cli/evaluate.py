"""``nova-perf evaluate``: a verdict from recorded samples alone."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nova_perf_tuning.cli import budget_options, command, export_options

if TYPE_CHECKING:
    from xml.etree import ElementTree

    from nova_perf_tuning.budget import budget_file, model
    from nova_perf_tuning.budget import verdict as judging
    from nova_perf_tuning.cloud import fleet

_SHIPPED = "default"

_Floors = Sequence[Mapping[str, Any]]


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
            default=_SHIPPED,
            help=f"overhead budgets (YAML); '{_SHIPPED}' (the default) takes those shipped with this program",
        )
        budget_options.add(parser)
        export_options.add(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        from nova_perf_tuning.budget import budget_file

        export_options.begin(args, len(args.results))

        budgets = budget_file.load(args.budget)
        floors = budget_options.floors(args)
        if len(args.results) > 1:
            return _judge_files(args, budgets, floors)
        results = _read(args.results[0], args, floors)
        if "fleet" in results.environment:
            return _judge_fleet(args, results, budgets)
        return _judge_host(args, results, budgets)


def _read(path: str, args: argparse.Namespace, floors: _Floors) -> model.Results:
    """Return the results in a file with what the command line says of the host.

    :param floors: of the noise file.
    :raises schema.InputError: unreadable, or no results.
    """
    from nova_perf_tuning.budget import store

    return budget_options.applied(store.load(path), path, args, floors, "nova-perf evaluate")


def _judge_host(args: argparse.Namespace, results: model.Results, budgets: Sequence[budget_file.Budget]) -> int:
    """Print the verdict on one host with what to do and return the exit code."""
    from nova_perf_tuning.budget import ablation, budget_file, diagnosis, verdict
    from nova_perf_tuning.cli import figures

    judged = verdict.judge_all(results, budgets)
    whole = verdict.overall(judged)
    told = diagnosis.diagnose(results, judged)
    left_out = verdict.left_out(results, budgets)
    unjudged = "" if judged else budget_file.why_none(budgets, results)
    export_options.write(args, results, judged, unjudged=unjudged)
    if args.format == "json":
        found = [dataclasses.asdict(one) for one in judged]
        knobs = [dataclasses.asdict(one) for one in ablation.judge(results, budgets)]
        summed: dict[str, Any] = {"verdict": whole.value, "culprit": told.culprit if told else ""}
        summed |= {"judgements": found, "left_out": left_out, "findings": diagnosis.spoilt(results)}
        command.print_json(summed | ({"knobs": knobs} if knobs else {}))
    else:
        figures.print_findings(results)
        figures.print_verdicts(judged)
        figures.print_ablation(ablation.judge(results, budgets))
        if unjudged:
            command.say(unjudged)
        figures.print_left_out(left_out)
        if told is not None:
            figures.print_diagnosis(told)
        print(f"\n{whole.value}")
    return int(whole.exit_code)


@dataclasses.dataclass(frozen=True, slots=True)
class _File:
    """What became of one of several files.

    :ivar why: the reason that decided, or what is wrong with the file.
    :ivar findings: where guests are not what was asked for; :ivar suite: for JUnit, if that was asked for.
    """

    path: str
    verdict: judging.Verdict
    why: str
    suite: ElementTree.Element | None
    judgements: Sequence[judging.Judgement] = ()
    hosts: Sequence[fleet.HostVerdict] = ()
    findings: Sequence[str] = ()

    def as_data(self) -> dict[str, Any]:
        data: dict[str, Any] = {"file": self.path, "verdict": self.verdict.value, "why": self.why}
        data["judgements"] = list(map(dataclasses.asdict, self.judgements))
        data["findings"] = list(self.findings)
        return data | ({"hosts": list(map(host_data, self.hosts))} if self.hosts else {})


def _judge_files(args: argparse.Namespace, budgets: Sequence[budget_file.Budget], floors: _Floors) -> int:
    """Print a row for each file and return the exit code of the worst."""
    from nova_perf_tuning.budget import exports, store, verdict
    from nova_perf_tuning.cli import figures

    files = [_judge_file(path, args, budgets, floors) for path in args.results]
    whole = verdict.worst(one.verdict for one in files)
    if args.junit is not None:
        store.write_atomically(
            args.junit, exports.junit_document([one.suite for one in files if one.suite is not None])
        )
    if args.format == "json":
        command.print_json({"verdict": whole.value, "files": [one.as_data() for one in files]})
    else:
        for one in files:
            for finding in one.findings:
                command.say(f"warning: {one.path}: guests of {finding}")
        figures.print_files([(one.path, one.verdict, one.why) for one in files], whole)
    return int(whole.exit_code)


def _judge_file(
    path: str, args: argparse.Namespace, budgets: Sequence[budget_file.Budget], floors: _Floors
) -> _File:
    from nova_perf_tuning.budget import model, schema, verdict

    try:
        return _judged_file(path, args, budgets, floors)
    except schema.InputError as error:
        wrong = str(error).removeprefix(f"{path}: ")
        return _File(path, verdict.Verdict.INVALID, wrong, _suite(args, path, model.Results({}, []), [], wrong))


def _judged_file(
    path: str, args: argparse.Namespace, budgets: Sequence[budget_file.Budget], floors: _Floors
) -> _File:
    from nova_perf_tuning.budget import budget_file, diagnosis, fleet_diagnosis, verdict, wording

    results = _read(path, args, floors)
    if "fleet" in results.environment:
        from nova_perf_tuning.cloud import fleet_file  # SQLAlchemy comes with it

        results, hosts = fleet_file.judged_again(results, budgets)
        whole = verdict.Verdict(results.environment["fleet"]["verdict"])
        fleet = fleet_diagnosis.diagnose(results.environment)
        told = "" if fleet is None else fleet.sentence.partition(": ")[2]
        told = "; ".join(filter(None, [told, *verdict.left_out(results, budgets)]))
        suite = _suite(args, path, results, [], wording.NO_BUDGET)
        return _File(path, whole, told, suite, hosts=hosts, findings=diagnosis.spoilt(results))
    judged = verdict.judge_all(results, budgets)
    whole = verdict.overall(judged)
    advice = diagnosis.diagnose(results, judged)
    why = budget_file.why_none(budgets, results) if advice is None else advice.sentence.partition(": ")[2]
    suite = _suite(args, path, results, judged, why)
    why = "; ".join([why, *verdict.left_out(results, budgets)])
    return _File(path, whole, why, suite, judged, findings=diagnosis.spoilt(results))


def _suite(
    args: argparse.Namespace,
    path: str,
    results: model.Results,
    judged: Sequence[judging.Judgement],
    unjudged: str,
) -> ElementTree.Element | None:
    """Return what JUnit gets of a file, None if it was not asked for."""
    from nova_perf_tuning.budget import exports

    return exports.junit_suite(results, judged, unjudged, name=path) if args.junit is not None else None


def _judge_fleet(args: argparse.Namespace, results: model.Results, budgets: Sequence[budget_file.Budget]) -> int:
    """Print the verdict on every host of a fleet and return the exit code."""
    from nova_perf_tuning.budget import diagnosis, fleet_diagnosis, verdict
    from nova_perf_tuning.cli import figures
    from nova_perf_tuning.cloud import fleet, fleet_file

    told, hosts = fleet_file.judged_again(results, budgets)
    judged = fleet.overall(hosts)
    whole = verdict.Verdict(told.environment["fleet"]["verdict"])
    left_out = verdict.left_out(results, budgets)
    export_options.write(args, told, [])
    if args.format == "json":
        found = list(map(host_data, hosts))
        advice = fleet_diagnosis.diagnose(told.environment)
        summed: dict[str, Any] = {"verdict": whole.value, "culprit": advice.culprit if advice else ""}
        summed |= {"judgements": [], "left_out": left_out}
        summed |= {"findings": diagnosis.spoilt(results)}
        command.print_json(summed | {"hosts": found})
    else:
        figures.print_findings(results)
        figures.print_hosts(hosts, judged)
        figures.print_fleet_diagnosis(told)
        figures.print_left_out(left_out)
        if judged is None:
            print(f"no budget applies to what was measured, and its hosts could not be compared\n\n{whole.value}")
    return int(whole.exit_code)


def host_data(host: fleet.HostVerdict) -> dict[str, Any]:
    """Return the verdict on a host of a fleet as JSON output has it."""
    return {**host.as_data(), "judgements": list(map(dataclasses.asdict, host.judgements))}
