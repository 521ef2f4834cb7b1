"""``nova-perf topology``: the facts of a host, live or recorded."""

from __future__ import annotations

import argparse
import collections
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.cli import command, plan_options
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.printing import counted

#: Taps and guests that the table names one by one; a compute host has hundreds of both.
_SHOWN = 16
#: A longer list of CPUs says nothing to a person.
_MAX_LIST = 40
#: Up to so many nodes have their distances in the table.
_MAX_DISTANCES = 16

_NODE_HEAD = ("package", "node", "cores", "threads", "memory", "distances", "CPUs")
_NIC_HEAD = ("device", "kind", "driver", "PCI", "node", "queues", "MTU", "Mbit/s", "member of", "interrupts")
_GUEST_HEAD = ("guest", "process", "vCPUs", "vCPUs on", "emulator on", "I/O threads on", "vhost workers on")


class Topology(command.PerfCommand):
    """Show CPUs, NUMA nodes, network devices, interrupts and guests of this host or of a recorded one."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        plan_options.add_sysroot(parser)

    def run_command(self, args: argparse.Namespace) -> int:
        facts = reader.read_host(args.sysroot)
        if args.format == "json":
            command.print_json(as_json(facts))
        else:
            show(facts)
        return int(errors.ExitCode.PASS)


def as_json(facts: model.HostFacts) -> dict[str, Any]:
    """Return the facts in the documented form; CPU sets are kernel cpulists, what is unknown is null."""
    single = ("online", "isolated", "nohz_full", "arch", "kernel", "virtualization")
    return {
        "cpus": [_fields(cpu) for cpu in facts.cpus],
        "nodes": [
            _fields(node) | {"distances": {str(to): d for to, d in node.distances.items()}} for node in facts.nodes
        ],
        "nics": [_fields(nic) for nic in facts.nics],
        "irqs": [_fields(irq) for irq in facts.irqs.values()],
        "guests": [
            {
                "name": guest.name,
                "pid": guest.pid,
                "threads": [
                    {name: getattr(thread, name) for name in ("tid", "kind", "index", "affinity", "kernel")}
                    for thread in guest.threads
                ],
            }
            for guest in facts.guests
        ],
        **{name: getattr(facts, name) for name in single},
        "sysctls": dict(facts.sysctls),
        "warnings": list(facts.warnings),
    }


def _fields(item: Any) -> dict[str, Any]:
    """Return the fields of an object of the model; ``dataclasses.asdict`` would copy each value."""
    return {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}


def show(facts: model.HostFacts) -> None:
    """Print the facts as tables for people."""
    print(_summary(facts))
    print()
    command.print_table(_NODE_HEAD, list(_node_rows(facts)))
    if facts.nics:
        print()
        command.print_table(_NIC_HEAD, list(_nic_rows(facts)))
    if facts.guests:
        print()
        command.print_table(_GUEST_HEAD, list(_guest_rows(facts.guests)))
    if facts.warnings:
        print()
    for warning in facts.warnings:
        command.say(f"warning: {warning}")


def _summary(facts: model.HostFacts) -> str:
    online = [cpu for cpu in facts.cpus if cpu.online]
    offline = cpulist.format(cpu.id for cpu in facts.cpus if not cpu.online)
    cores = len({cpu.siblings for cpu in online})
    packages = len({cpu.package for cpu in online if cpu.package is not None})
    counts = [(cores, "core"), (packages, "package"), (len(facts.nodes), "NUMA node")]
    counts += [(len(facts.irqs), "interrupt")] if facts.irqs else []  # a recording may lack /proc/irq
    counts += [(len(facts.guests), "guest")]
    lines = [
        f"Linux {facts.kernel or 'unknown'} on {facts.arch or 'unknown hardware'}, virtualization:"
        f" {facts.virtualization or 'unknown'}",
        f"CPUs online: {facts.online or 'none'}; " + ", ".join(counted(number, word) for number, word in counts),
    ]
    sets = (("offline", offline), ("isolated", facts.isolated), ("nohz_full", facts.nohz_full))
    named = [f"{name}: {cpus}" for name, cpus in sets if cpus]
    capacities = collections.Counter(cpu.capacity for cpu in online if cpu.capacity is not None)
    if len(capacities) > 1:
        named.append(
            "capacity: " + ", ".join(f"{count} CPUs of {rate}" for rate, count in sorted(capacities.items()))
        )
    return "\n".join([*lines, *(["; ".join(named)] if named else [])])


def _node_rows(facts: model.HostFacts) -> Iterator[tuple[object, ...]]:
    """Yield a row for each package's part of each node, then one for each node without CPUs."""
    groups: dict[tuple[int | None, int | None], list[model.Cpu]] = {}
    for cpu in facts.cpus:
        if cpu.online:
            groups.setdefault((cpu.package, cpu.node), []).append(cpu)
    nodes = {node.id: node for node in facts.nodes}
    for (package, node), cpus in sorted(groups.items(), key=lambda item: item[1][0].id):
        cores = len({cpu.siblings for cpu in cpus})
        yield (
            *(package, node, cores, len(cpus)),
            *_node_columns(nodes.get(node) if node is not None else None),
            cpulist.format(cpu.id for cpu in cpus),
        )
    with_cpus = {node for _, node in groups}
    for number, one in nodes.items():
        if number not in with_cpus:
            yield "-", str(number), "0", "0", *_node_columns(one), "none"


