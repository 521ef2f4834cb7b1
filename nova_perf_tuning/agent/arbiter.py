"""How often a value is written that somebody else keeps changing: never without bound.

Each object has a budget of writes (a token bucket). A reset that an event explains (a driver that was loaded, a
CPU that went offline, a guest that started) costs a fifth of one that nothing explains, so a host in turmoil is
still repaired at once, and a program that writes all the time is answered a few times, then ever more rarely.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable

#: Seconds for which the first pause lasts, and in which a whole write is earned back.
PERIOD = 20.0
#: What a write costs whose cause is known.
EXCUSED = 0.2

Key = tuple[str, str]


@dataclasses.dataclass(slots=True)
class Contest:
    """One object that keeps being changed by others.

    :ivar rewrites: how often it was found changed; :ivar first, last: when, on the monotonic clock.
    :ivar budget: writes left; :ivar pause: seconds of the present pause, 0 while there is none.
    :ivar until: when the next attempt is due.
    """

    rewrites: int
    first: float
    last: float
    budget: float
    pause: float = 0.0
    until: float = 0.0
    found: str = ""


class Arbiter:
    """Decides whether an object that was found changed is written again now.

    :param limit: writes in a row; :param longest: seconds of the longest pause.
    """

    def __init__(self, limit: int = 5, longest: float = 600.0) -> None:
        self._limit = float(limit)
        self._longest = longest
        self._contests: dict[Key, Contest] = {}

    def allow(self, key: Key, now: float, *, excused: bool = False, found: str = "") -> bool:
        """Return whether ``key``, found changed to ``found``, is to be written now; it counts as written then.

        :param now: monotonic clock.
        :param excused: an event explains the change.
        """
        known = self._contests.get(key)
        if known is None:
            known = self._contests[key] = Contest(0, now, now, self._limit)
        elif now < known.until:
            known.found = found
            return False
        quiet = now - max(known.last, known.until)
        known.budget = min(self._limit, known.budget + quiet / PERIOD)
        if known.pause and quiet > 2 * known.pause:
            known.pause = 0.0
        known.rewrites += 1
        known.last, known.found = now, found
        cost = EXCUSED if excused else 1.0
        if known.budget >= cost and not known.pause:
            known.budget -= cost
            return True
        if known.pause and now >= known.until > 0.0:
            # A pause is over: one attempt, and a longer pause when it does not hold.
            known.pause = min(self._longest, known.pause * 2)
            known.until = now + known.pause
            return True
        known.pause = known.pause or PERIOD
        known.until = now + known.pause
        return False

    def forget(self, alive: Iterable[Key], now: float) -> None:
        """Drop what is not in ``alive`` any more, and what has held for so long that its budget is full again."""
        keep = frozenset(alive)
        for key, one in list(self._contests.items()):
            full = now - max(one.last, one.until) > max(PERIOD * self._limit, 2 * one.pause)
            if key not in keep or full:
                del self._contests[key]

    def due(self, now: float) -> float | None:
        """Return when the next attempt is due; None while nothing is held back."""
        return min((one.until for one in self._contests.values() if one.until > now), default=None)

    def held_back(self, now: float) -> dict[Key, Contest]:
        """Return what is in a pause now."""
        return {key: one for key, one in self._contests.items() if now < one.until}
