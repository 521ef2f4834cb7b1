# SPDX-License-Identifier: Apache-2.0
"""What must hold of every plan, worked out from the facts without the planner's own sets."""

import collections
import dataclasses

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.plan import vectors
from nova_perf_tuning.host.transaction import journal


@dataclasses.dataclass
class Expected:
    """The sets as the documentation defines them."""

    online: frozenset
    dedicated: frozenset
    avoid: frozenset
    housekeeping: frozenset
    shared: frozenset
    node_of: dict


def owned(domain):
    """CPUs to which one vCPU of a dedicated guest is pinned alone."""
    counts = collections.Counter(domain.vcpu_pins.values()) if domain.dedicated else {}
    return {int(text) for text, number in counts.items() if text.isdigit() and number == 1}


def expected(facts, sets):
    online = frozenset(cpu.id for cpu in facts.cpus if cpu.online) & (
        cpulist.parse(facts.online) or frozenset(cpu.id for cpu in facts.cpus)
    )
    configured = cpulist.parse(sets.dedicated or "")
    dedicated = configured | {cpu for domain in facts.domains for cpu in owned(domain)}
    shared_set = cpulist.parse(sets.shared or "")
    given = cpulist.parse(sets.housekeeping or "")
    polled = programs(facts)
    avoid = dedicated | (polled - configured - shared_set - given)
    isolated = cpulist.union((facts.isolated, facts.nohz_full, facts.isolated_now))
    isolated |= cpulist.union(
        group.effective for group in facts.slices if group.partition == "isolated"
    )
    partitions = cpulist.union(
        group.effective for group in facts.slices if group.partition == "root"
    )
    keep = (given & online) - avoid if given else online - avoid - polled - isolated - partitions
    shared = (shared_set & online) - avoid
    shared = (shared - isolated or shared) or keep
    nodes = {cpu.id: cpu.node for cpu in facts.cpus}
    return Expected(online, frozenset(dedicated), frozenset(avoid), keep or shared, shared, nodes)


def programs(facts):
    """CPUs on which programs poll, unless a program does so on every CPU."""
    by_program = collections.defaultdict(set)
    for thread in facts.programs:
        if thread.is_bound:
            by_program[thread.pid].add(int(thread.affinity))
    online = cpulist.parse(facts.online)
    return {cpu for cpus in by_program.values() if not online <= cpus for cpu in cpus} & {
        cpu.id for cpu in facts.cpus
    }


def cpus_of(setting):
    return (
        cpulist.parse_mask(setting.value)
        if setting.kind in ("xps", "rps", "host_cpus")
        else cpulist.parse(setting.value)
    )


def problems(facts, sets, plan):
    """Return everything that is wrong with ``plan``, as text."""
    real = expected(facts, sets)
    wrong = list(_forbidden(facts, sets, plan, real))
    wrong += _rules(plan, real)
    wrong += _nodes(facts, plan, real)
    wrong += _unasked(facts, plan)
    wrong += _near_guests(facts, plan, real)
    wrong += _spread(facts, plan, real)
    wrong += _sets(plan, real)
    wrong += _napis(facts, plan, real)
    targets = [(setting.kind, setting.target) for setting in plan.settings]
    wrong += [
        f"{target} is planned twice"
        for target, number in collections.Counter(targets).items()
        if number > 1
    ]
    return wrong


def _forbidden(facts, sets, plan, real):
    own = {guest.name: owned(guest.domain) for guest in facts.guests if guest.domain}
    every_own = set().union(*own.values()) if own else set()
    for setting in plan.settings:
        cpus = cpus_of(setting)
        if setting.rule in host_model.NOT_OF_AGENT:
            continue
        if not cpus or not cpus <= real.online:
            yield f"{setting.target}: {setting.value} is empty or offline"
        if setting.kind == "xps":
            if sets.power_managed and cpus & real.dedicated:
                yield f"{setting.target}: {setting.value} may go offline"
        elif setting.rule == "passthrough-vcpu":
            if not cpus <= every_own:
                yield f"{setting.target}: {setting.value} is no guest's own"
        elif cpus & real.avoid:
            yield f"{setting.target}: {setting.value} is reserved ({setting.rule})"
        elif not cpus <= real.housekeeping | real.shared:
            yield f"{setting.target}: {setting.value} is outside of housekeeping and shared"


