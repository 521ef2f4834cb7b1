# SPDX-License-Identifier: Apache-2.0
"""A host as the rules see it: its facts, and what else they read through the same root, each thing
once.
"""

import dataclasses
import difflib
import functools
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist, errors, rules
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.guest import parsing, shape
from nova_perf_tuning.guest.domain import MAX_PID, Domain, Inventory
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import (
    boot_parameters,
    ethtool,
    guests,
    vswitch_database,
    whose,
)
from nova_perf_tuning.host.input.facts.root import Root, decimal, numbers
from nova_perf_tuning.host.model import host_model, owners
from nova_perf_tuning.host.plan import layout, nics, planner, untouched
from nova_perf_tuning.host.plan.refused import NOTHING, Refused

_TEXT_LIMIT: Final = 4 << 20
_LINK: Final = ("physical", "vf")
_BELOW_VLAN: Final = ("physical", "vf", "bond")
_BELOW_BRIDGE: Final = ("physical", "vf", "bond", "vlan")
_DOWN: Final = ("down", "lowerlayerdown", "notpresent")
#: Programs that matter to a rule, by the name the kernel keeps of them (15 characters).
PROGRAMS: Final = ("irqbalance", "ksmtuned")
#: Parameters that rules read, and a recorded host keeps; a command line may hold addresses, volume
#: names and keys.
_RECORDED: Final = ("isolcpus", "irqaffinity", "nohz_full", "systemd.cpu_affinity")
#: Likeness of a misspelt name (difflib), and by how many letters it may be longer or shorter: the
#: kernel has transparent_hugepage_shmem as well.
_CLOSE: Final = 0.85
_LONGER: Final = 2
_STRATEGY: Final = "cpu_power_management_strategy"


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """What the operator said or measured, beyond what is in files.

    :ivar bandwidth_mbps: of the path that matters; None: the fastest link of the host.
    :ivar rtt_ms: round trip time of that path; None: not known.
    :ivar physnets: Neutron physical network -> NIC, beyond what Neutron's files say.
    :ivar nova: (path, text) of configuration files in place of those that are found; None: not
        even those.
    :ivar given: the options that name files of this host, for the command lines of remedies.
    :ivar kernel_log: (path, text) of ``dmesg`` of the machine that is judged.
    :ivar refused: what the kernel refused to do with interrupts: no rule asks for it.
    """

    bandwidth_mbps: int | None = None
    rtt_ms: float | None = None
    physnets: Mapping[str, str] = dataclasses.field(default_factory=dict)
    nova: Sequence[tuple[str, str]] | None = ()
    given: str = ""
    domains: Sequence[tuple[str, bytes]] = ()
    kernel_log: tuple[str, str] | None = None
    refused: Refused = NOTHING


@dataclasses.dataclass(frozen=True, slots=True)
class Guest:
    """One domain: how it is placed, what it is made of, how it sees its vCPUs, its process where it
    runs, and the file of its XML.
    """

    domain: Domain
    inventory: Inventory
    shape: shape.Shape
    process: host_model.GuestProcess | None
    path: str

    @property
    def name(self) -> str:
        return self.domain.name


