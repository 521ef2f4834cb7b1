# SPDX-License-Identifier: Apache-2.0
"""Which hosts of a cloud could take a guest of a flavor now, and what excludes the others.

Placement is asked as Nova's scheduler asks it (nova/scheduler/utils.py, ResourceRequest); Nova
shows services and NUMA cells. Not in it: what images, ports, aggregates and Nova's other filters
ask for, and what is free on a cell. What is refused or cannot be reached is a
:class:`~nova_perf_tuning.errors.CloudError` of one line.
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

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.placement import api, hosts
from nova_perf_tuning.rules import Evidence, Finding, Level, named
from nova_perf_tuning.specs import crosscheck, flavor_rules, parsing, vocabulary
from nova_perf_tuning.specs.request import Request

#: The last that shows a hypervisor's CPUs.
_NOVA: Final = "2.87"
_KEY: Final = re.compile(r"(resources|trait)([A-Za-z0-9_-]{1,64})?:([A-Z0-9_]{1,255})")
_SOURCE: Final = "Placement's providers and allocation candidates, Nova's hypervisors"
#: More CPUs or cells than any host has.
_MAX: Final = 1 << 16


class Exclusion(enum.StrEnum):
    """What kind of condition a host does not meet."""

    SERVICE = "service"
    RESOURCE = "resource"
    TRAIT = "trait"
    FORBIDDEN_TRAIT = "forbidden-trait"
    GROUP = "group"
    NUMA = "numa"
    COMBINATION = "combination"


#: What to do about each.
_REMEDIES: Final[Mapping[Exclusion, str]] = {
    Exclusion.SERVICE: (
        "start nova-compute there, or enable the service: openstack compute service set --enable"
    ),
    Exclusion.RESOURCE: "free some there, or ask for less",
    Exclusion.TRAIT: (
        "validate and publish these hosts where it is a verdict's; else remove it from the flavor"
    ),
    Exclusion.FORBIDDEN_TRAIT: "remove it from the flavor, or the trait from the hosts",
    Exclusion.GROUP: "free some there, or ask for less in this group",
    Exclusion.NUMA: "ask for fewer nodes, or for so many that each fits into a cell of these hosts",
    Exclusion.COMBINATION: "ask Placement in detail: openstack allocation candidate list",
}


@dataclasses.dataclass(slots=True)
class RequestGroup:
    """Resources and traits that come from one provider, or all that belong to no such group."""

    resources: dict[str, int] = dataclasses.field(default_factory=dict)
    required: set[str] = dataclasses.field(default_factory=set)
    forbidden: set[str] = dataclasses.field(default_factory=set)

    def query(self, suffix: str = "") -> dict[str, str]:
        """Return the parameters of a question to Placement; ``suffix`` is that of the group."""
        amounts = []
        for name, amount in sorted(self.resources.items()):
            if amount:
                amounts.append(f"{name}:{amount}")
        traits = sorted(self.required)
        for trait in sorted(self.forbidden):
            traits.append(f"!{trait}")
        query = {}
        if amounts:
            query[f"resources{suffix}"] = ",".join(amounts)
        if traits:
            query[f"required{suffix}"] = ",".join(traits)
        return query


@dataclasses.dataclass(frozen=True, slots=True)
class Condition:
    """One thing that a host must meet; :ivar hosts: ids of those that do not."""

    reason: Exclusion
    text: str
    hosts: Set[str]


def requested(flavor: sdk_flavor.Flavor) -> dict[str, RequestGroup]:
    """Return what Nova asks Placement for by a flavor alone: suffix, which may be empty -> group.

    :raises errors.CloudError: an amount is no number.
    """
    specs: Mapping[str, str] = flavor.extra_specs
    groups = _stated(specs)
    base = groups[""]
    pinned = _pinned(flavor.vcpus, specs)
    if pinned:
        base.resources["VCPU"] = flavor.vcpus - pinned
        base.resources["PCPU"] = pinned
        if specs.get(flavor_rules.EMULATOR) == "isolate":
            base.resources["PCPU"] += 1
    policy = specs.get("hw:cpu_thread_policy")
    if policy == "require":
        base.required.add("HW_CPU_HYPERTHREADING")
    elif policy == "isolate":
        base.forbidden.add("HW_CPU_HYPERTHREADING")

    stated: set[str] = set()
    for group in groups.values():
        stated.update(group.resources)
    disk = flavor.disk + (flavor.ephemeral or 0) + math.ceil(int(flavor.swap or 0) / 1024)
    amounts = {"MEMORY_MB": flavor.ram, "DISK_GB": disk}
    if not stated & {"VCPU", "PCPU"}:
        amounts["VCPU"] = flavor.vcpus
    for name, amount in amounts.items():
        if name not in stated:
            base.resources[name] = amount
    return {suffix: group for suffix, group in groups.items() if group.query()}


def _stated(specs: Mapping[str, str]) -> dict[str, RequestGroup]:
    """Return the resources and traits that extra specs state: suffix -> group."""
    groups: dict[str, RequestGroup] = collections.defaultdict(RequestGroup)
    groups[""] = RequestGroup()
    for key, text in specs.items():
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        kind, suffix, name = match.groups(default="")
        group = groups[suffix]
        if kind == "resources":
            if not text.isascii() or not text.isdecimal() or len(text) >= 12:
                raise errors.CloudError(
                    f"{key}={vocabulary.shown(text)} is not an amount; set a whole number"
                )
            group.resources[name] = int(text)
        elif text == "required":
            group.required.add(name)
        elif text == "forbidden":
            group.forbidden.add(name)
    return groups


def _pinned(vcpus: int, specs: Mapping[str, str]) -> int:
    """Return how many vCPUs get CPUs of their own by ``hw:cpu_policy``."""
    policy = specs.get(flavor_rules.POLICY)
    if policy == "dedicated":
        return vcpus
    if policy != "mixed":
        return 0
    mask = specs.get("hw:cpu_dedicated_mask") or specs.get("hw:cpu_realtime_mask") or ""
    if not mask:
        return 0
    if mask.startswith("^"):
        mask = f"0-{vcpus - 1},{mask}"
    try:
        dedicated = cpulist.parse_spec(mask)
    except cpulist.CpuListError as error:
        raise errors.CloudError(
            f"mask of dedicated CPUs {vocabulary.shown(mask)}: {error}"
        ) from None
    return len(dedicated & frozenset(range(vcpus)))


def findings(cloud: connection.Connection, flavor: sdk_flavor.Flavor) -> list[Finding]:
    """Return how many hosts a guest could have, then what excludes the others: most hosts first.

    Requests: one for each condition, none for each host.
    """
    groups = requested(flavor)
    with api.one_line("list compute hosts (Nova shows them to administrators)"):
        nodes = list(cloud.compute.hypervisors(details=True, microversion=_NOVA))
    names = {str(node.id): str(node.name) for node in nodes}
    query: dict[str, str] = {}
    for suffix, group in groups.items():
        query.update(group.query(suffix))
    if len(groups) > 2:  # Placement requires it then
        query["group_policy"] = "none"
        if flavor.extra_specs.get("group_policy") == "isolate":
            query["group_policy"] = "isolate"
    conditions = list(_of_nodes(nodes, flavor))
    with api.one_line("ask for providers (Placement shows them to administrators)"):
        fitting = _roots(cloud, "/allocation_candidates", query) & names.keys()
        for condition in conditions:
            fitting -= condition.hosts
        conditions += _of_placement(cloud, groups, frozenset(names))
    explained = set(fitting)
    for condition in conditions:
        explained |= condition.hosts
    conditions.append(
        Condition(Exclusion.COMBINATION, "all of it at once", names.keys() - explained)
    )
    return [_hosts_now(names, fitting), *_exclusions(names, fitting, conditions)]


def _hosts_now(names: Mapping[str, str], fitting: Set[str]) -> Finding:
    number = f"{len(fitting)} of {len(names)} hosts could take a guest now"
    if not fitting:
        remedy = "change what excludes most hosts: the next row"
        return _finding("no-host-now", number, remedy, Level.WARNING)
    return _finding("hosts-now", f"{number}: {_named(names, fitting)}", "none needed")


def _exclusions(
    names: Mapping[str, str], fitting: Set[str], conditions: Sequence[Condition]
) -> list[Finding]:
    """Return what each condition excludes, most hosts first; hosts that fit are not excluded."""
    excluding = []
    for condition in conditions:
        ids = condition.hosts - fitting
        if ids:
            excluding.append((condition, ids))
    excluding.sort(key=lambda pair: len(pair[1]), reverse=True)
    rows = []
    for condition, ids in excluding:
        text = f"{vocabulary.shown(condition.text)} excludes {len(ids)}: {_named(names, ids)}"
        rows.append(
            _finding(
                f"host-excluded-by-{condition.reason.value}", text, _REMEDIES[condition.reason]
            )
        )
    return rows


def _finding(rule: str, text: str, remedy: str, level: Level = Level.INFO) -> Finding:
    why = "Without a host, each build ends with 'No valid host'; ports, images and filters may exclude more."
    return Finding(rule, level, "", (Evidence("placement", text),), why, remedy, _SOURCE)


def _named(names: Mapping[str, str], ids: Set[str]) -> str:
    return named(sorted(vocabulary.shown(names[host]) for host in ids))


def _of_placement(
    cloud: connection.Connection, groups: Mapping[str, RequestGroup], ids: frozenset[str]
) -> Iterator[Condition]:
    for suffix, group in groups.items():
        if suffix:
            query = group.query()
            text = f"{suffix}: {' '.join(query.values())}"
            yield Condition(
                Exclusion.GROUP, text, ids - _roots(cloud, "/resource_providers", query)
            )
            continue
        for name, amount in group.resources.items():
            if amount:
                wanted = f"{name}:{amount}"
                able = _roots(cloud, "/resource_providers", {"resources": wanted})
                lacking = ids - able
                if able - ids:  # any host may use what another provider has, such as a shared disk
                    lacking = frozenset()
                yield Condition(Exclusion.RESOURCE, wanted, lacking)
        for trait in sorted(group.required | group.forbidden):
            having = _roots(cloud, "/resource_providers", {"required": trait})
            if trait in group.required:
                yield Condition(Exclusion.TRAIT, trait, ids - having)
            else:
                yield Condition(Exclusion.FORBIDDEN_TRAIT, trait, ids & having)


def _of_nodes(
    nodes: Sequence[sdk_hypervisor.Hypervisor], flavor: sdk_flavor.Flavor
) -> Iterator[Condition]:
    """Yield what Nova's own data excludes: by services that are down, by NUMA cells."""
    away = frozenset(
        str(node.id) for node in nodes if (node.state, node.status) != ("up", "enabled")
    )
    yield Condition(Exclusion.SERVICE, "nova-compute up and enabled", away)
    specs: Mapping[str, str] = flavor.extra_specs
    if crosscheck.SpecFacts(Request(), specs, parsing.NOTHING, flavor.vcpus).has_nodes:
        text = specs.get("hw:numa_nodes", "1")
        cells = 1
        if re.fullmatch("[1-9][0-9]{0,2}", text):
            cells = int(text)
        each = -(-flavor.vcpus // cells)
        small = frozenset(str(node.id) for node in nodes if _too_small(node, cells, each))
        yield Condition(Exclusion.NUMA, f"{cells} NUMA cell(s) of at least {each} CPUs", small)


def _too_small(node: sdk_hypervisor.Hypervisor, cells: int, each: int) -> bool:
    """Return whether a host lacks cells or CPUs in each; absurd figures do not count."""
    info = node.cpu_info
    topology = None
    if isinstance(info, Mapping):
        topology = info.get("topology")
    if not isinstance(topology, Mapping):
        return False
    counts = []
    for name in ("cells", "sockets", "cores", "threads"):
        count = topology.get(name)
        if not isinstance(count, int) or not 0 < count < _MAX:
            return False
        counts.append(count)
    # libvirt's sockets are those of one cell, and Nova leaves dies out; the vCPUs are the host's.
    by_topology = math.prod(counts[1:])
    by_vcpus = -(-(node.vcpus or 0) // counts[0])
    return counts[0] < cells or max(by_topology, by_vcpus) < each


def _roots(cloud: connection.Connection, path: str, query: Mapping[str, str]) -> frozenset[str]:
    """Return ids of whole hosts from Placement; none for a class or trait that it lacks."""
    try:
        answer = hosts.placement(cloud, path, **query)
    except exceptions.BadRequestException:
        return frozenset()
    providers = answer.get("resource_providers") or list(
        answer.get("provider_summaries", {}).values()
    )
    return frozenset(str(provider["root_provider_uuid"]) for provider in providers)
