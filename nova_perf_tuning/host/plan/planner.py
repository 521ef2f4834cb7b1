"""The host plan: a pure function of facts, CPU sets and requests.

Rules and what is guaranteed about them: :mod:`nova_perf_tuning.host.plan.spread` (shares),
:mod:`~nova_perf_tuning.host.plan.sets` (which CPUs), :mod:`~nova_perf_tuning.host.plan.nics` and
:mod:`~nova_perf_tuning.host.plan.guests` (what goes there).
"""

from __future__ import annotations

from nova_perf_tuning.host import model
from nova_perf_tuning.host.plan import guests, nics, overlap, spread, steering
from nova_perf_tuning.host.plan import sets as sets_module
from nova_perf_tuning.host.plan.model import CpuSets, Plan, Policy

_DEFAULT = Policy()


def plan(facts: model.HostFacts, sets: CpuSets, policy: Policy = _DEFAULT) -> Plan:
    """Return what should hold on the host, each value with its reason.

    The same input gives the same plan, and a host on which the plan holds gives the same plan again.
    Placements that hold already and are even are kept, so a guest or NIC more moves nothing else.

    :raises nova_perf_tuning.host.plan.model.PlanError: the sets contradict each other or the host.
    """
    host, warnings = sets_module.resolve(facts, sets)
    passed_through = {
        address.lower() for guest in facts.guests if guest.domain for address in guest.domain.hostdevs
    }
    queues, nics_warnings = nics.collect(facts, host, passed_through)
    asking, guests_warnings = guests.collect(facts, host)
    vectors = [one for guest in asking for one in guest.vectors]
    near = [group for nic in queues for group in (nic.data, nic.rest)]
    near += [one.group for one in vectors if not one.own]
    own = [one.group for one in vectors if one.own]
    placed = spread.settle(near, host.class_of) | spread.settle(own, {})
    busy = frozenset(cpu for nic in queues for cpu in placed[nic.data])
    threads, rooms_warnings = guests.collect_threads(asking, host, busy)
    placed |= spread.settle([one.workers for one in threads if one.workers], host.class_of)

    thread_settings, threads_warnings = guests.thread_settings(threads, placed)
    settings = [
        *nics.settings(queues, placed),
        *guests.interrupt_settings(asking, placed),
        *thread_settings,
        *steering.nic_settings(queues, placed, facts, host, policy.rps),
    ]
    moved = {int(one.target[4:]) for one in settings if one.kind == "irq_affinity"}
    shown, overlaps = overlap.show(
        facts,
        host,
        {int(one.target[4:]): one.value for one in thread_settings},
        frozenset(cpu for group in near for cpu in placed[group]),
        frozenset(cpu for group in own for cpu in placed[group]),
        nics.left_alone(facts, moved, passed_through),
        guests.left_alone(facts, moved),
    )
    warnings = [*facts.warnings, *warnings, *nics_warnings, *guests_warnings, *rooms_warnings, *threads_warnings]
    return Plan(settings, shown, [*warnings, *overlaps])
