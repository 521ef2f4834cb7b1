# SPDX-License-Identifier: Apache-2.0
"""CPU sets: compares nova.conf and the kernel's command line with the host and with each other."""

from collections.abc import Iterator
from typing import TypeAlias

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import boot
from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.novaconf import DEDICATED, PIN_SET, SHARED
from nova_perf_tuning.host.model import host_model, owners
from nova_perf_tuning.host.model.owners import Owner
from nova_perf_tuning.host.plan import layout
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, known, named, need

_SMT = "sys/devices/system/cpu/smt/control"
#: The slice of guests; libvirt puts all of them there.
MACHINE = "machine.slice"
#: An option of nova.conf: its section and its name.
_Option: TypeAlias = tuple[str, str]
_REFUSED = "Nova refuses the set, and the host offers no CPU"


class NovaCpuSets(HostRule):
    """cpu_dedicated_set and cpu_shared_set do not overlap, name CPUs of this host, and leave some for the host."""

    id = "nova-cpu-sets"
    level = Level.ERROR
    why = (
        "nova-compute refuses to start, or offers CPUs that do not exist or that the host needs "
        "for itself."
    )
    remedy = "nova-perf generate nova-conf{given}  # prints sets that fit"
    source = "Nova's documentation of CPU topologies; TripleO: a core of each node for the host"

    def check(self, host: Host) -> Iterator[Finding]:
        yield from self._offline(host)
        if not host.dedicated:
            yield from self._bare_nodes(host)
        yield from self.faults(host)
        for _section, key in _references(host):
            need(False, f"{key} refers to another option, which is not followed", NoDataError)
        host.need_cpus()
        host.need_known_threads()

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        for option in (host.dedicated_option, SHARED):
            if option in host.nova:
                yield host.nova[option]

    def faults(self, host: Host) -> Iterator[Finding]:
        """Yield what is wrong with the sets themselves, whatever is offline at this moment.

        :raises NotApplicableError: there are none.
        """
        given: dict[_Option, frozenset[int]] = {}
        if host.dedicated:
            given[host.dedicated_option] = host.dedicated
        if host.shared:
            given[SHARED] = host.shared
        faulty = _unreadable_sets(host)
        for option in faulty:
            yield self._unreadable(host, option)
        misplaced = novaconf.misplaced(host.nova)
        for value, (section, key) in misplaced:
            why = f"Nova does not look for {key} there: it has no effect"
            remedy = f"move it to the section [{section}] of nova.conf"
            yield self.finding([value], why, remedy, subject=key)
        references = [key for _section, key in _references(host)]
        need(given or faulty or misplaced or references, "no CPU sets in nova.conf")
        for option, cpus in given.items():
            if host.present and cpus - host.present:
                missing, there = cpulist.named(cpus - host.present), cpulist.named(host.present)
                yield self._about(
                    host, option, f"it names {missing}; this host has only {there}: {_REFUSED}"
                )
        if host.pin_set is None:
            yield from self._contradictions(host, list(given))
            yield from self._without_memory(host)
        dedicated = host.dedicated or frozenset()
        if host.sets.online and host.sets.online <= dedicated:
            why = "every online CPU is dedicated: interrupts, vhost and the host have none"
            yield self._about(host, host.dedicated_option, why)
            return
        if 0 in dedicated & host.sets.online:
            why = "CPU 0 is dedicated: timers and interrupts without an affinity go there, and it stays online"
            yield self._about(host, host.dedicated_option, why, Level.INFO)
        for option, cpus in given.items():
            split = _torn_cores(host, cpus)
            if split:
                why = f"{option[1]} has one thread of {counted(len(split), 'core')} and not the other "
                why += f"({named(split)}): whatever runs on the sibling takes half of the core"
                yield self._about(host, option, why, Level.WARNING)

    def _unreadable(self, host: Host, option: _Option) -> Finding:
        """Return the finding about a set that Nova cannot read, or of which nothing is left."""
        text = host.option(option[1], option[0])
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not all(part.startswith("^") for part in parts):
            why = "it names no CPU, or is not a list of CPUs: nova-compute refuses to start"
            if "#" in text or ";" in text:
                why += "; a comment behind a value belongs to it: oslo.config has comments on lines of their own only"
            return self._about(host, option, why)
        why = "it only excludes CPUs, and from nothing: no CPU is left, and nova-compute refuses to start"
        remedy = ""
        if host.present and not any(":" in part for part in parts):
            remedy = f"{option[1]} = 0-{max(host.present)},{text}  # the range first, then what is excluded"
        return self._about(host, option, why, remedy=remedy)

    def _offline(self, host: Host) -> Iterator[Finding]:
        """Yield offline CPUs of the sets: driver.py of Nova, _get_pcpu_available, _get_vcpu_available."""
        options = {"dedicated": host.dedicated_option, "shared": SHARED}
        for name, cpus in layout.offline_in_sets(host.facts, host.cpu_sets).items():
            level = None
            so = (
                "Nova rejects the set, logs 'Error updating resources for node' each minute and reports no "
                "inventory"
            )
            if name == "dedicated" and host.powers_cpus and host.pin_set is None:
                level = Level.WARNING
                so = "with cpu_power_management_strategy = governor Nova does not bring them online for guests"
            option = options[name]
            remedy = f"{_bring_online(host, cpus)}, or take them out of {option[1]}"
            why = f"it names {cpulist.named(cpus)}, offline: {so}"
            yield self._about(host, option, why, level, remedy)

    def _bare_nodes(self, host: Host) -> Iterator[Finding]:
        """Yield online CPUs without memory beside them, of a host whose guests have no CPUs yet."""
        bare = host.sets.online & layout.without_memory(host.facts)
        if bare:
            nodes = host.nodes_of(bare)
            evidence: list[tuple[str, object]] = []
            for node in sorted(nodes)[:3]:
                evidence.append((f"/sys/devices/system/node/node{node}/meminfo", "MemTotal: 0 kB"))
            yield self.finding(
                evidence,
                f"{cpulist.named(bare)} are on {cpulist.named(nodes, 'node')}, without memory: no pinned guest fits "
                "there, and all others fetch every byte from another node",
                "memory for these nodes (DIMMs, the firmware's interleaving), or leave these CPUs to the host "
                "(nova-perf generate nova-conf{given})",
                level=Level.WARNING,
            )

    def _without_memory(self, host: Host) -> Iterator[Finding]:
        """Yield dedicated CPUs where no pinned guest fits: nova/virt/hardware.py, _numa_fit_instance_cell."""
        dedicated = host.dedicated or frozenset()
        bare = dedicated & layout.without_memory(host.facts)
        if bare:
            nodes = cpulist.named(host.nodes_of(bare), "node")
            rest = cpulist.format(dedicated - bare) or "CPUs of nodes with memory"
            why = f"{cpulist.named(bare)} are on {nodes}, without memory: no pinned guest fits there, though Nova "
            why += "offers these CPUs"
            remedy = f"[compute] cpu_dedicated_set = {rest}, or memory for these nodes (DIMMs, firmware's interleaving)"
            yield self._about(host, host.dedicated_option, why, remedy=remedy)

    def _contradictions(self, host: Host, given: list[_Option]) -> Iterator[Finding]:
        """Yield what cannot stand together in nova.conf, where it has the sets of today."""
        both = (host.dedicated or frozenset()) & (host.shared or frozenset())
        if both:
            yield self._about(host, host.dedicated_option, f"both sets name {cpulist.named(both)}")
        if host.option("reserved_host_cpus", "DEFAULT") not in ("", "0"):
            evidence = [host.nova["DEFAULT", "reserved_host_cpus"]]
            for option in given:
                evidence.append(host.nova[option])
            why = (
                "reserved_host_cpus and CPU sets exclude each other: nova-compute refuses to start"
            )
            remedy = "remove reserved_host_cpus: what is in neither set is the host's"
            yield self.finding(evidence, why, remedy, subject="reserved_host_cpus")

    def _about(
        self,
        host: Host,
        option: _Option,
        why: str,
        level: Level | None = None,
        remedy: str = "",
    ) -> Finding:
        return self.finding([host.nova[option]], why, remedy, subject=option[1], level=level)


