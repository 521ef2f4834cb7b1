"""Which CPUs an interrupt may fire on: ``irq:47`` = ``4-7``."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.facts import irqs, pci, reader
from nova_perf_tuning.host.settings import base, files

_TARGET = re.compile(r"irq:(0|[1-9][0-9]{0,6})", re.ASCII).fullmatch


class IrqAffinity(base.SettingKind):
    """``smp_affinity_list`` of an interrupt.

    Identity is ``DEVICE|ACTION``: the PCI address that owns the vector (empty for a legacy interrupt) and the
    handler's name as its folder below /proc/irq/N shows it. Numbers are reused when a driver is loaded again
    or changes its channels. A NIC that is down keeps its vectors without their handlers: they are the same.
    """

    kind = "irq_affinity"
    order = 60

    def _folder(self, target: str) -> str:
        match = _TARGET(target)
        if not match:
            raise base.TargetError(f"irq_affinity target {target[:40]!r}: write irq:NUMBER as in irq:47")
        return f"/proc/irq/{match[1]}"

    def read(self, target: str) -> str:
        return files.read_text(self.prefix, f"{self._folder(target)}/smp_affinity_list")

    def write(self, target: str, value: str) -> None:
        number = int(os.path.basename(self._folder(target)))
        privileged.write_irq_affinity(self.root, number, value)

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self._folder(target)}/smp_affinity_list"

    def holds(self, target: str, value: str, current: str) -> bool:
        return base.same_cpus(value, current)

    def effective(self, target: str) -> str | None:
        """Return ``effective_affinity_list``; None where there is none or the interrupt is not started."""
        try:
            return files.read_text(self.prefix, f"{self._folder(target)}/effective_affinity_list") or None
        except FileNotFoundError:
            return None

    def reaches(self, target: str, value: str, effective: str) -> bool:
        """An interrupt fires on some of the CPUs it may fire on; x86 picks one."""
        return effective == value or base.is_part(effective, value)

    def identity(self, target: str) -> str:
        folder = self._folder(target)
        with os.scandir(f"{self.prefix}{folder}") as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        number = int(os.path.basename(folder))
        action = ",".join(names) or self._recorded_names.get(number, "")
        return f"{self._owners.get(number, '')}|{action}"

    def is_same(self, setting: setting_module.Setting) -> bool:
        found = self.identity(setting.target)
        return not setting.identity or found in ("", setting.identity) or is_asleep(setting.identity, found)

    def is_renamed(self, old: str, new: str) -> bool:
        """Most drivers name a vector after its NIC when it comes up: one that was renamed has another then."""
        device = old.partition("|")[0]
        return bool(device) and device == new.partition("|")[0]

    @functools.cached_property
    def _owners(self) -> dict[int, str]:
        """Interrupt number -> PCI address, read once: only while one plan is applied or checked."""
        devices = pci.read_devices(reader.open_root(self.root))
        return {number: device.address for device in devices.values() for number in device.irqs}

    @functools.cached_property
    def _recorded_names(self) -> dict[int, str]:
        """Names of a record that lost its empty folders, and with them the handlers' names in /proc/irq."""
        if self.live or any(_has_folder(entry.path) for entry in os.scandir(f"{self.prefix}/proc/irq")):
            return {}
        return irqs.read_names(reader.open_root(self.root))

    def suspects(self, settings: Sequence[setting_module.Setting]) -> list[bool]:
        """Read one file of each interrupt where :meth:`survey` reads two."""
        try:
            folder = os.open(f"{self.prefix}/proc/irq", files.FOLDER)
        except OSError:
            return [True] * len(settings)
        try:
            asked = files.read_many(folder, [_way(one) + "/smp_affinity_list" for one in settings])
        finally:
            os.close(folder)
        return [allowed != one.value.encode() + b"\n" for one, allowed in zip(settings, asked, strict=True)]

    def survey(self, settings: Sequence[setting_module.Setting]) -> list[base.Observation]:
        """Compare bytes; only what differs is parsed and looked at closely.

        Of the identity only the handler's folder is looked for: it changes with the driver's vectors.
        """
        numbers = [one.target[4:] for one in settings]
        ways = list(map(_way, settings))
        try:
            folder = os.open(f"{self.prefix}/proc/irq", files.FOLDER)
        except OSError:
            return [self.observe(one) for one in settings]
        try:
            asked = files.read_many(folder, [way + "/smp_affinity_list" for way in ways])
            used = files.read_many(folder, [number + "/effective_affinity_list" for number in numbers])
        finally:
            os.close(folder)
        found = []
        inside: dict[tuple[str, bytes], bool] = {}  # few lists, thousands of interrupts
        for one, allowed, effective in zip(settings, asked, used, strict=True):
            value = one.value
            held = allowed == value.encode() + b"\n"
            if held and effective:
                key = (value, effective)
                if key not in inside:
                    inside[key] = base.is_part(effective.decode("ascii", "replace").strip(), value)
                held = inside[key]
            found.append(base.HELD if held else self.observe(one))
        return found


def is_asleep(identity: str, found: str) -> bool:
    """Whether the vector known by ``identity`` is there (``found``) without its handler, as while a NIC is down.

    free_irq() keeps an affinity that was written, and request_irq() brings it into force again
    (IRQD_AFFINITY_SET, irq_setup_affinity), so what was written is still to be undone.
    """
    device, _, name = identity.partition("|")
    return bool(device and name) and found == f"{device}|"


def _way(setting: setting_module.Setting) -> str:
    """Return the way to an interrupt's files that leads through its handler's folder.

    The folder is there, or opening fails; of several files of one interrupt, one by this way is enough.
    """
    number, name = setting.target[4:], setting.identity.rpartition("|")[2]
    return f"{number}/{name}/.." if name else number


def _has_folder(path: str) -> bool:
    return os.path.isdir(path) and any(entry.is_dir(follow_symlinks=False) for entry in os.scandir(path))
