"""The base domain: what Nova would write, valid, and fit for every tuning."""

import unittest

from lxml import etree

from nova_perf_tuning.guest import parsing, transform
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.launch import base, network
from nova_perf_tuning.validation.launch import domain as domain_module
from tests.unit.guest import corpus

FILES = domain_module.GuestFiles("/i/vmlinuz", "/i/initrd", "/r/a.root.qcow2", "/r/a.scratch.img", "/r/a.console")
TUNED = request.Request(vif_queues=2, vif_rx_queue_size=512, iothreads=2, disk_queues=1, vhost_placement="spread")


def domain(kvm: bool = False, bridge: str = "npb1") -> str:
    size = base.GuestSize(vcpus=2, memory_mib=300)
    port = network.Port(bridge, "npt1", "fa:16:3e:00:00:01", "198.18.0.12")
    return domain_module.base_domain("nova-perf-1-a-client", size, FILES, port, kvm=kvm, cache="none")


class BaseDomainTest(unittest.TestCase):
    def test_valid_with_and_without_tuning(self) -> None:
        for kvm in (False, True):
            for xml in (domain(kvm), transform.transform(domain(kvm), TUNED).xml):
                self.assertEqual([], corpus.schema_errors(xml))

    def test_devices_and_size(self) -> None:
        read = parsing.parse_domain(domain())
        self.assertEqual(("qemu", 2, 0), (read.type, read.vcpus, read.iothreads))
        [interface] = read.interfaces
        self.assertEqual(("bridge", "npt1", "virtio", "qemu", 1), _shape(interface))
        root = etree.fromstring(domain())
        disks = [(disk.find("target").get("bus"), disk.find("driver").get("type")) for disk in root.iter("disk")]
        self.assertEqual([("virtio", "qcow2"), ("virtio", "raw")], disks)
        self.assertEqual("300", root.findtext("memory"))

    def test_kvm_has_libvirts_choice_of_backend_and_the_hosts_cpu_model(self) -> None:
        root = etree.fromstring(domain(kvm=True))
        self.assertEqual("kvm", root.get("type"))
        self.assertIsNone(root.find("devices/interface/driver"))
        self.assertEqual("host-model", root.find("cpu").get("mode"))

    def test_emulated_guest_does_not_trust_its_tsc(self) -> None:
        self.assertIn("tsc=unstable", etree.fromstring(domain()).findtext("os/cmdline"))
        self.assertNotIn("mitigations=off", etree.fromstring(domain(kvm=True)).findtext("os/cmdline"))

    def test_names_are_escaped(self) -> None:
        root = etree.fromstring(domain(bridge="<&\"'>"))
        self.assertEqual("<&\"'>", root.find("devices/interface/source").get("bridge"))


def _shape(interface: object) -> tuple[object, ...]:
    return tuple(getattr(interface, name) for name in ("kind", "device", "model", "driver", "queues"))
