"""How long the rest of a session takes, by what it has taken so far, and what its time limit allows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation.bench import plugins

#: Left of the time limit for removing guests and writing the report.
CLOSING_S: Final = 10.0
#: Guesses, until it is known: of one boot, and of a trial beyond the run of its benchmark.
_BOOT_S, _OVERHEAD_S = 10.0, 0.5


class Timetable:
    """Every boot has an equal share of the time limit, and at least one block of trials.

    :ivar deadline: when everything must be over (CLOCK_MONOTONIC).
    :ivar done, total: trials, warm-ups included; those that the time limit has cut count as done.
    """

    def __init__(
        self, jobs: Sequence[plugins.Job], guests: int, arms: int, boots: int, blocks: int, limit_s: float
    ) -> None:
        """Start the clock.

        :param guests: arms that are booted anew, all but the host; :param blocks: of each boot.
        """
        self._begun = time.monotonic()
        self.deadline = self._begun + limit_s - min(CLOSING_S, limit_s / 4)
        self._guests, self._arms, self._boots = guests, arms, boots
        self._per_boot = (blocks + 1) * arms * len(jobs)
        self.done, self.total = 0, boots * self._per_boot
        self._trials_s = {job.label: float(job.parameters.get("seconds", 0)) + _OVERHEAD_S for job in jobs}
        self._boot_s, self._starts_left = _BOOT_S, boots * guests

    def begin_boot(self, boot: int) -> None:
        """Note that a boot begins: what the boots before it left out will not come any more."""
        self.done, self._starts_left = boot * self._per_boot, (self._boots - boot) * self._guests

    def booted(self, seconds: float) -> None:
        """Note that one guest is up."""
        self._starts_left -= 1
        self._boot_s = seconds

    def measured(self, job: plugins.Job, seconds: float) -> None:
        """Note what one trial in its full length took."""
        self._trials_s[job.label] = seconds

    def elapsed_s(self) -> float:
        """Return the seconds since the start."""
        return time.monotonic() - self._begun

    def fits(self, job: plugins.Job, boot: int, block: int) -> bool:
        """Whether one more trial ends in time: of a boot's first block by the deadline, of others in its share."""
        share = (boot + 1) / self._boots if block else 1.0
        until = self._begun + share * (self.deadline - self._begun)
        return time.monotonic() + self._trials_s[job.label] <= until

    def fits_boot(self) -> bool:
        """Whether there is time for one more boot: its guests, a warm-up and one block."""
        needed_s = self._guests * self._boot_s + 2 * self._arms * sum(self._trials_s.values())
        return time.monotonic() + needed_s < self.deadline

    def expected_s(self) -> float:
        """Return how long what is left of the plan takes, in seconds, whatever the time limit."""
        trial_s = sum(self._trials_s.values()) / len(self._trials_s)
        return self._starts_left * self._boot_s + max(0, self.total - self.done) * trial_s

    def left_s(self) -> float:
        """Return the estimated seconds to the end: of the plan, or of what the time limit leaves of it."""
        return max(0.0, min(self.expected_s(), self.deadline - time.monotonic()))
