# SPDX-License-Identifier: Apache-2.0
"""What a verdict on this host depends on and only the host knows: kernel, firmware, boot, programs, plan."""

import dataclasses
import glob
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Final

from nova_perf_tuning import bounded_read, cpulist
from nova_perf_tuning.host.model.owners import CpuOwners, Owner

_FILES: Final[Mapping[str, str]] = {
    "kernel": "/proc/sys/kernel/osrelease",
    "boot_id": "/proc/sys/kernel/random/boot_id",
    "microcode": "/sys/devices/system/cpu/cpu0/microcode/version",
    "bios_date": "/sys/class/dmi/id/bios_date",
}
#: Where distributions have libvirt's library. Its version is in the name of the file: 9.0.0 is
#: libvirt.so.0.9000.0.
_LIBRARIES: Final = (
    "/usr/lib/*-linux-gnu/libvirt.so.0.*",
    "/usr/lib64/libvirt.so.0.*",
    "/usr/lib/libvirt.so.0.*",
)
_LIBRARY: Final = re.compile(r"libvirt\.so\.0\.(\d{4,9})\.(\d{1,9})\Z")
#: Versions of programs are read so often at most, in seconds: a page may be fetched each second.
_VERSIONS_S: Final = 30.0
#: Who owns CPUs whichever guests run.
_LASTING: Final = (
    Owner.DEDICATED,
    Owner.ISOLATED,
    Owner.TICKLESS,
    Owner.SLICE,
    Owner.SHARED,
)


class HostInfo:
    """Reads it; programs that were replaced meanwhile are seen within half a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._versions: dict[str, str] = {}
        self._until = -1.0

    def read(self) -> dict[str, str]:
        """Return name -> version; empty where it is not shown, as the firmware of a virtual machine."""
        found = {}
        for name, path in _FILES.items():
            try:
                found[name] = bounded_read.kernel_text("", path).strip()[:200]
            except OSError:
                found[name] = ""
        if self._clock() >= self._until:
            self._versions = {"libvirt": libvirt_version(_LIBRARIES), "nova": nova_version()}
            self._until = self._clock() + _VERSIONS_S
        return found | self._versions


def libvirt_version(patterns: Sequence[str]) -> str:
    """Return the newest version of libvirt's library in files of these patterns; empty: there is none."""
    versions = set()
    for pattern in patterns:
        for path in glob.glob(pattern):
            named = _LIBRARY.match(os.path.basename(path))
            if named is not None:
                release, micro = int(named[1]), int(named[2])
                versions.add((release // 1000, release % 1000, micro))
    return ".".join(map(str, max(versions, default=())))


def nova_version() -> str:
    """Return the version of Nova in this program's Python; empty: it is not there."""
    try:
        return metadata.version("nova")[:200]
    except metadata.PackageNotFoundError:
        return ""


@dataclasses.dataclass(frozen=True, slots=True)
class PlanBasis:
    """What a plan depends on whichever guests run; fields as options of ``[agent]``."""

    mode: str
    housekeeping: str | None
    rps: bool
    leave: Sequence[str]

    def digest(self, owners: CpuOwners) -> str:
        """Return a short name for this and for the lasting claims on CPUs."""
        claims = {}
        for owner in _LASTING:
            claims[owner.value] = cpulist.format(owners.cpus(owner))
        text = json.dumps([dataclasses.asdict(self), claims], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
