# SPDX-License-Identifier: Apache-2.0
"""The kernel's own work: RPS of any device, what comes later, unbound work, kernel threads.

Each of them has a mask of CPUs, which may be wide enough to reach a guest's CPU. Guests' CPUs are
taken out, and what else is in a mask stays. A mask without guests' CPUs is planned as it is, so
that it is kept so. Where no CPU is owned, and where RPS is off, nothing is planned.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.host_model import PlanRule
from nova_perf_tuning.host.plan import steering
from nova_perf_tuning.host.plan.layout import CpuLayout

#: Classes of this work, as sets of a plan are named.
WORK: Final = ("rps", "new_irq", "workqueue", "kthread")
#: Mask of the RPS of devices that come later.
DEFAULT_RPS: Final = "net.core.rps_default_mask"
#: Name of the devices that come later, among those that RPS serves.
_LATER: Final = "devices that come later"

#: Rule of a setting by its target, where it is no queue's.
_RULES: Final = {
    host_model.NEW_IRQS: PlanRule.NEW_IRQ_HOUSEKEEPING,
    host_model.WORKQUEUE: PlanRule.WORKQUEUE_HOUSEKEEPING,
}

#: cpulist -> names of the devices or threads whose work may run there.
Users = dict[str, list[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Background:
    """Where the kernel's own work may run.

    :ivar settings: masks without guests' CPUs.
    :ivar users: class of work -> who may run where, once the settings hold.
    :ivar written: false of the agent, which leaves such settings to people.
    """

    settings: list[host_model.Setting]
    users: Mapping[str, Users]
    written: bool = True


def plan_background(
    facts: host_model.HostFacts,
    layout: CpuLayout,
    steered: Sequence[host_model.Setting],
    write: bool,
    left: frozenset[str] = frozenset(),
) -> Background:
    """Take guests' CPUs out of every mask of the kernel's own work.

    :param steered: RPS masks that are planned already; :param write: make settings.
    :param left: network devices that are left alone.
    """
    work = _Work(facts, layout)
    settings: list[host_model.Setting] = []
    if write and layout.reserved and layout.housekeeping:
        planned = {setting.target for setting in steered if setting.kind == "rps"}
        settings += work.rps(planned, left)
        settings += work.defaults()
        settings += work.threads()
    masks = [setting for setting in steered if setting.kind == "rps"]
    return Background(settings, users(facts, [*masks, *settings]), write)


class _Work:
    """Makes the settings of one host."""

    def __init__(self, facts: host_model.HostFacts, layout: CpuLayout) -> None:
        self.facts = facts
        self.layout = layout
        #: The kernel cuts RPS masks by isolcpus=, and takes none of which nothing is left.
        self.isolated = cpulist.parse(facts.isolated)

    def rps(self, planned: set[str], left: frozenset[str]) -> Iterator[host_model.Setting]:
        """Yield the RPS masks of queues that name guests' CPUs.

        :param planned: queues that have their setting; :param left: devices that are left alone.
        """
        for nic in self.facts.nics:
            if nic.name in left:
                continue
            for queue, mask in enumerate(nic.rps):
                target = f"{nic.name}/rx-{queue}"
                if mask is None or target in planned:
                    continue
                what = f"RPS of {nic.name}'s queue {queue}"
                yield from self._mask("rps", target, mask, nic.node, what)

    def defaults(self) -> Iterator[host_model.Setting]:
        """Yield the masks of what has no CPUs of its own, where they name guests' CPUs."""
        later = self.facts.sysctls.get(DEFAULT_RPS)
        for target, mask, what in (
            (host_model.NEW_DEVICES, later, "RPS of devices that come later"),
            (host_model.NEW_IRQS, self.facts.new_irq_mask, "interrupts that come later"),
            (host_model.WORKQUEUE, self.facts.workqueue_mask, "unbound work of the kernel"),
        ):
            if mask is not None and cpulist.is_mask(mask):
                yield from self._mask("host_cpus", target, mask, None, what)

    def threads(self) -> Iterator[host_model.Setting]:
        """Yield the affinities of kernel threads that name guests' CPUs.

        One that may use no housekeeping CPU is left alone: it belongs to a node that has none.
        """
        for thread in self.facts.kernel_threads or ():
            allowed = cpulist.parse(thread.affinity)
            taken = allowed & self.layout.reserved
            kept = allowed & self.layout.housekeeping
            value = thread.affinity
            reason = (
                f"{thread.name} may run on {cpulist.named(allowed)}, which no guest or program "
                "owns"
            )
            if taken:
                value = cpulist.format(kept)
                reason = (
                    f"{thread.name} may run on {_owned(taken)}: it keeps {cpulist.named(kept)}"
                )
            if value:
                target = host_model.KernelThreadTarget(thread.tid, thread.start, thread.name)
                rule = PlanRule.KERNEL_THREAD_HOUSEKEEPING
                yield host_model.Setting.on(target, value, thread.affinity, reason, rule)

    def _pool(self, node: int | None) -> frozenset[int]:
        """Return the housekeeping CPUs near ``node``; empty where there are none."""
        pool = self.layout.interrupts(node)
        if pool is None:
            return frozenset()
        return pool.members - self.isolated

    def _mask(
        self, kind: str, target: str, mask: str, node: int | None, what: str
    ) -> Iterator[host_model.Setting]:
        """Yield the setting that leaves of a mask its housekeeping CPUs, else those near ``node``.

        Without any CPU that the kernel would take, RPS is switched off; the rest is left alone.
        """
        named = cpulist.parse_mask(mask)
        if not named:
            return
        rule = _RULES.get(target, PlanRule.RPS_HOUSEKEEPING)
        taken = named & self.layout.reserved
        if not taken:
            reason = f"{what} may use {cpulist.named(named)}, which no guest or program owns"
            yield host_model.Setting(kind, target, mask, mask, reason, rule)
            return
        kept = (named & self.layout.housekeeping) - self.isolated or self._pool(node)
        if not kept and rule is not PlanRule.RPS_HOUSEKEEPING:
            return
        outcome = "it is switched off"
        if kept:
            outcome = f"reduced to {cpulist.named(kept)}"
        bits = sum(1 << cpu for cpu in kept)
        digits = max(len(mask) - mask.count(","), (bits.bit_length() + 3) // 4)
        value = steering.write_mask(bits, digits)
        reason = f"{what} may use {_owned(taken)}: {outcome}"
        yield host_model.Setting(kind, target, value, mask, reason, rule)


def _owned(cpus: frozenset[int]) -> str:
    """Return in words whose these CPUs are."""
    return f"{cpulist.named(cpus)}, which guests or programs own"


def _steered(nic: host_model.Nic, planned: Mapping[tuple[str, str], str]) -> Iterator[str | None]:
    """Yield the RPS masks of a device's queues, as they are planned."""
    for queue, mask in enumerate(nic.rps):
        yield planned.get(("rps", f"{nic.name}/rx-{queue}"), mask)


def users(facts: host_model.HostFacts, settings: Sequence[host_model.Setting]) -> dict[str, Users]:
    """Return who may run where once ``settings`` hold; what is not known is missing."""
    planned = {(setting.kind, setting.target): setting.value for setting in settings}
    found: dict[str, Users] = {}
    lists: dict[str, str] = {}

    def add(work: str, mask: str | None, name: str = "") -> None:
        if mask is None:
            return
        if mask not in lists:
            lists[mask] = cpulist.format(cpulist.parse_mask(mask))
        users_of = found.setdefault(work, {})
        if lists[mask]:
            names = users_of.setdefault(lists[mask], [])
            if name:
                names.append(name)

    steered = any(kind == "rps" for kind, _target in planned)
    for nic in facts.nics:
        masks: Iterable[str | None] = nic.rps
        if steered:
            masks = _steered(nic, planned)
        for mask in dict.fromkeys(masks):  # a host has thousands of queues with few masks
            add("rps", mask, nic.name)
    for work, target, mask, name in (
        ("rps", host_model.NEW_DEVICES, facts.sysctls.get(DEFAULT_RPS), _LATER),
        ("new_irq", host_model.NEW_IRQS, facts.new_irq_mask, ""),
        ("workqueue", host_model.WORKQUEUE, facts.workqueue_mask, ""),
    ):
        if mask is not None and cpulist.is_mask(mask):
            add(work, planned.get(("host_cpus", target), mask), name)
    for thread in facts.kernel_threads or ():
        key = (host_model.KernelThreadTarget.kind, f"tid:{thread.tid}")
        text = planned.get(key, thread.affinity)
        found.setdefault("kthread", {}).setdefault(text, []).append(thread.name)
    return found
