"""Which CPUs an interrupt may fire on: ``irq:47`` = ``4-7``."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

from nova_perf_tuning import bounded_read, cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import irqs, reader
from nova_perf_tuning.host.kinds import base


class IrqAffinity(base.Attribute):
    """``smp_affinity_list`` of an interrupt.

    Identity is ``DEVICE|ACTION``: the PCI address that owns the vector (empty for a legacy interrupt) and the
    handler's name as its directory below /proc/irq/N shows it. Numbers are reused when a driver is loaded again
    or changes its channels. A NIC that is down keeps its vectors without their handlers: they are the same.
    """

    kind = model.IrqTarget.kind
    order = 60

    def path(self, target: str) -> str:
        return f"/proc/irq/{model.IrqTarget.parse(target).number}/smp_affinity_list"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def effective(self, target: str) -> str | None:
        """Return ``effective_affinity_list``; None where there is none or the interrupt is not started."""
        path = f"{os.path.dirname(self.path(target))}/effective_affinity_list"
        try:
            return bounded_read.kernel_text(self.prefix, path) or None
        except FileNotFoundError:
            return None

    def reaches(self, target: str, value: str, effective: str) -> bool:
        """An interrupt fires on some of the CPUs it may fire on; x86 picks one."""
        some, every = cpulist.find(effective), cpulist.find(value)
        return bool(some and every and some <= every)

    def identity(self, target: str) -> str:
        return self._now(target).identity

    def _now(self, target: str) -> model.IrqTarget:
        """Return the interrupt that has this number now."""
        number = model.IrqTarget.parse(target).number
        with os.scandir(f"{self.prefix}/proc/irq/{number}") as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return model.IrqTarget(number, self._owners.get(number, ""), ",".join(names))

    def is_same(self, setting: model.Setting) -> bool:
        now = self._now(setting.target)
        if setting.identity in ("", now.identity):
            return True
        return model.IrqTarget.parse(setting.target, setting.identity).is_asleep(now)

    @functools.cached_property
    def _owners(self) -> dict[int, str]:
        """Interrupt number -> PCI address, read once: only while one plan is applied or checked."""
        devices = irqs.read_devices(reader.open_root(self.root))
        return {number: device.address for device in devices.values() for number in device.irqs}

    def holding(self, settings: Sequence[model.Setting]) -> list[bool]:
        """Of the identity only the handler's directory is looked for: it changes with the driver's vectors.

        The way to the affinity leads through it: it is there, or opening fails.
        """
        try:
            irqs = [model.IrqTarget.parse(setting.target, setting.identity) for setting in settings]
        except base.TargetError:
            return [False] * len(settings)
        ways = [f"{irq.number}/{irq.action}/.." if irq.action else str(irq.number) for irq in irqs]
        top = f"{self.prefix}/proc/irq"
        affinities = bounded_read.kernel_pages(top, [f"{way}/smp_affinity_list" for way in ways])
        effective = bounded_read.kernel_pages(top, [f"{irq.number}/effective_affinity_list" for irq in irqs])
        return [
            content == f"{setting.value}\n".encode("ascii", "replace")
            and (not cpus or self.reaches("", setting.value, cpus.decode("ascii", "replace")))
            for content, cpus, setting in zip(affinities, effective, settings, strict=True)
        ]
