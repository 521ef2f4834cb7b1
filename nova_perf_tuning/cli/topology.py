# SPDX-License-Identifier: Apache-2.0
"""``nova-perf topology``: the facts of a host, live or recorded."""

import argparse
import dataclasses
from collections.abc import Iterable, Iterator, Sequence

from nova_perf_tuning import atomic_write, cpulist
from nova_perf_tuning.cli import command
from nova_perf_tuning.cli.options import host as host_options
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host import model, notes, novaconf, owners
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.facts import root as root_module
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.printing import counted

#: NICs and guests that the table names one by one; a compute host has hundreds of both, taps last.
_SHOWN = 24

_NODE_HEAD = ("node", "packages", "cores", "threads", "memory", "distances", "CPUs")
_NIC_HEAD = ("device", "kind", "driver", "PCI", "node", "queues", "MTU", "Mbit/s", "member of", "interrupts")
_GUEST_HEAD = ("guest", "process", "vCPUs", "vCPUs on", "emulator on", "I/O threads on", "vhost workers on")
_THREAD_KINDS = ("vcpu", "emulator", "iothread", "vhost")


class Topology(command.PerfCommand):
    """Show CPUs, NUMA nodes, network devices, interrupts and guests of this host or of a recorded one."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        host_options.add_sysroot(parser)
        host_options.add_svg(parser)

    def take_action(self, args: argparse.Namespace) -> None:
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
        except (
            novaconf.NovaConfigError
        ) as error:  # what owns CPUs depends on the sets in it, and nothing else here
            show(facts, [])
            command.say(str(error), prefix="warning: ")


def _claims(root: root_module.Root, facts: model.HostFacts) -> owners.CpuOwners:
    """Return who owns what, as the plan has it; NovaConfigError: the sets of nova.conf cannot be read."""
    return owners.CpuOwners.of(facts, novaconf.cpu_sets(novaconf.found(root)))


def as_json(facts: model.HostFacts) -> dict[str, object]:
    """Return the facts in the documented form; CPU sets are kernel cpulists, what is unknown is null."""
    single = ("online", "isolated", "isolated_now", "nohz_full", "arch", "kernel", "virtualization", "vhost_mode")
    return {
        "cpus": [_fields(cpu) for cpu in facts.cpus],
        "nodes": [
            _fields(node) | {"distances": {str(to): d for to, d in node.distances.items()}} for node in facts.nodes
        ],
        "nics": [_fields(nic) | {"napis": [dataclasses.asdict(napi) for napi in nic.napis]} for nic in facts.nics],
        "irqs": [_fields(irq) for irq in facts.irqs.values()],
        "guests": [
            {
                "name": guest.name,
                "pid": guest.pid,
                "threads": [
                    {name: getattr(thread, name) for name in ("tid", "kind", "index", "affinity", "kernel")}
                    for thread in guest.threads
                ],
                "slice": guest.slice,
            }
            for guest in facts.guests
        ],
        "programs": [_fields(thread) for thread in facts.programs],
        "slices": [_fields(group) for group in facts.slices],
        **{name: getattr(facts, name) for name in single},
        "sysctls": dict(facts.sysctls),
        **notes.as_json(facts.warnings),
    }


def _fields(
    item: model.Cpu | model.Node | model.Nic | model.Irq | model.ProgramThread | model.Slice,
) -> dict[str, object]:
    """Return the fields of an object of the model; ``dataclasses.asdict`` would copy each value."""
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def show(facts: model.HostFacts, programs: Sequence[owners.Claim]) -> None:
    command.say(_summary(facts, programs), "")
    command.print_table(_NODE_HEAD, list(_node_rows(facts)))
    for head, rows in ((_NIC_HEAD, _nic_rows(facts)), (_GUEST_HEAD, _guest_rows(facts.guests))):
        if rows:
            print()
            command.print_table(head, rows, most=_SHOWN)
    if facts.warnings:
        print()
    command.say(*map(notes.text, facts.warnings), prefix="warning: ")


def _summary(facts: model.HostFacts, programs: Sequence[owners.Claim]) -> str:
    online = [cpu for cpu in facts.cpus if cpu.online]
    offline = cpulist.format(cpu.id for cpu in facts.cpus if not cpu.online)
    cores = len({cpu.siblings for cpu in online})
    packages = len({cpu.package for cpu in online if cpu.package is not None})
    counts = [(cores, "core"), (packages, "package"), (len(facts.nodes), "NUMA node")]
    counts += [(len(facts.irqs), "interrupt")] if facts.irqs else []  # a recorded host may lack /proc/irq
    counts += [(len(facts.guests), "guest")]
    lines = [
        f"Linux {facts.kernel or 'unknown'} on {facts.arch or 'unknown hardware'}, virtualization:"
        f" {facts.virtualization or 'unknown'}",
        f"CPUs online: {facts.online or 'none'}; " + ", ".join(counted(number, word) for number, word in counts),
    ]
    sets = [("offline", offline), ("isolated", facts.isolated), ("nohz_full", facts.nohz_full)]
    sets += [("isolated by partitions", facts.isolated_now)]
    for kind in model.KINDS:
        sets.append((f"{kind} CPUs", cpulist.format(cpu.id for cpu in facts.cpus if cpu.kind == kind)))
    for name, cpus in grouped((claim.name, claim.cpus) for claim in programs).items():
        sets.append((f"threads of {name} own", cpulist.format(frozenset[int]().union(*cpus))))
    named = [f"{name}: {cpus}" for name, cpus in sets if cpus]
    return "\n".join([*lines, *(["; ".join(named)] if named else [])])


def _node_rows(facts: model.HostFacts) -> Iterator[tuple[object, ...]]:
    """Yield a row for each node, and one for CPUs of which none is known."""
    cpus = grouped((cpu.node, cpu) for cpu in facts.cpus if cpu.online)
    nodes = {node.id: node for node in facts.nodes}
    for number in dict.fromkeys([*cpus, *nodes]):
        members, node = cpus.get(number, []), None if number is None else nodes.get(number)
        memory = None if node is None or node.memory_kib is None else f"{node.memory_kib / (1 << 20):.1f} GiB"
        yield (
            number,
            cpulist.format({cpu.package for cpu in members if cpu.package is not None}) or None,
            len({cpu.siblings for cpu in members}),
            len(members),
            memory,
            " ".join(map(str, node.distances.values())) if node and node.distances else None,
            cpulist.format(cpu.id for cpu in members) or "none",
        )


def _nic_rows(facts: model.HostFacts) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for nic in sorted(facts.nics, key=lambda nic: nic.kind == "tap"):
        irqs = [facts.irqs[irq] for irq in nic.irqs if irq in facts.irqs]
        cpus = _union(irq.effective or irq.affinity for irq in irqs) if irqs else "unknown"
        where = (nic.driver, nic.pci, nic.node, f"{nic.rx_queues}/{nic.tx_queues}", nic.mtu, nic.speed_mbps)
        interrupts = f"{cpulist.format(nic.irqs)} on {cpus}" if nic.irqs else "none"
        rows.append((nic.name, nic.kind, *where, nic.bridge or nic.bond, interrupts))
    return rows


def _guest_rows(guests: Sequence[model.GuestProcess]) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for guest in guests:
        used = [
            _union(thread.affinity for thread in guest.threads if thread.kind == kind) for kind in _THREAD_KINDS
        ]
        rows.append((guest.name, guest.pid, sum(thread.kind == "vcpu" for thread in guest.threads), *used))
    return rows


def _union(texts: Iterable[str | None]) -> str:
    return cpulist.format(cpulist.union({text for text in texts if text})) or "none"
