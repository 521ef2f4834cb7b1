"""Whose CPUs are whose: the host's own work against guests', and the kernel's command line against both."""

from __future__ import annotations

from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import Rule
from nova_perf_tuning.host.audit.host import Host, cpus_of_parameter
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, known, need

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
        if host.dedicated is not None and (host.isolated or (affinity and not affinity & dedicated)):
            return
        evidence = [(_ISOLATED, host.facts.isolated or "none")]
        level, remedy = Level.INFO, f"CPUAffinity={cpulist.format(host.online - dedicated)} in "
        remedy += "/etc/systemd/system.conf and a reboot, or isolcpus= (generate grub-args)"
        if host.dedicated is None:
            evidence.append(host.owned)
            level, remedy = self.level, ""
        if affinity is None:
            evidence.append(("/etc/systemd/system.conf", "no CPUAffinity"))
        nodes = max(len(host.nodes_of(host.online)), 1)
        yield self.finding(
            evidence,
            f"guests own CPUs {cpulist.format(dedicated)}, and everything else on this host may run there as well "
            f"as on the other {counted(len(host.online - dedicated), 'CPU')} ({counted(nodes, 'node')})",
            remedy,
            level=level,
        )


def _systemd_affinity(host: Host) -> frozenset[int] | None:
    """Return ``CPUAffinity`` of systemd's manager, None when it is not set to a list."""
    found = host.boot.get("systemd.cpu_affinity")
    if found is not None:
        return cpus_of_parameter(found)
    names = host.names("etc/systemd/system.conf.d")
    for path in ["etc/systemd/system.conf", *(f"etc/systemd/system.conf.d/{name}" for name in names)]:
        for line in (host.content(path) or "").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "CPUAffinity" and value.strip():
                found = ",".join(value.split())
    return None if found is None else cpus_of_parameter(found)


class HousekeepingNodeMissing(Rule):
    """Each node with a NIC has a housekeeping CPU."""

    id = "housekeeping-node-missing"
    why = "Interrupts and vhost workers of that NIC work from another node, over the interconnect."
    remedy = "leave at least one core of that node out of cpu_dedicated_set and isolcpus"
    source = "ESnet fasterdata: up to twice as slow from the remote socket"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_nodes()
        need(any(nic.node is not None for nic in host.links), "no NIC whose node is known")
        housekeeping = host.sets.housekeeping
        for nic in host.links:
            if housekeeping and nic.node is not None and nic.node not in host.nodes_of(housekeeping):
                yield self.finding(
                    [host.node_file(nic), host.owned, (_ISOLATED, host.facts.isolated or "none")],
                    f"{nic.name} is on node {nic.node}, all of whose CPUs are dedicated or isolated; CPUs "
                    f"{cpulist.format(housekeeping)} are left to the host",
                    subject=nic.name,
                )


class SharedIsolated(Rule):
    """cpu_shared_set has no isolated CPU."""

    id = "shared-set-isolated"
    level = Level.ERROR
    why = "The scheduler balances nothing on isolated CPUs: floating vCPUs and emulators pile up on the first."
    remedy = "take these CPUs out of isolcpus=, or out of cpu_shared_set"
    source = "kernel documentation of isolcpus; seapath/ansible #865"

    def check(self, host: Host) -> Iterator[Finding]:
        shared = known(host.shared, "no [compute] cpu_shared_set")
        both = shared & cpulist.parse(host.facts.isolated)
        if both:
            yield self.finding(
                [(_ISOLATED, host.facts.isolated), host.option("compute", "cpu_shared_set")],
                f"CPUs {cpulist.format(both)} are shared and isolated: every thread put there stays on CPU "
                f"{min(both)}",
            )


class IsolatedUnused(Rule):
    """Isolated CPUs are those that Nova dedicates."""

    id = "isolated-not-dedicated"
    why = "Isolated CPUs that are not dedicated run nothing; dedicated ones not isolated do the host's work."
    remedy = "make isolcpus= and cpu_dedicated_set the same (nova-perf generate grub-args)"
    source = _SEAPATH

    def check(self, host: Host) -> Iterator[Finding]:
        lacking = "no isolated CPUs, or no [compute] cpu_dedicated_set"
        dedicated = known(host.dedicated, lacking)
        need(host.isolated, lacking)
        idle = (host.isolated & host.online) - dedicated - (host.shared or frozenset())
        disturbed = (dedicated & host.online) - host.isolated
        evidence = [(_ISOLATED, cpulist.format(host.isolated)), host.option("compute", "cpu_dedicated_set")]
        if idle:
            yield self.finding(
                evidence,
                f"CPUs {cpulist.format(idle)} are isolated and given to nobody: they are lost to this host",
            )
        if disturbed:
            yield self.finding(
                evidence,
                f"of the dedicated CPUs {cpulist.format(disturbed)} are not isolated: their guests are disturbed",
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
                f"CPUs {cpulist.format(beyond)} are without a tick, but several threads share them: {self.why}",
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
        wrong = cpus_of_parameter(value) & (cpus_of_parameter(isolcpus) | host.isolated | host.sets.dedicated)
        if wrong:
            also = "; isolcpus=managed_irq asks for the contrary" if "managed_irq" in isolcpus.split(",") else ""
            given = [name for name in ("irqaffinity", "isolcpus") if name in host.boot]
            yield self.finding(
                [(_CMDLINE, f"{name}={host.boot[name]}") for name in given],
                f"new interrupts may start on CPUs {cpulist.format(wrong)}, which are dedicated or isolated{also}",
            )
