"""irqbalance's control socket: what it leaves alone, and how long a command may be.

One command a connection, then it closes (irqbalance 1.9.2, ui-socket). ``settings ban irqs`` replaces the whole
list, and what is longer than its buffer is cut without a word, so the caller merges and keeps below
:data:`MAX_COMMAND`.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Iterable
from typing import Final

_FOLDER: Final = "/run/irqbalance"
_SOCKET: Final = re.compile(r"irqbalance([1-9][0-9]{0,9})\.sock", re.ASCII).fullmatch
_BANNED: Final = re.compile(r"\bIRQ (\d{1,7})\b", re.ASCII).findall
#: irqbalance reads 500 bytes; measured: of 245 numbers 114 arrived.
MAX_COMMAND: Final = 480
_MAX_REPLY: Final = 1 << 20
_TIMEOUT_S: Final = 2.0


def running() -> int | None:
    """Return the process id of the irqbalance that can be spoken to; None when there is none."""
    try:
        names = os.listdir(_FOLDER)
    except OSError:
        return None
    for name in sorted(names):
        match = _SOCKET(name)
        if match and _is_irqbalance(int(match[1])):
            return int(match[1])
    return None


def _is_irqbalance(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read(32).strip() == b"irqbalance"
    except OSError:
        return False


def ask(pid: int, command: str) -> str:
    """Send one command and return the reply, empty for a setting.

    :raises OSError: it does not answer, or has ended.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as sock:
        sock.settimeout(_TIMEOUT_S)
        sock.connect(f"{_FOLDER}/irqbalance{pid}.sock")
        sock.sendall(command.encode("ascii"))
        parts, size = [], 0
        while size < _MAX_REPLY:
            try:
                data = sock.recv(65536)
            except ConnectionResetError:  # it closes without reading to the end
                break
            if not data:
                break
            parts.append(data)
            size += len(data)
    return b"".join(parts).decode("ascii", "replace")


def banned(pid: int) -> frozenset[int]:
    """Return the interrupts that it leaves alone because it was told to.

    :raises OSError: it does not answer.
    """
    return frozenset(int(number) for number in _BANNED(ask(pid, "setup")))


def ban_command(numbers: Iterable[int]) -> str:
    """Return the command that makes it leave alone ``numbers`` and no others."""
    ordered = sorted(numbers)
    return "settings ban irqs " + (" ".join(map(str, ordered)) if ordered else "NONE")
