"""Which host CPUs may serve a guest, from Nova's configuration and libvirt's capabilities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from nova.virt import hardware


def shared_cpus(host: Any, nodes: Iterable[int] | None) -> frozenset[int] | None:
    """Return the online CPUs of ``[compute] cpu_shared_set``, those of ``nodes`` only if given.

    None when the option is not set. Without it Nova has no place for emulator threads but the guest's own
    CPUs, and what is left over beside ``cpu_dedicated_set`` may belong to others (a DPDK switch).

    :param host: Nova's ``libvirt.host.Host``.
    """
    shared = hardware.get_cpu_shared_set()
    return None if shared is None else _online(host, shared, nodes)


def housekeeping_cpus(host: Any, nodes: Iterable[int] | None) -> int | None:
    """Return how many CPUs may serve a guest's queues: shared ones, else those not dedicated; None: unknown."""
    shared = shared_cpus(host, nodes)
    if shared is not None:
        return len(shared)
    dedicated = hardware.get_cpu_dedicated_set()
    if dedicated is None:
        return None
    return len(_online(host, host.get_online_cpus() - dedicated, nodes))


def _online(host: Any, cpus: set[int], nodes: Iterable[int] | None) -> frozenset[int]:
    cpus = cpus & host.get_online_cpus()
    if nodes is not None:
        topology = host.get_capabilities().host.topology
        chosen = set(nodes)
        cpus &= {cpu.id for cell in topology.cells if cell.id in chosen for cpu in cell.cpus}
    return frozenset(cpus)
