"""Devices and features of guests: what QEMU emulates register by register, and what Windows is not offered."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.audit.placement import guests_of
from nova_perf_tuning.specs.checks import flavor_rules, image_rules

_WINDOWS = (
    "published measurements of Windows on KVM: virtio NIC 1.77 times, virtio NIC and disk 2.22 times as fast"
)
#: Enlightenments that Nova gives to guests of os_type=windows, and that matter most.
ENLIGHTENMENTS = ("relaxed", "vapic", "spinlocks")
#: libvirt's SCSI controllers without virtio: None is an emulated LSI.
_VIRTIO_SCSI = ("virtio-scsi", "virtio-transitional", "virtio-non-transitional")
_IMAGE_PROPERTY = "documentation of nova-manage image_property"


def set_property(guest: Guest, *properties: str) -> str:
    """Return how properties of an image reach a guest that is there: Nova keeps those of its boot with it.

    A hard reboot alone reads nothing of the image anew, and a rebuild empties the disk.
    """
    words = " ".join(f"--property {one}" for one in properties)
    return (
        f"nova-manage image_property set {shlex.quote(guest.domain.uuid)} {words}  # while it is stopped; "
        "and the same for its image"
    )


def _hosted(host: Host) -> list[Guest]:
    """Return the guests of QEMU."""
    return [guest for guest in guests_of(host) if guest.domain.type in ("kvm", "qemu")]


class EmulatedNic(base.Rule):
    """e1000 and its like."""

    id = "guest-emulated-nic"
    level = Level.WARNING
    title = "guests have virtio NICs"
    reads = "domain XML"
    why = "Every packet leaves the guest several times for QEMU to emulate registers; no vhost, no second queue."
    remedy = "hw_vif_model=virtio for the image, with virtio drivers in the guest"
    source = _WINDOWS

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in _hosted(host):
            slow = [one.model for one in guest.domain.interfaces if one.model in image_rules.EMULATED_NICS]
            if slow:
                yield self.finding(
                    [(guest.path, f"<model type='{model}'>") for model in slow[:3]],
                    f"{base.plural(len(slow), 'NIC')} of {guest.name}: "
                    f"{base.named(sorted(set(filter(None, slow))))}",
                    f"install virtio drivers in the guest, then:\n{set_property(guest, 'hw_vif_model=virtio')}",
                    subject=guest.name,
                )


class EmulatedDisk(base.Rule):
    """IDE, SATA, floppy."""

    id = "guest-emulated-disk"
    level = Level.WARNING
    title = "guests have virtio disks"
    reads = "domain XML"
    why = (
        "One request at a time through an emulated controller, in the emulator thread; no I/O thread is possible."
    )
    remedy = "hw_disk_bus=virtio, or scsi with hw_scsi_model=virtio-scsi, with virtio drivers in the guest"
    source = _WINDOWS

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in _hosted(host):
            slow = [
                disk
                for disk in guest.inventory.disks
                if disk.kind in ("disk", "lun") and disk.bus in image_rules.EMULATED_BUSES
            ]
            if slow:
                yield self.finding(
                    [(guest.path, f"{disk.device}: bus {disk.bus}") for disk in slow[:3]],
                    f"{base.plural(len(slow), 'disk')} of {guest.name} on "
                    f"{base.named(sorted({disk.bus for disk in slow}))}",
                    f"install virtio drivers in the guest, then:\n{set_property(guest, 'hw_disk_bus=virtio')}",
                    subject=guest.name,
                )


class EmulatedController(base.Rule):
    """SCSI without virtio-scsi, or virtio-scsi with one queue."""

    id = "guest-scsi-controller"
    level = Level.WARNING
    title = "SCSI disks hang on virtio-scsi with a queue for each vCPU"
    reads = "domain XML"
    why = (
        "An emulated LSI Logic takes one request at a time; virtio-scsi with one queue is one lock for all vCPUs."
    )
    remedy = "hw_scsi_model=virtio-scsi and hw_perf_disk_queues=auto for the image"
    source = "libvirt's default model of a SCSI controller; QEMU 5.2 release notes: num-queues follows the vCPUs"

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in _hosted(host):
            if not any(disk.bus == "scsi" and disk.kind in ("disk", "lun") for disk in guest.inventory.disks):
                continue
            for one in guest.inventory.controllers:
                if one.kind != "scsi":
                    continue
                slow = one.model not in _VIRTIO_SCSI
                if slow or (one.queues == "1" and guest.domain.vcpus > 1):
                    what = f"model {one.model or 'not named'}" if slow else "one queue"
                    yield self.finding(
                        [(guest.path, f"<controller type='scsi'>: {what}")],
                        f"{guest.name} with {guest.domain.vcpus} vCPUs has its disks on a SCSI controller: {what}",
                        subject=guest.name,
                        level=None if slow else Level.INFO,
                    )
                    break


class WindowsEnlightenments(base.Rule):
    """Windows that does not know that it is a guest."""

    id = "windows-without-hyperv"
    level = Level.WARNING
    title = "Windows guests are offered Hyper-V enlightenments and its clock"
    reads = "domain XML"
    why = "Spinlocks, interrupts and timers of Windows cost an exit each; its clock is an emulated device."
    remedy = "os_type=windows for the image: Nova adds relaxed, vapic, spinlocks and hypervclock"
    source = f"nova/virt/libvirt/driver.py, _set_features; libvirt's documentation of hyperv; {_IMAGE_PROPERTY}"

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in _windows(host):
            have = guest.inventory.hyperv
            lacking = [] if "passthrough" in have else [name for name in ENLIGHTENMENTS if name not in have]
            if not guest.inventory.hyperv_clock:
                lacking.append("hypervclock")
            if lacking:
                yield self.finding(
                    [(guest.path, f"hyperv: {', '.join(sorted(have)) or 'none'}")],
                    f"{guest.name} runs Windows without {', '.join(lacking)}",
                    set_property(guest, "os_type=windows"),
                    subject=guest.name,
                )


class WindowsVirtio(base.Rule):
    """Windows on emulated devices."""

    id = "windows-without-virtio"
    level = Level.WARNING
    title = "Windows guests have virtio NICs and disks"
    reads = "domain XML"
    why = "Windows has no virtio drivers of its own, so it is installed on emulated devices and stays there."
    _FIRST = (
        "install the signed virtio drivers; attach a second, empty virtio disk first so that the storage driver "
        "is loaded, then"
    )
    remedy = f"{_FIRST} hw_disk_bus=virtio, hw_vif_model=virtio"
    source = _WINDOWS

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in _windows(host):
            nics = [one for one in guest.domain.interfaces if one.model and not one.model.startswith("virtio")]
            disks = [
                disk
                for disk in guest.inventory.disks
                if disk.kind == "disk" and disk.bus in image_rules.EMULATED_BUSES
            ]
            if nics or disks:
                names = [f"NIC {one.model}" for one in nics] + [f"disk {one.device} on {one.bus}" for one in disks]
                yield self.finding(
                    [(guest.path, name) for name in names[:4]],
                    f"{guest.name} runs Windows on {base.named(names)}",
                    f"{self._FIRST}:\n{set_property(guest, 'hw_disk_bus=virtio', 'hw_vif_model=virtio')}",
                    subject=guest.name,
                )


def _windows(host: Host) -> list[Guest]:
    found = [guest for guest in _hosted(host) if guest.inventory.windows]
    if not found:
        raise NotApplicableError("no guest that is said to run Windows")
    return found


class DiskCache(base.Rule):
    """Disks through the host's page cache."""

    id = "guest-disk-cache"
    level = Level.WARNING
    title = "disks of guests go past the host's page cache (cache none)"
    reads = "domain XML"
    why = "Every block is held twice, and the host's write-back decides when a guest waits."
    remedy = (
        "[libvirt] disk_cachemodes = file=none,block=none in nova.conf, restart nova-compute, then a hard reboot "
        "of the guest"
    )
    source = "QEMU documentation of cache modes; Nova's of disk_cachemodes"

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in _hosted(host):
            slow = [
                disk
                for disk in guest.inventory.disks
                if disk.kind == "disk"
                and disk.source in ("file", "block")
                and disk.cache in ("writethrough", "writeback", "unsafe")
            ]
            if slow:
                lost = any(disk.cache == "unsafe" for disk in slow)
                also = "; unsafe loses what was flushed when the host fails" if lost else ""
                yield self.finding(
                    [(guest.path, f"{disk.device}: cache {disk.cache}") for disk in slow[:3]],
                    f"{base.plural(len(slow), 'disk')} of {guest.name} cached by the host{also}",
                    subject=guest.name,
                )


