"""Guards: what makes measured figures worthless, found in the recorded conditions of each trial.

A guard looks at one trial, or at how trials of a run differ, and says why a trial does not count. Where too many
trials of a judged arm do not count the verdict is INVALID. What a host could not tell (it is missing from
:attr:`model.Trial.conditions`) trips nothing.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import model, overhead, reasons
from nova_perf_tuning.budget.reasons import reason

#: One run: benchmark, arm and number of the run, which its figures share.
Run = tuple[str, str, int]

_C = reasons.ReasonCode
_LINK: Final = "link:"


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """What guards allow; a budget file's ``guards`` changes them.

    :ivar max_steal: share of the time wanted that the host's own CPUs were taken away (host is a guest itself).
    :ivar max_wait: share of the time wanted that vCPUs waited for a host CPU. None: 0.1, and no limit under
        emulation, where all arms wait alike and only compare with each other.
    :ivar max_frequency_gap: how far the CPU frequencies of the judged arms may lie apart.
    :ivar max_clock_step_s: seconds by which the wall clock may move against the monotonic one in a trial.
    :ivar max_drops: packets dropped on the sender's way out, as a share of those it sent.
    """

    max_steal: float = 0.05
    max_wait: float | None = None
    max_frequency_gap: float = 0.05
    max_clock_step_s: float = 0.05
    max_drops: float = 0.001


@dataclasses.dataclass(frozen=True, slots=True)
class _Context:
    """What a guard knows beside a trial.

    :ivar first: name of a condition -> what it was at the first trial that has it, and the number of its run.
    :ivar mhz: arm -> median CPU frequency.
    """

    environment: Mapping[str, Any]
    limits: Limits
    first: Mapping[str, tuple[float, int]]
    mhz: Mapping[str, float]


def _over(code: reasons.ReasonCode, share: float, limit: float) -> reasons.Reason | None:
    return reason(code, share=share, limit=limit) if share > limit else None


def _steal(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    return _over(_C.STEAL, trial.conditions.get("steal_share", 0.0), context.limits.max_steal)


def _waiting_vcpus(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    limit = context.limits.max_wait
    if limit is None:
        limit = 1.0 if context.environment.get("accelerator") in ("tcg", "none") else 0.1
    return _over(_C.WAITING_VCPUS, overhead.wait_share(trial) or 0.0, limit)


def _throttling(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    count = trial.conditions.get("throttle_events", 0.0)
    return reason(_C.THROTTLING, count=count) if count > 0 else None


def _frequency_limit(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    """Someone or something changed how fast CPUs may run."""
    first, _ = context.first.get("max_mhz", (0.0, 0))
    now = trial.conditions.get("max_mhz", first)
    return reason(_C.FREQUENCY_LIMIT, first=first, now=now) if abs(now - first) > 1 else None


def _frequency_gap(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    """One arm ran at another frequency than the other."""
    known, limit = context.mhz.values(), context.limits.max_frequency_gap
    if len(known) < 2 or max(known) <= min(known) * (1 + limit):
        return None
    return reason(_C.FREQUENCY_GAP, mhz=context.mhz, limit=limit)


def _links(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    """A link went down or away, or changed its speed.

    Which links the packets took is not known: one that was down from first to last is taken for an unused port.
    """
    for name, (first, order) in context.first.items():
        if not name.startswith(_LINK):
            continue
        link, now = name.removeprefix(_LINK), trial.conditions.get(name)
        if now is None:
            if trial.conditions and trial.order > order:
                return reason(_C.LINK_GONE, link=link)
        elif now == 0 and first:
            return reason(_C.LINK_DOWN, link=link)
        elif now != first:
            return reason(_C.LINK_CHANGED, link=link, first=first, now=now)
    return None


def _drops(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    dropped, sent = (trial.conditions.get(f"sender_{name}", 0.0) for name in ("dropped", "packets"))
    if dropped <= context.limits.max_drops * max(sent, 1.0):
        return None
    return reason(_C.DROPS, share=dropped / max(sent + dropped, 1.0), limit=context.limits.max_drops)


def _clock_step(trial: model.Trial, context: _Context) -> reasons.Reason | None:
    step, limit = trial.conditions.get("clock_step_s", 0.0), context.limits.max_clock_step_s
    return reason(_C.CLOCK_STEP, seconds=step, limit=limit) if abs(step) > limit else None


GUARDS: Final[tuple[Callable[[model.Trial, _Context], reasons.Reason | None], ...]] = (
    _steal,
    _waiting_vcpus,
    _throttling,
    _frequency_limit,
    _frequency_gap,
    _links,
    _drops,
    _clock_step,
)


def run(trial: model.Trial) -> Run:
    """Return the run that a trial's figure is of."""
    return trial.benchmark, trial.arm, trial.order


def faults(
    trials: Sequence[model.Trial], environment: Mapping[str, Any], limits: Limits
) -> dict[Run, reasons.Reason]:
    """Return run -> first fault, for every run that does not count.

    :param trials: those of the judged arms and benchmark, in the order of time.
    """
    first: dict[str, tuple[float, int]] = {}
    speeds: dict[str, list[float]] = {}
    for trial in trials:
        for name, value in trial.conditions.items():
            first.setdefault(name, (value, trial.order))
        if "busy_mhz" in trial.conditions:
            speeds.setdefault(trial.arm, []).append(trial.conditions["busy_mhz"])
    medians = {arm: statistics.median(values) for arm, values in speeds.items()}
    known = _Context(environment, limits, first, medians)
    found: dict[Run, reasons.Reason] = {}
    for trial in trials:
        fault = next((fault for guard in GUARDS if (fault := guard(trial, known)) is not None), None)
        if fault is not None:
            found[run(trial)] = fault
    return found
