"""vDPA interfaces, which Nova takes out of a guest on suspend and puts back on resume."""

from nova.tests.functional.libvirt import base as nova_base
from oslo_serialization import jsonutils
from oslo_utils.fixture import uuidsentinel as uuids

from tests.nova import base

SPECS = {
    "hw:vif_multiqueue_enabled": "true",
    "perf:vif_queues": "2",
    "perf:vif_rx_queue_size": "1024",
    "perf:vif_host_offload.mrg_rxbuf": "false",
}


class VdpaTest(base.PerfTestCase):
    """A NIC of four vDPA devices, as in Nova's own tests of them; Nova writes them without a model."""

    ADDITIONAL_FILTERS = ["NUMATopologyFilter", "PciPassthroughFilter"]

    def setUp(self):
        super().setUp()
        spec = [
            jsonutils.dumps({"vendor_id": "15b3", "product_id": product, "physical_network": "physnet4"})
            for product in ("101d", "101e")
        ]
        self.flags(device_spec=spec, group="pci")
        self.neutron = self.useFixture(nova_base.LibvirtNeutronFixture(self))
        self.port = {
            "id": uuids.vdpa_port,
            "network_id": self.neutron.network_4["id"],
            "status": "ACTIVE",
            "mac_address": "b4:bc:2e:e7:51:ee",
            "fixed_ips": [{"ip_address": "192.168.4.6", "subnet_id": self.neutron.subnet_4["id"]}],
            "binding:vif_details": {},
            "binding:vif_type": "ovs",
            "binding:vnic_type": "vdpa",
        }
        self.neutron.create_port({"port": self.port})
        self.start_with_vdpa("compute1")

    def start_with_vdpa(self, name):
        pci = base.fakelibvirt.HostPCIDevicesInfo(num_pci=0, num_pfs=0, num_vfs=0)
        vdpa = base.fakelibvirt.HostVDPADevicesInfo()
        common = {"bus": 0x6, "slot": 0, "numa_node": 0, "vf_ratio": 4, "vend_id": "15b3", "vend_name": "Mellanox"}
        common["driver_name"] = "mlx5_core"
        pci.add_device(dev_type="PF", function=0, iommu_group=40, prod_id="101d", prod_name="PF", **common)
        for number in range(4):
            function = {"dev_type": "VF", "function": number + 1, "iommu_group": number + 41}
            function |= {"parent": (0x6, 0, 0), "prod_id": "101e", "prod_name": "VF"}
            vdpa.add_device(f"vdpa_vdpa{number}", number, pci.add_device(**function, **common))
        info = base.fakelibvirt.HostInfo(cpu_nodes=2, cpu_sockets=1, cpu_cores=2, cpu_threads=2)
        self.start_compute(hostname=name, host_info=info, pci_info=pci, vdpa_info=vdpa)

    def interfaces(self, server):
        """Return what a guest's vDPA interfaces have in them, but for what libvirt adds."""
        found = self.domain(server).findall("devices/interface[@type='vdpa']")
        return [[part.tag for part in one if part.tag not in ("alias", "address")] for one in found]

    def test_stays_as_nova_writes_it(self):
        """libvirt would drop a driver there; the log says so, and nothing differs after a suspension."""
        ports = [{"port": self.port["id"]}, {"port": self.neutron.port_1["id"]}]
        server = self.boot(SPECS, vcpus=2, networks=ports)
        before = self.interfaces(server)
        self.assertEqual([["mac", "source"]], before)
        (tap,) = self.domain(server).xpath("devices/interface[@type!='vdpa']")
        self.assertEqual("1024", tap.find("driver").get("rx_queue_size"))
        self.assertIn("b4:bc:2e:e7:51:ee is a vDPA device without a model", self.stdlog.logger.output)
        self._suspend_server(server)
        self.assertEqual([], self.interfaces(server))
        self._resume_server(server)
        self.assertEqual(before, self.interfaces(server))
