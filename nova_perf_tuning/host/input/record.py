# SPDX-License-Identifier: Apache-2.0
"""Records a host: what its facts and the audit's rules read, as one file for ``--sysroot``.

Only what is named here is recorded. Left out on purpose: command lines, environments, MAC and IP
addresses, UUIDs, serial numbers, the boot id, the host's name, names of guests that tenants gave
and where their disks lie. Kept, because plans are read by them: names of network devices, PCI
addresses, libvirt's names of guests, process ids, name and number of the user of Open vSwitch.
"""

import fnmatch
import importlib.resources
import io
import itertools
import os
import tarfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lxml import etree

from nova_perf_tuning import atomic_write
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.audit import device_interrupts, host
from nova_perf_tuning.host.audit.configuration import MACHINE
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import (
    devices,
    ethtool,
    guests,
    irqbalance_unit,
    napi,
    reader,
    services,
    vswitch_database,
    whose,
    writers,
)
from nova_perf_tuning.host.input.facts.root import Directory, FactsError, Root
from nova_perf_tuning.host.model import host_model

#: Tables of what is kept: of files as they are, of names, and of domain XML.
_TABLES: Final = tomllib.loads(
    importlib.resources.files(__package__).joinpath("recorded.toml").read_text(encoding="utf-8")
)
_CPUINFO: Final = (
    "processor vendor arch cpu family model stepping flags CPU Features machine platform"
)

#: Of /proc/interrupts, as the audit reads it.
_COUNTS_LIMIT: Final = 4 << 20

_NOVA: Final = f"{{{parsing.NOVA_NAMESPACE}}}"
_OSINFO: Final = "{http://libosinfo.org/xmlns/libvirt/domain/1.0}"
#: Those that say a flavor's extra spec, an image's property, or one of the request.
_ASKING: Final = (f"{_NOVA}extraSpec", f"{_NOVA}property", parsing.SPEC)
#: Element of domain XML -> its attributes that are recorded; one that is not here is left out with
#: all in it.
_DOMAIN: Final[Mapping[str, str]] = {
    **_TABLES["domain"],
    **{f"{_NOVA}{name}": "" for name in ("flavor", "extraSpecs", "image", "properties")},
    **dict.fromkeys((*parsing.INSTANCES, parsing.REQUEST, f"{_OSINFO}libosinfo"), ""),
    **dict.fromkeys(_ASKING, "name"),
    f"{_OSINFO}os": "id",
}
_WITH_TEXT: Final = ("name", "vcpu", "iothreads", "memory", "emulator", "policy", *_ASKING)
#: Of the extra specs and image properties those with these names are recorded.
_SPECS: Final = ("hw:", "perf:", "hw_", "os_type")


