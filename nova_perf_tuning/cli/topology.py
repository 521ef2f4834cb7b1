# SPDX-License-Identifier: Apache-2.0
"""``nova-perf topology``: the facts of a host, live or recorded."""

import argparse
import dataclasses
from collections.abc import Iterable, Sequence

from nova_perf_tuning import atomic_write, cpulist
from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.cli.options import output
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model import channels, host_model, messages, owners
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.host.plan import caches, layout, nics, reach
from nova_perf_tuning.printing import counted

#: NICs and guests that the table names one by one; a compute host has hundreds of both, taps last.
_SHOWN = 24
#: Length of a list of CPUs above which the table counts those that take a NIC's interrupts.
_LONG = 80

_L3_HEAD = ("node", "cores", "L3 group of CPUs")
_L2_HEAD = ("node", "cores", "L2 group of CPUs")
_BOOK_HEAD = ("drawer", "book", "packages", "cores", "CPUs")
_NIC_HEAD = (
    "device",
    "kind",
    "driver",
    "PCI",
    "node",
    "queues",
    "MTU",
    "Mbit/s",
    "member of",
    "interrupts",
)
_GUEST_HEAD = (
    "guest",
    "process",
    "vCPUs",
    "vCPUs on",
    "emulator on",
    "I/O threads on",
    "vhost workers on",
)
_CHANNEL_HEAD = ("no.", "work of the host", "may run on")
_THREAD_KINDS = ("vcpu", "emulator", "iothread", "vhost")

#: Objects of the model that JSON shows with all their fields.
_Item = (
    host_model.Cpu
    | host_model.Node
    | host_model.Nic
    | host_model.Irq
    | host_model.KernelThread
    | host_model.ProgramThread
    | host_model.Slice
)


