"""The domain as Nova's libvirt driver would write it for such a guest, before any tuning.

Left out is what has no bearing on performance: display, sound, input and Nova's own metadata. The kernel is
loaded by QEMU (as for an image with ``kernel_id`` and ``ramdisk_id``), the console goes to a log file and the
QEMU guest agent has its channel (``hw_qemu_guest_agent=yes``). A guest that panics or reboots is a failed guest,
and does not come back by itself.
"""

from __future__ import annotations

import dataclasses
import html
from importlib import resources
from typing import Final

from nova_perf_tuning.validation.launch import base

#: Machine type as in ``hw_machine_type``: libvirt's default and so Nova's.
MACHINE: Final = "pc"
_KVM: Final = {
    "type": "kvm",
    "cmdline": "",
    "cpu": ' mode="host-model"',
    "timers": '<timer name="pit" tickpolicy="delay"/><timer name="rtc" tickpolicy="catchup"/>'
    '<timer name="hpet" present="no"/>',
    "driver": "",
}
#: The TSC of an emulated CPU is calibrated against a timer that a busy host delays by half, and a wrong clock
#: makes wrong figures: the HPET is used instead. Mitigations protect nothing there; crypto self-tests take time.
#: Nova has no cpu_mode for virt_type qemu, and forces QEMU's own backend.
_EMULATED: Final = {
    "type": "qemu",
    "cmdline": " tsc=unstable no_timer_check mitigations=off cryptomgr.notests",
    "cpu": "",
    "timers": "",
    "driver": '<driver name="qemu"/>',
}


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
    values = dataclasses.asdict(size) | dataclasses.asdict(files)
    values |= {"name": name, "machine": MACHINE, "bridge": bridge, "tap": tap, "mac": mac, "cache": cache}
    filled = {key: html.escape(str(value)) for key, value in values.items()}
    text = (resources.files(__package__) / "domain.xml").read_text(encoding="utf-8")
    return text.format_map(filled | (_KVM if kvm else _EMULATED))
