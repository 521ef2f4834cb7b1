"""Guards: what makes measured figures worthless, found in the recorded conditions of each trial.

A guard looks at one trial, or at how trials of a run differ, and says why a trial does not count. Where too many
trials of a judged arm do not count the verdict is INVALID. What a host could not tell (it is missing from
:attr:`model.Trial.conditions`) trips nothing.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections.abc import Iterator, Mapping, Sequence

from nova_perf_tuning.validation.measure import model, overhead, reasons
from nova_perf_tuning.validation.measure.reasons import reason

#: One run: benchmark, arm and number of the run, which its figures share.
Run = tuple[str, str, int]

_C = reasons.ReasonCode


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


def run(trial: model.Trial) -> Run:
    """Return the run that a trial's figure is of."""
    return trial.benchmark, trial.arm, trial.order


def faults(trials: Sequence[model.Trial], accelerator: str | None, limits: Limits) -> dict[Run, reasons.Reason]:
    """Return run -> first fault, for every run that does not count.

    :param trials: those of the judged arms and benchmark; :param accelerator: what guests ran on.
    """
    trials = sorted(trials, key=lambda trial: trial.order)
    usual = next((trial.conditions["max_mhz"] for trial in trials if "max_mhz" in trial.conditions), 0.0)
    speeds: dict[str, list[float]] = {}
    for trial in trials:
        if "busy_mhz" in trial.conditions:
            speeds.setdefault(trial.arm, []).append(trial.conditions["busy_mhz"])
    mhz = {arm: statistics.median(values) for arm, values in speeds.items()}
    max_wait = limits.max_wait
    if max_wait is None:
        max_wait = 1.0 if accelerator in ("tcg", "none") else 0.1
    found: dict[Run, reasons.Reason] = {}
    for trial in trials:
        fault = next(_faults(trial, dataclasses.replace(limits, max_wait=max_wait), usual, mhz), None)
        if fault is not None:
            found[run(trial)] = fault
    return found


def _faults(
    trial: model.Trial, limits: Limits, usual_mhz: float, mhz: Mapping[str, float]
) -> Iterator[reasons.Reason]:
    """Yield what is wrong with a trial.

    :param usual_mhz: highest frequency allowed when the run began; :param mhz: arm -> median of what its CPUs had.
    """
    condition = trial.conditions.get
    for code, share, limit in (
        (_C.STEAL, condition("steal_share", 0.0), limits.max_steal),
        (_C.WAITING_VCPUS, overhead.wait_share(trial) or 0.0, limits.max_wait or 0.0),
    ):
        if share > limit:
            yield reason(code, share=share, limit=limit)
    if (count := condition("throttle_events", 0.0)) > 0:
        yield reason(_C.THROTTLING, count=count)
    if abs((now := condition("max_mhz", usual_mhz)) - usual_mhz) > 1:
        yield reason(_C.FREQUENCY_LIMIT, first=usual_mhz, now=now)
    if len(mhz) > 1 and max(mhz.values()) > min(mhz.values()) * (1 + limits.max_frequency_gap):
        yield reason(_C.FREQUENCY_GAP, mhz=mhz, limit=limits.max_frequency_gap)
    dropped, sent = condition("sender_dropped", 0.0), condition("sender_packets", 0.0)
    if dropped > limits.max_drops * max(sent, 1.0):
        yield reason(_C.DROPS, share=dropped / max(sent + dropped, 1.0), limit=limits.max_drops)
    if abs(step := condition("clock_step_s", 0.0)) > limits.max_clock_step_s:
        yield reason(_C.CLOCK_STEP, seconds=step, limit=limits.max_clock_step_s)
