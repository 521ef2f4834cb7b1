# SPDX-License-Identifier: Apache-2.0
"""What an ablation found of each knob, as people read it."""

from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation.judge import ablation
from nova_perf_tuning.validation.report import text
from nova_perf_tuning.validation.results import messages

#: Columns of :func:`rows`.
HEAD: Final = ("knob", "extra spec", "benchmark", "here", "tuned / without it", "budgets")


def rows(knobs: Sequence[ablation.Knob]) -> list[list[str]]:
    shown = []
    for knob in knobs:
        spec = f"{knob.spec}={knob.value}"
        met = "" if knob.met_without is None else f"without it: {knob.met_without.value}"
        for label, finding in knob.findings.items():
            effect = text.ratio(finding.effect)
            if finding.notes:
                effect = f"{effect}; {messages.lines(finding.notes)}"
            shown.append([knob.call.value, spec, label, finding.call.value, effect, met])
    return shown


def summary(knobs: Sequence[ablation.Knob]) -> list[str]:
    """Return in sentences which extra specs can be left out and which are not decided.

    There are no sentences without knobs.
    """
    if not knobs:
        return []
    names = ", ".join(ablation.removable(knobs)) or "none"
    margin = f"{ablation.MARGIN:.0%}"
    shown = f"effect shown to be below {margin} either way"
    sentences = [f"removable, each by itself ({shown}): {names}"]
    undecided = [knob.spec for knob in knobs if knob.call is ablation.Call.UNDECIDED]
    if undecided:
        listed = ", ".join(undecided)
        sentences.append(f"undecided (keep them, or measure more boots): {listed}")
    return sentences
