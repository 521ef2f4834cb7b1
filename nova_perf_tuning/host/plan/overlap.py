"""All sets side by side, and the proof that none of them touches a CPU that a guest owns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.plan.sets import HostSets
from nova_perf_tuning.rules import named

#: Classes of work that must stay off dedicated CPUs, and what they are called.
WORK: Mapping[str, str] = {
    "emulator": "emulator threads",
    "iothread": "I/O threads",
    "vhost": "vhost workers",
    "irq": "interrupts",
}
#: What moves work that the plan leaves alone.
_THREADS_MOVED_BY = "perf:emulator_placement=numa and perf:vhost_placement=numa move them"
_NICS_MOVED_BY = "an online CPU that is neither dedicated nor isolated takes them"
_DEVICES_MOVED_BY = "perf:irq_placement=numa moves them"


def show(
    facts: model.HostFacts,
    sets: HostSets,
    planned: Mapping[int, str],
    irq: frozenset[int],
    irq_vcpu: frozenset[int],
    nics: Mapping[str, Sequence[str]],
    devices: Mapping[str, Sequence[str]],
) -> tuple[dict[str, str], list[str]]:
    """Return the sets once the plan holds (see :class:`~nova_perf_tuning.host.plan.model.Plan`), and warnings.

    :param planned: thread id -> cpulist. Threads that the plan leaves alone count with the CPUs that they may
        use now.
    :param irq: CPUs of the interrupts that are planned; :param irq_vcpu: those put on guests' own CPUs.
    :param nics, devices: interrupts that the plan leaves alone, of the host's NICs and of devices passed through:
        cpulist -> names of what has interrupts there.
    """
    users = _users(facts, planned)
    work = {name: _union(texts) for name, texts in users.items()}
    work["irq"] = irq | _union(nics) | _union(devices)
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
            who = [_who(users[name], both, _THREADS_MOVED_BY)]
            if name == "irq":
                who = [_who(nics, both, _NICS_MOVED_BY), _who(devices, both, _DEVICES_MOVED_BY)]
            whose = "; ".join(filter(None, who))
            warnings.append(f"overlap: {title} may run on dedicated CPUs {text}{': ' if whose else ''}{whose}")
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


def _who(by_text: Mapping[str, Sequence[str]], cpus: frozenset[int], moved_by: str) -> str:
    """Name the first guests, NICs or devices concerned, and count the others."""
    names = list(
        dict.fromkeys(name for text, some in by_text.items() if cpulist.parse(text) & cpus for name in some)
    )
    if not names:
        return ""
    return f"of {named(names)}, which the plan leaves alone ({moved_by})"