class Topology(command.PerfCommand):
    """Show CPUs, NUMA nodes, network devices, interrupts and guests of this host or of a recorded one."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        host_options.add_sysroot(parser)
        host_options.add_svg(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        output.check([args.svg], [args.sysroot])
        root = reader.open_root(args.sysroot)
        facts = reader.read_root(root)
        if args.svg:
            claims = _claims(root, facts)
            with atomic_write.writing(args.svg) as file:
                file.write(svg.draw(facts, claims, args.svg_name))
        if args.format == "json":
            command.print_json(as_json(facts))
            return
        try:
            show(facts, _claims(root, facts).of_kind(owners.Owner.PROGRAM))
        except novaconf.NovaConfigError as error:
            # What owns CPUs depends on the sets in it, and nothing else here.
            show(facts, [])
            command.say(str(error), prefix="warning: ")
        host_options.show_picture(args)


def _claims(root: Root, facts: host_model.HostFacts) -> owners.CpuOwners:
    """Return who owns what, as the plan has it; NovaConfigError: the sets of nova.conf cannot be read."""
    return owners.CpuOwners.of(facts, novaconf.cpu_sets(novaconf.found(root)))


def as_json(facts: host_model.HostFacts) -> dict[str, object]:
    """Return the facts in the documented form; CPU sets are kernel cpulists, what is unknown is null."""
    return {
        "cpus": _all_fields(facts.cpus),
        "nodes": [_node(node) for node in facts.nodes],
        "nics": [_nic(nic) for nic in facts.nics],
        "irqs": _all_fields(facts.irqs.values()),
        "guests": [_guest(guest) for guest in facts.guests],
        "programs": _all_fields(facts.programs),
        "slices": _all_fields(facts.slices),
        "online": facts.online,
        "isolated": facts.isolated,
        "isolated_now": facts.isolated_now,
        "nohz_full": facts.nohz_full,
        "arch": facts.arch,
        "kernel": facts.kernel,
        "virtualization": facts.virtualization,
        "vhost_mode": facts.vhost_mode,
        "services": facts.services,
        "sysctls": dict(facts.sysctls),
        "new_irq_mask": facts.new_irq_mask,
        "workqueue_mask": facts.workqueue_mask,
        "kernel_threads": _kernel_threads(facts),
        "namespaces": facts.namespaces,
        "channels": _channels(facts),
        **messages.as_json(facts.warnings),
    }


def _node(node: host_model.Node) -> dict[str, object]:
    fields = _fields(node)
    fields["distances"] = {str(to): distance for to, distance in node.distances.items()}
    return fields


def _nic(nic: host_model.Nic) -> dict[str, object]:
    fields = _fields(nic)
    fields["napis"] = [dataclasses.asdict(napi) for napi in nic.napis]
    return fields


def _guest(guest: host_model.GuestProcess) -> dict[str, object]:
    threads = []
    for thread in guest.threads:
        fields = {
            "tid": thread.tid,
            "kind": thread.kind,
            "index": thread.index,
            "affinity": thread.affinity,
            "kernel": thread.kernel,
        }
        threads.append(fields)
    return {"name": guest.name, "pid": guest.pid, "threads": threads, "slice": guest.slice}


def _channels(facts: host_model.HostFacts) -> list[dict[str, object]]:
    """Return every channel with its CPUs now; null where no fact says them."""
    reached = reach.now(facts)
    rows: list[dict[str, object]] = []
    for number, row in enumerate(channels.CHANNELS, 1):
        cpus = None
        if row.channel in reached:
            cpus = cpulist.format(reached[row.channel])
        rows.append(
            {
                "number": number,
                "channel": row.channel.value,
                "compared_by": row.proof.value,
                "cpus": cpus,
            }
        )
    return rows


def _channel_rows(facts: host_model.HostFacts) -> list[tuple[object, ...]]:
    reached = reach.now(facts)
    rows: list[tuple[object, ...]] = []
    for number, row in enumerate(channels.CHANNELS, 1):
        if row.channel in reached:
            rows.append((number, row.title, cpulist.format(reached[row.channel])))
    return rows


def _kernel_threads(facts: host_model.HostFacts) -> list[dict[str, object]] | None:
    if facts.kernel_threads is None:
        return None
    return _all_fields(facts.kernel_threads)


def _all_fields(items: Iterable[_Item]) -> list[dict[str, object]]:
    return [_fields(item) for item in items]


def _fields(item: _Item) -> dict[str, object]:
    """Return the fields of an object of the model; ``dataclasses.asdict`` would copy each value."""
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def show(facts: host_model.HostFacts, programs: Sequence[owners.Claim]) -> None:
    command.say(*_summary(facts, programs), "")
    command.print_table(_node_head(facts), _node_rows(facts))
    for head, rows in (
        (_BOOK_HEAD, _book_rows(facts)),
        (_L3_HEAD, _l3_rows(facts)),
        (_L2_HEAD, _l2_rows(facts)),
        (_NIC_HEAD, _nic_rows(facts)),
        (_GUEST_HEAD, _guest_rows(facts.guests)),
        (_CHANNEL_HEAD, _channel_rows(facts)),
    ):
        if rows:
            print()
            command.print_known(head, rows, most=_SHOWN)
    unseen = list(channels.unseen(facts))
    if unseen:
        command.say("", channels.not_looked_at(unseen))
    if facts.warnings:
        print()
    for note in facts.warnings:
        command.say(f"warning: {messages.of(note)}")


def _summary(facts: host_model.HostFacts, programs: Sequence[owners.Claim]) -> list[str]:
    """Return the host in two lines, and in a third one the sets of CPUs that it has."""
    kernel, hardware = facts.kernel or "unknown", facts.arch or "unknown hardware"
    virtualization = facts.virtualization or "unknown"
    lines = [
        f"Linux {kernel} on {hardware}, virtualization: {virtualization}",
        f"CPUs online: {facts.online or 'none'}; {_counts(facts)}",
    ]
    named = []
    for name, cpus in _sets(facts, programs):
        if cpus:
            named.append(f"{name}: {cpus}")
    if named:
        lines.append("; ".join(named))
    return lines


def _counts(facts: host_model.HostFacts) -> str:
    """Return how many cores, packages, L3 caches, nodes, interrupts and guests the host has."""
    online = [cpu for cpu in facts.cpus if cpu.online]
    cores = {cpu.siblings for cpu in online}
    packages = {cpu.package for cpu in online} - {None}
    counts = [counted(len(cores), "core"), counted(len(packages), "package")]
    for name in ("book", "drawer"):
        numbers = {getattr(cpu, name) for cpu in online} - {None}
        if numbers:
            counts.append(counted(len(numbers), name))
    l3_caches = {cpu.l3 for cpu in online} - {None}
    if l3_caches:
        counts.append(counted(len(l3_caches), "L3 cache"))
    counts.append(counted(len(facts.nodes), "NUMA node"))
    if facts.irqs:  # a recorded host may lack /proc/irq
        counts.append(counted(len(facts.irqs), "interrupt"))
    counts.append(_guests(facts))
    return ", ".join(counts)


def _guests(facts: host_model.HostFacts) -> str:
    """Return how many guests there are, and how many of them run where not all do."""
    names = {guest.name for guest in facts.guests} | {domain.name for domain in facts.domains}
    number = counted(len(names), "guest")
    if len(facts.guests) == len(names):
        return number
    running = str(len(facts.guests))
    if not facts.guests and facts.kernel_threads is None:
        running = "unknown how many"
    return f"{number} ({running} running)"


def _sets(
    facts: host_model.HostFacts, programs: Sequence[owners.Claim]
) -> list[tuple[str, str | None]]:
    """Return name and CPUs of the sets that a host may have; empty or None where it has none."""
    sets: list[tuple[str, str | None]] = [
        ("offline", cpulist.format(cpu.id for cpu in facts.cpus if not cpu.online)),
        ("isolated", facts.isolated),
        ("nohz_full", facts.nohz_full),
        ("isolated by partitions", facts.isolated_now),
        ("for services", facts.services),
    ]
    for kind in host_model.KINDS:
        members = [cpu.id for cpu in facts.cpus if cpu.kind == kind]
        sets.append((f"{kind} CPUs", cpulist.format(members)))
    if not any(cpu.kind for cpu in facts.cpus):
        sets.append(("weaker cores", cpulist.format(layout.weak_cpus(facts))))
    for name, claimed in grouped((claim.name, claim.cpus) for claim in programs).items():
        own = frozenset[int]().union(*claimed)
        sets.append((f"threads of {name} own", cpulist.format(own)))
    return sets


def _node_head(facts: host_model.HostFacts) -> tuple[str, ...]:
    """Return the head of the nodes' table, with the nodes to which the distances are."""
    numbers = sorted(node.id for node in facts.nodes)
    distances = f"distances to {' '.join(map(str, numbers))}".strip()
    return ("node", "packages", "cores", "threads", "memory", distances, "CPUs")


