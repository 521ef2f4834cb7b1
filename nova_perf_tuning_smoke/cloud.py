# SPDX-License-Identifier: Apache-2.0
"""What all smoke tests share: the cloud, names of their own, removal of whatever they made.

What a cloud does not offer is left out and named as skipped, since only its operator knows: there is no image that
may be booted, or metadata definitions are not wanted.

Variables of the environment:

``NOVA_PERF_SMOKE_IMAGE``
    Image that guests boot, by name or id; any that needs no more than 512 MiB. Without it no guest is started.
``NOVA_PERF_SMOKE_NETWORK``
    Network of the guests, by name or id (default: none, which Nova allows).
``NOVA_PERF_SMOKE_DISK``
    Root disk of the flavors in GiB (default: 1); more where the image needs more.
``NOVA_PERF_SMOKE_TIMEOUT``
    Seconds for one change of a guest's state (default: 300).
``NOVA_PERF_SMOKE_ON_ERROR``
    ``[nova_perf_tuning] on_error`` of the cloud: ``fail`` (default) or ``ignore``.
``NOVA_PERF_SMOKE_METADEFS``
    ``no`` where the metadata definitions are not wanted in Glance.
"""

import os
import time
import unittest
import uuid
from collections.abc import Mapping
from typing import Any

import openstack
from openstack import exceptions

#: Nova's API checks extra specs from this microversion on; it is of 2020, older than any release supported here.
MICROVERSION = "2.86"


def setting(name: str, default: str = "") -> str:
    """Return the variable ``NOVA_PERF_SMOKE_<name>``."""
    return os.environ.get(f"NOVA_PERF_SMOKE_{name}") or default


class SmokeTest(unittest.TestCase):
    """A test with ``self.cloud``, a connection to the cloud of the environment."""

    def setUp(self) -> None:
        self.cloud: Any = openstack.connect()
        self.addCleanup(self.cloud.close)
        self.cloud.compute.default_microversion = MICROVERSION
        self.prefix = f"nova-perf-smoke-{uuid.uuid4().hex[:8]}"

    def flavor(self, specs: Mapping[str, str], vcpus: int = 2) -> Any:
        """Create a flavor with extra specs, for the time of the test."""
        flavor = self.cloud.compute.create_flavor(
            name=f"{self.prefix}-{uuid.uuid4().hex[:4]}",
            ram=512,
            vcpus=vcpus,
            disk=int(setting("DISK", "1")),
            is_public=False,
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        self.cloud.compute.create_flavor_extra_specs(flavor, dict(specs))
        return flavor

    def boot(self, flavor: Any) -> Any:
        """Start a guest of ``flavor`` and return it once it is ACTIVE or in ERROR; it goes with the test."""
        image = self.cloud.image.find_image(setting("IMAGE"), ignore_missing=False)
        networks: Any = "none"
        if setting("NETWORK"):
            network = self.cloud.network.find_network(setting("NETWORK"), ignore_missing=False)
            networks = [{"uuid": network.id}]
        server = self.cloud.compute.create_server(
            name=self.prefix, flavor_id=flavor.id, image_id=image.id, networks=networks
        )
        self.addCleanup(self._remove, server)
        return self.settled(server)

    def settled(self, server: Any) -> Any:
        """Return a guest once nothing is being done to it.

        :raises AssertionError: that does not come about in time.
        """
        seconds = float(setting("TIMEOUT", "300"))
        end = time.monotonic() + seconds
        while True:
            now = self.cloud.compute.get_server(server.id)
            if now.task_state is None and now.status not in ("BUILD", "REBOOT", "HARD_REBOOT"):
                return now
            if time.monotonic() > end:
                self.fail(f"after {seconds:g} s the guest is still {now.status}, {now.task_state}")
            time.sleep(1)

    def assert_active(self, server: Any) -> None:
        """Fail with Nova's own words when a guest is not ACTIVE."""
        message = (server.fault or {}).get("message")
        self.assertEqual(
            "ACTIVE", server.status, f"on {server.compute_host or 'no host'}: {message}"
        )

    def _remove(self, server: Any) -> None:
        self.cloud.compute.delete_server(server, ignore_missing=True)
        try:
            self.cloud.compute.wait_for_delete(
                server, interval=1, wait=float(setting("TIMEOUT", "300"))
            )
        except exceptions.NotFoundException:
            pass
