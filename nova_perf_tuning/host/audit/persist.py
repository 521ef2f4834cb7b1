# SPDX-License-Identifier: Apache-2.0
"""Which configuration files bring settings back after a reboot: those that every distribution
reads at boot.

sysctl.d, tmpfiles.d and rules of udev, with a line for each value. Each file is a setting of kind
``config_file``: planned, journaled and undone like any other.
"""

import dataclasses
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.kinds import attributes, background, config_file
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.model.notes import Note, NoteCode

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
_SYSCTLS: Final = "/proc/sys/"
#: Kinds that are a file of /sys with a lasting name.
_SYSFS: Final = {kind.kind: kind() for kind in (attributes.Memory, attributes.Governor)}


@dataclasses.dataclass(slots=True)
class _File:
    """A file that is to be written.

    :ivar lines: a line up to its value -> the line.
    :ivar rules: the rules of the settings that it brings back.
    """

    lines: dict[str, str]
    rules: list[str] = dataclasses.field(default_factory=list)


def plan(host: Host, settings: Sequence[Setting]) -> tuple[list[Setting], list[Note]]:
    """Return the files that bring ``settings`` back after a reboot and the settings, and why some
    do not come.
    """
    files: dict[str, _File] = {}
    warnings: dict[Note, None] = {}
    marked: list[Setting] = []
    for setting in settings:
        line = _line(host, setting)
        if line is None:
            warnings[Note.of(NoteCode.NOT_PERSISTENT, kind=setting.kind)] = None
            marked.append(setting)
            continue
        path, text = line
        directory = path.rpartition("/")[0]
        if not host.has(directory):
            warnings[
                Note.of(NoteCode.NO_DIRECTORY, directory=f"/{directory}", target=setting.target)
            ] = None
            marked.append(setting)
            continue
        if path not in files:
            files[path] = _File(_known(host, path))
        files[path].lines[_key(path, text)] = text
        files[path].rules.append(setting.rule)
        marked.append(dataclasses.replace(setting, persistent=True))
    planned: list[Setting] = []
    for path in sorted(files):
        planned.append(_setting(host, path, files[path]))
    return planned + marked, list(warnings)


def _setting(host: Host, path: str, file: _File) -> Setting:
    """Return the setting that writes a file."""
    text = _HEAD + "\n".join(file.lines.values()) + "\n"
    return Setting(
        "config_file",
        path,
        config_file.encode(text),
        config_file.ABSENT if host.content(path) is None else None,
        f"brings back after a reboot what {', '.join(dict.fromkeys(file.rules))} set",
        file.rules[0],
        persistent=True,
    )


def _line(host: Host, setting: Setting) -> tuple[str, str] | None:
    """Return the file that can bring a setting back and the line in it, None where none can."""
    kind, value = setting.kind, setting.value
    if kind in _ETHTOOL:
        name, _, feature = setting.target.partition("/")
        nic = host.nics.get(name)
        if nic is None or nic.pci is None:
            return None
        command = f"/usr/sbin/ethtool {_ETHTOOL[kind]} $name {feature} {value}"
        match = f'ACTION=="add", SUBSYSTEM=="net", KERNELS=="{nic.pci}"'
        return UDEV, f'{match}, RUN+="{command}"'
    if kind == "sysctl":
        return SYSCTL, f"{setting.target} = {value}"
    if kind == background.WorkCpus.kind:
        path = background.FILES[setting.target].path
        if path.startswith(_SYSCTLS):
            return SYSCTL, f"{path.removeprefix(_SYSCTLS).replace('/', '.')} = {value}"
        return TMPFILES, f"w {path} - - - - {value}"
    if kind in _SYSFS:
        return TMPFILES, f"w {_SYSFS[kind].path(setting.target)} - - - - {value}"
    return None


def _known(host: Host, path: str) -> dict[str, str]:
    """Return the lines that a file has now, comments left out."""
    known: dict[str, str] = {}
    for line in (host.content(path) or "").splitlines():
        if line.strip() and not line.startswith("#"):
            known[_key(path, line)] = line
    return known


def _key(path: str, line: str) -> str:
    return line.rpartition(_BEFORE_VALUE[path])[0]
