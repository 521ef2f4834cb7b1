# SPDX-License-Identifier: Apache-2.0
"""Pins of guests and their memory against the host, running or not."""

from collections.abc import Iterator, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.audit.base import GuestRule
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.model import owners
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, named, need

#: Guests that are shown where the rule holds.
_SHOWN: Final = 8


class GuestPins(GuestRule):
    """Each vCPU is pinned to a CPU of this host other than CPU 0, on the node of its memory."""

    id = "guest-pins"
    level = Level.ERROR
    why = "libvirt refuses to start it (Invalid argument), or its vCPUs fetch every byte over the interconnect."
    remedy = "migrate it: Nova then pins it again"
    plain = "<cputune> with a CPU for each vCPU, but CPU 0, and <numatune>, that fit this host"
    source = "libvirt: CPU tuning and NUMA node tuning; kubevirt/kubevirt #16992"

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        pinned: list[Guest] = []
        for guest in host.guests:
            domain = guest.domain
            if domain.vcpu_pins or domain.iothread_pins or domain.emulator_pin is not None:
                pinned.append(guest)
        return pinned

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        guests = self.guests(host)
        for guest in guests[:_SHOWN]:
            pins: list[str] = []
            for kind, _element, texts in guest.domain.pins():
                if texts:
                    pins.append(f"{kind} on {cpulist.named(cpulist.union(texts))}")
            yield guest.path, ", ".join(pins)
        if len(guests) > _SHOWN:
            yield "guests", f"{len(guests) - _SHOWN} more"

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        yield from self._absent(host, guest)
        yield from self._cpu_0(host, guest)
        yield from self._crowded(guest)
        yield from self._unbound(host, guest)
        memory = guest.inventory.memory or (("", guest.domain.memory_nodes or ""),)
        for vcpus, nodes in memory:
            yield from self._far(host, guest, vcpus, nodes)
        yield from self._threads_far(host, guest)

    def _absent(self, host: Host, guest: Guest) -> Iterator[Finding]:
        """Yield the pins to CPUs that this host lacks."""
        present = host.present
        if not present:
            return
        for _kind, element, texts in guest.domain.pins():
            absent: set[int] = set()
            evidence: list[str] = []
            level: Level | None = Level.WARNING
            for text in texts:
                cpus = cpulist.parse(text)
                if cpus - present:
                    absent |= cpus - present
                    evidence.append(f"<{element} cpuset='{text}'>")
                if not cpus & present:
                    level = None
            if absent:
                why = f"{element} of {guest.name} names {cpulist.named(absent)}, which this host lacks"
                yield self.of(guest, evidence, why, level=level)

    def _cpu_0(self, host: Host, guest: Guest) -> Iterator[Finding]:
        """Yield a guest with a vCPU that owns CPU 0; of a set in nova.conf nova-cpu-sets says it once."""
        owned = owners.owned_cpus(guest.domain) & host.sets.online
        if 0 not in owned or 0 in (host.dedicated or ()):
            return
        yield self.of(
            guest,
            ["<vcpupin cpuset='0'>"],
            f"a vCPU of {guest.name} owns CPU 0: timers and interrupts without an affinity go there",
            "keep CPU 0 and its sibling out of [compute] cpu_dedicated_set, then migrate it: "
            "Nova then pins it again",
            Level.INFO,
        )

    def _crowded(self, guest: Guest) -> Iterator[Finding]:
        """Yield a guest several of whose vCPUs are pinned to one CPU, or all to fewer CPUs than vCPUs."""
        pins = guest.domain.vcpu_pins
        on_cpu = grouped((text, vcpu) for vcpu, text in sorted(pins.items()) if text.isdecimal())
        shown: list[str] = []
        for cpu, vcpus in on_cpu.items():
            if len(vcpus) > 1:
                shown.append(f"{cpulist.named(vcpus, 'vCPU')} on CPU {cpu}")
        what = named(shown)
        every = cpulist.union(pins.values())
        if not shown and len(pins) == guest.domain.vcpus > len(every):
            what = f"{counted(len(pins), 'vCPU')} on {cpulist.named(every)}"
            shown.append(what)
        if shown:
            why = f"{what} of {guest.name}: they run in turn, and wait for one another a whole time slice where "
            why += "one holds a lock"
            yield self.of(guest, [named(shown, 8)], why, level=Level.WARNING)

    def _unbound(self, host: Host, guest: Guest) -> Iterator[Finding]:
        """Yield a guest whose vCPUs are on some nodes while its memory may be on others.

        Small pages come from the node of the vCPU that touches them first; huge pages are
        preallocated by QEMU's own threads.
        """
        domain = guest.domain
        bound = domain.memory_nodes is not None or guest.inventory.memory
        if bound or domain.numad_memory or not domain.dedicated:
            return
        near = host.nodes_of(cpulist.union(domain.vcpu_pins.values()))
        with_memory = frozenset(node.id for node in host.facts.nodes if node.memory_kib != 0)
        if not near or with_memory <= near:
            return
        level = Level.INFO
        pages = "small pages"
        if guest.inventory.hugepages:
            level = Level.WARNING
            pages = "huge pages"
        yield self.of(
            guest,
            [f"no <numatune>, {pages}"],
            f"vCPUs of {guest.name} are pinned to {cpulist.named(near, 'node')}, its memory may come from "
            f"{cpulist.named(with_memory, 'node')}",
            level=level,
        )

    def _threads_far(self, host: Host, guest: Guest) -> Iterator[Finding]:
        """Yield that emulator or I/O threads are pinned to other nodes than those of the vCPUs.

        Where Nova has no other CPU for them, host-cpus-few says it once.
        """
        pins = guest.domain.vcpu_pins
        near = host.nodes_of(cpulist.union(pins.values()))
        kept = host.nodes_of(host.sets.housekeeping)
        if not near or (guest.domain.specs.of_nova and not near & kept):
            return
        shown: list[str] = []
        far: frozenset[int] = frozenset()
        for kind, element, texts in guest.domain.pins():
            for text in texts if kind != "vcpu" else ():
                nodes = host.nodes_of(cpulist.parse(text))
                if nodes and not nodes & near:
                    shown.append(f"<{element} cpuset='{text}'>")
                    far |= nodes
        if shown:
            vcpus = f"vCPUs on {cpulist.named(near, 'node')}"
            why = (
                f"emulator or I/O threads of {guest.name} are pinned to {cpulist.named(far, 'node')}, its {vcpus}: "
                "they read and write its memory over the interconnect"
            )
            remedy = f"give [compute] cpu_shared_set CPUs of {cpulist.named(near, 'node')}, then migrate it"
            yield self.of(guest, shown, why, remedy, Level.INFO)

    def _far(self, host: Host, guest: Guest, vcpus: str, nodes: str) -> Iterator[Finding]:
        """Yield those of ``vcpus`` (empty: all that are pinned) whose pins are on none of
        ``nodes``.
        """
        if not nodes:
            return
        pins = guest.domain.vcpu_pins
        far: list[int] = []
        cpus: frozenset[int] = frozenset()
        for vcpu in cpulist.parse(vcpus) or pins:
            pinned = cpulist.parse(pins.get(vcpu, ""))
            near = host.nodes_of(pinned)
            if near and not near & cpulist.parse(nodes):
                far.append(vcpu)
                cpus |= pinned
        if far:
            named_vcpus = cpulist.named(far, "vCPU")
            yield self.of(
                guest,
                [f"memory on node {nodes}", f"{named_vcpus} on {cpulist.named(cpus)}"],
                f"{named_vcpus} of {guest.name} cannot run near the memory on node {nodes}",
                level=Level.WARNING,
            )
