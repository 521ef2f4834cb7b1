"""What must hold of every plan, worked out from the facts without the planner's own sets."""

import collections
import dataclasses

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.plan import nics
from nova_perf_tuning.host.transaction import journal


@dataclasses.dataclass
class Truth:
    """The sets as the documentation defines them."""

    online: frozenset
    avoid: frozenset
    housekeeping: frozenset
    shared: frozenset
    node_of: dict


def owned(domain):
    """CPUs to which one vCPU of a dedicated guest is pinned alone."""
    counts = collections.Counter(domain.vcpu_pins.values()) if domain.dedicated else {}
    return {int(text) for text, number in counts.items() if text.isdigit() and number == 1}


def truth(facts, sets):
    online = frozenset(cpu.id for cpu in facts.cpus if cpu.online) & (
        cpulist.parse(facts.online) or frozenset(cpu.id for cpu in facts.cpus)
    )
    configured = cpulist.parse(sets.dedicated or "")
    avoid = configured | {cpu for domain in facts.domains for cpu in owned(domain)}
    isolated = cpulist.parse(facts.isolated) | cpulist.parse(facts.nohz_full)
    given = cpulist.parse(sets.housekeeping or "")
    keep = (given & online) - avoid if given else online - avoid - isolated
    shared = (cpulist.parse(sets.shared or "") & online) - avoid
    shared = (shared - isolated or shared) or keep
    return Truth(online, frozenset(avoid), keep or shared, shared, {cpu.id: cpu.node for cpu in facts.cpus})


def cpus_of(one):
    return cpulist.parse_mask(one.value) if one.kind in ("xps", "rps") else cpulist.parse(one.value)


def problems(facts, sets, plan):
    """Return everything that is wrong with ``plan``, as text."""
    real = truth(facts, sets)
    found = list(_forbidden(facts, sets, plan, real))
    found += _nodes(facts, plan, real)
    found += _unasked(facts, plan)
    found += _spread(facts, plan, real)
    found += _sets(plan, real)
    targets = [(one.kind, one.target) for one in plan.settings]
    found += [f"{one} is planned twice" for one, number in collections.Counter(targets).items() if number > 1]
    return found


def _forbidden(facts, sets, plan, real):
    own = {guest.name: owned(guest.domain) for guest in facts.guests if guest.domain}
    every_own = set().union(*own.values()) if own else set()
    for one in plan.settings:
        cpus = cpus_of(one)
        if not cpus or not cpus <= real.online:
            yield f"{one.target}: {one.value} is empty or offline"
        if one.kind == "xps":
            if sets.power_managed and cpus & real.avoid:
                yield f"{one.target}: {one.value} may go offline"
        elif one.rule == "passthrough-vcpu":
            if not cpus <= every_own:
                yield f"{one.target}: {one.value} is no guest's own"
        elif cpus & real.avoid:
            yield f"{one.target}: {one.value} is dedicated ({one.rule})"
        elif not cpus <= real.housekeeping | real.shared:
            yield f"{one.target}: {one.value} is outside of housekeeping and shared"
    for one in plan.settings:
        if not one.reason or one.rule not in journal.AGENT_RULES:
            yield f"{one.target}: no reason, or the agent would take rule {one.rule!r} for a person's"


def _nodes(facts, plan, real):
    """NICs and threads on their own node while it has a CPU for them, else the nearest and a warning."""
    nodes = {real.node_of[cpu] for cpu in real.housekeeping} - {None}
    distances = {node.id: node.distances for node in facts.nodes}
    for nic in facts.nics:
        mine = [one for one in plan.settings if one.kind == "irq_affinity" and int(one.target[4:]) in nic.irqs]
        used = {real.node_of[cpu] for one in mine for cpu in cpus_of(one)}
        if not mine or nic.node is None or not nodes:
            continue
        if nic.node in nodes:
            if used != {nic.node}:
                yield f"{nic.name} of node {nic.node} is on {used}"
            continue
        far = {node: distances.get(nic.node, {}).get(node, 20) for node in nodes}
        if len(used) != 1 or far[next(iter(used))] != min(far.values()):
            yield f"{nic.name} of node {nic.node} is on {used}, distances {far}"
        if not any(nic.name in warning and f"node {nic.node}" in warning for warning in plan.warnings):
            yield f"{nic.name}: no warning"
    for guest in facts.guests:
        yield from _guest_nodes(guest, plan, real)


def _guest_nodes(guest, plan, real):
    domain = guest.domain
    if domain is None or not domain.memory_nodes:
        return
    limit = cpulist.parse(domain.emulator_pin) if domain.emulator_pin else real.online
    home = cpulist.parse(domain.memory_nodes)
    near = {cpu for cpu in (real.shared | real.housekeeping) & limit if real.node_of[cpu] in home}
    tids = {f"tid:{thread.tid}" for thread in guest.threads if thread.kind != "iothread"}
    for one in plan.settings:
        if one.kind == "thread_affinity" and one.target in tids:
            if near and not cpus_of(one) <= near:
                yield f"{guest.name} {one.target}: {one.value} is not on node {domain.memory_nodes}"
            if not cpus_of(one) <= limit:
                yield f"{guest.name} {one.target}: {one.value} is outside of its cgroup {domain.emulator_pin}"


