"""A fault in any function of ours that Nova calls: on_error decides, and nova-compute goes on."""

import fixtures
from lxml import etree

from nova_perf_tuning.virt import selfcheck
from tests.nova import base

#: Everything that runs while Nova writes a whole domain.
AT_BOOT = (
    "asked._parse_known",
    "asked.request",
    "driver.PerfTuningLibvirtDriver._place_emulator",
    "driver.PerfTuningLibvirtDriver._features",
    "objects.plan",
    "objects.finish",
    "driver.PerfTuningLibvirtDriver._tuned_domain",
    "placement.shared_cpus",
)


class FaultTestCase(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        self.start()

    def inject(self, where, error=RuntimeError("injected")):  # noqa: B008
        """Make one function of ours fail from now on; use as a context to end it."""

        def fault(*args, **kwargs):
            raise error

        return fixtures.MonkeyPatch(f"nova_perf_tuning.virt.{where}", fault)

    def ignore(self):
        self.flags(on_error="ignore", group="nova_perf_tuning")

    def assert_host_works(self):
        """Another guest boots, is plugged, rebooted and deleted on this host."""
        other = self.boot({}, vcpus=2, networks=[{"port": self.new_port()}])
        port = self.new_port()
        self._attach_interface(other, port)
        self._detach_interface(other, port)
        self._reboot_server(other, hard=True)
        self._delete_server(other)


class BootTest(FaultTestCase):
    def test_fail(self):
        for where in AT_BOOT:
            with self.subTest(where), self.inject(where):
                server = self.boot(base.TUNED, networks=[{"port": self.new_port()}], expected_state="ERROR")
                message = server["fault"]["message"]
                self.assertIn("nova-perf-tuning: internal error, RuntimeError: injected", message)
                self.assertFalse(self.has_domain(server, "compute1"))
                self._delete_server(server)
        self.assert_host_works()
        self.assert_tuned(self.domain(self.boot(base.TUNED)))

    def test_fail_names_the_specs(self):
        with self.inject("objects.finish"):
            server = self.boot(base.PLAIN | {"perf:iothreads": "2"}, networks="none", expected_state="ERROR")
        self.assertIn("(asked: perf:iothreads=2)", server["fault"]["message"])

    def test_fail_says_all_of_what_to_change(self):
        specs = {"hw:vif_multiqueue_enabled": "true", "perf:vif_queues": "1"}
        server = self.boot(specs, vcpus=2, networks="none", expected_state="ERROR")
        self.assertIn("hw:vif_multiqueue_enabled=false or ask for 2 or more", server["fault"]["message"])

    def test_ignore(self):
        self.ignore()
        for where in AT_BOOT:
            with self.subTest(where), self.inject(where):
                server = self.boot(base.TUNED, networks=[{"port": self.new_port()}])
                domain = self.domain(server)
                self.assertEqual("internal error, RuntimeError: injected", self.untuned_reason(domain))
                self.assertEqual({}, self.request(domain))
                self.assertEqual([], domain.xpath("devices/disk/driver/@iothread"))
                port = self.new_port()
                self._attach_interface(server, port)
                self._detach_interface(server, port)
                self.assertEqual(1, len(self.domain(server).findall("devices/interface")))
                self._delete_server(server)
        self.assert_host_works()

    def test_a_nova_that_writes_its_xml_in_another_way(self):
        def get_guest_xml(driver, context, instance, network_info, disk_info, image_meta, **kwargs):
            conf = driver._get_guest_config(instance, network_info, image_meta, disk_info, context=context)
            return etree.tostring(conf.format_dom(), encoding="unicode")

        with fixtures.MonkeyPatch("nova.virt.libvirt.driver.LibvirtDriver._get_guest_xml", get_guest_xml):
            server = self.boot(base.PLAIN | {"perf:iothreads": "2"}, networks="none", expected_state="ERROR")
        self.assertIn("in a way that this driver does not know", server["fault"]["message"])

    def test_error_without_words_is_ignored_too(self):
        class Dumb(Exception):
            def __str__(self):
                raise ValueError("not even that")

        self.ignore()
        with self.inject(AT_BOOT[0], Dumb()):
            domain = self.domain(self.boot(base.TUNED))
        self.assertEqual("internal error, Dumb: it has no text", self.untuned_reason(domain))

    def test_ignored_mistake_is_named(self):
        self.ignore()
        domain = self.domain(self.boot(base.PLAIN | {"perf:vif_queues": "3"}, vcpus=2))
        self.assertIn("perf:vif_queues=3 is more than the 2 vCPUs", self.untuned_reason(domain))

    def test_untuned_guest_is_tuned_by_the_next_hard_reboot(self):
        self.ignore()
        with self.inject("objects.finish"):
            server = self.boot(base.TUNED)
        self._reboot_server(server, hard=True)
        domain = self.domain(server)
        self.assertIsNone(self.untuned_reason(domain))
        self.assert_tuned(domain)

    def test_failed_hard_reboot_is_mended_by_the_next(self):
        server = self.boot(base.TUNED)
        with self.inject("objects.finish"):
            self.api.post_server_action(server["id"], {"reboot": {"type": "HARD"}}, check_response_status=[500])
            server = self._wait_for_state_change(server, "ERROR")
        self.assertIn("nova-perf-tuning: internal error", server["fault"]["message"])
        self.assert_host_works()
        self._reboot_server(server, hard=True)
        self.assert_tuned(self.domain(server))


class EmulatedBootTest(FaultTestCase):
    virt_type = "qemu"
    specs = {"hw:vif_multiqueue_enabled": "true", "perf:vif_queues": "2"}

    def test_fail(self):
        with self.inject("asked.request"):
            server = self.boot(self.specs, vcpus=2, expected_state="ERROR")
        self.assertIn("nova-perf-tuning: internal error", server["fault"]["message"])

    def test_detach_and_delete_work_meanwhile(self):
        server = self.boot(self.specs, vcpus=2)
        port = self.new_port()
        self._attach_interface(server, port)
        with self.inject("asked.request"), self.inject("vif.PerfVIFDriver._render"):
            self._detach_interface(server, port)
            self.assertEqual(1, len(self.domain(server).findall("devices/interface")))
            self._delete_server(server)


class HotPlugTest(FaultTestCase):
    def setUp(self):
        super().setUp()
        self.server = self.boot(base.TUNED)

    def devices(self, tag):
        return self.domain(self.server).findall(f"devices/{tag}")

    def test_interface_fail(self):
        port = self.new_port()
        for where in ("hotplug.interface", "asked.request"):
            with self.subTest(where), self.inject(where):
                body = {"interfaceAttachment": {"port_id": port}}
                self.assertRaises(
                    base.client.OpenStackApiException, self.api.attach_interface, self.server["id"], body
                )
                self.assertEqual(1, len(self.devices("interface")))
        self._attach_interface(self.server, port)
        self.assert_tuned(self.domain(self.server), interfaces=2)

    def test_refused_interface_leaves_no_device_on_the_host(self):
        """Nova has made the tap device by then, and takes it away for errors of libvirt only."""
        taken = []

        def unplug(driver, instance, vif):
            taken.append(vif["id"])
            raise OSError("no such device")

        port = self.new_port()
        self.useFixture(fixtures.MonkeyPatch("nova.virt.libvirt.vif.LibvirtGenericVIFDriver.unplug", unplug))
        with self.inject("hotplug.interface"):
            body = {"interfaceAttachment": {"port_id": port}}
            self.assertRaises(
                base.client.OpenStackApiException, self.api.attach_interface, self.server["id"], body
            )
        self.assertEqual([port], taken)
        # That it cannot be taken away does not hide why.
        self.assertIn("A device of the refused interface is left", self.stdlog.logger.output)
        self.assertIn("TuningFailed: nova-perf-tuning: internal error", self.stdlog.logger.output)

    def test_interface_ignore(self):
        self.ignore()
        port = self.new_port()
        with self.inject("hotplug.interface"):
            self._attach_interface(self.server, port)
            self.assertEqual([None], self.devices("interface")[1].xpath("driver/@rx_queue_size") or [None])
            self._detach_interface(self.server, port)
        self.assert_tuned(self.domain(self.server))

    def test_volume_fail(self):
        volume = self.cinder.SWAP_OLD_VOL
        with self.inject("hotplug.disk"):
            self.assertRaises(
                base.client.OpenStackApiException,
                self.api.post_server_volume,
                self.server["id"],
                {"volumeAttachment": {"volumeId": volume}},
            )
        self.assertEqual(2, len(self.devices("disk")))
        self.attach_volume(self.server, volume)
        self.assert_tuned(self.domain(self.server))

    def test_volume_ignore(self):
        self.ignore()
        volume = self.cinder.SWAP_OLD_VOL
        with self.inject("hotplug.disk"):
            self.attach_volume(self.server, volume)
            self.assertIsNone(self.devices("disk")[2].find("driver").get("iothread"))
            self.api.delete_server_volume(self.server["id"], volume)
            self._wait_for_volume_detach(self.server["id"], volume)
        self.assert_tuned(self.domain(self.server))

    def test_detach_and_delete_work_with_everything_broken(self):
        port, volume = self.new_port(), self.cinder.SWAP_OLD_VOL
        self._attach_interface(self.server, port)
        self.attach_volume(self.server, volume)
        for where in (*AT_BOOT, "hotplug.interface", "hotplug.disk", "vif.PerfVIFDriver._render"):
            self.useFixture(self.inject(where))
        self._detach_interface(self.server, port)
        self.api.delete_server_volume(self.server["id"], volume)
        self._wait_for_volume_detach(self.server["id"], volume)
        self.assertEqual((1, 2), (len(self.devices("interface")), len(self.devices("disk"))))
        self._delete_server(self.server)
        self.assertFalse(self.has_domain(self.server, "compute1"))


class HostTest(FaultTestCase):
    def test_inventory_and_start(self):
        for where in ("traits.HostTraits.update_provider_tree", "traits.HostTraits.stats", "selfcheck.problems"):
            self.useFixture(self.inject(where))
        self.restart_compute_service("compute1")
        self._run_periodics()
        self.assert_tuned(self.domain(self.boot(base.TUNED)))

    def test_self_check_of_a_sound_installation(self):
        self.assertEqual([], selfcheck.problems())
