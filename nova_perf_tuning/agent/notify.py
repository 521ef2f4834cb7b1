"""systemd's notification protocol (sd_notify(3)): ready, stopping, a line of status, and the watchdog."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

#: Seconds that a full socket is waited for: whoever should read it hangs, and we go on.
_WAIT_S = 5.0


class Notifier:
    """Sends to the socket that systemd named; does nothing where there is none.

    :ivar watchdog: seconds within which systemd must hear of us; 0 where it does not ask.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._address = environment.get("NOTIFY_SOCKET", "").replace("@", "\0", 1)
        self.watchdog = int(environment.get("WATCHDOG_USEC") or 0) / 1e6

    def send(self, **fields: str | int) -> None:
        """Send ``NAME=value`` for each field; that systemd cannot be reached is no reason to stop."""
        if not self._address:
            return
        text = "\n".join(f"{name}={' '.join(str(value).split())}" for name, value in fields.items())
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.settimeout(_WAIT_S)
            # Connected: else poll() finds room where the reader's queue is full, and we would spin.
            sock.connect(self._address)
            sock.send(text.encode(errors="replace"))
