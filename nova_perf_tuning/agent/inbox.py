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
    :ivar polled: when sources were last looked at.
    """

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self.polled = self._came = time.monotonic()
        self.arrivals: collections.deque[float] = collections.deque(maxlen=_MOST)

    def add(self, source: sources.Source) -> None:
        """Listen to one more source of events."""
        self._selector.register(source, selectors.EVENT_READ)

    def close(self) -> None:
        """Close the sources too."""
        for key in list(self._selector.get_map().values()):
            cast(sources.Source, key.fileobj).close()
        self._selector.close()

    def wait(self, seconds: float) -> bool:
        """Wait until something has come, and return whether it has.

        What is there at once came while its reader was at work, at the earliest when it was last here.
        """
        self._came, ready = self.polled, self._selector.select(0)
        if not ready:
            ready = self._selector.select(seconds)
            self._came = time.monotonic()
        self.polled = time.monotonic()
        return bool(ready)

    def take(self) -> set[str]:
        """Return the kinds of all that has come: what was waited for, and what came since."""
        self.polled = time.monotonic()
        causes: set[str] = set()
        for key, _mask in self._selector.select(0):
            kinds = cast(sources.Source, key.fileobj).drain()
            if kinds & sources.EXCUSES:
                self.arrivals.append(self._came)
            causes |= kinds
        return causes
