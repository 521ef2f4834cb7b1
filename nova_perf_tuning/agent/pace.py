"""How much of the time the loop takes: when it rests, and when it tries again what failed."""

from __future__ import annotations

from typing import Final

#: The longest rest: who was made to wait by it is right again soon all the same.
_LONGEST_REST: Final = 1.0
#: The shortest one: to wait and to wake up costs time too.
_SHORTEST_REST: Final = 0.005
#: Seconds of rest that one second of reading costs, and how many of them may be owed before there is a rest.
_REST_OF_READING: Final = 19.0
_OWED: Final = 0.5
_RETRY_FIRST, _RETRY_LONGEST = 1.0, 60.0
#: Seconds between two attempts that events bring about.
_EARLY: Final = 2.0


class Rests:
    """Leaves the host to its work in a storm of events.

    :ivar until: when the rest ends.
    """

    def __init__(self) -> None:
        self.until = 0.0
        self._paid = 0.0

    def after_pass(self, begin: float, now: float) -> None:
        """Rest for as long as a pass took, whatever became of it."""
        self.until = now + min(_LONGEST_REST, now - begin)

    def after_reading(self, begin: float, now: float) -> None:
        """Count what an event cost of which no pass came: who writes all the time shall not keep us at work.

        A single one, however many objects were read, is followed by no rest or a short one.
        """
        self._paid = max(self._paid, now) + _REST_OF_READING * (now - begin)
        self._paid = min(self._paid, now + _OWED + _LONGEST_REST)
        if self._paid - _OWED > now:
            self.until = max(self.until, self._paid - _OWED, now + _SHORTEST_REST)


class Retries:
    """When a pass that failed is tried again: ever later, and soon after an event.

    What an attempt before that time comes to, changes nothing about it unless it succeeds.
    """

    def __init__(self) -> None:
        self._due = self._pause = self._tried = self._early = 0.0

    @property
    def next(self) -> float:
        """When the next attempt is due; 0 where nothing failed."""
        return min(self._due, self._early or self._due)

    def failed(self, begin: float) -> None:
        """Note that the pass begun then failed."""
        self._tried, self._early = begin, 0.0
        if begin >= self._due:
            self._pause = min(_RETRY_LONGEST, max(_RETRY_FIRST, 2 * self._pause))
            self._due = begin + self._pause

    def hasten(self, now: float) -> None:
        """Note an event: what was amiss may be mended, and what happened is to be answered."""
        if self._due:
            self._early = self._early or max(now, self._tried + _EARLY)

    def succeeded(self) -> None:
        """Forget what failed."""
        self._due = self._pause = self._early = 0.0
