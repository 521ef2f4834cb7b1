"""All sets side by side, and the proof that none of them touches a CPU that a guest owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.plan.sets import HostSets

#: Classes of work that must stay off dedicated CPUs, and what they are called.
WORK: Mapping[str, str] = {
    "emulator": "emulator threads",
    "iothread": "I/O threads",
    "vhost": "vhost workers",
    "irq": "interrupts",
}
_NAMED = 3


def show(
    facts: model.HostFacts,
    sets: HostSets,
    planned: Mapping[int, str],
    irq: frozenset[int],
    irq_vcpu: frozenset[int],
    resting: Mapping[str, Sequence[str]],
) -> tuple[dict[str, str], list[str]]:
    """Return the sets once the plan holds (see :class:`~nova_perf_tuning.host.plan.model.Plan`), and warnings.

    :param planned: thread id -> cpulist. Threads that the plan leaves alone count with the CPUs that they may
        use now.
    :param irq: CPUs of the interrupts that are planned; :param irq_vcpu: those put on guests' own CPUs.
    :param resting: cpulist -> names of the NICs whose interrupts stay there, as the plan leaves them alone.
    """
    users: dict[str, Mapping[str, Sequence[str]]] = {**_users(facts, planned), "irq": resting}
    work = {name: _union(texts) for name, texts in users.items()}
    work["irq"] |= irq
    shown = {
        "housekeeping": cpulist.format(sets.housekeeping),
        "shared": cpulist.format(sets.shared),
        "dedicated": cpulist.format(sets.dedicated),
        "isolated": cpulist.format(sets.isolated),
    }
    shown |= {name: cpulist.format(work[name]) for name in ("vcpu", *WORK)}
    if irq_vcpu:
        shown["irq_vcpu"] = cpulist.format(irq_vcpu)
    warnings: list[str] = []
    total: frozenset[int] = frozenset()
    for name, title in WORK.items():
        both = work[name] & sets.dedicated
        if both:
            total |= both
            text = shown[f"overlap_{name}"] = cpulist.format(both)
            warnings.append(f"overlap: {title} may run on dedicated CPUs {text}{_who(name, users[name], both)}")
    shown["overlap"] = cpulist.format(total)
    return shown, warnings


def _users(facts: model.HostFacts, planned: Mapping[int, str]) -> dict[str, dict[str, list[str]]]:
    """Return kind of thread -> cpulist -> names of the guests that have such threads."""
    users: dict[str, dict[str, list[str]]] = {name: {} for name in ("vcpu", *WORK)}
    for guest in facts.guests:
        for kind, text in {(one.kind, planned.get(one.tid, one.affinity)) for one in guest.threads}:
            if text is not None and kind in users:
                users[kind].setdefault(text, []).append(guest.name)
    return users


def _union(texts: Iterable[str]) -> frozenset[int]:
    return frozenset[int]().union(*map(cpulist.parse, texts))


def _who(kind: str, by_text: Mapping[str, Sequence[str]], cpus: frozenset[int]) -> str:
    """Name the first guests or NICs concerned, and count the others."""
    names = list(
        dict.fromkeys(name for text, some in by_text.items() if cpulist.parse(text) & cpus for name in some)
    )
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    moved_by = "perf:emulator_placement=numa and perf:vhost_placement=numa move them"
    if kind == "irq":
        moved_by = "an online CPU that is neither dedicated nor isolated takes them"
    return f": of {', '.join(names[:_NAMED])}{more}, which the plan leaves alone ({moved_by})"
