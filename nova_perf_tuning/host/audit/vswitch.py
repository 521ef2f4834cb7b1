# SPDX-License-Identifier: Apache-2.0
"""Open vSwitch's threads and guests' slice, against the CPUs that guests own."""

import shlex
from collections.abc import Iterable, Iterator, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.configuration import MACHINE, isolation
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts import claims, services
from nova_perf_tuning.host.input.facts.vswitch_database import SwitchConfig
from nova_perf_tuning.host.input.novaconf import SHARED
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.owners import Owner
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, NotApplicableError, need

_PMD_MASK = "pmd-cpu-mask"
_LCORE_MASK = "dpdk-lcore-mask"
_SOCKET_MEMORY = "dpdk-socket-mem"
#: Ports that are shown.
_PORTS = 16
_WORKERS_UNKNOWN = "which threads ovs-vswitchd has, and where they may run, is unknown"


def _lacks_workers(host: Host) -> bool:
    """Whether Open vSwitch runs and this is a sosreport: it has numbers of threads, seldom more."""
    if not host.root.is_report:
        return False
    for number in host.names("proc"):
        if number.isdecimal() and host.text(f"proc/{number}/comm") == claims.OVS:
            return True
    return False


def _threads(host: Host) -> tuple[list[host_model.ProgramThread], list[host_model.ProgramThread]]:
    """Return the PMD threads of Open vSwitch, and its other threads.

    :raises NotApplicableError: none is known.
    """
    need(
        host.facts.programs or host.has("proc/1"),
        "running programs are not in this record",
        NoDataError,
    )
    polling: list[host_model.ProgramThread] = []
    others: list[host_model.ProgramThread] = []
    for thread in host.facts.programs:
        if thread.program == claims.OVS:
            threads = polling if thread.is_bound else others
            threads.append(thread)
    if not polling and not others:
        need(not _lacks_workers(host), _WORKERS_UNKNOWN, NoDataError)
    need(polling or others, "ovs-vswitchd has no handler, revalidator or PMD thread here")
    return polling, others


def _shown(threads: Sequence[host_model.ProgramThread]) -> list[tuple[str, str]]:
    """Return the first of ``threads`` as evidence."""
    return list(dict.fromkeys(thread.evidence for thread in threads))[:3]


def _cpus(threads: Iterable[host_model.ProgramThread]) -> frozenset[int]:
    """Return all CPUs that ``threads`` may use."""
    return cpulist.union(thread.affinity for thread in threads)


