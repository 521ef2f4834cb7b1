"""Which host CPUs may serve a guest, from Nova's configuration and libvirt's capabilities."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Set
from typing import Any

import nova.conf
from nova.virt import hardware

CONF = nova.conf.CONF


def shared_cpus(host: Any, nodes: Iterable[int] | None) -> frozenset[int] | None:
    """Return the online CPUs of ``[compute] cpu_shared_set``, those of ``nodes`` only if given.

    None when the option is not set. Without it Nova has no place for emulator threads but the guest's own
    CPUs, and what is left over beside ``cpu_dedicated_set`` may belong to others (a DPDK switch).

    :param host: Nova's ``libvirt.host.Host``.
    """
    text = CONF.compute.cpu_shared_set
    return _online(host, _shared(text), nodes) if text else None


@functools.lru_cache(maxsize=4)
def _shared(text: str) -> frozenset[int]:
    return frozenset(hardware.parse_cpu_spec(text))


def housekeeping_cpus(host: Any, nodes: Iterable[int] | None) -> int | None:
    """Return how many CPUs may serve a guest's queues: shared ones, else those not dedicated; None: unknown."""
    shared = shared_cpus(host, nodes)
    if shared is not None:
        return len(shared)
    dedicated = hardware.get_cpu_dedicated_set()
    if dedicated is None:
        return None
    return len(_online(host, host.get_online_cpus() - dedicated, nodes))


def _online(host: Any, cpus: Set[int], nodes: Iterable[int] | None) -> frozenset[int]:
    if nodes is not None:
        cells = _cells(host.get_capabilities().host.topology)
        cpus = cpus & frozenset().union(*[cells.get(node, frozenset()) for node in nodes])
    return frozenset(cpus & host.get_online_cpus())


@functools.lru_cache(maxsize=4)
def _cells(topology: Any) -> Mapping[int, frozenset[int]]:
    """Return the CPUs of each node; Nova keeps the one object that libvirt told it of."""
    return {cell.id: frozenset([cpu.id for cpu in cell.cpus]) for cell in topology.cells}
