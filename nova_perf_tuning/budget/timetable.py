"""How long a session takes, estimated from what its boots and trials have taken so far, under its time limit."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.launch import base as launch

#: Left of the time limit for removing guests and writing the report.
CLOSING_S = 10.0

#: Of the time that one round of trials takes, a round of warm-ups takes about so much.
_WARM_UP_SHARE = 0.5


class Timetable:
    """What is done of a session, and when the rest will be.

    A *round* is one trial of every benchmark in every arm: a block, or the warm-up of a group.

    :ivar deadline: when everything must be over (CLOCK_MONOTONIC); :ivar group_deadline: when the current group
        must, so that those after it get their share.
    :ivar done: trials done, warm-ups included; :ivar groups: how many are planned or granted by now.
    """

    def __init__(
        self,
        jobs: Sequence[plugins.Job],
        boots: int,
        with_host: bool,
        groups: int,
        blocks: int,
        limit_s: float,
        clock: Callable[[], float] = time.monotonic,
        *,
        boot_s: float = launch.Launcher.boot_s,
        trial_overhead_s: float = launch.Launcher.trial_overhead_s,
    ) -> None:
        """Start the clock.

        :param boots: of each group: its arms but for the host; :param blocks: of each group.
        :param boot_s, trial_overhead_s: first guesses of the launcher, until the session has measured them.
        """
        self._now = clock
        self._guessed_boot_s = boot_s
        self._guessed_overhead_s = trial_overhead_s
        self.begun = clock()
        self.deadline = self.begun + limit_s - min(CLOSING_S, limit_s / 4)
        self.group_deadline = self.deadline
        self.done = 0
        self.groups = groups
        self._jobs = jobs
        self._boots = boots
        self._per_round = (boots + with_host) * len(jobs)
        self._blocks = blocks
        self._group = -1
        self._group_began_at = 0
        self._boots_left = 0
        self._boots_s: list[float] = []
        self._overheads_s: dict[str, list[float]] = {job.label: [] for job in jobs}

    # -- what happens

    def begin_group(self) -> None:
        """Note that the next group begins: what the one before it left out will not come any more."""
        self._group += 1
        self._group_began_at = self.done
        self._boots_left = self._boots
        self.group_deadline = self.deadline

    def booted(self, seconds: float | None) -> None:
        """Note that one boot is over; ``seconds`` is None when it failed."""
        self._boots_left -= 1
        if seconds is not None:
            self._boots_s.append(seconds)

    def share_out(self) -> None:
        """Set the current group's deadline; to be called when it is known what boots and trials take."""
        now = self._now()
        self.group_deadline = now + self._share_s(self.deadline - now, self.groups - self._group)

    def trial_done(self, job: plugins.Job, lasted_s: float | None) -> None:
        """Note that one trial is over; ``lasted_s`` is None when it did not run as it should."""
        self.done += 1
        if lasted_s is not None:
            self._overheads_s[job.label].append(lasted_s - _seconds(job))

    # -- what can be expected

    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return self._now() - self.begun

    def total(self) -> int:
        """Return how many trials there will be, but for those that the time limit is still to cut."""
        current = self._group_began_at + self._per_group() if self._group >= 0 else 0
        return max(self.done, current + self._later_groups() * self._per_group())

    def fits(self, job: plugins.Job) -> bool:
        """Whether one more trial ends in the current group's time."""
        return self._now() + self._trial_s(job) <= self.group_deadline

    def fits_group(self) -> bool:
        """Whether there is time for one more group: its boots, a warm-up and one block.

        The first group always gets its chance, since what it needs is not known yet.
        """
        return not self._boots_s or self._now() + self._least_s() < self.deadline

    def expected_s(self) -> float:
        """Return how long what is left of the plan takes, in seconds, whatever the time limit."""
        return self._current_s() + self._later_groups() * self._group_s()

    def left_s(self) -> float:
        """Return the estimated seconds to the end: of the plan, or of what the time limit leaves of it."""
        now = self._now()
        if now + self.expected_s() <= self.deadline:
            return self.expected_s()
        # A group that is cut ends when the next trial does not fit: half a trial before its time, on average.
        unused_s = self._round_s() / self._per_round / 2 if self._per_round else 0.0
        at = now
        if self._group >= 0:
            at += max(0.0, min(self._current_s(), self.group_deadline - unused_s - now))
        for later in range(self._later_groups(), 0, -1):
            left_s = self.deadline - at
            if left_s < self._least_s():
                break
            at += max(0.0, min(self._group_s(), self._share_s(left_s, later) - unused_s))
        return max(0.0, min(at, self.deadline) - now)

    def _later_groups(self) -> int:
        return max(0, self.groups - self._group - 1)

    def _per_group(self) -> int:
        return (self._blocks + 1) * self._per_round

    def _share_s(self, left_s: float, groups: int) -> float:
        """Return the part of ``left_s`` that is the first of ``groups``'; fewer of them where not all fit."""
        fitting = max(1, int(left_s / self._least_s()))
        return left_s / min(max(1, groups), fitting)

    def _least_s(self) -> float:
        """Return what a group needs to be worth its boots."""
        return self._boots * self._boot_s() + (1 + _WARM_UP_SHARE) * self._round_s()

    def _group_s(self) -> float:
        """Return what a group takes in full."""
        return self._boots * self._boot_s() + (self._blocks + _WARM_UP_SHARE) * self._round_s()

    def _current_s(self) -> float:
        """Return what is left of the current group, whatever its deadline."""
        if self._group < 0 or not self._per_round:
            return 0.0
        rounds = (self.done - self._group_began_at) / self._per_round  # the first is the warm-up
        left = max(0.0, 1 - rounds) * _WARM_UP_SHARE + min(self._blocks, max(0.0, self._blocks + 1 - rounds))
        return max(0, self._boots_left) * self._boot_s() + left * self._round_s()

    def _round_s(self) -> float:
        return self._per_round / max(1, len(self._jobs)) * sum(self._trial_s(job) for job in self._jobs)

    def _trial_s(self, job: plugins.Job) -> float:
        return _seconds(job) + _middle(self._overheads_s[job.label], self._guessed_overhead_s)

    def _boot_s(self) -> float:
        return _middle(self._boots_s, self._guessed_boot_s)


def _seconds(job: plugins.Job) -> float:
    return float(job.parameters.get("seconds", "0")) + float(job.parameters.get("omit", "0"))


def _middle(values: Sequence[float], otherwise: float) -> float:
    return sorted(values)[len(values) // 2] if values else otherwise
