# SPDX-License-Identifier: Apache-2.0
"""What nova.conf and Neutron's files say of a host, parsed by oslo.config's own parser.

nova-compute must refuse a faulty file, and so does :func:`read` for the planner; the audit
(:func:`merge`) tells about the host all the same. Other sources (``config_source``) and ``$other``
are never followed.
"""

import fnmatch
import importlib.resources
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from oslo_config import iniparser

from nova_perf_tuning import bounded_read, cpulist, errors, printing
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model import messages
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.model.owners import CpuSets

#: A commented sample of all of Nova's options has half a megabyte.
MAX_BYTES: Final = 4 << 20
#: Where deployments keep nova-compute's files on the host, each in the order of reading.
#: Containers come first, since packages that were removed leave their files. The first two are of
#: RHOSO (role edpm_nova of edpm-ansible, now and in earlier releases), the third is of
#: kolla-ansible (role nova-cell), the fourth of TripleO (Red Hat OpenStack Platform to 17.1).
#: Packages and OpenStack-Ansible have the last, where oslo.config looks by itself.
PLACES: Final = (
    ("var/lib/openstack/nova/*nova*.conf",),
    ("var/lib/openstack/config/nova/*nova*.conf",),
    ("etc/kolla/nova-compute/nova.conf",),
    ("var/lib/config-data/puppet-generated/nova_libvirt/etc/nova/nova.conf",),
    (
        "etc/nova/nova.conf",
        "etc/nova/nova-compute.conf",
        "etc/nova/nova.conf.d/*.conf",
        "etc/nova/nova-compute.conf.d/*.conf",
    ),
)
#: The most files that one pattern may match: a recorded host is a stranger's.
_MOST_FILES: Final = 100
NEUTRON_FILES: Final = (
    "var/lib/config-data/puppet-generated/neutron/etc/neutron/plugins/ml2/sriov_agent.ini",
    "var/lib/config-data/puppet-generated/neutron/etc/neutron/plugins/ml2/openvswitch_agent.ini",
    "var/lib/config-data/puppet-generated/neutron/etc/neutron/plugins/ml2/ml2_conf.ini",
    "etc/neutron/plugins/ml2/linuxbridge_agent.ini",
    "etc/neutron/plugins/ml2/sriov_agent.ini",
    "etc/neutron/plugins/ml2/openvswitch_agent.ini",
    "etc/neutron/plugins/ml2/ml2_conf.ini",
)
#: ``[neutron_physnet_NAME] numa_nodes``.
PHYSNET: Final = "neutron_physnet_"
#: Sections and options that a recorded host keeps; nova.conf holds passwords, so nothing else may
#: be in it.
_RECORDED: Final = {
    "DEFAULT": "vcpu_pin_set reserved_host_cpus",
    "compute": "cpu_dedicated_set cpu_shared_set",
    "libvirt": "virt_type cpu_power_management cpu_power_management_strategy "
    "live_migration_parallel_connections",
    "securitygroup": "firewall_driver",
    "linux_bridge": "physical_interface_mappings",
    "sriov_nic": "physical_device_mappings",
    "ovs": "bridge_mappings",
    "neutron_tunnel": "numa_nodes",
}
#: Options with CPU sets; until Nova 33 ``vcpu_pin_set`` is what all guests may use.
DEDICATED: Final = ("compute", "cpu_dedicated_set")
SHARED: Final = ("compute", "cpu_shared_set")
PIN_SET: Final = ("DEFAULT", "vcpu_pin_set")
_SETS: Final = (DEDICATED, SHARED, PIN_SET)
#: Section -> the options that Nova reads in it, of those sections whose options are known.
READ_BY_NOVA: Final[Mapping[str, frozenset[str]]] = {
    section: frozenset(names.split())
    for section, names in tomllib.loads(
        importlib.resources.files(__package__)
        .joinpath("nova_options.toml")
        .read_text(encoding="utf-8")
    ).items()
}
#: How options begin that decide how fast guests are and how many fit on the host.
_OF_SPEED: Final = (
    *("cpu_", "ram_allocation_ratio", "reserved_", "virt_type", "file_backed_memory"),
    *("rx_queue_size", "tx_queue_size", "max_queues", "disk_cachemodes", "live_migration_"),
)
#: Sections whose options are all known; [DEFAULT] has those of libraries, too.
_KNOWN_WHOLE: Final = ("compute", "libvirt")
#: Options that a recorded host keeps wherever they are: what the host has for itself.
_OF_THE_HOST: Final = (
    "reserved_host_memory_mb",
    "reserved_huge_pages",
    "cpu_allocation_ratio",
    "ram_allocation_ratio",
)
#: Words that no comma separates: no value of an option above. To oslo.config an indented line
#: belongs to the option before it, so the second word may be another option with its password.
_SEVERAL_WORDS: Final = re.compile(r"[^,\s]\s+[^,\s]").search


