"""Results and verdicts in the forms that other programs read: JUnit XML, CSV, Prometheus' textfile.

Everything in results is foreign text: what XML cannot hold is replaced, labels are escaped, and no cell of a table
begins like a formula.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from xml.etree import ElementTree

from nova_perf_tuning.budget import (
    diagnosis,
    guards,
    model,
    statistics,
    summary,
    text,
    verdict,
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
    *("benchmark", "metric", "unit", "better", "primary", "arm", "group", "block", "order", "value", "error"),
    *("window_s", "guest_cpu_s", "wait_s", "work", "work_unit"),
)
_CLASSES: Final = ("vcpu", "emulator", "iothread", "vhost", "worker", "total", "softirq")

_FIGURE: Final = ("benchmark", "metric", "arm", "baseline")
_LIMITS: Final = ("max_loss", "max_host_cpu_per_unit")
_BOUNDS: Final = ("value", "low", "high")


def printable(text: str, but: str = "") -> str:
    """Return text in which a replacement character stands for what cannot be printed, but for ``but``."""
    return "".join(char if char.isprintable() or char in but else "\N{REPLACEMENT CHARACTER}" for char in text)


def _labelled(judged: Sequence[verdict.Judgement]) -> Iterator[tuple[verdict.Judgement, dict[str, str]]]:
    """Yield each judgement with label -> text of its budget: figure and limits."""
    for one in judged:
        names = {name: printable(getattr(one.budget, name) or "") for name in _FIGURE}
        names |= {name: repr(limit) for name in _LIMITS if (limit := getattr(one.budget, name)) is not None}
        yield one, names


class _Case(NamedTuple):
    kind: str
    name: str
    verdict: verdict.Verdict
    why: str


def _cases(results: model.Results, judged: Sequence[verdict.Judgement], recorded: bool = False) -> list[_Case]:
    """Return a case for each budget that was judged, and for each host of a fleet."""
    found = []
    for one, names in _labelled(judged):
        metric = f" {one.budget.metric}" if one.budget.metric else ""
        limits = "".join(f", {key} {value}" for key, value in names.items() if key not in _FIGURE)
        name = f"{one.budget.arm} against {one.budget.baseline}{metric}{limits}"
        found.append(_Case(f"nova_perf.{one.budget.benchmark}", name, one.verdict, text.lines(one.reasons)))
    kind = "nova_perf.recorded_host" if recorded else "nova_perf.host"
    for host in results.environment.get("fleet", {}).get("hosts", []):
        if host["verdict"] is not None:
            reasons = ["as recorded in the results, not judged again"] * recorded + host["reasons"]
            found.append(_Case(kind, host["host"], verdict.Verdict(host["verdict"]), "; ".join(reasons)))
    return found


def junit(
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    unjudged: str = text.NO_BUDGET,
    *,
    recorded: bool = False,
) -> str:
    """Return verdicts as JUnit XML: a test case for each budget, and for each host of a fleet.

    FAIL is a failure, INVALID an error; INCONCLUSIVE is skipped, since nothing was shown (the exit code tells it).
    Where nothing was judged one test case is an error: CI programs show a suite without any as passed. Where
    guests are not what was asked for stands in the output of each case.

    :param unjudged: why nothing was judged, if so.
    :param recorded: verdicts on hosts of a fleet are those of the file, and said to be.
    """
    nothing = _Case("nova_perf", "verdict", verdict.Verdict.INVALID, f"nothing was judged: {unjudged}")
    cases = _cases(results, judged, recorded) or [nothing]
    counts = [_OUTCOME.get(one.verdict) for one in cases]
    found = ElementTree.Element(
        "testsuite",
        name="nova-perf",
        hostname=_xml(results.environment.get("host", "")),
        timestamp=_xml(results.environment.get("created", ""))[:19],
        tests=str(len(cases)),
        failures=str(counts.count("failure")),
        errors=str(counts.count("error")),
        skipped=str(counts.count("skipped")),
        time=f"{sum({one.order: one.window_s for one in results.trials}.values()):.3f}",
    )
    findings = [f"warning: guests of {line}" for line in diagnosis.spoilt(results)]
    for one, outcome in zip(cases, counts, strict=True):
        case = ElementTree.SubElement(found, "testcase", classname=_xml(one.kind), name=_xml(one.name))
        if outcome:
            ElementTree.SubElement(case, outcome, message=f"{one.verdict.value}: {_xml(one.why)}")
        ElementTree.SubElement(case, "system-out").text = _xml("\n".join([one.why, *findings]))
    ElementTree.indent(found)
    return ElementTree.tostring(found, encoding="unicode", xml_declaration=True) + "\n"


def table(results: model.Results, excluded: Mapping[guards.Run, str]) -> str:
    """Return the trials as CSV (RFC 4180): a row for each figure of each trial, in the order of time.

    :param excluded: run -> why it does not count (:func:`summary.left_out`).
    """
    written = io.StringIO()
    writer = csv.writer(written)
    cpu = (f"host_cpu_s_{name}" for name in _CLASSES)
    writer.writerow([*_COLUMNS, *cpu, "host", "run", "conditions", "left_out"])
    fleet = results.environment.get("fleet", {})
    run = fleet.get("run") or results.environment.get("created", "")
    # A boot of a pair's guests is that of its client, or of what its server ran alone.
    hosts = {pair["number"] + len(fleet["pairs"]): pair["server"] for pair in fleet.get("pairs", ())}
    hosts |= {pair["number"]: pair["client"] for pair in fleet.get("pairs", ())}
    for one in sorted(results.trials, key=lambda one: one.order):
        cells = [getattr(one, name) for name in _COLUMNS]
        cells += [one.host_cpu_s.get(name) for name in _CLASSES]
        cells += [hosts.get(one.group, results.environment.get("host", "")), run]
        cells += [" ".join(f"{name}={value:g}" for name, value in sorted(one.conditions.items()))]
        writer.writerow(map(_cell, [*cells, excluded.get(guards.run(one), "")]))
    return written.getvalue()


def prometheus(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    judged: Sequence[verdict.Judgement],
    *,
    recorded: bool = False,
) -> str:
    """Return medians, ratios and verdicts for the textfile collector of Prometheus' node exporter.

    :param recorded: verdicts on hosts of a fleet are those of the file: they are a metric of their own.
    """
    gauges = _Gauges({"host": str(results.environment.get("host", ""))})
    for one in summaries:
        for arm in one.arms:
            names = {"benchmark": one.label, "metric": one.metric, "unit": one.unit, "arm": arm.arm}
            gauges.add("median", "Median of a benchmark's figure.", names, _value(arm.median))
            names = {"benchmark": one.label, "arm": arm.arm}
            gauges.add("trials_left_out", "Trials that a guard rejected.", names, len(arm.left_out))
            names = {"benchmark": one.label, "work_unit": one.work_unit, "arm": arm.arm}
            text = "Host CPU beside vCPUs per unit of work."
            gauges.add("service_cpu_seconds_per_unit", text, names, _value(arm.service_per_unit))
        for pair in one.comparisons:
            names = {"benchmark": one.label, "arm": pair.arm, "baseline": pair.baseline}
            text = "Pairs left out of a ratio: a guard rejected a trial. With too many of them there is no ratio."
            gauges.add("ratio_pairs_left_out", text, names, pair.pairs_left_out)
            gauges.add_bounds("ratio", "Ratio of two arms, more than 1 is better.", names, pair.ratio)
    for judgement, names in _labelled(judged):
        gauges.add("budget_max_loss", "Loss that is allowed.", names, judgement.budget.max_loss)
        text = "Host CPU beside vCPUs per unit of work that is allowed, in seconds."
        gauges.add("budget_max_host_cpu_per_unit", text, names, judgement.budget.max_host_cpu_per_unit)
        text = "Host CPU beside vCPUs per unit of work as it was judged, in seconds."
        gauges.add_bounds("budget_host_cpu_per_unit", text, {**names, "work_unit": judgement.unit}, judgement.cpu)
        gauges.add_verdict("budget_verdict", "a budget", names, judgement.verdict)
    name, what = "host_verdict", "a host of a fleet"
    if recorded:
        name, what = "host_recorded_verdict", f"{what}, as results have it, not judged again"
    for host in _cases(results, []):
        gauges.add_verdict(name, what, {"host": host.name}, host.verdict)
    for arm_name, told in results.environment.get("arms", {}).items():
        text = "Where guests are not what was asked for, as far as they were asked."
        known = "findings" in told or "virtualization" in told
        gauges.add("guest_findings", text, {"arm": arm_name}, len(told.get("findings", ())) if known else None)
    gauges.add("run_timestamp_seconds", "When the validation began.", {}, _timestamp(results.environment))
    return gauges.text()


class _Gauges:
    """Samples by metric: they must stand together, and the collector refuses a file with two of the same labels.

    Two have the same labels here where foreign names differ only in what cannot be printed: the first stays.
    """

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names
        self._metrics: dict[str, tuple[str, dict[str, float]]] = {}

    def add(self, name: str, text: str, names: Mapping[str, str], value: float | None) -> None:
        if value is not None:
            pairs = ",".join(f'{key}="{_label(one)}"' for key, one in {**self._names, **names}.items())
            samples = self._metrics.setdefault(name, (text, {}))[1]
            samples.setdefault(f"nova_perf_{name}{{{pairs}}}", float(value))

    def add_bounds(
        self, name: str, text: str, names: Mapping[str, str], estimate: statistics.Estimate | None
    ) -> None:
        for bound in _BOUNDS if estimate else ():
            self.add(name, text, {**names, "bound": bound}, getattr(estimate, bound))

    def add_verdict(self, name: str, what: str, names: Mapping[str, str], word: verdict.Verdict) -> None:
        text = f"1 for the verdict on {what}, 0 for the others."
        for other in verdict.Verdict:
            self.add(name, text, {**names, "verdict": other.value}, other is word)

    def text(self) -> str:
        lines: list[str] = []
        for name, (help_text, samples) in self._metrics.items():
            lines += [f"# HELP nova_perf_{name} {help_text}", f"# TYPE nova_perf_{name} gauge"]
            lines += [f"{sample} {value!r}" for sample, value in samples.items()]
        return "".join(f"{line}\n" for line in lines)


def _value(found: statistics.Estimate | None) -> float | None:
    return None if found is None else found.value


def _label(text: str) -> str:
    return printable(text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n"))


def _xml(value: object) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", str(value))


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula and no terminal for a command."""
    if not isinstance(value, str):
        return value
    return f"'{printable(value)}" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else printable(value)


def _timestamp(environment: Mapping[str, Any]) -> float | None:
    try:
        begun = datetime.datetime.fromisoformat(str(environment.get("created", "")))
    except ValueError:
        return None
    return (begun if begun.tzinfo else begun.replace(tzinfo=datetime.UTC)).timestamp()
