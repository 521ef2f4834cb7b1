# SPDX-License-Identifier: Apache-2.0
"""What guests say of themselves, and what is made of it."""

from nova_perf_tuning.guest import probe, transform
from nova_perf_tuning.specs import request
from tests.support import corpus, testcase

C = probe.GuestFindingCode

#: What kernels and CPUs were seen or are documented to say -> mode.
MODES = {
    "== clock\ntsc\n": "none",
    "== flags\nhypervisor\n== signature\nTCGTCGTCGTCG\n== clock\ntsc\n": "qemu",
    "== flags\nhypervisor\n== clock\ntsc\n": "unknown",
    "== flags\nhypervisor\n== signature\nMicrosoft Hv\n": "unknown",
    "== flags\nhypervisor\n== signature\nKVMKVMKVM\0\0\0\n": "kvm",
    "== flags\nhypervisor\n== clocks\nkvm-clock tsc acpi_pm\n": "kvm",
    "": "unknown",
}


class TruthTest(testcase.TestCase):
    def test_virtualization_is_read_from_flags_and_signature(self):
        for text, mode in MODES.items():
            with self.subTest(text):
                self.assertEqual(mode, probe.parse(text).virtualization, text)

    def test_queues_offloads_disks(self):
        result = probe.parse(f"{corpus.GUEST_NIC}== disk vda\n0\n1\n")
        nic = result.nics["eth0"]
        self.assertEqual((2, 1, 2), (nic.queues, nic.enabled, nic.possible))
        self.assertEqual(
            (True, False), (nic.offloads["rx-checksumming"], nic.offloads["tx-tcp-segmentation"])
        )
        self.assertEqual({"vda": 2}, result.disks)

    def test_nodes_of_devices(self):
        text = "== pci\n0000:00:1f.2 -1\n0000:41:00.0 0\n0000:81:00.0 1\nfe:1 0\n0000:82:00.0 x\n"
        self.assertEqual(
            {"0000:00:1f.2": -1, "0000:41:00.0": 0, "0000:81:00.0": 1}, probe.parse(text).pci_nodes
        )
        self.assertEqual({}, probe.parse("").pci_nodes)

    def codes(self, text, accelerator="none", **wanted):
        results = probe.findings(
            probe.parse(text), request.Request(**wanted), accelerator, vcpus=4
        )
        return [finding.code for finding in results]

    def test_what_was_asked_for_and_is_there_is_no_finding(self):
        enabled = corpus.GUEST_NIC.replace("Combined:\t1", "Combined:\t2")
        text = f"{enabled}== disk vda\n0\n1\n"
        wanted = {
            "vif_queues": 2,
            "disk_queues": 2,
            "vif_host_offload": {"csum": True, "tso4": False},
        }
        self.assertEqual([], self.codes(text, **wanted) + self.codes(corpus.GUEST_NIC))

    def test_what_the_guest_lacks_has_a_code(self):
        for text, wanted, code in (
            (corpus.GUEST_NIC, {"vif_queues": 2}, C.QUEUES),
            (corpus.GUEST_NIC, {"vif_queues": 4}, C.QUEUES),
            (corpus.GUEST_NIC, {"vif_host_offload": {"tso4": True}}, C.OFFLOAD),
            (corpus.GUEST_NIC, {"vif_guest_offload": {"csum": False}}, C.OFFLOAD),
            ("== disk vda\n0\n", {"disk_queues": 8}, C.DISK_QUEUES),
        ):
            with self.subTest(text):
                self.assertEqual([code], self.codes(text, **wanted))

    def test_each_code_has_its_text(self):
        F = probe.GuestFinding
        texts = {
            F(C.ACCELERATOR, wanted="kvm", found="qemu", evidence="CPUID says TCGTCGTCGTCG"): (
                "declared to run on kvm, but found on emulation (TCG) (CPUID says TCGTCGTCGTCG)"
            ),
            F(C.UNREAD, evidence="it said nothing"): (
                "what it runs on could not be read: it said nothing"
            ),
            F(C.CLOCK_SOURCE, found="hpet"): (
                "its clock source is hpet; every reading of the clock leaves the guest"
            ),
            F(C.QUEUES, "eth0", wanted="4", found="1"): (
                "eth0: 4 queues were asked for, the interface has 1"
            ),
            F(C.QUEUES, "eth0", wanted="4", found="2", enabled=True): (
                "eth0: 2 of 4 queues are enabled (ethtool -L in the guest)"
            ),
            F(C.OFFLOAD, "eth0", "rx-checksumming", wanted="on", found="off"): (
                "eth0: rx-checksumming was asked to be on and is off"
            ),
            F(C.DISK_QUEUES, "vda", wanted="8", found="1"): (
                "vda: 8 queues were asked for, the disk has 1"
            ),
        }
        self.assertEqual(set(C), {finding.code for finding in texts})
        for finding, text in texts.items():
            with self.subTest(text):
                self.assertEqual(text, finding.text)

    def test_auto_is_what_the_domain_was_given(self):
        wanted = request.Request(vif_queues="auto", disk_queues="auto")
        text = f"{corpus.GUEST_NIC}== disk vda\n0\n"
        for vcpus, housekeeping, queues in ((2, None, 2), (4, None, 4), (4, 1, 1)):
            with self.subTest(vcpus):
                xml = corpus.text("virtio-blk.xml").replace(">4</vcpu>", f">{vcpus}</vcpu>")
                xml = transform.transform(xml, wanted, housekeeping_cpus=housekeeping).xml
                known = probe.resolved(wanted, xml, vcpus)
                self.assertEqual((queues, vcpus), (known.vif_queues, known.disk_queues))
                spelled = request.Request(vif_queues=queues, disk_queues=vcpus)
                results = probe.findings(probe.parse(text), known, "tcg", vcpus)
                self.assertEqual(probe.findings(probe.parse(text), spelled, "tcg", vcpus), results)
                self.assertIn(C.DISK_QUEUES, [finding.code for finding in results])
        left_out = probe.resolved(wanted, corpus.text("virtio-blk.xml"), 4)
        self.assertEqual(
            (1, 4), (left_out.vif_queues, left_out.disk_queues), "a disk has one for each vCPU"
        )
        self.assertEqual(
            request.Request(vif_queues=3), probe.resolved(request.Request(vif_queues=3), "", 4)
        )

    def test_other_accelerator_than_planned_has_a_code(self):
        emulated, kvm = (
            "== flags\nhypervisor\n== signature\nTCGTCGTCGTCG\n",
            "== signature\nKVMKVMKVM\n",
        )
        for text, accelerator, codes in (
            (emulated, "tcg", []),
            (kvm, "kvm", []),
            (emulated, "none", []),
            (emulated, "kvm", [C.ACCELERATOR]),
            (kvm, "tcg", [C.ACCELERATOR]),
            (f"{kvm}== clock\nhpet\n", "kvm", [C.CLOCK_SOURCE]),
            ("", "kvm", [C.UNREAD]),
            ("", "none", []),
        ):
            with self.subTest(text):
                self.assertEqual(codes, self.codes(text, accelerator), (text, accelerator))
