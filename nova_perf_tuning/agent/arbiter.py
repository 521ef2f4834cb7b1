"""How often a value is written that somebody else keeps changing: never without bound.

Each object has a budget of writes (a token bucket). A reset that an event explains (a driver that was loaded, a
CPU that went offline, a guest that started) costs a fifth of one that nothing explains, so a host in turmoil is
still repaired at once, and a program that writes all the time is answered a few times, then ever more rarely.
What the kernel refuses is tried under the same budget, and time in which it never held earns nothing.

A second budget is earned so slowly that also who writes every minute or two is answered a few times and then
reported: a program that runs by the clock is no less of a rival than one that runs all the time.
"""

from __future__ import annotations

import dataclasses
from typing import Final

#: Seconds for which the first pause lasts, and in which a whole write is earned back.
PERIOD = 20.0
#: Writes that may be made slowly, and seconds in which one of them is earned back: twelve in an hour.
PATIENCE = 20.0
SLOW_PERIOD = 300.0
#: What a write costs whose cause is known.
EXCUSED = 0.2
#: A pause ends at a multiple of this part of it, so it may be shorter by as much.
_STEPS: Final = 4

Key = tuple[str, str, str]  # kind, target, identity: a number that another object gets is no part of the contest


@dataclasses.dataclass(slots=True)
class Contest:
    """One object that keeps being changed by others, or does not take what is written.

    :ivar rewrites: how often it was found changed; :ivar first, last: when, on the monotonic clock.
    :ivar budget: writes left; :ivar patience: the same of the slow budget (:data:`PATIENCE`).
    :ivar pause: seconds of the present pause, 0 while there is none.
    :ivar until: when the next attempt is due.
    :ivar spare: an event that explains a change may have one attempt before that.
    :ivar others: others changed it, when it was looked at last; False: it held, or had not taken what was written.
    """

    rewrites: int
    first: float
    last: float
    budget: float
    patience: float = PATIENCE
    pause: float = 0.0
    until: float = 0.0
    found: str = ""
    spare: bool = False
    others: bool = True


def _end(now: float, pause: float) -> float:
    # Pauses that began apart end together: each end is a pass over the whole host.
    step = pause / _STEPS
    return (now + pause) // step * step


class Arbiter:
    """Decides whether an object that was found changed is written again now.

    :param limit: writes in a row; :param longest: seconds of the longest pause.
    """

    def __init__(self, limit: int = 5, longest: float = 600.0) -> None:
        self._limit = float(limit)
        self._longest = longest
        self._contests: dict[Key, Contest] = {}

    def allow(
        self,
        key: Key,
        now: float,
        *,
        excused: bool = False,
        held: bool = True,
        found: str = "",
    ) -> bool:
        """Return whether ``key``, found changed to ``found``, is to be written now; it counts as written then.

        :param now: monotonic clock.
        :param excused: an event explains the change. One such attempt is made within each pause: whoever caused
            it may have stopped, and what a guest that was rebooted needs does not wait for its end.
        :param held: the last write took effect; without that the time since earns nothing.
        """
        known = self._contests.get(key)
        if known is None:
            known = self._contests[key] = Contest(0, now, now, self._limit)
        known.others = held
        if now < known.until:
            known.found = found
            allowed = excused and known.spare
            if allowed:
                known.spare = False
                known.rewrites += 1
            return allowed
        if held:
            self._earn(known, now)
        known.patience = min(PATIENCE, known.patience + (now - known.last) / SLOW_PERIOD)
        known.rewrites += 1
        known.last, known.found = now, found
        cost = EXCUSED if excused else 1.0
        if min(known.budget, known.patience) >= cost and not known.pause:
            known.budget -= cost
            known.patience -= cost
            return True
        if known.pause and now >= known.until > 0.0:
            # A pause is over: one attempt, and a longer pause when it does not hold.
            self._hold_back(known, now, min(self._longest, known.pause * 2))
            return True
        self._hold_back(known, now, known.pause or PERIOD)
        return False

    def _earn(self, known: Contest, now: float) -> None:
        """Give back what the quiet time since the last attempt has earned."""
        quiet = now - max(known.last, known.until)
        known.budget = min(self._limit, known.budget + quiet / PERIOD)
        if known.pause and quiet > 2 * known.pause:
            known.pause = 0.0

    @staticmethod
    def _hold_back(known: Contest, now: float, pause: float) -> None:
        known.pause, known.until, known.spare = pause, _end(now, pause), True

    def is_known(self, key: Key, now: float, found: str) -> bool:
        """Whether ``key`` is in a pause and was seen with this value already: it is no news."""
        known = self._contests.get(key)
        return known is not None and now < known.until and known.found == found

    def holds(self, key: Key) -> None:
        """Note that ``key`` was found as wanted."""
        if key in self._contests:
            self._contests[key].others = False

    def forget(self, now: float) -> None:
        """Drop what has not been found changed for so long that its budgets are full again.

        What is gone stays till then: a link that goes down and up all the time gives no new budget.
        """
        for key, one in list(self._contests.items()):
            earned = max(PERIOD * self._limit, 2 * one.pause, SLOW_PERIOD * (PATIENCE - one.patience))
            if now - max(one.last, one.until) > earned:
                del self._contests[key]

    def due(self, now: float) -> float | None:
        """Return when the next attempt is due; None while nothing is held back."""
        return min((one.until for one in list(self._contests.values()) if one.until > now), default=None)

    def held_back(self, now: float) -> dict[Key, Contest]:
        """Return what is in a pause now; may be asked from another thread."""
        return {key: one for key, one in list(self._contests.items()) if now < one.until}
