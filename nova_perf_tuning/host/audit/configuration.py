# SPDX-License-Identifier: Apache-2.0
"""Whose CPUs are whose: nova.conf and the kernel's command line against the host and each other."""

from collections.abc import Iterable, Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model, novaconf
from nova_perf_tuning.host.audit.base import Rule
from nova_perf_tuning.host.audit.host import Host, cpus_of_parameter
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, known, named, need

_MAPPINGS = {
    "ovs": "bridge_mappings",
    "linux_bridge": "physical_interface_mappings",
    "sriov_nic": "physical_device_mappings",
}


def mappings(host: Host) -> dict[str, str]:
    """Return physical network -> NIC or bridge, by Neutron's agents and --physnet."""
    networks: dict[str, str] = {}
    for option in _MAPPINGS.items():
        value = host.nova.get(option)
        for part in (value.text if value else "").split(","):
            name, _, target = part.strip().partition(":")
            if target:
                networks[name] = target
    return {**networks, **host.options.physnets}


def _nodes(nics: Iterable[model.Nic]) -> frozenset[int]:
    return frozenset(nic.node for nic in nics if nic.node is not None)


class PhysnetNodes(Rule):
    """[neutron_physnet_*] numa_nodes in nova.conf are the nodes of the NICs."""

    id = "nova-physnet-numa-nodes"
    why = "Nova's scheduler places guests by it: wrong, it sends them to the far node; missing, to any."
    remedy = "[neutron_physnet_NAME] numa_nodes = NODE (nova-perf generate nova-conf)"
    source = "Nova: NUMA-aware vSwitches, up to 50 % between near and far"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_nodes()
        host.need_nova_conf()
        stated = {
            section.removeprefix(novaconf.PHYSNET): value
            for (section, key), value in host.nova.items()
            if key == "numa_nodes" and section.startswith(novaconf.PHYSNET)
        }
        networks = mappings(host)
        for name, value in sorted(stated.items()):
            yield from self._stated(host, name, value, networks)
        for name, target in sorted(networks.items()):
            nics = host.carriers(target)
            near = cpulist.format(_nodes(nics))
            if name not in stated and len(_nodes(nics)) == 1:
                yield self.finding(
                    [(host.nova_path, f"no [{novaconf.PHYSNET}{name}]"), *map(host.node_file, nics[:3])],
                    f"{name} leaves through {target} on node {near}; Nova does not know it",
                    f"[{novaconf.PHYSNET}{name}] numa_nodes = {near}",
                    subject=name,
                    level=Level.INFO,
                )
        need(_nodes(host.links), "the nodes of NICs are unknown", NoDataError)

    def _stated(self, host: Host, name: str, value: novaconf.Value, networks: dict[str, str]) -> Iterator[Finding]:
        evidence: list[tuple[str, str]] = [value]
        nodes = cpulist.find(value.text)
        if nodes is None:
            yield self.finding(evidence, f"'{value.text}' is no list of nodes", subject=name)
            return
        present = frozenset(node.id for node in host.facts.nodes)
        option = f"[{novaconf.PHYSNET}{name}] numa_nodes ="
        if nodes - present:
            yield self.finding(
                [*evidence, ("/sys/devices/system/node", cpulist.format(present))],
                f"node {cpulist.format(nodes - present)} does not exist on this host",
                f"{option} the node of its NIC, one of {cpulist.format(present)} (nova-perf generate nova-conf "
                f"--physnet {name}=NIC)",
                subject=name,
                level=Level.ERROR,
            )
            return
        through = networks.get(name)
        nics = host.carriers(through or "")
        if through is None:
            nics = [nic for nic in host.links if nic.node is not None]
        near = _nodes(nics)
        if near and not near & nodes:
            what = f"{name} leaves through {through}" if through else "no NIC of this host is there: they are"
            yield self.finding(
                [*evidence, *map(host.node_file, nics[:3])],
                f"nova.conf says node {value.text}; {what} on node {cpulist.format(near)}",
                f"{option} {cpulist.format(near)}",
                subject=name,
            )


