"""Single attributes of sysfs: memory of guests, frequency governors, parameters of modules."""

from __future__ import annotations

import re

from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.settings import base, files

_POLICY = re.compile(r"policy(0|[1-9][0-9]{0,4})", re.ASCII).fullmatch


class Memory(base.SettingKind):
    """Transparent huge pages and KSM: ``transparent_hugepage`` = ``madvise``, ``ksm`` = ``2``."""

    kind = "memory"
    order = 40

    def _path(self, target: str) -> str:
        if target not in privileged.MEMORY:
            allowed = ", ".join(sorted(privileged.MEMORY))
            raise base.TargetError(f"memory target {target[:40]!r}: write one of {allowed}")
        folder, name, _takes = privileged.MEMORY[target]
        return f"/{folder}/{name}"

    def read(self, target: str) -> str:
        """Return the value; of a file that shows all choices, the one in brackets."""
        text = files.read_text(self.prefix, self._path(target))
        chosen = re.search(r"\[([a-z_]+)\]", text)
        return chosen[1] if chosen else text

    def write(self, target: str, value: str) -> None:
        privileged.write_memory(self.root, target, value)

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self._path(target)}"


class Governor(base.SettingKind):
    """Governor of a frequency domain: ``policy0`` = ``performance``."""

    kind = "governor"
    order = 40

    def _number(self, target: str) -> int:
        match = _POLICY(target)
        if not match:
            raise base.TargetError(f"governor target {target[:40]!r}: write policyN as in policy0")
        return int(match[1])

    def _path(self, target: str) -> str:
        return f"/sys/devices/system/cpu/cpufreq/policy{self._number(target)}/scaling_governor"

    def read(self, target: str) -> str:
        return files.read_text(self.prefix, self._path(target))

    def write(self, target: str, value: str) -> None:
        privileged.write_governor(self.root, self._number(target), value)

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self._path(target)}"


class ModuleParameter(base.SettingKind):
    """Parameter of a loaded module: ``kvm/halt_poll_ns`` = ``0``."""

    kind = "module_parameter"
    order = 40

    def _path(self, target: str) -> str:
        if target not in privileged.MODULE_PARAMETERS:
            allowed = ", ".join(sorted(privileged.MODULE_PARAMETERS))
            raise base.TargetError(f"module_parameter target {target[:60]!r}: write one of {allowed}")
        module, _, name = target.partition("/")
        return f"/sys/module/{module}/parameters/{name}"

    def read(self, target: str) -> str:
        return files.read_text(self.prefix, self._path(target))

    def write(self, target: str, value: str) -> None:
        privileged.write_module_parameter(self.root, target, value)

    def describe(self, target: str, value: str) -> str:
        return f"echo {value} > {self.prefix}{self._path(target)}"
