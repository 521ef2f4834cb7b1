# SPDX-License-Identifier: Apache-2.0
"""Names the process that runs a run over many hosts uniquely, and says whether it is alive.

Processes of one machine and one pid namespace see each other in /proc. Of all others only what
they write into the database says that they live, as of a container on the same machine: a pid
there is another process here.
"""

import dataclasses
import os
import secrets
import socket
from typing import Final, Self

from nova_perf_tuning import bounded_read

#: An owner whom /proc does not show and who has been silent for so long, in seconds, has died.
SILENCE_S: Final = 600.0
#: States of processes that have ended and are only still listed.
_ENDED: Final = ("Z", "X")


@dataclasses.dataclass(frozen=True, slots=True)
class RunOwner:
    """A process, at one time when it took a run.

    :ivar boot_id: of its machine's kernel. :ivar namespace: inode of its pid namespace; both
        empty: unknown.
    :ivar started: in ticks of the kernel's clock. :ivar token: random; it is on each stack that
        this owner makes.
    """

    machine: str
    boot_id: str
    namespace: str
    pid: int
    started: int
    token: str

    @classmethod
    def new(cls) -> Self:
        """Return a name for this process that nobody has had."""
        pid = os.getpid()
        _state, started = _process("self") or ("", 0)
        machine = socket.gethostname()[:64]
        return cls(machine, _boot_id(), _namespace(), pid, started, secrets.token_hex(8))

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return the owner of a text, None where it is none, as of a run that nobody runs."""
        parts = text.rsplit(":", 5)
        if len(parts) != 6 or not parts[3].isdecimal() or not parts[4].isdecimal():
            return None
        machine, boot_id, namespace, pid, started, token = parts
        return cls(machine, boot_id, namespace, int(pid), int(started), token)

    def __str__(self) -> str:
        return f"{self.machine}:{self.boot_id}:{self.namespace}:{self.pid}:{self.started}:{self.token}"

    def is_alive(self, silent_s: float) -> bool:
        """Return whether it lives.

        :param silent_s: since it last wrote into the database.
        """
        if not self._is_visible():
            return silent_s < SILENCE_S
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except OSError:  # another user's: it is there
            pass
        process = _process(str(self.pid))
        if process is None:  # /proc hides processes of others (hidepid)
            return silent_s < SILENCE_S
        state, started = process
        if started != self.started:
            return False
        return state not in _ENDED or silent_s < SILENCE_S

    def _is_visible(self) -> bool:
        """Return whether pids mean the same to it and to us, and /proc shows just those."""
        same_boot = self.boot_id != "" and self.boot_id == _boot_id()
        same_namespace = self.namespace != "" and self.namespace == _namespace()
        if not same_boot or not same_namespace:
            return False
        try:
            # Another number: this /proc is of another pid namespace.
            return os.readlink("/proc/self") == str(os.getpid())
        except OSError:
            return False


def _boot_id() -> str:
    try:
        return bounded_read.kernel_text("", "/proc/sys/kernel/random/boot_id")[:36]
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(os.stat("/proc/self/ns/pid").st_ino)
    except OSError:
        return ""


def _process(pid: str) -> tuple[str, int] | None:
    """Return state and start of a process; None: it cannot be read."""
    try:
        text = bounded_read.kernel_text("", f"/proc/{pid}/stat")
        fields = text.rpartition(")")[2].split()  # from the third on: a name may hold anything
        return fields[0], int(fields[19])
    except (OSError, ValueError, IndexError):
        return None
