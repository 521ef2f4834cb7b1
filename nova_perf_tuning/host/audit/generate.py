# SPDX-License-Identifier: Apache-2.0
"""Configuration that fits a host, with comments, for review: nothing here is written anywhere."""

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.host.audit import configuration, physnets
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts.root import FactsError
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.owners import Owner
from nova_perf_tuning.host.plan import layout
from nova_perf_tuning.printing import counted

#: One core of a node's housekeeping serves so much of its NICs' speed; a proposal to start from,
#: then measure.
MBPS_PER_CORE = 25000
_AS_THEY_ARE = "the sets of nova.conf as they are"


def split(host: Host) -> tuple[frozenset[int], frozenset[int], list[str]]:
    """Return the sets of nova.conf, else what the kernel isolates, else a proposal.

    Left out of them is what the audit finds fault with, and the CPUs on which programs poll. CPUs
    of nova.conf that are offline now stay: Nova parks them, or SMT comes back.

    :return: CPUs of the host and floating guests, CPUs of pinned guests, and the reasons, for
        comments.
    :raises FactsError: no CPU of the host is known.
    """
    online = host.sets.online
    if not online:
        raise FactsError("no CPU of this host is known: there is nothing to generate from")
    faults = _faults(host)
    configured = host.dedicated or frozenset(), host.shared or frozenset()
    dedicated, shared = configured
    if faults:  # no torn core, no CPU that is not there or without memory, not CPU 0
        bare = layout.without_memory(host.facts)
        never = shared | _core_0(host) | bare
        dedicated = _mended(host, dedicated - never, never)
        shared = _mended(host, shared, dedicated)
    how = "not as in nova.conf"
    if (dedicated, shared) == configured:
        how = "as in nova.conf, where it is to be decided"
    reasons = [f"{how}: {fault}" for fault in faults]
    taken: frozenset[int] = frozenset()
    for claim in configuration.others(host):
        taken |= claim.cpus
        reasons.append(f"{claim.name} owns {cpulist.named(claim.cpus)}: in neither set")
    dedicated, shared = dedicated - taken, shared - dedicated - taken
    isolated = (host.sets.owners.cpus(Owner.ISOLATED) & online) - taken
    if host.pin_set is not None:
        reasons.append(
            "not as in nova.conf: vcpu_pin_set is deprecated; floating guests need a cpu_shared_set"
        )
    if dedicated and not online <= dedicated:
        if not shared:
            shared = online - dedicated - isolated - taken
            reasons.append(
                "not as in nova.conf: cpu_shared_set gets the remaining CPUs, for emulator threads and the like"
            )
        return shared, dedicated, reasons or [_AS_THEY_ARE]
    if shared and not host.dedicated:
        return shared, frozenset(), reasons or [_AS_THEY_ARE]
    kept, who = isolated, "the kernel isolates now"
    if not kept and host.sets.excluded:
        kept = host.sets.excluded | (host.sets.owners.cpus(Owner.GUEST) & online)
        who = f"{host.facts.services_from} keeps free of services"
    whole = _whole(host, kept - _core_0(host))
    if whole:
        start = f"nova.conf has no CPU sets to start from: pinned guests get what {who}"
        if whole != kept:
            start += ", except torn cores and the core of CPU 0"
        reasons.append(start)
        return online - whole - taken, whole, reasons
    keep, why = _proposal(host, taken)
    reasons += _unknown_threads(host)
    return keep, online - keep - taken, reasons + why


def _unknown_threads(host: Host) -> list[str]:
    """Return that cores may be torn, where nothing says which CPUs are threads of one core."""
    if host.knows_threads:
        return []
    return [
        "hardware threads are unknown, and each CPU is taken as a core: before you use these sets, "
        "check with 'lscpu -e' that no core has CPUs in both"
    ]


def _core_0(host: Host) -> frozenset[int]:
    """Return the threads of CPU 0's core, empty where there is no CPU 0."""
    for cpu in host.facts.cpus:
        if cpu.id == 0:
            return cpulist.parse(cpu.siblings)
    return frozenset()


def _whole(host: Host, cpus: frozenset[int]) -> frozenset[int]:
    """Return those of ``cpus`` whose cores are wholly among them.

    The core of an offline CPU is not known: it is kept.
    """
    whole: set[int] = set()
    for cpu in host.facts.cpus:
        if cpu.id in cpus and cpulist.parse(cpu.siblings) <= cpus:
            whole.add(cpu.id)
    return frozenset(whole)


def _mended(host: Host, cpus: frozenset[int], others: frozenset[int]) -> frozenset[int]:
    """Return a set of nova.conf without torn cores.

    Where all of its cores are torn, they are completed by threads that are not among ``others``:
    such a set names one thread of each core.
    """
    whole = _whole(host, cpus)
    if whole or not cpus:
        return whole
    grown = set(cpus)
    for cpu in host.facts.cpus:
        if cpu.id in cpus:
            grown |= cpulist.parse(cpu.siblings)
    return _whole(host, frozenset(grown) - others)


