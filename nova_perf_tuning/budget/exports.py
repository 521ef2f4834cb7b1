"""Results and verdicts in the forms that other programs read: JUnit XML, CSV, Prometheus' textfile.

Everything in results is foreign text: what XML cannot hold is replaced, labels are escaped, and no cell of a table
begins like a formula.
"""

from __future__ import annotations

import collections
import csv
import dataclasses
import datetime
import io
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final
from xml.etree import ElementTree

from nova_perf_tuning.budget import (
    budget_labels,
    counted,
    diagnosis,
    guards,
    model,
    statistics,
    summary,
    verdict,
    wording,
)

#: What XML 1.0 has no character for.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: Verdict -> element of a test case: CI programs know failures, errors and what was skipped.
_OUTCOME: Final = {
    verdict.Verdict.FAIL: "failure",
    verdict.Verdict.INVALID: "error",
    verdict.Verdict.INCONCLUSIVE: "skipped",
}

_COLUMNS: Final = (
    "benchmark",
    "metric",
    "unit",
    "better",
    "primary",
    "arm",
    "group",
    "block",
    "order",
    "value",
    "error",
    "window_s",
    "guest_cpu_s",
    "wait_s",
    "work",
    "work_unit",
)
#: What guards look at; speeds of links are in a cell of their own, since hosts name links as they like.
_CONDITIONS: Final = (
    "steal_share",
    "steal_of_busy",
    "throttle_events",
    "mhz",
    "busy_mhz",
    "max_mhz",
    "sender_packets",
    "sender_dropped",
    "clock_step_s",
    "clocksource_changed",
)
_LINK: Final = "link:"
#: Attributes of a JUnit suite that several of them add up to.
_COUNTS: Final = ("tests", "failures", "errors", "skipped")
_CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "softirq")


@dataclasses.dataclass(frozen=True, slots=True)
class _Case:
    kind: str
    name: str
    verdict: verdict.Verdict
    why: str


def _cases(results: model.Results, judged: Sequence[verdict.Judgement], recorded: bool = False) -> list[_Case]:
    """Return a case for each budget that was judged, and for each host of a fleet."""
    found = []
    for one, labels in zip(judged, budget_labels.distinct([one.budget for one in judged]), strict=True):
        figure = f" {one.budget.metric}" if one.budget.metric else ""
        limits = (f", {key} {value or 'none'}" for key, value in labels.items() if key not in budget_labels.FIGURE)
        name = f"{one.budget.arm} against {one.budget.baseline}{figure}{''.join(limits)}"
        found.append(_Case(f"nova_perf.{one.budget.benchmark}", name, one.verdict, "; ".join(one.reasons)))
    for host in results.environment.get("fleet", {}).get("hosts", []):
        if host["verdict"] is not None:
            word = verdict.Verdict(host["verdict"])
            reasons = ["as recorded in the results, not judged again"] * recorded + host["reasons"]
            kind = "nova_perf.recorded_host" if recorded else "nova_perf.host"
            found.append(_Case(kind, host["host"], word, "; ".join(reasons)))
    return found


def junit(
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    unjudged: str = wording.NO_BUDGET,
    *,
    recorded: bool = False,
) -> str:
    """Return verdicts as a JUnit XML document, see :func:`junit_suite`."""
    return junit_document([junit_suite(results, judged, unjudged, recorded=recorded)])


def junit_document(suites: Sequence[ElementTree.Element]) -> str:
    """Return a JUnit XML document of one suite, or of several."""
    whole = suites[0]
    if len(suites) > 1:
        totals = {key: str(sum(int(one.get(key, "0")) for one in suites)) for key in _COUNTS}
        whole = ElementTree.Element("testsuites", {"name": "nova-perf", **totals})
        whole.extend(suites)
    ElementTree.indent(whole)
    return ElementTree.tostring(whole, encoding="unicode", xml_declaration=True) + "\n"


def junit_suite(
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    unjudged: str = wording.NO_BUDGET,
    *,
    recorded: bool = False,
    name: str = "nova-perf",
) -> ElementTree.Element:
    """Return verdicts as a suite of JUnit XML: a test case for each budget, and for each host of a fleet.

    FAIL is a failure, INVALID an error; INCONCLUSIVE is skipped, since nothing was shown (the exit code tells it).
    Where nothing was judged one test case is an error: CI programs show a suite without any as passed.

    What guests are that was not asked for stands in the output of each case.

    :param unjudged: why nothing was judged, if so.
    :param recorded: verdicts on hosts of a fleet are those of the file, and said to be.
    """
    seconds = sum({one.order: one.window_s for one in results.trials}.values())
    cases = _cases(results, judged, recorded)
    cases = cases or [_Case("nova_perf", "verdict", verdict.Verdict.INVALID, f"nothing was judged: {unjudged}")]
    counts = [_OUTCOME.get(one.verdict) for one in cases]
    found = ElementTree.Element(
        "testsuite",
        name=_xml(name),
        hostname=_xml(results.environment.get("host", "")),
        timestamp=_xml(results.environment.get("created", ""))[:19],
        tests=str(len(cases)),
        failures=str(counts.count("failure")),
        errors=str(counts.count("error")),
        skipped=str(counts.count("skipped")),
        time=f"{seconds:.3f}",
    )
    findings = [f"warning: guests of {line}" for line in diagnosis.spoilt(results)]
    for one in cases:
        case = ElementTree.SubElement(found, "testcase", classname=_xml(one.kind), name=_xml(one.name))
        if kind := _OUTCOME.get(one.verdict):
            ElementTree.SubElement(case, kind, message=f"{one.verdict.value}: {_xml(one.why)}")
        ElementTree.SubElement(case, "system-out").text = _xml("\n".join([one.why, *findings]))
    return found


