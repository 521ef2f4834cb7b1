"""How far a validation is: a line every few seconds, and what is important."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from nova_perf_tuning.validation.measure import session

#: Seconds between two lines, but for important ones.
_INTERVAL_S = 5


def shower(to_stderr: bool) -> Callable[[session.Progress], None]:
    """Return what prints progress on stdout, or on stderr where stdout has the JSON."""
    stream = sys.stderr if to_stderr else sys.stdout
    last = float("-inf")

    def show(now: session.Progress) -> None:
        nonlocal last
        at = time.monotonic()
        if at - last < _INTERVAL_S and not now.important:
            return
        last = at
        print(f"[{now.done}/{now.total}] {_left(now.left_s)} left  {now.text}", file=stream, flush=True)

    return show


def _left(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02d}:{rest:02d}" if hours else f"about {minutes}:{rest:02d}"
