"""systemd's notification protocol (sd_notify(3)): ready, stopping, a line of status, and the watchdog."""

from __future__ import annotations

import os
import socket
from collections.abc import MutableMapping
from typing import Final

#: A message that nobody takes for so long, in seconds, is given up: whoever should read it hangs, and we go on.
WAIT_S: Final = 5.0


class Notifier:
    """Sends to the socket that systemd named; does nothing where there is none.

    :param environment: taken out of it, so that a program started from here does not speak for us.
    :param wait_s: how long the socket may be full before a message is given up.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None, wait_s: float = WAIT_S) -> None:
        self._wait_s = wait_s
        environment = os.environ if environment is None else environment
        address = environment.pop("NOTIFY_SOCKET", "")
        microseconds = environment.pop("WATCHDOG_USEC", "")
        pid = environment.pop("WATCHDOG_PID", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        #: Seconds within which systemd must hear of us; None where it does not ask.
        self.watchdog: float | None = None
        if (
            microseconds.isascii()
            and microseconds.isdigit()
            and len(microseconds) < 20
            and int(microseconds)
            and pid in ("", str(os.getpid()))
        ):
            self.watchdog = int(microseconds) / 1e6

    def send(self, **fields: str | int) -> None:
        """Send ``NAME=value`` for each field; that systemd cannot be reached is no reason to stop."""
        if not self._address:
            return
        text = "\n".join(f"{name}={' '.join(str(value).split())}" for name, value in fields.items())
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
                sock.settimeout(self._wait_s)
                # Unconnected it would be told that there is room where the other's queue is full, and try again
                # and again: 5 seconds of CPU (unix_dgram_poll() looks at the peer of connected sockets only).
                sock.connect(self._address)
                sock.send(text.encode(errors="replace"))
        except OSError:
            pass

    def alive(self) -> None:
        """Tell the watchdog that the loop goes round."""
        if self.watchdog:
            self.send(WATCHDOG=1)
