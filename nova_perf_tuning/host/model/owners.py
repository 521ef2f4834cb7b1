# SPDX-License-Identifier: Apache-2.0
"""Who owns each CPU, with the evidence: one value for the plan, the audit, ``generate`` and the
picture.
"""

import collections
import dataclasses
import enum
import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Self

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest.domain import Domain
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.rules import Evidence

_CGROUPS: Final = "/sys/fs/cgroup"
#: Slices of the host's own work.
_HOSTS: Final = ("system.slice", "user.slice")
#: What isolcpus= names, and what partitions of cgroup v2 isolate (Linux 6.7); neither says all.
ISOLATED_AT_BOOT: Final = "/sys/devices/system/cpu/isolated"
NOHZ_FULL: Final = "/sys/devices/system/cpu/nohz_full"
ISOLATED_NOW: Final = f"{_CGROUPS}/cpuset.cpus.isolated"


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSets:
    """The operator's CPU sets, as cpulists; None where nova.conf and the option say nothing.

    :ivar dedicated: ``[compute] cpu_dedicated_set``, or the ``vcpu_pin_set`` of older releases.
    :ivar shared: ``[compute] cpu_shared_set``.
    :ivar housekeeping: CPUs for interrupts and host work; None: online CPUs without another owner.
    :ivar power_managed: ``[libvirt] cpu_power_management`` with strategy ``cpu_state``: dedicated
        CPUs may go offline.
    :ivar legacy: ``dedicated`` is ``vcpu_pin_set``, with which ``shared`` may overlap.
    :ivar sources: where ``dedicated`` and ``shared`` are from: ``/etc/nova/nova.conf [compute]
        cpu_shared_set``.
    :ivar files: the configuration that was read for them.
    """

    dedicated: str | None = None
    shared: str | None = None
    housekeeping: str | None = None
    power_managed: bool = False
    legacy: bool = False
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False)
    files: tuple[str, ...] = dataclasses.field(default=(), compare=False)

    def option(self, name: str) -> str:
        """Return what an operator calls the set of this field's name."""
        if name == "housekeeping":
            return name
        if name == "dedicated" and self.legacy:
            return "[DEFAULT] vcpu_pin_set"
        return f"[compute] cpu_{name}_set"


class Owner(enum.StrEnum):
    """Kinds of owners, the strongest claim first.

    GUEST: a vCPU is pinned there alone. PROGRAM: a PMD thread of Open vSwitch polls there, and the
    operator gave the CPU to nobody else. DEDICATED: Nova's for pinned guests. ISOLATED: kept from
    the scheduler, at boot or by a partition of cgroup v2. TICKLESS: without a timer tick
    (``nohz_full=``). SLICE: a partition that is not isolated. SHARED: Nova's for floating guests.
    EXCLUDED: nobody's, and systemd or TuneD keeps services off it. HOST: nobody else's.
    """

    GUEST = "guest"
    PROGRAM = "program"
    DEDICATED = "dedicated"
    ISOLATED = "isolated"
    TICKLESS = "tickless"
    SLICE = "slice"
    SHARED = "shared"
    EXCLUDED = "excluded"
    HOST = "host"


_RANKS: Final = {owner: rank for rank, owner in enumerate(Owner)}


@dataclasses.dataclass(frozen=True, slots=True)
class Claim:
    """CPUs with an owner.

    :ivar name: of the guest, program (``ovs-vswitchd``), option, kernel parameter or cgroup.
    :ivar evidence: what was read, the first few places of many.
    """

    owner: Owner
    name: str
    cpus: frozenset[int]
    evidence: tuple[Evidence, ...] = ()


@dataclasses.dataclass(frozen=True)
class CpuOwners:
    """All claims on the CPUs of a host, the strongest kind first; several may name one CPU.

    :ivar overruled: claims of programs on CPUs of the operator's sets, which hold.
    """

    claims: tuple[Claim, ...]
    overruled: tuple[Claim, ...] = ()

    @classmethod
    def of(cls, facts: host_model.HostFacts, sets: CpuSets) -> Self:
        """Return who owns what; CPUs that the host lacks and texts that are no list are passed
        over.
        """
        present = frozenset(cpu.id for cpu in facts.cpus)
        rest = {cpu.id for cpu in facts.cpus if cpu.online}
        given = frozenset[int]()
        for text in (sets.dedicated, sets.shared, sets.housekeeping):
            given |= cpulist.find(text) or frozenset()
        made = list(_guests(facts))
        overruled: list[Claim] = []
        for program in _programs(facts):
            made.append(_within(program, present - given))
            beside = _within(program, present & given)
            if beside.cpus:
                overruled.append(beside)
        made += _stated(facts, sets)
        claims: list[Claim] = []
        for claim in made:
            cut = _within(claim, present)
            if cut.cpus:
                claims.append(cut)
                rest -= cut.cpus
        services = cpulist.parse(facts.services)
        if services & rest and rest - services:
            free = frozenset(rest - services)
            evidence = Evidence(facts.services_from, facts.services)
            claims.append(Claim(Owner.EXCLUDED, "services", free, (evidence,)))
            rest &= services
        claims.sort(key=lambda claim: _RANKS[claim.owner])
        if rest:
            claims.append(Claim(Owner.HOST, "host", frozenset(rest)))
        return cls(tuple(claims), tuple(overruled))

    @property
    def polled(self) -> frozenset[int]:
        """CPUs on which programs poll, in a set of the operator or not."""
        cpus = self.cpus(Owner.PROGRAM)
        for claim in self.overruled:
            cpus |= claim.cpus
        return cpus

    def cpus(self, *owners: Owner) -> frozenset[int]:
        """Return the CPUs on which an owner of these kinds has a claim."""
        cpus: set[int] = set()
        for claim in self.claims:
            if claim.owner in owners:
                cpus |= claim.cpus
        return frozenset(cpus)

    def of_kind(self, owner: Owner) -> list[Claim]:
        """Return the claims of one kind."""
        return [claim for claim in self.claims if claim.owner is owner]

    @functools.cached_property
    def by_cpu(self) -> Mapping[int, tuple[Claim, ...]]:
        """CPU -> all claims on it, the strongest first; the first is its owner."""
        every: dict[int, list[Claim]] = {}
        for claim in self.claims:
            for cpu in claim.cpus:
                every.setdefault(cpu, []).append(claim)
        return {cpu: tuple(every[cpu]) for cpu in sorted(every)}


