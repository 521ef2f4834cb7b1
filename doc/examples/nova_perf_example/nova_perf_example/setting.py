# SPDX-License-Identifier: Apache-2.0
"""A kind of setting: how long the kernel gathers packets before it hands them on."""

import pathlib

from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model

#: Nanoseconds; longer than that no guest should wait for a packet.
MAXIMUM = 1_000_000


class GroFlushTimeout(base.SettingKind):
    """``gro_flush_timeout`` of a network device, in nanoseconds (Documentation/networking/napi.rst of Linux).

    A target is a device, ``eth0``; the value 0 hands packets on at once, which is the kernel's default.
    """

    kind = "gro_flush_timeout"
    order = 40

    def _path(self, target: str) -> pathlib.Path:
        return pathlib.Path(
            f"{self.prefix}/sys/class/net/{host_model.check_device(target)}/gro_flush_timeout"
        )

    def read(self, target: str) -> str:
        return self._path(target).read_text(encoding="ascii").strip()

    def write(self, target: str, value: str) -> None:
        number = base.whole_number(self.kind, value)
        if number > MAXIMUM:
            raise base.TargetError(f"{self.kind} {value}: at most {MAXIMUM} nanoseconds")
        self._path(target).write_text(str(number), encoding="ascii")

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self._path(target)}"