def _node_columns(node: model.Node | None) -> tuple[str, str]:
    if node is None:
        return "-", "-"
    memory = "-" if node.memory_kib is None else f"{node.memory_kib / (1 << 20):.1f} GiB"
    distances = list(node.distances.values())
    if len(distances) > _MAX_DISTANCES:
        return memory, f"{min(distances)} to {max(distances)}"
    return memory, " ".join(map(str, distances)) or "-"


def _nic_rows(facts: model.HostFacts) -> Iterator[tuple[object, ...]]:
    taps = [nic for nic in facts.nics if nic.kind == "tap"]
    summed = len(taps) > _SHOWN
    for nic in facts.nics:
        if not (summed and nic.kind == "tap"):
            queues, member = f"{nic.rx_queues}/{nic.tx_queues}", nic.bridge or nic.bond
            where = (nic.driver, nic.pci, nic.node, queues, nic.mtu, nic.speed_mbps, member)
            yield (nic.name, nic.kind, *where, _interrupts(facts, nic))
    if summed:
        masters = collections.Counter(nic.bridge or nic.bond or "no bridge" for nic in taps)
        members = ", ".join(f"{count} of {name}" for name, count in masters.most_common(3))
        yield f"{len(taps)} taps", "tap", *[None] * 6, members, "none (-f json lists them all)"


def _interrupts(facts: model.HostFacts, nic: model.Nic) -> str:
    """Return numbers of a NIC's interrupts and the CPUs that they go to now; of many CPUs their nodes."""
    if not nic.irqs:
        return "none"
    known = [facts.irqs[irq] for irq in nic.irqs if irq in facts.irqs]
    if not known:
        return f"{cpulist.format(nic.irqs)}, CPUs unknown"
    cpus = _union(irq.effective or irq.affinity for irq in known)
    if len(cpus) > _MAX_LIST:
        used = cpulist.parse(cpus)
        nodes = {cpu.node for cpu in facts.cpus if cpu.id in used and cpu.node is not None}
        cpus = f"{len(used)} CPUs of nodes {cpulist.format(nodes) or '-'}"
    else:
        cpus = f"CPUs {cpus}"
    return f"{cpulist.format(nic.irqs)} on {cpus}"


def _guest_rows(guests: Sequence[model.GuestProcess]) -> Iterator[tuple[str, ...]]:
    for guest in guests[:_SHOWN]:
        by_kind: dict[str, list[model.Thread]] = {}
        for thread in guest.threads:
            by_kind.setdefault(thread.kind, []).append(thread)
        columns = [
            _union(thread.affinity for thread in by_kind.get(kind, ()))
            for kind in ("vcpu", "emulator", "iothread")
        ]
        workers = by_kind.get("vhost", [])
        vhost = f"{_union(worker.affinity for worker in workers)} ({len(workers)})" if workers else "none"
        yield guest.name, str(guest.pid), str(len(by_kind.get("vcpu", ()))), *columns, vhost
    if len(guests) > _SHOWN:
        yield f"{len(guests) - _SHOWN} more", "", "", "", "", "", "-f json lists them all"


def _union(texts: Iterable[str | None]) -> str:
    cpus: frozenset[int] = frozenset()
    for text in {text for text in texts if text}:
        cpus |= cpulist.parse(text)
    return cpulist.format(cpus) or "none"
