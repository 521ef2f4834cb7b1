"""What ``ethtool`` sets: offloads, rings and channels of a NIC. No files: live host only."""

from __future__ import annotations

from typing import ClassVar

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.settings import base


class _Ethtool(base.SettingKind):
    """A named value of a device: ``DEVICE/NAME``. :cvar option: of ``ethtool``, that sets it."""

    option: ClassVar[str]

    @property
    def writable(self) -> bool:
        return self.live

    def _split(self, target: str) -> tuple[str, str]:
        device, _, name = target.partition("/")
        privileged.check_ethtool(self.kind, device, name)
        if not self.live:
            raise base.UnsupportedError(f"{self.kind} is not a file: a sysroot does not have it")
        return device, name

    def read(self, target: str) -> str:
        return str(privileged.get_ethtool(self.kind, *self._split(target)))

    def write(self, target: str, value: str) -> None:
        privileged.set_ethtool(self.kind, *self._split(target), base.whole_number(self.kind, value))

    def describe(self, target: str, value: str) -> str:
        device, _, name = target.partition("/")
        return f"ethtool {self.option} {device} {name} {value}"


class Offload(_Ethtool):
    """One feature under its kernel name (``ethtool -k``): ``eth0/rx-gro`` = ``on`` or ``off``."""

    kind = "offload"
    order = 20
    option = "-K"

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


class Channels(_Ethtool):
    """Queues of a NIC: ``eth0/combined`` = ``8``. Most drivers allocate their interrupts anew."""

    kind = "channels"
    order = 10
    option = "-L"
