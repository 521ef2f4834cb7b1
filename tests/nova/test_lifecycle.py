# SPDX-License-Identifier: Apache-2.0
"""A guest keeps its tuning on every path of its life: tuning there, nothing stale, nothing lost."""

from nova.tests import fixtures as nova_fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from tests.nova import base


class OneHostTest(base.PerfTestCase):
    """The same guest: new, rebuilt, rescued."""

    def test_tuned_through_its_life(self):
        self.start()
        self.server = self.boot(base.TUNED)
        self.steps(self.new, self.rebuilt_and_written_once, self.rescued_and_unrescued)

    def new(self):
        domain = self.domain(self.server)
        self.assert_tuned(domain)
        self.assertEqual(
            {key: text for key, text in base.TUNED.items() if "perf:" in key}, self.request(domain)
        )
        pins = {pin.get("vcpu"): pin.get("cpuset") for pin in domain.findall("cputune/vcpupin")}
        self.assertEqual({"0": "1", "1": "2", "2": "3"}, pins)

    def rebuilt_and_written_once(self):
        before = len(self.xml_of_nova)
        self._rebuild_server(self.server, nova_fixtures.GlanceFixture.image2["id"])
        self.assertEqual(before + 1, len(self.xml_of_nova))
        self.assert_tuned(self.domain(self.server))

    def rescued_and_unrescued(self):
        self.make_directory(self.server)
        self._rescue_server(self.server)
        domain = self.domain(self.server)
        self.assertTrue(domain.xpath("devices/disk/source[contains(@file, 'disk.rescue')]"))
        self.assert_tuned(domain)
        self._unrescue_server(self.server)
        domain = self.domain(self.server)
        self.assertFalse(domain.xpath("devices/disk/source[contains(@file, 'disk.rescue')]"))
        self.assert_tuned(domain)


class TwoHostsTest(base.PerfTestCase):
    """Host a and b have the same CPUs but other guests: the tuned guest gets the other node on b."""

    def test_tuned_on_both(self):
        self.copy_no_disks()
        self.start("host_a")
        self.flags(cpu_dedicated_set="5-7", cpu_shared_set="0,4", group="compute")
        self.start("host_b")
        # The last one takes a host down.
        self.together(self.cold_migrated_and_reverted, self.resized, self.evacuated)

    def boot_on_a(self):
        self.flags(cpu_dedicated_set="5-7", group="compute")
        self.server = self.boot(base.TUNED, host="host_a")
        self.assert_tuned(self.domain(self.server, "host_a"), emulator="0")

    def cold_migrated_and_reverted(self):
        self.boot_on_a()
        self._migrate_server(self.server)
        self.assert_tuned(self.domain(self.server, "host_b"), emulator="4")
        self.flags(cpu_dedicated_set=self.dedicated, group="compute")
        self._revert_resize(self.server)
        self.assert_tuned(self.domain(self.server, "host_a"), emulator="0")

    def resized(self):
        """To another request."""
        self.boot_on_a()
        specs = base.PLAIN | {"perf:iothreads": "1", "perf:vif_queues": "3"}
        self._resize_server(self.server, self._create_flavor(vcpu=3, extra_spec=specs))
        self._confirm_resize(self.server)
        domain = self.domain(self.server, "host_b")
        self.assertEqual(
            {"name": "vhost", "queues": "3"}, dict(domain.find("devices/interface/driver").attrib)
        )
        self.assertEqual("1", domain.findtext("iothreads"))
        self.assertEqual({"perf:iothreads": "1", "perf:vif_queues": "3"}, self.request(domain))
        self.assertEqual(
            {None}, {driver.get("queues") for driver in domain.findall("devices/disk/driver")}
        )

    def evacuated(self):
        self.boot_on_a()
        self.computes["host_a"].stop()
        self.api.put_service(self.computes["host_a"].service_ref.uuid, {"forced_down": True})
        self._evacuate_server(self.server, expected_host="host_b")
        self._start_server(self.server)
        self.assert_tuned(self.domain(self.server, "host_b"), emulator="4")