def _node_rows(facts: host_model.HostFacts) -> list[tuple[object, ...]]:
    """Return a row for each node, and one for CPUs of which none is known."""
    cpus = grouped((cpu.node, cpu) for cpu in facts.cpus if cpu.online)
    nodes: dict[int | None, host_model.Node] = {}
    for node in facts.nodes:
        nodes[node.id] = node
    numbers = sorted({*cpus, *nodes}, key=lambda number: (number is None, number or 0))
    rows: list[tuple[object, ...]] = []
    for number in numbers:
        members = cpus.get(number, [])
        memory = distances = None
        if number in nodes:
            memory = _gibibytes(nodes[number].memory_kib)
            distances = " ".join(str(far) for _to, far in sorted(nodes[number].distances.items()))
        packages = cpulist.format({cpu.package for cpu in members if cpu.package is not None})
        cores = len({cpu.siblings for cpu in members})
        on = cpulist.format(cpu.id for cpu in members)
        row = (
            number,
            packages or None,
            cores,
            len(members),
            memory,
            distances or None,
            on or "none",
        )
        rows.append(row)
    return rows


def _l3_rows(facts: host_model.HostFacts) -> list[tuple[object, ...]]:
    """Return a row for each L3 group of the nodes that have several."""
    l3_of = caches.groups(facts)
    rows: dict[tuple[int | None, str], set[str]] = {}
    for cpu in facts.cpus:
        if cpu.id in l3_of:
            rows.setdefault((cpu.node, l3_of[cpu.id]), set()).add(cpu.siblings)
    return [(node, len(cores), group) for (node, group), cores in rows.items()]


