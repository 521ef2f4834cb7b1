# SPDX-License-Identifier: Apache-2.0
"""Reads, makes and changes a cloud's flavors, with Nova's check of extra specs; reads images.

What is not there, refused or cannot be reached is a :class:`~nova_perf_tuning.errors.CloudError` of one line.
"""

import contextlib
import urllib.parse
from collections.abc import Mapping
from typing import Final

from openstack import connection, exceptions
from openstack.compute.v2 import flavor as sdk_flavor

from nova_perf_tuning import errors
from nova_perf_tuning.placement import api

#: From this microversion on Nova checks extra specs; the SDK on its own asks for an older one.
CHECKED: Final = "2.86"


def list_flavors(cloud: connection.Connection) -> list[sdk_flavor.Flavor]:
    with api.one_line("list flavors"):
        flavors = list(cloud.compute.flavors(get_extra_specs=True))
    return sorted(flavors, key=lambda flavor: (flavor.name, flavor.id))


def find(cloud: connection.Connection, name: str) -> sdk_flavor.Flavor:
    with api.one_line(f"flavor {name}"):
        flavor: sdk_flavor.Flavor | None = cloud.compute.find_flavor(name, get_extra_specs=True)
    if flavor is None:
        raise errors.CloudError(f"there is no flavor '{name}'; see 'openstack flavor list --all'")
    return flavor


def find_image(cloud: connection.Connection, name: str) -> tuple[str, dict[str, str]]:
    """Return an image's name and its properties that have a value, as text."""
    with api.one_line(f"image {name}"):
        image = cloud.image.find_image(name)
    if image is None:
        raise errors.CloudError(f"there is no image '{name}'; see 'openstack image list'")
    flat = image.to_dict(computed=False, original_names=True)
    custom = flat.pop("properties", None) or {}
    properties = {}
    for key, value in {**flat, **custom}.items():
        if isinstance(value, str | int | float | bool):
            properties[str(key)] = str(value)
    return str(image.name), properties


def create(
    cloud: connection.Connection, name: str, extra_specs: Mapping[str, str], **fields: object
) -> sdk_flavor.Flavor:
    """Make a flavor with all its extra specs, or none; ``fields`` as in openstacksdk."""
    with api.one_line(f"create flavor {name}"):
        made = cloud.compute.create_flavor(name=name, **fields)
    try:
        _set(cloud, made.id, extra_specs, f"create flavor {name}")
    except BaseException:
        with api.one_line(
            f"flavor {name} without its specs is left, 'openstack flavor delete {made.id}'"
        ):
            cloud.compute.delete_flavor(made.id)
        raise
    return find(cloud, made.id)


def change(
    cloud: connection.Connection, flavor: sdk_flavor.Flavor, extra_specs: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Bring a flavor's extra specs to ``extra_specs``; return the keys set and those removed."""
    wanted = {}
    for key, value in extra_specs.items():
        if flavor.extra_specs.get(key) != value:
            wanted[key] = value
    removed = sorted(flavor.extra_specs.keys() - extra_specs.keys())
    doing = f"set flavor {flavor.name}"
    _set(cloud, flavor.id, wanted, doing)
    with api.one_line(f"{doing}: what was to be set is set, what was to be removed is not"):
        for key in removed:
            with contextlib.suppress(exceptions.NotFoundException):  # somebody was faster
                cloud.compute.delete_flavor_extra_specs_property(flavor.id, key)
    return sorted(wanted), removed


def _set(
    cloud: connection.Connection, flavor_id: str, extra_specs: Mapping[str, str], doing: str
) -> None:
    """Set all of them in one request, which Nova takes or refuses as a whole."""
    if not extra_specs:
        return
    with api.one_line(doing):
        response = cloud.compute.post(
            f"/flavors/{urllib.parse.quote(flavor_id, safe='')}/os-extra_specs",
            json={"extra_specs": dict(extra_specs)},
            microversion=CHECKED,
        )
        try:
            exceptions.raise_from_response(response)
        except exceptions.BadRequestException as error:
            # Nova's reason has the value, but not always the key.
            said = str(error.details)
            parts = [doing]
            for key, value in extra_specs.items():
                if f"'{value}'" in said and key not in said:
                    parts.append(f"{key}={value}")
            parts.append(api.text_of(error))
            raise errors.CloudError(": ".join(parts)) from error
