"""What guests say of themselves, and what is made of it."""

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.guest import transform, truth
from nova_perf_tuning.specs import request
from tests.unit.guest import corpus

BARE = "== log\n[ 0.01] Booting paravirtualized kernel on bare hardware\n== clock\ntsc\n"

#: What kernels and CPUs were seen or are documented to say -> mode.
MODES = {
    BARE: "none",
    f"== flags\nhypervisor\n{BARE}== vendor\nQEMU\n": "qemu",
    f"== flags\nhypervisor\n== signature\nTCGTCGTCGTCG\n{BARE}": "qemu",
    f"== flags\nhypervisor\n{BARE}": "unknown",
    "== flags\nhypervisor\n== signature\nKVMKVMKVM\0\0\0\n== vendor\nQEMU\n": "kvm",
    "== flags\nhypervisor\n== log\n[ 0.0] Hypervisor detected: KVM\n": "kvm",
    "== flags\nhypervisor\n== clocks\nkvm-clock tsc acpi_pm\n": "kvm",
    "== xen\nxen\nPV\n": "xen-pv",
    "== xen\nxen\nHVM\n== flags\nhypervisor\n": "xen-hvm",
    "== xen\nxen\nPVH\n": "xen-pvh",
    "== xen\nxen\n": "xen",
    "== log\nBooting paravirtualized kernel on Xen\nXen version: 3.4.3 (preserve-AD)\n": "xen-pv",
    "== log\nBooting paravirtualized kernel on Xen with PVH extensions\n": "xen-pvh",
    "== flags\nhypervisor\n== log\nBooting paravirtualized kernel on Xen HVM\n": "xen-hvm",
    "== flags\nhypervisor\n== log\nHypervisor detected: Microsoft Hyper-V\n": "microsoft",
    "": "unknown",
}

ETHTOOL = """== nic eth0
virtio_net
rx-0
tx-0
rx-1
tx-1
Channel parameters for eth0:
Pre-set maximums:
Combined:\t2
Current hardware settings:
Combined:\t1
== offload eth0
rx-checksumming: on [fixed]
tx-checksumming: on
\ttx-tcp-segmentation: off
"""


