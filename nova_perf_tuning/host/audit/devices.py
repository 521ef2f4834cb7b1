# SPDX-License-Identifier: Apache-2.0
"""Devices and features of guests: what QEMU emulates register by register, and what Windows is not
offered.
"""

import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from nova_perf_tuning.guest import queue_total
from nova_perf_tuning.guest.domain import VIRTIO_MODELS, VIRTIO_SCSI_MODELS
from nova_perf_tuning.host.audit.base import GuestRule, HostRule, hosted_by_qemu
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, named, need
from nova_perf_tuning.specs import image_rules, vocabulary

_WINDOWS = "published measurements of Windows on KVM: virtio NIC 1.77 times, NIC and disk 2.22 times as fast"
#: Enlightenments that Nova gives to guests of os_type=windows, and that matter most; the last two
#: since Nova 26.
ENLIGHTENMENTS: Final = ("relaxed", "vapic", "spinlocks", "vpindex", "synic")
#: Nova gives it to no guest; it needs vpindex, synic and the clock (QEMU: docs/system/i386/hyperv.rst).
_TIMER: Final = "stimer"
_CACHED: Final = ("writethrough", "writeback", "unsafe")
#: What libvirt passes on as no mode at all.
_NOT_CHOSEN: Final = ("", "default")
_DRIVERS: Final = (
    "install virtio drivers in the guest (Windows loads the one of disks while an empty virtio disk is attached), "
    "then:\n"
)


def _set_property(guest: Guest, text: str) -> str:
    """Return how a property of an image reaches a guest that is there: Nova keeps those of its
    boot with it.

    A hard reboot alone reads nothing of the image anew, and a rebuild empties the disk.
    """
    command = f"nova-manage image_property set {shlex.quote(guest.domain.uuid)} --property {text}"
    return f"{command}  # while it is stopped; and the same for its image"


class EmulatedNic(GuestRule):
    """Guests have virtio NICs."""

    id = "guest-emulated-nic"
    why = "Each packet costs several exits to QEMU, which emulates registers; there is no vhost and no second queue."
    remedy = "hw_vif_model=virtio for the image, with virtio drivers in the guest"
    plain = "<model type='virtio'/>, with virtio drivers in the guest"
    source = _WINDOWS

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        evidence: list[str] = []
        models: set[str] = set()
        for nic in guest.domain.interfaces:
            if nic.model in image_rules.EMULATED_NICS:
                evidence.append(f"<model type='{nic.model}'>")
                models.add(nic.model)
        if evidence:
            yield self.of(
                guest,
                evidence,
                f"{counted(len(evidence), 'NIC')} of {guest.name}: {named(sorted(models))}",
                _DRIVERS + _set_property(guest, "hw_vif_model=virtio"),
            )


class _DiskRule(GuestRule):
    """A rule on the disks of guests."""

    def of_disks(
        self,
        guest: Guest,
        wrong: Sequence[str],
        what: str,
        remedy: str = "",
        level: Level | None = None,
    ) -> Iterator[Finding]:
        """Yield a finding about disks, if any is wrong: ``DEVICE: what is wrong with it``."""
        if wrong:
            why = f"{counted(len(wrong), 'disk')} of {guest.name} {what}"
            yield self.of(guest, wrong, why, remedy, level)


class EmulatedDisk(_DiskRule):
    """Guests have virtio disks."""

    id = "guest-emulated-disk"
    why = "An emulated controller takes one request at a time, in the emulator thread, and has no I/O threads."
    remedy = "hw_disk_bus=virtio, or scsi with hw_scsi_model=virtio-scsi, with virtio drivers in the guest"
    plain = "<target bus='virtio'/>, or bus scsi on a virtio-scsi controller, with virtio drivers"
    source = _WINDOWS

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        wrong: list[str] = []
        buses: set[str] = set()
        for disk in guest.inventory.disks:
            if disk.kind in ("disk", "lun") and disk.bus in image_rules.EMULATED_BUSES:
                wrong.append(f"{disk.device}: bus {disk.bus}")
                buses.add(disk.bus)
        remedy = _DRIVERS + _set_property(guest, "hw_disk_bus=virtio")
        return self.of_disks(guest, wrong, f"on {named(sorted(buses))}", remedy)


class DiskOptions(_DiskRule):
    """Only disks on virtio-blk have options of virtio-blk."""

    id = "guest-disk-options"
    level = Level.ERROR
    why = "libvirt refuses to define or start such a domain."
    remedy = "rebuild or resize it: Nova then writes its XML again"
    plain = "<target bus='virtio'/> with virtio drivers in the guest, or without these attributes"
    source = 'libvirt: src/conf/domain_validate.c, "only supported by virtio-blk"'

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        refused: list[str] = []
        for disk in guest.inventory.disks:
            if disk.of_virtio and disk.bus and disk.bus != "virtio":
                refused.append(f"{disk.device}: {' '.join(disk.of_virtio)}, bus {disk.bus}")
        what = "with options that only virtio-blk takes: libvirt does not start the guest"
        return self.of_disks(guest, refused, what)