def _rules(plan, real):
    """Work of the kernel off guests' CPUs; a rule that says whose setting it is."""
    for setting in plan.settings:
        if setting.rule in host_model.NOT_OF_AGENT and cpus_of(setting) & real.avoid:
            yield f"{setting.target}: {setting.value} is reserved ({setting.rule})"
        known = journal.AGENT_RULES | host_model.NOT_OF_AGENT
        if not setting.reason or setting.rule not in known:
            yield f"{setting.target}: no reason, or the agent would take rule {setting.rule!r} for a person's"


def _nodes(facts, plan, real):
    """NICs and threads on their own node while it has a CPU for them, else the nearest and a warning."""
    nodes = {real.node_of[cpu] for cpu in real.housekeeping} - {None}
    distances = {node.id: node.distances for node in facts.nodes}
    for nic in facts.nics:
        mine = [
            setting
            for setting in plan.settings
            if setting.kind == "irq_affinity" and int(setting.target[4:]) in nic.irqs
        ]
        used = {real.node_of[cpu] for setting in mine for cpu in cpus_of(setting)}
        if not mine or nic.node is None or not nodes:
            continue
        if nic.node in nodes:
            if used != {nic.node}:
                yield f"{nic.name} of node {nic.node} is on {used}"
            continue
        far = {node: distances.get(nic.node, {}).get(node, 20) for node in nodes}
        if len(used) != 1 or far[next(iter(used))] != min(far.values()):
            yield f"{nic.name} of node {nic.node} is on {used}, distances {far}"
        about = {"nic": nic.name, "nodes": str(nic.node), "node": next(iter(used))}
        if not _warned(plan, NoteCode.NODE_WITHOUT_HOUSEKEEPING, **about):
            yield f"{nic.name}: no warning"
    limits = {group.path: cpulist.parse(group.effective) for group in facts.slices}
    for guest in facts.guests:
        yield from _guest_nodes(guest, plan, real, limits.get(guest.slice, real.online))


def _warned(plan, code, **params):
    return any(
        note.code is code and params.items() <= note.params.items() for note in plan.warnings
    )


def _guest_nodes(guest, plan, real, slice_cpus):
    domain = guest.domain
    if domain is None or not domain.memory_nodes:
        return
    limit = slice_cpus & (
        cpulist.parse(domain.emulator_pin) if domain.emulator_pin else real.online
    )
    home = cpulist.parse(domain.memory_nodes)
    near = {cpu for cpu in (real.shared | real.housekeeping) & limit if real.node_of[cpu] in home}
    tids = {f"tid:{thread.tid}" for thread in guest.threads if thread.kind != "iothread"}
    for setting in plan.settings:
        if setting.kind == "thread_affinity" and setting.target in tids:
            if near and not cpus_of(setting) <= near:
                yield f"{guest.name} {setting.target}: {setting.value} is not on node {domain.memory_nodes}"
            if not cpus_of(setting) <= limit:
                yield f"{guest.name} {setting.target}: {setting.value} is not in its cgroup {sorted(limit)}"


def _napis(facts, plan, real):
    """A NAPI's thread is where its interrupt is; all of them are planned, and in the proof."""
    value = {setting.target: setting.value for setting in plan.settings}
    for nic in facts.nics:
        for napi in nic.napis:
            tid = f"tid:{napi.thread.tid}"
            if real.housekeeping and napi.thread.affinity and tid not in value:
                yield f"{nic.name}'s NAPI thread is not planned"
            if (
                f"irq:{napi.irq}" in value
                and tid in value
                and value[tid] != value[f"irq:{napi.irq}"]
            ):
                yield f"{nic.name}'s NAPI thread is on {value[tid]}, its interrupt on {value[f'irq:{napi.irq}']}"
            left = cpulist.parse(value.get(tid, napi.thread.affinity or ""))
            if not left <= cpulist.parse(plan.sets.get("napi", "")):
                yield f"{nic.name}'s NAPI thread may run on {left}, which is not in the proof"


