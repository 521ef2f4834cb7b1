# SPDX-License-Identifier: Apache-2.0
"""The CPUs to which the host's services are confined: by systemd, or by a profile of TuneD."""

from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts.root import Root

#: Directory and name of what systemd's manager reads.
SYSTEM: Final = "etc/systemd/system.conf"
_TUNED: Final = "etc/tuned"
#: Profiles that keep services off the CPUs of ``isolated_cores=`` in the file of their variables.
PARTITIONING: Final = (
    "cpu-partitioning",
    "cpu-partitioning-powersave",
    "realtime",
    "realtime-virtual-guest",
    "realtime-virtual-host",
)
_LIMIT: Final = 1 << 20


def read_services(root: Root, online: frozenset[int]) -> tuple[str, str]:
    """Return the CPUs of services as a cpulist, and where that is said; both empty: nothing confines them.

    The kernel's ``systemd.cpu_affinity=`` goes before ``CPUAffinity=`` of systemd's manager, which
    TuneD writes, too, but not all of its profiles.
    """
    for word in _content(root, "proc/cmdline").split():
        key, _, value = word.partition("=")
        if key == "systemd.cpu_affinity":
            return _confined(value, online, "/proc/cmdline systemd.cpu_affinity")
    setting = unit_setting(root, SYSTEM, "CPUAffinity")
    if setting is not None:
        path, words = setting
        return _confined(words, online, f"/{path} CPUAffinity")
    for profile in _content(root, f"{_TUNED}/active_profile").split():
        if profile not in PARTITIONING:
            continue
        path = f"{_TUNED}/{profile}-variables.conf"
        isolated = cpulist.find(_assigned(_content(root, path), "isolated_cores"))
        if isolated and online - isolated:
            return cpulist.format(online - isolated), f"/{path} isolated_cores"
    return "", ""


def unit_setting(root: Root, path: str, key: str) -> tuple[str, str] | None:
    """Return where a setting of systemd is made, and its words with commas.

    Of a file and its drop-ins the last assignment counts; an empty one is passed over.
    """
    files = [path]
    for name in sorted(root.names(root.directory(f"{path}.d"))):
        if name.isprintable():
            files.append(f"{path}.d/{name}")
    setting = None
    for file in files:
        text = _assigned(_content(root, file), key)
        words = text.replace(",", " ").split()
        if words:
            setting = (file, ",".join(words))
    return setting


def _confined(text: str, online: frozenset[int], where: str) -> tuple[str, str]:
    cpus = (cpulist.find(",".join(text.replace(",", " ").split())) or frozenset()) & online
    if not cpus:  # systemd knows the word numa, too
        return "", ""
    return cpulist.format(cpus), where


def _assigned(content: str, key: str) -> str:
    """Return the last text of ``KEY=text`` that is not empty."""
    text = ""
    for line in content.splitlines():
        name, _, value = line.partition("=")
        if name.strip() == key and value.strip():
            text = value.strip()
    return text


def _content(root: Root, path: str) -> str:
    directory, _, name = path.rpartition("/")
    data = root.read(root.directory(directory), name, _LIMIT)
    return "" if data is None else data.decode("utf-8", "replace")
