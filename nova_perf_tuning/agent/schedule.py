# SPDX-License-Identifier: Apache-2.0
"""When the agent acts: its timers, its pauses after failures, and what the next pass answers.

A schedule knows no clock, no thread and no host. Each method is given the time on a clock that
only goes forward; the loop in ``service.py`` waits, asks, and reports what happened.
"""

import enum
import math
from collections.abc import Collection
from typing import Final, Protocol

from nova_perf_tuning.agent import cause

#: Looks after an event: drivers go on setting their masks after they have announced themselves.
FOLLOW_UPS: Final = (0.25, 1.0, 3.0)
#: Seconds after an event for which it explains a change.
EXCUSED_FOR_S: Final = 5.0
#: Seconds after which a pass is tried again that met a command at work.
BUSY_PAUSE_S: Final = 0.5
#: Seconds of the first and of the longest pause after passes that failed.
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
#: Seconds from one attempt to the next that an event brings forward.
EARLY_S: Final = 2.0
#: Longest rest after a pass, in seconds. Otherwise the rest lasts as long as the pass: the host
#: has its own work.
LONGEST_REST_S: Final = 1.0


class AgentStep(enum.Enum):
    """What is due without an event."""

    RETRY = "make the pass that failed or was put off"
    VERIFY = "read everything back"
    FOLLOW_UP = "look again after an event or a pause"
    LOOK = "look for what came or went"
    DEVICES = "look at the interrupts of passed-through devices"


class Intervals(Protocol):
    """Seconds between two readings, looks, and looks at passed-through devices."""

    verify_interval: float
    interval: float
    passthrough_interval: float


class AgentSchedule:
    """Timers of one agent.

    :ivar owed: causes that no pass has answered yet.
    :ivar tried: when the last pass began, or what is held back was last tried.
    """

    def __init__(self, intervals: Intervals, now: float, watchdog_s: float = 0.0) -> None:
        """Begin with every timer due.

        :param intervals: read each time that a timer is set.
        :param watchdog_s: seconds within which systemd must hear of the agent; 0: it need not.
        """
        self._intervals = intervals
        self._watchdog_s = watchdog_s
        self.owed: set[str] = set()
        self.tried = now
        self._next_verify = now
        self._next_look = now
        self._next_devices = now
        self._follow_ups: list[float] = []
        self._excused_until = now
        #: When the owed pass is tried again; None: there is none, or it has not failed.
        self._retry_at: float | None = None
        #: Seconds of the last pause after a failure; 0 since the last pass that was made.
        self._pause = 0.0
        self._rest_until = now

    # -- before a pass

    def rest_s(self, now: float) -> float:
        """Return for how many seconds events are only collected: the host gets on with its work."""
        return max(0.0, self._rest_until - now)

    def next_deadline(self, now: float, pauses: Collection[float]) -> float:
        """Return when something is due next if no event comes; events move only the watchdog's.

        :param pauses: when the pauses end of what is held back, as of :attr:`tried`.
        """
        if self._retry_at is not None:
            times = [self._retry_at]
        else:
            times = [self._next_verify, self._next_look, self._next_devices]
            times += self._follow_ups
            times += pauses
        if self._watchdog_s:
            times.append(now + self._watchdog_s / 3)
        return min(times)

    def event(self, causes: set[str], now: float) -> bool:
        """Note events; return whether a pass answers them now.

        Otherwise the pass that is tried again answers them: none may work until something else
        changes. That pass comes earlier for them, but not at once when events come all the time.
        A signal does not wait.
        """
        if causes & cause.EXCUSES:
            self.explain(now)
        if self._retry_at is None or cause.SIGNAL in causes:
            return True
        self.owed |= causes
        earliest = max(now, self.tried + EARLY_S)
        self._retry_at = min(self._retry_at, earliest)
        return False

    def explain(self, now: float) -> None:
        """Note something that explains changes now and soon, of which there may be more to see."""
        self._excused_until = now + EXCUSED_FOR_S
        self._follow_ups = [now + after for after in FOLLOW_UPS]

    def due(self, now: float, pauses: Collection[float]) -> AgentStep | None:
        """Return what is due, at most one step, and set its timer anew.

        While a pass is to be tried again nothing else is due. A full reading does what every
        shorter look does, so it goes first.

        :param pauses: as in :meth:`next_deadline`.
        """
        if self._retry_at is not None:
            if now >= self._retry_at:
                return AgentStep.RETRY
            return None
        if now >= self._next_verify:
            self._next_verify = now + self._intervals.verify_interval
            self._next_look = now + self._intervals.interval
            return AgentStep.VERIFY
        if min([*self._follow_ups, *pauses], default=math.inf) <= now:
            self._follow_ups = [moment for moment in self._follow_ups if moment > now]
            self.tried = now
            return AgentStep.FOLLOW_UP
        if now >= self._next_look:
            self._next_look = now + self._intervals.interval
            return AgentStep.LOOK
        if now >= self._next_devices:
            self._next_devices = now + self._intervals.passthrough_interval
            return AgentStep.DEVICES
        return None

    # -- a pass

    def begin(self, causes: set[str], now: float) -> bool:
        """Note that a pass begins; return whether an event explains what it finds changed."""
        self.tried = now
        self.owed |= causes
        if self.owed & cause.EXCUSES or cause.START in self.owed:
            return True
        return now < self._excused_until

    def succeeded(self, now: float, *, devices: bool) -> set[str]:
        """Note that the pass was made, and set the timers; return the causes that it answered.

        :param devices: passed-through devices are placed, whose interrupts are looked at often.
        """
        answered = self.owed
        self.owed = set()
        self._retry_at = None
        self._pause = 0.0
        if self._next_verify <= now:
            self._next_verify = now + self._intervals.verify_interval
        self._next_look = now + self._intervals.interval
        self._next_devices = math.inf
        if devices:
            self._next_devices = now + self._intervals.passthrough_interval
        return answered

    def failed(self) -> None:
        """Note that the pass that has begun could not be made: each pause is twice the last."""
        self._pause = min(LONGEST_PAUSE_S, max(FIRST_PAUSE_S, 2 * self._pause))
        self._retry_at = self.tried + self._pause

    def put_off(self) -> bool:
        """Note that the pass that has begun met a command at work.

        :returns: whether no pass was to be tried again before: it is news.
        """
        is_news = self._retry_at is None
        self._retry_at = self.tried + BUSY_PAUSE_S
        return is_news

    def ended(self, now: float) -> None:
        """Note when the pass ended, however it did: a rest follows."""
        self._rest_until = now + min(LONGEST_REST_S, now - self.tried)
