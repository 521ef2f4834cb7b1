# SPDX-License-Identifier: Apache-2.0
"""perf:pci_topology on real code of Nova: which bus passed-through devices are on, at boot, hot plug and migration."""

from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import base as libvirt_base
from oslo_serialization import jsonutils
from oslo_utils.fixture import uuidsentinel as uuids

from nova_perf_tuning.guest import pci_topology
from tests.nova import base

_PRODUCTS = {
    "device": fakelibvirt.PCI_PROD_ID,
    "pf": fakelibvirt.PF_PROD_ID,
    "vf": fakelibvirt.VF_PROD_ID,
}
SPECS = {
    "hw:cpu_policy": "dedicated",
    "hw:numa_nodes": "2",
    "pci_passthrough:alias": "device:2",
    "perf:pci_topology": "numa",
}


class PciTopologyTest(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        self.neutron = self.useFixture(libvirt_base.LibvirtNeutronFixture(self))
        device_spec = []
        for name, product in _PRODUCTS.items():
            entry = {"vendor_id": fakelibvirt.PCI_VEND_ID, "product_id": product}
            if name != "device":
                entry["physical_network"] = "physnet4"
            device_spec.append(jsonutils.dumps(entry))
        alias = {
            "vendor_id": fakelibvirt.PCI_VEND_ID,
            "product_id": _PRODUCTS["device"],
            "name": "device",
        }
        self.flags(device_spec=device_spec, alias=[jsonutils.dumps(alias)], group="pci")
        self.flags(hw_machine_type=["x86_64=q35"], group="libvirt")

    def start_with(self, name, **devices):
        """Start a compute with PCI devices."""
        info = fakelibvirt.HostInfo(cpu_nodes=2, cpu_sockets=1, cpu_cores=2, cpu_threads=2)
        pci_info = fakelibvirt.HostPCIDevicesInfo(**devices)
        self.start_compute(hostname=name, host_info=info, pci_info=pci_info)

    def cells(self, domain):
        """Return host address -> guest cell of the devices, by the expander bus that each is below."""
        controllers = {}
        for controller in domain.iterfind("devices/controller[@type='pci'][@index]"):
            controllers[int(controller.get("index"))] = controller
        cells = {}
        for device in domain.xpath("devices/*[source/address][address]"):
            port = controllers[int(device.find("address").get("bus"), 16)]
            expander = controllers[int(port.find("address").get("bus"), 16)]
            cells[pci_topology.host_address(device)] = expander.findtext("target/node")
        return cells

    def test_in_one_cloud(self):
        self.start_with("compute1", num_pci=2, num_pfs=0, num_vfs=0)
        # The last two add a host each.
        self.together(
            self.devices_are_on_the_bus_of_their_cell,
            self.the_image_may_ask_for_it,
            self.other_machines_are_left_alone,
            self.a_migrated_guest_has_the_nodes_of_its_new_host,
            self.hot_plug_carries_an_address,
        )

    def devices_are_on_the_bus_of_their_cell(self):
        server = self.boot(SPECS, vcpus=4)
        expected = {"0000:81:00.0": "0", "0000:81:01.0": "1"}
        self.assertEqual(expected, self.cells(self.domain(server)))
        self._reboot_server(server, hard=True)
        self.assertEqual(expected, self.cells(self.domain(server)))

    def the_image_may_ask_for_it(self):
        image = self.image(uuids.pci_topology, {"hw_perf_pci_topology": "numa"})
        specs = {key: value for key, value in SPECS.items() if not key.startswith("perf:")}
        server = self.boot(specs, vcpus=4, image_uuid=image)
        self.assertEqual(2, len(self.cells(self.domain(server))))

    def other_machines_are_left_alone(self):
        self.flags(hw_machine_type=["x86_64=pc"], group="libvirt")
        domain = self.domain(self.boot(SPECS, vcpus=4))
        self.assertEqual([], domain.xpath("devices/controller[@type='pci']"))
        self.assertIn("the machine type is pc, expander", self.stdlog.logger.output)
        self.flags(hw_machine_type=["x86_64=q35"], group="libvirt")

    def a_migrated_guest_has_the_nodes_of_its_new_host(self):
        self.copy_no_disks()
        self.start_with("host_b", num_pci=2, num_pfs=0, num_vfs=0, numa_node=1, bus=0x91)
        server = self.boot(SPECS, vcpus=4, host="compute1")
        self._migrate_server(server)
        cells = self.cells(self.domain(server, "host_b"))
        self.assertEqual({"0000:91:00.0": "1", "0000:91:01.0": "1"}, cells)
        self._confirm_resize(server)

    def hot_plug_carries_an_address(self):
        self.start_with("host_c", num_pci=0, num_pfs=1, num_vfs=4, numa_node=1)
        specs = {key: value for key, value in SPECS.items() if key != "pci_passthrough:alias"}
        server = self.boot(specs, vcpus=4, host="host_c")
        self.assertEqual({}, self.cells(self.domain(server, "host_c")))
        # The MAC of Nova's fixture is one of a group, which libvirt refuses.
        direct = {**self.neutron.network_4_port_1, "mac_address": "fa:16:3e:00:00:41"}
        port = self.neutron.create_port({"port": direct})["port"]
        self.api.attach_interface(server["id"], {"interfaceAttachment": {"port_id": port["id"]}})
        self.assertEqual(["1"], list(self.cells(self.domain(server, "host_c")).values()))
        self.attach_volume(server, self.cinder.SWAP_OLD_VOL)
        domain = self.domain(server, "host_c")
        flat = domain.xpath("count(devices/controller[@model='pcie-root-port'][not(address)])")
        (bus,) = domain.xpath("devices/disk[target/@dev='vdc']/address/@bus")
        self.assertTrue(1 <= int(bus, 16) <= flat, bus)
