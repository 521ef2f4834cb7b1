# SPDX-License-Identifier: Apache-2.0
"""What a guest's XML says of its vCPUs, against itself and against the cores that they are pinned to."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import GuestRule
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.model.owners import Owner
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, need

_LIBVIRT = "libvirt: domain XML format, CPU model and topology"
#: Guests that are shown where a rule holds.
_SHOWN = 8


class References(GuestRule):
    """A guest's XML defines everything that it refers to, and its pins are complete."""

    id = "guest-references"
    level = Level.ERROR
    why = "libvirt refuses to define or start such a domain."
    remedy = "rebuild or resize it: Nova then writes its XML again"
    plain = "remove the element, or add what it names"
    source = "libvirt: src/conf/domain_conf.c, \"Cannot find 'iothread'\""

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        return host.guests

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        dangling = guest.shape.dangling
        if not dangling:
            return
        first = dangling[0]
        why = f"{first.shown} of {guest.name}: {first.lacks}"
        if len(dangling) > 1:
            why += f", and {len(dangling) - 1} more"
        shown = [f"{reference.shown}: {reference.lacks}" for reference in dangling]
        yield self.of(guest, shown, f"{why}. {self.why}")


def own_cpus(guest: Guest) -> Mapping[int, int]:
    """Return vCPU -> CPU of a guest each of whose vCPUs is pinned to a CPU of its own, else nothing."""
    own: dict[int, int] = {}
    for vcpu, text in guest.domain.vcpu_pins.items():
        if text.isdecimal():
            own[vcpu] = int(text)
    if len(set(own.values())) < guest.domain.vcpus:
        return {}
    return own


def cores(host: Host) -> Mapping[int, str]:
    """Return online CPU -> the cpulist of its core, of those whose core is known."""
    return {cpu.id: cpu.siblings for cpu in host.facts.cpus if cpu.online and cpu.core_known}


