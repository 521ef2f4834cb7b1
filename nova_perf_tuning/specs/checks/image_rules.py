"""Image properties that waste performance on KVM: emulated devices, old ones, hints that are missing.

Each rule is one small function over the properties and an entry of :data:`RULES`. Glance and Nova accept all of
these images; they boot and are slow.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning.specs import crosscheck, parsing, profile, vocabulary
from nova_perf_tuning.specs.checks import flavor_specs, rules
from nova_perf_tuning.specs.checks.rules import Level, Rule

#: Models that QEMU emulates register by register; Nova's names and the old VMware ones it takes for them.
EMULATED_NICS: Final = frozenset(
    {"e1000", "e1000e", "rtl8139", "ne2k_pci", "pcnet", "lan9118", "spapr-vlan", "virtuale1000", "virtuale1000e"}
)
EMULATED_BUSES: Final = frozenset({"ide", "sata", "fdc", "usb"})
#: The first QEMU machine types that give virtio-scsi and virtio-blk one queue for each vCPU by themselves.
AUTO_QUEUES: Final = (5, 2)

#: Buses of a CD-ROM drive that Windows reads with virtio drivers only.
_NEED_DRIVERS: Final = frozenset({"virtio", "scsi"})
#: Sockets that desktop editions of Windows use at most; Pro for Workstations alone uses four.
_DESKTOP_SOCKETS: Final = 2
_TOPOLOGY: Final = frozenset({"hw:cpu_sockets", "hw:cpu_cores", "hw:cpu_max_sockets"})
_MACHINE: Final = re.compile(r"(?:pc-i440fx|pc-q35|virt)-(\d+)\.(\d+)(?:\.\d+)?")
_NONE: Final[Mapping[str, str]] = {}


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
        """Return ``key=value`` for a message."""
        return f"{key}={vocabulary.shown(self.properties[key])}"

    @property
    def disk_queues(self) -> str:
        """What image or flavor say about the queues of disks, empty when nothing."""
        return self.value("hw_perf_disk_queues") or self.flavor_specs.get("perf:disk_queues", "")

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


def _emulated_nic(facts: ImageFacts) -> Iterator[str]:
    if facts.value("hw_vif_model") in EMULATED_NICS:
        yield facts.shown("hw_vif_model")


def _emulated_disk(facts: ImageFacts) -> Iterator[str]:
    if facts.value("hw_disk_bus") in EMULATED_BUSES:
        yield facts.shown("hw_disk_bus")


def _emulated_scsi(facts: ImageFacts) -> Iterator[str]:
    if facts.value("hw_disk_bus") == "scsi" and facts.value("hw_scsi_model") != "virtio-scsi":
        model = facts.shown("hw_scsi_model") if facts.value("hw_scsi_model") else "no hw_scsi_model"
        yield f"hw_disk_bus=scsi with {model}"


def _one_scsi_queue(facts: ImageFacts) -> Iterator[str]:
    if facts.value("hw_disk_bus") != "scsi" or facts.value("hw_scsi_model") != "virtio-scsi":
        return
    if facts.disk_queues == "1":
        yield "virtio-scsi with perf:disk_queues=1"
    machine = _MACHINE.fullmatch(facts.value("hw_machine_type"))
    if machine and tuple(map(int, machine.groups())) < AUTO_QUEUES and not facts.disk_queues:
        yield f"virtio-scsi with {facts.shown('hw_machine_type')} and no hw_perf_disk_queues"


def _windows_not_said(facts: ImageFacts) -> Iterator[str]:
    # Nova compares it as it stands: of "Windows" it makes no Windows guest.
    if facts.properties.get("os_type") == "windows":
        return
    if facts.looks_like_windows or facts.value("os_type") == "windows":
        shown = facts.shown("os_type") if facts.value("os_type") else "no os_type"
        yield f"{facts.shown('os_distro') if facts.value('os_distro') else facts.name} with {shown}"


def _windows_iso(facts: ImageFacts) -> Iterator[str]:
    if facts.value("disk_format") != "iso":
        return
    if facts.looks_like_windows:
        yield facts.shown("disk_format")
    if "virtio-win" in re.sub("[_. ]", "-", facts.name.lower()):
        yield from (
            facts.shown(key) for key in ("hw_cdrom_bus", "hw_rescue_bus") if facts.value(key) in _NEED_DRIVERS
        )


def _windows_sockets(facts: ImageFacts) -> Iterator[str]:
    told = {key.replace("hw_", "hw:", 1) for key in (*facts.properties, *facts.flavor_specs)}
    if facts.looks_like_desktop_windows and facts.vcpus > _DESKTOP_SOCKETS and not told & _TOPOLOGY:
        yield f"{facts.vcpus} vCPUs without hw:cpu_max_sockets"


def _hpet(facts: ImageFacts) -> Iterator[str]:
    if facts.value("hw_time_hpet") in vocabulary.TRUE_STRINGS:
        yield facts.shown("hw_time_hpet")


def _paravirtual_era(facts: ImageFacts) -> Iterator[str]:
    for key in ("hw_vm_mode", "vm_mode"):
        if facts.value(key) in ("xen", "uml", "pv"):
            yield facts.shown(key)
    for key in ("img_hv_type", "hypervisor_type"):
        if facts.value(key) in ("xen", "uml"):
            yield facts.shown(key)
    for key, value in (("hw_disk_bus", "xen"), ("hw_vif_model", "netfront"), ("disk_format", "vhd")):
        if facts.value(key) == value:
            yield facts.shown(key)
    for key in ("container_format", "disk_format"):
        if facts.value(key) in ("ami", "aki", "ari"):
            yield facts.shown(key)
            break
    if facts.value("kernel_id"):
        yield "kernel_id: a kernel from outside the image"


def _queues_off(facts: ImageFacts) -> Iterator[str]:
    if facts.value("hw_vif_multiqueue_enabled") in vocabulary.FALSE_STRINGS:
        yield facts.shown("hw_vif_multiqueue_enabled")


def _vmware_hints(facts: ImageFacts) -> Iterator[str]:
    if facts.value("vmware_adaptertype") and not facts.value("hw_disk_bus"):
        yield facts.shown("vmware_adaptertype")


RULES: Final[tuple[Rule[ImageFacts], ...]] = (
    Rule(
        "emulated-nic",
        Level.WARNING,
        _emulated_nic,
        "Every packet leaves the guest several times for QEMU to emulate registers; no vhost, no second queue.",
        "set hw_vif_model=virtio, with virtio drivers in the guest",
        "published measurements: virtio reached 1.77 times the throughput of an emulated NIC",
    ),
    Rule(
        "emulated-disk",
        Level.WARNING,
        _emulated_disk,
        "One request at a time through an emulated controller, in the emulator thread; no I/O thread is possible.",
        "set hw_disk_bus=virtio, or scsi with hw_scsi_model=virtio-scsi, with virtio drivers in the guest",
        "QEMU documentation of its block devices",
    ),
    Rule(
        "emulated-scsi",
        Level.WARNING,
        _emulated_scsi,
        "Without virtio-scsi the controller is an emulated LSI Logic of the 1990s.",
        "set hw_scsi_model=virtio-scsi",
        "libvirt: the default model of a SCSI controller",
    ),
    Rule(
        "one-virtio-scsi-queue",
        Level.WARNING,
        _one_scsi_queue,
        "All vCPUs wait for one lock and one queue of the controller.",
        "set hw_perf_disk_queues=auto (or perf:disk_queues=auto in the flavor), or a machine type of 5.2 or later",
        "QEMU 5.2 release notes: num-queues follows the vCPUs with new machine types",
    ),
    Rule(
        "windows-not-said",
        Level.WARNING,
        _windows_not_said,
        "Nova gives Hyper-V enlightenments and the Hyper-V clock to guests of os_type=windows only, in small "
        "letters; without them spinlocks, interrupts and timers cost an exit each.",
        "set os_type=windows",
        "nova/virt/libvirt/driver.py, _set_features and _set_kvm_timers",
    ),
    Rule(
        "windows-iso",
        Level.WARNING,
        _windows_iso,
        "Windows' installer has no virtio drivers: a guest that starts from its disc sees no virtio disk, and a "
        "disc with the drivers must lie in a drive that needs none of them.",
        "install Windows once with the drivers of the virtio-win ISO in a SATA or IDE drive (hw_cdrom_bus=sata), "
        "and upload its disk as qcow2 or raw",
        "virtio-win: drivers of NetKVM, viostor and vioscsi are not part of Windows",
    ),
    Rule(
        "windows-sockets",
        Level.WARNING,
        _windows_sockets,
        "Nova makes each vCPU a socket of its own, and desktop editions of Windows use two sockets at most: the "
        "other vCPUs do nothing.",
        "set hw:cpu_max_sockets=2 in the flavor, or hw_cpu_max_sockets=2 on the image",
        "nova/virt/hardware.py: sockets come first where nothing is asked for; Microsoft: limits of its editions",
    ),
    Rule(
        "hpet",
        Level.WARNING,
        _hpet,
        "A guest that takes the HPET for its clock leaves for QEMU with every look at the time.",
        "remove hw_time_hpet",
        "nova/virt/libvirt/driver.py, _set_kvm_timers: off by default for this reason",
    ),
    Rule(
        "paravirtual-era",
        Level.WARNING,
        _paravirtual_era,
        "Made for Xen paravirtualization, with a kernel that may lack virtio, or for hosts that are not KVM: KVM "
        "runs it as a plain machine or not at all.",
        "convert it to raw or qcow2 with boot loader, kernel and virtio drivers inside; remove these properties",
        "published measurements of PV and HVM guests: system calls of PV guests cost several times as much",
    ),
    Rule(
        "multiqueue-off",
        Level.WARNING,
        _queues_off,
        "All packets of an interface go through one queue, one vhost thread and one vCPU.",
        "remove hw_vif_multiqueue_enabled; the flavor decides",
        "nova/virt/hardware.py: a flavor that asks for queues and an image that forbids them are a conflict",
    ),
    Rule(
        "vmware-hints",
        Level.WARNING,
        _vmware_hints,
        "Properties for another hypervisor have no effect on KVM; nobody has said which devices the guest drives.",
        "remove vmware_*, set hw_disk_bus and hw_vif_model to virtio once the guest has the drivers",
        "Glance: useful image properties",
    ),
)


def findings(
    name: str,
    properties: Mapping[str, str],
    profiles: Mapping[str, profile.Profile],
    flavor: tuple[int, int, Mapping[str, str]] | None = None,
) -> list[rules.Finding]:
    """Return everything that is wrong with an image, alone or together with a flavor.

    :param flavor: vCPUs, MiB of memory and extra specs. Of what is wrong with the flavor, only what involves the
        image is told.
    """
    found = _unreadable(properties, profiles)
    faulty = {one.evidence.partition("=")[0] for one in found}
    readable = {key: value for key, value in properties.items() if key not in faulty}
    if flavor is not None:
        vcpus, ram_mib, specs = flavor
        alone = {(one.rule, one.evidence) for one in flavor_specs.findings(vcpus, ram_mib, specs, profiles)}
        both = flavor_specs.findings(vcpus, ram_mib, specs, profiles, readable)
        found += [one for one in both if (one.rule, one.evidence) not in alone]
    else:
        asked = parsing.parse({}, readable, profiles)
        found += rules.crosschecked(crosscheck.findings(asked, {}, readable))
    facts = ImageFacts(name, properties, flavor[2] if flavor else _NONE, flavor[0] if flavor else 0)
    return found + rules.apply(RULES, facts)


def _unreadable(properties: Mapping[str, str], profiles: Mapping[str, profile.Profile]) -> list[rules.Finding]:
    """Return a finding for each ``hw_perf_*`` property that is unknown or has a value that is not allowed."""
    found = []
    for key, value in properties.items():
        if not key.startswith(vocabulary.IMAGE_PREFIX):
            continue
        try:
            parsing.parse({}, {key: value}, profiles)
        except parsing.SpecError as error:
            found.append(
                rules.Finding(
                    "unknown-property" if "unknown" in str(error) else "value-not-allowed",
                    Level.ERROR,
                    f"{vocabulary.shown(key)}={vocabulary.shown(value)}",
                    "The driver refuses to build a guest of this image.",
                    str(error),
                    "vocabulary of the perf: extra specs",
                )
            )
    return found