class TruthTest(testtools.TestCase):
    def test_modes(self):
        for text, mode in MODES.items():
            self.assertEqual(mode, truth.parse(text).virtualization, text)

    def test_queues_vectors_offloads_disks(self):
        found = truth.parse(f"{ETHTOOL}== vectors\n2\n== disk vda\n0\n1\n")
        nic = found.nics["eth0"]
        self.assertEqual(("virtio_net", 2, 1, 2), (nic.driver, nic.queues, nic.enabled, nic.possible))
        self.assertEqual((True, False), (nic.offloads["rx-checksumming"], nic.offloads["tx-tcp-segmentation"]))
        self.assertEqual((2, {"vda": 2}), (found.vectors, found.disks))

    def findings(self, text, accelerator="tcg", **asked):
        return truth.findings(truth.parse(text), request.Request(**asked), accelerator, vcpus=4)

    def without_mode(self, *args, **asked):
        """Return findings but for that on the mode, which these texts do not tell."""
        return [line for line in self.findings(*args, **asked) if "could not be read" not in line]

    def test_what_was_asked_for_and_is_there_is_no_finding(self):
        enabled = ETHTOOL.replace("Combined:\t1", "Combined:\t2")
        text = f"{enabled}== vectors\n4\n== disk vda\n0\n1\n"
        asked = {"vif_queues": 2, "disk_queues": 2, "vif_host_offload": {"csum": True, "tso4": False}}
        self.assertEqual([], self.without_mode(text, **asked))
        self.assertEqual([], self.without_mode(ETHTOOL))

    def test_mismatches(self):
        for asked, told in (
            ({"vif_queues": 2}, "eth0: 1 of 2 queues are enabled"),
            ({"vif_queues": 4}, "eth0: 4 queues were asked for, the interface has 2"),
            ({"vif_host_offload": {"tso4": True}}, "eth0: tx-tcp-segmentation was asked to be on and is off"),
            ({"vif_guest_offload": {"csum": False}}, "eth0: rx-checksumming was asked to be off and is on"),
        ):
            self.assertEqual([told], [line.partition(" (")[0] for line in self.without_mode(ETHTOOL, **asked)])
        shared = self.without_mode("== vectors\n2\n", vif_queues=4)
        self.assertEqual(1, len(shared))
        self.assertIn("queues share vectors", shared[0])
        self.assertIn("the disk has 1", self.without_mode("== disk vda\n0\n", disk_queues=8)[0])

    def test_auto_is_what_the_domain_was_given(self):
        asked = request.Request(vif_queues="auto", disk_queues="auto")
        text = f"{ETHTOOL}== vectors\n2\n== disk vda\n0\n"
        for vcpus, housekeeping, queues in ((2, None, 2), (4, None, 4), (4, 1, 1)):
            xml = corpus.text("virtio-blk.xml").replace(">4</vcpu>", f">{vcpus}</vcpu>")
            xml = transform.transform(xml, asked, housekeeping_cpus=housekeeping).xml
            known = truth.resolved(asked, xml, vcpus)
            self.assertEqual((queues, vcpus), (known.vif_queues, known.disk_queues))
            spelled = request.Request(vif_queues=queues, disk_queues=vcpus)
            found = truth.findings(truth.parse(text), known, "tcg", vcpus)
            self.assertEqual(truth.findings(truth.parse(text), spelled, "tcg", vcpus), found)
            self.assertIn(f"vda: {vcpus} queues were asked for, the disk has 1", found)
        left_out = truth.resolved(asked, corpus.text("virtio-blk.xml"), 4)
        self.assertEqual((1, 4), (left_out.vif_queues, left_out.disk_queues), "a disk has one for each vCPU")
        self.assertEqual(request.Request(vif_queues=3), truth.resolved(request.Request(vif_queues=3), "", 4))

    def test_accelerator(self):
        emulated, kvm = ("== flags\nhypervisor\n== signature\nTCGTCGTCGTCG\n", "== signature\nKVMKVMKVM\n")
        self.assertEqual([], self.findings(emulated, "tcg") + self.findings(kvm, "kvm"))
        self.assertEqual([], self.findings(emulated, "none"), "nothing was declared")
        [told] = self.findings(emulated, "kvm")
        self.assertIn("declared to run on kvm, but found on emulation (TCG) (CPUID says TCG", told)
        self.assertIn("but found on KVM", self.findings(kvm, "tcg")[0])
        slow = "== signature\nKVMKVMKVM\n== clock\nhpet\n"
        self.assertIn("clock source is hpet", self.findings(slow, "kvm")[0])
        self.assertEqual(["what it runs on could not be read: it said nothing"], self.findings("", "kvm"))
        self.assertEqual([], self.findings("", "none"), "nothing was declared")

    def test_what_spoils_and_what_is_a_warning(self):
        slow = "== signature\nKVMKVMKVM\n== clock\nhpet\n"
        harmless = self.findings(slow, "kvm") + self.findings("== vectors\n2\n", "kvm", vif_queues=4)
        self.assertEqual([False] * 3, list(map(truth.spoils, harmless)), harmless)
        asked = {"vif_queues": 2, "vif_host_offload": {"tso4": True}, "disk_queues": 4}
        grave = self.findings(f"== signature\nTCGTCGTCGTCG\n{ETHTOOL}== disk vda\n0\n", "kvm", **asked)
        self.assertEqual([True] * 4, list(map(truth.spoils, grave)), grave)

    @hypothesis.given(strategies.text(alphabet=strategies.sampled_from("= nicrx-0\n\t:Combed1")))
    def test_garbage_is_no_error(self, text):
        found = truth.parse(text)
        truth.findings(found, request.Request(vif_queues=2, disk_queues=2), "kvm", 2)
