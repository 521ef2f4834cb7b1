"""What has come from all sources, and since when it waits for an answer."""

from __future__ import annotations

import collections
import selectors
import time
from typing import Final, cast

from nova_perf_tuning.agent import sources

#: Events whose times are remembered until a pass answers them.
_MOST: Final = 4096


class Inbox:
    """Waits on sources; used by one thread.

    :ivar arrivals: when events that explain a change came, as long as nobody has cleared them: one time for all
        that was read from a source in one go.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._polled = time.monotonic()
        self.arrivals: collections.deque[float] = collections.deque(maxlen=_MOST)

    def add(self, source: sources.Source) -> None:
        """Listen to one more source of events."""
        self._selector.register(source, selectors.EVENT_READ)

    def close(self) -> None:
        """Close the sources too."""
        for key in list(self._selector.get_map().values()):
            cast(sources.Source, key.fileobj).close()
        self._selector.close()

    def take(self, seconds: float) -> set[str]:
        """Wait until something has come, and return its kinds; empty when nothing has in so many seconds.

        What is there at once came while its reader was at work, at the earliest when it was last here.
        """
        came, ready = self._polled, self._selector.select(0)
        if not ready:
            ready = self._selector.select(seconds)
            came = time.monotonic()
        self._polled = time.monotonic()
        causes: set[str] = set()
        for key, _mask in ready:
            kinds = cast(sources.Source, key.fileobj).drain()
            if kinds & sources.EXCUSES:
                self.arrivals.append(came)
            causes |= kinds
        return causes
