# SPDX-License-Identifier: Apache-2.0
"""Live migration: what the guest sees stays as it runs, what names CPUs of the source does not arrive."""

import fixtures
from lxml import etree
from nova.tests.functional.libvirt import base as nova_base
from nova.virt.libvirt import migration as nova_migration

from tests.nova import base


class LiveMigrationTestCase(nova_base.LibvirtMigrationMixin, base.PerfTestCase):
    """From host a, of 8 CPUs, to host b, where the guest's node has no room: it arrives on the other node."""

    specs = base.TUNED
    dedicated_b, shared_b = "5-7", "0,4"

    def setUp(self):
        super().setUp()
        flags = "nova.compute.manager.ComputeManager._live_migration_cleanup_flags"
        self.useFixture(fixtures.MonkeyPatch(flags, lambda *_, **__: (True, True)))
        self.rewritten = []
        update = nova_migration.get_updated_guest_xml

        def spy(*args, **kwargs):
            self.rewritten.append(update(*args, **kwargs))
            return self.rewritten[-1]

        self.useFixture(
            fixtures.MonkeyPatch("nova.virt.libvirt.migration.get_updated_guest_xml", spy)
        )
        self.start("host_a")
        self.flags(
            cpu_dedicated_set=self.dedicated_b, cpu_shared_set=self.shared_b, group="compute"
        )
        self.start("host_b")
        self.src, self.dest = self.computes["host_a"], self.computes["host_b"]

    def _migrate_stub(self, domain, destination, params, flags):
        self.arrived_xml = params["destination_xml"]
        self.assertEqual(self.arrived_xml, params["persistent_xml"])
        super()._migrate_stub(domain, destination, params, flags)

    def boot_on_a(self, specs, **kwargs):
        self.flags(cpu_dedicated_set=self.dedicated, cpu_shared_set=self.shared, group="compute")
        self.server = self.boot(specs, host="host_a", **kwargs)
        return self.server

    def restart_with(self, driver):
        """Restart both computes with another driver, each with its CPUs."""
        self.flags(compute_driver=driver)
        self.flags(cpu_dedicated_set=self.dedicated, cpu_shared_set=self.shared, group="compute")
        self.restart_compute_service("host_a")
        self.flags(
            cpu_dedicated_set=self.dedicated_b, cpu_shared_set=self.shared_b, group="compute"
        )
        self.restart_compute_service("host_b")
        self.src, self.dest = self.computes["host_a"], self.computes["host_b"]

    def restart_b_with(self, dedicated, shared):
        """Restart host b with other CPUs."""
        self.dedicated_b, self.shared_b = dedicated, shared
        self.flags(cpu_dedicated_set=dedicated, cpu_shared_set=shared, group="compute")
        self.restart_compute_service("host_b")
        self.dest = self.computes["host_b"]

    def migrate(self):
        """Migrate the guest away from host a; options of the compute that works on it are host b's."""
        self.flags(
            cpu_dedicated_set=self.dedicated_b, cpu_shared_set=self.shared_b, group="compute"
        )
        self._live_migrate(self.server, "completed")
        self.assertTrue(self.migrate_stub_ran)
        return self.domain(self.server, "host_b")


