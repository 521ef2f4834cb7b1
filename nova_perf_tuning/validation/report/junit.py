# SPDX-License-Identifier: Apache-2.0
"""Verdicts as JUnit XML, for CI programs. What XML cannot hold of foreign text is replaced."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.etree import ElementTree

from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.measure import model
from nova_perf_tuning.validation.report import diagnosis, text

#: What is no character of XML 1.0.
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

#: Verdict -> element of a test case: CI programs know failures, errors and what was skipped.
_OUTCOME: Final = {
    verdict.Verdict.FAIL: "failure",
    verdict.Verdict.INVALID: "error",
    verdict.Verdict.INCONCLUSIVE: "skipped",
}


class _Case(NamedTuple):
    kind: str
    name: str
    verdict: verdict.Verdict
    why: str


def _cases(results: model.Results, judged: Sequence[verdict.Judgement]) -> list[_Case]:
    cases = []
    for judgement in judged:
        budget = judgement.budget
        name = f"{budget.arm} against {budget.baseline}{f' {budget.metric}' if budget.metric else ''}"
        for key in ("max_loss", "max_host_cpu_per_unit"):
            if (limit := getattr(budget, key)) is not None:
                name += f", {key} {limit!r}"
        why = text.lines(judgement.reasons)
        cases.append(_Case(f"nova_perf.{budget.benchmark}", name, judgement.verdict, why))
    for host in results.environment.fleet.hosts if results.environment.fleet else ():
        if host.verdict is not None:
            why = "; ".join(host.reasons)
            cases.append(_Case("nova_perf.host", host.host, verdict.Verdict(host.verdict), why))
    return cases


def junit(results: model.Results, judged: Sequence[verdict.Judgement], unjudged: str = text.NO_BUDGET) -> str:
    """Return verdicts as JUnit XML: a test case for each budget, and for each host of a fleet.

    Where nothing was judged, which ``unjudged`` says why, one test case is an error: CI programs show a suite
    without any as passed. Where guests are not what was asked for stands in the output of each case.
    """
    nothing = _Case("nova_perf", "verdict", verdict.Verdict.INVALID, f"nothing was judged: {unjudged}")
    cases = _cases(results, judged) or [nothing]
    counts = [_OUTCOME.get(case.verdict) for case in cases]
    suite = ElementTree.Element(
        "testsuite",
        name="nova-perf",
        hostname=_xml(results.environment.host),
        timestamp=_xml(results.environment.created)[:19],
        tests=str(len(cases)),
        failures=str(counts.count("failure")),
        errors=str(counts.count("error")),
        skipped=str(counts.count("skipped")),
        time=f"{sum({trial.order: trial.window_s for trial in results.trials}.values()):.3f}",
    )
    findings = [f"warning: guests of {line}" for line in diagnosis.guest_findings(results)]
    for case, outcome in zip(cases, counts, strict=True):
        element = ElementTree.SubElement(suite, "testcase", classname=_xml(case.kind), name=_xml(case.name))
        if outcome:
            ElementTree.SubElement(element, outcome, message=f"{case.verdict.value}: {_xml(case.why)}")
        ElementTree.SubElement(element, "system-out").text = _xml("\n".join([case.why, *findings]))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml(value: object) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", str(value))