def _l2_rows(facts: host_model.HostFacts) -> list[tuple[object, ...]]:
    """Return a row for each L2 cache that several cores share."""
    rows: dict[tuple[int | None, str], set[str]] = {}
    for cpu in facts.cpus:
        if cpu.l2 is not None:
            rows.setdefault((cpu.node, cpu.l2), set()).add(cpu.siblings)
    return [(node, len(cores), group) for (node, group), cores in rows.items() if len(cores) > 1]


def _book_rows(facts: host_model.HostFacts) -> list[tuple[object, ...]]:
    """Return a row for each book of s390, where it has several: CPUs of two are far from each other."""
    books = grouped(((cpu.drawer, cpu.book), cpu) for cpu in facts.cpus if cpu.book is not None)
    if len(books) < 2:
        return []
    rows: list[tuple[object, ...]] = []
    for (drawer, book), members in books.items():
        packages = cpulist.format({cpu.package for cpu in members if cpu.package is not None})
        cores = len({cpu.siblings for cpu in members})
        rows.append((drawer, book, packages, cores, cpulist.format(cpu.id for cpu in members)))
    return rows


def _gibibytes(kib: int | None) -> str | None:
    if kib is None:
        return None
    return f"{kib / (1 << 20):.1f} GiB"


def _nic_rows(facts: host_model.HostFacts) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for nic in sorted(facts.nics, key=lambda nic: nic.kind == "tap"):
        queues = None  # each has one at least: none is seen where the record lacks them
        if nic.rx_queues or nic.tx_queues:
            queues = f"{nic.rx_queues}/{nic.tx_queues}"
        interrupts = None
        if nic.irqs:
            interrupts = _interrupts(facts, nic)
        row = (
            nic.name,
            nic.kind,
            nic.driver,
            nic.pci,
            nic.node,
            queues,
            nic.mtu,
            nic.speed_mbps,
            nic.bridge or nic.bond,
            interrupts,
        )
        rows.append(row)
    return rows


def _interrupts(facts: host_model.HostFacts, nic: host_model.Nic) -> str:
    """Return the interrupts of a NIC and where they run; apart those that never fire.

    A vector without a handler was allocated and is not requested now: its queue is closed.
    """
    firing = nics.firing(facts, nic, ())
    if not firing:  # those of another port of the same device, or none is in this record
        return cpulist.format(nic.irqs)
    numbers = {irq.number for irq in firing}
    text = cpulist.format(numbers)
    if any(irq.serving is not None for irq in firing):
        running = _union(irq.serving for irq in firing)
        if len(running) > _LONG:
            running = counted(len(cpulist.parse(running)), "CPU")
        text += f" on {running}"
    asleep: list[int] = []
    for number in nic.irqs:
        irq = facts.irqs.get(number)
        if irq is not None and irq.name is None and number not in numbers:
            asleep.append(number)
    if asleep:
        text += f"; {cpulist.format(asleep)} without handler"
    return text


def _guest_rows(guests: Sequence[host_model.GuestProcess]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for guest in guests:
        vcpus = sum(thread.kind == "vcpu" for thread in guest.threads)
        row: list[object] = [guest.name, guest.pid, vcpus]
        for kind in _THREAD_KINDS:
            affinities = [thread.affinity for thread in guest.threads if thread.kind == kind]
            if affinities and not any(affinities):
                row.append("unknown")
            else:
                row.append(_union(affinities))
        rows.append(tuple(row))
    return rows


def _union(texts: Iterable[str | None]) -> str:
    return cpulist.format(cpulist.union({text for text in texts if text})) or "none"