def left_out(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    judged: Sequence[verdict.Judgement] = (),
    limits: guards.Limits | None = None,
) -> dict[guards.Run, str]:
    """Return run -> why, for each that does not count by itself, or in a comparison that is shown or judged.

    :param limits: of the guards where no budget is judged; None: the defaults.
    """
    known = limits or guards.Limits()
    found = counted.alone(results, known)
    of_arm: dict[tuple[str, str], list[model.Trial]] = {}
    for trial in results.trials:
        of_arm.setdefault((trial.benchmark, trial.arm), []).append(trial)
    shown = [
        verdict.Budget(one.label, pair.arm, 0.0, None, pair.baseline, guards=known)
        for one in summaries
        for pair in one.comparisons
    ]
    asked = {_compared(one): one for one in [*shown, *(judgement.budget for judgement in judged)]}
    for one in asked.values():
        trials = [
            trial
            for arm in (one.arm, one.baseline)
            for trial in of_arm.get((one.benchmark, arm), ())
            if trial.value is None or (trial.metric == one.metric if one.metric else trial.primary)
        ]
        faults = counted.faults(results, trials, one.guards, one.min_link_mbps, one.link)
        for run, why in faults.items():
            found.setdefault(run, f"{why} ({one.arm} against {one.baseline})")
    return found


def _compared(budget: verdict.Budget) -> tuple[object, ...]:
    """Return what decides which trials count for a budget."""
    figure = budget.benchmark, budget.metric, budget.arm, budget.baseline
    return *figure, budget.guards, budget.min_link_mbps, budget.link


def table(results: model.Results, uncounted: Mapping[guards.Run, str] | None = None) -> str:
    """Return the trials as CSV (RFC 4180): a row for each figure of each trial, in the order of time.

    :param uncounted: what :func:`left_out` says of them, for the column that tells it; None: by themselves, or in
        a comparison that a report shows, with the default limits of guards.
    """
    text = io.StringIO()
    writer = csv.writer(text)
    cpu = (f"host_cpu_s_{name}" for name in _CLASSES)
    conditions = (f"condition_{name}" for name in _CONDITIONS)
    writer.writerow([*_COLUMNS, *cpu, "host", "run", *conditions, "condition_links", "left_out"])
    if uncounted is None:
        uncounted = left_out(results, summary.summarise(results))
    hosts = _hosts(results.environment)
    whole = str(results.environment.get("host", ""))
    run = results.environment.get("fleet", {}).get("run") or results.environment.get("created", "")
    for one in sorted(results.trials, key=lambda one: one.order):
        cells = [getattr(one, name) for name in _COLUMNS]
        cells += [one.host_cpu_s.get(name) for name in _CLASSES]
        cells += [hosts.get(one.group, whole), str(run)]
        cells += [one.conditions.get(name) for name in _CONDITIONS]
        cells += [_links(one), uncounted.get(guards.run(one), "")]
        writer.writerow([_cell(value) for value in cells])
    return text.getvalue()


def _hosts(environment: Mapping[str, Any]) -> dict[int, str]:
    """Return group -> host of a run over many: a boot of a pair's guests is told by the host of its client."""
    pairs = environment.get("fleet", {}).get("pairs", [])
    found = {one["number"] + len(pairs): str(one["server"]) for one in pairs}
    return found | {one["number"]: str(one["client"]) for one in pairs}


def _links(trial: model.Trial) -> str:
    """Return ``eth0=25000 eth1=0``: links and their speeds in Mbit/s."""
    speeds = {name: mbps for name, mbps in trial.conditions.items() if name.startswith(_LINK)}
    return " ".join(f"{name.removeprefix(_LINK)}={mbps:.0f}" for name, mbps in sorted(speeds.items()))