class NovaConfigError(errors.PerfTuningError):
    """A nova.conf cannot be read or an option in it cannot be used: names the file and the option."""


class Value(NamedTuple):
    """Where an option is from, ``/etc/nova/nova.conf [compute] cpu_shared_set``, and its text."""

    source: str
    text: str


Options = Mapping[tuple[str, str], Value]


class _Parser(iniparser.BaseParser):
    def __init__(self) -> None:
        self.section = "DEFAULT"
        self.options: dict[tuple[str, str], str] = {}

    def assignment(self, key: str, value: list[str]) -> None:
        self.options[self.section, key] = " ".join(part for part in value if part)

    def new_section(self, section: str) -> None:
        self.section = section
        if section != "DEFAULT" and section.lower() in _RECORDED:
            self.section = section.lower()  # as oslo.config, which finds [Compute] as well


def parse(text: str, source: str | None = None) -> dict[tuple[str, str], str]:
    """Return (section, option) -> value of an INI file; of a repeated option the last one.

    :param source: name of the file, for the error about a line that is none; without it such a
        line is left out.
    :raises NovaConfigError: there is such a line and ``source`` is given.
    """
    parser, lines = _Parser(), iter(text.splitlines())
    while True:
        try:
            parser.parse(lines)
            return parser.options
        except iniparser.ParseError as error:  # the next call goes on with the next line
            if source is None:
                continue
            why = error.msg
            if error.line.startswith("\ufeff"):
                why = "the file begins with a byte order mark, which nova-compute refuses"
            raise NovaConfigError(f"nova.conf {source}:{error.lineno}: {why}") from None


def merge(files: Iterable[tuple[str, str]], strict: bool = False) -> dict[tuple[str, str], Value]:
    """Return the options of (path, text) pairs; a later file wins.

    :param strict: refuse a line that is none, as :func:`parse` does.
    """
    options: dict[tuple[str, str], Value] = {}
    for path, text in files:
        for (section, key), value in parse(text, path if strict else None).items():
            # What is left out, or cut off a list, would name other CPUs; the longest has half of
            # this.
            options[section, key] = Value(
                f"{path} [{section}] {key}", printing.printable(value, "\t")[: 1 << 17]
            )
    return options


def parse_cpu_spec(text: str, source: str) -> str:
    """Return Nova's form of a CPU set, such as ``4-12,^8,15``, as a cpulist.

    :param source: the option, for the error.
    :raises NovaConfigError: it cannot be read, or nothing is left of it.
    """
    try:
        cpus = cpulist.parse_spec(text)
    except cpulist.CpuListError as error:
        raise NovaConfigError(f"{source}: {error}") from None
    if not cpus:
        raise NovaConfigError(
            f"{source}: '{text.strip()[:80]}' names no CPU; write it as in 4-12,^8"
        )
    return cpulist.format(cpus)


def cpu_set(options: Options, option: tuple[str, str]) -> frozenset[int] | None:
    """Return a CPU set; None when it is not set, is empty or cannot be read."""
    value = options.get(option)
    if value is None:
        return None
    try:
        return _nova_cpus(value.text) or None
    except cpulist.CpuListError:
        return None