def owned_cpus(domain: Domain) -> frozenset[int]:
    """Return the CPUs that one of its vCPUs has for itself.

    A guest of ``hw:cpu_policy=mixed`` has vCPUs that float over the shared set as well; Nova pins
    those to the whole set, so a list of several CPUs, or one CPU given to several vCPUs, is not
    owned.
    """
    if not domain.dedicated:
        return frozenset()
    return _alone(domain.vcpu_pins.values())


def running_cpus(guest: host_model.GuestProcess) -> frozenset[int]:
    """Return the CPUs that one vCPU of a running guest has for itself.

    Where its XML cannot be read, what its vCPUs are bound to says the same.
    """
    if guest.domain is not None:
        return owned_cpus(guest.domain)
    vcpus = [thread.affinity for thread in guest.threads if thread.kind == "vcpu"]
    cpus = _alone(vcpus)
    if len(cpus) != len(vcpus):
        return frozenset()
    return cpus


def _alone(texts: Iterable[str | None]) -> frozenset[int]:
    """Return the CPUs that one of these cpulists names alone, and no other names alone."""
    alone: set[int] = set()
    for text, number in collections.Counter(texts).items():
        if text and number == 1 and text.isdecimal():
            alone.add(int(text))
    return frozenset(alone)


def _guests(facts: host_model.HostFacts) -> Iterator[Claim]:
    for domain in facts.domains:
        cpus = owned_cpus(domain)
        yield _claim(
            Owner.GUEST, domain.name, cpus, f"{domain.name}.xml <vcpupin>", cpulist.format(cpus)
        )
    for guest in facts.guests:
        if guest.domain is None:
            cpus = running_cpus(guest)
            path = f"/proc/{guest.pid}/task/*/status Cpus_allowed_list"
            yield _claim(Owner.GUEST, guest.name, cpus, path, cpulist.format(cpus))


def _within(claim: Claim, cpus: frozenset[int]) -> Claim:
    """Return a claim on those of its CPUs that are among ``cpus``."""
    return dataclasses.replace(claim, cpus=claim.cpus & cpus)


def _claim(owner: Owner, name: str, cpus: frozenset[int], path: str, value: str) -> Claim:
    return Claim(owner, name, cpus, (Evidence(path, value),))


def _programs(facts: host_model.HostFacts) -> Iterator[Claim]:
    """Yield programs that poll on CPUs; one that does so on every CPU leaves none to the host, and
    owns none.
    """
    processes: dict[int, list[host_model.ProgramThread]] = {}
    for thread in facts.programs:
        if thread.is_bound:
            processes.setdefault(thread.pid, []).append(thread)
    online = cpulist.parse(facts.online)
    for threads in processes.values():
        cpus: set[int] = set()
        for thread in threads:
            cpus |= cpulist.parse(thread.affinity)
        if not online <= cpus:
            # Evidence is for people: all CPUs are in the claim.
            shown = list(dict.fromkeys(thread.evidence for thread in threads))[:3]
            evidence = [Evidence(*place) for place in shown]
            yield Claim(Owner.PROGRAM, threads[0].program, frozenset(cpus), tuple(evidence))


def _stated(facts: host_model.HostFacts, sets: CpuSets) -> Iterator[Claim]:
    """Yield what the operator configured, and what the kernel isolates or keeps for a slice."""
    for owner, name, text in (
        (Owner.DEDICATED, "dedicated", sets.dedicated),
        (Owner.SHARED, "shared", sets.shared),
        (Owner.HOST, "housekeeping", sets.housekeeping),
    ):
        option = sets.option(name)
        cpus = cpulist.find(text) or frozenset()
        yield _claim(owner, option, cpus, sets.sources.get(name, option), text or "")
    for owner, name, path, text in (
        (Owner.ISOLATED, "isolcpus", facts.isolated_from, facts.isolated),
        (Owner.ISOLATED, "cpuset partition", ISOLATED_NOW, facts.isolated_now),
        (Owner.TICKLESS, "nohz_full", facts.nohz_full_from, facts.nohz_full),
    ):
        yield _claim(owner, name, cpulist.parse(text), path, text)
    for group in facts.slices:
        if group.partition == "isolated":
            owner = Owner.ISOLATED
        elif group.partition == "root" and not group.path.startswith(_HOSTS):
            owner = Owner.SLICE
        else:
            continue
        path = f"{_CGROUPS}/{group.path}/cpuset.cpus.partition"
        yield _claim(owner, group.path, cpulist.parse(group.effective), path, group.partition)