def _bring_online(host: Host, cpus: frozenset[int]) -> str:
    """Return the command that brings CPUs online.

    Of s390x a CPU may be deconfigured; with SMT off the kernel refuses siblings (EPERM).
    """
    standby: set[int] = set()
    for cpu in cpus:
        if host.text(f"sys/devices/system/cpu/cpu{cpu}/configure") == "0":
            standby.add(cpu)
    online = f"chcpu -e {cpulist.format(cpus)}"
    if standby:
        return f"chcpu -c {cpulist.format(standby)} && {online}"
    control = host.text(_SMT)
    if control == "off":
        return f"echo on > /{_SMT} && {online}"
    if control == "forceoff":
        return f"no nosmt=force on the kernel's command line, a reboot, then {online}"
    return online


def _unreadable_sets(host: Host) -> list[_Option]:
    """Return the options with CPU sets whose text is not a list of CPUs; a ``$reference`` is not
    judged.
    """
    references = _references(host)
    unreadable = []
    for option in (DEDICATED, SHARED, PIN_SET):
        section, key = option
        text = host.option(key, section)
        if text and option not in references and novaconf.cpu_set(host.nova, option) is None:
            unreadable.append(option)
    return unreadable


def _references(host: Host) -> list[_Option]:
    """Return the options with CPU sets that refer to other options, which are not followed."""
    references = []
    for section, key in (DEDICATED, SHARED, PIN_SET):
        if (host.option(key, section) or "").startswith("$"):
            references.append((section, key))
    return references


