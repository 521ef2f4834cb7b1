"""Which CPUs an interrupt may fire on: ``irq:47`` = ``4-7``."""

from __future__ import annotations

import functools
import os
from collections.abc import Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import pci, reader
from nova_perf_tuning.host.kinds import base, files


class IrqAffinity(base.Attribute):
    """``smp_affinity_list`` of an interrupt.

    Identity is ``DEVICE|ACTION``: the PCI address that owns the vector (empty for a legacy interrupt) and the
    handler's name as its folder below /proc/irq/N shows it. Numbers are reused when a driver is loaded again
    or changes its channels. A NIC that is down keeps its vectors without their handlers: they are the same.
    """

    kind = "irq_affinity"
    order = 60
    form = r"irq:(0|[1-9]\d{0,6})"
    example = "irq:47"
    place = "/proc/irq/{0}/smp_affinity_list"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def effective(self, target: str) -> str | None:
        """Return ``effective_affinity_list``; None where there is none or the interrupt is not started."""
        path = f"{os.path.dirname(self.path(target))}/effective_affinity_list"
        try:
            return files.read_text(self.prefix, path) or None
        except FileNotFoundError:
            return None

    def reaches(self, target: str, value: str, effective: str) -> bool:
        """An interrupt fires on some of the CPUs it may fire on; x86 picks one."""
        some, every = cpulist.find(effective), cpulist.find(value)
        return bool(some and every and some <= every)

    def identity(self, target: str) -> str:
        folder = os.path.dirname(self.path(target))
        with os.scandir(f"{self.prefix}{folder}") as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        return f"{self._owners.get(int(os.path.basename(folder)), '')}|{','.join(names)}"

    def is_same(self, setting: model.Setting) -> bool:
        found = self.identity(setting.target)
        return not setting.identity or found == setting.identity or is_asleep(setting.identity, found)

    @functools.cached_property
    def _owners(self) -> dict[int, str]:
        """Interrupt number -> PCI address, read once: only while one plan is applied or checked."""
        devices = pci.read_devices(reader.open_root(self.root))
        return {number: device.address for device in devices.values() for number in device.irqs}

    def way(self, setting: model.Setting) -> tuple[str, str]:
        """Return a way that leads through the handler's folder: it is there, or opening fails."""
        number, name = setting.target[4:], setting.identity.rpartition("|")[2]
        return "/proc/irq", f"{number}/{name}/../smp_affinity_list" if name else f"{number}/smp_affinity_list"

    def holding(self, settings: Sequence[model.Setting]) -> list[bool]:
        """Of the identity only the handler's folder is looked for: it changes with the driver's vectors."""
        used = files.read_many(
            f"{self.prefix}/proc/irq", [f"{one.target[4:]}/effective_affinity_list" for one in settings]
        )
        return [
            held and (not cpus or self.reaches("", one.value, cpus.decode("ascii", "replace")))
            for held, cpus, one in zip(super().holding(settings), used, settings, strict=True)
        ]


def is_asleep(identity: str, found: str) -> bool:
    """Whether the vector known by ``identity`` is there (``found``) without its handler, as while a NIC is down.

    free_irq() keeps an affinity that was written, and request_irq() brings it into force again
    (IRQD_AFFINITY_SET, irq_setup_affinity), so what was written is still to be undone.
    """
    device, _, name = identity.partition("|")
    return bool(device and name) and found == f"{device}|"
