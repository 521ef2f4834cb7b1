# SPDX-License-Identifier: Apache-2.0
"""Queue pairs on hosts with different CPU sets, and XML that must stay Nova's over many flavors."""

import random
import re
from unittest import mock

from nova.virt.libvirt import driver as nova_driver
from nova.virt.libvirt import vif as nova_vif

from tests.nova import base, fault_points

AUTO = {"perf:vif_queues": "auto", "hw:vif_multiqueue_enabled": "true"}
PINNED = {"hw:cpu_policy": "dedicated"}
MIXED = {"hw:cpu_policy": "mixed", "hw:cpu_dedicated_mask": "^0"}

TWO_NODES = {"hw:numa_nodes": "2"}

#: (shared CPUs, dedicated CPUs, vCPUs, specs beside AUTO, queue pairs) on 12 CPUs: 0-5 on node 0, 6-11 on node 1.
#: Placement gives no guest more vCPUs than the host has CPUs for them, so those cases are pinned or mixed ones.
HOSTS = (
    # shared only: all of them, since the guest floats
    ("0-11", None, 1, {}, None),
    ("0-11", None, 4, {}, 4),
    ("0-11", None, 12, {}, 8),  # never more than eight
    ("0,1,6,7", None, 2, {"hw:numa_nodes": "1"}, 2),  # those of its node
    ("0,1,6,7", None, 4, TWO_NODES, 4),
    # dedicated only: what is left over on the guest's nodes
    (None, "2-5,8-11", 4, PINNED, 2),
    (None, "2-5,8-11", 8, PINNED | TWO_NODES, 4),
    (None, "0-11", 4, PINNED, None),  # nothing is left over
    # both: the shared ones of the guest's nodes
    ("0,1,6,7", "2-5,8-11", 4, PINNED, 2),
    ("0,1,6,7", "2-5,8-11", 8, PINNED | TWO_NODES, 4),
    ("0,1,6,7", "2-5,8-11", 4, MIXED, 2),
    ("0-5", "6-11", 6, PINNED, None),  # its node has none
    # neither: how many may serve is not known
    (None, None, 12, {}, 8),
)


