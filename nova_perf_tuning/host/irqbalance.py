"""irqbalance's control socket: what it leaves alone, how long a command may be, and how it is made to look again.

One command a connection, then it closes (irqbalance 1.9.2, ui-socket). ``settings ban irqs`` replaces the whole
list, and what is longer than its buffer is cut without a word (refused since 1.9.5, which takes 16 KiB), so the
caller merges and keeps below :data:`MAX_COMMAND`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import itertools
import math
import os
import re
import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from typing import Final

#: What our policy script reads: an interrupt a line, and the last line once irqbalance was made to.
LIST: Final = "/run/nova-perf-tuning/irqbalance.irqs"
#: The list's last line: which irqbalance has surely heard of it follows, if there is one.
LIST_HEARD: Final = "# irqbalance was told to read this"

_FOLDER: Final = "/run/irqbalance"
#: Where there is no such folder it binds an address of zeros: this abstract one, one in a network namespace.
_FALLBACK: Final = b"\0" * 108
_SOCKET: Final = re.compile(r"irqbalance([1-9][0-9]{0,9})\.sock", re.ASCII).fullmatch
_SLEEP: Final = re.compile(r"SLEEP (\d{1,7})\b", re.ASCII).match
_BANNED: Final = re.compile(r"\bIRQ (\d{1,7})\b", re.ASCII).findall
_BAN: Final = "settings ban irqs "
#: irqbalance reads 500 bytes; measured: of 245 numbers 114 arrived.
MAX_COMMAND: Final = 480
_MAX_REPLY: Final = 1 << 20
_TIMEOUT_S = 2.0
#: Seconds that an end has for all answers: half of what the unit gives a stop goes to waiting for the journal.
END_S: Final = 25.0
#: Until when an answer is waited for, one that is due already included; None: only a new one, for _TIMEOUT_S.
_until: float | None = None


@contextlib.contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Wait no longer than this for an answer within; for a loop that has other things to do."""
    global _TIMEOUT_S
    before, _TIMEOUT_S = _TIMEOUT_S, seconds
    try:
        yield
    finally:
        _TIMEOUT_S = before


@contextlib.contextmanager
def waiting(seconds: float) -> Iterator[None]:
    """Wait for each answer within, also one that is due already, for so long in all: whoever ends asks no more."""
    global _until
    before, _until = _until, time.monotonic() + seconds
    try:
        yield
    finally:
        _until = before


def _time_left() -> float:
    return _TIMEOUT_S if _until is None else max(0.1, _until - time.monotonic())


@dataclasses.dataclass
class _Rhythm:
    """How an irqbalance works: its interval, as far as it is known, and when it was told last what to ban."""

    pid: int
    interval: float = 10.0
    told: float = -math.inf


_rhythm = _Rhythm(0)


def _rhythm_of(pid: int) -> _Rhythm:
    global _rhythm
    if _rhythm.pid != pid:
        _rhythm = _Rhythm(pid)
    return _rhythm


def interval(pid: int) -> float:
    """Return the seconds between two of its looks at the host, as of its last answer; 10, its default, before."""
    return _rhythm_of(pid).interval


def is_busy(pid: int) -> bool:
    """Whether it is silent because of what we have told it: it looks at the host again, then waits its interval.

    What it was told may be seen at its next look only.
    """
    found = _rhythm_of(pid)
    return is_silent(pid) and time.monotonic() - found.told < 2 * found.interval + _TIMEOUT_S


def is_silent(pid: int) -> bool:
    """Whether it has not yet answered the last question."""
    try:
        _check_answered(pid)
    except BlockingIOError:
        return True
    return False


#: Connections on which an answer is due. Were they closed, to answer would end irqbalance by SIGPIPE, but for
#: one that systemd has started.
_unanswered: dict[int, socket.socket] = {}


#: Which irqbalance listens at :data:`_FALLBACK`.
_spoken_to: set[int] = set()


def running() -> int | None:
    """Return the process id of the irqbalance that can be spoken to; None when there is none."""
    try:
        names = os.listdir(_FOLDER)
    except OSError:
        names = []
    for name in sorted(names):
        match = _SOCKET(name)
        if match and _is_irqbalance(int(match[1])):
            return int(match[1])
    return _at_fallback()


def _at_fallback() -> int | None:
    for pid in _spoken_to:
        if _is_irqbalance(pid):
            return pid
    _spoken_to.clear()
    sock = _new_socket()
    try:
        sock.connect(_FALLBACK)
        pid = _listener(sock)
    except OSError:
        sock.close()
        return None
    _spoken_to.add(pid)
    try:
        # It takes a connection without a command for the last command once more, and ends when it cannot reply.
        _talk(pid, sock, "setup")
    except OSError:
        pass
    return pid


