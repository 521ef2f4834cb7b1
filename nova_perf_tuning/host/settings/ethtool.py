"""What ``ethtool`` sets: offloads, rings, channels of a NIC, coalescing of a tap. No files: live host only."""

from __future__ import annotations

import abc
from collections.abc import Collection
from typing import ClassVar

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.settings import base, files


class _Ethtool(base.SettingKind):
    """A named value of a device: ``DEVICE/NAME``."""

    names: ClassVar[Collection[str]]

    @property
    def writable(self) -> bool:
        return self.live

    def _split(self, target: str) -> tuple[str, str]:
        device, _, name = target.partition("/")
        if name not in self.names:
            raise base.TargetError(
                f"{self.kind} target {target[:60]!r}: write DEVICE/NAME, NAME is {', '.join(sorted(self.names))}"
            )
        privileged.check_device(device)
        if not self.live:
            raise base.UnsupportedError(
                f"{self.kind} is read and set through the kernel only: a sysroot has no files for it"
            )
        return device, name

    def read(self, target: str) -> str:
        device, name = self._split(target)
        return self._get(device, name)

    def write(self, target: str, value: str) -> None:
        device, name = self._split(target)
        self._set(device, name, value)

    @abc.abstractmethod
    def _get(self, device: str, name: str) -> str:
        """Return the value of ``name`` now."""

    @abc.abstractmethod
    def _set(self, device: str, name: str, value: str) -> None:
        """Set it."""


class Offload(_Ethtool):
    """One feature under its kernel name (``ethtool -k``): ``eth0/rx-gro`` = ``on`` or ``off``."""

    kind = "offload"
    order = 20
    names = privileged.OFFLOADS

    def _get(self, device: str, name: str) -> str:
        with privileged.ethtool(device) as handle:
            features = handle.get_features()
            if name not in features:
                raise base.UnsupportedError("this kernel does not know the feature")
            return "on" if features[name] else "off"

    def _set(self, device: str, name: str, value: str) -> None:
        if value not in ("on", "off"):
            raise base.TargetError(f"offload value {value[:20]!r}: write on or off")
        privileged.set_offload(device, name, value == "on")

    def describe(self, target: str, value: str) -> str:
        device, _, name = target.partition("/")
        return f"ethtool -K {device} {name} {value}"


class Ring(_Ethtool):
    """Descriptors of the receive or transmit rings: ``eth0/rx`` = ``1024``."""

    kind = "ring"
    order = 15
    names = privileged.RINGS

    def _get(self, device: str, name: str) -> str:
        with privileged.ethtool(device) as handle:
            return str(handle.get_rings()[name])

    def _set(self, device: str, name: str, value: str) -> None:
        privileged.set_ring(device, name, base.whole_number(self.kind, value))

    def describe(self, target: str, value: str) -> str:
        device, _, name = target.partition("/")
        return f"ethtool -G {device} {name} {value}"


class Channels(_Ethtool):
    """Queues of a NIC: ``eth0/combined`` = ``8``. Most drivers allocate their interrupts anew."""

    kind = "channels"
    order = 10
    names = privileged.CHANNELS

    def _get(self, device: str, name: str) -> str:
        with privileged.ethtool(device) as handle:
            return str(handle.get_channels()[f"{name}_count"])

    def _set(self, device: str, name: str, value: str) -> None:
        privileged.set_channels(device, name, base.whole_number(self.kind, value))

    def describe(self, target: str, value: str) -> str:
        device, _, name = target.partition("/")
        return f"ethtool -L {device} {name} {value}"


class Coalesce(_Ethtool):
    """Frames that a guest's tap passes on in one go: ``tap0a1b2c3d-4e/rx-frames`` = ``16``, for all its queues.

    Identity is the interface index, which the kernel gives out anew for each device: a later tap of the same name
    is another one.
    """

    kind = "coalesce"
    order = 20
    needs_identity = True
    ephemeral = True
    names = privileged.COALESCE

    def _get(self, device: str, name: str) -> str:
        with privileged.ethtool(device) as handle:
            return str(handle.get_coalesce()[privileged.COALESCE[name][0]])

    def _set(self, device: str, name: str, value: str) -> None:
        privileged.set_coalesce(device, name, base.whole_number(self.kind, value))

    def identity(self, target: str) -> str:
        device, _name = self._split(target)
        return files.read_text(self.prefix, f"/sys/class/net/{device}/ifindex")

    def describe(self, target: str, value: str) -> str:
        device, _, name = target.partition("/")
        return f"ethtool -C {device} {name} {value}"
