# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a cloud could take a guest of a flavor now, and what excludes the others.

Placement is asked as Nova's scheduler asks it (nova/scheduler/utils.py, ResourceRequest); Nova shows services and
NUMA cells. Not in it: what images, ports, aggregates and Nova's other filters ask for, and what is free on a cell.
What is refused or cannot be reached is a :class:`.model.CloudError` of one line.
"""

import collections
import dataclasses
import enum
import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Final

from openstack import connection, exceptions
from openstack.compute.v2 import flavor as sdk_flavor
from openstack.compute.v2 import hypervisor as sdk_hypervisor

from nova_perf_tuning import cpulist
from nova_perf_tuning.rules import Evidence, Finding, Level, named
from nova_perf_tuning.specs import crosscheck, flavor_rules, parsing, vocabulary
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.validation.cloud import api, hosts, model

#: The last that shows a hypervisor's CPUs.
_NOVA: Final = "2.87"
_KEY: Final = re.compile(r"(resources|trait)([A-Za-z0-9_-]{1,64})?:([A-Z0-9_]{1,255})")
_SOURCE: Final = "Placement's providers and allocation candidates, Nova's hypervisors"
#: More CPUs or cells than any host has.
_MAX: Final = 1 << 16


class Reason(enum.Enum):
    """What kind of condition a host does not meet; the value is what to do."""

    SERVICE = "start nova-compute there, or enable the service: openstack compute service set --enable"
    RESOURCE = "free some there, or ask for less"
    TRAIT = "validate and publish these hosts where it is a verdict's; else remove it from the flavor"
    FORBIDDEN_TRAIT = "remove it from the flavor, or the trait from the hosts"
    GROUP = "free some there, or ask for less in this group"
    NUMA = "ask for fewer nodes, or for so many that each fits into a cell of these hosts"
    COMBINATION = "ask Placement in detail: openstack allocation candidate list"


@dataclasses.dataclass(slots=True)
class Group:
    """Resources and traits that come from one provider, or all that belong to no such group."""

    resources: dict[str, int] = dataclasses.field(default_factory=dict)
    required: set[str] = dataclasses.field(default_factory=set)
    forbidden: set[str] = dataclasses.field(default_factory=set)

    def query(self, suffix: str = "") -> dict[str, str]:
        amounts = ",".join(f"{name}:{amount}" for name, amount in sorted(self.resources.items()) if amount)
        traits = ",".join([*sorted(self.required), *(f"!{trait}" for trait in sorted(self.forbidden))])
        return {key + suffix: text for key, text in (("resources", amounts), ("required", traits)) if text}


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One thing that a host must meet; :ivar hosts: ids of those that do not."""

    reason: Reason
    text: str
    hosts: Set[str]


def requested(flavor: sdk_flavor.Flavor) -> dict[str, Group]:
    """Return what Nova asks Placement for by a flavor alone: suffix -> group, empty for the one without.

    :raises model.CloudError: an amount is no number.
    """
    specs: Mapping[str, str] = flavor.extra_specs
    groups: dict[str, Group] = collections.defaultdict(Group)
    base = groups[""]
    for key, text in specs.items():
        if match := _KEY.fullmatch(key):
            kind, suffix, name = match.groups(default="")
            group = groups[suffix]
            if kind == "trait":
                {"required": group.required, "forbidden": group.forbidden}.get(text, set()).add(name)
            elif text.isascii() and text.isdecimal() and len(text) < 12:
                group.resources[name] = int(text)
            else:
                raise model.CloudError(f"{key}={vocabulary.shown(text)} is no amount; set a whole number")
    if pinned := _pinned(flavor.vcpus, specs):
        base.resources["VCPU"] = flavor.vcpus - pinned
        base.resources["PCPU"] = pinned + (specs.get(flavor_rules.EMULATOR) == "isolate")
    threads = {"require": base.required, "isolate": base.forbidden}.get(
        specs.get("hw:cpu_thread_policy", ""), set()
    )
    threads.add("HW_CPU_HYPERTHREADING")
    stated = {name for group in groups.values() for name in group.resources}
    disk = flavor.disk + (flavor.ephemeral or 0) + math.ceil(int(flavor.swap or 0) / 1024)
    amounts = {"MEMORY_MB": flavor.ram, "DISK_GB": disk}
    amounts |= {} if stated & {"VCPU", "PCPU"} else {"VCPU": flavor.vcpus}
    base.resources |= {name: amount for name, amount in amounts.items() if name not in stated}
    return {suffix: group for suffix, group in groups.items() if group.query()}


def _pinned(vcpus: int, specs: Mapping[str, str]) -> int:
    """Return how many vCPUs get CPUs of their own by ``hw:cpu_policy``."""
    policy = specs.get(flavor_rules.POLICY)
    if policy == "mixed":
        mask = specs.get("hw:cpu_dedicated_mask") or specs.get("hw:cpu_realtime_mask") or ""
        mask = f"0-{vcpus - 1},{mask}" if mask.startswith("^") else mask
        try:
            return len(cpulist.parse_spec(mask) & frozenset(range(vcpus))) if mask else 0
        except cpulist.CpuListError as error:
            raise model.CloudError(f"mask of dedicated CPUs {vocabulary.shown(mask)}: {error}") from None
    return vcpus if policy == "dedicated" else 0


