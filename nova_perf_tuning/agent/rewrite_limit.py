# SPDX-License-Identifier: Apache-2.0
"""How often a value is written that others keep changing or that the kernel does not take.

Each object has a budget of writes, which time in which it holds earns back. A reset that an event
explains (a driver that was loaded, a CPU that went offline, a guest that started) costs a fifth of
one that nothing explains. Without budget there are pauses, each twice as long as the one before.
"""

import dataclasses
from typing import Final

#: Seconds in which one write is earned back: who changes a value oftener is a competing writer.
EARNED_S: Final = 300.0
#: Seconds of the first pause, and of the longest.
FIRST_PAUSE_S: Final = 20.0
LONGEST_PAUSE_S: Final = 600.0
#: What a write costs whose cause is known.
EXCUSED: Final = 0.2

Key = tuple[
    str, str, str
]  # kind, target, identity: a number that another object gets is no part of the conflict


@dataclasses.dataclass(slots=True)
class Conflict:
    """One object that keeps being changed by others, or does not take what is written.

    :ivar last: when it was found changed last, on the monotonic clock; :ivar rewrites: how often
        that was.
    :ivar budget: writes left.
    :ivar pause: seconds of the present pause, 0 while there is none; :ivar until: its end.
    :ivar current: the value that it had last.
    :ivar spare: an event that explains a change may have one attempt within the pause.
    :ivar others: others changed it, when it was looked at last; False: it held, or had not taken
        what was written.
    """

    last: float
    budget: float
    rewrites: int = 0
    pause: float = 0.0
    until: float = 0.0
    current: str = ""
    spare: bool = False
    others: bool = True


class RewriteLimit:
    """Decides whether an object that was found changed is written again now.

    :param limit: writes in a row.
    :ivar conflicts: what was found changed of late.
    """

    def __init__(self, limit: int = 5) -> None:
        self._limit = float(limit)
        self.conflicts: dict[Key, Conflict] = {}

    def allow(
        self, key: Key, now: float, *, excused: bool = False, held: bool = True, current: str = ""
    ) -> bool:
        """Return whether ``key``, found changed to ``current``, is to be written now.

        When it is, it counts as written.

        :param now: monotonic clock.
        :param excused: an event explains the change. One such attempt is made within each pause:
            what a guest that was rebooted needs does not wait for its end.
        :param held: the last write took effect; without that the time since earns nothing.
        """
        conflict = self.conflicts.setdefault(key, Conflict(now, self._limit))
        conflict.others, conflict.current = held, current
        if now < conflict.until:
            if not (excused and conflict.spare):
                return False
            conflict.spare = False
            conflict.rewrites += 1
            return True
        if held:
            quiet = now - max(conflict.last, conflict.until)
            conflict.budget = min(self._limit, conflict.budget + quiet / EARNED_S)
            if quiet > 2 * conflict.pause:
                conflict.pause = 0.0
        conflict.rewrites += 1
        conflict.last = now
        if conflict.pause:  # it is over: one attempt, and a longer pause when it does not hold
            self._hold_back(conflict, now, min(LONGEST_PAUSE_S, conflict.pause * 2))
            return True
        cost = EXCUSED if excused and held else 1.0
        if conflict.budget < cost:
            self._hold_back(conflict, now, FIRST_PAUSE_S)
            return False
        conflict.budget -= cost
        return True

    @staticmethod
    def _hold_back(conflict: Conflict, now: float, pause: float) -> None:
        conflict.pause, conflict.until, conflict.spare = pause, now + pause, True

    def is_known(self, key: Key, now: float, current: str) -> bool:
        """Whether ``key`` is in a pause and was seen with this value already: it is no news."""
        conflict = self.conflicts.get(key)
        return conflict is not None and now < conflict.until and conflict.current == current

    def holds(self, key: Key) -> None:
        """Note that ``key`` was found as wanted."""
        if key in self.conflicts:
            self.conflicts[key].others = False

    def forget(self, now: float) -> None:
        """Drop what has not been found changed for so long that its budget is full again.

        What is gone stays till then: a link that goes down and up all the time gives no new
        budget.
        """
        for key, conflict in list(self.conflicts.items()):
            earned = max(EARNED_S * (self._limit - conflict.budget), 2 * conflict.pause)
            if now - max(conflict.last, conflict.until) > earned:
                del self.conflicts[key]

    def due(self, now: float) -> list[float]:
        """Return when the next attempts at what is held back are due."""
        return [conflict.until for conflict in self.held_back(now).values()]

    def held_back(self, now: float) -> dict[Key, Conflict]:
        """Return what is in a pause now."""
        return {key: conflict for key, conflict in self.conflicts.items() if now < conflict.until}
