# SPDX-License-Identifier: Apache-2.0
"""Where interrupts and threads may run: ``irq:47`` = ``4-7``, ``tid:123`` = ``4-7``."""

import errno
import functools
import itertools
import os
import re
from collections.abc import Sequence

from nova_perf_tuning import bounded_read, cpulist
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.input.facts import devices, reader
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model

_VHOST = re.compile(rb"vhost-([0-9]{1,10})").fullmatch

#: What writing a managed interrupt gets: EIO before Linux 6.12, EPERM since.
_MANAGED = (errno.EIO, errno.EPERM)
_IS_MANAGED = "it is managed by the kernel, which places it itself"


class IrqAffinity(base.Attribute):
    """``smp_affinity_list`` of an interrupt.

    Identity is ``DEVICE|ACTION``: the PCI address that owns the vector (empty for a legacy
    interrupt) and the handler's name as its directory below /proc/irq/N shows it. Numbers are
    reused when a driver is loaded again or changes its channels. A NIC that is down keeps its
    vectors without their handlers: they are the same.
    """

    kind = host_model.IrqTarget.kind
    order = 60

    def path(self, target: str) -> str:
        return f"/proc/irq/{host_model.IrqTarget.parse(target).number}/smp_affinity_list"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def write(self, target: str, value: str) -> None:
        try:
            super().write(target, value)
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise OSError(error.errno, f"CPU {value} has no interrupt vector left") from None
            if error.errno in _MANAGED:
                raise base.ManagedError(error.errno, _IS_MANAGED) from None
            raise

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep:
        irq = host_model.IrqTarget.parse(target, identity)
        return base.UndoStep("irq", (str(irq.number), irq.device, irq.action, original, *ours))

    def meanwhile(self, target: str, value: str) -> str | None:
        """Return ``effective_affinity_list`` where it is set (the interrupt is started) and names
        other CPUs.
        """
        path = f"{os.path.dirname(self.path(target))}/effective_affinity_list"
        try:
            effective = bounded_read.kernel_text(self.prefix, path)
        except FileNotFoundError:
            return None
        if not effective or _fires_on(effective, value):
            return None
        return effective

    def identity(self, target: str) -> str:
        return self._now(target).identity

    def _now(self, target: str) -> host_model.IrqTarget:
        """Return the interrupt that has this number now."""
        number = host_model.IrqTarget.parse(target).number
        with os.scandir(f"{self.prefix}/proc/irq/{number}") as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return host_model.IrqTarget(number, self._owners.get(number, ""), ",".join(names))

    def is_same(self, setting: host_model.Setting) -> bool:
        now = self._now(setting.target)
        if setting.identity in ("", now.identity):
            return True
        then = host_model.IrqTarget.parse(setting.target, setting.identity)
        if then.is_renamed(now):  # a new vector starts where the kernel puts it, not where we did
            return self.holds(setting.target, setting.value, self.read(setting.target))
        return then.is_asleep(now)

    @functools.cached_property
    def _owners(self) -> dict[int, str]:
        """Interrupt number -> PCI address, read once: only while one plan is applied or checked."""
        owners: dict[int, str] = {}
        for device in devices.read_devices(reader.open_root(self.root)).values():
            owners |= dict.fromkeys(device.irqs, device.address)
        return owners

    def holding(self, settings: Sequence[host_model.Setting]) -> list[bool]:
        """Of the identity only the handler's directory is looked for: it changes with the driver's
        vectors.

        The way to the affinity leads through it: it is there, or opening fails.
        """
        files: list[str] = []
        for setting in settings:
            try:
                irq = host_model.IrqTarget.parse(setting.target, setting.identity)
            except base.TargetError:
                return [False] * len(settings)  # the files alone do not show it
            way = f"{irq.number}/{irq.action}/.." if irq.action else str(irq.number)
            files.append(f"{way}/smp_affinity_list")
        affinities = bounded_read.kernel_pages(self.prefix, "/proc/irq", files)
        held: list[bool] = []
        for content, setting in zip(affinities, settings, strict=True):
            held.append(content == f"{setting.value}\n".encode("ascii", "replace"))
        return held

    def survey(self, settings: Sequence[host_model.Setting]) -> list[base.Observation]:
        """Look also at where interrupts fire whose affinity holds: it may not be in effect yet."""
        observations = super().survey(settings)
        held: list[int] = []
        files: list[str] = []
        for index, observation in enumerate(observations):
            if observation is base.HELD:
                held.append(index)
                number = host_model.IrqTarget.parse(settings[index].target).number
                files.append(f"{number}/effective_affinity_list")
        effective = bounded_read.kernel_pages(self.prefix, "/proc/irq", files)
        for index, content in zip(held, effective, strict=True):
            setting = settings[index]
            cpus = content.decode("ascii", "replace").strip()
            if cpus and cpus != setting.value and not _fires_on(cpus, setting.value):
                observations[index] = self.observe(setting)
        return observations