def findings(cloud: connection.Connection, flavor: sdk_flavor.Flavor) -> list[Finding]:
    """Return how many hosts a guest could have, then what excludes the others: most hosts first.

    Requests: one for each condition, none for each host.
    """
    groups = requested(flavor)
    with api.one_line("list compute hosts (Nova shows them to administrators)"):
        nodes = list(cloud.compute.hypervisors(details=True, microversion=_NOVA))
    names = {str(node.id): str(node.name) for node in nodes}
    query = {key: text for suffix, group in groups.items() for key, text in group.query(suffix).items()}
    if len(groups) > 2:  # Placement requires it then
        query["group_policy"] = "isolate" if flavor.extra_specs.get("group_policy") == "isolate" else "none"
    conditions = list(_of_nodes(nodes, flavor))
    with api.one_line("ask for providers (Placement shows them to administrators)"):
        fitting = _roots(cloud, "/allocation_candidates", query) & names.keys()
        fitting -= frozenset[str]().union(*(condition.hosts for condition in conditions))
        conditions += _of_placement(cloud, groups, frozenset(names))
    refused = fitting.union(*(condition.hosts for condition in conditions))
    conditions.append(Condition(Reason.COMBINATION, "all of it at once", names.keys() - refused))
    number = f"{len(fitting)} of {len(names)} hosts could take a guest now"
    if fitting:
        first = _finding("hosts-now", f"{number}: {_named(names, fitting)}", "none needed")
    else:
        first = _finding("no-host-now", number, "change what excludes most hosts: the next row", Level.WARNING)
    excluding = [(condition, condition.hosts - fitting) for condition in conditions]
    return [first] + [
        _finding(
            f"host-excluded-by-{condition.reason.name.lower().replace('_', '-')}",
            f"{vocabulary.shown(condition.text)} excludes {len(ids)}: {_named(names, ids)}",
            condition.reason.value,
        )
        for condition, ids in sorted(excluding, key=lambda pair: -len(pair[1]))
        if ids
    ]


def _finding(rule: str, text: str, remedy: str, level: Level = Level.INFO) -> Finding:
    why = "Without a host, each build ends with 'No valid host'; ports, images and filters may exclude more."
    return Finding(rule, level, "", (Evidence("placement", text),), why, remedy, _SOURCE)


def _named(names: Mapping[str, str], ids: Set[str]) -> str:
    return named(sorted(vocabulary.shown(names[host]) for host in ids))


def _of_placement(
    cloud: connection.Connection, groups: Mapping[str, Group], ids: frozenset[str]
) -> Iterator[Condition]:
    for suffix, group in groups.items():
        if suffix:
            query = group.query()
            text = f"{suffix}: {' '.join(query.values())}"
            yield Condition(Reason.GROUP, text, ids - _roots(cloud, "/resource_providers", query))
            continue
        for name, amount in group.resources.items():
            if amount:
                able = _roots(cloud, "/resource_providers", {"resources": f"{name}:{amount}"})
                # What a provider beside the hosts has, such as a shared disk, any of them may use.
                yield Condition(Reason.RESOURCE, f"{name}:{amount}", frozenset() if able - ids else ids - able)
        for trait in sorted(group.required | group.forbidden):
            having = _roots(cloud, "/resource_providers", {"required": trait})
            if trait in group.required:
                yield Condition(Reason.TRAIT, trait, ids - having)
            else:
                yield Condition(Reason.FORBIDDEN_TRAIT, trait, ids & having)


def _of_nodes(nodes: Sequence[sdk_hypervisor.Hypervisor], flavor: sdk_flavor.Flavor) -> Iterator[Condition]:
    """Yield what Nova's own data excludes: services that are not there, hosts that can never have such nodes."""
    away = frozenset(str(node.id) for node in nodes if (node.state, node.status) != ("up", "enabled"))
    yield Condition(Reason.SERVICE, "nova-compute up and enabled", away)
    specs: Mapping[str, str] = flavor.extra_specs
    if crosscheck.SpecFacts(request_module.Request(), specs, parsing.NOTHING, flavor.vcpus).has_nodes:
        text = specs.get("hw:numa_nodes", "1")
        cells = int(text) if re.fullmatch("[1-9][0-9]{0,2}", text) else 1
        each = -(-flavor.vcpus // cells)
        small = frozenset(str(node.id) for node in nodes if _too_small(node, cells, each))
        yield Condition(Reason.NUMA, f"{cells} NUMA cell(s) of at least {each} CPUs", small)


def _too_small(node: sdk_hypervisor.Hypervisor, cells: int, each: int) -> bool:
    """Whether a host lacks cells or CPUs in each; what it does not say, or absurdly, excludes nothing."""
    info = node.cpu_info if isinstance(node.cpu_info, Mapping) else {}
    topology = info.get("topology")
    names = ("cells", "sockets", "cores", "threads")
    counts = [topology.get(name) for name in names] if isinstance(topology, Mapping) else [None]
    known = [count for count in counts if isinstance(count, int) and 0 < count < _MAX]
    if len(known) < len(names):
        return False
    # libvirt's sockets are those of one cell, and Nova leaves dies out; the vCPUs are the host's.
    return known[0] < cells or max(math.prod(known[1:]), -(-(node.vcpus or 0) // known[0])) < each


def _roots(cloud: connection.Connection, path: str, query: Mapping[str, str]) -> frozenset[str]:
    """Return the ids of whole hosts that Placement answers with; none for a class or trait that it lacks."""
    try:
        answer = hosts.placement(cloud, path, **query)
    except exceptions.BadRequestException:
        return frozenset()
    providers = answer.get("resource_providers") or list(answer.get("provider_summaries", {}).values())
    return frozenset(str(provider["root_provider_uuid"]) for provider in providers)
