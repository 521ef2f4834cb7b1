"""Images of a cloud, through openstacksdk: their properties as flat text, as Nova reads them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from nova_perf_tuning.cloud import faults, model


@dataclasses.dataclass(frozen=True, slots=True)
class Image:
    """An image: its name and every property that has a value, Glance's own ones and custom ones alike."""

    name: str
    properties: Mapping[str, str]


def find(connection: Any, name: str) -> Image:
    """Return an image by name or id.

    :raises CloudError: there is none, two have the name, or the cloud cannot be reached or refuses.
    """
    with faults.one_line(f"image {name}"):
        found = connection.image.find_image(name)
    if found is None:
        raise model.CloudError(f"there is no image '{name}'; see 'openstack image list'")
    flat = found.to_dict(computed=False, original_names=True)
    custom = flat.pop("properties", None) or {}
    return Image(
        str(found.name),
        {
            str(key): str(value)
            for key, value in {**flat, **custom}.items()
            if isinstance(value, str | int | float | bool)
        },
    )
