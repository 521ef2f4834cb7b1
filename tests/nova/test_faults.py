"""What a fault ends in, beside what test_every_fault looks at: words, remedies, counts."""

import fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from tests.nova import base


class FaultTestCase(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def inject(self, where, error=RuntimeError("injected")):  # noqa: B008
        """Make one function of ours fail from now on; use as a context to end it."""

        def fault(*args, **kwargs):
            raise error

        return fixtures.MonkeyPatch(f"nova_perf_tuning.{where}", fault)

    def ignore(self):
        self.flags(on_error="ignore", group="nova_perf_tuning")


class BootTest(FaultTestCase):
    def test_fail_names_the_specs(self):
        with self.inject("guest.transform.write"):
            server = self.boot(base.PLAIN | {"perf:iothreads": "2"}, networks="none", expected_state="ERROR")
        self.assertIn(
            "internal error, RuntimeError: injected (asked: perf:iothreads=2)", server["fault"]["message"]
        )
        self.assertFalse(self.has_domain(server, "compute1"))

    def test_untuned_guest_is_tuned_by_the_next_hard_reboot(self):
        self.ignore()
        with self.inject("guest.transform.write"):
            server = self.boot(base.TUNED)
        self._reboot_server(server, hard=True)
        domain = self.domain(server)
        self.assertIsNone(self.untuned_reason(domain))
        self.assert_tuned(domain)

    def test_what_an_image_asks_never_counts_as_a_failure_of_the_host(self):
        """Nova weighs hosts by their failed builds: an image's owner must not push others' guests away."""
        plain = self.glance.image1
        properties = plain["properties"] | {"hw_perf_iothreads": "2", "hw_perf_vif_queues": "9999"}
        self.glance.create(None, plain | {"id": uuids.image, "properties": properties})
        with self.inject("guest.storage.write"):
            domain = self.domain(self.boot(base.PLAIN, image_uuid=uuids.image))
        self.assertIn("RuntimeError: injected", self.untuned_reason(domain))
        stats = self.computes["compute1"].manager.rt.stats["compute1"]
        self.assertEqual(0, int(stats.get("failed_builds", 0)))


class HotPlugTest(FaultTestCase):
    def test_refused_interface_leaves_no_device_on_the_host(self):
        """Nova has made the tap device by then, and takes it away for errors of libvirt only."""
        server = self.boot(base.TUNED)
        taken = []

        def unplug(driver, instance, vif):
            taken.append(vif["id"])
            raise OSError("no such device")

        port = self.new_port()
        self.useFixture(fixtures.MonkeyPatch("nova.virt.libvirt.vif.LibvirtGenericVIFDriver.unplug", unplug))
        with self.inject("guest.network.write"):
            body = {"interfaceAttachment": {"port_id": port}}
            self.assertRaises(base.client.OpenStackApiException, self.api.attach_interface, server["id"], body)
        self.assertEqual([port], taken)
        # That it cannot be taken away does not hide why.
        self.assertIn("A device of the refused interface is left", self.stdlog.logger.output)
        self.assertIn("TuningFailed: nova-perf-tuning: internal error", self.stdlog.logger.output)
