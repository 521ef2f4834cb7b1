# SPDX-License-Identifier: Apache-2.0
"""What a verdict on this host depends on and only the host knows: kernel, firmware, boot."""

from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import bounded_read

_FILES: Final[Mapping[str, str]] = {
    "kernel": "/proc/sys/kernel/osrelease",
    "boot_id": "/proc/sys/kernel/random/boot_id",
    "microcode": "/sys/devices/system/cpu/cpu0/microcode/version",
    "bios_date": "/sys/class/dmi/id/bios_date",
}


def read() -> dict[str, str]:
    """Return name -> version; empty where the kernel does not show it, as in a virtual machine."""
    found = {}
    for name, path in _FILES.items():
        try:
            found[name] = bounded_read.kernel_text("", path).strip()[:200]
        except OSError:
            found[name] = ""
    return found