def _torn_cores(host: Host, cpus: frozenset[int]) -> list[str]:
    """Return the cores, each as its CPU list, of whose online threads only some are among
    ``cpus``.
    """
    torn: dict[str, None] = {}
    for cpu in host.facts.cpus:
        core = cpulist.parse(cpu.siblings) & host.sets.online
        if core & cpus and core - cpus:
            torn[cpu.siblings] = None
    return list(torn)


def _served_within(host: Host, nic: host_model.Nic, cpus: frozenset[int]) -> set[int]:
    """Return those of ``cpus`` that serve interrupts of a NIC which no other CPU serves."""
    serving: set[int] = set()
    for irq in host.interrupts(nic):
        used = cpulist.parse(irq.serving or "")
        if used <= cpus:
            serving |= used
    return serving


class PowerOverlap(HostRule):
    """Nothing else needs the CPUs that Nova powers down."""

    id = "nova-power-management-overlap"
    why = (
        "When a CPU goes offline, the kernel moves its interrupts to any other CPU and does not "
        "move them back."
    )
    remedy = "keep NIC interrupts off them (nova-perf apply{given}), or cpu_power_management_strategy = governor"
    source = "Nova's documentation of cpu_power_management"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.powers_cpus, "no CPU power management in nova.conf")
        managed = host.nova["libvirt", "cpu_power_management"]
        dedicated = novaconf.cpu_set(host.nova, DEDICATED)
        if dedicated is None:
            why = "power management without cpu_dedicated_set has nothing to manage; older Nova refuses to start"
            yield self.finding(
                [managed], why, "set [compute] cpu_dedicated_set, or remove cpu_power_management"
            )
            return
        if not host.cpu_sets.power_managed:  # governor: they stay online
            return
        nics: list[str] = []
        hit: set[int] = set()
        for nic in host.links:
            serving = _served_within(host, nic, dedicated - {0})
            if serving:
                nics.append(nic.name)
                hit |= serving
        if nics:
            yield self.finding(
                [managed, host.nova[DEDICATED]],
                f"interrupts of {named(sorted(nics))} are on {cpulist.named(hit)}, which Nova powers down",
            )
        if 0 in dedicated:
            yield self.finding(
                [managed, (host.nova[DEDICATED].source, cpulist.format(dedicated))],
                "CPU 0 is never powered down: Nova warns at each start and ignores it",
                "take CPU 0 out of cpu_dedicated_set",
                level=Level.INFO,
            )
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(host.facts.irqs, "interrupts are not in this record", NoDataError)
        need(any(map(host.interrupts, host.links)), "no NIC with interrupts of its own")


