# SPDX-License-Identifier: Apache-2.0
"""Verdicts as JUnit XML, for CI programs."""

from collections.abc import Sequence
from typing import Final

from nova_perf_tuning import junit_xml
from nova_perf_tuning.junit_xml import JunitCase
from nova_perf_tuning.validation.judge import verdict
from nova_perf_tuning.validation.report import diagnosis, text
from nova_perf_tuning.validation.results import messages, model

#: Verdict -> element of a test case: CI programs know failures, errors and what was skipped.
_OUTCOME: Final = {
    verdict.Verdict.FAIL: junit_xml.FAILURE,
    verdict.Verdict.INVALID: junit_xml.ERROR,
    verdict.Verdict.INCONCLUSIVE: junit_xml.SKIPPED,
}


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
    findings = [f"warning: guests of {line}" for line in diagnosis.guest_findings(results)]
    cases = _cases(results, judged, findings)
    if not cases:
        why = f"nothing was judged: {unjudged}"
        cases = [_case("nova_perf", "verdict", verdict.Verdict.INVALID, why, findings)]
    windows: dict[int, float] = {}  # the figures of one run have the same
    for trial in results.trials:
        windows[trial.order] = trial.window_s
    environment = results.environment
    said = {"hostname": environment.host, "timestamp": environment.created[:19]}
    about = {name: value for name, value in said.items() if value}  # files of outputs have none
    return junit_xml.document("nova-perf", cases, about, sum(windows.values()))


def _cases(
    results: model.Results, judged: Sequence[verdict.Judgement], findings: Sequence[str]
) -> list[JunitCase]:
    cases = []
    for judgement in judged:
        budget = judgement.budget
        name = budget.named_arms
        if budget.metric:
            name += f" {budget.metric}"
        for key in ("max_loss", "max_host_cpu_per_unit"):
            limit = getattr(budget, key)
            if limit is not None:
                name += f", {key} {limit!r}"
        for key in ("max_value", "min_value", "min_duration"):
            limit = getattr(budget, key)
            if limit is not None:
                name += f", {key} {limit}"
        why = messages.lines(judgement.reasons)
        kind = f"nova_perf.{budget.benchmark}"
        cases.append(_case(kind, name, judgement.verdict, why, findings))
    fleet = results.environment.fleet
    if fleet is None:
        return cases
    for host in fleet.hosts:
        if host.verdict is not None:
            why = "; ".join(host.reasons)
            of_host = verdict.Verdict(host.verdict)
            cases.append(_case("nova_perf.host", host.host, of_host, why, findings))
    return cases


def _case(
    kind: str, name: str, judged: verdict.Verdict, why: str, findings: Sequence[str]
) -> JunitCase:
    output = "\n".join([why, *findings])
    message = f"{judged.value}: {why}"
    return JunitCase(kind, name, _OUTCOME.get(judged), message, output=output)
