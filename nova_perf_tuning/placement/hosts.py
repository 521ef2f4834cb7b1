# SPDX-License-Identifier: Apache-2.0
"""Compute hosts of a cloud, and their verdicts where the scheduler sees them.

Where nova-compute runs our driver and finds a result file, it makes the host's traits, marks it
with :data:`traits.MANAGED` and removes what others set. Everywhere else they belong to this
module: Nova leaves custom traits alone that its driver does not know. Each write names the
generation that it has read. What is not there, refused or cannot be reached is a
:class:`~nova_perf_tuning.errors.CloudError` of one line.
"""

import collections
import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence, Set
from typing import Any, Final

from openstack import connection, exceptions

from nova_perf_tuning import errors, rules
from nova_perf_tuning.nova import host_result, traits
from nova_perf_tuning.placement import api

#: A service disabled by this package has a reason that begins so, and only such a one is enabled
#: again by it.
REASON_PREFIX: Final = "nova-perf: "
#: Why Nova itself disables a compute service that it sees for the first time, with ``[DEFAULT]
#: enable_new_services = False`` of nova-conductor (Nova, db.main.api.service_create).
NEW_SERVICE: Final = "New compute service disabled due to config option."
#: An older result is refused; nova-compute's result_max_age is as long unless it is set otherwise.
MAX_AGE: Final = datetime.timedelta(days=30)
#: First version of QEMU that has guests use an offload of its tap, where the kernel offers it,
#: too; live migration to a host without it fails (kubevirt #16386, #19000).
_FEATURES: Final = {
    8_001_000: "USO (QEMU 8.1, Linux 6.2)",
    10_002_000: "GSO of UDP tunnels (QEMU 10.2, Linux 6.17)",
}
#: ``required`` of providers (1.18), and any suffix of a group of resources (1.33).
_PLACEMENT: Final = "1.33"


class ServiceChange(enum.StrEnum):
    """What publishing did to a host's nova-compute."""

    NONE = "none"
    DISABLED = "disabled"
    ENABLED = "enabled"
    DISABLED_BY_OTHERS = "disabled_by_others"


#: The text of each change.
SERVICE_TEXTS: Final[Mapping[ServiceChange, str]] = {
    ServiceChange.NONE: "left alone",
    ServiceChange.DISABLED: "disabled",
    ServiceChange.ENABLED: "enabled again",
    ServiceChange.DISABLED_BY_OTHERS: "left disabled: not by this command",
}


@dataclasses.dataclass(frozen=True, slots=True)
class ComputeHost:
    """A compute host.

    :ivar name: as Nova names the service's host; ``node``: as it names the hypervisor, and
        Placement the provider.
    :ivar service_id: of its nova-compute; ``provider_id``: of its resource provider, empty without
        a hypervisor.
    :ivar state: ``up`` or ``down``; ``status``: ``enabled`` or ``disabled``.
    :ivar traits: those that begin with ``CUSTOM_PERF_``.
    :ivar qemu: its version as Nova has it, 8.2.1 as 8002001; 0: not known.
    """

    name: str
    node: str
    service_id: str
    provider_id: str
    zone: str
    state: str
    status: str
    disabled_reason: str
    traits: frozenset[str]
    qemu: int = 0

    @property
    def managed(self) -> bool:
        """Whether nova-compute alone makes the traits, from the host's result file."""
        return traits.MANAGED in self.traits

    @property
    def earned(self) -> frozenset[str]:
        """The traits without the one that only says who makes them, and those of trials."""
        outcomes = frozenset(trait for trait in self.traits if traits.is_outcome(trait))
        return outcomes - {traits.MANAGED}

    @property
    def verdict(self) -> str:
        """The latest verdict as far as traits and service show it: PASS, FAIL or nothing."""
        if traits.VALIDATED in self.traits:
            return "PASS"
        return "FAIL" if self.disabled_reason.startswith(REASON_PREFIX) else ""


