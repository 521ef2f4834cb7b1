"""The domain as Nova's libvirt driver would write it for such a guest, before any tuning.

Left out is what has no bearing on performance: display, sound, input and Nova's own metadata. The kernel is
loaded by QEMU (as for an image with ``kernel_id`` and ``ramdisk_id``), the console goes to a log file and the
QEMU guest agent has its channel (``hw_qemu_guest_agent=yes``).
"""

from __future__ import annotations

import dataclasses
from typing import Final

from lxml import etree
from lxml.builder import E

from nova_perf_tuning.launch import base

#: Machine type as in ``hw_machine_type``: libvirt's default and so Nova's.
MACHINE: Final = "pc"
#: For an emulated CPU. Its TSC is calibrated against a timer that a busy host delays by half, and a wrong clock
#: makes wrong figures: the HPET is used instead. Mitigations protect nothing there; crypto self-tests take time.
_EMULATED: Final = " tsc=unstable no_timer_check mitigations=off cryptomgr.notests"


@dataclasses.dataclass(frozen=True, slots=True)
class GuestFiles:
    """Host paths that one guest uses.

    :ivar root: qcow2 overlay of the image; :ivar scratch: raw disk; :ivar console: log of its serial port.
    """

    kernel: str
    initrd: str
    root: str
    scratch: str
    console: str


def base_domain(
    name: str,
    size: base.GuestSize,
    files: GuestFiles,
    *,
    kvm: bool,
    bridge: str,
    tap: str,
    mac: str,
    cache: str,
) -> str:
    """Return the XML of one untuned guest.

    :param cache: disk cache mode: ``none`` where the file system can do direct I/O, else ``writeback``,
        which is how Nova chooses.
    """
    cmdline = "console=ttyS0 loglevel=5 panic=1 ipv6.disable=1" + ("" if kvm else _EMULATED)
    domain = E.domain(
        E.name(name),
        E.memory(str(size.memory_mib), unit="MiB"),
        E.vcpu(str(size.vcpus)),
        E.os(
            E.type("hvm", arch="x86_64", machine=MACHINE),
            E.kernel(files.kernel),
            E.initrd(files.initrd),
            E.cmdline(cmdline),
        ),
        E.features(E.acpi(), E.apic()),
        *_cpu_and_clock(kvm, size.vcpus),
        # A guest that panics or reboots is a failed guest; it must not come back by itself.
        E.on_reboot("destroy"),
        E.on_crash("destroy"),
        E.devices(
            _disk(files.root, "qcow2", "vda", cache),
            _disk(files.scratch, "raw", "vdb", cache),
            E.controller(type="usb", model="none"),
            _interface(kvm, bridge, tap, mac),
            E.serial(E.log(file=files.console, append="off"), type="pty"),
            E.channel(E.target(type="virtio", name="org.qemu.guest_agent.0"), type="unix"),
            E.memballoon(model="virtio"),
            E.rng(E.backend("/dev/urandom", model="random"), model="virtio"),
        ),
        type="kvm" if kvm else "qemu",
    )
    return str(etree.tostring(domain, pretty_print=True, encoding="unicode"))


def _cpu_and_clock(kvm: bool, vcpus: int) -> list[etree._Element]:
    topology = E.topology(sockets=str(vcpus), cores="1", threads="1")
    if not kvm:  # Nova: cpu_mode none for virt_type qemu
        return [E.cpu(topology), E.clock(offset="utc")]
    return [
        E.cpu(topology, mode="host-model"),
        E.clock(
            E.timer(name="pit", tickpolicy="delay"),
            E.timer(name="rtc", tickpolicy="catchup"),
            E.timer(name="hpet", present="no"),
            offset="utc",
        ),
    ]


def _disk(path: str, kind: str, device: str, cache: str) -> etree._Element:
    return E.disk(
        E.driver(name="qemu", type=kind, cache=cache),
        E.source(file=path),
        E.target(dev=device, bus="virtio"),
        type="file",
        device="disk",
    )


def _interface(kvm: bool, bridge: str, tap: str, mac: str) -> etree._Element:
    interface = E.interface(
        E.mac(address=mac),
        E.source(bridge=bridge),
        E.target(dev=tap),
        E.model(type="virtio"),
        type="bridge",
    )
    if not kvm:  # Nova forces QEMU's own backend for virt_type qemu
        interface.append(E.driver(name="qemu"))
    return interface