class Topology(GuestRule):
    """Threads that a pinned guest sees in one core are threads of one core of the host."""

    id = "guest-topology"
    why = "The guest's scheduler distributes work by cores and nodes that do not exist."
    remedy = "remove hw:cpu_sockets, hw:cpu_cores and hw:cpu_threads from the flavor: Nova then fits them to the pins"
    plain = "<vcpupin> of vCPUs 2k and 2k+1 on threads of one core with <topology threads='2'>, or a core for each "
    plain += "vCPU with threads='1'"
    source = f"{_LIBVIRT}; kernel: sched-domains, topology_sane() of x86"

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        judged = [guest for guest in host.guests if own_cpus(guest) or guest.shape.cells]
        need(judged, "no guest with CPUs of its own or NUMA cells")
        return judged

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        guests = self.guests(host)
        for guest in guests[:_SHOWN]:
            own = own_cpus(guest)
            if own:
                yield guest.path, _places(host, own)
        if len(guests) > _SHOWN:
            yield "guests", f"{len(guests) - _SHOWN} more"

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        if any(own_cpus(guest) for guest in self.guests(host)):
            host.need_known_threads()

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        own = own_cpus(guest)
        core_of = cores(host)
        if own and core_of.keys() >= set(own.values()):
            if guest.shape.threads > 1:
                yield from self._torn(guest, own, core_of)
            elif guest.shape.threads or not guest.domain.specs.of_nova:
                # Nova writes a topology for each guest; one without it was recorded without it.
                yield from self._hidden(host, guest, own, core_of)
        if guest.shape.fits:
            yield from self._cells(guest)

    def _torn(
        self, guest: Guest, own: Mapping[int, int], core_of: Mapping[int, str]
    ) -> Iterator[Finding]:
        """Yield threads of a guest's core that are on different cores of the host."""
        threads = guest.shape.threads
        torn: list[tuple[str, str]] = []
        for first in range(0, guest.shape.most, threads):
            group = [vcpu for vcpu in range(first, first + threads) if vcpu in own]
            cpus = [own[vcpu] for vcpu in group]
            if len({core_of[cpu] for cpu in cpus}) > 1:
                torn.append((cpulist.named(group, "vCPU"), cpulist.named(cpus)))
        if torn:
            vcpus, cpus_of_first = torn[0]
            why = f"{vcpus} of {guest.name} are threads of one core to the guest, but pinned to "
            why += f"{cpus_of_first} of different cores"
            if len(torn) > 1:
                why += f"; so are {counted(len(torn) - 1, 'more core')}"
            shown = [guest.shape.topology, f"{vcpus} on {cpus_of_first}"]
            yield self.of(guest, shown, why)

    def _hidden(
        self, host: Host, guest: Guest, own: Mapping[int, int], core_of: Mapping[int, str]
    ) -> Iterator[Finding]:
        """Yield threads of a core of the host that the guest takes for cores."""
        of_core: dict[str, list[int]] = {}
        for vcpu, cpu in sorted(own.items()):
            of_core.setdefault(core_of[cpu], []).append(vcpu)
        shared = [vcpus for vcpus in of_core.values() if len(vcpus) > 1]
        if shared:
            first = cpulist.named(shared[0], "vCPU")
            why = f"{first} of {guest.name} share a core of the host, but the guest sees a core in each"
            if len(shared) > 1:
                why += f"; so do those of {counted(len(shared) - 1, 'more core')}"
            shown = [guest.shape.topology if guest.shape.threads else "no <topology>"]
            shown.append(_places(host, own))
            yield self.of(
                guest,
                shown,
                why,
                "hw:cpu_threads=2 in the flavor, or hw:cpu_thread_policy=isolate",
                level=Level.INFO,
            )

    def _cells(self, guest: Guest) -> Iterator[Finding]:
        """Yield cells that do not fit the sockets and cores that the guest sees."""
        shape = guest.shape
        per_socket = shape.cores * shape.threads
        for text in shape.cells:
            vcpus = cpulist.find(text) or frozenset()
            sockets = {vcpu // per_socket for vcpu in vcpus}
            whole = _whole(vcpus, per_socket)
            where = cpulist.named(sockets, "socket")
            level: Level | None = None
            if not _whole(vcpus, shape.threads):
                why = f"a NUMA cell of {guest.name} has one thread of a core and not the other"
            elif len(sockets) > 1 and not whole:
                why = f"a NUMA cell of {guest.name} has parts of {where}"
            elif len(sockets) > 1 and shape.cores > 1:
                why, level = f"a NUMA cell of {guest.name} has all of {where}", Level.INFO
            else:
                continue
            yield self._about_cell(guest, text, why, level)

    def _about_cell(self, guest: Guest, text: str, why: str, level: Level | None) -> Finding:
        """Return a finding about a cell, whose remedy is about sockets and cells, not about threads."""
        remedy = "as many hw:cpu_sockets as hw:numa_nodes, each with the vCPUs of a node"
        plain = f"<topology sockets='{len(guest.shape.cells)}'>, and in cpus= of each <cell> the vCPUs of one socket, "
        plain += "which are numbered socket by socket"
        shown = [f"<cell cpus='{text}'>", guest.shape.topology]
        return dataclasses.replace(self.of(guest, shown, why, remedy, level), plain=plain)


def _whole(vcpus: frozenset[int], size: int) -> bool:
    """Return whether ``vcpus`` consist of whole groups of ``size``."""
    groups = {vcpu // size for vcpu in vcpus}
    return len(vcpus) == len(groups) * size


def _places(host: Host, own: Mapping[int, int]) -> str:
    """Return on how many cores a guest's vCPUs are, and on which L3 caches where there are several."""
    cpus = frozenset(own.values())
    core_of = cores(host)
    number = len({core_of.get(cpu, str(cpu)) for cpu in cpus})
    shown = f"vCPUs on {cpulist.named(cpus)}: {counted(number, 'core')}"
    caches = {cpu.l3 for cpu in host.facts.cpus if cpu.l3}
    there = sorted((text for text in caches if cpulist.parse(text) & cpus), key=len)
    if len(caches) > 1 and there:
        shown += f", {counted(len(there), 'L3 cache')}"
    return shown


class HalfCores(GuestRule):
    """A guest that has both threads of some cores has only whole cores."""

    id = "guest-half-cores"
    level = Level.INFO
    why = "Whatever runs on the other thread of a core takes half of it."
    remedy = "hw:cpu_thread_policy=require in the flavor with an even number of vCPUs, or isolate"
    plain = "<vcpupin> on both threads of each core, or on one thread of each, the other left idle"
    source = (
        "Nova's documentation of CPU topologies: threads of a core compete for shared resources"
    )

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        host.need_threads()
        pinned = [guest for guest in host.guests if own_cpus(guest)]
        need(pinned, "no guest with CPUs of its own")
        return pinned

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        own = frozenset(own_cpus(guest).values())
        core_of = cores(host)
        if not core_of.keys() >= own:
            return
        half: set[int] = set()
        others: set[int] = set()
        whole = 0
        for core in sorted({core_of[cpu] for cpu in own}):
            rest = (cpulist.parse(core) & host.sets.online) - own
            if rest:
                half |= cpulist.parse(core) & own
            others |= rest
            whole += not rest
        if whole and len(half) > 1:  # one is the last of an odd number
            why = f"{guest.name} has {counted(whole, 'whole core')}, and of further cores {cpulist.named(half)} "
            why += f"without the other threads, {cpulist.named(others)}: whatever runs there takes half of a core"
            shown = [f"vCPUs on {cpulist.named(own)}"]
            yield self.of(guest, shown, why)


class BothThreads(GuestRule):
    """A guest does not share cores with itself while another node is idle."""

    id = "guest-on-both-threads"
    level = Level.INFO
    why = "Two vCPUs on the threads of one core compete for it while cores of the other node are idle."
    remedy = (
        "measure a flavor with hw:numa_nodes=2 and hw:cpu_thread_policy=isolate: it has a core for each vCPU, and "
        "memory on two nodes"
    )
    plain = "half of the <vcpupin> on the idle node, with a <cell> and a <memnode> for each node"
    source = (
        "Nova's documentation of CPU topologies: threads of a core compete for shared resources"
    )

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        host.need_nodes()
        host.need_threads()
        pinned = [guest for guest in host.guests if own_cpus(guest)]
        need(pinned, "no guest with CPUs of its own")
        return pinned

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        own = frozenset(own_cpus(guest).values())
        core_of = cores(host)
        nodes = host.nodes_of(own)
        if len(nodes) != 1 or not core_of.keys() >= own:
            return
        used = {core_of[cpu] for cpu in own}
        if any(len(cpulist.parse(core)) < 2 or not cpulist.parse(core) <= own for core in used):
            return
        there = {core for cpu, core in core_of.items() if host.sets.node_of[cpu] in nodes}
        idle = _idle_nodes(host, len(own))
        if 2 * len(used) >= len(there) and idle:
            (node,) = nodes
            why = f"{guest.name} has both threads of {counted(len(used), 'core')} of node {node}, which has "
            why += f"{len(there)}; no guest owns a CPU of node {idle[0]}"
            yield self.of(guest, [f"vCPUs on {cpulist.named(own)}"], why)


def _idle_nodes(host: Host, number: int) -> list[int]:
    """Return the nodes on which nobody owns a CPU, and guests may have as many as ``number``.

    Offline CPUs count: Nova parks those that no guest has.
    """
    taken = host.sets.owners.cpus(Owner.GUEST, Owner.PROGRAM)
    allowed = host.dedicated
    if allowed is None:
        allowed = host.present - host.sets.housekeeping
    idle: list[int] = []
    for node in sorted(host.nodes_of(host.present)):
        there = frozenset(cpu for cpu, home in host.sets.node_of.items() if home == node)
        if not there & taken and len(there & allowed) >= number:
            idle.append(node)
    return idle


class WindowsQueues(GuestRule):
    """A Windows guest has no more queues than cores."""

    id = "windows-queues-beyond-cores"
    level = Level.INFO
    why = "Windows' receive side scaling uses no second thread of a core: queues beyond the cores stay idle."
    remedy = "perf:vif_queues at most the number of cores, or a core for each vCPU (hw:cpu_thread_policy=isolate)"
    plain = "<driver queues='N'/> at most its cores, or <topology threads='1'> and a core for each vCPU"
    source = "Microsoft: Introduction to Receive Side Scaling: RSS does not use hyper-threaded processors"

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        windows = [guest for guest in host.guests if guest.inventory.windows]
        need(windows, "no guest that is said to run Windows")
        return windows

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        shape = guest.shape
        number = shape.sockets * shape.cores
        most = max((nic.queues for nic in guest.domain.interfaces), default=0)
        if shape.threads > 1 and shape.fits and most > number:
            why = f"{guest.name} runs Windows on {counted(number, 'core')} and has a NIC of {most} queues"
            yield self.of(guest, [shape.topology, f"<driver queues='{most}'>"], why)
