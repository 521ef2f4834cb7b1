# SPDX-License-Identifier: Apache-2.0
"""Expander buses before libvirt, QEMU and a guest's kernel: where libvirt puts devices, and what the guest sees.

No host here has devices to pass through, nor two nodes: emulated NICs take the addresses of the passed-through
devices, after the XML is written.
"""

import re

from lxml import etree

from nova_perf_tuning.guest import parsing, pci_topology, transform
from nova_perf_tuning.specs import parsing as spec_parsing
from tests.support import corpus, embedded_libvirt

NUMA = {"perf:pci_topology": "numa"}
#: Host nodes of devices 0000:82:00.0 and so on; the guest's cells 0 and 1 are on host nodes 1 and 0.
NODES = {"0000:82:00.0": 0, "0000:83:00.0": 1, "0000:84:00.0": 0}
CELLS = {"0000:82:00.0": 1, "0000:83:00.0": 0, "0000:84:00.0": 1}
#: A device whose node nobody knows.
UNKNOWN = "0000:85:00.0"


def hostdev(address):
    domain, bus, slot = re.split("[:.]", address)[:3]
    return (
        "<hostdev mode='subsystem' type='pci' managed='yes'><source>"
        f"<address domain='0x{domain}' bus='0x{bus}' slot='0x{slot}' function='0x0'/></source></hostdev>"
    )


def guest(devices, system="", features=""):
    """Return a q35 guest with two cells, each on the host node of the other's number."""
    return (
        f"<domain type='qemu'><name>{embedded_libvirt.NAME}</name><memory unit='MiB'>256</memory><vcpu>2</vcpu>"
        "<numatune><memnode cellid='0' mode='strict' nodeset='1'/><memnode cellid='1' mode='strict' nodeset='0'/>"
        f"</numatune><os><type arch='x86_64' machine='q35'>hvm</type>{system}</os><features><acpi/>{features}"
        "</features><cpu><numa><cell id='0' cpus='0' memory='128' unit='MiB'/>"
        "<cell id='1' cpus='1' memory='128' unit='MiB'/></numa></cpu><on_reboot>destroy</on_reboot>"
        f"<devices>{devices}</devices></domain>"
    )


def cell_of(root, device):
    """Return the guest cell of the root bus that a device is below, in XML as libvirt returns it."""
    controllers = {
        int(controller.get("index")): controller
        for controller in root.iterfind("devices/controller[@type='pci']")
    }
    while device.find("address[@type='pci']") is not None:
        bus = int(device.find("address").get("bus"), 16)
        device = controllers[bus]
        if device.get("model") == "pcie-expander-bus":
            return int(device.findtext("target/node"))
    return None


class AddressTest(embedded_libvirt.EmbeddedCase):
    """What libvirt makes of the XML, which names the addresses of passed-through devices alone."""

    def returned(self, xml):
        """Define a domain and return it as libvirt does."""
        path = self.write("guest.xml", xml)
        name = embedded_libvirt.NAME
        out = self.virsh(f"define --validate {path}", f"dumpxml {name}", f"undefine {name}")
        return parsing.parse_xml(out[out.index("<domain") :])

    def test_only_devices_of_a_cell_are_on_its_bus(self):
        """Many devices of all kinds, also those that libvirt adds itself, with Nova's ports and without."""
        others = "".join(
            f"<disk type='file' device='disk'><source file='/d{name}'/><target dev='vd{name}' bus='virtio'/></disk>"
            for name in "abcdef"
        )
        others += "<interface type='user'><model type='virtio'/></interface>" * 5
        others += "<interface type='user'><model type='rtl8139'/></interface><watchdog model='i6300esb'/>"
        others += (
            "<channel type='unix'><target type='virtio' name='org.qemu.guest_agent.0'/></channel>"
        )
        others += "<sound model='ich6'/><input type='tablet' bus='usb'/><rng model='virtio'>"
        others += "<backend model='random'>/dev/urandom</backend></rng><video><model type='virtio'/></video>"
        novas = "<controller type='pci' model='pcie-root'/>"
        novas += "<controller type='pci' model='pcie-root-port'/>" * 5
        hostdevs = "".join(map(hostdev, (*NODES, UNKNOWN)))
        for ports in ("", novas):
            with self.subTest(ports):
                done = transform.transform(
                    guest(ports + others + hostdevs), spec_parsing.parse(NUMA), device_nodes=NODES
                )
                self.assertEqual(
                    [f"PCI device {UNKNOWN}"], [part.device for part in done.left_out]
                )
                root = self.returned(done.xml)
                cells = {}
                for device in root.iterfind("devices/*"):
                    if pci_topology.is_passed_through(device):
                        cells[pci_topology.host_address(device)] = cell_of(root, device)
                    elif device.tag != "controller" or device.get("type") != "pci":
                        self.assertIsNone(cell_of(root, device), etree.tostring(device))
                self.assertEqual({**CELLS, UNKNOWN: None}, cells)
                self.assertTrue(root.xpath("devices/controller[@model='pcie-to-pci-bridge']"))
                again = transform.transform(
                    etree.tostring(root), spec_parsing.parse(NUMA), device_nodes=NODES
                )
                self.assertEqual(transform.text(root), again.xml)

    def test_domains_as_nova_writes_them(self):
        for name in ("hostdev.xml", "numa-pinned.xml"):
            with self.subTest(name):
                xml = corpus.text(name).replace('type="kvm"', 'type="qemu"', 1)
                xml = xml.replace("host-passthrough", "maximum")
                xml = re.sub(
                    "<name>.*</name>", f"<name>{embedded_libvirt.NAME}</name>", xml, count=1
                )
                nodes = {"0000:82:10.1": 0, "0000:84:00.0": 0}
                done = transform.transform(xml, spec_parsing.parse(NUMA), device_nodes=nodes)
                root = self.returned(done.xml)
                for device in root.iterfind("devices/*"):
                    if device.get("type") != "pci" or device.tag != "controller":
                        passed = pci_topology.is_passed_through(device)
                        self.assertEqual(0 if passed else None, cell_of(root, device))
