"""Which configuration files bring settings back after a reboot: whatever the host uses already.

TuneD where it runs (a profile of ours that includes the active one), else sysctl.d, tmpfiles.d and modprobe.d; a
``.link`` file of systemd-udevd for what belongs to a NIC. Each file is a setting of kind ``config_file``: planned,
journaled and undone like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.host import configuration_file, novaconf, privileged
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.audit.host import Host

NAME: Final = configuration_file.NAME
SYSCTL: Final = f"etc/sysctl.d/90-{NAME}.conf"
#: Not the name of the file that this project is installed with, which is for its own folders.
TMPFILES: Final = f"etc/tmpfiles.d/90-{NAME}.conf"
MODPROBE: Final = f"etc/modprobe.d/{NAME}.conf"
ACTIVE_PROFILE: Final = "etc/tuned/active_profile"
PROFILE_MODE: Final = "etc/tuned/profile_mode"
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
#: Features of ethtool -> keys of a .link file; systemd.link(5).
_LINK_KEYS: Final = {
    "rx-lro": "LargeReceiveOffload",
    "rx-gro": "GenericReceiveOffload",
    "rx-gro-hw": "GenericReceiveOffloadHardware",
    "rx-checksum": "ReceiveChecksumOffload",
    "tx-checksum-ip-generic": "TransmitChecksumOffload",
    "tx-checksum-ipv4": "TransmitChecksumOffload",
    "tx-checksum-ipv6": "TransmitChecksumOffload",
    "tx-generic-segmentation": "GenericSegmentationOffload",
    "tx-tcp-segmentation": "TCPSegmentationOffload",
    "tx-tcp6-segmentation": "TCP6SegmentationOffload",
}
_RING_KEYS: Final = {"rx": "RxBufferSize", "tx": "TxBufferSize"}
_CHANNEL_KEYS: Final = {"rx": "RxChannels", "tx": "TxChannels", "combined": "CombinedChannels"}

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


def sysfs_path(one: Setting) -> str | None:
    """Return the file below /sys that a setting writes, where it writes one with a lasting name."""
    if one.kind == "memory":
        folder, name, _takes = privileged.MEMORY[one.target]
        return f"/{folder}/{name}"
    if one.kind == "governor":
        return f"/sys/devices/system/cpu/cpufreq/{one.target}/scaling_governor"
    if one.kind == "module_parameter":
        module, _, name = one.target.partition("/")
        return f"/sys/module/{module}/parameters/{name}"
    return None


def tuned_sections(settings: Iterable[Setting]) -> dict[str, dict[str, str]]:
    """Return sections of a TuneD profile for those of ``settings`` that one can hold."""
    sections: dict[str, dict[str, str]] = {}
    for one in settings:
        path = sysfs_path(one)
        if one.kind == "sysctl":
            sections.setdefault("sysctl", {})[one.target] = one.value
        elif one.kind == "governor":
            sections.setdefault("cpu", {})["governor"] = one.value
        elif path is not None:
            sections.setdefault("sysfs", {})[path] = one.value
    return sections


def ini(sections: Mapping[str, Mapping[str, str]], head: str = _HEAD) -> str:
    """Return an INI file of ``sections``."""
    parts = [
        "\n".join([f"[{name}]", *(f"{key}={value}" for key, value in values.items())])
        for name, values in sections.items()
    ]
    return head + "\n" + "\n\n".join(parts) + "\n"


class _Run:
    def __init__(self, host: Host) -> None:
        self.host = host
        self.warnings: list[str] = []
        self._lines: dict[str, dict[str, str]] = {}
        self._sections: dict[str, dict[str, dict[str, str]]] = {}
        self._reasons: dict[str, list[Setting]] = {}
        self._skipped: set[str] = set()
        self.tuned = "tuned" in host.programs and host.text(ACTIVE_PROFILE) is not None

    def add(self, one: Setting) -> bool:
        """Put a setting into its file; return whether there is one."""
        how: Mapping[str, Callable[[Setting], str | None]] = {
            "sysctl": self._value,
            "memory": self._value,
            "governor": self._value,
            "module_parameter": self._value,
            "offload": self._link,
            "ring": self._link,
            "channels": self._link,
            "mtu": self._link,
        }
        target = how[one.kind](one) if one.kind in how else None
        if one.kind not in how and one.kind not in self._skipped:
            self._skipped.add(one.kind)
            self.warnings.append(
                f"{one.kind} settings end with the next boot (numbers change): run nova-perf apply again after it"
            )
        if target is not None:
            self._reasons.setdefault(target, []).append(one)
        return target is not None

    def _value(self, one: Setting) -> str | None:
        if self.tuned:
            return self._tuned(one)
        path = sysfs_path(one)
        if one.kind == "sysctl":
            return self._line(
                SYSCTL, one.target, f"{one.target} = {one.value}", lambda line: line.partition("=")[0].strip()
            )
        if one.kind == "module_parameter":
            module, _, name = one.target.partition("/")
            # What is built into the kernel is never loaded: modprobe.d says nothing to it.
            if self.host.has(f"sys/module/{module}/initstate"):
                return self._line(
                    MODPROBE, f"{module} {name}", f"options {module} {name}={one.value}", _option_key
                )
        return self._line(
            TMPFILES, path or "", f"w {path} - - - - {one.value}", lambda line: (line.split() + ["", ""])[1]
        )

    def _line(self, target: str, key: str, line: str, key_of: Callable[[str], str]) -> str | None:
        if not self._has_folder(target):
            return None
        if target not in self._lines:
            known = (self._text(target) or "").splitlines()
            self._lines[target] = {key_of(old): old for old in known if old.strip() and not old.startswith("#")}
        self._lines[target][key] = line
        return target

    def _has_folder(self, target: str) -> bool:
        folder = target.rpartition("/")[0]
        if self.host.root.folder(folder) is not None and (self.host.names(folder) or self.host.has(folder)):
            return True
        if folder not in self._skipped:
            self._skipped.add(folder)
            self.warnings.append(f"/{folder} is not there: what belongs into it does not outlive a reboot")
        return False

    def _text(self, target: str) -> str | None:
        return self.host.content(target)

    def _tuned(self, one: Setting) -> str | None:
        folder = "etc/tuned/profiles" if self.host.has("etc/tuned/profiles") else "etc/tuned"
        target = f"{folder}/{NAME}/tuned.conf"
        if target not in self._sections:
            active = (self.host.text(ACTIVE_PROFILE) or "").split()
            sections = _sections_of(self._text(target))
            if NAME not in active:
                sections["main"] = {"summary": "Settings of nova-perf apply --persist"}
                if active:
                    sections["main"]["include"] = ",".join(active)
            self._sections[target] = sections
        for section, values in tuned_sections([one]).items():
            self._sections[target].setdefault(section, {}).update(values)
        return target

    def _link(self, one: Setting) -> str | None:
        device, _, name = one.target.partition("/")
        nic = self.host.nic(device)
        key = {"offload": _LINK_KEYS, "ring": _RING_KEYS, "channels": _CHANNEL_KEYS}.get(one.kind, {}).get(name)
        if one.kind == "mtu":
            key = "MTUBytes"
        if nic is None or nic.pci is None or key is None:
            self.warnings.append(f"{one.kind} {one.target} does not outlive a reboot: no .link file can name it")
            return None
        target = f"{_LINKS[0]}/10-{NAME}-{device}.link"
        if not self._has_folder(target):
            return None
        others = [
            f"/{folder}/{file}"
            for folder in _LINKS_OF_OTHERS
            for file in self.host.names(folder)
            if file.endswith(".link") and file < "99" and not file.startswith(f"10-{NAME}-")
        ]
        if others:
            self.warnings.append(
                f"{others[0]} may be what names {device}, and only one .link file counts: add {key}="
                f"{_link_value(one)} there yourself"
            )
            return None
        if target not in self._sections:
            sections = _sections_of(self._text(target))
            sections.setdefault("Match", {})["Path"] = f"pci-{nic.pci}"
            self._sections[target] = {**sections, "Link": {**self._default_link(), **sections.get("Link", {})}}
        self._sections[target]["Link"][key] = _link_value(one)
        return target

    def _default_link(self) -> dict[str, str]:
        for folder in _LINKS:
            text = self._text(f"{folder}/99-default.link")
            if text is not None:
                return {key: value for (section, key), value in novaconf.parse(text).items() if section == "Link"}
        return dict(_DEFAULT_LINK)

    def files(self) -> list[Setting]:
        """Return the settings of the files that change."""
        texts = {target: _HEAD + "\n".join(lines.values()) + "\n" for target, lines in self._lines.items()}
        texts |= {target: ini(sections) for target, sections in self._sections.items()}
        active = self.host.text(ACTIVE_PROFILE)
        if any(target.endswith("/tuned.conf") for target in texts) and NAME not in (active or "").split():
            texts[ACTIVE_PROFILE] = f"{NAME}\n"
            self._reasons[ACTIVE_PROFILE] = next(iter(self._reasons.values()))
            if self.host.text(PROFILE_MODE) == "auto":  # TuneD would start with what it recommends itself
                texts[PROFILE_MODE] = "manual\n"
                self._reasons[PROFILE_MODE] = self._reasons[ACTIVE_PROFILE]
        found = []
        for target, text in sorted(texts.items()):
            reasons = self._reasons[target]
            old = self._text(target)
            current = configuration_file.ABSENT if old is None else None
            names = ", ".join(dict.fromkeys(one.rule for one in reasons))
            found.append(
                Setting(
                    "config_file",
                    target,
                    configuration_file.encode(text.encode()),
                    current,
                    f"brings back after a reboot what {names} set",
                    reasons[0].rule,
                    persistent=True,
                )
            )
        return found


def _option_key(line: str) -> str:
    words = (line.split() + ["", "", ""])[1:3]
    return f"{words[0]} {words[1].partition('=')[0]}"


def _sections_of(text: str | None) -> dict[str, dict[str, str]]:
    sections: dict[str, dict[str, str]] = {}
    for (section, key), value in novaconf.parse(text or "").items():
        sections.setdefault(section, {})[key] = value
    return sections


def _link_value(one: Setting) -> str:
    return {"on": "true", "off": "false"}.get(one.value, one.value)