class DiskIo(base.Rule):
    """The way in which QEMU does I/O."""

    id = "guest-disk-io"
    level = Level.INFO
    title = "disks without the host's cache use native or io_uring I/O"
    reads = "domain XML"
    why = (
        "With threads each request wakes a worker of QEMU's pool; with native AIO the kernel takes a "
        "batch at once."
    )
    remedy = "Nova chooses native where the backing allows it: preallocate_images=space, or raw files and volumes"
    source = "QEMU documentation of aio; nova/virt/libvirt: native for preallocated and block-backed disks"

    def check(self, host: Host) -> Iterator[Finding]:
        for guest in _hosted(host):
            disks = [disk for disk in guest.inventory.disks if disk.kind == "disk"]
            broken = [d for d in disks if d.io == "native" and d.cache not in ("none", "directsync")]
            slow = [d for d in disks if d.source == "block" and d.cache == "none" and d.io in ("", "threads")]
            if broken:
                yield self.finding(
                    [
                        (guest.path, f"{disk.device}: io native, cache {disk.cache or 'default'}")
                        for disk in broken[:3]
                    ],
                    f"{guest.name}: native I/O needs cache none or directsync; with another one it blocks "
                    "QEMU's main "
                    "loop, or QEMU refuses it",
                    "cache none for these disks",
                    subject=guest.name,
                    level=Level.WARNING,
                )
            elif slow:
                yield self.finding(
                    [(guest.path, f"{disk.device}: io {disk.io or 'not named'}") for disk in slow[:3]],
                    f"{base.plural(len(slow), 'block device')} of {guest.name} served by QEMU's pool of threads",
                    subject=guest.name,
                )


