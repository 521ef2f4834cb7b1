"""Which host CPUs may serve a guest, from Nova's configuration and libvirt's capabilities."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Set
from typing import Any

import nova.conf
from nova.virt import hardware

CONF = nova.conf.CONF


def shared_cpus(host: Any, nodes: Iterable[int] | None, *, known_online: bool = False) -> frozenset[int] | None:
    """Return the online CPUs of ``[compute] cpu_shared_set``, those of ``nodes`` only if given.

    None when the option is not set. Without it Nova has no place for emulator threads but the guest's own
    CPUs, and what is left over beside ``cpu_dedicated_set`` may belong to others (a DPDK switch).

    :param host: Nova's ``libvirt.host.Host``.
    :param known_online: all that the option names are online; libvirt need not be asked.
    """
    text = CONF.compute.cpu_shared_set
    if not text:
        return None
    if known_online and nodes is not None:
        return _shared_on(text, host.get_capabilities().host.topology, frozenset(nodes))
    return _online(host, _shared(text), nodes)


@functools.lru_cache(maxsize=4)
def _shared(text: str) -> frozenset[int]:
    return frozenset(hardware.parse_cpu_spec(text))


@functools.lru_cache(maxsize=64)
def _shared_on(text: str, topology: Any, nodes: frozenset[int]) -> frozenset[int]:
    return _of_nodes(_shared(text), topology, nodes)


def housekeeping_cpus(host: Any, nodes: Iterable[int] | None, *, known_online: bool = False) -> int | None:
    """Return how many CPUs may serve a guest's queues: shared ones, else those not dedicated; None: unknown.

    :param nodes, known_online: as of :func:`shared_cpus`.
    """
    shared = shared_cpus(host, nodes, known_online=known_online)
    if shared is not None:
        return len(shared)
    dedicated = hardware.get_cpu_dedicated_set()
    if dedicated is None:
        return None
    return len(_online(host, host.get_online_cpus() - dedicated, nodes))


def _online(host: Any, cpus: Set[int], nodes: Iterable[int] | None) -> frozenset[int]:
    if nodes is not None:
        cpus = _of_nodes(cpus, host.get_capabilities().host.topology, nodes)
    return frozenset(cpus & host.get_online_cpus())


def _of_nodes(cpus: Set[int], topology: Any, nodes: Iterable[int]) -> frozenset[int]:
    cells = _cells(topology)
    return frozenset(cpus & frozenset().union(*[cells.get(node, frozenset()) for node in nodes]))


@functools.lru_cache(maxsize=4)
def _cells(topology: Any) -> Mapping[int, frozenset[int]]:
    """Return the CPUs of each node; Nova keeps the one object that libvirt told it of."""
    return {cell.id: frozenset([cpu.id for cpu in cell.cpus]) for cell in topology.cells}
