# SPDX-License-Identifier: Apache-2.0
"""Where the kernel's own work may run: CPUs of what has no place of its own, and kernel threads.

``workqueue`` = ``000f``, ``tid:36`` = ``0-3``.
"""

import errno
from collections.abc import Sequence
from typing import Final, NamedTuple

from nova_perf_tuning import bounded_read, cpulist
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model


class _File(NamedTuple):
    """A file of the kernel with CPUs.

    :ivar reads: where the value that was asked for is read, if not in ``path``.
    :ivar is_list: it holds a cpulist, else a mask.
    """

    path: str
    reads: str = ""
    is_list: bool = False


#: Target of :class:`WorkCpus` -> its file.
FILES: Final = {
    host_model.NEW_IRQS: _File("/proc/irq/default_smp_affinity"),
    host_model.NEW_DEVICES: _File("/proc/sys/net/core/rps_default_mask"),
    host_model.WORKQUEUE: _File(
        f"/{reader.WORKQUEUES}/cpumask", f"/{reader.WORKQUEUES}/cpumask_requested"
    ),
    host_model.WATCHDOG: _File("/proc/sys/kernel/watchdog_cpumask", is_list=True),
}


class WorkCpus(base.SettingKind):
    """CPUs of work that has no place of its own: ``workqueue`` = ``0f``, ``watchdog`` = ``0-3``.

    ``new_irqs`` are interrupts that come later, ``new_devices`` the RPS masks of network devices
    of this namespace that come later, ``workqueue`` is work that no CPU is asked for, and
    ``watchdog`` the CPUs on which the kernel looks for lockups. Of ``workqueue`` the mask that was
    asked for is read and put back: since Linux 6.8 isolated CPUs are missing in what is in force.
    The mask of a single queue needs no setting: the kernel cuts it to this one.
    """

    kind = "host_cpus"
    order = 42

    def _file(self, target: str) -> _File:
        if target not in FILES:
            raise base.TargetError(
                f"host_cpus target {target[:40]!r}: write one of {', '.join(FILES)}"
            )
        return FILES[target]

    def read(self, target: str) -> str:
        file = self._file(target)
        if file.reads:
            try:
                return bounded_read.kernel_text(self.prefix, file.reads)
            except FileNotFoundError:  # before Linux 6.8 there is one mask
                pass
        return bounded_read.kernel_text(self.prefix, file.path)

    def write(self, target: str, value: str) -> None:
        file = self._file(target)
        privileged.write(self.root, file.path, value)
        if self.prefix and file.reads:  # of a record, whose files do not follow each other
            try:
                privileged.write(self.root, file.reads, value)
            except FileNotFoundError:
                pass

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep:
        file = self._file(target)
        form = "text" if file.is_list else "mask"
        return base.UndoStep("asked", (form, file.reads, file.path, original, *ours))

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self._file(target).path}"

    def holds(self, target: str, value: str, current: str) -> bool:
        if self._file(target).is_list:
            return base.same_cpus(value, current)
        if current == value:
            return True
        if not (cpulist.is_mask(current) and cpulist.is_mask(value)):
            return False
        return cpulist.parse_mask(current) == cpulist.parse_mask(value)


class KernelThreadAffinity(base.SettingKind):
    """CPU affinity of a thread of the kernel that is bound to no CPU: ``tid:36`` = ``0-3``.

    Identity is ``START:NAME``: start time in ticks after boot, and the thread's name. The kernel
    gives some of them another affinity when CPUs come or go, or partitions change: ``verify``
    shows it. Threads of a sysroot are only records.
    """

    kind = host_model.KernelThreadTarget.kind
    order = 44
    needs_identity = True
    ephemeral = True

    def _tid(self, target: str) -> int:
        tid = host_model.KernelThreadTarget.parse(target).tid
        self.require_live()
        return tid

    def read(self, target: str) -> str:
        """Return the CPUs of its status, which names offline ones too: they may come back."""
        (cpus,) = privileged.status_fields(self._tid(target), b"Cpus_allowed_list")
        return cpus.decode("ascii", "replace")

    def write(self, target: str, value: str) -> None:
        tid, allowed = self._tid(target), cpulist.find(value)
        if not allowed:
            raise base.TargetError(f"{value[:40]!r} is not a CPU list; write it as in 0-3,8")
        try:
            privileged.move_kernel_thread(tid, allowed)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            raise OSError(error.errno, "the kernel keeps this thread where it is") from None

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep:
        thread = host_model.KernelThreadTarget.parse(target, identity)
        return base.UndoStep("thread", (str(thread.tid), str(thread.start), original, *ours))

    def describe(self, target: str, value: str) -> str:
        return f"taskset -pc {value} {host_model.KernelThreadTarget.parse(target).tid}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def identity(self, target: str) -> str:
        tid = self._tid(target)
        (name,) = privileged.status_fields(tid, b"Name")
        start = guest_cpu.started(f"/proc/{tid}/task/{tid}")
        text = name.decode("utf-8", "replace")
        return host_model.KernelThreadTarget(tid, start, text).identity