class LiveMigrationTest(LiveMigrationTestCase):
    def test_pinned_guest_with_plugged_devices_arrives_on_other_cpus(self):
        self.boot_on_a(base.TUNED)
        self.attach_volume(self.server, self.cinder.SWAP_OLD_VOL)
        self._attach_interface(self.server, self.new_port())
        before = self.domain(self.server, "host_a")
        self.assert_tuned(before, interfaces=2, emulator="0")
        after = self.migrate()
        self.assert_tuned(after, interfaces=2, emulator="4")
        pins = sorted(pin.get("cpuset") for pin in after.findall("cputune/vcpupin"))
        self.assertEqual(["5", "6", "7"], pins)
        self.assertEqual(3, len(after.findall("devices/disk")))
        for path in ("devices/disk/driver", "devices/interface/driver", "devices/*/address"):
            with self.subTest(path):
                self.assertEqual(
                    [dict(element.attrib) for element in before.findall(path)],
                    [dict(element.attrib) for element in after.findall(path)],
                    path,
                )

    def test_between_two_hosts(self):
        # The last one leaves a host with Nova's driver.
        self.together(
            self.without_request_as_nova_writes_it,
            self.values_in_force_beat_changed_configuration,
            self.guest_of_before_migrates_as_it_runs,
            self.expander_buses_arrive_as_they_are,
            self.queues_of_emulated_guests_arrive,
            self.all_iothreads_follow_to_a_host_without_shared_cpus,
            self.floating_guest_on_other_cpus,
            self.guest_on_two_nodes_with_a_volume,
            self.to_a_host_without_the_driver,
        )

    def values_in_force_beat_changed_configuration(self):
        self.boot_on_a(base.TUNED | {"perf:vif_rx_queue_size": "512"})
        self.flags(rx_queue_size=256, max_queues=1, group="libvirt")
        driver = self.migrate().find("devices/interface/driver")
        self.assertEqual(
            {"name": "vhost", "queues": "2", "rx_queue_size": "512"}, dict(driver.attrib)
        )
        self.reset_flags("rx_queue_size", "max_queues", group="libvirt")

    def expander_buses_arrive_as_they_are(self):
        """They name the guest's cell, which stays, and no node of a host."""
        self.flags(hw_machine_type=["x86_64=q35"], group="libvirt")
        self.boot_on_a(base.PLAIN | {"perf:pci_topology": "numa"})
        controllers = []
        for domain in (self.domain(self.server, "host_a"), self.migrate()):
            elements = domain.findall("devices/controller[@type='pci']")
            controllers.append([etree.tostring(element).strip() for element in elements])
        self.assertTrue([text for text in controllers[0] if b"pcie-expander-bus" in text])
        self.assertEqual(*controllers)

    def guest_of_before_migrates_as_it_runs(self):
        """Booted without the hook, its flavor has a request: the running guest's devices are what counts."""
        self.restart_with(base.NOVAS_DRIVER)
        self.boot_on_a(base.TUNED)
        before = self.domain(self.server, "host_a").find("devices/interface/driver")
        self.restart_with(base.OUR_DRIVER)
        domain = self.migrate()
        self.assertEqual(dict(before.attrib), dict(domain.find("devices/interface/driver").attrib))
        self.assertEqual([], domain.xpath("devices/disk/driver/@iothread"))
        self.assertEqual({}, self.request(domain))
        self._reboot_server(self.server, hard=True)
        self.assert_tuned(self.domain(self.server, "host_b"), emulator="4")

    def to_a_host_without_the_driver(self):
        self.flags(compute_driver=base.NOVAS_DRIVER)
        self.restart_b_with("5-7", "0,4")
        self.boot_on_a(base.TUNED)
        domain = self.migrate()
        self.assert_tuned(domain, emulator=domain.find("cputune/emulatorpin").get("cpuset"))
        self.assertEqual("5-7", domain.find("cputune/emulatorpin").get("cpuset"))

    def without_request_as_nova_writes_it(self):
        self.boot_on_a(base.PLAIN)
        self.migrate()
        self.assertEqual([self.arrived_xml], self.rewritten)

    def queues_of_emulated_guests_arrive(self):
        """virt_type=qemu with several queues: what Nova forgets at boot it forgets at the destination as well."""
        self.flags(virt_type="qemu", group="libvirt")
        self.restart_with(base.OUR_DRIVER)
        self.boot_on_a({"hw:vif_multiqueue_enabled": "true", "perf:vif_queues": "2"}, vcpus=2)
        self._attach_interface(self.server, self.new_port())
        drivers = self.migrate().findall("devices/interface/driver")
        self.assertEqual(
            [{"name": "qemu", "queues": "2"}] * 2, [dict(driver.attrib) for driver in drivers]
        )
        self.flags(virt_type="kvm", group="libvirt")
        self.restart_with(base.OUR_DRIVER)

    def all_iothreads_follow_to_a_host_without_shared_cpus(self):
        """The emulator gets the guest's own there, and every I/O thread with it."""
        self.restart_b_with("5-7", None)
        self.boot_on_a(base.TUNED)
        self.assert_tuned(self.domain(self.server, "host_a"), emulator="0")
        self.assert_tuned(self.migrate(), emulator="5-7")

    def floating_guest_on_other_cpus(self):
        """Nova has the shared CPUs of a host in the XML, and renews them; what is asked stays."""
        self.restart_b_with("2,3,6,7", "1,5")
        specs = {
            "hw:vif_multiqueue_enabled": "true",
            "perf:vif_queues": "2",
            "perf:iothreads": "2",
        }
        self.boot_on_a(specs, vcpus=2)
        self.assertEqual("0,4", self.domain(self.server, "host_a").find("vcpu").get("cpuset"))
        domain = self.migrate()
        self.assertEqual("1,5", domain.find("vcpu").get("cpuset"))
        self.assertEqual("2", domain.find("devices/interface/driver").get("queues"))
        self.assertEqual(["1", "2"], sorted(domain.xpath("devices/disk/driver/@iothread")))
        self.assertEqual(specs["perf:iothreads"], self.request(domain)["perf:iothreads"])

    def guest_on_two_nodes_with_a_volume(self):
        """Host b has other CPUs for everything, as before."""
        self.boot_on_a(base.TUNED | {"hw:numa_nodes": "2"}, vcpus=4)
        self.attach_volume(self.server, self.cinder.SWAP_OLD_VOL)
        self.assert_tuned(self.domain(self.server, "host_a"), emulator="0,4")
        domain = self.migrate()
        self.assert_tuned(domain, emulator="1,5")
        pins = {pin.get("cpuset") for pin in domain.findall("cputune/vcpupin")}
        self.assertEqual({"2", "3", "6", "7"}, pins)
        self.assertEqual(3, len(domain.findall("devices/disk")))