class Tree:
    """Files, links and directories of a recorded host: path -> content, target or None."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.entries: dict[str, bytes | str | None] = {}

    def find(self, pattern: str) -> Iterator[tuple[Directory, str]]:
        """Yield directory and name of what may be there; links on the way are recorded."""
        first, *parts, last = pattern.split("/")
        top = self.root.directory(first)
        directories = [] if top is None else [top]
        for part in parts:
            inner: list[Directory] = []
            for directory in directories:
                for name in self._names(directory, part):
                    below = self.enter(directory, name)
                    if below is not None:
                        inner.append(below)
            directories = inner
        for directory in directories:
            for name in self._names(directory, last):
                yield directory, name

    def _names(self, directory: Directory, pattern: str) -> list[str]:
        if "*" not in pattern:
            return [pattern]
        return fnmatch.filter(self.root.names(directory), pattern)

    def enter(self, directory: Directory, name: str) -> Directory | None:
        """Return the directory ``name`` in ``directory``; a link to it is recorded, relative."""
        target = self.root.canonical(directory, name)
        if target is not None and target != f"{directory}/{name}":
            self.entries[f"{directory}/{name}"] = os.path.relpath(target, directory)
        return target

    def copy(
        self, pattern: str, change: Callable[[str], str] | None = None, limit: int = 16 << 20
    ) -> None:
        """Record the files of a pattern as they are, or what ``change`` makes of their text."""
        for directory, name in list(self.find(pattern)):
            data = self.root.read(directory, name, limit)
            if data is None:
                continue
            if change is not None:
                data = change(data.decode("utf-8", "replace")).encode()
            self.entries[f"{directory}/{name}"] = data

    def note(self, pattern: str) -> None:
        """Record that files and directories of a pattern are there."""
        for directory, name in list(self.find(pattern)):
            if self.root.has(directory, name):
                self.entries.setdefault(self.enter(directory, name) or f"{directory}/{name}", None)

    def write(self, file: tarfile.TarFile) -> None:
        """Add everything to ``file`` in the order of the paths, without times and owners."""
        for path, entry in sorted(self.entries.items()):
            member = tarfile.TarInfo(path)
            content = b""
            if isinstance(entry, str):
                member.type, member.linkname = tarfile.SYMTYPE, entry
            elif entry is None:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
            else:
                content = entry
                member.size = len(content)
            file.addfile(member, io.BytesIO(content))


def record(path: str, sysroot: str = "/") -> int:
    """Write the host at ``sysroot`` to ``path`` (tar, compressed by xz); return its size in bytes.

    The file appears whole or not at all.

    :raises atomic_write.OutputError: something else than a file is there, or the directory is
        missing.
    :raises FactsError: it is there already, it cannot be written, or the host not read.
    """
    atomic_write.check(path)
    if os.path.lexists(path):
        raise FactsError(f"{path}: exists already; choose another name or remove it")
    tree = collect(reader.open_root(sysroot))
    try:
        with atomic_write.writing(path) as raw:
            with tarfile.open(fileobj=raw, mode="w:xz") as file:
                tree.write(file)
            return raw.tell()
    except OSError as error:
        raise FactsError(f"{path}: cannot be written: {error.strerror or error}") from None


def collect(root: Root) -> Tree:
    """Return everything that is kept of the host at ``root``."""
    tree = Tree(root)
    facts = reader.read_root(root)
    _add_tables(tree)
    for directory, action in list(tree.find("proc/irq/[0-9]*/*")):
        if action not in devices.FILES:
            tree.entries[f"{directory}/{action}"] = None
    if root.live:  # the kernel has had this file since Linux 6.1
        tree.entries.setdefault("proc/sys/kernel/arch", f"{os.uname().machine}\n".encode())
    if _needs_counts(facts):
        tree.copy("proc/interrupts", limit=_COUNTS_LIMIT)
    _add_texts(tree)
    _add_irqbalance(tree)
    _add_writers(tree)
    _add_tasks(tree, facts)
    if facts.namespaces is not None:
        tree.entries["/".join(reader.NAMESPACES)] = f"{facts.namespaces}\n".encode()
    for name in [nic.name for nic in facts.nics if nic.kind in ("physical", "vf")]:
        link = ethtool.read(root, name)
        if link is not None:
            tree.entries[f"{ethtool.DIRECTORY}/{name}.json"] = ethtool.as_json(link)
    switch = vswitch_database.read(root)
    if switch is not None:
        tree.entries |= vswitch_database.recorded(switch)
    return tree


def _add_tables(tree: Tree) -> None:
    """Add the files and names that every record has."""
    for directory, names in _TABLES["files"].items():
        for name in names.split():
            tree.copy(f"{directory}/{name}")
    for key in reader.SYSCTLS:
        tree.copy(f"proc/sys/{key.replace('.', '/')}")
    for directory, names in _TABLES["names"].items():
        for name in names.split():
            tree.note(f"{directory}/{name}")


def _needs_counts(facts: host_model.HostFacts) -> bool:
    """Whether only counts say which CPU serves an interrupt of a device, or which of few devices fire."""
    if facts.irqs and device_interrupts.wants_counts(facts):
        return True
    for irq in facts.irqs.values():
        if irq.name and not irq.effective and not (irq.affinity or "unknown").isdecimal():
            return True
    return False


def _add_tasks(tree: Tree, facts: host_model.HostFacts) -> None:
    """Add processes and threads of guests, programs, NAPIs and the kernel."""
    tasks: list[str] = []
    for nic in facts.nics:
        for known in nic.napis:
            if known.thread:
                tasks.append(f"proc/{known.thread.tid}")
    for kernel_thread in facts.kernel_threads or ():
        tasks.append(f"proc/{kernel_thread.tid}")
    for guest in facts.guests:
        tree.copy(f"run/libvirt/qemu/{guest.name}.pid")
        tree.copy(f"proc/{guest.pid}/stat", _stat)
        tree.copy(f"proc/{guest.pid}/cgroup", _lines("0::"))
        for thread in guest.threads:
            if thread.kernel:
                tasks.append(f"proc/{thread.tid}")
            else:
                tasks.append(f"proc/{guest.pid}/task/{thread.tid}")
    for task in tasks:
        tree.copy(f"{task}/stat", _stat)
        tree.copy(f"{task}/status", _STATUS)
    for pid in {thread.pid for thread in facts.programs}:
        tree.copy(f"proc/{pid}/stat", _stat)
        tree.copy(f"proc/{pid}/task/*/status", _PROGRAM_STATUS)
    napis = napi.as_text(facts.nics)
    if napis:
        tree.entries[f"{napi.DIRECTORY}/{napi.FILE}"] = napis.encode()


def _add_texts(tree: Tree) -> None:
    """Add what a recorded host keeps some words or lines of."""
    tree.copy("proc/cpuinfo", lambda text: _lines(_CPUINFO)(text.partition("\n\n")[0]), 64 << 20)
    tree.copy("proc/cmdline", host.recorded_cmdline)
    for directory in guests.XML_DIRECTORIES:
        tree.copy(f"{directory}/*.xml", redacted, parsing.MAX_BYTES)
    for path in (*itertools.chain.from_iterable(novaconf.PLACES), *novaconf.NEUTRON_FILES):
        tree.copy(path, novaconf.recorded)
    tree.copy("etc/tuned/active_profile")
    for profile in services.PARTITIONING:
        tree.copy(f"etc/tuned/{profile}-variables.conf", _lines("isolated_cores no_balance_cores"))
    for path in (services.SYSTEM, f"etc/systemd/system/{MACHINE}"):
        for name in (path, f"{path}.d/*"):
            tree.copy(name, _lines("CPUAffinity AllowedCPUs CPUSetPartition"))
    for path in whose.SWITCH_FILES:
        tree.copy(path, whose.recorded_setting)
    users = whose.switch_users(tree.root)
    for path in whose.USER_FILES:
        tree.copy(path, lambda text: whose.recorded_passwd(text, users))
    tree.copy("sys/class/net/*/uevent", _lines("INTERFACE= IFINDEX= DEVTYPE="))
    for directory, name in list(tree.find("proc/[0-9]*/comm")):
        program = tree.root.text(directory, name)
        if program in host.PROGRAMS and whose.is_roots(
            tree.root, int(directory.rpartition("/")[2])
        ):
            tree.entries[f"{directory}/{name}"] = f"{program}\n".encode()
        elif directory == "proc/1":  # the first says that programs were looked for
            tree.entries[f"{directory}/{name}"] = b"init\n"


def _add_irqbalance(tree: Tree) -> None:
    """Add the unit of irqbalance, and the files that it takes variables from."""
    for path in irqbalance_unit.unit_files(tree.root):
        tree.copy(path, irqbalance_unit.recorded_unit)
    variables = [file.path for file in irqbalance_unit.read(tree.root).files]
    for path in (*irqbalance_unit.USUAL_FILES, *variables):
        tree.copy(path, irqbalance_unit.recorded_file)


def _add_writers(tree: Tree) -> None:
    """Add what says that other software places interrupts."""
    for directory in writers.LINK_DIRECTORIES:
        tree.copy(f"{directory}/*.link", _lines(f"[ {' '.join(writers.LINK_KEYS)}"))
    tree.copy(writers.TUNED_ACTIVE, _profiles)
    for directory in writers.TUNED_DIRECTORIES:
        tree.copy(f"{directory}/*/tuned.conf", _lines(writers.TUNED_LINES))


def _profiles(text: str) -> str:
    """Return the names of TuneD's profiles that are in force."""
    return f"{' '.join(text.split())}\n"