class PmdIsolated(HostRule):
    """PMD threads of Open vSwitch run on isolated CPUs."""

    id = "ovs-pmd-not-isolated"
    why = (
        "A PMD thread polls all the time: anything else on its CPU takes half of the time, and packets "
        "are dropped meanwhile."
    )
    remedy = "isolcpus= with the CPUs of pmd-cpu-mask (nova-perf generate grub-args{given}), then a reboot"
    source = (
        "Open vSwitch's documentation of DPDK: isolcpus for pmd-cpu-mask; Red Hat: OvsPmdCoreList"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        polling, _others = _threads(host)
        need(polling, "no PMD threads")
        host.need_isolation()
        isolated = host.sets.owners.cpus(Owner.ISOLATED)
        exposed = [thread for thread in polling if not cpulist.parse(thread.affinity) <= isolated]
        if exposed:
            evidence = _shown(exposed)
            evidence += isolation(host) or [(host.facts.isolated_from, "none")]
            count = counted(len(exposed), "PMD thread")
            yield self.finding(
                evidence,
                f"{count} on {cpulist.named(_cpus(exposed))}, which the scheduler also gives to "
                "other threads",
            )


class PmdConfiguration(HostRule):
    """Open vSwitch with DPDK has PMD threads on CPUs of their own that exist, for all queues that it polls."""

    id = "ovs-pmd-configuration"
    why = "A PMD thread never stops polling: whatever shares its CPU waits. Queues without one go to another."
    remedy = "ovs-vsctl set Open_vSwitch . other_config:pmd-cpu-mask=MASK, with the CPUs of the DPDK ports' nodes"
    source = "Open vSwitch: vswitchd/vswitch.xml, topics/dpdk/pmd; canonical/hotsos #636"

    def check(self, host: Host) -> Iterator[Finding]:
        config = host.vswitch
        if config is None:
            runs = any(thread.program == claims.OVS for thread in host.facts.programs)
            unknown = "the configuration of Open vSwitch is not in this record"
            need(not (runs or _lacks_workers(host)), unknown, NoDataError)
            need(host.knows_programs, unknown, NoDataError)
        if config is None or not config.has_dpdk:
            raise NotApplicableError("Open vSwitch is not configured for DPDK")
        mask = config.mask(_PMD_MASK)
        shown = [_option(config, _PMD_MASK)]
        running = [thread for thread in host.facts.programs if thread.is_bound and not thread.said]
        if not mask and not running:
            yield self.finding(
                shown,
                "without pmd-cpu-mask Open vSwitch itself picks a CPU to poll on, on each node with a DPDK port",
                level=Level.INFO,
                subject="mask",
            )
        absent = mask - host.present
        if absent and host.present:
            why = f"pmd-cpu-mask names {cpulist.named(absent)}, which this host lacks"
            yield self.finding(shown, why, subject="absent")
        both = mask & config.mask(_LCORE_MASK)
        if both:
            yield self.finding(
                [*shown, _option(config, _LCORE_MASK)],
                f"PMD threads and the other threads of Open vSwitch share {cpulist.named(both)}",
                "take these CPUs out of other_config:dpdk-lcore-mask",
                subject="lcores",
            )
        polled = _cpus(running) or mask
        yield from self._memory(host, config, polled)
        yield from self._ports(config, polled)

    def _memory(
        self, host: Host, config: SwitchConfig, polled: frozenset[int]
    ) -> Iterator[Finding]:
        """Yield that PMD threads are on nodes for which DPDK has no memory: nodes that are not listed have none."""
        amounts = [amount.strip() for amount in config.options.get(_SOCKET_MEMORY, "").split(",")]
        if not all(amount.isdecimal() for amount in amounts):
            return
        there = {node for node, amount in enumerate(amounts) if int(amount)}
        without = host.nodes_of(polled) - there
        if there and without:
            yield self.finding(
                [_option(config, _PMD_MASK), _option(config, _SOCKET_MEMORY)],
                f"PMD threads are on {cpulist.named(without, 'node')}, for which {_SOCKET_MEMORY} sets no memory "
                "aside: packets are then in memory of other nodes",
                f"other_config:{_SOCKET_MEMORY} with an amount for each node up to the last, or PMD threads on "
                f"{cpulist.named(there, 'node')}",
                level=Level.INFO,
                subject="memory",
            )

    def _ports(self, config: SwitchConfig, polled: frozenset[int]) -> Iterator[Finding]:
        """Yield the ports whose queues are bound to CPUs without a PMD thread."""
        for port in config.ports:
            lost = frozenset(port.affinity.values()) - polled
            if lost and polled:
                text = ",".join(f"{queue}:{cpu}" for queue, cpu in port.affinity.items())
                yield self.finding(
                    [
                        (config.source, f"{port.name} pmd-rxq-affinity={text}"),
                        _option(config, _PMD_MASK),
                    ],
                    f"queues of {port.name} are bound to {cpulist.named(lost)}, where no PMD thread polls: "
                    f"since Open vSwitch 2.16 another one takes them, before that none",
                    f"ovs-vsctl set Interface {shlex.quote(port.name)} other_config:pmd-rxq-affinity=QUEUE:CPU,..., "
                    f"with CPUs of {cpulist.format(polled)}",
                    subject=port.name,
                )

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        config = host.vswitch
        if config is None or not config.has_dpdk:
            return
        for key in (_PMD_MASK, _LCORE_MASK):
            if config.mask(key):
                yield f"{config.source} {key}", cpulist.format(config.mask(key))
        for port in config.ports[:_PORTS]:
            bound = ", ".join(
                f"queue {queue} on CPU {cpu}" for queue, cpu in port.affinity.items()
            )
            number = "n_rxq not set" if port.queues is None else f"n_rxq {port.queues}"
            yield f"{config.source} {port.name}", f"{number}; {bound or 'queues are not bound'}"


def _option(config: SwitchConfig, key: str) -> tuple[str, str]:
    return f"{config.source} other_config", f"{key}={config.options.get(key, 'not set')}"


class OvsOnDedicated(HostRule):
    """Threads of Open vSwitch are off the CPUs that guests own."""

    id = "ovs-threads-on-dedicated"
    why = "Upcalls and revalidation of flows preempt vCPUs that have a CPU of their own."
    remedy = (
        "CPUAffinity= the housekeeping CPUs in a drop-in of the service of ovs-vswitchd, then restart it; with "
        "DPDK other_config:dpdk-lcore-mask"
    )
    source = "openshift/cluster-node-tuning-operator #1546: OVS has a CPU pool of its own"

    def check(self, host: Host) -> Iterator[Finding]:
        polling, others = _threads(host)
        need(host.sets.reserved or polling, "no dedicated CPUs and no PMD threads")
        yield from self._polling(host, polling)
        reached: set[int] = set()
        near: list[host_model.ProgramThread] = []
        for thread in others:
            cpus = self._reached(host, cpulist.parse(thread.affinity))
            if cpus:
                near.append(thread)
                reached |= cpus
        if near:
            evidence = _shown(near)
            if polling and not host.sets.dedicated:
                evidence.append(polling[0].evidence)
            else:
                evidence.append(host.owned)
            yield self.finding(
                evidence,
                f"{counted(len(near), 'handler and revalidator thread')} may run on "
                f"{cpulist.named(reached)}, which guests or PMD threads own",
                subject="handlers",
            )
        seen = others or not (_lacks_workers(host) or any(thread.said for thread in polling))
        need(seen, _WORKERS_UNKNOWN, NoDataError)

    def _reached(self, host: Host, allowed: frozenset[int]) -> frozenset[int]:
        """Return the owned CPUs on which a thread that may use ``allowed`` runs.

        The scheduler moves nothing to an isolated CPU: a thread that may use others, too, stays away
        from it; one that may use isolated ones alone is there.
        """
        isolated = host.sets.owners.cpus(Owner.ISOLATED)
        if allowed & host.sets.online <= isolated:
            return allowed & host.sets.reserved
        return allowed & (host.sets.reserved - isolated)

    def _polling(self, host: Host, threads: list[host_model.ProgramThread]) -> Iterator[Finding]:
        both = _cpus(threads) & host.sets.dedicated
        if both:
            evidence = _shown(
                [thread for thread in threads if cpulist.parse(thread.affinity) <= both]
            )
            evidence.append(host.owned)
            yield self.finding(
                evidence,
                f"PMD threads poll on {cpulist.named(both)}, which are dedicated to guests",
                "take these CPUs out of other_config:pmd-cpu-mask, or out of cpu_dedicated_set",
                subject="pmd",
                level=Level.ERROR,
            )
        floating = _cpus(threads) & (host.shared or frozenset())
        if floating:
            polling = [thread for thread in threads if cpulist.parse(thread.affinity) <= floating]
            yield self.finding(
                [*_shown(polling), host.nova[SHARED]],
                f"PMD threads poll on {cpulist.named(floating)} of cpu_shared_set: floating guests and emulator "
                "threads there wait for them",
                "take these CPUs out of other_config:pmd-cpu-mask, or out of cpu_shared_set",
                subject="pmd-shared",
            )


#: What cpuset.cpus.partition says when all is well; else it is the type, "invalid" and the
#: kernel's reason.
_PARTITIONS = ("member", "root", "isolated")


def _configured_slice(host: Host) -> tuple[str, host_model.Slice] | None:
    """Return the guests' slice as systemd's files describe it, and where its CPUs are given.

    While no guest runs the slice itself is not there.
    """
    unit = f"etc/systemd/system/{MACHINE}"
    allowed = services.unit_setting(host.root, unit, "AllowedCPUs")
    if allowed is None:
        return None
    path, text = allowed
    cpus = cpulist.find(text)
    if not cpus:
        return None
    _path, partition = services.unit_setting(host.root, unit, "CPUSetPartition") or ("", "member")
    return f"/{path} AllowedCPUs", host_model.Slice(MACHINE, "", cpulist.format(cpus), partition)


class MachineSlice(HostRule):
    """machine.slice has the CPUs that Nova gives to guests, and any partition of it fits."""

    id = "machine-slice-cpus"
    level = Level.ERROR
    why = "libvirt cannot put threads onto CPUs that their slice lacks (Invalid argument): guests do not start."
    remedy = (
        f"AllowedCPUs= in a drop-in of {MACHINE} with all of cpu_dedicated_set and cpu_shared_set"
    )
    source = "kernel documentation of cgroup v2, cpuset; systemd.resource-control(5)"

    def check(self, host: Host) -> Iterator[Finding]:
        groups = {
            group.path: group for group in host.facts.slices if group.path.startswith(MACHINE)
        }
        where = f"/{claims.CGROUPS}/{MACHINE}/cpuset.cpus.effective"
        if MACHINE not in groups:
            configured = _configured_slice(host)
            if configured is not None:
                where, groups[MACHINE] = configured
        if not groups:
            host.need_collected(claims.CGROUPS)
        need(groups or host.has(f"{claims.CGROUPS}/{MACHINE}"), f"there is no {MACHINE}")
        need(groups, f"{MACHINE} may use every CPU")
        invalid = [group for group in groups.values() if group.partition not in _PARTITIONS]
        shared = (host.shared or frozenset()) & host.sets.online
        dedicated = (host.dedicated or frozenset()) & host.sets.online
        need(shared or dedicated or invalid, "no CPU sets in nova.conf")
        if MACHINE in groups:
            yield from self._machine(host, groups[MACHINE], where)
        for group in invalid:
            yield self.finding(
                [(f"/{claims.CGROUPS}/{group.path}/cpuset.cpus.partition", group.partition)],
                f"{group.path} should be a partition but is not one: its CPUs are neither its "
                "own nor isolated",
                "remove what its CPUs overlap with: AllowedCPUs= of other slices, or isolcpus= at boot",
                subject=group.path,
                level=Level.WARNING,
            )

    def _machine(self, host: Host, group: host_model.Slice, where: str) -> Iterator[Finding]:
        """Yield what is wrong with the slice of all guests; ``where`` names the file with its
        CPUs.
        """
        evidence = [(where, group.effective)]
        for option in (host.dedicated_option, SHARED):
            if option in host.nova:
                evidence.append(host.nova[option])
        allowed = cpulist.parse(group.effective)
        shared = (host.shared or frozenset()) & host.sets.online
        planned = shared | ((host.dedicated or frozenset()) & host.sets.online)
        lacking = planned - allowed
        if lacking:
            why = f"Nova gives guests {cpulist.named(lacking)}, and {MACHINE} may not use them"
            yield self.finding(evidence, why)
        floating = shared & allowed
        if group.partition == "isolated" and floating:
            evidence.insert(0, ("CPUSetPartition", group.partition))
            yield self.finding(
                evidence,
                f"floating guests have {cpulist.named(floating)}, and nothing is balanced there",
                "CPUSetPartition=isolated for a slice of pinned guests, with the dedicated CPUs alone",
            )
