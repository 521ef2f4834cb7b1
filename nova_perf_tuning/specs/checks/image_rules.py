"""Image properties that waste performance on KVM: emulated devices, old ones, hints that are missing.

Glance and Nova accept all of these images; they boot and are slow.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, Final

from nova_perf_tuning import rules
from nova_perf_tuning.rules import Finding
from nova_perf_tuning.specs import crosscheck, parsing, profile, vocabulary
from nova_perf_tuning.specs.checks import flavor_specs

#: Models that QEMU emulates register by register; Nova's names and the old VMware ones it takes for them.
EMULATED_NICS: Final = frozenset(
    {"e1000", "e1000e", "rtl8139", "ne2k_pci", "pcnet", "lan9118", "spapr-vlan", "virtuale1000", "virtuale1000e"}
)
EMULATED_BUSES: Final = frozenset({"ide", "sata", "fdc", "usb"})
#: The first QEMU machine types that give virtio-scsi and virtio-blk one queue for each vCPU by themselves.
AUTO_QUEUES: Final = (5, 2)

#: Sockets that desktop editions of Windows use at most; Pro for Workstations alone uses four.
_DESKTOP_SOCKETS: Final = 2
_TOPOLOGY: Final = frozenset({"hw:cpu_sockets", "hw:cpu_cores", "hw:cpu_max_sockets"})
_MACHINE: Final = re.compile(r"(?:pc-i440fx|pc-q35|virt)-(\d+)\.(\d+)(?:\.\d+)?")


@dataclasses.dataclass(frozen=True, slots=True)
class ImageFacts:
    """An image as the rules see it.

    :ivar properties: everything Glance holds, as text, the flat custom properties included.
    :ivar flavor_specs, vcpus: of the flavor it is checked with; empty and 0 without one.
    """

    name: str
    properties: Mapping[str, str]
    flavor_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    vcpus: int = 0

    def value(self, key: str) -> str:
        """Return a property in lower case, empty when it is not set."""
        return self.properties.get(key, "").strip().lower()

    def shown(self, key: str) -> str:
        """Return ``key=value`` for a message, or ``no key``."""
        return f"{key}={vocabulary.shown(self.properties[key])}" if self.value(key) else f"no {key}"

    @property
    def looks_like_windows(self) -> bool:
        """Whether distribution or name say so; os_type itself is not asked."""
        if self.value("os_distro"):
            return self.value("os_distro").startswith("win")
        return re.search(r"\bwin(dows|2k|\d)", self.name.lower().replace("_", " ")) is not None

    @property
    def looks_like_desktop_windows(self) -> bool:
        """Whether distribution and name say a release of Windows that is no server."""
        told = f"{self.value('os_distro')} {self.name.lower()}".replace("_", " ")
        release = re.search(r"\bwin(dows)?[-. ]*(xp|vista|7|8|10|11)(?![0-9])", told)
        return self.looks_like_windows and release is not None


class ImageRule(rules.Rule[ImageFacts]):
    """Judges one thing of an image.

    :cvar bad: property -> values (in lower case) that break the rule.
    """

    bad: ClassVar[Mapping[str, Collection[str]]] = {}

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        """Yield the evidence for each place where the rule is broken."""
        return (facts.shown(key) for key, values in self.bad.items() if facts.value(key) in values)

    def check(self, facts: ImageFacts) -> Iterator[Finding]:
        return (self.finding([("image", text)]) for text in self.broken(facts))


class EmulatedNic(ImageRule):
    """NICs are virtio."""

    id = "emulated-nic"
    why = "Every packet leaves the guest several times for QEMU to emulate registers; no vhost, no second queue."
    remedy = "set hw_vif_model=virtio, with virtio drivers in the guest"
    source = "published measurements: virtio reached 1.77 times the throughput of an emulated NIC"
    bad = {"hw_vif_model": EMULATED_NICS}


class EmulatedDisk(ImageRule):
    """Disks are virtio."""

    id = "emulated-disk"
    why = "One request at a time through an emulated controller, in the emulator thread; no I/O threads."
    remedy = "set hw_disk_bus=virtio, or scsi with hw_scsi_model=virtio-scsi, with virtio drivers in the guest"
    source = "QEMU documentation of its block devices"
    bad = {"hw_disk_bus": EMULATED_BUSES}


class EmulatedScsi(ImageRule):
    """SCSI is virtio-scsi."""

    id = "emulated-scsi"
    why = "Without virtio-scsi the controller is an emulated LSI Logic of the 1990s."
    remedy = "set hw_scsi_model=virtio-scsi"
    source = "libvirt: the default model of a SCSI controller"

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        if facts.value("hw_disk_bus") == "scsi" and facts.value("hw_scsi_model") != "virtio-scsi":
            yield f"hw_disk_bus=scsi with {facts.shown('hw_scsi_model')}"


class OneScsiQueue(ImageRule):
    """virtio-scsi has a queue for each vCPU."""

    id = "one-virtio-scsi-queue"
    why = "All vCPUs wait for one lock and one queue of the controller."
    remedy = "set hw_perf_disk_queues=auto (or perf:disk_queues=auto), or a machine type of 5.2 or later"
    source = "QEMU 5.2 release notes: num-queues follows the vCPUs with new machine types"

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        if facts.value("hw_disk_bus") != "scsi" or facts.value("hw_scsi_model") != "virtio-scsi":
            return
        queues = facts.value("hw_perf_disk_queues") or facts.flavor_specs.get("perf:disk_queues", "")
        if queues == "1":
            yield "virtio-scsi with perf:disk_queues=1"
        machine = _MACHINE.fullmatch(facts.value("hw_machine_type"))
        if machine and tuple(map(int, machine.groups())) < AUTO_QUEUES and not queues:
            yield f"virtio-scsi with {facts.shown('hw_machine_type')} and no hw_perf_disk_queues"


class WindowsNotSaid(ImageRule):
    """An image of Windows says so."""

    id = "windows-not-said"
    why = (
        "Nova gives Hyper-V enlightenments and the Hyper-V clock to guests of os_type=windows only, in small "
        "letters; without them spinlocks, interrupts and timers cost an exit each."
    )
    remedy = "set os_type=windows"
    source = "nova/virt/libvirt/driver.py, _set_features and _set_kvm_timers"

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        windows = facts.looks_like_windows or facts.value("os_type") == "windows"
        # Nova compares it as it stands: of "Windows" it makes no Windows guest.
        if windows and facts.properties.get("os_type") != "windows":
            about = facts.shown("os_distro") if facts.value("os_distro") else facts.name
            yield f"{about} with {facts.shown('os_type')}"


class WindowsSockets(ImageRule):
    """Desktop Windows gets two sockets at most."""

    id = "windows-sockets"
    why = (
        "Nova makes each vCPU a socket of its own, and desktop editions of Windows use two sockets at most: the "
        "other vCPUs do nothing."
    )
    remedy = "set hw:cpu_max_sockets=2 in the flavor, or hw_cpu_max_sockets=2 on the image"
    source = (
        "nova/virt/hardware.py: sockets come first where nothing is asked for; Microsoft: limits of its editions"
    )

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        stated = {key.replace("hw_", "hw:", 1) for key in (*facts.properties, *facts.flavor_specs)}
        if facts.looks_like_desktop_windows and facts.vcpus > _DESKTOP_SOCKETS and not stated & _TOPOLOGY:
            yield f"{facts.vcpus} vCPUs without hw:cpu_max_sockets"


class Hpet(ImageRule):
    """Guests have no HPET."""

    id = "hpet"
    why = "A guest that takes the HPET for its clock leaves for QEMU with every look at the time."
    remedy = "remove hw_time_hpet"
    source = "nova/virt/libvirt/driver.py, _set_kvm_timers: off by default for this reason"
    bad = {"hw_time_hpet": vocabulary.TRUE_STRINGS}


class ParavirtualEra(ImageRule):
    """Images are made for KVM."""

    id = "paravirtual-era"
    why = (
        "Made for Xen paravirtualization, with a kernel that may lack virtio, or for hosts that are not KVM: KVM "
        "runs it as a plain machine or not at all."
    )
    remedy = "convert it to raw or qcow2 with boot loader, kernel and virtio drivers; remove these properties"
    source = "published measurements of PV and HVM guests: system calls of PV guests cost several times as much"
    bad = {
        "hw_vm_mode": ("xen", "uml", "pv"),
        "vm_mode": ("xen", "uml", "pv"),
        "img_hv_type": ("xen", "uml"),
        "hypervisor_type": ("xen", "uml"),
        "hw_disk_bus": ("xen",),
        "hw_vif_model": ("netfront",),
        "disk_format": ("vhd", "ami", "aki", "ari"),
        "container_format": ("ami", "aki", "ari"),
    }

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        yield from super().broken(facts)
        if facts.value("kernel_id"):
            yield "kernel_id: a kernel from outside the image"


class MultiqueueOff(ImageRule):
    """Images leave the number of queues to the flavor."""

    id = "multiqueue-off"
    why = "All packets of an interface go through one queue, one vhost thread and one vCPU."
    remedy = "remove hw_vif_multiqueue_enabled; the flavor decides"
    source = "nova/virt/hardware.py: a flavor that asks for queues and an image that forbids them are a conflict"
    bad = {"hw_vif_multiqueue_enabled": vocabulary.FALSE_STRINGS}


RULES: Final[list[ImageRule]] = rules.defined_in(globals())


def findings(
    name: str,
    properties: Mapping[str, str],
    profiles: Mapping[str, profile.Profile],
    flavor: tuple[int, int, Mapping[str, str]] | None = None,
) -> list[Finding]:
    """Return everything that is wrong with an image, alone or together with a flavor.

    :param flavor: vCPUs, MiB of memory and extra specs. Of what is wrong with the flavor, only what involves the
        image is told.
    """
    wrong = _unreadable(properties, profiles)
    readable = {key: value for key, value in properties.items() if key not in wrong}
    found = list(wrong.values())
    vcpus, ram_mib, specs = flavor or (0, 0, {})
    if flavor is None:
        found += crosscheck.findings(parsing.parse({}, readable, profiles), {}, readable)
    else:
        alone = flavor_specs.findings(vcpus, ram_mib, specs, profiles)
        both = flavor_specs.findings(vcpus, ram_mib, specs, profiles, readable)
        found += [finding for finding in both if finding not in alone]
    return found + rules.run(RULES, ImageFacts(name, properties, specs, vcpus), strict=True).findings


def _unreadable(properties: Mapping[str, str], profiles: Mapping[str, profile.Profile]) -> dict[str, Finding]:
    """Return a finding for each ``hw_perf_*`` property that is unknown or has a value that is not allowed."""
    found = {}
    for key, value in properties.items():
        if key.startswith(vocabulary.IMAGE_PREFIX):
            try:
                parsing.parse({}, {key: value}, profiles)
            except parsing.SpecError as error:
                found[key] = flavor_specs.wrong(
                    "value-not-allowed" if key in vocabulary.BY_IMAGE_PROPERTY else "unknown-property",
                    f"{vocabulary.shown(key)}={vocabulary.shown(value)}",
                    str(error),
                    "The driver refuses to build a guest of this image.",
                )
    return found
