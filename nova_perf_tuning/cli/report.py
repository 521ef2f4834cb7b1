# SPDX-License-Identifier: Apache-2.0
"""``nova-perf report``: the HTML report or a summary of recorded results."""

import argparse
import collections
import dataclasses
import os
from collections.abc import Callable, Sequence
from typing import Any

from nova_perf_tuning import atomic_write
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.cli.options import output
from nova_perf_tuning.cli.options import outputs as output_options
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.validation.judge import (
    ablation,
    budget_file,
    fleet,
    fleet_places,
    outputs,
    verdict,
)
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import ndjson, report, summary
from nova_perf_tuning.validation.results import messages, model, schema
from nova_perf_tuning.validation.results.reasons import Reason

#: A document of 1,000 hosts with many guests has 100 MB.
_MAX_AUDIT = 128 << 20


class Report(command.PerfCommand):
    """Make a report of recorded results: one self-contained HTML file.

    With --arm it reports output files of a benchmark instead, for arms that were measured
    elsewhere.

    With -f json the same figures are printed for programs. With -f json or --ndjson the
    HTML file is written only if -o is given.
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "results",
            metavar="RESULTS.json",
            nargs="?",
            help="results file written by 'nova-perf validate'",
        )
        parser.add_argument(
            "--audits",
            metavar="HOST.json",
            nargs="+",
            default=[],
            help="output of 'nova-perf audit -f json' to report instead of RESULTS.json: a file "
            "for each "
            "host, named after it, or one for many hosts",
        )
        output_options.add(parser)
        parser.add_argument(
            "-o",
            "--output",
            metavar="FILE",
            help="HTML file (default: report.html in the directory of the results; required with --arm)",
        )
        options.add(
            parser, "--budget", "FILE", "judge the results against these overhead budgets (YAML)"
        )
        options.add(
            parser,
            "--ndjson",
            "FILE",
            "write a JSON document for each trial, one per line, for OpenSearch and the like",
        )

    def take_action(self, args: argparse.Namespace) -> None:
        output_options.check(args, "audits")
        if args.audits:
            _check_audit_options(args)
            beside = os.path.join(os.path.dirname(args.audits[0]), "report.html")
            _report_audits(args.audits, args.output or beside)
            return
        if args.arm and args.ndjson is not None:
            raise options.OptionError(
                "--ndjson needs RESULTS.json: output files name no time and no host that "
                "distinguish trials"
            )
        path = args.output
        if path is None and args.format != "json" and args.ndjson is None:
            if args.arm:
                raise options.OptionError("--arm requires -o FILE, the report to write")
            path = os.path.join(os.path.dirname(args.results), "report.html")
        written = [file for file in (path, args.ndjson) if file is not None]
        arms = output_options.arms(args.arm)
        read = [args.results, *result_options.budget_files(args.budget)]
        read += arms.files
        output.check(written, read)
        for file in written:
            atomic_write.check(file)
        judged = _judged(args, arms)
        if path is not None:
            results_file.write_atomically(path, judged.html())
        if args.ndjson is not None:
            results_file.write_atomically(args.ndjson, judged.ndjson())
        if args.format == "json":
            command.print_json(judged.as_json())
        else:
            command.say(*written)


@dataclasses.dataclass(frozen=True, slots=True)
class _Judged:
    """Results and what is said of them.

    :ivar hosts: of a run over many hosts that was judged again.
    :ivar recorded: the verdicts on hosts are those in the file.
    :ivar files: what the files of arms say, if the results were made of them.
    """

    results: model.Results
    summaries: Sequence[summary.BenchmarkSummary]
    judgements: Sequence[verdict.Judgement] = ()
    knobs: Sequence[ablation.Knob] = ()
    hosts: fleet.FleetVerdict | None = None
    recorded: bool = False
    files: outputs.Outputs | None = None

    @property
    def notes(self) -> Sequence[Reason]:
        """Return what is to be known besides what results say."""
        if self.files is None:
            return ()
        return self.files.notes

    def as_json(self) -> dict[str, object]:
        document = report.as_json(
            self.results, self.summaries, self.judgements, self.knobs, self.notes
        )
        if self.hosts is not None:
            document["verdict"] = None
            if self.hosts.whole is not None:
                document["verdict"] = self.hosts.whole.value
            document["hosts"] = [dataclasses.asdict(host) for host in self.hosts.hosts]
        if self.files is not None:
            document["workload"] = self.files.workload
            document["remarks"] = list(self.files.remarks)
        return document

    def html(self) -> str:
        remarks: Sequence[str] = ()
        if self.files is not None:
            remarks = list(self.files.remarks)
        return report.render(
            self.results,
            self.summaries,
            self.judgements,
            self.knobs,
            recorded=self.recorded,
            more_notes=self.notes,
            remarks=remarks,
        )

    def ndjson(self) -> str:
        hosts_of: Callable[[model.Trial], tuple[str, str | None]] = self._only_host
        if self.results.environment.fleet is not None:
            hosts_of = fleet_places.Places(self.results.environment).ran_on
        judgements = self.judgements
        if self.hosts is not None:
            judgements = self.hosts.judgements
        budgets = [judgement.budget for judgement in judgements]
        excluded = summary.excluded(self.summaries)
        return "".join(ndjson.lines(self.results, excluded, hosts_of, budgets))

    def _only_host(self, _trial: model.Trial) -> tuple[str, str | None]:
        return self.results.environment.host, None


def _judged(args: argparse.Namespace, arms: output_options.Arms) -> _Judged:
    """Read the results, or the files of arms, and judge them by the budgets that were given."""
    budgets: list[budget_file.Budget] = []
    if args.budget:
        budgets = budget_file.load(args.budget)
    limits = budget_file.limits(budgets)
    files: outputs.Outputs | None = None
    if args.arm:
        files = outputs.read(args.benchmark, arms.checked())
        if files.mixed is not None:
            raise schema.InputError(messages.of(files.mixed))
        results = files.results
    else:
        results = results_file.load(args.results)
    if results.environment.fleet is None:
        return _Judged(
            results,
            summary.summarise(results, limits=limits),
            judgements=verdict.judge_all(results, budgets),
            knobs=ablation.judge(results, budgets),
            files=files,
        )
    if args.budget:  # judged again, host by host
        results, hosts = fleet.judge(results, budgets)
        return _Judged(results, summary.summarise(results, limits=limits), hosts=hosts)
    return _Judged(results, summary.summarise(results, limits=limits), recorded=True)


def _check_audit_options(args: argparse.Namespace) -> None:
    """Refuse options that say what is made of results: audits have one form, HTML."""
    given = []
    if args.format == "json":
        given.append("-f json")
    if args.budget is not None:
        given.append("--budget")
    if args.ndjson is not None:
        given.append("--ndjson")
    if given:
        raise options.OptionError(f"{', '.join(given)}: --audits gives only HTML; leave it out")


def _audits_in(file: str) -> list[tuple[str, Any]]:
    """Return host and audit of each host in a file; those that could not be read are warned of."""
    document = schema.load_json(file, _MAX_AUDIT)
    if not isinstance(document, dict) or "hosts" not in document:
        return [(_stem(file), document)]
    schema.check("hosts", document, file, "nova_perf_tuning.host.audit")
    found: list[tuple[str, Any]] = []
    for host in document["hosts"]:
        if "report" in host:
            found.append((host["host"], host["report"]))
        else:
            command.warn("nova-perf report", f"{host['host']} is left out: {host.get('error')}")
    return found


def _stem(file: str) -> str:
    """Return a file's name without its directory and .json."""
    return os.path.basename(file).removesuffix(".json")


def _report_audits(files: Sequence[str], path: str) -> None:
    output.check([path], files)
    atomic_write.check(path)
    found = [(file, host, audit) for file in files for host, audit in _audits_in(file)]
    times = collections.Counter(host for _file, host, _audit in found)
    audits: dict[str, Any] = {}
    for file, host, audit in found:
        name = host
        if times[host] > 1:  # such as before and after
            name = f"{host} ({_stem(file)})"
        if name in audits:
            raise options.OptionError(
                f"--audits {file}: '{host}' is given twice; give the files different names"
            )
        schema.check("report", audit, file, "nova_perf_tuning.host.audit")
        audits[name] = audit
    results_file.write_atomically(path, report.render_audits(audits))
    command.say(path)
