"""Whether a cloud has what every pair needs: image, external network, Heat, rights and quota."""

from __future__ import annotations

import functools
import operator
from collections.abc import Sequence

from openstack import exceptions as sdk_exceptions

from nova_perf_tuning.validation.cloud import api as api_module
from nova_perf_tuning.validation.cloud import model, sdk_errors


def check(api: api_module.Api, image: str, network: str, arms: Sequence[model.Arm]) -> None:
    """Look and make nothing.

    :param network: of :class:`nova_perf_tuning.validation.cloud.heat_pair.Settings`.
    :raises model.CloudError: the first thing that is missing, and what to do.
    """
    with sdk_errors.one_line("the cloud cannot be used"):
        found = api.read(lambda: api.connection.image.find_image(image))
        if found is None:
            raise model.CloudError(f"image '{image}' is not in Glance; tools/image/upload puts it there")
        if found.status != "active":
            raise model.CloudError(f"image '{image}' is {found.status}, not active; upload it again")
        _check_network(api, network)
        api.read(lambda: next(iter(api.connection.orchestration.stacks(limit=1)), None))
        _check_flavors(api, arms)
        _check_quota(api, 2 * len(arms))


def external_network(api: api_module.Api) -> str:
    """Return the id of the only external network of the cloud.

    :raises model.CloudError: there is none, or there are several.
    """
    found = api.read(lambda: list(api.connection.network.networks(is_router_external=True)))
    if len(found) == 1:
        return str(found[0].id)
    if not found:
        raise model.CloudError("the cloud has no external network; guests reach Heat's API through one")
    names = ", ".join(sorted(str(one.name) for one in found)[:5])
    raise model.CloudError(f"the cloud has several external networks ({names}); name one of them")


def may_choose_hosts(api: api_module.Api) -> bool:
    """Return whether these credentials may name compute hosts: Nova's policy reserves that to administrators."""
    try:
        api.read(lambda: list(api.connection.compute.services(binary="nova-compute")))
    except sdk_exceptions.ForbiddenException:
        return False
    return True


def _check_network(api: api_module.Api, network: str) -> None:
    if not network:
        external_network(api)
        return
    found = api.read(lambda: api.connection.network.find_network(network))
    if found is None or not found.is_router_external:
        raise model.CloudError(
            f"network '{network}' does not exist or is not external; name one (--external-network)"
        )


def _check_flavors(api: api_module.Api, arms: Sequence[model.Arm]) -> None:
    for arm in arms:
        name = arm.flavor
        if name and api.read(functools.partial(api.connection.compute.find_flavor, name)) is None:
            raise model.CloudError(f"flavor '{name}' of arm '{arm.name}' does not exist")
    made = [arm.name for arm in arms if not arm.flavor]
    if made and not may_choose_hosts(api):
        raise model.CloudError(
            f"making flavors (arms {', '.join(made)}) needs an administrator; name existing flavors instead"
        )


def _check_quota(api: api_module.Api, guests: int) -> None:
    numbers = operator.attrgetter("instances", "instances_used")
    limit, used = api.read(lambda: numbers(api.connection.compute.get_limits().absolute))
    used = used or 0
    if limit is not None and 0 <= limit < used + guests:
        raise model.CloudError(
            f"a pair needs {guests} instances at once; the project's quota leaves {limit - used} of {limit}"
        )
