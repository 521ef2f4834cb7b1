"""The host plan: a pure function of facts, CPU sets and requests.

Rules and what is guaranteed about them: :mod:`nova_perf_tuning.host.plan.spread` (shares),
:mod:`~nova_perf_tuning.host.plan.sets` (which CPUs), :mod:`~nova_perf_tuning.host.plan.nics` and
:mod:`~nova_perf_tuning.host.plan.guests` (what goes there).
"""

from __future__ import annotations

import gc

from nova_perf_tuning.host import model
from nova_perf_tuning.host.plan import guests, nics, overlap, spread, steering
from nova_perf_tuning.host.plan import sets as sets_module
from nova_perf_tuning.host.plan.model import CpuSets, Plan, Policy


def plan(facts: model.HostFacts, sets: CpuSets, policy: Policy | None = None) -> Plan:
    """Return what should hold on the host, each value with its reason.

    The same input gives the same plan, and a host on which the plan holds gives the same plan again.
    Placements that hold already and are even are kept, so a guest or NIC more moves nothing else.

    :raises nova_perf_tuning.host.plan.model.PlanError: the sets contradict each other or the host.
    """
    # Thousands of objects are made and none of them is garbage: looking for some would take a tenth of the time.
    running = gc.isenabled()
    gc.disable()
    try:
        return _plan(facts, sets, policy or Policy())
    finally:
        if running:
            gc.enable()


def _plan(facts: model.HostFacts, sets: CpuSets, policy: Policy) -> Plan:
    host = sets_module.resolve(facts, sets)
    warnings = [*facts.warnings, *host.warnings]
    passed_through = {
        address.lower() for guest in facts.guests if guest.domain for address in guest.domain.hostdevs
    }
    found = nics.collect(facts, host, policy, passed_through, warnings)
    asked = guests.collect(facts, host, warnings)
    interrupts = [group for one in found for group in (one.data, one.rest)]
    near = [group for one in asked for group in one.vectors.values() if group.room.what != guests.OWN]
    own = [group for one in asked for group in one.vectors.values() if group.room.what == guests.OWN]
    spread.settle([*interrupts, *near], host.class_of)
    spread.settle(own, {})
    guests.give_rooms(asked, host, frozenset(cpu for one in found for cpu in one.cpus), warnings)
    spread.settle([one.workers for one in asked if one.workers], host.class_of)

    masks = steering.Masks(facts, host)
    settings = nics.settings(found)
    settings += guests.interrupt_settings(asked)
    settings += (threads := guests.thread_settings(asked, warnings))
    settings += steering.nic_settings(found, masks, host, policy.rps)
    planned = {int(one.target[4:]): one.value for one in threads}
    irq = frozenset(cpu for group in (*interrupts, *near) for cpu in group.placed)
    irq_vcpu = frozenset(cpu for group in own for cpu in group.placed)
    moved = {int(one.target[4:]) for one in settings if one.kind == "irq_affinity"}
    resting = overlap.Resting(nics.left_alone(facts, moved, passed_through), guests.left_alone(facts, moved))
    shown, overlaps = overlap.show(facts, host, planned, irq, irq_vcpu, resting)
    return Plan(settings, shown, [*warnings, *overlaps])