def _listener(sock: socket.socket) -> int:
    """Return the process that listens at the other end, which must be an irqbalance of root's.

    Anybody may bind an abstract address.
    """
    size = struct.calcsize("3i")
    pid, uid, _gid = struct.unpack("3i", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if uid != os.geteuid() or not _is_irqbalance(pid):
        raise ConnectionRefusedError(errno.ECONNREFUSED, "another process has irqbalance's address")
    return int(pid)


def find() -> int | None:
    """Return the process id of an irqbalance of root's, also of one that has no socket; None when there is none.

    This reads the name of every process if need be.
    """
    pid = running()
    if pid is not None:
        return pid
    for name in os.listdir("/proc"):
        if name.isdigit() and _is_irqbalance(int(name)) and _owner(int(name)) == os.geteuid():
            return int(name)
    return None


def _owner(pid: int) -> int | None:
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return None


def _is_irqbalance(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read(32).strip() == b"irqbalance"
    except OSError:
        return False


def uses_our_script(pid: int) -> bool:
    """Whether this irqbalance was started with our policy script, by whatever path."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(65536).split(b"\0")
    except OSError:
        return False
    paths = [word for before, word in itertools.pairwise(words) if before in (b"-l", b"--policyscript")]
    paths += [word.partition(b"=")[2] for word in words if word.startswith(b"--policyscript=")]
    return any(b"nova-perf" in os.path.basename(path) for path in paths)


def ask(pid: int, command: str) -> str:
    """Send one command and return the reply, empty for a setting.

    After a command that bans, irqbalance before 1.9.4 answers nobody for as long as its interval is.

    :raises OSError: it has ended; EAGAIN: it does not answer now. A command that was sent is carried out later.
    """
    _check_answered(pid)
    path = f"{_FOLDER}/irqbalance{pid}.sock"
    sock = _new_socket()
    try:
        named = os.path.exists(path)
        sock.connect(path if named else _FALLBACK)
        listener = pid if named else _listener(sock)
    except OSError:
        sock.close()
        raise
    reply = _talk(listener, sock, command if listener == pid else "setup")
    if listener != pid:
        raise ProcessLookupError(errno.ESRCH, "irqbalance has ended, and another one runs")
    return reply


def _talk(pid: int, sock: socket.socket, command: str) -> str:
    """Send one command and return the reply; the connection is closed, or kept until the answer has come."""
    try:
        sock.sendall(command.encode("ascii"))
        if command.startswith(_BAN):
            _rhythm_of(pid).told = time.monotonic()
        return _reply(sock)
    except TimeoutError:
        _unanswered[pid] = sock
        raise BlockingIOError(errno.EAGAIN, f"no answer within {sock.gettimeout():g} s") from None
    finally:
        if _unanswered.get(pid) is not sock:
            sock.close()


def _new_socket() -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    sock.settimeout(_time_left())
    return sock


def _reply(sock: socket.socket) -> str:
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


def _check_answered(pid: int) -> None:
    """Give back connections whose answer has come or never will.

    :raises OSError: EAGAIN: this irqbalance has not answered the last question yet.
    """
    for other, sock in list(_unanswered.items()):
        sock.settimeout(0.0 if other != pid or _until is None else _time_left())
        try:
            while sock.recv(65536):
                pass
        except (BlockingIOError, TimeoutError):
            if other == pid:
                raise BlockingIOError(errno.EAGAIN, "the last question is not answered yet") from None
            if _is_irqbalance(other):
                continue
        except OSError:
            pass
        sock.close()
        del _unanswered[other]


def identity(pid: int) -> str:
    """Return what tells this process from a later one with its number.

    :raises OSError: it has ended.
    """
    with open(f"/proc/{pid}/stat", "rb") as file:
        stat = file.read(4096)
    return f"{pid}:{stat.rpartition(b')')[2].split()[19].decode('ascii', 'replace')}"


def rescan(pid: int) -> bool:
    """Make it ask its policy script again: it does so once for each interrupt, when it first sees it.

    A ban of what is banned already is never lost. SIGHUP is, until its first look at the interrupts after a start
    and, since 1.9.4, after a rescan; it is for an irqbalance without a socket. One that has a socket and does not
    answer works at a rescan: SIGHUP makes it begin another one, in which it is silent again, so it is told when it
    answers, but for the last word at an end (:func:`waiting`).

    :return: it surely hears this: it has answered, so it has looked at the interrupts before.
    :raises OSError: it cannot be told.
    """
    answered = False
    try:
        command = ban_command(banned(pid))
        answered = True
        if len(command) <= MAX_COMMAND:
            with contextlib.suppress(BlockingIOError):  # sent, and carried out later
                ask(pid, command)
            return True
    except BlockingIOError:
        if _until is None:
            return False
    except OSError:
        pass
    descriptor = os.pidfd_open(pid)
    try:
        if not _is_irqbalance(pid):
            raise ProcessLookupError(errno.ESRCH, "irqbalance has ended")
        signal.pidfd_send_signal(descriptor, signal.SIGHUP)
    finally:
        os.close(descriptor)
    return answered


def banned(pid: int) -> frozenset[int]:
    """Return the interrupts that it leaves alone because it was told to.

    :raises OSError: it does not answer.
    """
    reply = ask(pid, "setup")
    if match := _SLEEP(reply):
        _rhythm_of(pid).interval = float(min(max(int(match[1]), 1), 300))
    return frozenset(int(number) for number in _BANNED(reply))


def ban_command(numbers: Iterable[int]) -> str:
    """Return the command that makes it leave alone ``numbers`` and no others."""
    ordered = sorted(numbers)
    return _BAN + (" ".join(map(str, ordered)) if ordered else "NONE")