def _lines(starts: str) -> Callable[[str], str]:
    """Return what keeps the printable lines that begin with one of the words ``starts``."""
    words = tuple(starts.split())

    def kept(text: str) -> str:
        lines: list[str] = []
        for line in text.splitlines():
            line = line.strip()
            if line.startswith(words) and line.replace("\t", " ").isprintable():
                lines.append(f"{line}\n")
        return "".join(lines)

    return kept


_STATUS: Final = _lines("Name: Tgid: Pid: PPid: Cpus_allowed_list:")
#: Whether a program may own CPUs depends on its user.
_PROGRAM_STATUS: Final = _lines("Name: Tgid: Pid: PPid: Uid: Cpus_allowed_list:")


def _stat(text: str) -> str:
    """Return ``stat`` of a thread up to its start time; what follows shows where things are in
    memory.
    """
    name, end, rest = text.rpartition(") ")
    return f"{name}{end}{' '.join(rest.split()[:20])} 0\n"


def redacted(xml: str) -> str:
    """Return domain XML with what the planner and the rules read of it; empty for what is no
    domain.
    """
    try:
        root = parsing.parse_xml(xml)
    except parsing.DomainError:
        return ""
    if root.tag not in ("domain", "domstatus"):
        return ""
    _redact(root)
    return str(etree.tostring(root, encoding="unicode"))


def _redact(element: etree._Element) -> None:
    for name in set(element.attrib) - set(_DOMAIN.get(element.tag, "state").split()):
        del element.attrib[name]
    if element.tag not in _WITH_TEXT:
        element.text = None
    element.tail = None
    for child in list(element):
        private = child.tag in _ASKING and not child.get("name", "").startswith(_SPECS)
        if (child.tag in _DOMAIN and not private) or element.tag == "hyperv":
            _redact(child)
        else:
            element.remove(child)
