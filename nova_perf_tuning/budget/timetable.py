"""How long a session takes, estimated from what its boots and trials have taken so far, under its time limit."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.launch import base as launch

#: Left of the time limit for removing guests and writing the report.
CLOSING_S = 10.0


class Timetable:
    """What is done of a session, and when the rest will be.

    A *round* is one trial of every benchmark in every arm: a block, or the warm-up of a boot.

    :ivar deadline: when everything must be over (CLOCK_MONOTONIC).
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
        self.begun = clock()
        self.deadline = self.begun + limit_s - min(CLOSING_S, limit_s / 4)
        self._group_deadline = self.deadline
        self.done = 0
        self.groups = groups
        self._jobs, self._arms, self._boots = jobs, boots + with_host, boots
        self._per_group = (blocks + 1) * self._arms * len(jobs)
        self._groups_begun = self._cut = self._boots_left = 0
        self._guesses = boot_s, trial_overhead_s
        self._boots_s: list[float] = []
        self._overheads_s: dict[str, list[float]] = {job.label: [] for job in jobs}

    def begin_group(self) -> None:
        """Note that the next group begins: what the one before it left out will not come any more."""
        self._cut = self._groups_begun * self._per_group - self.done
        self._groups_begun += 1
        self._boots_left = self._boots
        self._group_deadline = self.deadline

    def booted(self, seconds: float | None) -> None:
        """Note that one boot is over; ``seconds`` is None when it failed."""
        self._boots_left -= 1
        if seconds is not None:
            self._boots_s.append(seconds)

    def share_out(self) -> None:
        """Give the current group its part of the time left; to be called when boots and a round are known."""
        now = self._now()
        left_s = self.deadline - now
        fitting = int(left_s / self._group_s(1))
        self._group_deadline = now + left_s / max(1, min(self._later() + 1, fitting))

    def trial_done(self, job: plugins.Job, lasted_s: float | None) -> None:
        """Note that one trial is over; ``lasted_s`` is None when it did not run as it should."""
        self.done += 1
        if lasted_s is not None:
            self._overheads_s[job.label].append(lasted_s - _seconds(job))

    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return self._now() - self.begun

    def total(self) -> int:
        """Return how many trials there will be, but for those that the time limit is still to cut."""
        return max(self.done, self.groups * self._per_group - self._cut)

    def fits(self, job: plugins.Job) -> bool:
        """Whether one more trial ends in the current group's time."""
        return self._now() + self._trial_s(job) <= self._group_deadline

    def fits_group(self) -> bool:
        """Whether there is time for one more group: its boots, a warm-up and one block.

        The first group always gets its chance, since what it needs is not known yet.
        """
        return not self._boots_s or self._now() + self._group_s(1) < self.deadline

    def expected_s(self) -> float:
        """Return how long what is left of the plan takes, in seconds, whatever the time limit."""
        boots = self._later() * self._boots + max(0, self._boots_left)
        trial_s = self._round_s() / (self._arms * len(self._jobs))
        return boots * self._boot_s() + (self.total() - self.done) * trial_s

    def left_s(self) -> float:
        """Return the estimated seconds to the end: of the plan, or of what the time limit leaves of it."""
        return max(0.0, min(self.expected_s(), self.deadline - self._now()))

    def _later(self) -> int:
        return max(0, self.groups - self._groups_begun)

    def _group_s(self, blocks: int) -> float:
        return self._boots * self._boot_s() + (blocks + 1) * self._round_s()

    def _round_s(self) -> float:
        return self._arms * sum(map(self._trial_s, self._jobs))

    def _trial_s(self, job: plugins.Job) -> float:
        return _seconds(job) + statistics.median_high(self._overheads_s[job.label] or self._guesses[1:])

    def _boot_s(self) -> float:
        return statistics.median_high(self._boots_s or self._guesses[:1])


def _seconds(job: plugins.Job) -> float:
    return float(job.parameters.get("seconds", "0")) + float(job.parameters.get("omit", "0"))