class QueuesTest(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        info = base.fakelibvirt.HostInfo(cpu_nodes=2, cpu_sockets=1, cpu_cores=3, cpu_threads=2)
        self.flags(cpu_dedicated_set=None, cpu_shared_set=None, group="compute")
        self.start_compute(hostname="compute1", host_info=info)

    def queues(self, specs, vcpus):
        """Return the queues attribute of a new guest's interface."""
        server = self.boot(specs, vcpus=vcpus, networks=[{"port": self.new_port()}])
        driver = self.domain(server).find("devices/interface/driver")
        self._delete_server(server)
        return None if driver is None else driver.get("queues")

    def test_on_one_host(self):
        self.together(self.auto_follows_the_cpu_sets_of_the_host, self.explicit_in_emulated_guests)

    def auto_follows_the_cpu_sets_of_the_host(self):
        before = None
        for shared, dedicated, vcpus, specs, queues in HOSTS:
            with self.subTest(shared):
                if (shared, dedicated) != before:
                    self.flags(cpu_shared_set=shared, cpu_dedicated_set=dedicated, group="compute")
                    self._run_periodics()  # the inventory follows the sets
                    before = shared, dedicated
                case = f"shared {shared}, dedicated {dedicated}, {vcpus} vCPUs, {specs}"
                actual = self.queues(AUTO | specs, vcpus)
                self.assertEqual(None if queues is None else str(queues), actual, case)

    def explicit_in_emulated_guests(self):
        """virt_type=qemu: Nova says nothing of queues there, the hook has to."""
        self.flags(cpu_dedicated_set=None, cpu_shared_set=None, group="compute")
        self.flags(virt_type="qemu", group="libvirt")
        self.restart_compute_service("compute1")
        multiqueue = {"hw:vif_multiqueue_enabled": "true"}
        for specs, vcpus, queues in (
            ({"perf:vif_queues": "2"}, 4, "2"),
            ({"perf:vif_queues": "4"}, 4, "4"),
            (
                {"perf:vif_rx_queue_size": "512"},
                3,
                "3",
            ),  # none asked: as many as the tap device was made for
            ({"perf:vif_queues": "2"}, 12, "2"),
        ):
            with self.subTest(specs):
                self.assertEqual(queues, self.queues(specs | multiqueue, vcpus), (specs, vcpus))
        # Without a request as Nova writes it: the tap device is made for several queues, libvirt asked for one.
        driver = self.domain(self.boot(multiqueue, vcpus=2)).find("devices/interface/driver")
        self.assertEqual({"name": "qemu"}, dict(driver.attrib))


#: Specs of others, Nova's and strangers', that change the XML of a running guest and not where it runs.
FOREIGN = {
    "hw:vif_multiqueue_enabled": ["true", "false"],
    "hw:virtio_packed_ring": ["true", "false"],
    "hw:watchdog_action": ["reset", "disabled"],
    "hw:hide_hypervisor_id": ["true", "false"],
    "hw:emulator_threads_policy": ["share"],
    "hw:input_bus": ["virtio", "usb"],
    "hw_rng:allowed": ["True", "False"],
    "quota:vif_inbound_average": ["1000"],
    "quota:disk_read_iops_sec": ["100"],
    "trait:CUSTOM_PERF_VALIDATED": ["required"],
    "performance:class": ["gold", "\u00e4\u00f6\u00fc <&>"],
    "mine:perf:vif_queues": ["2"],
}
IMAGES = {
    "image_hw_vif_model": ["virtio", "e1000"],
    "image_hw_vif_multiqueue_enabled": ["true"],
    "image_hw_performance": ["high"],
    "image_os_type": ["windows"],
}


def some_of(table, chance):
    """Return a dictionary with some of a table's keys, each with one of its values."""
    return {key: chance.choice(values) for key, values in table.items() if chance.random() < 0.4}


class UntouchedFlavorsTest(base.PerfTestCase):
    """Without a perf: spec: Nova's method with Nova's VIF driver and ours, on the same guest, byte for byte."""

    def setUp(self):
        super().setUp()
        self.start()
        self.points = self.useFixture(fault_points.FaultPoints())
        self.driver = self.computes["compute1"].driver

    def both(self, specs, properties):
        """Return XML of the guest booted last with other specs and image properties: Nova's and ours."""
        args, kwargs = self.points.arguments[
            "nova.driver.PerfTuningLibvirtDriver._get_guest_config"
        ]
        args = args[1:]
        instance = args[0]
        instance.flavor.extra_specs, instance.system_metadata = specs, properties
        ours = self.driver._get_guest_config(*args, **kwargs).to_xml()
        with mock.patch.object(
            self.driver, "vif_driver", nova_vif.LibvirtGenericVIFDriver(self.driver._host)
        ):
            novas = nova_driver.LibvirtDriver._get_guest_config(
                self.driver, *args, **kwargs
            ).to_xml()
        return [re.sub("<nova:creationTime>[^<]*", "", xml) for xml in (novas, ours)]

    def compare(self, base_specs, vcpus):
        self.boot(base_specs, vcpus=vcpus, networks=[{"port": self.new_port()} for _ in range(2)])
        args, _ = self.points.arguments["nova.driver.PerfTuningLibvirtDriver._get_guest_config"]
        present = dict(args[1].system_metadata)
        seen = set()

        chance = random.Random(20)
        for _ in range(60):
            specs, properties = some_of(FOREIGN, chance), some_of(IMAGES, chance)
            novas, ours = self.both(base_specs | specs, present | properties)
            self.assertEqual(novas, ours, (specs, properties))
            seen.add(ours)
        self.assertTrue(len(seen) > 20, len(seen))
        # and the comparison can fail: the same guest with a request of ours
        novas, ours = self.both(base_specs | {"perf:iothreads": "2"}, present)
        self.assertNotEqual(novas, ours)

    def test_xml_of_a_pinned_guest_is_novas_byte_for_byte(self):
        self.compare(base.PLAIN, 3)