class Host:
    """Facts, files and options of one host; whatever is missing or garbage is None or empty."""

    def __init__(
        self, root: Root, facts: host_model.HostFacts, options: Options | None = None
    ) -> None:
        self.root = root
        self.facts = facts
        self.options = options or Options()

    def text(self, path: str) -> str | None:
        """Return a one-line file's text, None when it is not there or no text. ``path`` is below
        the root.
        """
        directory, _, name = path.rpartition("/")
        return self.root.text(self.root.directory(directory), name)

    def number(self, path: str) -> int | None:
        """Return a file's whole number."""
        return decimal(self.text(path))

    def content(self, path: str) -> str | None:
        """Return a file of several lines, with what is no UTF-8 replaced."""
        directory, _, name = path.rpartition("/")
        data = self.root.read(self.root.directory(directory), name, _TEXT_LIMIT)
        return None if data is None else data.decode("utf-8", "replace")

    def names(self, path: str) -> list[str]:
        """Return the printable names in a directory, sorted."""
        return sorted(
            name for name in self.root.names(self.root.directory(path)) if name.isprintable()
        )

    def numbered(self, path: str, prefix: str) -> list[int]:
        """Return N of the directories ``prefixN`` in a directory, ascending."""
        return numbers(self.root.directories(self.root.directory(path)), 0, 65535, prefix)

    def has(self, path: str) -> bool:
        """Whether there is anything at ``path``."""
        directory, _, name = path.rpartition("/")
        return self.root.has(self.root.directory(directory), name)

    def need_nodes(self) -> None:
        """Raise NotApplicableError where the host has one NUMA node, or none that is known."""
        nodes = self.nodes_of(self.sets.online)
        rules.need(nodes, "the kernel gives no NUMA nodes", rules.NoDataError)
        rules.need(len(nodes) > 1, "this host has one NUMA node")

    def need_cpus(self) -> None:
        """Raise NoDataError where nothing says which CPUs the host has."""
        lacking = "the CPUs of this host are not in this record"
        rules.need(self.present, lacking, rules.NoDataError)

    @property
    def knows_threads(self) -> bool:
        """Whether it is known of every CPU which hardware threads its core has."""
        return all(cpu.core_known for cpu in self.facts.cpus if cpu.online)

    def need_known_threads(self) -> None:
        """Raise NoDataError where it is not known which hardware threads cores have."""
        lacking = "which CPUs are hardware threads of one core is not in this record"
        rules.need(self.knows_threads, lacking, rules.NoDataError)

    def need_threads(self) -> None:
        """Raise NotApplicableError where no core has two threads; as NoDataError where that is not known."""
        if not any(cpu.siblings != str(cpu.id) for cpu in self.facts.cpus if cpu.online):
            self.need_known_threads()
            raise rules.NotApplicableError("no core has two threads here")

    def need_isolation(self) -> None:
        """Raise NoDataError where a record does not say which CPUs were isolated at boot."""
        lacking = f"neither {owners.ISOLATED_AT_BOOT} nor /proc/cmdline is in this record"
        rules.need(self.facts.isolated_from, lacking, rules.NoDataError)

    @property
    def is_whole(self) -> bool:
        """Whether what is not there is not on the host either: a live host, or one that was recorded.

        A sosreport, and files that somebody has put together, lack much that a host has. Every
        recorded host says that programs were looked for.
        """
        return self.root.live or (not self.root.is_report and self.has("proc/1/comm"))

    def need_collected(self, path: str) -> None:
        """Raise NoDataError where a record lacks a file or directory that the host may have had."""
        collected = self.has(path) or self.is_whole
        rules.need(collected, f"/{path} is not in this record", rules.NoDataError)

    def need_parameters(self, start: str) -> None:
        """Raise NoDataError where a record has no parameter of the kernel whose name starts so."""
        collected = self.is_whole or any(key.startswith(start) for key in self.facts.sysctls)
        lacking = f"parameters {start}* of the kernel are not in this record"
        rules.need(collected, lacking, rules.NoDataError)

    def need_taken(self, lacking: str = "no dedicated or isolated CPUs") -> frozenset[int]:
        """Return the CPUs that guests and programs own or that are isolated.

        :raises NotApplicableError: there are none; as NoDataError where isolated ones are not known.
        """
        taken = self.sets.reserved | self.sets.quiet
        if not taken:
            self.need_isolation()
        rules.need(taken, lacking)
        return taken

    @property
    def knows_programs(self) -> bool:
        """Whether a recorded host says which programs run."""
        return bool(self.programs) or self.has("proc/1/comm")

    def need_programs(self) -> None:
        """Raise NoDataError where a recorded host says of no program whether it runs."""
        rules.need(
            self.knows_programs, "running programs are not in this record", rules.NoDataError
        )

    def need_nova_conf(self) -> None:
        """Raise NotApplicableError where there is no nova.conf, or nothing in it."""
        rules.need(any(text.strip() for _path, text in self.nova_files), "no nova.conf")

    @functools.cached_property
    def boot(self) -> Mapping[str, str]:
        """The kernel's command line: parameter -> value, of a repeated one the last; empty for a
        flag.
        """
        return boot_parameters.parameters(self.content("proc/cmdline") or "")

    @functools.cached_property
    def programs(self) -> Mapping[str, int]:
        """Those of :data:`PROGRAMS` that root runs: name -> process id, of several the lowest."""
        base = self.root.directory("proc")
        pids = numbers(self.root.directories(base), 1, MAX_PID)
        running: dict[str, int] = {}
        for pid, data in zip(
            pids, self.root.each(base, [f"{pid}/comm" for pid in pids]), strict=True
        ):
            name = (data or b"").strip().decode("ascii", "replace")
            if name in PROGRAMS and name not in running and whose.is_roots(self.root, pid):
                running[name] = pid
        return running

    @functools.cached_property
    def vswitch(self) -> vswitch_database.SwitchConfig | None:
        """What Open vSwitch is configured to do, None where that is not known."""
        return vswitch_database.read(self.root)

    @functools.cached_property
    def present(self) -> frozenset[int]:
        """The CPUs of the host, online or not."""
        return frozenset(cpu.id for cpu in self.facts.cpus)

    def cpus_of_parameter(self, value: str) -> frozenset[int] | None:
        """Return the CPUs of a parameter's text, None for what is no list."""
        return boot_parameters.cpus_of(value, self.present)

    @property
    def runs_guests(self) -> bool:
        """Whether this is a host of guests: it has domains or Nova's configuration."""
        return bool(self.facts.domains or self.facts.guests or self.nova)

    def has_device(self, name: str) -> bool:
        """Whether the kernel has /dev/NAME, or loads its module when a program opens it."""
        return self.has(f"sys/class/misc/{name}") or self.has(f"dev/{name}")

    @functools.cached_property
    def nova_files(self) -> Sequence[tuple[str, str]]:
        """(path, text) of the configuration files of nova-compute that are judged."""
        if self.options.nova is None or self.options.nova:
            return self.options.nova or ()
        return novaconf.found(self.root)

    @functools.cached_property
    def nova(self) -> novaconf.Options:
        """Options of nova.conf and of Neutron's agents."""
        neutron = [(f"/{path}", self.content(path) or "") for path in novaconf.NEUTRON_FILES]
        return novaconf.merge([*neutron, *self.nova_files])

    def option(self, key: str, section: str = "compute") -> str:
        """Return an option's text without blanks around it, empty where it is not set."""
        value = self.nova.get((section, key))
        return value.text.strip() if value else ""

    @property
    def powers_cpus(self) -> bool:
        """Whether Nova switches dedicated CPUs off, or slows them down, while no guest has them."""
        return self.option("cpu_power_management", "libvirt").lower() in ("true", "1", "yes", "on")

    @functools.cached_property
    def dedicated(self) -> frozenset[int] | None:
        """``[compute] cpu_dedicated_set``, else ``vcpu_pin_set``, as the planner has it."""
        return novaconf.cpu_set(self.nova, novaconf.DEDICATED) or self.pin_set

    @functools.cached_property
    def pin_set(self) -> frozenset[int] | None:
        """``[DEFAULT] vcpu_pin_set``."""
        return novaconf.cpu_set(self.nova, novaconf.PIN_SET)

    @property
    def dedicated_option(self) -> tuple[str, str]:
        """The section and name of the option behind :attr:`dedicated`."""
        legacy = (
            novaconf.cpu_set(self.nova, novaconf.DEDICATED) is None and self.pin_set is not None
        )
        return novaconf.PIN_SET if legacy else novaconf.DEDICATED

    @functools.cached_property
    def shared(self) -> frozenset[int] | None:
        """``[compute] cpu_shared_set``."""
        return novaconf.cpu_set(self.nova, novaconf.SHARED)

    @functools.cached_property
    def sets(self) -> layout.CpuLayout:
        """The CPU sets as the planner has them; what contradicts the host is left out."""
        return layout.CpuLayout.of(self.facts, self.cpu_sets)

    @functools.cached_property
    def cpu_sets(self) -> owners.CpuSets:
        """The sets of nova.conf; what contradicts the host is left out."""
        dedicated = (self.dedicated or frozenset()) & self.present
        shared = ((self.shared or frozenset()) & self.present) - dedicated
        sources: dict[str, str] = {}
        for name, option in (("dedicated", self.dedicated_option), ("shared", novaconf.SHARED)):
            if option in self.nova:
                sources[name] = self.nova[option].source
        return owners.CpuSets(
            cpulist.format(dedicated) or None,
            cpulist.format(shared) or None,
            power_managed=self.powers_cpus and self.option(_STRATEGY, "libvirt") != "governor",
            legacy=self.dedicated_option[0] == "DEFAULT",
            sources=sources,
        )

    @functools.cached_property
    def cpus_beside_nova(self) -> frozenset[int]:
        """The CPUs that guests own which Nova has not made, and that Nova gives to nobody."""
        beside: frozenset[int] = frozenset()
        novas = (self.dedicated or frozenset()) | (self.shared or frozenset())
        for domain in self.facts.domains:
            if domain.specs.of_nova:
                novas |= owners.owned_cpus(domain)
            else:
                beside |= owners.owned_cpus(domain)
        return beside - novas

    @property
    def nova_path(self) -> str:
        """The nova.conf that is judged, as evidence for an option that is not in it."""
        return self.nova_paths[0] if self.nova_paths else "/etc/nova/nova.conf"

    @property
    def nova_paths(self) -> list[str]:
        """The files of nova-compute that are judged."""
        return [path for path, _text in self.nova_files]

    @property
    def owned(self) -> tuple[str, str]:
        """The evidence for the dedicated CPUs: the option in nova.conf, else the guests' pins."""
        value = self.nova.get(self.dedicated_option)
        if value is not None:
            return value
        for guest in self.guests:
            if guest.domain.dedicated:
                return guest.path, f"<vcpupin>; all guests: {cpulist.format(self.sets.dedicated)}"
        return self.nova_path, "no [compute] cpu_dedicated_set"

    @functools.cached_property
    def plan(self) -> planner.Plan | None:
        """What the planner wants of this host; None where it refuses to plan."""
        try:
            return planner.plan(self.facts, self.cpu_sets, refused=self.options.refused)
        except errors.PerfTuningError:
            return None

    @functools.cached_property
    def planned(self) -> Mapping[tuple[str, str], host_model.Setting]:
        """What the planner would write for this host, by kind and target; empty where it refuses
        to plan.
        """
        if self.plan is None:
            return {}
        return {(setting.kind, setting.target): setting for setting in self.plan.changes()}

    def planned_for(
        self, kind: str, targets: Iterable[str], rule: str
    ) -> list[host_model.Setting]:
        """Return what the planner would write to ``targets``, as settings of a rule."""
        settings: list[host_model.Setting] = []
        for target in targets:
            setting = self.planned.get((kind, target))
            if setting is not None:
                settings.append(dataclasses.replace(setting, rule=rule))
        return settings

    def has_planned(self, kind: str, targets: Collection[str]) -> bool:
        """Whether all ``targets`` have the values already that the planner wants."""
        if self.plan is None:
            return False
        there: set[str] = set()
        for setting in self.plan.settings:
            if setting.kind == kind and (kind, setting.target) not in self.planned:
                there.add(setting.target)
        return there.issuperset(targets)

    @functools.cached_property
    def left(self) -> frozenset[int]:
        """The interrupts that ``[agent] leave_interrupts`` names: no business of any rule."""
        return untouched.irqs(self.facts, self.options.refused)

    @functools.cached_property
    def left_devices(self) -> frozenset[str]:
        """The network devices whose masks and NAPI threads it names, too."""
        return untouched.devices(self.facts, self.options.refused)

    def is_refused(self, nic: host_model.Nic, irq: host_model.Irq) -> bool:
        """Whether the kernel or the operator refuses to move an interrupt: no setting can help."""
        refused = self.options.refused
        if not refused or ("irq_affinity", f"irq:{irq.number}") in self.planned:
            return False
        if irq.number in self.left:
            return True
        pool = self.sets.interrupts(nic.node)
        return refused.is_managed(irq) or (pool is not None and pool.members <= refused.full)

    @functools.cached_property
    def guests(self) -> tuple[Guest, ...]:
        """Every domain with its devices, running ones first."""
        given = dict(self.options.domains)
        processes = {guest.name: guest for guest in self.facts.guests}
        guests = []
        for domain in self.facts.domains:
            for path, data in self._xml_of(domain.name, given):
                try:
                    inventory = parsing.parse_inventory(data)
                    vcpus = shape.parse_shape(data)
                except parsing.DomainError:
                    continue
                guests.append(Guest(domain, inventory, vcpus, processes.get(domain.name), path))
                break
        return tuple(sorted(guests, key=lambda guest: (guest.process is None, guest.name)))

    def _xml_of(self, name: str, given: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
        if name in given:
            yield f"--domain {name}", given[name]
        for directory in guests.XML_DIRECTORIES:
            data = self.root.read(self.root.directory(directory), f"{name}.xml", parsing.MAX_BYTES)
            if data is not None:
                yield f"/{directory}/{name}.xml", data

    def cpus_of(self, guest: Guest) -> frozenset[int]:
        """Return the online CPUs that a guest's vCPUs may use: by its threads, else its pins, else
        all.
        """
        texts: list[str] = []
        if guest.process is not None:
            for thread in guest.process.threads:
                if thread.kind == "vcpu" and thread.affinity:
                    texts.append(thread.affinity)
        if not texts and len(guest.domain.vcpu_pins) >= guest.domain.vcpus:
            texts.extend(guest.domain.vcpu_pins.values())
        if not texts:
            return self.sets.online
        return cpulist.union(texts) & self.sets.online

    def nodes_of(self, cpus: frozenset[int]) -> frozenset[int]:
        """Return the nodes of ``cpus``, without those that are unknown."""
        nodes: set[int] = set()
        for cpu in cpus:
            node = self.sets.node_of.get(cpu)
            if node is not None:
                nodes.add(node)
        return frozenset(nodes)

    @functools.cached_property
    def cpus_by_node(self) -> Mapping[int | None, frozenset[int]]:
        """Node -> its online CPUs; None: those whose node is not known."""
        by_node = grouped((self.sets.node_of[cpu], cpu) for cpu in self.sets.online)
        return {node: frozenset(cpus) for node, cpus in by_node.items()}

    @property
    def largest_node(self) -> tuple[int, int]:
        """The CPUs and the memory in KiB (0: unknown) of the largest node."""
        cpus = memory = 0
        for node in self.facts.nodes:
            cpus = max(cpus, len(self.sets.online & cpulist.parse(node.cpus)))
            memory = max(memory, node.memory_kib or 0)
        return cpus, memory

    def uplinks(self, guest: Guest) -> tuple[host_model.Nic, ...]:
        """Return the NICs that carry a guest's traffic out of the host.

        A tap's bridge leads to them through bonds, VLANs and, with Neutron's hybrid plugging, veth
        pairs into Open vSwitch. Of kernel Open vSwitch all ports have one master: every NIC there
        may be the one.
        """
        uplinks: dict[str, host_model.Nic] = {}
        for interface in guest.domain.interfaces:
            tap = self.nics.get(interface.device or "")
            if tap is None or tap.bridge is None:
                continue
            way = tap.bridge
            if way.startswith("qbr"):
                way = "ovs-system"
            for nic in self.carriers(way):
                uplinks[nic.name] = nic
        return tuple(uplinks[name] for name in sorted(uplinks))

    def carriers(self, name: str) -> list[host_model.Nic]:
        """Return the physical NICs behind a NIC, VLAN, bond or bridge."""
        nic = self.nics.get(name)
        kind = nic.kind if nic is not None else "bridge"
        if nic is not None and kind in _LINK:
            return [nic]
        if kind == "vlan":
            base = self.nics.get(name.rpartition(".")[0])
            if base is None or base.kind not in _BELOW_VLAN:
                return []
            return self.carriers(base.name)
        members = _LINK if kind == "bond" else _BELOW_BRIDGE
        carriers: list[host_model.Nic] = []
        for port in self.facts.nics:
            if name in (port.bridge, port.bond) and port.kind in members:
                carriers += self.carriers(port.name)
        return carriers

    @functools.cached_property
    def nics(self) -> Mapping[str, host_model.Nic]:
        """All network devices by name."""
        return {nic.name: nic for nic in self.facts.nics}

    @functools.cached_property
    def links(self) -> tuple[host_model.Nic, ...]:
        """NICs of the host itself that are up or whose state is unknown; those given to a guest
        left out.
        """
        passed: set[str] = set()
        for domain in self.facts.domains:
            passed.update(address.lower() for address in domain.hostdevs)
        links: list[host_model.Nic] = []
        for nic in self.facts.nics:
            of_host = nic.kind in _LINK and (nic.pci or "").lower() not in passed
            if of_host and nic.operstate not in _DOWN:
                links.append(nic)
        return tuple(links)

    @staticmethod
    def node_file(nic: host_model.Nic) -> tuple[str, object]:
        """Return the file with a NIC's node, and the node."""
        return f"/sys/class/net/{nic.name}/device/numa_node", nic.node

    @functools.cached_property
    def ethtool(self) -> Mapping[str, ethtool.Link]:
        """Offloads, rings and channels of those of :attr:`links` of which they are known, by name."""
        known: dict[str, ethtool.Link] = {}
        for nic in self.links:
            link = ethtool.read(self.root, nic.name)
            if link is not None:
                known[nic.name] = link
        return known

    def statistic(self, nic: host_model.Nic, name: str) -> int | None:
        """Return one of a device's counters since it was made, None when it is not known."""
        count = self.number(f"sys/class/net/{nic.name}/statistics/{name}")
        return None if count is None else max(count, 0)

    def interrupts(self, nic: host_model.Nic) -> list[host_model.Irq]:
        """Return a NIC's interrupts that have a handler, or all of them where no names are known."""
        return nics.firing(self.facts, nic, ())


def meant(parameter: str) -> str:
    """Return the parameter of the kernel that another one may be a misspelling of, else an empty text."""
    name = parameter.replace("-", "_")
    if name in boot_parameters.PARAMETERS:
        return ""
    close = difflib.get_close_matches(name, boot_parameters.PARAMETERS, 1, _CLOSE)
    if not close or abs(len(close[0]) - len(name)) > _LONGER:
        return ""
    return close[0]


def recorded_cmdline(line: str) -> str:
    """Return the words of a command line that a recorded host keeps."""
    kept: list[str] = []
    for word in boot_parameters.words(line):
        plain = word.isprintable() and not set(word) & set(" \t\"'")
        key = word.partition("=")[0]
        # A list alone is the rest of one that a blank has ended.
        if plain and (
            boot_parameters.as_the_kernel(key) in _RECORDED or meant(key) or cpulist.find(word)
        ):
            kept.append(word)
    return " ".join(kept)
