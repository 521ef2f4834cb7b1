"""Which host CPUs may serve a guest, from Nova's configuration and libvirt's capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Set
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
    return _online(host, hardware.parse_cpu_spec(text), nodes) if text else None


def housekeeping_cpus(host: Any, nodes: Iterable[int] | None) -> int | None:
    """Return how many CPUs may serve a guest's queues: shared ones, else those not dedicated; None: unknown.

    :param nodes: as of :func:`shared_cpus`.
    """
    shared = shared_cpus(host, nodes)
    if shared is not None:
        return len(shared)
    dedicated = hardware.get_cpu_dedicated_set()
    if dedicated is None:
        return None
    return len(_online(host, host.get_online_cpus() - dedicated, nodes))


def _online(host: Any, cpus: Set[int], nodes: Iterable[int] | None) -> frozenset[int]:
    if nodes is not None:
        wanted = frozenset(nodes)
        cells = host.get_capabilities().host.topology.cells
        cpus = cpus & {cpu.id for cell in cells if cell.id in wanted for cpu in cell.cpus}
    return frozenset(cpus & host.get_online_cpus())