def _unasked(facts, plan):
    silent = [guest for guest in facts.guests if not (guest.domain and guest.domain.request)]
    tids = {f"tid:{thread.tid}" for guest in silent for thread in guest.threads}
    devices = {device for guest in silent if guest.domain for device in guest.domain.hostdevs}
    for one in plan.settings:
        if one.target in tids or one.identity.split("|")[0] in devices:
            yield f"{one.target} belongs to a guest that asked nothing"


def groups(facts, plan):
    """Yield (name, layer, weight, CPUs of its items) of what was spread, as the plan's values say."""
    value = {(one.kind, one.target): one for one in plan.settings}

    def placed(irqs):
        return [int(value["irq_affinity", f"irq:{one.number}"].value) for one in irqs]

    for nic in facts.nics:
        irqs = [facts.irqs[one] for one in nic.irqs if ("irq_affinity", f"irq:{one}") in value]
        if irqs and value["irq_affinity", f"irq:{irqs[0].number}"].rule.startswith("nic-"):
            queues, control = nics.vectors(nic, irqs)
            weight = max(1, (nic.speed_mbps or 1000) // len(queues))
            yield nic.name, "irq", weight, placed([one[0] for one in queues.values()])
            if control:
                yield f"{nic.name} control", "irq", 1, placed(control)
    for guest in facts.guests:
        device = guest.domain.hostdevs[0] if guest.domain and guest.domain.hostdevs else None
        irqs = [one for one in facts.irqs.values() if device and one.device == device]
        if irqs and ("irq_affinity", f"irq:{irqs[0].number}") in value:
            if value["irq_affinity", f"irq:{irqs[0].number}"].rule == "passthrough-numa":
                yield f"{guest.name} vectors", "irq", max(1, 1000 // len(irqs)), placed(irqs)
        workers = [value.get(("thread_affinity", f"tid:{one.tid}")) for one in guest.threads]
        workers = [int(one.value) for one in workers if one is not None and one.rule == "vhost-spread"]
        if workers:
            yield f"{guest.name} workers", "vhost", 1, workers


def room_of(facts, plan, real, name, layer):
    """Return the CPUs that a group may use: stated as in the documentation, not as in the planner."""
    if layer == "irq" and not name.endswith("vectors"):
        node = next(nic.node for nic in facts.nics if nic.name == name.split()[0])
    else:
        return None
    on_node = {cpu for cpu in real.housekeeping if real.node_of[cpu] == node}
    if node is None or not any(real.node_of[cpu] is not None for cpu in real.housekeeping):
        return set(real.housekeeping)
    return on_node or None


def classes(facts, real):
    """(CPU 0?, threads of its core before it, beside a dedicated CPU?, weak core?): lower is better."""
    result = {}
    for cpu in facts.cpus:
        core = cpulist.parse(cpu.siblings) & real.online
        before = len([one for one in core if one < cpu.id])
        result[cpu.id] = (cpu.id == 0, before, bool(core & real.avoid), -(cpu.capacity or 0))
    return result


def _spread(facts, plan, real):
    """The guarantees of :mod:`nova_perf_tuning.host.plan.spread`, for NICs, word for word."""
    found = list(groups(facts, plan))
    rank = classes(facts, real)
    load = {"irq": collections.Counter(), "vhost": collections.Counter()}
    for _name, layer, weight, cpus in found:
        for cpu in cpus:
            load[layer][cpu] += weight
    heaviest = max((weight for _name, layer, weight, _cpus in found if layer == "irq"), default=0)
    for name, layer, weight, cpus in found:
        room = room_of(facts, plan, real, name, layer) or set(cpus)
        count = collections.Counter(cpus)
        numbers = [count[cpu] for cpu in room]
        if max(numbers) - min(numbers) > 1:
            yield f"{name}: uneven, {dict(count)} in {sorted(room)}"
        limit = heaviest if layer == "irq" else 1
        for one in room:
            for other in room:
                if count[one] <= count[other]:
                    continue
                more = load[layer][one] - load[layer][other]
                if more > limit:
                    yield f"{name}: CPU {one} carries {more} more than CPU {other}"
                if rank[one] > rank[other] and more >= weight:
                    yield f"{name}: CPU {one} is used before the better CPU {other}"


def _sets(plan, real):
    for name in ("emulator", "iothread", "vhost", "irq"):
        both = cpulist.parse(plan.sets[name]) & real.avoid
        if plan.sets.get(f"overlap_{name}", "") != cpulist.format(both):
            yield f"overlap of {name} is {cpulist.format(both)}, shown as {plan.sets.get(f'overlap_{name}')}"
        if both and not any("overlap" in warning for warning in plan.warnings):
            yield f"overlap of {name} is not named"
    if cpulist.parse(plan.sets["dedicated"]) != real.avoid:
        yield f"dedicated is shown as {plan.sets['dedicated']}"