def list_hosts(cloud: connection.Connection) -> list[ComputeHost]:
    """Return all compute hosts by name. Requests: one for each trait in use, not for each host."""
    with api.one_line("list compute hosts (Nova shows them to administrators)"):
        services = list(cloud.compute.services(binary="nova-compute"))
        nodes: dict[str, list[Any]] = collections.defaultdict(list)
        for node in cloud.compute.hypervisors(details=True):
            nodes[(node.service_details or {}).get("host", "")].append(node)
    with api.one_line("read traits (Placement shows them to administrators)"):
        carried: dict[str, set[str]] = collections.defaultdict(set)
        for trait in placement(
            cloud, "/traits", name=f"startswith:{traits.PREFIX}", associated="true"
        )["traits"]:
            for provider in placement(cloud, "/resource_providers", required=trait)[
                "resource_providers"
            ]:
                carried[provider["uuid"]].add(trait)
    hosts = []
    for service in services:
        # A service that has never reported has no node; one of Ironic has many.
        for node in nodes[service.host] or [None]:
            hosts.append(_host(service, node, carried))
    return sorted(hosts, key=lambda host: (host.name, host.node))


def _host(service: Any, node: Any | None, carried: Mapping[str, Set[str]]) -> ComputeHost:
    """Return a host of Nova's service and hypervisor.

    :param carried: resource provider -> its traits that begin with ``CUSTOM_PERF_``.
    """
    name, provider, qemu = "", "", 0
    if node is not None:
        name, provider = node.name, node.id
        if node.hypervisor_type == "QEMU":
            qemu = node.hypervisor_version or 0
    return ComputeHost(
        name=service.host,
        node=name,
        service_id=service.id,
        provider_id=provider,
        zone=service.availability_zone or "",
        state=service.state or "",
        status=service.status or "",
        disabled_reason=service.disabled_reason or "",
        traits=frozenset(carried.get(provider, ())),
        qemu=qemu,
    )


def mixed(known: Sequence[ComputeHost]) -> dict[str, list[str]]:
    """Return feature -> hosts without it, where others have it: guests cannot move there."""
    versions = {host.name: host.qemu for host in known if host.qemu}
    if not versions:
        return {}
    oldest, newest = min(versions.values()), max(versions.values())
    lacking = {}
    for first, feature in _FEATURES.items():
        if oldest < first <= newest:
            lacking[feature] = [name for name, version in versions.items() if version < first]
    return lacking


def choose(known: Sequence[ComputeHost], name: str) -> ComputeHost:
    """Return the host with this name of service or hypervisor, with or without its DNS domain."""
    fitting = [host for host in known if name in (host.name, host.node)]
    if not fitting:
        for host in known:
            if host_result.same_host(name, host.name) or host_result.same_host(name, host.node):
                fitting.append(host)
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        nodes = ", ".join(host.node for host in fitting)
        raise errors.CloudError(f"host '{name}' may be {nodes}; give one in full")
    names = "the cloud has none at all"
    if known:
        names = f"there are {rules.named((host.name for host in known), 10)}"
    raise errors.CloudError(f"there is no compute host '{name}'; {names}")


def check(result: host_result.HostResult, host: ComputeHost) -> None:
    """Refuse a result that is INVALID, of another host, too old, or dated in the future."""
    now = datetime.datetime.now(datetime.UTC)
    reason = result.objection(host.name, now, MAX_AGE) or ""
    if host.node and result.objection(host.node, now, MAX_AGE) is None:
        reason = ""
    if result.verdict == "INVALID":
        reason = "it is INVALID and says nothing about the host; validate again"
    if reason:
        raise errors.CloudError(f"the result cannot be published for host {host.name}: {reason}")


