"""Which configuration files bring settings back after a reboot: those that every distribution reads at boot.

sysctl.d, modprobe.d and tmpfiles.d with a line a value, and a ``.link`` file of systemd-udevd for each NIC.
Each file is a setting of kind ``config_file``: planned, journaled and undone like any other.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.host import configuration_file, novaconf
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.settings import attributes

NAME: Final = configuration_file.NAME
SYSCTL: Final = f"etc/sysctl.d/90-{NAME}.conf"
#: Not the name of the file that this project is installed with, which is for its own folders.
TMPFILES: Final = f"etc/tmpfiles.d/90-{NAME}.conf"
MODPROBE: Final = f"etc/modprobe.d/{NAME}.conf"
_HEAD: Final = "# Written by nova-perf apply --persist; nova-perf restore takes it away again.\n"
_LINKS: Final = ("etc/systemd/network", "usr/lib/systemd/network", "lib/systemd/network")
#: Where operators and netplan put .link files; of all folders together the first by name counts.
_LINKS_OF_OTHERS: Final = ("etc/systemd/network", "run/systemd/network", "usr/local/lib/systemd/network")
#: What udev's own 99-default.link says: the first file that matches a NIC is the only one that counts.
_DEFAULT_LINK: Final = {
    "NamePolicy": "keep kernel database onboard slot path",
    "AlternativeNamesPolicy": "database onboard slot path",
    "MACAddressPolicy": "persistent",
}
#: Kind of setting -> name of the value -> key of a .link file; systemd.link(5).
LINK_KEYS: Final = {
    "offload": {
        "rx-lro": "LargeReceiveOffload",
        "rx-gro": "GenericReceiveOffload",
        "rx-checksum": "ReceiveChecksumOffload",
        "tx-checksum-ip-generic": "TransmitChecksumOffload",
        "tx-checksum-ipv4": "TransmitChecksumOffload",
        "tx-checksum-ipv6": "TransmitChecksumOffload",
        "tx-generic-segmentation": "GenericSegmentationOffload",
        "tx-tcp-segmentation": "TCPSegmentationOffload",
        "tx-tcp6-segmentation": "TCP6SegmentationOffload",
    },
    "ring": {"rx": "RxBufferSize"},
    "channels": {"rx": "RxChannels", "tx": "TxChannels", "combined": "CombinedChannels"},
}

Setting = setting_module.Setting


@dataclasses.dataclass(slots=True)
class Persistent:
    """Settings that come back after a reboot, with their files; and why the others do not.

    :ivar settings: all that was given, those with a file marked, and before them the files.
    """

    settings: list[Setting]
    warnings: list[str]


def plan(host: Host, settings: Sequence[Setting]) -> Persistent:
    """Return ``settings`` with the files that bring them back on this host."""
    run = _Run(host)
    marked = [dataclasses.replace(one, persistent=True) if run.add(one) else one for one in settings]
    return Persistent([*run.files(), *marked], run.warnings)


def _sysfs_path(one: Setting) -> str | None:
    """Return the file below /sys that a setting writes, where it writes one with a lasting name."""
    if one.kind == "memory":
        return attributes.MEMORY[one.target]
    if one.kind == "governor":
        return f"/sys/devices/system/cpu/cpufreq/{one.target}/scaling_governor"
    if one.kind == "module_parameter":
        module, _, name = one.target.partition("/")
        return f"/sys/module/{module}/parameters/{name}"
    return None


class _Run:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.warnings: list[str] = []
        #: File -> what identifies a line in it -> the line.
        self._lines: dict[str, dict[str, str]] = {}
        #: ``.link`` file -> section -> key -> value.
        self._links: dict[str, dict[str, dict[str, str]]] = {}
        self._reasons: dict[str, list[Setting]] = {}

    def add(self, setting: Setting) -> bool:
        """Put a setting into its file; return whether there is one."""
        target = None
        if setting.kind in LINK_KEYS:
            target = self._link(setting)
        elif setting.kind == "sysctl":
            target = self._line(SYSCTL, f"{setting.target} = {setting.value}")
        elif setting.kind == "module_parameter" and self._is_loaded(setting.target):
            module, _, name = setting.target.partition("/")
            target = self._line(MODPROBE, f"options {module} {name}={setting.value}")
        elif (path := _sysfs_path(setting)) is not None:
            target = self._line(TMPFILES, f"w {path} - - - - {setting.value}")
            if target and "tuned" in self.host.programs:
                self._warn(f"TuneD runs and may set {path} again: put {setting.value} into its profile yourself")
        else:
            self._warn(f"{setting.kind} settings end with the next boot: run nova-perf apply again after it")
        if target is not None:
            self._reasons.setdefault(target, []).append(setting)
        return target is not None

    def _warn(self, warning: str) -> None:
        if warning not in self.warnings:
            self.warnings.append(warning)

    def _is_loaded(self, parameter: str) -> bool:
        # What is built into the kernel is never loaded: modprobe.d says nothing to it.
        return self.host.has(f"sys/module/{parameter.partition('/')[0]}/initstate")

    def _has_folder(self, target: str) -> bool:
        folder = target.rpartition("/")[0]
        there = bool(self.host.names(folder)) or self.host.has(folder)
        if not there:
            self._warn(f"/{folder} is not there: what belongs into it does not outlive a reboot")
        return there

    def _line(self, target: str, line: str) -> str | None:
        if not self._has_folder(target):
            return None
        known = (self.host.content(target) or "").splitlines()
        kept = {_key(old): old for old in known if old.strip() and not old.startswith("#")}
        self._lines.setdefault(target, kept)[_key(line)] = line
        return target

    def _link(self, setting: Setting) -> str | None:
        device, _, name = setting.target.partition("/")
        nic = self.host.nic(device)
        key = LINK_KEYS[setting.kind].get(name)
        if nic is None or nic.pci is None or key is None:
            self._warn(f"{setting.kind} {setting.target} does not outlive a reboot: no .link file can name it")
            return None
        target = f"{_LINKS[0]}/10-{NAME}-{device}.link"
        if not self._has_folder(target):
            return None
        value = {"on": "true", "off": "false"}.get(setting.value, setting.value)
        others = [
            f"/{folder}/{file}"
            for folder in _LINKS_OF_OTHERS
            for file in self.host.names(folder)
            if file.endswith(".link") and file < "99" and not file.startswith(f"10-{NAME}-")
        ]
        if others:
            self._warn(
                f"{others[0]} may be what names {device}, and only one .link file counts: add {key}={value} there "
                "yourself"
            )
            return None
        if target not in self._links:
            sections = _sections(self.host.content(target))
            sections.setdefault("Match", {})["Path"] = f"pci-{nic.pci}"
            sections["Link"] = {**self._default_link(), **sections.get("Link", {})}
            self._links[target] = sections
        self._links[target]["Link"][key] = value
        return target

    def _default_link(self) -> dict[str, str]:
        for folder in _LINKS:
            text = self.host.content(f"{folder}/99-default.link")
            if text is not None:
                return _sections(text).get("Link", {})
        return dict(_DEFAULT_LINK)

    def files(self) -> list[Setting]:
        """Return the settings of the files that change."""
        texts = {target: _HEAD + "\n".join(lines.values()) + "\n" for target, lines in self._lines.items()}
        for target, sections in self._links.items():
            parts = ("".join([f"\n[{name}]\n", *_pairs(values)]) for name, values in sections.items())
            texts[target] = _HEAD + "".join(parts)
        return [
            Setting(
                "config_file",
                target,
                configuration_file.encode(text),
                configuration_file.ABSENT if self.host.content(target) is None else None,
                f"brings back after a reboot what {', '.join(dict.fromkeys(one.rule for one in reasons))} set",
                reasons[0].rule,
                persistent=True,
            )
            for target, text in sorted(texts.items())
            for reasons in [self._reasons[target]]
        ]


def _key(line: str) -> str:
    """Return what a line of sysctl.d, modprobe.d or tmpfiles.d sets, without the value."""
    return re.split("=| - ", line, maxsplit=1)[0].strip()


def _pairs(values: dict[str, str]) -> list[str]:
    return [f"{key}={value}\n" for key, value in values.items()]


def _sections(text: str | None) -> dict[str, dict[str, str]]:
    sections: dict[str, dict[str, str]] = {}
    for (section, key), value in novaconf.parse(text or "").items():
        sections.setdefault(section, {})[key] = value
    return sections