def prometheus(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    judged: Sequence[verdict.Judgement],
    uncounted: Mapping[guards.Run, str] | None = None,
    *,
    recorded: bool = False,
) -> str:
    """Return medians, ratios and verdicts for the textfile collector of Prometheus' node exporter.

    :param uncounted: what :func:`left_out` says; None: with the default limits of guards.
    :param recorded: verdicts on hosts of a fleet are those of the file: they are a metric of their own.
    """
    gauges = _Gauges({"host": str(results.environment.get("host", ""))})
    uncounted = left_out(results, summaries, judged) if uncounted is None else uncounted
    measured = {guards.run(one) for one in results.trials if one.primary and one.value is not None}
    lost = collections.Counter((label, arm) for label, arm, _ in measured & uncounted.keys())
    for one in summaries:
        for arm in one.arms:
            labels = {"benchmark": one.label, "metric": one.metric, "unit": one.unit, "arm": arm.arm}
            gauges.add("median", "Median of a benchmark's figure.", labels, _value(arm.median))
            text = "Trials that do not count in some figure: a guard rejected them, alone or in a comparison."
            names = {"benchmark": one.label, "arm": arm.arm}
            gauges.add("trials_left_out", text, names, lost[one.label, arm.arm])
            work = {"benchmark": one.label, "work_unit": one.work_unit, "arm": arm.arm}
            cost = _value(arm.service_per_unit)
            gauges.add("service_cpu_seconds_per_unit", "Host CPU beside vCPUs per unit of work.", work, cost)
        for pair in one.comparisons:
            names = {"benchmark": one.label, "arm": pair.arm, "baseline": pair.baseline}
            text = "Pairs left out of a ratio: a guard rejected a trial. With too many of them there is no ratio."
            gauges.add("ratio_pairs_left_out", text, names, pair.pairs_left_out)
            for bound in ("value", "low", "high") if pair.ratio else ():
                figure = getattr(pair.ratio, bound)
                gauges.add("ratio", "Ratio of two arms, more than 1 is better.", {**names, "bound": bound}, figure)
    _add_budgets(gauges, judged)
    for host in _cases(results, []):
        for word in verdict.Verdict:
            text = "1 for the verdict on a host of a fleet, 0 for the others."
            name = "host_verdict"
            if recorded:
                name, text = (
                    "host_recorded_verdict",
                    f"{text.removesuffix('.')}, as results have it, not judged again.",
                )
            labels = {"host": host.name, "verdict": word.value}
            gauges.add(name, text, labels, host.verdict is word)
    for name, told in results.environment.get("arms", {}).items():
        text = "Where guests are not what was asked for, as far as they were asked."
        known = "findings" in told or "virtualization" in told
        gauges.add("guest_findings", text, {"arm": name}, len(told.get("findings", ())) if known else None)
    gauges.add("run_timestamp_seconds", "When the validation began.", {}, _timestamp(results.environment))
    return gauges.text()


def _add_budgets(gauges: _Gauges, judged: Sequence[verdict.Judgement]) -> None:
    for one, names in zip(judged, budget_labels.distinct([one.budget for one in judged]), strict=True):
        gauges.add("budget_max_loss", "Loss that is allowed.", names, one.budget.max_loss)
        text = "Host CPU beside vCPUs per unit of work that is allowed, in seconds."
        gauges.add("budget_max_host_cpu_per_unit", text, names, one.budget.max_host_cpu_per_unit)
        text = "Host CPU beside vCPUs per unit of work as it was judged, in seconds."
        for bound in ("value", "low", "high") if one.cpu else ():
            labels = {**names, "work_unit": one.unit, "bound": bound}
            gauges.add("budget_host_cpu_per_unit", text, labels, getattr(one.cpu, bound))
        for word in verdict.Verdict:
            text = "1 for the verdict on a budget, 0 for the others."
            gauges.add("budget_verdict", text, {**names, "verdict": word.value}, one.verdict is word)


class _Gauges:
    """Samples by metric: they must stand together, and the collector refuses a file with two of the same labels.

    Two have the same labels here where foreign names differ only in what cannot be printed: the first stays.
    """

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._labels = labels
        self._metrics: dict[str, tuple[str, dict[str, float]]] = {}

    def add(self, name: str, text: str, labels: Mapping[str, str], value: float | None) -> None:
        if value is None:
            return
        pairs = ",".join(f'{key}="{_label(one)}"' for key, one in {**self._labels, **labels}.items())
        samples = self._metrics.setdefault(name, (text, {}))[1]
        samples.setdefault(f"nova_perf_{name}{{{pairs}}}", float(value))

    def text(self) -> str:
        lines: list[str] = []
        for name, (text, samples) in self._metrics.items():
            lines += [f"# HELP nova_perf_{name} {text}", f"# TYPE nova_perf_{name} gauge"]
            lines += [f"{sample} {value!r}" for sample, value in samples.items()]
        return "".join(f"{line}\n" for line in lines)


def _value(found: statistics.Estimate | None) -> float | None:
    return None if found is None else found.value


def _label(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return budget_labels.printable(escaped)


def _xml(value: object) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", str(value))


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula and no terminal for a command."""
    if not isinstance(value, str):
        return value
    text = budget_labels.printable(value)
    return f"'{text}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else text


def _timestamp(environment: Mapping[str, object]) -> float | None:
    try:
        begun = datetime.datetime.fromisoformat(str(environment.get("created", "")))
    except ValueError:
        return None
    return (begun if begun.tzinfo else begun.replace(tzinfo=datetime.UTC)).timestamp()