def set_traits(
    cloud: connection.Connection,
    host: ComputeHost,
    wanted: frozenset[str],
    *,
    managed: bool = False,
) -> tuple[frozenset[str], ...]:
    """Bring a host's ``CUSTOM_PERF_*`` traits to ``wanted``, unless nova-compute makes them.

    :param managed: those too that nova-compute has made, with the trait that says so: its driver is gone.
    :returns: those that it has now, those that were added, those that were removed.
    """
    if not host.provider_id:
        raise errors.CloudError(
            f"host {host.name} has no hypervisor yet, so no traits either; start its nova-compute"
        )
    import tenacity  # an extra: commands that have their help without it import this module

    # Whole, where somebody else changes the provider in between, as nova-compute does now and
    # then.
    retrying = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exceptions.ConflictException),
        stop=tenacity.stop_after_attempt(8),
        wait=tenacity.wait_random_exponential(multiplier=0.1, max=2),
        reraise=True,
    )
    with api.one_line(f"traits of host {host.name}"):
        put: tuple[frozenset[str], ...] = retrying(_put, cloud, host, wanted, managed)
        return put


def _put(
    cloud: connection.Connection, host: ComputeHost, wanted: frozenset[str], managed: bool
) -> tuple[frozenset[str], ...]:
    path = f"/resource_providers/{host.provider_id}/traits"
    provider = placement(cloud, path)
    present = frozenset(provider["traits"])
    ours = frozenset(trait for trait in present if traits.is_outcome(trait))
    kept = frozenset[str]() if managed else {traits.MANAGED}
    added, removed = wanted - ours, ours - wanted - kept
    if (added or removed) and traits.MANAGED in ours and not managed:
        raise errors.CloudError(
            f"nova-compute of host {host.name} makes its traits from a result file there"
            " ([nova_perf_tuning] result_file) and would undo this; replace or remove that file"
            " instead; if the driver is gone there, add --force to --withdraw"
        )
    if added or removed:
        for trait in sorted(added):
            exceptions.raise_from_response(
                cloud.placement.put(f"/traits/{trait}", microversion=_PLACEMENT)
            )
        generation = provider["resource_provider_generation"]
        body = {
            "resource_provider_generation": generation,
            "traits": sorted(present - removed | added),
        }
        exceptions.raise_from_response(
            cloud.placement.put(path, json=body, microversion=_PLACEMENT)
        )
    return ours - removed | added, added, removed


def set_service(
    cloud: connection.Connection, host: ComputeHost, result: host_result.HostResult | None
) -> ServiceChange:
    """Disable a host's nova-compute after a FAIL, or enable it again.

    What a person has disabled is left alone. What Nova has disabled since it was new is enabled by
    a PASS alone.

    :param result: PASS or FAIL; None: the verdict was withdrawn.
    """
    mine = host.disabled_reason.startswith(REASON_PREFIX)
    new = host.disabled_reason == NEW_SERVICE and result is not None
    if host.status == "disabled" and not (mine or new):
        return ServiceChange.DISABLED_BY_OTHERS
    which = host.service_id, host.name, "nova-compute"
    with api.one_line(f"nova-compute of {host.name}"):
        if result is not None and result.verdict == "FAIL":
            cloud.compute.disable_service(*which, disabled_reason=_reason(result))
            return ServiceChange.DISABLED
        if host.status == "disabled":
            cloud.compute.enable_service(*which)
            return ServiceChange.ENABLED
    return ServiceChange.NONE


def _reason(result: host_result.HostResult) -> str:
    """Return why the service is disabled, within the 255 characters that Nova keeps."""
    failed = sorted(name for name, verdict in result.budgets.items() if verdict == "FAIL")
    budgets = ""
    if failed:
        budgets = f" of {', '.join(failed)}"
    when = result.created_at.replace(microsecond=0).isoformat()
    text = f"{REASON_PREFIX}validation FAIL{budgets} at {when}"
    if len(text) > 255:
        return f"{text[:254]}…"
    return text


def placement(cloud: connection.Connection, path: str, **query: str) -> Any:
    """Return what Placement answers to a question that openstacksdk has no method for."""
    response = cloud.placement.get(path, params=query, microversion=_PLACEMENT)
    exceptions.raise_from_response(response)
    return response.json()