class OneHostWithGuestsTest(base.PerfTestCase):
    """Where a request may come from and what it may hold; then the driver comes to a host with guests, and goes."""

    def test_on_one_host(self):
        self.start()
        self.together(
            self.image_properties,
            self.balloon_is_the_same_on_every_release,
            self.cpus_of_its_own_by_their_resource_class,
            self.xml_of_whole_domains_is_novas,
            self.plugged_devices_are_novas,
            self.guest_of_before_is_tuned_by_hard_reboot,
        )

    def image_properties(self):
        wanted = {"iothreads": "2", "vif_rx_queue_size": "512", "emulator_placement": "numa"}
        image = self.image(
            uuids.tuned_image, {f"hw_perf_{name}": text for name, text in wanted.items()}
        )
        domain = self.domain(self.boot(base.PLAIN, image_uuid=image))
        self.assertEqual("2", domain.findtext("iothreads"))
        self.assertEqual("512", domain.find("devices/interface/driver").get("rx_queue_size"))
        # what acts on the host is the flavor's
        self.assertEqual("1-3", domain.find("cputune/emulatorpin").get("cpuset"))
        self.assertNotIn("perf:emulator_placement", self.request(domain))

    def balloon_is_the_same_on_every_release(self):
        """As Nova 32 and later have it where it is on; the guest's statistics stay Nova's."""
        image = self.image(uuids.reporting_image, {"hw_perf_free_page_reporting": "true"})
        balloon = self.domain(self.boot({}, 2, image_uuid=image)).find("devices/memballoon")
        self.assertEqual(
            {"model": "virtio", "autodeflate": "on", "freePageReporting": "on"},
            dict(balloon.attrib),
        )
        self.assertEqual(["10"], balloon.xpath("stats/@period"))

    def cpus_of_its_own_by_their_resource_class(self):
        """Nova pins such a guest, and refuses hw:cpu_policy beside it."""
        for key in ("resources:PCPU", "resources1:PCPU"):
            with self.subTest(key):
                server = self.boot({key: "2", "perf:emulator_placement": "numa"}, vcpus=2)
                domain = self.domain(server)
                pins = [int(pin.get("cpuset")) for pin in domain.findall("cputune/vcpupin")]
                self.assertEqual(2, len(pins))
                shared = "0" if max(pins) < 4 else "4"
                self.assertEqual(shared, domain.find("cputune/emulatorpin").get("cpuset"))
                self._delete_server(server)

    def restart_with(self, driver):
        self.flags(compute_driver=driver)
        self.restart_compute_service("compute1")

    def xml_of_whole_domains_is_novas(self):
        """Without a request every byte is Nova's."""
        shared = {"hw:numa_nodes": "1", "hw:emulator_threads_policy": "share"}
        for specs, vcpus in (({}, 2), (base.PLAIN, 3), (shared, 1)):
            server = self.boot(specs, vcpus=vcpus, networks=[{"port": self.new_port()}])
            self._reboot_server(server, hard=True)
            self._delete_server(server)
        self.assertEqual(6, len(self.domains.defined))
        self.assertEqual(self.xml_of_nova, self.domains.defined)

    def plugged_devices_are_novas(self):
        """The same devices plugged in with Nova's driver and with ours give the same XML."""
        plugged = {}
        for driver in (base.OUR_DRIVER, base.NOVAS_DRIVER):
            self.restart_with(driver)
            server = self.boot(base.PLAIN, networks=[{"port": self.neutron.port_1["id"]}])
            port = self.new_port()
            self._attach_interface(server, port)
            self.attach_volume(server, self.cinder.SWAP_OLD_VOL)
            plugged[driver], self.domains.attached[:] = list(self.domains.attached), []
            self._delete_server(server)
            self.neutron.delete_port(port)
        self.assertEqual(2, len(plugged[base.OUR_DRIVER]))
        self.assertEqual(plugged[base.NOVAS_DRIVER], plugged[base.OUR_DRIVER])

    def guest_of_before_is_tuned_by_hard_reboot(self):
        self.restart_with(base.NOVAS_DRIVER)
        server = self.boot(base.TUNED)
        self.assertEqual({}, self.request(self.domain(server)))
        self.restart_with(base.OUR_DRIVER)
        self.attach_volume(
            server, self.cinder.SWAP_OLD_VOL
        )  # an I/O thread only if the guest has one
        self.assertEqual({}, self.request(self.domain(server)))
        self._reboot_server(server, hard=True)
        domain = self.domain(server)
        self.assertEqual(3, len(domain.findall("devices/disk")))
        self.assert_tuned(domain)
