# SPDX-License-Identifier: Apache-2.0
"""Guests of flavors with ``perf:`` specs: they start, come back from a hard reboot, and wrong ones say why."""

import unittest

from nova_perf_tuning_smoke import cloud

#: A guest's own disk and network, on any host: nothing here reserves CPUs or memory.
TUNED = {
    "perf:vif_queues": "2",
    "perf:vif_rx_queue_size": "512",
    "perf:iothreads": "1",
    "hw:vif_multiqueue_enabled": "true",
}


@unittest.skipUnless(
    cloud.setting("IMAGE"), "NOVA_PERF_SMOKE_IMAGE is not set: no guest is started"
)
class GuestTest(cloud.SmokeTest):
    def test_tuned_guest_starts_and_comes_back_from_a_hard_reboot(self) -> None:
        server = self.boot(self.flavor(TUNED))
        self.assert_active(server)
        # Nova writes the domain's XML anew.
        self.cloud.compute.reboot_server(server, "HARD")
        self.assert_active(self.settled(server))

    def test_guest_without_specs_starts(self) -> None:
        self.assert_active(self.boot(self.flavor({"hw:vif_multiqueue_enabled": "false"})))

    def test_contradiction_is_named(self) -> None:
        """More queues than vCPUs: no single value is wrong, so only the driver can know."""
        server = self.boot(
            self.flavor({"perf:vif_queues": "4", "hw:vif_multiqueue_enabled": "true"}, vcpus=1)
        )
        if cloud.setting("ON_ERROR", "fail") == "ignore":
            self.assert_active(server)  # untuned, as this cloud's operator wants it
            return
        self.assertEqual(
            "ERROR",
            server.status,
            f"nova-compute of {server.compute_host} made the guest: compute_driver is not "
            "perf_tuning.PerfTuningLibvirtDriver there, or on_error is ignore (NOVA_PERF_SMOKE_ON_ERROR)",
        )
        self.assertIn("perf:vif_queues", (server.fault or {}).get("message", ""))