def _nova_cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a set as nova/virt/hardware.py, parse_cpu_spec, reads it: without strides.

    :raises CpuListError: Nova refuses it.
    """
    if ":" in text:
        raise cpulist.CpuListError(
            f"'{text.strip()[:80]}' has a stride, which Nova does not read; write it as in 0-3,8"
        )
    return cpulist.parse_spec(text)


def misplaced(options: Options) -> list[tuple[Value, tuple[str, str]]]:
    """Return the CPU sets in sections where Nova does not look, each with the option that it reads."""
    wrong: list[tuple[Value, tuple[str, str]]] = []
    for (section, key), value in options.items():
        for option in _SETS:
            if key == option[1] and section != option[0] and option not in options:
                wrong.append((value, option))
    return wrong


def decides_speed(key: str) -> bool:
    """Whether an option of Nova decides how fast guests are or how many fit on the host."""
    return key.startswith(_OF_SPEED)


def elsewhere(options: Options) -> list[tuple[Value, str, str]]:
    """Return the options in sections where Nova does not look, each with its name and the section that it reads.

    CPU sets are :func:`misplaced`; an option that is in its own section, too, is passed over. In
    sections whose options are not known here, only those that decide speed are looked for.
    """
    wrong: list[tuple[Value, str, str]] = []
    sets = {key for _section, key in _SETS}
    for (section, key), value in options.items():
        if key in sets or key in READ_BY_NOVA.get(section, ()):
            continue
        if section not in READ_BY_NOVA and not decides_speed(key):
            continue
        for place, names in READ_BY_NOVA.items():
            if key in names and (place, key) not in options:
                wrong.append((value, key, place))
    return wrong


def unknown(options: Options) -> list[tuple[Value, str, str]]:
    """Return the options that Nova has in no section, each with its name and its section."""
    every = frozenset[str]().union(*READ_BY_NOVA.values())
    strange: list[tuple[Value, str, str]] = []
    for (section, key), value in options.items():
        if section in _KNOWN_WHOLE and key not in every:
            strange.append((value, key, section))
    return strange


def find(root: Root, *, strict: bool = False) -> list[str]:
    """Return nova-compute's files below ``root``, without leading slash: of the first of
    :data:`PLACES` with any.

    Noted are other places that have some too, and directories that may not be listed.

    :raises NovaConfigError: with ``strict``, instead of the latter note.
    """
    files: list[str] = []
    passed_over: list[str] = []
    for place in PLACES:
        here: list[str] = []
        for path in place:
            here += _matching(root, path)
        if files and here:
            passed_over.append(here[0])
        elif here:
            files = here
    for path in passed_over:
        root.notes.add(NoteCode.NOVA_CONF_PASSED_OVER, path, taken=f"/{files[0]}")
    if strict:
        _refuse_hidden(root)
    return files


def found(root: Root, *, strict: bool = False) -> list[tuple[str, str]]:
    """Return (path, text) of what :func:`find` finds; what cannot be read is empty, and noted.

    Links in a recorded host are followed inside of it only.

    :raises NovaConfigError: with ``strict``, a file or directory is there and cannot be read.
    """
    files = []
    for path in find(root, strict=strict):
        directory, _, name = path.rpartition("/")
        place = root.directory(directory)
        data = root.read(place, name, MAX_BYTES)
        if data is None and strict and root.has(place, name):
            _refuse_hidden(root)
            raise NovaConfigError(
                f"nova.conf /{path}: it cannot be read: it is too large, no plain file or a broken link"
            )
        files.append((f"/{path}", (data or b"").decode("utf-8", "replace")))
    return files


def _refuse_hidden(root: Root) -> None:
    """Refuse a root some of whose files this user may not read."""
    for note in root.notes.all():
        if note.code is NoteCode.NO_PERMISSION:
            raise NovaConfigError(
                f"nova.conf: {messages.of(note)}; SupplementaryGroups= of a unit gives it a group"
            )


def _matching(root: Root, path: str) -> list[str]:
    directory, _, pattern = path.rpartition("/")
    names = fnmatch.filter(root.names(root.directory(directory)), pattern)
    printable = sorted(name for name in names if name.isprintable())
    if len(printable) > _MOST_FILES:
        left = len(printable) - _MOST_FILES
        root.notes.add(NoteCode.FILES_LEFT_OUT, f"/{directory}", most=_MOST_FILES, left=left)
    return [f"{directory}/{name}" for name in printable[:_MOST_FILES]]


def texts(paths: Sequence[str]) -> list[tuple[str, str]]:
    """Return (path, text) of files.

    :raises NovaConfigError: one is missing or no text.
    """
    pairs = []
    for path in paths:
        try:
            pairs.append((path, bounded_read.read_text(path, MAX_BYTES)))
        except OSError as error:
            raise NovaConfigError(f"nova.conf {path}: {error.strerror}") from None
    return pairs


def read(paths: Sequence[str]) -> CpuSets:
    """Return the CPU sets and the power management of ``paths``, read in order: a later file wins.

    :raises NovaConfigError: a file is missing, no text, malformed, or has a wrong value.
    """
    return cpu_sets(texts(paths))


def cpu_sets(files: Iterable[tuple[str, str]]) -> CpuSets:
    """Do as :func:`read`, for (path, text) pairs."""
    files = list(files)
    options = merge(files, strict=True)
    if ("DEFAULT", "config_source") in options:
        raise NovaConfigError(
            f"nova.conf {options['DEFAULT', 'config_source'].source}: other sources are not read; "
            "write the CPU sets into a file of their own"
        )
    managed = _checked(options, "cpu_power_management")
    strategy = _checked(options, "cpu_power_management_strategy", "cpu_state", "governor")
    dedicated, shared = _cpus(options, DEDICATED), _cpus(options, SHARED)
    named = {"dedicated": DEDICATED, "shared": SHARED}
    legacy = False
    if not dedicated:  # with both Nova refuses to start
        dedicated = _cpus(options, PIN_SET)
        legacy = dedicated is not None
    if legacy:
        named["dedicated"] = PIN_SET
    sources: dict[str, str] = {}
    for name, option in named.items():
        if option in options:
            sources[name] = options[option].source
    return CpuSets(
        dedicated=dedicated,
        shared=shared,
        power_managed=bool(managed) and strategy != "governor",
        legacy=legacy,
        sources=sources,
        files=tuple(path for path, _text in files),
    )


def _value(options: Options, option: tuple[str, str]) -> Value:
    """Return an option, empty where it is not set.

    :raises NovaConfigError: it refers to another option.
    """
    source, text = options.get(option, Value("", ""))
    if text.startswith("$"):
        raise NovaConfigError(f"nova.conf {source}: {text[:80]} is not followed; write its value")
    return Value(f"nova.conf {source}", text.strip())


def _cpus(options: Options, option: tuple[str, str]) -> str | None:
    """Return a CPU set as a cpulist, None where it is not set; raises NovaConfigError where it is
    none.
    """
    source, text = _value(options, option)
    if not text:
        return None
    try:
        _nova_cpus(text)
    except cpulist.CpuListError as error:
        raise NovaConfigError(f"{source}: {error}") from None
    return parse_cpu_spec(text, source)


def _checked(options: Options, key: str, *choices: str) -> object:
    """Return an option of ``[libvirt]``, None where it is not set: one of the choices, or a
    Boolean where there are none.

    :raises NovaConfigError: it is of another type.
    """
    source, text = _value(options, ("libvirt", key))
    if not text:
        return None
    from oslo_config import types  # takes long to load; few hosts have such an option

    kind = types.String(choices=choices) if choices else types.Boolean()
    try:
        return kind(text)
    except ValueError as error:
        raise NovaConfigError(f"{source}: {error}") from None


def recorded(text: str) -> str:
    """Return what a recorded host may keep of an INI file."""
    lines: list[str] = []
    last = None
    for (section, key), value in sorted(parse(text).items()):
        known = _RECORDED.get(section, "")
        if section.startswith(PHYSNET):
            known = "numa_nodes"
        if key in _OF_THE_HOST or key in [name for _section, name in _SETS]:
            known = key  # also where Nova does not look for it
        # What follows a "#" is a comment to its writer, though not to oslo.config.
        kept, sign, _comment = value.partition("#")
        if key not in known.split() or not value.isprintable() or _SEVERAL_WORDS(kept):
            continue
        if section != last:
            lines.append(f"[{section}]\n")
            last = section
        lines.append(f"{key} = {kept}{sign}\n")
    return "".join(lines)
