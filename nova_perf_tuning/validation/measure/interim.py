"""One look at a validation that is under way: it may end there when its verdict is clear.

Each look is a chance to be wrong, so the look at half of the boots and the one at the end share the error
probability (Bonferroni's inequality: it holds for any statistic). A run without the look has all of it at its end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Of the error probability, spent at the look; the rest is for the end.
SHARE: Final = 0.4
#: Half of fewer boots decides nothing.
MIN_BOOTS: Final = 6


def due(boots: int, planned: int) -> bool:
    """Return whether to look when ``boots`` of the ``planned`` boots are made."""
    return planned >= MIN_BOOTS and boots == (planned + 1) // 2


def confidence(promised: float, looks: Sequence[int], boots: int) -> float:
    """Return the confidence of an interval over ``boots`` boots that keeps the promise over both looks.

    :param looks: boots that there were at each look.

    The shares are this program's own, whatever a results file says: more looks share :data:`SHARE`.
    """
    if boots in looks:
        share = SHARE / len(set(looks))
    else:
        share = 1.0 - SHARE if any(look < boots for look in looks) else 1.0
    return 1 - (1 - promised) * share
