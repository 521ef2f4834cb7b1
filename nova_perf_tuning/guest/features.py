"""What the libvirt and QEMU of a host can do, from texts and numbers that the caller has read."""

from __future__ import annotations

from typing import Final, NamedTuple

from nova_perf_tuning.guest import parsing
from nova_perf_tuning.specs import vocabulary

#: Knob -> (least libvirt, least QEMU, what it is), in libvirt's form of versions: 1 000 000 a, 1 000 b, c.
#: Source: "Since" notes of libvirt's formatdomain document.
_SINCE: Final = {
    "iothread": (1_002_008, 2_001_000, "<driver iothread=> of virtio-blk disks"),
    "scsi_iothread": (1_003_005, 2_004_000, "<driver iothread=> of virtio-scsi controllers"),
    "disk_queues": (3_009_000, 2_007_000, "<driver queues=> of virtio-blk disks"),
    "iothread_mapping": (10_000_000, 9_000_000, "spreading the queues of one disk over several I/O threads"),
    "rx_queue_size": (2_003_000, 2_007_000, "<driver rx_queue_size=>"),
    "tx_queue_size": (3_007_000, 2_010_000, "<driver tx_queue_size=>"),
}


class Features(NamedTuple):
    """What a host can do; None is "not known" and never stands in the way of what every supported host can.

    :ivar libvirt, qemu: versions in libvirt's form, 9000000 for 9.0.0.
    :ivar iothreads: ``<iothreads supported=>`` of the domain capabilities.
    """

    libvirt: int | None = None
    qemu: int | None = None
    iothreads: bool | None = None

    def missing(self, knob: str) -> str | None:
        """Return why ``knob`` cannot be used here, None when it can."""
        libvirt, qemu, what = _SINCE[knob]
        if self.libvirt is not None and self.libvirt < libvirt:
            return f"{what} needs libvirt {_version(libvirt)}, installed is {_version(self.libvirt)}"
        if self.qemu is not None and self.qemu < qemu:
            return f"{what} needs QEMU {_version(qemu)}, installed is {_version(self.qemu)}"
        if "iothread" in knob and self.iothreads is False:
            return "libvirt's domain capabilities say that I/O threads are not supported"
        return None

    def confirmed(self, knob: str) -> bool:
        """True when both versions are known and suffice: for what not every supported host can."""
        return self.libvirt is not None and self.qemu is not None and self.missing(knob) is None


def from_capabilities(xml: str | None, libvirt: int | None = None, qemu: int | None = None) -> Features:
    """Return the features of a host.

    :param xml: ``virsh domcapabilities``, or None.
    :param libvirt, qemu: ``virConnect.getLibVersion()`` and ``getVersion()``.
    :raises DomainError: ``xml`` is not that.
    """
    if xml is None:
        return Features(libvirt, qemu)
    root = parsing.parse_xml(xml)
    if root.tag != "domainCapabilities":
        raise parsing.DomainError(f"not domain capabilities: the root element is <{vocabulary.shown(root.tag)}>")
    iothreads = root.find("iothreads")
    return Features(libvirt, qemu, None if iothreads is None else iothreads.get("supported") == "yes")


def _version(number: int) -> str:
    return f"{number // 1_000_000}.{number // 1_000 % 1_000}.{number % 1_000}"