class CpuSets(Rule):
    """cpu_dedicated_set and cpu_shared_set name CPUs of this host, apart, and leave it some."""

    id = "nova-cpu-sets"
    level = Level.ERROR
    why = "nova-compute refuses to start, or offers CPUs that are not there or that the host needs for itself."
    remedy = "nova-perf generate nova-conf  # prints sets that fit"
    source = "Nova's documentation of CPU topologies; TripleO: a core of each node for the host"

    def check(self, host: Host) -> Iterator[Finding]:
        dedicated, shared = host.dedicated or frozenset(), host.shared or frozenset()
        need(dedicated or shared, "no CPU sets in nova.conf")
        present = frozenset(cpu.id for cpu in host.facts.cpus)
        for key, cpus in (("cpu_dedicated_set", dedicated), ("cpu_shared_set", shared)):
            if cpus - present:
                missing, there = cpulist.named(cpus - present), cpulist.named(present)
                yield self._about(host, f"it names {missing}; this host has only {there}", key)
        if dedicated & shared:
            yield self._about(host, f"both sets name {cpulist.named(dedicated & shared)}")
        if dedicated and host.sets.online <= dedicated:
            yield self._about(host, "every online CPU is dedicated: interrupts, vhost and the host have none")
            return
        if 0 in dedicated:
            why = "CPU 0 is dedicated: timers and interrupts without an affinity go there, and it stays online"
            yield self._about(host, why, level=Level.WARNING)
        for key, cpus in (("cpu_dedicated_set", dedicated), ("cpu_shared_set", shared)):
            cores = {cpu.siblings: cpulist.parse(cpu.siblings) & host.sets.online for cpu in host.facts.cpus}
            split = [text for text, core in cores.items() if core & cpus and core - cpus]
            if split:
                why = f"{key} has one thread of {counted(len(split), 'core')} and not the other ({named(split)}): "
                why += "whatever runs beside takes half of the core"
                yield self._about(host, why, key, level=Level.WARNING)

    def _about(self, host: Host, why: str, key: str = "cpu_dedicated_set", level: Level | None = None) -> Finding:
        return self.finding([host.nova["compute", key]], why, subject=key, level=level)


class PowerOverlap(Rule):
    """CPUs that Nova powers down are needed by nobody else."""

    id = "nova-power-management-overlap"
    why = "Interrupts on a CPU that goes offline are moved by the kernel wherever it likes, and do not come back."
    remedy = "keep NIC interrupts off them (nova-perf apply), or cpu_power_management_strategy = governor"
    source = "Nova's documentation of cpu_power_management"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.powers_cpus, "no CPU power management in nova.conf")
        managed = host.nova["libvirt", "cpu_power_management"]
        strategy = host.nova.get(("libvirt", "cpu_power_management_strategy"))
        if strategy is not None and strategy.text == "governor":
            return
        cpus = host.dedicated
        if cpus is None:
            why = "power management without cpu_dedicated_set has nothing to manage"
            yield self.finding([managed], why, "set [compute] cpu_dedicated_set, or remove cpu_power_management")
            return
        busy = {
            nic.name
            for nic in host.links
            for irq in host.interrupts(nic)
            if (used := cpulist.parse(irq.effective or irq.affinity or "")) and used <= cpus
        }
        if busy:
            why = f"interrupts of {named(sorted(busy))} are on {cpulist.named(cpus)}, which Nova powers down"
            yield self.finding([managed], why)
        if 0 in cpus:
            yield self.finding(
                [managed, (host.nova["compute", "cpu_dedicated_set"][0], cpulist.format(cpus))],
                "CPU 0 is never powered down: Nova warns of it at each start and passes it over",
                "take CPU 0 out of cpu_dedicated_set",
                level=Level.INFO,
            )
        need(any(map(host.interrupts, host.links)), "no NIC with interrupts of its own")


