# SPDX-License-Identifier: Apache-2.0
"""Checks a cloud before anything is made on it: the hosts that a user means, what pairs need.

What is missing, refused or cannot be reached is a :class:`~nova_perf_tuning.errors.CloudError` of one line that says
what to do.
"""

import functools
from collections.abc import Mapping, Sequence
from typing import Any, Final

from openstack import exceptions as sdk

from nova_perf_tuning import errors, rules
from nova_perf_tuning.placement import api
from nova_perf_tuning.validation.measure import fleet_model

#: Every host that is up and enabled. :data:`ANY`: one pair wherever the scheduler puts it; needs
#: no admin rights.
ALL: Final = "all"
ANY: Final = "any"
_FAILED: Final = "the cloud cannot be used"
_INTERFACES: Final = ("public", "internal", "admin")


def choose(cloud_api: api.Api, wanted: Sequence[str]) -> tuple[Sequence[str], Mapping[str, str]]:
    """Return the hosts that the words mean by the names of their nova-compute services, sorted.

    The empty name alone stands for the scheduler's choice, for which Nova is not asked. Beside
    them: host -> why it cannot be used, of those that ``all`` or an aggregate would mean.

    :param wanted: names of hosts and aggregates, :data:`ALL`, or :data:`ANY` alone.
    """
    if list(wanted) == [ANY]:
        return [""], {}
    if ANY in wanted:
        raise errors.CloudError(
            "--hosts: give names of hosts or aggregates, 'all', or 'any' alone"
        )
    states, aggregates = _states(cloud_api)
    if ALL in wanted and (ALL in states or ALL in aggregates):
        raise errors.CloudError(
            f"--hosts: '{ALL}' means every host, and a host or aggregate of this cloud has that name;"
            " give hosts or other aggregates by name"
        )
    named: dict[str, list[str]] = {ALL: list(states)}
    named.update(aggregates)
    for host in states:
        named[host] = [host]
    chosen: set[str] = set()
    unusable: dict[str, str] = {}
    for word in wanted:
        fault = states.get(word)
        if fault:
            raise errors.CloudError(
                f"--hosts: host '{word}' is {fault}; repair it or leave it out"
            )
        if not named.get(word):
            names = "the cloud has no compute hosts"
            if states:
                names = f"hosts are {rules.named(sorted(states), 10)}"
            raise errors.CloudError(
                f"--hosts: '{word[:80]}' is neither a host nor an aggregate; {names}"
            )
        for host in named[word]:
            fault = states.get(host, "no compute host")
            if fault:
                unusable[host] = fault
            else:
                chosen.add(host)
    if not chosen:
        raise errors.CloudError(
            f"--hosts: none of {', '.join(sorted(unusable)) or 'them'} is up and enabled"
        )
    return sorted(chosen), unusable


def check(
    cloud_api: api.Api, guests: fleet_model.GuestSettings, arms: Sequence[fleet_model.FleetArm]
) -> None:
    """Refuse a cloud that has not all that every pair needs; makes nothing."""
    with api.one_line(_FAILED):
        cloud = cloud_api.connection
        image = cloud_api.call(lambda: cloud.image.find_image(guests.image))
        if image is None:
            raise errors.CloudError(
                f"image '{guests.image}' is not in Glance; tools/image/upload puts it there"
            )
        if image.status != "active":
            raise errors.CloudError(
                f"image '{guests.image}' is {image.status}, not active; upload it again"
            )
        if not guests.network:
            external_network(cloud_api, guests.external_network)
        elif not getattr(
            cloud_api.call(lambda: cloud.network.find_network(guests.network)), "subnet_ids", ()
        ):
            raise errors.CloudError(
                f"there is no network '{guests.network}', or it has no subnet (--network)"
            )
        cloud_api.call(lambda: next(iter(cloud.orchestration.stacks(limit=1)), None))
        _check_flavors(cloud_api, arms)
        limits = cloud_api.call(lambda: cloud.compute.get_limits()).absolute
    needed, free = 2 * len(arms), (limits.instances or 0) - (limits.instances_used or 0)
    if limits.instances is not None and limits.instances >= 0 and free < needed:
        raise errors.CloudError(
            f"a pair needs {needed} instances at once; the project's quota leaves {free} of {limits.instances}"
        )


