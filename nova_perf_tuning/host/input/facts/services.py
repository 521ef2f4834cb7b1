# SPDX-License-Identifier: Apache-2.0
"""The CPUs to which the host's services are confined: by systemd, or by a profile of TuneD."""

from typing import Final, NamedTuple

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
    tuned = isolated_cores(root)
    if tuned is not None and tuned.cpus and online - tuned.cpus:
        return cpulist.format(online - tuned.cpus), tuned.source
    return "", ""


class IsolatedCores(NamedTuple):
    """``isolated_cores=`` of TuneD's active profile: its file, and its text without quotes.

    :ivar no_balance: the text of ``no_balance_cores=``, which is meant to name some of them.
    """

    profile: str
    path: str
    text: str
    no_balance: str

    @property
    def source(self) -> str:
        """Where it is from, as evidence."""
        return f"/{self.path} isolated_cores"

    @property
    def cpus(self) -> frozenset[int] | None:
        """The CPUs that it isolates; None: not a list of CPUs."""
        return _unpacked(self.text)

    @property
    def only_unbalanced(self) -> frozenset[int]:
        """The CPUs of ``no_balance_cores=`` that are not isolated, as far as both are lists of CPUs."""
        if self.cpus is None:
            return frozenset()
        return (_unpacked(self.no_balance) or frozenset()) - self.cpus


def _unpacked(text: str) -> frozenset[int] | None:
    """Return CPUs as cpulist_unpack() of TuneD reads them: a list with ``^`` or a mask after 0x; None: neither."""
    if text.lower().startswith("0x"):
        mask = text[2:]
        return cpulist.parse_mask(mask) if cpulist.is_mask(mask) else None
    try:
        return cpulist.parse_spec(text)
    except cpulist.CpuListError:
        return None


def isolated_cores(root: Root) -> IsolatedCores | None:
    """Return what the first active profile that isolates CPUs says; None where there is none."""
    for profile in _content(root, f"{_TUNED}/active_profile").split():
        if profile in PARTITIONING:
            path = f"{_TUNED}/{profile}-variables.conf"
            content = _content(root, path)
            text = _assigned(content, "isolated_cores").strip("\"'")
            no_balance = _assigned(content, "no_balance_cores").strip("\"'")
            return IsolatedCores(profile, path, text, no_balance)
    return None


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