class Queues(base.Rule):
    """One queue for many vCPUs, or more queues than anyone serves."""

    id = "guest-queues"
    level = Level.INFO
    title = "virtio NICs have between one queue and eight, not one for many vCPUs"
    reads = "domain XML"
    why = (
        "One queue is one vhost worker and one vCPU for all packets; each queue more is a worker more on the host."
    )
    remedy = (
        "perf:vif_queues=auto in the flavor (min of vCPUs, 8, local housekeeping CPUs); compare with "
        "nova-perf validate"
    )
    source = "cozystack #2801: 1 to 8 queues, 2 to 13 Gb/s; kata #9290: fewer is better for few streams"

    def check(self, host: Host) -> Iterator[Finding]:
        one, many = [], []
        for guest in _hosted(host):
            queues = [nic.queues for nic in guest.domain.interfaces if nic.model == "virtio"]
            if queues and max(queues) == 1 and guest.domain.vcpus >= 4:
                one.append(guest)
            if queues and max(queues) > min(guest.domain.vcpus, flavor_rules.MANY_QUEUES):
                many.append((guest, max(queues)))
        if one:
            yield self.finding(
                [(one[0].path, f"{one[0].domain.vcpus} vCPUs, one queue")],
                f"{base.plural(len(one), 'guest')} of four or more vCPUs with one queue: "
                f"{base.named(guest.name for guest in one)}",
                subject=one[0].name,
            )
        if many:
            guest, count = many[0]
            yield self.finding(
                [(guest.path, f"{guest.domain.vcpus} vCPUs, {count} queues")],
                f"{base.plural(len(many), 'guest')} with more queues than vCPUs, or than "
                f"{flavor_rules.MANY_QUEUES}: {base.named(guest.name for guest, _count in many)}",
                subject=guest.name,
            )
