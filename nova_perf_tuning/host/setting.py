"""The one type for everything that is tuned: planned, shown, diffed, applied, verified, audited, undone."""

from __future__ import annotations

import dataclasses

from nova_perf_tuning import errors


class TargetError(errors.PerfTuningError):
    """A target or value is not of the form that its kind takes, or it is not on the allow-list."""


@dataclasses.dataclass(slots=True)
class Setting:
    """One value that should hold on a host.

    :ivar kind: which class of ``nova_perf_tuning.settings`` handles it, e.g. ``irq_affinity``.
    :ivar target: what it belongs to, in that kind's form: ``irq:47``, ``tid:123``, ``eth0/tx-3``,
        ``net.core.rmem_max``.
    :ivar value: the value wanted, in the kernel's own text form.
    :ivar current: the value when the facts were read; None when it could not be read.
    :ivar reason: why, in words an operator understands, with the names and numbers it rests on.
    :ivar rule: short name of the planner rule or audit rule that asked for it.
    :ivar identity: what tells this very object from a later one under the same number (an interrupt's
        device and action name; a thread's owner and start time); empty where the target says it all.
    :ivar persistent: a configuration file brings it back after a reboot, so the original is kept over one too.
    """

    kind: str
    target: str
    value: str
    current: str | None
    reason: str
    rule: str
    identity: str = ""
    persistent: bool = False
