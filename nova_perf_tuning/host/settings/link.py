"""The MTU of a network device: ``eth0`` = ``9000``."""

from __future__ import annotations

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.settings import base, files


class Mtu(base.SettingKind):
    """``mtu`` of sysfs: the same dev_set_mtu() as through netlink, and seen beside the queues in a sysroot."""

    kind = "mtu"
    order = 30

    def _path(self, target: str) -> str:
        return f"/sys/class/net/{privileged.check_device(target)}/mtu"

    def read(self, target: str) -> str:
        return files.read_text(self.prefix, self._path(target))

    def write(self, target: str, value: str) -> None:
        privileged.write_mtu(self.root, target, base.whole_number(self.kind, value))

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self._path(target)}"
