"""Which CPUs a thread of a guest may run on: ``tid:123`` = ``4-7``."""

from __future__ import annotations

import errno
import functools
import itertools
import os
import re
from collections.abc import Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import base, files

_TARGET = re.compile(r"tid:([1-9][0-9]{0,9})", re.ASCII).fullmatch
_VHOST = re.compile(rb"vhost-([0-9]{1,10})").fullmatch
_ALLOWED = b"\nCpus_allowed_list:\t"


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
        files.check_inside(self.prefix, self._folder(tid))
        status = files.read_bytes(f"{self.prefix}{self._folder(tid)}/status")
        return status.partition(_ALLOWED)[2].partition(b"\n")[0].decode("ascii", "replace")

    def write(self, target: str, value: str) -> None:
        tid = self._tid(target)
        if not self.live:
            raise base.UnsupportedError("threads of a sysroot are records: they can be read, not moved")
        allowed = cpulist.find(value)
        if not allowed:
            raise base.TargetError(f"{value[:40]!r} is not a CPU list; write it as in 0-3,8")
        privileged.move_thread(int(tid), allowed)

    def put_back(self, target: str, original: str) -> str:
        """Write an original; where its cpuset (emulatorpin) has none of it any more, all that this has now."""
        try:
            return super().put_back(target, original)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
        privileged.move_thread(int(self._tid(target)), range(os.sysconf("SC_NPROCESSORS_CONF")))
        return self.read(target)

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
            raise ProcessLookupError(3, "no such thread")
        return f"/proc/{pid}/task/{tid}"

    @functools.cached_property
    def _processes(self) -> dict[str, str]:
        """Thread -> process of a sysroot; it stands still."""
        found: dict[str, str] = {}
        for pid in os.listdir(f"{self.prefix}/proc"):
            if pid.isdigit():
                try:
                    found.update(dict.fromkeys(os.listdir(f"{self.prefix}/proc/{pid}/task"), pid))
                except OSError:  # a record without the threads of this process
                    found.setdefault(pid, pid)
        return found

    def survey(self, settings: Sequence[setting_module.Setting]) -> list[base.Observation]:
        """Compare process by process.

        Of each process one thread's start time is read and the numbers of all its threads; a thread that was
        replaced by another of the same living process under the same number is taken for the first. What
        differs is looked at closely.
        """
        as_wanted: list[bool] = []
        for pid, group in itertools.groupby(settings, key=_pid):
            threads = list(group)
            try:
                folder = os.open(f"{self.prefix}/proc/{int(pid)}/task", files.FOLDER)
            except (OSError, ValueError):
                as_wanted += [False] * len(threads)
                continue
            try:
                as_wanted += self._compare(folder, threads)
            finally:
                os.close(folder)
        return [base.HELD if good else self.observe(one) for good, one in zip(as_wanted, settings, strict=True)]

    def _compare(self, folder: int, threads: list[setting_module.Setting]) -> list[bool]:
        """Return for each thread of one process whether it is there and as wanted."""
        first = threads[0]
        wanted = [one.value for one in threads]
        tids = [one.target[4:] for one in threads]
        try:
            stat = files.read_bytes(f"{tids[0]}/stat", folder, files.PAGE)
            if _start(stat) != first.identity.rpartition(":")[2]:
                return [False] * len(threads)
            if self.live:
                alive = frozenset(os.listdir(folder))
                return [tid in alive and _may_run(tid, value) for tid, value in zip(tids, wanted, strict=True)]
        except (OSError, IndexError, ValueError):  # ValueError: a NUL in a target
            return [False] * len(threads)
        found = files.read_many(folder, [tid + "/status" for tid in tids])
        # From the end: the line is one of the last, and the line before may be a mask of thousands of digits.
        return [
            status.startswith(value.encode() + b"\n", status.rfind(_ALLOWED) + len(_ALLOWED))
            for status, value in zip(found, wanted, strict=True)
        ]


def _may_run(tid: str, value: str) -> bool:
    """Whether a thread of this host may run on just these CPUs; False when it has ended."""
    allowed = cpulist.find(value)
    try:
        return allowed is not None and os.sched_getaffinity(int(tid)) == allowed
    except OSError:
        return False


def _pid(setting: setting_module.Setting) -> str:
    return setting.identity.partition(":")[0]


def _start(stat: bytes) -> str:
    """Field 22 of proc(5) stat; the name in brackets may hold blanks and brackets."""
    return stat.rpartition(b")")[2].split()[19].decode("ascii", "replace")


def _process(folder: str, stat: bytes) -> str:
    """The QEMU process that a thread serves: its own, or the one that a vhost kernel thread is named after."""
    vhost = _VHOST(stat.partition(b"(")[2].rpartition(b")")[0])
    status = files.read_bytes(f"{folder}/status")
    group = status.partition(b"\nTgid:\t")[2].partition(b"\n")[0]
    if vhost and stat.rpartition(b")")[2].split()[1] == b"2":
        group = vhost[1]
    return group.decode("ascii", "replace")