class EmulatedController(GuestRule):
    """SCSI disks use virtio-scsi with a queue for each vCPU."""

    id = "guest-scsi-controller"
    why = (
        "An emulated LSI Logic takes one request at a time; virtio-scsi with one queue has a "
        "single lock."
    )
    remedy = "hw_scsi_model=virtio-scsi and hw_perf_disk_queues=auto for the image"
    plain = "<controller type='scsi' model='virtio-scsi'> with <driver queues='the vCPUs'/>"
    source = "libvirt's default model of a SCSI controller; QEMU 5.2 release notes: num-queues follows the vCPUs"

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        if not any(
            disk.bus == "scsi" and disk.kind in ("disk", "lun") for disk in guest.inventory.disks
        ):
            return
        for controller in guest.inventory.controllers:
            if controller.kind != "scsi":
                continue
            if controller.model not in VIRTIO_SCSI_MODELS:
                what = f"model {controller.model or 'not named'}"
                level = self.level
            elif controller.queues == "1" and guest.domain.vcpus > 1:
                what = "one queue"
                level = Level.INFO
            else:
                continue
            yield self.of(
                guest,
                [f"<controller type='scsi'>: {what}"],
                f"{guest.name} with {guest.domain.vcpus} vCPUs has its disks on a SCSI controller: {what}",
                level=level,
            )
            return


class IdleIothreads(GuestRule):
    """I/O threads of guests serve a disk."""

    id = "guest-idle-iothreads"
    level = Level.INFO
    why = (
        "Only virtio disks and virtio-scsi controllers that name a thread leave QEMU's main loop."
    )
    remedy = (
        "hw_disk_bus=virtio, or scsi with hw_scsi_model=virtio-scsi, for the image: such disks "
        "use "
        "the threads"
    )
    plain = "<driver iothread='N'/> of a virtio disk or of a virtio-scsi controller, or fewer <iothreads>"
    source = "libvirt: IOThreads allocation, driver iothread"

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        idle = guest.inventory.idle_iothreads
        if idle and guest.inventory.disks:
            buses = sorted({disk.bus for disk in guest.inventory.disks if disk.kind == "disk"})
            yield self.of(
                guest,
                [
                    f"<iothreads>{guest.domain.iothreads}</iothreads>, disks on {named(buses) or 'nothing'}"
                ],
                f"{counted(len(idle), 'I/O thread')} of {guest.name} without a disk: {named(map(str, idle))}",
            )


class WindowsEnlightenments(GuestRule):
    """Windows guests have the enlightenments and the clock of Hyper-V."""

    id = "windows-without-hyperv"
    why = (
        "Without them each spinlock, interrupt and timer of Windows costs a VM exit, and its "
        "clock "
        "is an emulated device."
    )
    remedy = (
        "os_type=windows for the image: Nova adds relaxed, vapic, spinlocks and hypervclock, since release 26 also "
        "vpindex and synic"
    )
    plain = (
        "<hyperv> with relaxed, vapic, spinlocks, vpindex, synic, stimer, <timer name='hypervclock'/>, and no -cpu "
        "in <qemu:commandline>"
    )
    source = (
        "nova/virt/libvirt/driver.py, _set_features; libvirt: hyperv; nova-manage image_property"
    )

    def guests(self, host: Host) -> Sequence[Guest]:
        windows = [guest for guest in hosted_by_qemu(host) if guest.inventory.windows]
        need(windows, "no guest that is said to run Windows")
        return windows

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        have = guest.inventory.hyperv
        lacking: list[str] = []
        if guest.inventory.cpu_override:
            yield from self._overridden(guest)
        wanted = list(ENLIGHTENMENTS)
        if not guest.domain.specs.of_nova:
            wanted.append(_TIMER)
        if "passthrough" not in have:
            lacking.extend(name for name in wanted if name not in have)
        if not guest.inventory.hyperv_clock:
            lacking.append("hypervclock")
        if lacking:
            why = f"{guest.name} runs Windows without {', '.join(lacking)}"
            evidence = [f"hyperv: {', '.join(sorted(have)) or 'none'}"]
            yield self.of(guest, evidence, why, _set_property(guest, "os_type=windows"))

    def _overridden(self, guest: Guest) -> Iterator[Finding]:
        """Yield that -cpu of <qemu:commandline> takes away what <hyperv> gives."""
        lost = guest.inventory.hyperv_lost
        if lost:
            yield self.of(
                guest,
                [f"<qemu:arg value='-cpu'/> {guest.inventory.cpu_override}"],
                f"-cpu in <qemu:commandline> of {guest.name} replaces the CPU that libvirt makes: "
                f"{', '.join(sorted(lost))} of <hyperv> have no effect, nor has <cpu>",
                level=Level.ERROR,
            )


