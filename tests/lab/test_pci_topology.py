# SPDX-License-Identifier: Apache-2.0
"""VFs of NICs on both nodes, passed through to a guest of two cells that asks for perf:pci_topology=numa."""

from tests.lab import rig

#: VFs of the igb NICs on node 0 and node 1, and one to plug in.
VFS = ("0000:22:10.0", "0000:82:10.0")
PLUGGED = "0000:82:10.2"
#: The guest's devices: identity and node.
DEVICES = 'for d in /sys/bus/pci/devices/*; do echo "$(cat $d/device) $(cat $d/numa_node)"; done'
#: What a VF is: IGB_82576_VF of the kernel.
VF = "0x10ca"
#: Gives a device the address that nova-compute gives it before it plugs it in.
PLUG = """
import sys
from lxml import etree
from nova_perf_tuning.guest import parsing, pci_topology
from nova_perf_tuning.host.input.facts import devices
from nova_perf_tuning.host.input.facts.root import Root
device = parsing.parse_xml(open("/run/lab/vf.xml").read())
nodes = devices.read_nodes(Root(), [pci_topology.host_address(device)])
assert [] == pci_topology.write_plugged(device, sys.stdin.read(), nodes)
print(etree.tostring(device, encoding="unicode"))
"""


class PciTopologyTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        for address in ("0000:22:00.0", "0000:82:00.0"):
            file = f"/sys/bus/pci/devices/{address}/sriov_numvfs"
            self.lab.run(f"[ $(cat {file}) = 2 ] || echo 2 > {file}")

    def nodes(self):
        """Return the nodes that the guest sees of its VFs, ascending."""
        lines = [line.split() for line in self.lab.ask("console", "g1", DEVICES).splitlines()]
        return sorted(
            node for identity, node in (line for line in lines if len(line) == 2) if identity == VF
        )

    def test_a_guest_sees_the_nodes_of_its_devices(self):
        xml = rig.domain_xml("g1", self.lab.kernel, devices=VFS, memory="0-1")
        cells, memory = "", ""
        for cell, vcpus in enumerate(("0-1", "2-3")):
            cells += f"<cell id='{cell}' cpus='{vcpus}' memory='192' unit='MiB'/>"
            memory += f"<memnode cellid='{cell}' mode='strict' nodeset='{cell}'/>"
        xml = xml.replace(
            "<cpu mode='host-passthrough'/>",
            f"<cpu mode='host-passthrough'><numa>{cells}</numa></cpu>",
        )
        xml = xml.replace("</numatune>", f"{memory}</numatune>")
        self.lab.ask("put", "/run/lab/g1.xml", xml)
        self.addCleanup(self.lab.ask, "run", "virsh destroy g1")
        perf = "cd /opt/perf/tree && python3 -m nova_perf_tuning.cli.main"
        self.lab.run(
            f"{perf} xml --spec perf:pci_topology=numa /run/lab/g1.xml >/run/lab/numa.xml"
        )
        self.lab.run("virsh create /run/lab/numa.xml")
        self.await_guest()
        self.assertEqual(["0", "1"], self.nodes())
        self.lab.ask("put", "/run/lab/vf.xml", rig.hostdev_xml(PLUGGED))
        self.lab.ask("put", "/run/lab/plug.py", PLUG)
        self.lab.run(
            "cd /opt/perf/tree && virsh dumpxml g1 | python3 /run/lab/plug.py >/run/lab/plugged.xml"
        )
        self.lab.run("virsh attach-device g1 /run/lab/plugged.xml --live")
        self.until(lambda: len(self.nodes()) == 3, "a VF plugged into the bus of its cell")
        self.assertEqual(["0", "1", "1"], self.nodes())
