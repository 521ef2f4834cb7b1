# SPDX-License-Identifier: Apache-2.0
"""Which CPUs the threads of guests and of NAPIs may use, once the interrupts are placed."""

import dataclasses

from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note
from nova_perf_tuning.host.plan import guests, napi, spread
from nova_perf_tuning.host.plan.interrupts import InterruptPlan
from nova_perf_tuning.host.plan.layout import CpuLayout


@dataclasses.dataclass(frozen=True, slots=True)
class Threads:
    """The affinities of vhost workers, emulator, I/O and NAPI threads; one setting a thread."""

    settings: list[host_model.Setting]
    warnings: list[Note]

    @property
    def planned(self) -> dict[str, str]:
        """Target of each thread that is placed -> cpulist of where it may run."""
        return {setting.target: setting.value for setting in self.settings}


def plan_threads(
    facts: host_model.HostFacts,
    layout: CpuLayout,
    interrupts: InterruptPlan,
    left: frozenset[str] = frozenset(),
) -> Threads:
    """Place guests' threads off busy CPUs, and NAPI threads on the CPUs of their interrupts.

    :param left: network devices that are left alone.
    """
    guest_threads, warnings = guests.thread_placements(
        interrupts.guests, layout, interrupts.queue_cpus
    )
    workers = [placement.workers for placement in guest_threads if placement.workers]
    placed = spread.balance(workers, layout.class_of)

    by_target: dict[str, host_model.Setting] = {}
    for placement in guest_threads:
        for setting in guests.thread_settings(placement, placed):
            by_target[setting.target] = setting
    for setting in napi.settings(facts, interrupts.by_number, layout, left):
        by_target[setting.target] = setting
    return Threads(list(by_target.values()), warnings)
