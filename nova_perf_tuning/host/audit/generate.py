# SPDX-License-Identifier: Apache-2.0
"""Configuration that fits a host, with comments, for review: nothing here is written anywhere."""

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.host import model, novaconf
from nova_perf_tuning.host.audit import configuration
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.printing import counted

#: One core of a node's housekeeping serves so much of its NICs' speed; a proposal to start from, then measure.
MBPS_PER_CORE = 25000


def split(host: Host) -> tuple[frozenset[int], frozenset[int], list[str]]:
    """Return the sets of nova.conf, else a proposal: of each node the first cores for the host, the rest not.

    The host gets one core of each node (as TripleO derives it), and one more for each :data:`MBPS_PER_CORE` of its
    NICs beyond the first; never more than half of a node. Whole cores: their threads are not torn apart. Sets of
    nova.conf that the audit finds fault with are proposed anew.

    :return: CPUs of the host, CPUs of guests, and a reason for each node, for comments.
    """
    faults = _faults(host)
    if host.dedicated is not None and not faults:
        shared = host.shared or host.sets.housekeeping
        return shared, host.dedicated, ["the sets of nova.conf as they are"]
    nodes: dict[int | None, list[model.Cpu]] = {}
    for cpu in host.facts.cpus:
        if cpu.online:
            nodes.setdefault(cpu.node, []).append(cpu)
    keep: set[int] = set()
    reasons = [f"not as in nova.conf: {fault}" for fault in faults]
    for node, cpus in sorted(nodes.items(), key=lambda item: -1 if item[0] is None else item[0]):
        cores = sorted({cpulist.parse(cpu.siblings) & host.sets.online for cpu in cpus}, key=min)
        speed = sum(nic.speed_mbps or 0 for nic in host.links if nic.node == node or node is None)
        wanted = max(1, -(-speed // MBPS_PER_CORE))
        taken = min(wanted, max(1, len(cores) // 2))
        for core in cores[:taken]:
            keep |= core
        where = f"node {node}" if node is not None else "all CPUs" if len(nodes) == 1 else "CPUs of no node"
        known = (
            f"{speed} Mbit/s of NICs there, a core for each {MBPS_PER_CORE}" if speed else "no NIC of known speed"
        )
        reasons.append(f"{where}: {counted(taken, 'core')} of {len(cores)} for the host ({known})")
    return frozenset(keep), host.sets.online - keep, reasons


def _faults(host: Host) -> list[str]:
    try:
        return [finding.why for finding in configuration.CpuSets().check(host)]
    except rules.NotApplicableError:
        return []


def nova_conf(host: Host) -> str:
    """Return the parts of nova.conf that must fit the host."""
    housekeeping, dedicated, reasons = split(host)
    lines = [
        "# CPU sets. Pinned guests need both; restart nova-compute, and move guests away first.",
        "[compute]",
        *(f"# {reason}" for reason in reasons),
        "# Floating guests, emulator threads (hw:emulator_threads_policy=share), vhost and interrupts:",
        f"cpu_shared_set = {cpulist.format(housekeeping)}",
        "# CPUs that guests own (hw:cpu_policy=dedicated, mixed):"
        if dedicated
        else "# No CPU is left to dedicate.",
    ]
    if dedicated:
        lines.append(f"cpu_dedicated_set = {cpulist.format(dedicated)}")
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
    """Return arguments for the kernel's command line; they are printed, never written."""
    housekeeping, dedicated, reasons = split(host)
    lines = ["# For GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub and a reboot."]
    if not dedicated:
        return "\n".join([*lines, "# No CPU is left to isolate: nothing to add."]) + "\n"
    owned = cpulist.format(dedicated)
    lines += [
        *(f"# {reason}" for reason in reasons),
        "# Isolated CPUs are for pinned guests alone: a floating guest there piles up on one of them.",
        f"isolcpus=managed_irq,domain,{owned} irqaffinity={cpulist.format(housekeeping)}",
        "# For guests that need latency more than throughput, besides (costs every entry into the kernel):",
        f"#   nohz_full={owned} rcu_nocbs={owned}",
    ]
    return "\n".join(lines) + "\n"
