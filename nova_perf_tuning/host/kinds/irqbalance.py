# SPDX-License-Identifier: Apache-2.0
"""Which interrupts irqbalance leaves alone: ``irqbalance`` = ``43,44``.

It asks a policy script of ours, which reads a list of them, when it first sees an interrupt or
looks at the host anew. Its socket would do for few only: it reads 500 bytes of a list, since 1.9.5
16,384, and keeps none.
"""

import contextlib
import errno
import os
import signal
from collections.abc import Iterable, Sequence
from typing import Final

from nova_perf_tuning import atomic_write, bounded_read
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input.facts import whose
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.kinds import base

TARGET: Final = "irqbalance"
#: The value of an empty list.
NONE: Final = "none"
#: The list, below the root of the host: a number a line.
LIST: Final = "run/nova-perf-tuning/irqbalance.irqs"
#: As many lines as there can be interrupts (a number has seven digits at most) need no more.
_MAX_BYTES: Final = 1 << 20
SCRIPT: Final = "irqbalance-policy-nova-perf"


class IrqbalanceBan(base.SettingKind):
    """The list that irqbalance's policy script reads.

    A file below /run: it outlives irqbalance and the agent, not the boot, and holds any number of
    interrupts. What others have banned, by irqbalance's options or its socket, is not in it and
    stays banned.
    """

    kind = "irqbalance_ban"
    order = 57  # before the interrupts themselves

    def _path(self, target: str) -> str:
        if target != TARGET:
            raise base.TargetError(f"irqbalance_ban target {target[:40]!r}: write {TARGET}")
        bounded_read.check_inside(self.prefix, f"/{LIST}")
        return f"{self.prefix}/{LIST}"

    def read(self, target: str) -> str:
        path = self._path(target)
        try:
            text = bounded_read.read_text(path, _MAX_BYTES, inside=self.prefix)
            return as_text(int(line) for line in text.split())
        except FileNotFoundError:
            return NONE
        except OSError as error:
            if error.errno not in (errno.EILSEQ, errno.EFBIG):
                raise
            raise base.TargetError(f"{path} is damaged: remove it") from None
        except ValueError:
            raise base.TargetError(f"{path} is damaged: remove it") from None

    def write(self, target: str, value: str) -> None:
        """Write the list, or remove it, and make a running irqbalance read it."""
        path, numbers = self._path(target), _numbers(value)
        if numbers:
            atomic_write.make_directory(os.path.dirname(path), inside=self.prefix)
            with atomic_write.writing(path, inside=self.prefix) as file:
                file.write("".join(f"{number}\n" for number in numbers).encode("ascii"))
        elif os.path.lexists(path):
            atomic_write.remove(path, inside=self.prefix)
        if self.live:
            rescan()

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep:
        self._path(target)
        words: list[str] = []
        for value in (original, *ours):
            numbers = "\n".join(map(str, _numbers(value)))
            words.append(f"text:{numbers}" if numbers else "absent")
        return base.UndoStep("listed", (f"/{LIST}", *words))

    def describe(self, target: str, value: str) -> str:
        path, numbers = self._path(target), " ".join(map(str, _numbers(value)))
        write = f"rm -f {path}"
        if numbers:
            write = f"printf '%s\\n' {numbers} > {path}"
        return f"{write}; pkill -HUP -x irqbalance"


def as_text(numbers: Iterable[int]) -> str:
    """Return interrupts as a setting's value."""
    return ",".join(map(str, sorted(numbers))) or NONE


def _numbers(value: str) -> list[int]:
    """Return the interrupts of a setting's value."""
    if value == NONE:
        return []
    return sorted(base.whole_number("irqbalance_ban", part) for part in value.split(","))


def uses_our_script(pid: int) -> bool:
    """Whether this irqbalance was started with our policy script, by whatever path."""
    try:
        words = bounded_read.kernel_bytes(f"/proc/{pid}/cmdline").split(b"\0")
    except OSError:
        return False
    before = b""
    for word in words:
        path = b""
        if before in (b"-l", b"--policyscript"):
            path = word
        elif word.startswith(b"--policyscript="):
            path = word.partition(b"=")[2]
        if b"nova-perf" in os.path.basename(path):
            return True
        before = word
    return False


def rescan() -> None:
    """Make each irqbalance of ours that runs our script ask it again, at its next look at the
    host.

    It passes over the signal before its first look after a start and, since 1.9.4, before the one
    that follows another rescan. Whoever sees interrupts moved that are on the list sends it again.

    A process that irqbalance starts looks like irqbalance until it is the script. The signal would
    end it there, and irqbalance would take an interrupt for one that is not on the list.
    """
    parents = {}
    place, ours = Root("/"), frozenset([os.geteuid()])
    for pid in whose.process_ids(place):
        with contextlib.suppress(OSError):  # it has ended
            if (
                bounded_read.kernel_bytes(f"/proc/{pid}/comm") == b"irqbalance\n"
                and whose.user_ids(place, pid) == ours
                and uses_our_script(pid)
            ):
                (parent,) = privileged.status_fields(pid, b"PPid")
                parents[pid] = int(parent)
    for pid, parent_pid in parents.items():
        if parent_pid not in parents:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)