class LegacyPinSet(HostRule):
    """nova.conf sets cpu_dedicated_set and cpu_shared_set instead of vcpu_pin_set."""

    id = "nova-vcpu-pin-set"
    level = Level.INFO
    why = (
        "vcpu_pin_set is deprecated and will be removed from Nova. Pinned and floating guests "
        "share its CPUs, which count as dedicated here; cpu_shared_set is then only for emulator "
        "threads."
    )
    remedy = (
        "replace it with [compute] cpu_dedicated_set (pinned guests) and cpu_shared_set "
        "(floating ones): "
        "nova-perf generate nova-conf{given}"
    )
    source = "nova/conf/compute.py: deprecated since 20.0.0"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_nova_conf()
        if not host.option("vcpu_pin_set", "DEFAULT"):
            return
        evidence = [
            host.nova[option] for option in (PIN_SET, DEDICATED, SHARED) if option in host.nova
        ]
        if DEDICATED not in host.nova:
            yield self.finding(evidence)
        else:
            why = "vcpu_pin_set and cpu_dedicated_set exclude each other: nova-compute refuses to start"
            yield self.finding(evidence, why, "remove vcpu_pin_set", level=Level.ERROR)


class SharedSetMissing(HostRule):
    """A host with cpu_dedicated_set has a cpu_shared_set."""

    id = "nova-shared-set-missing"
    why = "hw:emulator_threads_policy=share then has no effect: emulator threads stay on the guests' own CPUs."
    remedy = "[compute] cpu_shared_set = the housekeeping CPUs of each node (nova-perf generate nova-conf{given})"
    source = (
        "Red Hat: NovaComputeCpuSharedSet to the host's cores and hw:emulator_threads_policy=share"
    )

    def check(self, host: Host) -> Iterator[Finding]:
        known(host.dedicated, "no [compute] cpu_dedicated_set")
        need(host.pin_set is None, "vcpu_pin_set is replaced first (rule nova-vcpu-pin-set)")
        if host.shared is None:
            source, text = host.nova[host.dedicated_option]
            asking = [guest for guest in host.guests if _shares_emulator(guest)]
            level = None if asking else Level.INFO  # no guest that is here needs it
            yield self.finding([(source, f"{text}; no cpu_shared_set")], level=level)


def _shares_emulator(guest: Guest) -> bool:
    """Whether a guest's flavor asks for emulator threads on shared CPUs."""
    return guest.domain.specs.extra_specs.get("hw:emulator_threads_policy") == "share"