def _unasked(facts, plan):
    silent = [guest for guest in facts.guests if not (guest.domain and guest.domain.request)]
    tids = {f"tid:{thread.tid}" for guest in silent for thread in guest.threads}
    devices = {device for guest in silent if guest.domain for device in guest.domain.hostdevs}
    for setting in plan.settings:
        if setting.target in tids or setting.identity.split("|")[0] in devices:
            yield f"{setting.target} belongs to a guest that asked nothing"


def groups(facts, plan):
    """Yield (name, layer, weight, CPUs of its items) of what was spread, as the plan's values say."""
    value = {(setting.kind, setting.target): setting for setting in plan.settings}

    def placed(irqs):
        return [int(value["irq_affinity", f"irq:{irq.number}"].value) for irq in irqs]

    for nic in facts.nics:
        irqs = [
            facts.irqs[number] for number in nic.irqs if ("irq_affinity", f"irq:{number}") in value
        ]
        if irqs and value["irq_affinity", f"irq:{irqs[0].number}"].rule.startswith("nic-"):
            found = vectors.classify(nic, irqs)
            weight = max(1, (nic.speed_mbps or 1000) // len(found.queues or found.other))
            if found.queues:
                yield (
                    nic.name,
                    "irq",
                    weight,
                    placed([serving[0] for serving in found.queues.values()]),
                )
            if found.other:
                yield (
                    f"{nic.name} other",
                    "other",
                    1 if found.queues else weight,
                    placed(found.other),
                )
    for guest in facts.guests:
        device = guest.domain.hostdevs[0] if guest.domain and guest.domain.hostdevs else None
        irqs = [irq for irq in facts.irqs.values() if device and irq.device == device]
        if irqs and ("irq_affinity", f"irq:{irqs[0].number}") in value:
            if value["irq_affinity", f"irq:{irqs[0].number}"].rule == "passthrough-numa":
                yield f"{guest.name} vectors", "irq", max(1, 1000 // len(irqs)), placed(irqs)
        workers = [value.get(("thread_affinity", f"tid:{thread.tid}")) for thread in guest.threads]
        workers = [
            int(setting.value)
            for setting in workers
            if setting is not None and setting.rule.startswith("vhost-spread")
        ]
        if workers:
            yield f"{guest.name} workers", "vhost", 1, workers


def pool_of(facts, plan, real, name, layer):
    """Return the CPUs that a group may use: stated as in the documentation, not as in the planner."""
    if layer in ("irq", "other") and not name.endswith("vectors"):
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
        before = len([sibling for sibling in core if sibling < cpu.id])
        result[cpu.id] = (cpu.id == 0, before, bool(core & real.avoid), -(cpu.capacity or 0))
    return result


def l3_groups(facts):
    """Return CPU -> its L3 group, of nodes that have several."""
    of_node, shared = collections.defaultdict(set), set()
    for cpu in facts.cpus:
        of_node[cpu.node].add(cpu.l3)
        if cpu.l3 not in (None, cpu.siblings):
            shared.add(cpu.node)
    several = {node for node in shared if len(of_node[node] - {None}) > 1}
    return {cpu.id: cpu.l3 for cpu in facts.cpus if cpu.l3 and cpu.node in several}


def distances(facts, guest):
    """Return CPU -> how many L3 groups have more of the guest's vCPUs; a farther one has none of them."""
    l3_of = l3_groups(facts)
    vcpus = collections.Counter()
    for text in guest.domain.vcpu_pins.values():
        its = {l3_of.get(cpu) for cpu in cpulist.parse(text)}
        if len(its) == 1:
            vcpus.update(its - {None})
    return {
        cpu.id: sum(number > vcpus[l3_of.get(cpu.id)] for number in vcpus.values())
        for cpu in facts.cpus
    }


def _near_guests(facts, plan, real):
    """Threads with a set of CPUs are in the nearest L3 groups that together have a CPU for each of them."""
    value = {setting.target: setting for setting in plan.settings}
    for guest in facts.guests:
        if guest.domain is None:
            continue
        far = distances(facts, guest)
        for kind in ("vhost", "emulator", "iothread"):
            threads = [thread for thread in guest.threads if thread.kind == kind]
            planned = [value[f"tid:{one.tid}"] for one in threads if f"tid:{one.tid}" in value]
            for setting in planned:
                if not setting.rule.endswith("-numa-l3"):
                    continue
                cpus = cpus_of(setting)
                most = max(far[cpu] for cpu in cpus)
                pinned = kind == "iothread" and guest.domain.iothread_pins
                nearer = {cpu for cpu in cpus if far[cpu] < most}
                if len(nearer) >= len(threads) and not pinned:
                    yield f"{guest.name} {setting.target}: {setting.value}, {nearer} would do"


def _spread(facts, plan, real):
    """The guarantees of :mod:`nova_perf_tuning.host.plan.spread`, for NICs, word for word."""
    spread = list(groups(facts, plan))
    of_all = classes(facts, real)
    of_guest = _ranks_of_workers(facts, of_all)
    load = {
        "irq": collections.Counter(),
        "vhost": collections.Counter(),
        "other": collections.Counter(),
    }
    for _name, layer, weight, cpus in spread:
        for cpu in cpus:
            load[layer][cpu] += weight
    load["other"] += load["irq"]  # they are placed after what carries packets
    heaviest = {
        layer: max((weight for _name, other, weight, _cpus in spread if other == layer), default=0)
        for layer in load
    }
    for name, layer, weight, cpus in spread:
        pool = pool_of(facts, plan, real, name, layer) or set(cpus)
        count = collections.Counter(cpus)
        rank = of_guest.get(name, of_all)
        numbers = [count[cpu] for cpu in pool]
        if max(numbers) - min(numbers) > 1:
            yield f"{name}: uneven, {dict(count)} in {sorted(pool)}"
        limit = heaviest[layer]
        for cpu in pool:
            for other in pool:
                if count[cpu] <= count[other]:
                    continue
                more = load[layer][cpu] - load[layer][other]
                if more > limit:
                    yield f"{name}: CPU {cpu} carries {more} more than CPU {other}"
                if rank[cpu] > rank[other] and more >= weight:
                    yield f"{name}: CPU {cpu} is used before the better CPU {other}"
        if layer == "irq" and not name.endswith("vectors"):
            yield from _shared_groups(name, weight, cpus, pool, load[layer], facts, rank)


def _ranks_of_workers(facts, of_all):
    """Return name of a group of workers -> CPU -> its distance to the guest, then its class."""
    ranks = {}
    for guest in facts.guests:
        if guest.domain:
            far = distances(facts, guest)
            ranks[f"{guest.name} workers"] = {cpu: (far[cpu], *of_all[cpu]) for cpu in far}
    return ranks


def _shared_groups(name, weight, cpus, pool, load, facts, rank):
    """Queues share an L3 group although another group with a CPU as good has two fewer of them."""
    l3_of = l3_groups(facts)
    count = collections.Counter(cpus)
    in_l3 = collections.Counter(l3_of.get(cpu, "") for cpu in cpus)
    for cpu in pool:
        for other in pool:
            crowded = in_l3[l3_of.get(cpu, "")] - in_l3[l3_of.get(other, "")]
            if count[cpu] <= count[other] or rank[cpu] != rank[other] or crowded < 2:
                continue
            if load[cpu] - load[other] >= weight:
                yield f"{name}: CPU {cpu} shares an L3 group, CPU {other} of another would do"


def _sets(plan, real):
    kernel = ("rps", "new_irq", "workqueue", "kthread")
    for name in ("emulator", "iothread", "vhost", "irq", "napi", *kernel):
        both = cpulist.parse(plan.sets.get(name, "")) & real.avoid
        if plan.sets.get(f"overlap_{name}", "") != cpulist.format(both):
            yield f"overlap of {name} is {cpulist.format(both)}, shown as {plan.sets.get(f'overlap_{name}')}"
        if both and not _warned(plan, NoteCode.OVERLAP, work=name, cpus=cpulist.format(both)):
            yield f"overlap of {name} is not named"
    if cpulist.parse(plan.sets["dedicated"]) != real.dedicated:
        yield f"dedicated is shown as {plan.sets['dedicated']}"
