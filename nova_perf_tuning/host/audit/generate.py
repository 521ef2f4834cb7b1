# SPDX-License-Identifier: Apache-2.0
"""Configuration that fits a host, with comments, for review: nothing here is written anywhere."""

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host import novaconf
from nova_perf_tuning.host.audit import configuration
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.facts.root import FactsError
from nova_perf_tuning.host.owners import Owner
from nova_perf_tuning.host.plan import layout
from nova_perf_tuning.printing import counted

#: One core of a node's housekeeping serves so much of its NICs' speed; a proposal to start from, then measure.
MBPS_PER_CORE = 25000
_AS_THEY_ARE = "the sets of nova.conf as they are"


def split(host: Host) -> tuple[frozenset[int], frozenset[int], list[str]]:
    """Return the sets of nova.conf, else what the kernel isolates, else a proposal.

    Left out of them is what the audit finds fault with, and the CPUs on which programs poll.

    :return: CPUs of the host and floating guests, CPUs of pinned guests, and the reasons, for comments.
    :raises FactsError: no CPU of the host is known.
    """
    online = host.sets.online
    if not online:
        raise FactsError("no CPU of this host is known: there is nothing to generate from")
    reasons = [f"not as in nova.conf: {fault}" for fault in _faults(host)]
    dedicated, shared = host.dedicated or frozenset(), host.shared or frozenset()
    if reasons:  # no torn core, no CPU that is not there, not CPU 0
        dedicated = _whole(host, dedicated - shared - _core_0(host))
        shared = _whole(host, shared)
    foreign = configuration.others(host)
    taken = frozenset[int]().union(*(claim.cpus for claim in foreign))
    reasons += [f"{claim.name} owns {cpulist.named(claim.cpus)}: in neither set" for claim in foreign]
    dedicated, shared = dedicated - taken, shared - dedicated - taken
    isolated = (host.sets.owners.cpus(Owner.ISOLATED) & online) - taken
    if host.pin_set is not None:
        reasons.append("not as in nova.conf: vcpu_pin_set is deprecated; floating guests need a cpu_shared_set")
    if dedicated and not online <= dedicated:
        if not shared:
            reasons.append(
                "not as in nova.conf: cpu_shared_set is what is left, for emulator threads and the like"
            )
        return shared or online - dedicated - isolated - taken, dedicated, reasons or [_AS_THEY_ARE]
    if shared and not host.dedicated:
        return shared, frozenset(), reasons or [_AS_THEY_ARE]
    if whole := _whole(host, isolated - _core_0(host)):
        cut = "" if whole == isolated else ", but for torn cores and the core of CPU 0"
        start = f"nova.conf has no CPU sets to start from: pinned guests get what the kernel isolates now{cut}"
        return online - whole - taken, whole, [*reasons, start]
    keep, why = _proposal(host, taken)
    return keep, online - keep - taken, reasons + why


def _core_0(host: Host) -> frozenset[int]:
    return cpulist.parse(next((cpu.siblings for cpu in host.facts.cpus if cpu.id == 0), ""))


def _whole(host: Host, cpus: frozenset[int]) -> frozenset[int]:
    """Return those of ``cpus`` whose cores are wholly among them."""
    cores = {cpu.id: cpulist.parse(cpu.siblings) & host.sets.online for cpu in host.facts.cpus if cpu.online}
    return frozenset(cpu for cpu in cpus & cores.keys() if cores[cpu] <= cpus)