class HousekeepingUnset(HostRule):
    """The host's own work is confined to housekeeping CPUs."""

    id = "housekeeping-unset"
    why = "Daemons and kernel threads preempt vCPUs that have a CPU of their own."
    remedy = (
        "set [compute] cpu_dedicated_set and cpu_shared_set (nova-perf generate nova-conf{given}), and keep the "
        "host off the dedicated CPUs: CPUAffinity= in /etc/systemd/system.conf, or isolcpus= "
        "(nova-perf generate grub-args{given})"
    )
    source = "Nova's documentation of CPU topologies; Oracle's step for dom0, on KVM"

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        yield from isolation(host)
        if host.facts.services:
            yield host.facts.services_from, host.facts.services

    def check(self, host: Host) -> Iterator[Finding]:
        dedicated = host.sets.dedicated
        need(dedicated, "no guest has CPUs of its own here")
        affinity = _affinity_of_services(host)
        isolated = host.sets.isolated & dedicated
        off_services = bool(affinity and not affinity & dedicated)
        if dedicated <= host.sets.isolated or off_services:
            return
        if host.dedicated is not None and isolated:  # which lack is for isolated-not-dedicated
            return
        host.need_isolation()
        evidence = isolation(host) or [(host.facts.isolated_from, "none")]
        evidence += boot.not_isolating(host)
        if host.sets.tickless & dedicated:
            evidence.append(
                (host.facts.nohz_full_from, f"{host.facts.nohz_full} (it stops the tick alone)")
            )
        others = host.sets.online - dedicated
        if host.dedicated is None:
            evidence.append(host.owned)
            level, remedy = None, ""
        else:
            level = Level.INFO
            if boot.not_isolating(host):  # isolation was asked for, and there is none
                level = Level.WARNING
            remedy = (
                f"CPUAffinity={cpulist.format(others)} in /etc/systemd/system.conf and a reboot, "
            )
            remedy += "or isolcpus= (nova-perf generate grub-args{given})"
        if affinity is None:
            evidence.append(("/etc/systemd/system.conf", "no CPUAffinity"))
        nodes = max(len(host.nodes_of(host.sets.online)), 1)
        elsewhere = (
            f"as well as on the other {counted(len(others), 'CPU')} ({counted(nodes, 'node')})"
        )
        if not others:
            elsewhere = "since no other CPU is online"
            remedy = "first leave the host a CPU of each node (rule nova-cpu-sets)"
        yield self.finding(
            evidence,
            f"guests own {cpulist.named(dedicated)}, and everything else on this host may run there {elsewhere}",
            remedy,
            level=level,
        )


def _affinity_of_services(host: Host) -> frozenset[int] | None:
    """Return the CPUs of systemd and what it starts, None where nothing confines them."""
    return cpulist.parse(host.facts.services) or None


class SharedIsolated(HostRule):
    """cpu_shared_set contains no isolated CPU."""

    id = "shared-set-isolated"
    level = Level.ERROR
    why = (
        "The scheduler does not balance isolated CPUs: floating vCPUs and emulators pile up on "
        "the "
        "first one."
    )
    remedy = "take these CPUs out of isolcpus= or the isolated partition, or out of cpu_shared_set"
    source = "kernel documentation of isolcpus; seapath/ansible #865"

    def check(self, host: Host) -> Iterator[Finding]:
        shared = known(host.shared, "no [compute] cpu_shared_set")
        both = shared & host.sets.owners.cpus(Owner.ISOLATED)
        if both:
            evidence = isolation(host)
            evidence.append(host.nova[SHARED])
            yield self.finding(
                evidence,
                f"{cpulist.named(both)}: shared and isolated, so every thread put there stays on CPU {min(both)}",
            )
        host.need_isolation()


def isolation(host: Host) -> list[tuple[str, str]]:
    """Return what isolates CPUs on this host, as evidence."""
    evidence: list[tuple[str, str]] = []
    for claim in host.sets.owners.of_kind(Owner.ISOLATED):
        evidence.extend(claim.evidence)
    return evidence


