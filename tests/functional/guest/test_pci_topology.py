# SPDX-License-Identifier: Apache-2.0
"""Expander buses before libvirt, QEMU and a guest's kernel: where libvirt puts devices, and what the guest sees.

No host here has devices to pass through, nor two nodes: emulated NICs take the addresses of the passed-through
devices, after the XML is written.
"""

import collections
import pathlib
import re
import subprocess
import threading

from lxml import etree

from nova_perf_tuning.guest import parsing, pci_topology, probe, transform
from nova_perf_tuning.specs import parsing as spec_parsing
from tests.support import corpus, embedded_libvirt, patience, rig

NUMA = {"perf:pci_topology": "numa"}
#: Host nodes of devices 0000:82:00.0 and so on; the guest's cells 0 and 1 are on host nodes 1 and 0.
NODES = {"0000:82:00.0": 0, "0000:83:00.0": 1, "0000:84:00.0": 0}
CELLS = {"0000:82:00.0": 1, "0000:83:00.0": 0, "0000:84:00.0": 1}
#: A device whose node nobody knows.
UNKNOWN = "0000:85:00.0"
NUMATUNE = (
    "<numatune><memnode cellid='0' mode='strict' nodeset='1'/>"
    "<memnode cellid='1' mode='strict' nodeset='0'/></numatune>"
)
VIRTIO = "<interface type='user'><model type='virtio'/></interface>"


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
        f"{NUMATUNE}<os><type arch='x86_64' machine='q35'>hvm</type>{system}</os><features><acpi/>{features}"
        "</features><cpu><numa><cell id='0' cpus='0' memory='128' unit='MiB'/>"
        "<cell id='1' cpus='1' memory='128' unit='MiB'/></numa></cpu><on_reboot>destroy</on_reboot>"
        f"<devices>{devices}</devices></domain>"
    )


def emulated(device):
    """Return a NIC of QEMU with the address of a passed-through device."""
    nic = etree.Element("interface", type="user")
    etree.SubElement(nic, "model", type="e1000e")
    address = device.find("address")
    if address is not None:
        nic.append(address)
    return nic


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


#: First program of the guest: it probes again and again, with what is plugged in meanwhile.
FIRST = """#!/bin/busybox sh
/bin/busybox --install -s /bin
mkdir -p /proc /sys
mount -t proc proc /proc
mount -t sysfs sysfs /sys
n=0
while n=$((n + 1)); do
    echo "begin $n"
    sh /probe.sh 2>/dev/null
    echo "end $n"
    sleep 1
done
"""
#: As the launcher starts emulated guests.
CMDLINE = "console=ttyS0 loglevel=3 panic=1 tsc=unstable no_timer_check mitigations=off cryptomgr.notests rdinit=/first"


class InsideTest(embedded_libvirt.EmbeddedCase):
    """A guest of two cells under TCG, and what its kernel says of its devices."""

    def files(self):
        """Return kernel and initrd: those of the guest image, with the two programs before it."""
        image = pathlib.Path(rig.build_image())
        programs = self.directory / "programs"
        programs.mkdir()
        for name, text in (("first", FIRST), ("probe.sh", probe.SCRIPT)):
            (programs / name).write_text(text, encoding="utf-8")
            (programs / name).chmod(0o755)
        kernel, initrd = self.directory / "vmlinuz", self.directory / "initrd"
        kernel.write_bytes((image / "vmlinuz").read_bytes())
        argv = ["cpio", "--quiet", "-o", "-H", "newc", "-F", initrd]
        subprocess.run(argv, cwd=programs, input="first\nprobe.sh\n", text=True, check=True)
        with open(initrd, "ab") as file:
            file.write((image / "initrd").read_bytes())
        return kernel, initrd

    def start(self, xml):
        """Start a guest in a virsh that takes further commands."""
        path = self.write("guest.xml", xml)
        argv, options = self.embedded()
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self.shell = subprocess.Popen(argv, text=True, **pipes, **options)
        self.addCleanup(self.end)
        timer = threading.Timer(3 * patience.LIMIT_S, self.shell.kill)
        timer.start()
        self.addCleanup(timer.cancel)
        self.command(f"define --validate {path}")
        self.command(f"start {embedded_libvirt.NAME}")

    def command(self, text):
        self.shell.stdin.write(f"{text}\n")
        self.shell.stdin.flush()

    def end(self):
        """Destroy the guest; libvirt must have refused no command."""
        self.command(f"destroy {embedded_libvirt.NAME}")
        self.command(f"undefine {embedded_libvirt.NAME}")
        _out, err = self.shell.communicate(timeout=patience.LIMIT_S)
        self.assertEqual("", err)

    def running(self):
        """Return the XML of the running guest."""
        self.command(f"dumpxml {embedded_libvirt.NAME}")
        lines = []
        for line in self.shell.stdout:
            if lines or line.lstrip().startswith("<domain"):
                lines.append(line)
            if line.startswith("</domain>"):
                break
        return "".join(lines)

    def plug(self, xml):
        """Plug a device in as the driver does: with the address of a port where it belongs."""
        device = parsing.parse_xml(xml)
        running = self.running().replace("<os>", f"{NUMATUNE}<os>", 1)
        pci_topology.write_plugged(device, running, NODES)
        if pci_topology.is_passed_through(device):
            device = emulated(device)
        path = self.write("device.xml", etree.tostring(device, encoding="unicode"))
        self.command(f"attach-device {embedded_libvirt.NAME} {path}")

    def nodes(self, devices):
        """Wait for so many devices behind ports; return how many of them are on each of the guest's nodes."""

        def answer():
            text = ""
            if self.console.exists():
                text = self.console.read_text(encoding="utf-8", errors="replace")
            for _number, part in re.findall(r"begin (\d+)\s(.*?)end \1\s", text, re.DOTALL)[-2:]:
                nodes = probe.parse(part).pci_nodes
                behind = {
                    address: nodes[address] for address in nodes if self.is_behind_port(address)
                }
                if len(behind) == devices:
                    return behind
            return None

        found = patience.until(answer, f"{devices} devices behind ports")
        return collections.Counter(found.values())

    def is_behind_port(self, address):
        """Return whether a device is on none of the root buses."""
        return int(address.split(":")[1], 16) not in (0, 64, 128)

    def test_the_guest_knows_the_node_of_each_device(self):
        kernel, initrd = self.files()
        self.console = self.directory / "console"
        system = f"<kernel>{kernel}</kernel><initrd>{initrd}</initrd><cmdline>{CMDLINE}</cmdline>"
        devices = f"<serial type='file'><source path='{self.console}'/></serial>{VIRTIO}"
        devices += "<controller type='usb' model='none'/><memballoon model='none'/>"
        devices += "".join(map(hostdev, ("0000:82:00.0", "0000:83:00.0", UNKNOWN)))
        xml = transform.transform(
            guest(devices, system), spec_parsing.parse(NUMA), device_nodes=NODES
        ).xml
        root = parsing.parse_xml(xml)
        root.remove(root.find("numatune"))  # this host has no second node
        for device in list(root.find("devices")):
            if pci_topology.is_passed_through(device):
                device.getparent().replace(device, emulated(device))
        self.start(etree.tostring(root, encoding="unicode"))
        self.assertEqual({-1: 2, 0: 1, 1: 1}, self.nodes(4))
        self.plug(hostdev("0000:84:00.0"))
        self.assertEqual({-1: 2, 0: 1, 1: 2}, self.nodes(5))
        self.plug(VIRTIO)
        self.assertEqual({-1: 3, 0: 1, 1: 2}, self.nodes(6))
