"""A configuration file of ours that makes settings come back after a reboot."""

from __future__ import annotations

import shlex

from nova_perf_tuning.host import configuration_file
from nova_perf_tuning.host.settings import base


class ConfigFile(base.SettingKind):
    """A whole file: ``etc/sysctl.d/90-nova-perf-tuning.conf`` = its text as JSON, or ``absent``."""

    kind = "config_file"
    order = 5  # before what it stands for: a crash in between loses the value at the next boot at most
    persistent = True

    def read(self, target: str) -> str:
        return configuration_file.read(self.root, target)

    def write(self, target: str, value: str) -> None:
        configuration_file.write(self.root, target, value)

    def describe(self, target: str, value: str) -> str:
        path = shlex.quote(f"{self.prefix}/{configuration_file.check(target)}")
        text = configuration_file.decode(value)
        if text is None:
            return f"rm -f {path}"
        escaped = text.replace("\\", "\\\\").replace("%", "%%").replace("\n", "\\n")
        return f"printf {shlex.quote(escaped)} > {path}"