class IsolatedUnused(HostRule):
    """Isolated CPUs are those that Nova dedicates."""

    id = "isolated-not-dedicated"
    why = (
        "Isolated CPUs that are not dedicated stay idle; dedicated ones that are not isolated "
        "also "
        "do the host's work."
    )
    remedy = "add the dedicated CPUs to isolcpus= (nova-perf generate grub-args{given})"
    source = boot.SEAPATH

    def check(self, host: Host) -> Iterator[Finding]:
        dedicated = known(host.dedicated, "no [compute] cpu_dedicated_set")
        isolated = host.sets.owners.cpus(Owner.ISOLATED)
        foreign = others(host)
        if not isolated:
            host.need_isolation()
        need(isolated, "no isolated CPUs")
        used = dedicated | host.sets.dedicated | (host.shared or frozenset())
        for claim in foreign:
            used |= claim.cpus
        idle = (isolated & host.sets.online) - used
        disturbed = (dedicated & host.sets.online) - isolated
        evidence = isolation(host)
        evidence.append(host.nova[host.dedicated_option])
        if disturbed and host.facts.isolated_from:
            yield self._disturbed(host, disturbed, list(evidence))
        if idle:
            # A program that is not in the record may have them, such as Open vSwitch with DPDK.
            host.need_programs()
            for claim in foreign:
                evidence.append(claim.evidence[0])
            bound = [
                thread for thread in host.facts.programs if cpulist.parse(thread.affinity) <= idle
            ]
            for thread in bound[:3]:
                evidence.append(thread.evidence)
            there = ""
            if bound:
                programs = {thread.program for thread in bound}
                there = f" (threads of {named(sorted(programs))} are bound there)"
            yield self.finding(
                evidence,
                f"{cpulist.named(idle)}: isolated and not assigned, so lost to this host{there}",
                f"find out what they were isolated for, then take {cpulist.format(idle)} out of isolcpus= or give "
                "them to guests (cpu_dedicated_set)",
                level=Level.INFO,
            )
        if disturbed:
            host.need_isolation()

    def _disturbed(
        self, host: Host, cpus: frozenset[int], evidence: list[tuple[str, str]]
    ) -> Finding:
        """Return the finding about dedicated CPUs on which the host works; services may be kept off."""
        level = Level.WARNING
        who = "so their guests are disturbed"
        affinity = _affinity_of_services(host)
        if affinity and not affinity & cpus:
            level = Level.INFO
            who = "so kernel threads disturb their guests; CPUAffinity= keeps services off"
        remedy = "take CPU 0 out of cpu_dedicated_set: it has timers of all CPUs"
        addable = cpus - {0}
        if addable:
            remedy = f"add {cpulist.format(addable)} to isolcpus= (nova-perf generate grub-args{{given}})"
        why = f"{cpulist.named(cpus)}: dedicated and not isolated, {who}"
        return self.finding(evidence, why, remedy, level=level)


class IsolatedHalfCores(HostRule):
    """Isolated CPUs are whole cores."""

    id = "isolated-half-cores"
    why = "A busy hardware thread slows the other one of its core by half, isolated or not."
    remedy = "isolate whole cores (nova-perf generate grub-args{given})"
    source = "TripleO: whole cores, with all of their threads; Oracle's step for dom0, on KVM"

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        yield from isolation(host)

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_isolation()
        isolated = host.sets.owners.cpus(Owner.ISOLATED) & host.sets.online
        need(isolated, "no isolated CPUs")
        host.need_threads()
        # What a set of nova.conf tears as well is a finding of nova-cpu-sets.
        known_torn: set[str] = set()
        for cpus in (host.dedicated, host.shared):
            known_torn.update(_torn_cores(host, cpus or frozenset()))
        torn = [core for core in _torn_cores(host, isolated) if core not in known_torn]
        if not torn:
            return
        cores = cpulist.union(torn) & host.sets.online
        half, other = cores & isolated, cores - isolated
        remedy = f"take {cpulist.format(half)} out of isolcpus= or the isolated partition"
        shared = cores & (host.shared or frozenset())
        if 0 not in other and host.sets.housekeeping - other:
            more = f"isolate {cpulist.format(other)} as well"
            if shared & other:  # isolated shared CPUs are a finding of shared-set-isolated
                first = f"take {cpulist.format(shared)} out of cpu_shared_set"
                remedy = f"{remedy}; or {first}, and {more}"
            else:
                remedy = f"{more}, or {remedy}"
        yield self.finding(
            isolation(host),
            f"{cpulist.named(half)} are isolated, and the other threads of their {counted(len(torn), 'core')} "
            f"are not: {cpulist.named(other)}",
            remedy,
        )


def others(host: Host) -> list[owners.Claim]:
    """Return the claims to CPUs that guests do not make: programs that poll, and slices of
    services.
    """
    slices = {group.path for group in host.facts.slices if not group.path.startswith(MACHINE)}
    found: list[owners.Claim] = []
    for claims in (host.sets.owners.claims, host.sets.owners.overruled):
        for claim in claims:
            if claim.owner is Owner.PROGRAM or claim.name in slices:
                found.append(claim)
    return found