def _proposal(host: Host, taken: frozenset[int]) -> tuple[frozenset[int], list[str]]:
    """Return CPUs for the host, and why: of each node the first cores that no guest owns.

    The host gets one core of each node (as TripleO derives it), and one more for each :data:`MBPS_PER_CORE` of its
    NICs beyond the first; never more than half of a node. Whole cores: their threads are not torn apart. It also
    gets weaker kinds of cores, and nodes without memory, where Nova puts no guest's cell.
    """
    nodes = grouped((cpu.node, cpu) for cpu in host.facts.cpus if cpu.online and cpu.id not in taken)
    memory = {node.id: node.memory_kib for node in host.facts.nodes}
    owned = host.sets.owners.cpus(Owner.GUEST)
    weak = _whole(host, layout.weak_cpus(host.facts) - taken - owned)
    keep, reasons = set(weak), []
    if weak:
        keep |= _core_0(host) - owned  # timers, and interrupts without an affinity
        why = "weaker cores, for the host: a guest on both kinds has unequal vCPUs"
        reasons.append(f"{cpulist.named(weak)}: {why}")
    for node, cpus in sorted(nodes.items(), key=lambda item: -1 if item[0] is None else item[0]):
        where = f"node {node}" if node is not None else "all CPUs" if len(nodes) == 1 else "CPUs of no node"
        if node is not None and memory.get(node) == 0 and any(memory.values()):
            keep |= {cpu.id for cpu in cpus}
            reasons.append(f"{where}: it has no memory, and Nova puts no guest's NUMA cell there")
            continue
        cores = sorted(
            {cpulist.parse(cpu.siblings) & host.sets.online for cpu in cpus},
            key=lambda core: (bool(core & owned), not core <= weak, min(core)),
        )
        speed = sum(nic.speed_mbps or 0 for nic in host.links if nic.node == node or node is None)
        wanted = max(1, -(-speed // MBPS_PER_CORE))
        number = min(wanted, max(1, len(cores) // 2))
        keep = keep.union(*cores[:number])
        known = (
            f"{speed} Mbit/s of NICs there, a core for each {MBPS_PER_CORE}" if speed else "no NIC of known speed"
        )
        reasons.append(f"{where}: {counted(number, 'core')} of {len(cores)} for the host ({known})")
    return frozenset(keep) - taken, reasons


def _faults(host: Host) -> list[str]:
    try:
        return [finding.why for finding in configuration.CpuSets().check(host)]
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
        *(f"# {reason}" for reason in reasons),
        "# Floating guests, emulator threads (hw:emulator_threads_policy=share), vhost and interrupts:",
        f"cpu_shared_set = {cpulist.format(shared)}" if shared else "# No CPU is left to share.",
        "# CPUs that guests own (hw:cpu_policy=dedicated, mixed):",
        f"cpu_dedicated_set = {cpulist.format(dedicated)}" if dedicated else "# No CPU is dedicated.",
    ]
    return "\n".join([*lines, *_physnets(host)]) + "\n"


def _physnets(host: Host) -> list[str]:
    lines: list[str] = []
    for name, target in sorted(configuration.mappings(host).items()):
        near = {nic.node for nic in host.carriers(target) if nic.node is not None}
        if near:
            lines += ["", f"[{novaconf.PHYSNET}{name}]", f"# {target} is there."]
            lines += [f"numa_nodes = {cpulist.format(near)}"]
    placed = [nic for nic in host.links if nic.node is not None]
    if not lines and placed:
        lines += ["", "# No physical network is known (--physnet NAME=NIC). NICs of this host:"]
        lines += [f"#   {nic.name}: node {nic.node}" for nic in placed]
        lines += [f"# [{novaconf.PHYSNET}NAME]", "# numa_nodes = NODE"]
    return lines


def grub_args(host: Host) -> str:
    """Return arguments for the kernel's command line; they are printed, never written.

    What is isolated now stays so, but for shared CPUs; what a partition isolates at run time must not be named.

    :raises FactsError: no CPU of the host is known.
    """
    shared, dedicated, reasons = split(host)
    lines = ["# For GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and a reboot."]
    boot = cpulist.parse(host.facts.isolated) & host.sets.online
    partitions = host.sets.owners.cpus(Owner.ISOLATED) - boot
    isolated = (
        (dedicated | host.sets.owners.polled | (boot - shared)) - partitions - {0}
    )  # which has timers of all
    if partitions:
        lines.append(f"# {cpulist.named(partitions)}: isolated by a partition, which isolcpus= would break.")
    if not isolated:
        return "\n".join([*lines, "# No CPU is left to isolate: nothing to add."]) + "\n"
    lines += [f"# {reason}" for reason in reasons]
    for cpus, why in (
        (isolated - dedicated - host.sets.owners.polled, "isolated now and given to nobody"),
        (boot - isolated, "isolated now, and shared"),
    ):
        lines += [f"# not as in nova.conf: {cpulist.named(cpus)}, {why}"] if cpus else []
    owned, rest = cpulist.format(isolated), host.sets.online - isolated - partitions
    lines += [
        "# Isolated CPUs are for pinned guests and PMD threads: what floats there piles up on one of them.",
        f"isolcpus=managed_irq,domain,{owned} irqaffinity={cpulist.format(rest)}",
        "# For guests that need latency more than throughput, besides (costs every entry into the kernel):",
        f"#   nohz_full={owned} rcu_nocbs={owned}",
    ]
    return "\n".join(lines) + "\n"
