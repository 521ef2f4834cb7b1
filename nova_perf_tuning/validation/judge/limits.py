# SPDX-License-Identifier: Apache-2.0
"""Absolute limits: a figure of one arm against a number with its unit, without a baseline.

A maximum is judged by the worst run: it is broken by one. All other figures are judged by their
interval over boots, as losses are.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.validation.judge import gates, quantities, statistics, trial_filter
from nova_perf_tuning.validation.judge.budget import AbsoluteLimit, Budget
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Environment, RecordedBenchmark
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C

#: A program that was to run for a minute may say that it ran for 59.9 s.
_SLACK: Final = 0.99


@dataclasses.dataclass(frozen=True, slots=True)
class ArmFigure:
    """A figure of one arm, for absolute limits.

    :ivar trials: those that count and have a figure; :ivar notes: what was lost and excluded.
    :ivar worst: boot of each block that has no figure and counts as the worst of all.
    :ivar invalid: why what is left is no sample; None: it is one.
    """

    budget: Budget
    metric: str
    unit: str
    trials: Sequence[model.Trial]
    notes: tuple[Reason, ...]
    worst: Sequence[int]
    invalid: Reason | None
    environment: Environment

    @classmethod
    def of(
        cls,
        budget: Budget,
        metric: str,
        figure: trial_filter.Figure,
        gaps: trial_filter.Gaps,
        environment: Environment,
    ) -> "ArmFigure":
        """Choose the trials of the arm that a budget is for, of which there is one at least."""
        arm = budget.arm
        picked = trial_filter.select_of(
            figure, gaps, environment.accelerator, arm, arm, budget.guards, levels=True
        )
        trials = [trial for trial in picked.trials if trial.value is not None]
        worst = [boot for boot, _ in sorted(picked.lost[0].blocks)]
        notes = picked.notes
        if worst and trials:
            what = "blocks"
            if gaps.unpaired:
                what = "files"
            notes = (*notes, reason(_C.WORST, arm=arm, count=len(worst), what=what))
        unit = ""
        for trial in figure.arms[arm]:
            if trial.metric == metric:
                unit = trial.unit
        return cls(budget, metric, unit, trials, notes, worst, picked.invalid, environment)

    def judge(self, level: float) -> tuple[list[gates.Gate], Reason | None]:
        """Return the figure against its limits, and why it cannot be judged if so.

        :param level: confidence of intervals.
        """
        fault = self._other_dimension()
        if fault is not None:
            return [], fault
        if quantities.is_maximum(self.metric):
            return self._judge_worst()
        fault = self.invalid or self._short_runs()
        if fault is not None:
            return [], fault
        return [self._gate(limit, level) for limit in self.budget.limits], None

    def _judge_worst(self) -> tuple[list[gates.Gate], Reason | None]:
        """Judge by the worst run; a limit that one run breaks is broken, whatever the others are."""
        judged = [self._fact(limit) for limit in self.budget.limits if self.trials]
        fault = self.invalid or self._short_runs()
        if fault is None:
            return judged, None
        broken = [gate for gate in judged if gate.verdict is gates.Verdict.FAIL]
        return broken, fault

    def _other_dimension(self) -> Reason | None:
        for limit in self.budget.limits:
            if limit.quantity.within(self.unit) is None:
                about = {"metric": self.metric, "unit": self.unit}
                return reason(_C.OTHER_UNIT, **about, written=limit.quantity.written)
        return None

    def _short_runs(self) -> Reason | None:
        """Return that runs are shorter than the budget names, or that it names no length."""
        needed = self.budget.least_seconds
        if needed is None:
            if quantities.is_maximum(self.metric):
                return reason(_C.NO_DURATION, metric=self.metric)
            return None
        short: list[float] = []
        unknown = 0
        for trial in self.trials:
            seconds = duration(trial, self.environment.benchmarks)
            if seconds is None:
                unknown += 1
            elif seconds < needed * _SLACK:
                short.append(seconds)
        of = len(self.trials)
        if short:
            about = {"count": len(short), "of": of, "seconds": min(short)}
            return reason(_C.SHORT_RUNS, **about, needed=needed)
        if unknown:
            return reason(_C.DURATION_UNKNOWN, count=unknown, of=of, needed=needed)
        return None

    def _about(self, limit: AbsoluteLimit) -> tuple[float, dict[str, Any]]:
        """Return a limit in the figure's unit, and what its reason says of it."""
        number = limit.quantity.within(self.unit)
        if number is None:
            raise ValueError(limit.quantity.written)
        bound = "max"
        if limit.least:
            bound = "min"
        about = {"metric": self.metric, "unit": self.unit, "bound": bound}
        return number, {**about, "written": limit.quantity.written}

    def _name(self) -> tuple[str, ...]:
        return self.budget.benchmark, self.metric, self.budget.arm, "value"

    def _gate(self, limit: AbsoluteLimit, level: float) -> gates.Gate:
        number, about = self._about(limit)
        worst_of: Callable[[Iterable[float]], float] = max
        if limit.least:
            worst_of = min
        values = statistics.by_boot(self.trials, lambda trial: trial.value)
        samples = statistics.with_worst(values, worst_of, self.worst)
        figure = functools.partial(statistics.estimate, samples, positive=True)
        return gates.Gate(self._name(), figure, level, number, least=limit.least, **about)

    def _fact(self, limit: AbsoluteLimit) -> gates.Gate:
        number, about = self._about(limit)
        worst, worst_trial = 0.0, self.trials[0]
        broken = 0
        for trial in self.trials:
            value = trial.value or 0.0
            if gates.beyond(value, number, least=limit.least):
                broken += 1
            if trial is worst_trial or gates.beyond(value, worst, least=limit.least):
                worst, worst_trial = value, trial
        boots = {trial.boot for trial in self.trials}
        estimate = statistics.Estimate(worst, None, None, len(self.trials), len(boots), 1.0)
        about["runs"] = len(self.trials)
        about["broken"] = broken
        about["boot"] = worst_trial.boot
        about["file"] = file_of(worst_trial, self.environment)
        return gates.FactGate(self._name(), estimate, number, least=limit.least, **about)


def duration(trial: model.Trial, benchmarks: Mapping[str, RecordedBenchmark]) -> float | None:
    """Return how many seconds a run measured; None: it is not known.

    The window may have the start of the program in it, so that what was asked for counts where it
    is less.
    """
    if not trial.window_s:
        return None
    asked = benchmarks.get(trial.benchmark, RecordedBenchmark()).parameters.get("seconds", "")
    if asked.isascii() and asked.isdigit() and 0 < int(asked) < trial.window_s:
        return float(asked)
    return trial.window_s


def file_of(trial: model.Trial, environment: Environment) -> str:
    """Return the output file that a trial was made of; empty: it was run here."""
    files = environment.shown.get("files")
    if not isinstance(files, Mapping):
        return ""
    return str(files.get(str(trial.order), ""))
