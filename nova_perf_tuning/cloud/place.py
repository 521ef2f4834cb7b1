"""Which cloud, region and project stacks are in, in words that stay the same however one logs in."""

from __future__ import annotations

import re
from typing import Any, Final

from nova_perf_tuning.cloud import api as api_module
from nova_perf_tuning.cloud import faults, model

_INTERFACES: Final = ("public", "internal", "admin")
#: Which version of its API Keystone's URL names depends on who wrote it down.
_VERSION: Final = re.compile(r"/v[0-9.]+$")
_REGION: Final = " region "
_PROJECT: Final = re.compile(r"\S+ region .* project (?!None$)\S+").fullmatch


def of(api: api_module.Api) -> str:
    """Return Keystone's public URL, the region and the project's id, as one line.

    Entries of clouds.yaml and ``auth_url`` differ between users of one cloud; what its catalog says does not.

    :returns: empty where one logs in without Keystone: then there is no catalog.
    :raises model.CloudError: the cloud does not let one in.
    """
    try:
        return api.call(_of, api)
    except (*api_module.ERRORS, api_module.ApiError) as error:
        raise model.CloudError(f"the cloud cannot be used: {faults.told(error)}") from error


def same(one: str, other: str) -> bool:
    """Return whether two places are one: the same project and region, whatever Keystone's URL.

    Ids of projects are random, URLs change with a new name or TLS. Without a project the whole line counts.
    """
    return one == other or (_PROJECT(one) is not None and one.partition(_REGION)[2] == other.partition(_REGION)[2])


def moved(before: str, here: str) -> str:
    """Return what to tell of a place that is :func:`same` but has another URL of Keystone, empty if it has not."""
    if before == here:
        return ""
    was, now = (one.partition(_REGION)[0] for one in (before, here))
    return (
        f"Keystone's URL was {was} and is {now}; region and project are the same, so it is taken for the same "
        "cloud, as a copy with the same databases would be"
    )


def _of(api: api_module.Api) -> str:
    connection = api.connection
    session = connection.session
    auth: Any = session.auth
    if not hasattr(auth, "get_access"):
        return ""
    access = auth.get_access(session)
    catalog, wanted = access.service_catalog, connection.config.region_name
    heat = _endpoint(catalog, "orchestration", wanted)
    region = getattr(heat, "region_name", None) or wanted or ""
    # One Keystone for all regions is in the catalog with one of them only.
    keystone = _endpoint(catalog, "identity", region) or _endpoint(catalog, "identity", None)
    url = str(getattr(keystone, "catalog_url", None) or auth.auth_url).rstrip("/").lower()
    return f"{_VERSION.sub('', url)}{_REGION}{region} project {access.project_id}"


def _endpoint(catalog: Any, service: str, region: str | None) -> Any:
    """Return what the catalog says of a service, None if nothing."""
    found = catalog.get_endpoint_data_list(service_type=service, interface=_INTERFACES, region_name=region or None)
    return found[0] if found else None
