# SPDX-License-Identifier: Apache-2.0
"""Image properties that waste performance on KVM: emulated devices, old ones, hints that are missing.

Glance and Nova accept all of these images; they boot and are slow.
"""

import dataclasses
import re
from collections.abc import Collection, Iterator, Mapping
from typing import ClassVar, Final

from nova_perf_tuning import rules
from nova_perf_tuning.rules import Finding
from nova_perf_tuning.specs import crosscheck, flavor_rules, parsing, vocabulary
from nova_perf_tuning.specs.profiles import Profile

#: Models that QEMU emulates register by register; Nova's names and the old VMware ones it takes
#: for them.
EMULATED_NICS: Final = frozenset(
    {
        "e1000",
        "e1000e",
        "rtl8139",
        "ne2k_pci",
        "pcnet",
        "lan9118",
        "spapr-vlan",
        "virtuale1000",
        "virtuale1000e",
    }
)
EMULATED_BUSES: Final = frozenset({"ide", "sata", "fdc", "usb"})
_TOPOLOGY: Final = frozenset({"hw:cpu_sockets", "hw:cpu_cores", "hw:cpu_max_sockets"})


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
        return (
            f"{key}={vocabulary.shown(self.properties[key])}" if self.value(key) else f"no {key}"
        )

    @property
    def windows(self) -> str:
        """What distribution or name say of Windows; empty when they say something else. os_type is not asked."""
        text = (self.value("os_distro") or self.name.lower()).replace("_", " ")
        return text if re.search(r"\bwin(dows|2k|nt|xp|vista|\d|$)", text) else ""


class ImageRule(flavor_rules.SpecRule[ImageFacts]):
    """Judges one thing of an image.

    :cvar bad: property -> values (in lower case) that break the rule.
    """

    bad: ClassVar[Mapping[str, Collection[str]]] = {}

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        return (facts.shown(key) for key, values in self.bad.items() if facts.value(key) in values)


class EmulatedNicModel(ImageRule):
    """NICs are virtio."""

    id = "emulated-nic"
    why = "Each packet costs several exits to QEMU, which emulates registers; there is no vhost and no second queue."
    remedy = "set hw_vif_model=virtio, with virtio drivers in the guest"
    source = "published measurements: virtio reached 1.77 times the throughput of an emulated NIC"
    bad = {"hw_vif_model": EMULATED_NICS}


class EmulatedDiskBus(ImageRule):
    """Disks are virtio."""

    id = "emulated-disk"
    why = "An emulated controller takes one request at a time, in the emulator thread, and has no I/O threads."
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


class WindowsNotSaid(ImageRule):
    """An image of Windows says so."""

    id = "windows-not-said"
    why = (
        "Nova gives Hyper-V enlightenments and the Hyper-V clock only to guests with os_type=windows, in lower "
        "case; without them each spinlock, interrupt and timer costs a VM exit."
    )
    remedy = "set os_type=windows"
    source = "nova/virt/libvirt/driver.py, _set_features and _set_kvm_timers"

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        # Nova compares it as it stands: of "Windows" it makes no Windows guest.
        if (facts.windows or facts.value("os_type") == "windows") and facts.properties.get(
            "os_type"
        ) != "windows":
            yield f"{vocabulary.shown(facts.windows or facts.name)} with {facts.shown('os_type')}"


class WindowsSockets(ImageRule):
    """Desktop Windows gets two sockets at most."""

    id = "windows-sockets"
    why = (
        "Nova makes each vCPU a socket of its own, and desktop editions of Windows use at most two sockets: the "
        "other vCPUs do nothing."
    )
    remedy = "set hw:cpu_max_sockets=2 in the flavor, or hw_cpu_max_sockets=2 on the image"
    source = "nova/virt/hardware.py: sockets come first where nothing is asked for; Microsoft: limits of its editions"

    def broken(self, facts: ImageFacts) -> Iterator[str]:
        stated = {key.replace("hw_", "hw:", 1) for key in (*facts.properties, *facts.flavor_specs)}
        # Pro for Workstations alone uses four sockets.
        text = f"{facts.windows} {facts.name.lower()}".replace("_", " ")
        desktop = re.search(r"\bwin(dows)?[-. ]*(xp|vista|7|8|10|11)(?![0-9])", text)
        if facts.windows and desktop and facts.vcpus > 2 and not stated & _TOPOLOGY:
            yield f"{facts.vcpus} vCPUs without hw:cpu_max_sockets"


class Hpet(ImageRule):
    """Guests have no HPET."""

    id = "hpet"
    why = (
        "A guest that uses the HPET as its clock exits to QEMU each time that it reads the clock."
    )
    remedy = "remove hw_time_hpet"
    source = "nova/virt/libvirt/driver.py, _set_kvm_timers: off by default for this reason"
    bad = {"hw_time_hpet": vocabulary.TRUE_STRINGS}


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
    profiles: Mapping[str, Profile],
    flavor: tuple[int, Mapping[str, str]] | None = None,
) -> list[Finding]:
    """Return everything that is wrong with an image, alone or together with a flavor.

    :param flavor: vCPUs and extra specs. Of what is wrong with the flavor, only what involves the
        image is returned.
    """
    readable, wrong = parsing.usable_properties({}, properties, vocabulary.MAX_IOTHREADS)
    left_out = "The driver leaves it out."
    results = [
        flavor_rules.unusable(key, properties[key], error, left_out)
        for key, error in wrong.items()
    ]
    vcpus, specs = flavor or (0, {})
    if flavor is None:
        results += crosscheck.findings(parsing.parse({}, readable, profiles), {}, readable)
    else:
        alone = flavor_rules.findings(vcpus, specs, profiles)
        together = flavor_rules.findings(vcpus, specs, profiles, readable)
        results += [finding for finding in together if finding not in alone]
    return (
        results
        + rules.run(RULES, ImageFacts(name, properties, specs, vcpus), strict=True).findings
    )
