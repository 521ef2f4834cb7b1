# SPDX-License-Identifier: Apache-2.0
"""The validators in Nova's API, the compute services and the metadata definitions; no guest is started."""

import unittest

from openstack import exceptions

from nova_perf_tuning.nova import metadefs
from nova_perf_tuning.specs import profiles
from nova_perf_tuning_smoke import cloud

INSTALL = "is nova-perf-tuning installed where nova-api runs, and was nova-api restarted?"


class ValidatorsTest(cloud.SmokeTest):
    """Fails where nova-perf-tuning is missing in the environment of one of the API's processes."""

    def refused(self, key: str, value: str) -> None:
        try:
            self.flavor({key: value})
        except exceptions.BadRequestException as error:
            self.assertIn(key, str(error))
        else:
            self.fail(f"the API took {key}={value}; {INSTALL}")

    def test_wrong_value_is_refused(self) -> None:
        self.refused("perf:vif_queues", "0")

    def test_unknown_key_is_refused(self) -> None:
        self.refused("perf:no_such_spec", "1")

    def test_every_profile_is_accepted(self) -> None:
        for name, profile in sorted(profiles.shipped().items()):
            with self.subTest(profile=name):
                specs = {key: spec.value for key, spec in profile.specs.items()}
                made = self.flavor({"perf:profile": name, **specs}, vcpus=4)
                stored = self.cloud.compute.fetch_flavor_extra_specs(made).extra_specs
                self.assertEqual(name, stored["perf:profile"])


class ServicesTest(cloud.SmokeTest):
    def test_every_enabled_compute_service_is_up(self) -> None:
        """A nova-compute that cannot import the driver ends at its start."""
        services = [
            service
            for service in self.cloud.compute.services(binary="nova-compute")
            if service.status == "enabled"
        ]
        self.assertNotEqual([], services, "no nova-compute is enabled")
        down = sorted(service.host for service in services if service.state != "up")
        self.assertEqual(
            [], down, "see the log of nova-compute there, and 'nova-perf-status upgrade check'"
        )


LOAD = "glance-manage db_load_metadefs $(nova-perf paths metadefs) true '' true"


@unittest.skipIf(
    cloud.setting("METADEFS") == "no",
    "NOVA_PERF_SMOKE_METADEFS is no: definitions are not wanted in Glance",
)
class MetadefsTest(cloud.SmokeTest):
    def test_definitions_are_those_of_this_release(self) -> None:
        for wanted in metadefs.namespaces().values():
            name = wanted["namespace"]
            with self.subTest(namespace=name):
                try:
                    names = {prop.name for prop in self.cloud.image.metadef_properties(name)}
                except exceptions.NotFoundException:
                    self.fail(f"{name} is not in Glance; run '{LOAD}'")
                self.assertEqual(set(wanted["properties"]), names, f"run '{LOAD}'")
