"""Kernel parameters of an allow-list: ``net.core.rmem_max`` = ``8388608``."""

from __future__ import annotations

import shlex

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.settings import base, files


class Sysctl(base.SettingKind):
    """One file below /proc/sys; parameters below ``net`` are those of this network namespace."""

    kind = "sysctl"
    order = 40

    def _path(self, target: str) -> str:
        return f"/proc/sys/{privileged.check_sysctl(target).replace('.', '/')}"

    def read(self, target: str) -> str:
        return files.read_text(self.prefix, self._path(target))

    def write(self, target: str, value: str) -> None:
        privileged.write_sysctl(self.root, target, value)

    def describe(self, target: str, value: str) -> str:
        if self.live:
            return f"sysctl -w {shlex.quote(f'{target}={value}')}"
        return f"echo {shlex.quote(value)} > {self.prefix}{self._path(target)}"

    def holds(self, target: str, value: str, current: str) -> bool:
        return current.split() == value.split()  # the kernel prints tabs between three numbers
