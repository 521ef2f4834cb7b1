"""Guests' events from libvirt: start, stop, reboot, pins changed, devices added and removed.

libvirt's own event loop runs in a thread of ours and only wakes the agent. A connection that breaks (libvirtd
restarts) is made again; meanwhile guests are seen by libvirt's files.
"""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable
from typing import Any, Final

LOG = logging.getLogger(__name__)

#: Seconds before another try to connect.
_PAUSE_S: Final = 2.0

_EVENTS = (
    "VIR_DOMAIN_EVENT_ID_LIFECYCLE",
    "VIR_DOMAIN_EVENT_ID_REBOOT",
    "VIR_DOMAIN_EVENT_ID_TUNABLE",
    "VIR_DOMAIN_EVENT_ID_DEVICE_ADDED",
    "VIR_DOMAIN_EVENT_ID_DEVICE_REMOVED",
)


class LibvirtEvents:
    """Keeps a read-only connection and calls ``wake`` for every event, and when the connection comes back.

    :param wake: called in another thread; must return at once.
    :raises ImportError: libvirt's Python module is not installed.
    """

    def __init__(self, uri: str, wake: Callable[[], None]) -> None:
        import libvirt

        self._libvirt: Any = libvirt
        self._uri = uri
        self._wake = wake
        self._connection: Any = None
        self._stop = threading.Event()
        self._lost = threading.Event()
        self._threads: list[threading.Thread] = []
        #: Why there is no connection; empty while there is one.
        self.fault = "not connected yet"

    def start(self) -> None:
        """Start the threads; the first connection is tried in the background."""
        self._libvirt.registerErrorHandler(lambda _context, _error: None, None)  # it prints to stderr otherwise
        self._libvirt.virEventRegisterDefaultImpl()
        for name, work in (("libvirt-events", self._run_events), ("libvirt-connection", self._keep_connected)):
            thread = threading.Thread(target=work, name=name, daemon=True)
            thread.start()
            self._threads.append(thread)

    def stop(self) -> None:
        """End the connection; the threads end with the process."""
        self._stop.set()
        self._lost.set()
        self._threads[-1].join(timeout=5.0)

    def _run_events(self) -> None:
        while not self._stop.is_set():
            if self._libvirt.virEventRunDefaultImpl() < 0:
                self._stop.wait(1.0)

    def _keep_connected(self) -> None:
        while not self._stop.is_set():
            self._lost.clear()
            try:
                self._connect()
            except self._libvirt.libvirtError as error:
                self.fault = " ".join(str(error).split())[:200]
            else:
                self.fault = ""
                self._wake()  # what happened while nobody listened
                self._lost.wait()
                if not self._stop.is_set():
                    LOG.info("libvirt has closed the connection; connecting again")
                    self.fault = "connection lost"
            self._close()
            self._stop.wait(_PAUSE_S)

    def _connect(self) -> None:
        self._connection = self._libvirt.openReadOnly(self._uri)
        self._connection.registerCloseCallback(lambda _connection, _reason, _opaque: self._lost.set(), None)
        for name in _EVENTS:
            self._connection.domainEventRegisterAny(None, getattr(self._libvirt, name), self._on_event, None)

    def _on_event(self, *_details: object) -> None:
        self._wake()

    def _close(self) -> None:
        connection, self._connection = self._connection, None
        for close in (connection.unregisterCloseCallback, connection.close) if connection is not None else ():
            with contextlib.suppress(self._libvirt.libvirtError):
                close()
