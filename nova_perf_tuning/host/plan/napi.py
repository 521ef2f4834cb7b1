# SPDX-License-Identifier: Apache-2.0
"""Threads that poll NICs (threaded NAPI) run on the CPU that takes the interrupt.

Documentation/networking/napi.rst, "Threaded": each thread on one CPU, the one that services its
interrupt. Where there is none (veth), or it is not known, the threads have the host's CPUs of the
device's node.
"""

from collections.abc import Iterator, Mapping

from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import guests
from nova_perf_tuning.host.plan.layout import CpuLayout, passed_through


def settings(
    facts: host_model.HostFacts,
    cpus: Mapping[int, int],
    layout: CpuLayout,
    left: frozenset[str] = frozenset(),
) -> Iterator[host_model.Setting]:
    """Yield the affinity of each NAPI's thread, given the CPU of each planned interrupt.

    :param left: network devices that are left alone.
    """
    passed = passed_through(facts)
    for nic in sorted(facts.nics, key=lambda nic: nic.name):
        polling = list(threads(nic))
        if not polling or (nic.pci or "").lower() in passed or nic.name in left:
            continue
        pool = layout.interrupts(nic.node)
        if pool is None:
            continue
        for napi, thread in polling:
            head = f"{nic.name}'s NAPI thread {napi.id}"
            if napi.irq is not None and napi.irq in cpus:
                text = str(cpus[napi.irq])
                reason = f"{head} polls on CPU {text}, which takes its interrupt"
            else:
                text = pool.text
                reason = f"{head} may use the {pool.what} CPUs {text} of {pool.where}: its interrupt is not known"
            yield guests.thread_setting(
                thread, thread.tid, text, reason, host_model.PlanRule.NAPI_LOCAL
            )


def threads(nic: host_model.Nic) -> Iterator[tuple[host_model.Napi, host_model.Thread]]:
    """Yield the NAPIs of a NIC that have a thread, and that."""
    for napi in nic.napis:
        if napi.thread is not None and napi.thread.affinity is not None:
            yield napi, napi.thread
