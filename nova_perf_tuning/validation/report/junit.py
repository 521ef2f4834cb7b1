# SPDX-License-Identifier: Apache-2.0
"""Verdicts as JUnit XML, for CI programs. What XML cannot hold of foreign text is replaced."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple
from xml.etree import ElementTree

from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.report import diagnosis, text
from nova_perf_tuning.validation.results import messages, model

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
        name = f"{budget.arm} against {budget.baseline}"
        if budget.metric:
            name += f" {budget.metric}"
        for key in ("max_loss", "max_host_cpu_per_unit"):
            limit = getattr(budget, key)
            if limit is not None:
                name += f", {key} {limit!r}"
        why = messages.lines(judgement.reasons)
        cases.append(_Case(f"nova_perf.{budget.benchmark}", name, judgement.verdict, why))
    fleet = results.environment.fleet
    if fleet is None:
        return cases
    for host in fleet.hosts:
        if host.verdict is not None:
            why = "; ".join(host.reasons)
            of_host = verdict.Verdict(host.verdict)
            cases.append(_Case("nova_perf.host", host.host, of_host, why))
    return cases


def junit(
    results: model.Results,
    judged: Sequence[verdict.Judgement],
    unjudged: str = text.NO_BUDGET,
) -> str:
    """Return verdicts as JUnit XML: a test case for each budget, and for each host of a fleet.

    Where nothing was judged, one test case is an error: CI programs show a suite without any as
    passed. The output of each case names guests that are not what was asked for.

    :param unjudged: why nothing was judged.
    """
    cases = _cases(results, judged)
    if not cases:
        why = f"nothing was judged: {unjudged}"
        cases = [_Case("nova_perf", "verdict", verdict.Verdict.INVALID, why)]
    outcomes = [_OUTCOME.get(case.verdict) for case in cases]
    windows: dict[int, float] = {}  # the figures of one run have the same
    for trial in results.trials:
        windows[trial.order] = trial.window_s
    suite = ElementTree.Element(
        "testsuite",
        name="nova-perf",
        hostname=_xml(results.environment.host),
        timestamp=_xml(results.environment.created)[:19],
        tests=str(len(cases)),
        failures=str(outcomes.count("failure")),
        errors=str(outcomes.count("error")),
        skipped=str(outcomes.count("skipped")),
        time=f"{sum(windows.values()):.3f}",
    )
    findings = [f"warning: guests of {line}" for line in diagnosis.guest_findings(results)]
    for case, outcome in zip(cases, outcomes, strict=True):
        attributes = {"classname": _xml(case.kind), "name": _xml(case.name)}
        element = ElementTree.SubElement(suite, "testcase", attributes)
        if outcome is not None:
            message = f"{case.verdict.value}: {_xml(case.why)}"
            ElementTree.SubElement(element, outcome, message=message)
        output = ElementTree.SubElement(element, "system-out")
        output.text = _xml("\n".join([case.why, *findings]))
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


def _xml(value: object) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", str(value))