def external_network(cloud_api: api.Api, name: str = "") -> str:
    """Return the id of an external network by its name or id, or of the cloud's only one."""
    networks = cloud_api.call(
        lambda: list(cloud_api.connection.network.networks(is_router_external=True))
    )
    fitting = [str(network.id) for network in networks if name in ("", network.name, network.id)]
    if len(fitting) == 1:
        return fitting[0]
    if not networks:
        raise errors.CloudError(
            "the cloud has no external network by which guests could reach Heat; give --network with"
            " an existing network that reaches it"
        )
    fault = "the cloud has several external networks"
    if name:
        fault = f"there is no external network '{name}', or several have that name"
    names = rules.named(sorted(str(network.name) for network in networks), 5)
    raise errors.CloudError(
        f"{fault}; give the one by which guests reach Heat (--external-network): {names}"
    )


def identity(cloud_api: api.Api) -> str:
    """Return the region and the project's id, which no other cloud has, as one line.

    It stays the same however one logs in.
    """
    with api.one_line(_FAILED):
        return cloud_api.call(
            lambda: _identity(
                cloud_api.connection.session, cloud_api.connection.config.region_name or None
            )
        )


def _identity(session: Any, wanted: str | None) -> str:
    access = session.auth.get_access(session)
    if not access.project_id:
        raise errors.CloudError(
            "log in to a project: its id distinguishes this cloud's stacks from those of others"
        )
    heat = access.service_catalog.get_endpoint_data_list(
        service_type="orchestration", interface=_INTERFACES, region_name=wanted
    )
    region = wanted
    if heat and heat[0].region_name:
        region = heat[0].region_name
    return f"region {region or ''} project {access.project_id}"


def _states(cloud_api: api.Api) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Return host -> why it cannot be used (empty if it can), and aggregate -> its hosts."""
    with api.one_line(_FAILED):
        compute = cloud_api.connection.compute
        try:
            services = cloud_api.call(lambda: list(compute.services(binary="nova-compute")))
            aggregates = cloud_api.call(lambda: list(compute.aggregates()))
        except sdk.ForbiddenException:
            raise errors.CloudError(
                "--hosts: only administrators may choose hosts, and Nova denies you that"
                " (403); use an administrator's credentials, or '--hosts any' for a pair where the"
                " scheduler puts it"
            ) from None
    states = {}
    for service in services:
        states[str(service.host)] = _fault(service)
    members = {}
    for aggregate in aggregates:
        members[str(aggregate.name)] = [str(host) for host in aggregate.hosts or ()]
    return states, members


def _fault(service: Any) -> str:
    """Return why a nova-compute service cannot be used; empty if it can."""
    if service.state != "up":
        return "down"
    if service.status == "enabled":
        return ""
    if service.disabled_reason:
        return f"disabled ({service.disabled_reason})"
    return "disabled"


def _check_flavors(cloud_api: api.Api, arms: Sequence[fleet_model.FleetArm]) -> None:
    compute = cloud_api.connection.compute
    for arm in arms:
        name = arm.flavor
        if name and cloud_api.call(functools.partial(compute.find_flavor, name)) is None:
            raise errors.CloudError(f"flavor '{name}' of arm '{arm.name}' does not exist")
    made = [arm.name for arm in arms if not arm.flavor]
    if made:
        try:  # as making a flavor, Nova reserves this to administrators
            cloud_api.call(lambda: list(compute.services(binary="nova-compute")))
        except sdk.ForbiddenException:
            raise errors.CloudError(
                f"making flavors (arms {', '.join(made)}) needs an administrator; name existing flavors instead"
            ) from None
