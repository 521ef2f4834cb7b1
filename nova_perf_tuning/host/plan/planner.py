# SPDX-License-Identifier: Apache-2.0
"""The host plan: a pure function of facts, CPU sets and requests.

:func:`plan` names the steps in their order; each step is a module, with its rules and what it
guarantees.
"""

import dataclasses
from collections.abc import Mapping

from nova_perf_tuning.host.model import channels, host_model, notes
from nova_perf_tuning.host.model.notes import Note
from nova_perf_tuning.host.model.owners import CpuOwners, CpuSets
from nova_perf_tuning.host.plan import untouched
from nova_perf_tuning.host.plan.background import plan_background
from nova_perf_tuning.host.plan.interrupts import plan_interrupts
from nova_perf_tuning.host.plan.layout import CpuLayout
from nova_perf_tuning.host.plan.proof import prove
from nova_perf_tuning.host.plan.refused import NOTHING, Refused
from nova_perf_tuning.host.plan.steering import plan_steering
from nova_perf_tuning.host.plan.threads import plan_threads


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """What should hold on the host.

    :ivar settings: every value with its reason, also those that hold already (``current ==
        value``).
    :ivar sets: name -> cpulist: ``housekeeping``, ``shared``, ``dedicated``, ``isolated``,
        ``programs`` (only where other programs own CPUs), and where each class of work may run
        once the plan holds: ``vcpu``, ``emulator``, ``iothread``, ``vhost``, ``irq`` (NICs and
        passed-through devices, also where the plan leaves them alone), ``irq_vcpu`` (only with
        ``perf:irq_placement=vcpu``), ``napi`` (only with threaded NAPI), and of the kernel's own
        work ``rps``, ``new_irq``, ``workqueue`` and ``kthread``, where they are known.
        ``overlap`` is empty when none of this work but that of vCPUs shares a CPU with
        dedicated or programs; else it has the CPUs that do, ``overlap_vhost`` and so on say which,
        and warnings name them.
    :ivar warnings: what could not be read, or not be done as requested, and why; what matters
        most comes first.
    :ivar owners: whose each CPU is; the sets follow from it.
    :ivar unseen: channels that were not looked at; nothing is proved of them.
    :ivar nova_config: the files of nova-compute from which the operator's CPU sets are.
    """

    settings: list[host_model.Setting]
    sets: Mapping[str, str]
    warnings: list[Note]
    owners: CpuOwners
    nova_config: tuple[str, ...] = ()
    unseen: tuple[channels.Unseen, ...] = ()

    def changes(self) -> list[host_model.Setting]:
        """Settings whose value does not hold now."""
        return [setting for setting in self.settings if setting.current != setting.value]


def plan(
    facts: host_model.HostFacts,
    sets: CpuSets,
    *,
    rps: bool = False,
    refused: Refused = NOTHING,
    background: bool = True,
) -> Plan:
    """Return what should hold on the host, each value with its reason.

    The same input gives the same plan, and a host on which the plan holds gives the same plan
    again. Placements that hold already and are even are kept, so one more guest or NIC moves
    nothing else.

    :param rps: spread the packet work of a NIC with fewer receive queues than local housekeeping
        CPUs over these CPUs in software. Off by default: it costs an interrupt between CPUs for
        each burst.
    :param refused: what the kernel does not do: another CPU is chosen, or the interrupt is left
        alone; and what the operator wants left alone.
    :param background: take guests' CPUs out of the masks of the kernel's own work, too. Without it
        the plan says where this work may run.
    :raises nova_perf_tuning.host.plan.layout.PlanError: the sets contradict each other or the
        host.
    """
    layout = dataclasses.replace(CpuLayout.of(facts, sets), full=refused.full)
    interrupts = plan_interrupts(facts, layout, refused)
    left = untouched.devices(facts, refused)
    threads = plan_threads(facts, layout, interrupts, left)
    steering = plan_steering(facts, layout, interrupts, rps, left)
    kernel = plan_background(facts, layout, steering, background, left)
    proof = prove(facts, layout, interrupts, threads, kernel, refused)

    settings = interrupts.settings + threads.settings + steering + kernel.settings
    warnings = list(facts.warnings)
    warnings += layout.warnings
    warnings += untouched.unmatched(facts, refused)
    warnings += interrupts.warnings
    warnings += threads.warnings
    warnings += proof.warnings
    ordered = notes.ordered(warnings)
    return Plan(settings, proof.sets, ordered, layout.owners, sets.files, proof.unseen)
