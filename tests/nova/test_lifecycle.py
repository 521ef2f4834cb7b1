# SPDX-License-Identifier: Apache-2.0
"""A guest keeps its tuning on every path of its life: tuning there, nothing stale, nothing lost."""

from nova.tests import fixtures as nova_fixtures
from oslo_utils.fixture import uuidsentinel as uuids

from tests.nova import base


class OneHostTest(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        self.start()
        self.server = self.boot(base.TUNED)

    def test_new_guest_is_tuned(self):
        domain = self.domain(self.server)
        self.assert_tuned(domain)
        self.assertEqual(
            {key: text for key, text in base.TUNED.items() if "perf:" in key}, self.request(domain)
        )
        pins = {pin.get("vcpu"): pin.get("cpuset") for pin in domain.findall("cputune/vcpupin")}
        self.assertEqual({"0": "1", "1": "2", "2": "3"}, pins)

    def test_rebuilt_guest_is_written_once_and_tuned(self):
        before = len(self.xml_of_nova)
        self._rebuild_server(self.server, nova_fixtures.GlanceFixture.image2["id"])
        self.assertEqual(before + 1, len(self.xml_of_nova))
        self.assert_tuned(self.domain(self.server))

    def test_rescue_and_unrescue(self):
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

    def setUp(self):
        super().setUp()
        self.copy_no_disks()
        self.start("host_a")
        self.flags(cpu_dedicated_set="5-7", cpu_shared_set="0,4", group="compute")
        self.start("host_b")
        self.server = self.boot(base.TUNED, host="host_a")
        self.assert_tuned(self.domain(self.server, "host_a"), emulator="0")

    def test_cold_migrate_and_revert(self):
        self._migrate_server(self.server)
        self.assert_tuned(self.domain(self.server, "host_b"), emulator="4")
        self.flags(cpu_dedicated_set=self.dedicated, group="compute")
        self._revert_resize(self.server)
        self.assert_tuned(self.domain(self.server, "host_a"), emulator="0")

    def test_resize_to_other_request(self):
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

    def test_evacuated_guest_is_tuned_for_its_new_host(self):
        self.computes["host_a"].stop()
        self.api.put_service(self.computes["host_a"].service_ref.uuid, {"forced_down": True})
        self._evacuate_server(self.server, expected_host="host_b")
        self._start_server(self.server)
        self.assert_tuned(self.domain(self.server, "host_b"), emulator="4")


class RequestTest(base.PerfTestCase):
    """Where a request may come from and what it may hold."""

    def test_image_properties(self):
        wanted = {"iothreads": "2", "vif_rx_queue_size": "512", "emulator_placement": "numa"}
        image = self.image(
            uuids.tuned_image, {f"hw_perf_{name}": text for name, text in wanted.items()}
        )
        self.start()
        domain = self.domain(self.boot(base.PLAIN, image_uuid=image))
        self.assertEqual("2", domain.findtext("iothreads"))
        self.assertEqual("512", domain.find("devices/interface/driver").get("rx_queue_size"))
        # what acts on the host is the flavor's
        self.assertEqual("1-3", domain.find("cputune/emulatorpin").get("cpuset"))
        self.assertNotIn("perf:emulator_placement", self.request(domain))

    def test_balloon_is_the_same_on_every_release(self):
        """As Nova 32 and later have it where it is on; the guest's statistics stay Nova's."""
        image = self.image(uuids.reporting_image, {"hw_perf_free_page_reporting": "true"})
        self.start()
        balloon = self.domain(self.boot({}, 2, image_uuid=image)).find("devices/memballoon")
        self.assertEqual(
            {"model": "virtio", "autodeflate": "on", "freePageReporting": "on"},
            dict(balloon.attrib),
        )
        self.assertEqual(["10"], balloon.xpath("stats/@period"))

    def test_cpus_of_its_own_by_their_resource_class(self):
        """Nova pins such a guest, and refuses hw:cpu_policy beside it."""
        self.start()
        for key in ("resources:PCPU", "resources1:PCPU"):
            with self.subTest(key):
                server = self.boot({key: "2", "perf:emulator_placement": "numa"}, vcpus=2)
                domain = self.domain(server)
                pins = [int(pin.get("cpuset")) for pin in domain.findall("cputune/vcpupin")]
                self.assertEqual(2, len(pins))
                shared = "0" if max(pins) < 4 else "4"
                self.assertEqual(shared, domain.find("cputune/emulatorpin").get("cpuset"))
                self._delete_server(server)


class EmulatedTest(base.PerfTestCase):
    """virt_type=qemu: Nova makes the tap device for several queues, and asks libvirt for one."""

    virt_type = "qemu"

    def test_without_request_as_nova_writes_it(self):
        self.start()
        domain = self.domain(self.boot({"hw:vif_multiqueue_enabled": "true"}, vcpus=2))
        self.assertEqual({"name": "qemu"}, dict(domain.find("devices/interface/driver").attrib))


class UntouchedTest(base.PerfTestCase):
    """Without a request every byte is Nova's."""

    def test_xml_of_whole_domains_is_novas(self):
        self.start()
        shared = {"hw:numa_nodes": "1", "hw:emulator_threads_policy": "share"}
        for specs, vcpus in (({}, 2), (base.PLAIN, 3), (shared, 1)):
            server = self.boot(specs, vcpus=vcpus, networks=[{"port": self.new_port()}])
            self._reboot_server(server, hard=True)
            self._delete_server(server)
        self.assertEqual(6, len(self.domains.defined))
        self.assertEqual(self.xml_of_nova, self.domains.defined)

    def test_plugged_devices(self):
        """The same devices plugged in with Nova's driver and with ours give the same XML."""
        self.start()
        plugged = {}
        for driver in (base.OUR_DRIVER, base.NOVAS_DRIVER):
            self.flags(compute_driver=driver)
            self.restart_compute_service("compute1")
            server = self.boot(base.PLAIN, networks=[{"port": self.neutron.port_1["id"]}])
            port = self.new_port()
            self._attach_interface(server, port)
            self.attach_volume(server, self.cinder.SWAP_OLD_VOL)
            plugged[driver], self.domains.attached[:] = list(self.domains.attached), []
            self._delete_server(server)
            self.neutron.delete_port(port)
        self.assertEqual(2, len(plugged[base.OUR_DRIVER]))
        self.assertEqual(plugged[base.NOVAS_DRIVER], plugged[base.OUR_DRIVER])


class SwitchedTest(base.PerfTestCase):
    """The driver comes to a host with guests, and goes from one."""

    def restart_with(self, driver):
        self.flags(compute_driver=driver)
        self.restart_compute_service("compute1")

    def test_guest_of_before_is_tuned_by_hard_reboot(self):
        self.compute_driver = base.NOVAS_DRIVER
        self.flags(compute_driver=base.NOVAS_DRIVER)
        self.start()
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
