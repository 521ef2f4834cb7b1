"""Which CPUs a thread of a guest may run on: ``tid:123`` = ``4-7``."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Sequence

from nova_perf_tuning import bounded_read, cpulist
from nova_perf_tuning.host import model, privileged
from nova_perf_tuning.host.kinds import base

_VHOST = re.compile(rb"vhost-([0-9]{1,10})").fullmatch


class ThreadAffinity(base.SettingKind):
    """CPU affinity of one thread: QEMU's own and vhost's kernel threads; those of a sysroot are only records.

    Identity is ``PID:START``: the QEMU process and the thread's start time in ticks after boot. The kernel cuts
    what is written to the cpuset of the thread's cgroup without a word; reading back shows it. After a restore
    the thread runs where it ran, but keeps a mask of its own: since Linux 6.2 a cpuset that is widened later
    (emulatorpin) does not widen it.
    """

    kind = model.ThreadTarget.kind
    order = 45
    needs_identity = True
    ephemeral = True

    def _tid(self, target: str) -> int:
        tid = model.ThreadTarget.parse(target).tid
        self.require_live()
        return tid

    def read(self, target: str) -> str:
        return cpulist.format(os.sched_getaffinity(self._tid(target)))

    def write(self, target: str, value: str) -> None:
        tid, allowed = self._tid(target), cpulist.find(value)
        if not allowed:
            raise base.TargetError(f"{value[:40]!r} is not a CPU list; write it as in 0-3,8")
        privileged.move_thread(tid, allowed)

    def describe(self, target: str, value: str) -> str:
        return f"taskset -pc {value} {model.ThreadTarget.parse(target).tid}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def identity(self, target: str) -> str:
        tid = self._tid(target)
        stat = bounded_read.kernel_bytes(f"/proc/{tid}/task/{tid}/stat")
        return model.ThreadTarget(tid, _process(tid, stat), _start(stat)).identity

    def holding(self, settings: Sequence[model.Setting]) -> list[bool]:
        """Compare process by process.

        Of each process one thread's start time is read and the numbers of all its threads; a thread that was
        replaced by another of the same living process under the same number is taken for the first.
        """
        try:
            self.require_live()
            threads = [model.ThreadTarget.parse(setting.target, setting.identity) for setting in settings]
        except (base.TargetError, base.UnsupportedError):
            return super().holding(settings)
        held: list[bool] = []
        members = zip(threads, settings, strict=True)
        for pid, group in itertools.groupby(members, lambda member: member[0].pid):
            process = list(group)
            first = process[0][0]
            try:
                alive = set(os.listdir(f"/proc/{pid}/task"))
                if _start(bounded_read.kernel_bytes(f"/proc/{pid}/task/{first.tid}/stat")) != first.start:
                    alive.clear()
            except (OSError, IndexError, ValueError):
                alive = set()
            held += [
                str(thread.tid) in alive and _may_run(thread.tid, setting.value) for thread, setting in process
            ]
        return held


def _may_run(tid: int, value: str) -> bool:
    """Whether a thread of this host may run on just these CPUs; False when it has ended."""
    try:
        return frozenset(os.sched_getaffinity(tid)) == cpulist.find(value)
    except OSError:
        return False


def _start(stat: bytes) -> int:
    """Field 22 of proc(5) stat; the name in brackets may hold blanks and brackets."""
    return int(stat.rpartition(b")")[2].split()[19])


def _process(tid: int, stat: bytes) -> int:
    """The QEMU process that a thread serves: its own, or the one that a vhost kernel thread is named after."""
    vhost = _VHOST(stat.partition(b"(")[2].rpartition(b")")[0])
    if vhost and stat.rpartition(b")")[2].split()[1] == b"2":
        return int(vhost[1])
    status = bounded_read.kernel_bytes(f"/proc/{tid}/task/{tid}/status")
    return int(status.partition(b"\nTgid:\t")[2].partition(b"\n")[0])
