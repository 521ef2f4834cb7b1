# SPDX-License-Identifier: Apache-2.0
"""Kinds that are one value: of a file of /proc or /sys, or what ``ethtool`` sets (live host only)."""

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model

#: Target of :class:`Memory` -> its file.
MEMORY: Final = {
    "transparent_hugepage": "/sys/kernel/mm/transparent_hugepage/enabled",
    "ksm": "/sys/kernel/mm/ksm/run",
}


class Sysctl(base.Attribute):
    """One file below /proc/sys: ``net.core.rmem_max`` = ``8388608``; those of ``net`` are this namespace's."""

    kind = "sysctl"
    order = 40
    undo_form = "words"
    form = f"({'|'.join(map(re.escape, privileged.SYSCTLS))})"
    place = "/proc/sys/{0}"

    def path(self, target: str) -> str:
        return super().path(target).replace(".", "/")

    def describe(self, target: str, value: str) -> str:
        if self.live:
            return f"sysctl -w {shlex.quote(f'{target}={value}')}"
        return super().describe(target, shlex.quote(value))

    def holds(self, target: str, value: str, current: str) -> bool:
        return current.split() == value.split()  # the kernel prints tabs between three numbers


class Memory(base.Attribute):
    """Transparent huge pages and KSM: ``transparent_hugepage`` = ``madvise``, ``ksm`` = ``2``."""

    kind = "memory"
    order = 40
    undo_form = "choice"

    def path(self, target: str) -> str:
        if target not in MEMORY:
            raise base.TargetError(
                f"memory target {target[:40]!r}: write one of {', '.join(MEMORY)}"
            )
        return MEMORY[target]

    def read(self, target: str) -> str:
        """Return the value; of a file that shows all choices, the one in brackets."""
        text = super().read(target)
        chosen = re.search(r"\[([a-z_]+)\]", text)
        return chosen[1] if chosen else text


class Governor(base.Attribute):
    """Governor of a frequency domain: ``policy0`` = ``performance``."""

    kind = "governor"
    order = 40
    form = r"(policy\d{1,5})"
    place = "/sys/devices/system/cpu/cpufreq/{0}/scaling_governor"


class _QueueMask(base.Attribute):
    """A CPU mask of one queue. All zeros means off."""

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep:
        device = target.partition("/")[0]
        return base.UndoStep("queue", (device, self.path(target), original, *ours))

    def holds(self, target: str, value: str, current: str) -> bool:
        return current == value or cpulist.parse_mask(current) == cpulist.parse_mask(value)


class Xps(_QueueMask):
    """Which CPUs send through a transmit queue: ``eth0/tx-3`` = ``000000ff``; needs more than one queue."""

    kind = "xps"
    form = rf"({host_model.DEVICE})/(tx-\d{{1,4}})"
    place = "/sys/class/net/{0}/queues/{1}/xps_cpus"


class Rps(_QueueMask):
    """Which CPUs work on a receive queue's packets: ``eth0/rx-3`` = ``000000ff``."""

    kind = "rps"
    form = rf"({host_model.DEVICE})/(rx-\d{{1,4}})"
    place = "/sys/class/net/{0}/queues/{1}/rps_cpus"


class _Ethtool(base.SettingKind):
    """A named value of a device: ``DEVICE/NAME``.

    :cvar option: of ``ethtool``, that sets it; that in small letters shows it.
    :cvar shown: name -> the name under which it is shown, where that is another.
    """

    option: ClassVar[str]
    shown: ClassVar[Mapping[str, str]]

    def read(self, target: str) -> str:
        self.require_live()
        return str(privileged.get_ethtool(self.kind, target))

    def write(self, target: str, value: str) -> None:
        self.require_live()
        privileged.set_ethtool(self.kind, target, base.whole_number(self.kind, value))

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep:
        device, _, name = target.partition("/")
        shown = self.shown.get(name, name)
        words = (self.option.lower(), self.option, host_model.check_device(device), shown, name)
        return base.UndoStep("device", (*words, original, *ours))

    def describe(self, target: str, value: str) -> str:
        return f"ethtool {self.option} {target.replace('/', ' ')} {value}"


class Offload(_Ethtool):
    """One feature under its kernel name (``ethtool -k``): ``eth0/rx-gro`` = ``on`` or ``off``."""

    kind = "offload"
    order = 20
    option = "-K"
    shown = {
        "rx-checksum": "rx-checksumming",
        "rx-gro": "generic-receive-offload",
        "rx-lro": "large-receive-offload",
        "tx-generic-segmentation": "generic-segmentation-offload",
    }

    def read(self, target: str) -> str:
        return "on" if int(super().read(target)) else "off"

    def write(self, target: str, value: str) -> None:
        if value not in ("on", "off"):
            raise base.TargetError(f"offload value {value[:20]!r}: write on or off")
        super().write(target, "1" if value == "on" else "0")


class Ring(_Ethtool):
    """Descriptors of the receive or transmit rings: ``eth0/rx`` = ``1024``."""

    kind = "ring"
    order = 15
    option = "-G"
    shown = {"rx": "RX", "tx": "TX"}


class Channels(_Ethtool):
    """Queues of a NIC: ``eth0/combined`` = ``8``. Most drivers allocate their interrupts anew."""

    kind = "channels"
    order = 10
    option = "-L"
    shown = {"rx": "RX", "tx": "TX", "combined": "Combined"}
