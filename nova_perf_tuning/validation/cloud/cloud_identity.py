"""A cloud, and which region and project stacks are in, in words that stay the same however one logs in."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Final

from nova_perf_tuning.validation.cloud import api as api_module
from nova_perf_tuning.validation.cloud import heat_pair, host_choice, model, sdk_errors

_INTERFACES: Final = ("public", "internal", "admin")


@dataclasses.dataclass
class HeatCloud:
    """A cloud that is reached through openstacksdk.

    :ivar name: its entry of clouds.yaml, or empty. :ivar connect: called once for each thread that asks.
    """

    name: str
    connect: Callable[[], Any]

    def choose(self, words: list[str]) -> host_choice.Chosen:
        """Return the hosts that are meant, see :func:`host_choice.choose`."""
        return host_choice.choose(api_module.Api(self.connect), words)

    def launcher(self, guests: heat_pair.Settings) -> model.PairLauncher:
        """Return what measures pairs."""
        return heat_pair.HeatPairLauncher(guests, self.connect)

    def place(self) -> str:
        """Return where stacks are made, see :func:`of`."""
        return of(api_module.Api(self.connect))


def of(api: api_module.Api) -> str:
    """Return the region and the project's id, a random number that no other cloud has, as one line.

    :raises model.CloudError: the cloud does not let one in, or not into a project.
    """
    with sdk_errors.one_line("the cloud cannot be used"):
        return api.call(_of, api)


def _of(api: api_module.Api) -> str:
    session = api.connection.session
    auth: Any = session.auth
    access = auth.get_access(session) if hasattr(auth, "get_access") else None
    if access is None or not access.project_id:
        raise model.CloudError("log in to a project by Keystone; stacks are told from those of other clouds by it")
    wanted = api.connection.config.region_name or None
    heat = access.service_catalog.get_endpoint_data_list(
        service_type="orchestration", interface=_INTERFACES, region_name=wanted
    )
    region = getattr(heat[0], "region_name", None) if heat else None
    return f"region {region or wanted or ''} project {access.project_id}"
