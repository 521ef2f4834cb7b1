"""Input and output of the planner."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from nova_perf_tuning import errors
from nova_perf_tuning.host import model


class PlanError(errors.PerfTuningError):
    """The operator's CPU sets contradict each other or the host; names the option and the CPUs."""


@dataclasses.dataclass(frozen=True, slots=True)
class CpuSets:
    """The operator's CPU sets, as cpulists; None where nova.conf and the option say nothing.

    :ivar dedicated: ``[compute] cpu_dedicated_set``; None: derived from the guests' pins.
    :ivar shared: ``[compute] cpu_shared_set``.
    :ivar housekeeping: CPUs for interrupts and host work; None: online CPUs that are neither dedicated
        nor isolated nor nohz_full.
    :ivar power_managed: ``[libvirt] cpu_power_management`` with strategy ``cpu_state``: dedicated
        CPUs may go offline.
    """

    dedicated: str | None = None
    shared: str | None = None
    housekeeping: str | None = None
    power_managed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """What an operator may choose about the plan as a whole.

    :ivar rps: spread the packet work of a NIC with fewer receive queues than local housekeeping CPUs
        over these CPUs in software. Off by default: it costs an interrupt between CPUs for each burst.
    """

    rps: bool = False


@dataclasses.dataclass(slots=True)
class Plan:
    """What should hold on the host.

    :ivar settings: every value with its reason, also those that hold already (``current == value``).
    :ivar sets: name -> cpulist: ``housekeeping``, ``shared``, ``dedicated``, ``isolated``, and where each
        class of work may run once the plan holds: ``vcpu``, ``emulator``, ``iothread``, ``vhost``, ``irq``
        (NICs and passed-through devices, also where the plan leaves them alone), ``irq_vcpu`` (only with
        ``perf:irq_placement=vcpu``).
        ``overlap`` is empty when none of emulator, iothread, vhost and irq shares a CPU with dedicated;
        else it has the CPUs that do, ``overlap_vhost`` and so on say which, and warnings name them.
    :ivar warnings: one line each: what could not be done as asked and why.
    """

    settings: list[model.Setting]
    sets: Mapping[str, str]
    warnings: list[str]

    def changes(self) -> list[model.Setting]:
        """Settings whose value does not hold now."""
        return [one for one in self.settings if one.current != one.value]