class DiskCache(_DiskRule):
    """Disks of guests bypass the host's page cache (cache none)."""

    id = "guest-disk-cache"
    why = (
        "Otherwise every block is cached twice, and the host's write-back decides when a guest "
        "waits."
    )
    remedy = (
        "[libvirt] disk_cachemodes = file=none,block=none, restart nova-compute, hard reboot the guest  # volumes "
        "have io=native; use_default_aio_mode_for_volumes of Nova 33 leaves it to QEMU"
    )
    plain = "<driver cache='none'/>"
    source = "QEMU documentation of cache modes: the default mode is writeback; Nova's of disk_cachemodes"

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        wrong: list[str] = []
        by_default: list[str] = []
        what = "cached by the host"
        for disk in guest.inventory.disks:
            if disk.kind != "disk" or disk.source not in ("file", "block"):
                continue
            if disk.cache in _CACHED:
                wrong.append(f"{disk.device}: cache {disk.cache}")
            elif disk.cache in _NOT_CHOSEN and not disk.is_shared:
                by_default.append(f"{disk.device}: no cache mode: writeback, QEMU's default")
            if disk.cache == "unsafe":
                what = "cached by the host; unsafe loses what was flushed when the host fails"
        if wrong:
            return self.of_disks(guest, [*wrong, *by_default], what)
        # Nova always writes a mode: nobody has chosen this one.
        return self.of_disks(guest, by_default, what, level=Level.INFO)


class EncryptedIo(GuestRule):
    """Only guests that need encrypted memory have it."""

    id = "guest-encrypted-io"
    level = Level.INFO
    why = (
        "Every buffer of a device is copied through memory that the host can read; one report shows "
        "vhost at 0.2 % of its speed."
    )
    remedy = "take hw:mem_encryption out of the flavor, or judge such guests by budgets with memory_encryption"
    plain = "no <launchSecurity>, or judge such guests by budgets with memory_encryption"
    source = (
        "asterinas #3313: 453 to 0.91 MB/s with iommu_platform; kernel documentation of swiotlb"
    )

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        if kind := guest.inventory.encryption:
            why = f"{guest.name} has memory encrypted by {kind}: all its I/O is copied through bounce buffers"
            yield self.of(guest, [f"<launchSecurity type='{kind}'>"], why)


class Queues(HostRule):
    """Virtio NICs have one to eight queues, in all not many times the vCPUs, and disks no more queues than vCPUs."""

    id = "guest-queues"
    level = Level.INFO
    why = (
        "With one queue, one vhost worker and one vCPU handle all packets; each further queue "
        "adds "
        "a worker on the host."
    )
    remedy = "perf:vif_queues=auto and perf:disk_queues=auto in the flavor; compare with nova-perf validate"
    plain = (
        "<driver queues='N'/> of NICs and disks, at most as many as vCPUs, of NICs at most 8, "
        "fewer where there are many NICs"
    )
    source = (
        "cozystack #2801: 1 to 8 queues, 2 to 13 Gb/s; kata #9290: fewer is better for few streams; "
        "KubeVirt #18012: 80 queues, 90 % of a guest's memory"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        most = vocabulary.MANY_QUEUES
        few: list[Guest] = []
        many: list[Guest] = []
        disks: list[Guest] = []
        shown: dict[str, str] = {}
        for guest in hosted_by_qemu(host):
            vcpus = guest.domain.vcpus
            rings = guest.inventory.rx_queue_sizes
            nics: list[tuple[int, str]] = []
            for nic, ring in zip(guest.domain.interfaces, rings, strict=True):
                if nic.model in VIRTIO_MODELS:
                    nics.append((nic.queues, ring))
            queues = max((pairs for pairs, _ring in nics), default=0)
            of_disk = max((disk.queues for disk in guest.inventory.disks), default=0)
            text = f"{counted(vcpus, 'vCPU')}, {counted(queues, 'queue')}"
            if of_disk:
                text += f", {of_disk} of a disk"
            shown[guest.name] = text
            if queues == 1 and vcpus >= 4:
                few.append(guest)
            if queues > min(vcpus, most):
                many.append(guest)
            if of_disk > vcpus:
                disks.append(guest)
            together = queue_total.total(vcpus, nics)
            if together.is_large:
                yield self.finding(
                    [(guest.path, text), (guest.path, together.text)],
                    f"{guest.name} has {together.text}",
                    "a small perf:vif_queues in the flavor, such as 1 or 2, or fewer NICs",
                    subject=guest.name,
                    level=Level.WARNING,
                )
        for guests, what in (
            (few, "of four or more vCPUs with one queue"),
            (many, f"with more queues than vCPUs, or than {most}"),
            (disks, "with a disk of more queues than vCPUs"),
        ):
            if guests:
                yield from self.of_all(guests, shown[guests[0].name], what)
