# SPDX-License-Identifier: Apache-2.0
"""What guests are started from, and what is made of what they say."""

import re
import types

from lxml import etree

from nova_perf_tuning.guest import parsing, probe, transform
from nova_perf_tuning.guest.domain import Interface
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.launch import base, libvirt, network
from nova_perf_tuning.validation.launch import domain as domain_module
from tests.support import corpus, testcase

FILES = domain_module.GuestFiles(
    "/i/vmlinuz", "/i/initrd", "/r/a.root.qcow2", "/r/a.scratch.img", "/r/a.console"
)
TUNED = request.Request(
    vif_queues=2, vif_rx_queue_size=512, iothreads=2, disk_queues=1, vhost_placement="spread"
)


def domain(kvm: bool = False, bridge: str = "npb1") -> str:
    size = base.GuestSize(vcpus=2, memory_mib=300)
    port = network.Port(bridge, "npt1", "fa:16:3e:00:00:01", "198.18.0.12")
    return domain_module.base_domain("nova-perf-1-a-client", size, FILES, port, kvm=kvm)


class BaseDomainTest(testcase.TestCase):
    def test_valid_with_and_without_tuning(self) -> None:
        for kvm in (False, True):
            with self.subTest(kvm):
                for xml in (domain(kvm), transform.transform(domain(kvm), TUNED).xml):
                    self.assertEqual([], corpus.schema_errors(xml))

    def test_devices_and_size(self) -> None:
        read = parsing.parse_domain(domain())
        self.assertEqual(("qemu", 2, 0), (read.type, read.vcpus, read.iothreads))
        [interface] = read.interfaces
        self.assertEqual(
            Interface("bridge", "npt1", "fa:16:3e:00:00:01", "virtio", "qemu", 1), interface
        )
        root = etree.fromstring(domain())
        disks = [
            (disk.find("target").get("bus"), disk.find("driver").get("type"))
            for disk in root.iter("disk")
        ]
        self.assertEqual([("virtio", "qcow2"), ("virtio", "raw")], disks)
        self.assertEqual("300", root.findtext("memory"))
        self.assertTrue(
            parsing.parse_inventory(domain()).free_page_reporting
        )  # as Nova 32 and later have it

    def test_kvm_has_libvirts_choice_of_backend_and_the_hosts_cpu_model(self) -> None:
        root = etree.fromstring(domain(kvm=True))
        self.assertEqual("kvm", root.get("type"))
        self.assertIsNone(root.find("devices/interface/driver"))
        self.assertEqual("host-model", root.find("cpu").get("mode"))

    def test_emulated_guest_does_not_trust_its_tsc(self) -> None:
        self.assertIn("tsc=unstable", etree.fromstring(domain()).findtext("os/cmdline"))
        self.assertNotIn(
            "mitigations=off", etree.fromstring(domain(kvm=True)).findtext("os/cmdline")
        )

    def test_names_are_escaped(self) -> None:
        root = etree.fromstring(domain(bridge="<&\"'>"))
        self.assertEqual("<&\"'>", root.find("devices/interface/source").get("bridge"))


class PortTest(testcase.TestCase):
    def test_names_fit_and_nothing_repeats(self) -> None:
        made = network.Network("89abcdef")
        ports = [made.new_port() for _ in range(4000)]
        for column in list(zip(*ports, strict=True))[1:]:
            self.assertEqual(len(ports), len(set(column)))
        for _, tap, mac, address in ports:
            self.assertLessEqual(len(tap), 15)  # IFNAMSIZ
            self.assertTrue(re.fullmatch("fa:16:3e(:[0-9a-f]{2}){3}", mac), mac)
            self.assertNotIn(address, [made.host_address(role) for role in network.ROLES])
        self.assertLessEqual(len(made.bridge), 15)


class FindingsTest(testcase.TestCase):
    def test_auto_is_compared_with_the_domain_of_each_guest(self) -> None:
        automatic = request.Request(vif_queues="auto")
        made = transform.transform(
            corpus.text("virtio-blk.xml").replace(">4</vcpu>", ">2</vcpu>"), automatic
        )
        sound = corpus.GUEST_NIC.replace("Combined:\t1", "Combined:\t2")
        truths = tuple(
            probe.parse(f"== signature\nKVMKVMKVM\n{text}") for text in (corpus.GUEST_NIC, sound)
        )
        guests = (types.SimpleNamespace(transformed=made),) * 2
        arm = libvirt.BootedArm(base.Arm("tuned", automatic), guests, truths)
        [finding] = libvirt.findings(arm, "kvm", 2)
        self.assertEqual("queues", finding.code)
        self.assertTrue(finding.text.startswith("client: eth0: 1 of 2 queues"), finding)