def _fires_on(effective: str, value: str) -> bool:
    """Whether an interrupt fires on some of the CPUs of ``value``; x86 picks one."""
    some, every = cpulist.find(effective), cpulist.find(value)
    return bool(some and every and some <= every)


class ThreadAffinity(base.SettingKind):
    """CPU affinity of one thread of QEMU, of vhost or of threaded NAPI.

    In a sysroot it is only a record.

    Identity is ``PID:START``: the QEMU process, of a NAPI the thread itself, and the thread's
    start time in ticks after boot. The kernel cuts what is written to the cpuset of the thread's
    cgroup without a word; reading back shows it. After a restore the thread runs where it ran, but
    keeps a mask of its own: since Linux 6.2 a cpuset that is widened later (emulatorpin) does not
    widen it.
    """

    kind = host_model.ThreadTarget.kind
    order = 45
    needs_identity = True
    ephemeral = True

    def _tid(self, target: str) -> int:
        tid = host_model.ThreadTarget.parse(target).tid
        self.require_live()
        return tid

    def read(self, target: str) -> str:
        return cpulist.format(os.sched_getaffinity(self._tid(target)))

    def write(self, target: str, value: str) -> None:
        tid, allowed = self._tid(target), cpulist.find(value)
        if not allowed:
            raise base.TargetError(f"{value[:40]!r} is not a CPU list; write it as in 0-3,8")
        privileged.move_thread(tid, allowed)

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep:
        thread = host_model.ThreadTarget.parse(target, identity)
        return base.UndoStep("thread", (str(thread.tid), str(thread.start), original, *ours))

    def describe(self, target: str, value: str) -> str:
        return f"taskset -pc {value} {host_model.ThreadTarget.parse(target).tid}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def identity(self, target: str) -> str:
        """Return the QEMU process that a thread serves: its own, or the one that vhost's is named
        after.
        """
        tid = self._tid(target)
        name, parent, group = privileged.status_fields(tid, b"Name", b"PPid", b"Tgid")
        pid = int(group)
        vhost = _VHOST(name)
        if vhost and parent == b"2":
            pid = int(vhost[1])
        start = guest_cpu.started(f"/proc/{tid}/task/{tid}")
        return host_model.ThreadTarget(tid, pid, start).identity

    def holding(self, settings: Sequence[host_model.Setting]) -> list[bool]:
        """Compare process by process.

        Of each process one thread's start time is read and the numbers of all its threads; a
        thread that was replaced by another of the same living process under the same number is
        taken for the first.
        """
        try:
            self.require_live()
            threads = [
                host_model.ThreadTarget.parse(setting.target, setting.identity)
                for setting in settings
            ]
        except (base.TargetError, base.UnsupportedError):
            return super().holding(settings)
        held: list[bool] = []
        members = zip(threads, settings, strict=True)
        for pid, group in itertools.groupby(members, lambda member: member[0].pid):
            process = list(group)
            first = process[0][0]
            try:
                alive = set(os.listdir(f"/proc/{pid}/task"))
                if guest_cpu.started(f"/proc/{pid}/task/{first.tid}") != first.start:
                    alive.clear()
            except (OSError, IndexError, ValueError):
                alive = set()
            held += [
                str(thread.tid) in alive and _may_run(thread.tid, setting.value)
                for thread, setting in process
            ]
        return held


def _may_run(tid: int, value: str) -> bool:
    """Whether a thread of this host may run on just these CPUs; False when it has ended."""
    try:
        return frozenset(os.sched_getaffinity(tid)) == cpulist.find(value)
    except OSError:
        return False
