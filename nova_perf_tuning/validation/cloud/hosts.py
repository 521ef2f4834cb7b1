"""Compute hosts of a cloud, through openstacksdk: Nova's services and hypervisors, Placement's traits of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Final

from openstack import exceptions

from nova_perf_tuning.nova import host_result, traits
from nova_perf_tuning.validation.cloud import model, sdk_errors

#: A service disabled by this package has a reason that begins so, and only such a one is enabled again by it.
REASON_PREFIX: Final = "nova-perf: "

#: Filters for the names of traits (1.6) and ``required`` of providers (1.18).
_PLACEMENT: Final = "1.18"


@dataclasses.dataclass(frozen=True, slots=True)
class Host:
    """A compute host.

    :ivar name: as Nova names the service's host; ``node``: as it names the hypervisor, and Placement the provider.
    :ivar service_id: of its nova-compute; ``provider_id``: of its resource provider, empty without a hypervisor.
    :ivar state: ``up`` or ``down``; ``status``: ``enabled`` or ``disabled``.
    :ivar traits: those that begin with ``CUSTOM_PERF_``.
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

    @property
    def managed(self) -> bool:
        """Whether nova-compute makes the traits from the host's result file, and nobody else may."""
        return traits.MANAGED in self.traits

    @property
    def earned(self) -> frozenset[str]:
        """The traits without the one that only says who makes them."""
        return self.traits - {traits.MANAGED}

    @property
    def verdict(self) -> str:
        """The latest verdict as far as traits and service tell it: PASS, FAIL or nothing."""
        if traits.VALIDATED in self.traits:
            return "PASS"
        if self.disabled_reason.startswith(REASON_PREFIX):
            return "FAIL"
        return ""


def list_hosts(connection: Any) -> list[Host]:
    """Return all compute hosts by name. Requests: one for each trait in use, not for each host.

    :raises CloudError: no admin rights, or the cloud cannot be reached or refuses.
    """
    with sdk_errors.one_line("list compute hosts (Nova shows them to administrators)"):
        services = list(connection.compute.services(binary="nova-compute"))
        hypervisors = list(connection.compute.hypervisors(details=True))
    with sdk_errors.one_line("read traits (Placement shows them to administrators)"):
        carried = _traits(connection)
    nodes: dict[str, list[Any]] = {}
    for one in hypervisors:
        nodes.setdefault((one.service_details or {}).get("host", ""), []).append(one)
    found = [
        _host(service, node, carried)
        for service in services
        # A service that has never reported has no hypervisor; an Ironic one has many.
        for node in nodes.get(service.host) or [None]
    ]
    return sorted(found, key=lambda host: (host.name, host.node))


def choose(known: Sequence[Host], name: str) -> Host:
    """Return that one of ``known`` with this name of service or hypervisor, with or without its domain.

    :raises CloudError: there is none, or the name fits several.
    """
    exact = [host for host in known if name in (host.name, host.node)]
    near = [host for host in known if _same(name, host.name) or _same(name, host.node)]
    found = exact or near
    if len(found) == 1:
        return found[0]
    if found:
        raise model.CloudError(f"host '{name}' may be {', '.join(host.node for host in found)}; give one in full")
    names = ", ".join(host.name for host in known[:10]) + (" …" if len(known) > 10 else "")
    raise model.CloudError(f"there is no compute host '{name}'; there are {names or 'none at all'}")


def provider_traits(connection: Any, provider_id: str) -> tuple[frozenset[str], int]:
    """Return all traits of a resource provider and its generation.

    :raises SDKException: Placement cannot be reached or refuses.
    """
    response = connection.placement.get(f"/resource_providers/{provider_id}/traits", microversion=_PLACEMENT)
    exceptions.raise_from_response(response)
    data = response.json()
    return frozenset(data["traits"]), int(data["resource_provider_generation"])


def _traits(connection: Any) -> dict[str, set[str]]:
    """Return provider id -> its ``CUSTOM_PERF_*`` traits."""

    def get(path: str, **query: str) -> Any:
        response = connection.placement.get(path, params=query, microversion=_PLACEMENT)
        exceptions.raise_from_response(response)
        return response.json()

    carried: dict[str, set[str]] = {}
    for trait in get("/traits", name=f"startswith:{traits.PREFIX}", associated="true")["traits"]:
        for provider in get("/resource_providers", required=trait)["resource_providers"]:
            carried.setdefault(provider["uuid"], set()).add(trait)
    return carried


def _host(service: Any, node: Any, carried: dict[str, set[str]]) -> Host:
    provider = str(node.id) if node is not None else ""
    return Host(
        name=str(service.host),
        node=str(node.name) if node is not None else "",
        service_id=str(service.id),
        provider_id=provider,
        zone=str(service.availability_zone or ""),
        state=str(service.state or ""),
        status=str(service.status or ""),
        disabled_reason=str(service.disabled_reason or ""),
        traits=frozenset(carried.get(provider, ())),
    )


def _same(one: str, other: str) -> bool:
    return bool(other) and host_result.same_host(one, other)