def _proposal(host: Host, taken: frozenset[int]) -> tuple[frozenset[int], list[str]]:
    """Return CPUs for the host, and why: of each node the first cores that no guest owns.

    The host gets one core of each node (as TripleO derives it), and one more for each
    :data:`MBPS_PER_CORE` of its NICs beyond the first; never more than half of a node. On a node
    with several L3 groups it gets a core of each, for the threads that serve the guests there, as
    long as that is an eighth of the node at most. Whole cores: their threads are not torn apart.
    It also gets weaker kinds of cores, and nodes without memory, where Nova puts no guest's cell.
    """
    nodes: dict[int | None, list[host_model.Cpu]] = {}
    for cpu in host.facts.cpus:
        if cpu.online and cpu.id not in taken:
            nodes.setdefault(cpu.node, []).append(cpu)
    bare = layout.without_memory(host.facts)
    owned = host.sets.owners.cpus(Owner.GUEST)
    weak = _whole(host, layout.weak_cpus(host.facts) - taken - owned)
    keep = set(weak)
    reasons: list[str] = []
    if weak:
        keep |= _core_0(host) - owned  # timers, and interrupts without an affinity
        why = "weaker cores, for the host: a guest on both kinds has unequal vCPUs"
        reasons.append(f"{cpulist.named(weak)}: {why}")
    for node in sorted(nodes, key=_node_order):
        if node is not None:
            where = f"node {node}"
        elif len(nodes) == 1:
            where = "all CPUs"
        else:
            where = "CPUs of no node"
        if bare.issuperset(cpu.id for cpu in nodes[node]):
            keep.update(cpu.id for cpu in nodes[node])
            reasons.append(f"{where}: it has no memory, and Nova puts no guest's NUMA cell there")
            continue
        cores = _cores(host, nodes[node], owned, weak)
        speed = sum(nic.speed_mbps or 0 for nic in host.links if nic.node == node or node is None)
        groups = _l3_groups(host, cores)
        by_groups = min(len(groups), len(cores) // 8)
        wanted = max(1, -(-speed // MBPS_PER_CORE), by_groups)
        number = min(wanted, max(1, len(cores) // 2))
        for core in cores[:number]:
            keep |= core
        known = "no NIC of known speed"
        if speed:
            known = f"{speed} Mbit/s of NICs there, a core for each {MBPS_PER_CORE}"
        if groups:
            of = len(_l3_groups(host, cores[:number]))
            known += f"; {of} of {len(groups)} L3 groups keep one for the threads of their guests"
        reasons.append(
            f"{where}: {counted(number, 'core')} of {len(cores)} for the host ({known})"
        )
    return frozenset(keep) - taken, reasons


def _node_order(node: int | None) -> int:
    """Return the place of a node among others: CPUs whose node is unknown come first."""
    return -1 if node is None else node


def _cores(
    host: Host, cpus: Iterable[host_model.Cpu], owned: frozenset[int], weak: frozenset[int]
) -> list[frozenset[int]]:
    """Return the cores of a node in the order in which the host gets them.

    Cores that no guest owns come first, among them the weak ones, which the host has anyway. Among
    equals the L3 groups take turns.
    """
    cores = {cpulist.parse(cpu.siblings) & host.sets.online for cpu in cpus}
    seen: collections.Counter[tuple[bool, bool, str | None]] = collections.Counter()
    keys: dict[frozenset[int], tuple[bool, bool, int, int]] = {}
    for core in sorted(cores, key=min):
        is_owned, is_strong = bool(core & owned), not core <= weak
        alike = is_owned, is_strong, host.sets.l3_of.get(min(core))
        keys[core] = is_owned, is_strong, seen[alike], min(core)
        seen[alike] += 1
    return sorted(cores, key=keys.__getitem__)


def _l3_groups(host: Host, cores: Iterable[frozenset[int]]) -> set[str]:
    """Return the L3 groups of cores, of a node that has several."""
    groups: set[str] = set()
    for core in cores:
        group = host.sets.l3_of.get(min(core))
        if group is not None:
            groups.add(group)
    return groups


def _faults(host: Host) -> list[str]:
    try:
        return [finding.why for finding in configuration.NovaCpuSets().faults(host)]
    except rules.NotApplicableError:
        return []


def nova_conf(host: Host) -> str:
    """Return the parts of nova.conf that must fit the host.

    :raises FactsError: no CPU of the host is known.
    """
    shared, dedicated, reasons = split(host)
    lines = [
        "# CPU sets. Pinned guests need both; restart nova-compute, and move guests away first.",
        "[compute]",
    ]
    lines += _comments(reasons)
    lines.append(
        "# Floating guests, emulator threads (hw:emulator_threads_policy=share), vhost and interrupts:"
    )
    if shared:
        lines.append(f"cpu_shared_set = {cpulist.format(shared)}")
    else:
        lines.append("# No CPU is left to share.")
    lines.append("# CPUs that guests own (hw:cpu_policy=dedicated, mixed):")
    if dedicated:
        lines.append(f"cpu_dedicated_set = {cpulist.format(dedicated)}")
    else:
        lines.append("# No CPU is dedicated.")
    lines += _comments(_offline(host, shared, dedicated))
    lines += _physnets(host)
    return "\n".join(lines) + "\n"


def _offline(host: Host, shared: frozenset[int], dedicated: frozenset[int]) -> Iterator[str]:
    """Yield which CPUs of the sets are offline: they stay in them, since they may come back."""
    sets = dataclasses.replace(
        host.cpu_sets, shared=cpulist.format(shared), dedicated=cpulist.format(dedicated)
    )
    offline = frozenset[int]().union(*layout.offline_in_sets(host.facts, sets).values())
    if offline:
        yield f"{cpulist.named(offline)} are offline: Nova rejects the sets until they are online."


def _comments(texts: Iterable[str]) -> list[str]:
    return [f"# {text}" for text in texts]


def _isolated_at_boot(host: Host) -> frozenset[int]:
    """Return the CPUs that ``isolcpus=`` isolates, online or not.

    Newer kernels list the CPUs of isolated partitions beside them in sysfs: the command line tells
    them apart, where it is known.
    """
    isolated = cpulist.parse(host.facts.isolated) & host.present
    if "isolcpus" not in host.boot:
        return isolated
    named = host.cpus_of_parameter(host.boot["isolcpus"])
    if named is None:
        return isolated
    return isolated & named


def _physnets(host: Host) -> list[str]:
    lines: list[str] = []
    for name, target in sorted(physnets.mappings(host).items()):
        near = {nic.node for nic in host.carriers(target) if nic.node is not None}
        if near:
            lines += ["", f"[{novaconf.PHYSNET}{name}]", f"# {target} is there."]
            lines.append(f"numa_nodes = {cpulist.format(near)}")
    placed = [nic for nic in host.links if nic.node is not None]
    if not lines and placed:
        lines += ["", "# No physical network is known (--physnet NAME=NIC). NICs of this host:"]
        for nic in placed:
            lines.append(f"#   {nic.name}: node {nic.node}")
        lines += [f"# [{novaconf.PHYSNET}NAME]", "# numa_nodes = NODE"]
    return lines


def _not_as_running(host: Host, proposed: Mapping[str, frozenset[int]]) -> Iterator[str]:
    """Yield the parameters of the command line that have other CPUs than are proposed."""
    for key, cpus in proposed.items():
        value = host.boot.get(key)
        if value is None:
            continue
        running = host.cpus_of_parameter(value)
        if running is None:
            yield f"not as running: {key}={value} is not a list of CPUs"
        elif running != cpus:
            yield f"not as running: {key}={value}"


def grub_args(host: Host) -> str:
    """Return arguments for the kernel's command line; they are printed, never written.

    What is isolated now stays so, but for shared CPUs; what a partition isolates at run time must
    not be named.

    :raises FactsError: no CPU of the host is known.
    """
    shared, dedicated, reasons = split(host)
    lines = ["# For GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and a reboot."]
    boot = _isolated_at_boot(host)
    partitions = host.sets.owners.cpus(Owner.ISOLATED) - boot
    polled = host.sets.owners.polled
    wanted = dedicated | polled | (boot - shared)
    isolated = wanted - partitions - {0}  # CPU 0 has timers of all
    if partitions:
        lines.append(
            f"# {cpulist.named(partitions)}: isolated by a partition, which isolcpus= would break."
        )
    if not isolated:
        lines.append("# No CPU is left to isolate: nothing to add.")
        return "\n".join(lines) + "\n"
    lines += _comments(reasons)
    for cpus, why in (
        (isolated - dedicated - polled, "isolated now and not assigned"),
        (boot - isolated, "isolated now, and shared"),
    ):
        if cpus:
            lines.append(f"# not as in nova.conf: {cpulist.named(cpus)}, {why}")
    owned = cpulist.format(isolated)
    # A set of the operator's stays whole; of all others those that run now take interrupts.
    interrupts = (host.sets.online | shared) - isolated - partitions
    rest = cpulist.format(interrupts)
    lines += _comments(
        _not_as_running(
            host, {"isolcpus": isolated, "irqaffinity": interrupts, "nohz_full": isolated}
        )
    )
    lines += [
        "# Isolated CPUs are for pinned guests and PMD threads: floating threads pile up on one "
        "of them.",
        f"isolcpus=managed_irq,domain,{owned} irqaffinity={rest}",
        "# For guests that need latency more than throughput, besides (costs every entry into the kernel):",
        f"#   nohz_full={owned} rcu_nocbs={owned}",
    ]
    return "\n".join(lines) + "\n"
