"""What the agent says of itself: to ``nova-perf status`` in a small file below /run, and to systemd."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Mapping
from typing import Any, Final

from nova_perf_tuning import atomic_write, errors

SCHEMA: Final = 1
FILE: Final = "agent.json"
RUN_DIR: Final = "/run/nova-perf-tuning"
#: Seconds that a full socket is waited for: whoever should read it hangs, and we go on.
_WAIT_S = 5.0


class UnreadableError(errors.PerfTuningError):
    """What is there is not what an agent of this version writes."""


def write(folder: str, content: dict[str, Any]) -> None:
    """Write the state whole."""
    with atomic_write.writing(os.path.join(folder, FILE)) as file:
        file.write(json.dumps({"schema": SCHEMA, **content}).encode())


def remove(folder: str) -> None:
    """Forget the state: the agent has ended."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, FILE))


def read(folder: str = RUN_DIR) -> dict[str, Any] | None:
    """Return what an agent wrote, with two fields added; None where none ever ran or it has ended.

    ``running`` is False for what an agent that was killed left behind; ``age_s`` says how old it is while one
    runs. Text in it may come from guests.

    :raises UnreadableError: it cannot be read, or another version wrote it.
    """
    path = os.path.join(folder, FILE)
    try:
        with open(path, "rb") as file:
            found: dict[str, Any] = json.load(file)
        if found["schema"] != SCHEMA:
            raise ValueError
        running = process_start(found["pid"]) == found["pid_start"]
        age = round(time.monotonic() - found["updated_monotonic"], 1) if running else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}") from None
    except (ValueError, KeyError, TypeError):
        raise UnreadableError(f"{path}: restart nova-perf-agent; where none runs remove the file") from None
    return {**found, "running": running, "age_s": age}


def process_start(pid: int) -> str:
    """Return a live process's start time in ticks after boot, which with its number names it; empty for none."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return ""
    # One that was killed keeps its number until its parent takes note of it.
    return "" if fields[0] in (b"Z", b"X", b"x") else fields[19].decode("ascii")


class Notifier:
    """Sends to the socket that systemd named (sd_notify(3)); does nothing where there is none.

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
