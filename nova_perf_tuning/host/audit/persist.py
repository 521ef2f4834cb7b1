# SPDX-License-Identifier: Apache-2.0
"""Which configuration files bring settings back after a reboot: those that every distribution reads at boot.

sysctl.d, tmpfiles.d and rules of udev, with a line for each value. Each file is a setting of kind
``config_file``: planned, journaled and undone like any other.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.kinds import attributes, config_file
from nova_perf_tuning.host.model import Setting
from nova_perf_tuning.host.notes import Note, NoteCode

NAME: Final = config_file.NAME
SYSCTL: Final = f"etc/sysctl.d/90-{NAME}.conf"
#: Not the name of the file that this project is installed with, which is for its own directories.
TMPFILES: Final = f"etc/tmpfiles.d/90-{NAME}.conf"
UDEV: Final = f"etc/udev/rules.d/90-{NAME}.rules"
_HEAD: Final = "# Written by nova-perf apply --persist; nova-perf restore takes it away again.\n"
#: File -> what is before the value in a line of it.
_BEFORE_VALUE: Final = {SYSCTL: " = ", TMPFILES: " - - - - ", UDEV: " "}
#: Kind of setting of a NIC -> option of ethtool.
_ETHTOOL: Final = {"offload": "-K", "ring": "-G", "channels": "-L"}
#: Kinds that are a file of /sys with a lasting name.
_SYSFS: Final = {kind.kind: kind() for kind in (attributes.Memory, attributes.Governor)}


def plan(host: Host, settings: Sequence[Setting]) -> tuple[list[Setting], list[Note]]:
    """Return the files that bring ``settings`` back after a reboot and the settings, and why some do not come."""
    lines: dict[str, dict[str, str]] = {}  # file -> a line up to its value -> the line
    reasons: dict[str, list[str]] = {}
    warnings: dict[Note, None] = {}
    marked = []
    for setting in settings:
        path, line = _line(host, setting)
        if path is None:
            warnings[Note.of(NoteCode.NOT_PERSISTENT, kind=setting.kind)] = None
        elif not host.has(directory := path.rpartition("/")[0]):
            warnings[Note.of(NoteCode.NO_DIRECTORY, directory=f"/{directory}", target=setting.target)] = None
        else:
            lines.setdefault(path, _known(host, path))[_key(path, line)] = line
            reasons.setdefault(path, []).append(setting.rule)
            setting = dataclasses.replace(setting, persistent=True)
        marked.append(setting)
    files = [
        Setting(
            "config_file",
            path,
            config_file.encode(_HEAD + "\n".join(lines[path].values()) + "\n"),
            config_file.ABSENT if host.content(path) is None else None,
            f"brings back after a reboot what {', '.join(dict.fromkeys(reasons[path]))} set",
            reasons[path][0],
            persistent=True,
        )
        for path in sorted(lines)
    ]
    return [*files, *marked], list(warnings)


def _line(host: Host, setting: Setting) -> tuple[str | None, str]:
    """Return the file that can bring a setting back, None where none can, and the line in it."""
    kind, value = setting.kind, setting.value
    target, _, name = setting.target.partition("/")
    if kind in _ETHTOOL:
        nic = host.nics.get(target)
        command = f"/usr/sbin/ethtool {_ETHTOOL[kind]} $name {name} {value}"
        match = f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{nic.pci if nic else None}"'
        return UDEV if nic is not None and nic.pci is not None else None, f'{match}, RUN+="{command}"'
    if kind == "sysctl":
        return SYSCTL, f"{setting.target} = {value}"
    if kind in _SYSFS:
        return TMPFILES, f"w {_SYSFS[kind].path(setting.target)} - - - - {value}"
    return None, ""


def _known(host: Host, path: str) -> dict[str, str]:
    lines = (host.content(path) or "").splitlines()
    return {_key(path, line): line for line in lines if line.strip() and not line.startswith("#")}


def _key(path: str, line: str) -> str:
    return line.rpartition(_BEFORE_VALUE[path])[0]