class LegacyPinSet(Rule):
    """nova.conf has cpu_dedicated_set and cpu_shared_set instead of vcpu_pin_set."""

    id = "nova-vcpu-pin-set"
    why = "Pinned and floating guests share its CPUs; it overrides cpu_shared_set, and is to be removed from Nova."
    remedy = "replace it by [compute] cpu_dedicated_set and cpu_shared_set (nova-perf generate nova-conf)"
    source = "nova/conf/compute.py: deprecated since 20.0.0"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_nova_conf()
        if ("DEFAULT", "vcpu_pin_set") not in host.nova:
            return
        evidence = [host.nova["DEFAULT", "vcpu_pin_set"]]
        if host.dedicated is None:
            yield self.finding(evidence)
        else:
            yield self.finding(
                [*evidence, host.nova["compute", "cpu_dedicated_set"]],
                "vcpu_pin_set and cpu_dedicated_set exclude each other: nova-compute refuses to start",
                "remove vcpu_pin_set",
                level=Level.ERROR,
            )


class SharedSetMissing(Rule):
    """A host with cpu_dedicated_set has a cpu_shared_set."""

    id = "nova-shared-set-missing"
    why = "hw:emulator_threads_policy=share then has no effect: emulator threads stay on the guests' own CPUs."
    remedy = "[compute] cpu_shared_set = the housekeeping CPUs of each node (nova-perf generate nova-conf)"
    source = "Red Hat: NovaComputeCpuSharedSet to the host's cores and hw:emulator_threads_policy=share"

    def check(self, host: Host) -> Iterator[Finding]:
        known(host.dedicated, "no [compute] cpu_dedicated_set")
        if host.shared is None:
            source, text = host.nova["compute", "cpu_dedicated_set"]
            yield self.finding([(source, f"{text}; no cpu_shared_set")])


_ISOLATED = "/sys/devices/system/cpu/isolated"
_CMDLINE = "/proc/cmdline"
_SEAPATH = "seapath/ansible #865, TuneD realtime-virtual-host, kernel documentation of these parameters"


class HousekeepingUnset(Rule):
    """The host's own work is confined to housekeeping CPUs."""

    id = "housekeeping-unset"
    why = "Daemons and kernel threads preempt vCPUs that have paid for a CPU of their own."
    remedy = (
        "set [compute] cpu_dedicated_set and cpu_shared_set (nova-perf generate nova-conf), and keep the host off "
        "the dedicated CPUs: CPUAffinity= in /etc/systemd/system.conf, or isolcpus= (generate grub-args)"
    )
    source = "Nova's documentation of CPU topologies; Oracle's step for dom0, on KVM"

    def check(self, host: Host) -> Iterator[Finding]:
        dedicated = host.sets.dedicated
        need(dedicated, "no guest has CPUs of its own here")
        affinity = _systemd_affinity(host)
        if host.dedicated is not None and (host.sets.isolated or (affinity and not affinity & dedicated)):
            return
        evidence = [(_ISOLATED, host.facts.isolated or "none")]
        remedy = f"CPUAffinity={cpulist.format(host.sets.online - dedicated)} in "
        remedy += "/etc/systemd/system.conf and a reboot, or isolcpus= (generate grub-args)"
        if host.dedicated is None:
            evidence.append(host.owned)
        if affinity is None:
            evidence.append(("/etc/systemd/system.conf", "no CPUAffinity"))
        nodes = max(len(host.nodes_of(host.sets.online)), 1)
        yield self.finding(
            evidence,
            f"guests own {cpulist.named(dedicated)}, and everything else on this host may run there as well "
            f"as on the other {counted(len(host.sets.online - dedicated), 'CPU')} ({counted(nodes, 'node')})",
            "" if host.dedicated is None else remedy,
            level=None if host.dedicated is None else Level.INFO,
        )


def _systemd_affinity(host: Host) -> frozenset[int] | None:
    """Return ``CPUAffinity`` of systemd's manager, None when it is not set to a list."""
    affinity = host.boot.get("systemd.cpu_affinity")
    if affinity is not None:
        return cpus_of_parameter(affinity)
    names = host.names("etc/systemd/system.conf.d")
    for path in ["etc/systemd/system.conf", *(f"etc/systemd/system.conf.d/{name}" for name in names)]:
        for line in (host.content(path) or "").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "CPUAffinity" and value.strip():
                affinity = ",".join(value.split())
    return None if affinity is None else cpus_of_parameter(affinity)


