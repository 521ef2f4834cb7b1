"""Which CPUs a thread of a guest may run on: ``tid:123`` = ``4-7``."""

from __future__ import annotations

import errno
import functools
import itertools
import os
import re
from collections.abc import Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model, privileged
from nova_perf_tuning.host.kinds import base, files

_TARGET = re.compile(r"tid:([1-9][0-9]{0,9})", re.ASCII).fullmatch
_VHOST = re.compile(rb"vhost-([0-9]{1,10})").fullmatch


class ThreadAffinity(base.SettingKind):
    """CPU affinity of one thread: QEMU's own and vhost's kernel threads.

    Identity is ``PID:START``: the QEMU process and the thread's start time in ticks after boot. The kernel cuts
    what is written to the cpuset of the thread's cgroup without a word; reading back shows it. After a restore
    the thread runs where it ran, but keeps a mask of its own: since Linux 6.2 a cpuset that is widened later
    (emulatorpin) does not widen it.
    """

    kind = "thread_affinity"
    order = 45
    needs_identity = True
    ephemeral = True

    @property
    def writable(self) -> bool:
        return self.live

    def _tid(self, target: str) -> str:
        match = _TARGET(target)
        if not match:
            raise base.TargetError(f"thread_affinity target {target[:40]!r}: write tid:NUMBER as in tid:123")
        return match[1]

    def read(self, target: str) -> str:
        tid = self._tid(target)
        if self.live:
            return cpulist.format(os.sched_getaffinity(int(tid)))
        status = files.read_text(self.prefix, f"{self._folder(tid)}/status")
        return status.partition("\nCpus_allowed_list:\t")[2].partition("\n")[0]

    def write(self, target: str, value: str) -> None:
        tid = self._tid(target)
        if not self.live:
            raise base.UnsupportedError("threads of a sysroot are records: they can be read, not moved")
        allowed = cpulist.find(value)
        if not allowed:
            raise base.TargetError(f"{value[:40]!r} is not a CPU list; write it as in 0-3,8")
        privileged.move_thread(int(tid), allowed)

    def describe(self, target: str, value: str) -> str:
        return f"taskset -pc {value} {self._tid(target)}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def identity(self, target: str) -> str:
        folder = f"{self.prefix}{self._folder(self._tid(target))}"
        stat = files.read_bytes(f"{folder}/stat")
        return f"{_process(folder, stat)}:{_start(stat)}"

    def _folder(self, tid: str) -> str:
        """Where a thread's files are; /proc/TID works live, a recorded tree has only /proc/PID/task/TID."""
        if self.live:
            return f"/proc/{tid}/task/{tid}"
        pid = self._processes.get(tid)
        if pid is None:
            raise ProcessLookupError(errno.ESRCH, "no such thread")
        return f"/proc/{pid}/task/{tid}"

    @functools.cached_property
    def _processes(self) -> dict[str, str]:
        """Thread -> process of a sysroot; it stands still."""
        found: dict[str, str] = {}
        for pid in os.listdir(f"{self.prefix}/proc"):
            if pid.isdigit() and os.path.isdir(f"{self.prefix}/proc/{pid}/task"):
                found.update(dict.fromkeys(os.listdir(f"{self.prefix}/proc/{pid}/task"), pid))
        return found

    def holding(self, settings: Sequence[model.Setting]) -> list[bool]:
        """Compare process by process.

        Of each process one thread's start time is read and the numbers of all its threads; a thread that was
        replaced by another of the same living process under the same number is taken for the first.
        """
        if not self.live:
            return super().holding(settings)
        held: list[bool] = []
        for pid, group in itertools.groupby(settings, lambda one: one.identity.partition(":")[0]):
            threads = list(group)
            try:
                alive = set(os.listdir(f"/proc/{int(pid)}/task"))
                start = _start(files.read_bytes(f"/proc/{int(pid)}/task/{threads[0].target[4:]}/stat"))
                if start != threads[0].identity.rpartition(":")[2]:
                    alive.clear()
            except (OSError, IndexError, ValueError):  # ValueError: no number, or a NUL in a target
                alive = set()
            held += [one.target[4:] in alive and _may_run(one.target[4:], one.value) for one in threads]
        return held


def _may_run(tid: str, value: str) -> bool:
    """Whether a thread of this host may run on just these CPUs; False when it has ended."""
    try:
        return frozenset(os.sched_getaffinity(int(tid))) == cpulist.find(value)
    except OSError:
        return False


def _start(stat: bytes) -> str:
    """Field 22 of proc(5) stat; the name in brackets may hold blanks and brackets."""
    return stat.rpartition(b")")[2].split()[19].decode("ascii", "replace")


def _process(folder: str, stat: bytes) -> str:
    """The QEMU process that a thread serves: its own, or the one that a vhost kernel thread is named after."""
    vhost = _VHOST(stat.partition(b"(")[2].rpartition(b")")[0])
    if vhost and stat.rpartition(b")")[2].split()[1] == b"2":
        return vhost[1].decode("ascii")
    status = files.read_bytes(f"{folder}/status")
    return status.partition(b"\nTgid:\t")[2].partition(b"\n")[0].decode("ascii", "replace")
