"""A configuration file of ours that makes settings come back after a reboot."""

from __future__ import annotations

import shlex

from nova_perf_tuning.host import configuration_file
from nova_perf_tuning.host.settings import base


class ConfigFile(base.SettingKind):
    """A whole file: ``etc/sysctl.d/90-nova-perf-tuning.conf`` = mode and text as JSON, or ``absent``."""

    kind = "config_file"
    order = 5  # before what it stands for: a crash in between loses the value at the next boot at most
    persistent = True

    def read(self, target: str) -> str:
        return configuration_file.read(self.root, target)

    def holds(self, target: str, value: str, current: str) -> bool:
        if value in (configuration_file.ABSENT, configuration_file.CUT):
            return current == configuration_file.ABSENT
        return current == value

    def is_cut(self, current: str) -> bool:
        return current == configuration_file.CUT

    def write(self, target: str, value: str) -> None:
        configuration_file.write(self.root, target, value)

    def describe(self, target: str, value: str) -> str:
        wanted = configuration_file.decode(value)
        path = shlex.quote(f"{self.prefix}/{configuration_file.check(target)}")
        if wanted is None:
            return f"rm -f {path}"
        text = wanted[0].decode("utf-8", "replace")
        escaped = text.replace("\\", "\\\\").replace("%", "%%").replace("\n", "\\n")
        make = f"mkdir -p {path.rpartition('/')[0]} && " if target.endswith("/tuned.conf") else ""
        return f"{make}printf {shlex.quote(escaped)} > {path}"