class SharedIsolated(Rule):
    """cpu_shared_set has no isolated CPU."""

    id = "shared-set-isolated"
    level = Level.ERROR
    why = "The scheduler balances nothing on isolated CPUs: floating vCPUs and emulators pile up on the first."
    remedy = "take these CPUs out of isolcpus=, or out of cpu_shared_set"
    source = "kernel documentation of isolcpus; seapath/ansible #865"

    def check(self, host: Host) -> Iterator[Finding]:
        shared = known(host.shared, "no [compute] cpu_shared_set")
        need(host.has(_ISOLATED[1:]), f"{_ISOLATED} is not in this record", NoDataError)
        both = shared & cpulist.parse(host.facts.isolated)
        if both:
            yield self.finding(
                [(_ISOLATED, host.facts.isolated), host.nova["compute", "cpu_shared_set"]],
                f"{cpulist.named(both)}: shared and isolated, so every thread put there stays on CPU {min(both)}",
            )


class IsolatedUnused(Rule):
    """Isolated CPUs are those that Nova dedicates."""

    id = "isolated-not-dedicated"
    why = "Isolated CPUs that are not dedicated run nothing; dedicated ones not isolated do the host's work."
    remedy = "make isolcpus= and cpu_dedicated_set the same (nova-perf generate grub-args)"
    source = _SEAPATH

    def check(self, host: Host) -> Iterator[Finding]:
        dedicated = known(host.dedicated, "no [compute] cpu_dedicated_set")
        need(host.sets.isolated, "no isolated CPUs")
        idle = (host.sets.isolated & host.sets.online) - dedicated - (host.shared or frozenset())
        disturbed = (dedicated & host.sets.online) - host.sets.isolated
        evidence = [(_ISOLATED, cpulist.format(host.sets.isolated)), host.nova["compute", "cpu_dedicated_set"]]
        if idle:
            yield self.finding(
                evidence,
                f"{cpulist.named(idle)}: isolated and given to nobody, lost to this host",
            )
        if disturbed:
            yield self.finding(
                evidence,
                f"{cpulist.named(disturbed)}: dedicated and not isolated, so their guests are disturbed",
                level=Level.INFO,
            )


class NohzFull(Rule):
    """nohz_full names dedicated CPUs only."""

    id = "nohz-full-mismatch"
    why = "Without the tick every entry into the kernel costs more; it pays only where one thread has the CPU."
    remedy = "nohz_full= the same CPUs as cpu_dedicated_set (nova-perf generate grub-args)"
    source = _SEAPATH

    def check(self, host: Host) -> Iterator[Finding]:
        full = cpulist.parse(host.facts.nohz_full)
        need(full, "no nohz_full")
        beyond = full - host.sets.dedicated
        if beyond:
            yield self.finding(
                [("/sys/devices/system/cpu/nohz_full", host.facts.nohz_full), host.owned],
                f"{cpulist.named(beyond)}: without a tick, but shared by several threads. {self.why}",
            )


class IrqAffinity(Rule):
    """irqaffinity= is the complement of the dedicated and isolated CPUs."""

    id = "irqaffinity-on-dedicated"
    why = "New interrupts start on guests' CPUs, until somebody moves them."
    remedy = "irqaffinity= the housekeeping CPUs (nova-perf generate grub-args)"
    source = "seapath/ansible #865: irqaffinity collided with isolcpus=managed_irq"

    def check(self, host: Host) -> Iterator[Finding]:
        value = known(host.boot.get("irqaffinity"), "no irqaffinity= on the kernel's command line")
        isolcpus = host.boot.get("isolcpus", "")
        wrong = cpus_of_parameter(value) & (cpus_of_parameter(isolcpus) | host.sets.isolated | host.sets.dedicated)
        if wrong:
            also = "; isolcpus=managed_irq asks for the contrary" if "managed_irq" in isolcpus.split(",") else ""
            given = [name for name in ("irqaffinity", "isolcpus") if name in host.boot]
            yield self.finding(
                [(_CMDLINE, f"{name}={host.boot[name]}") for name in given],
                f"new interrupts may start on {cpulist.named(wrong)}, dedicated or isolated{also}",
            )
