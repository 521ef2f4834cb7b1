# SPDX-License-Identifier: Apache-2.0
"""What a host needs for a flavor's guests follows from the specs, whoever states them."""

from nova_perf_tuning.specs import host_needs, profiles
from nova_perf_tuning.specs.host_needs import Need, NeedCode
from tests.support import testcase


class HostNeedsTest(testcase.TestCase):
    def test_each_spec_and_its_need(self):
        cases = {
            ("hw:cpu_policy", "dedicated"): [Need(NeedCode.DEDICATED_SET)],
            ("hw:cpu_policy", "mixed"): [Need(NeedCode.DEDICATED_SET), Need(NeedCode.SHARED_SET)],
            ("hw:cpu_policy", "shared"): [],
            ("resources:PCPU", "2"): [Need(NeedCode.DEDICATED_SET)],
            ("hw:emulator_threads_policy", "share"): [Need(NeedCode.SHARED_SET)],
            ("hw:emulator_threads_policy", "isolate"): [],
            ("hw:numa_nodes", "2"): [Need(NeedCode.NUMA_NODES, "2")],
            ("hw:numa_nodes", "1"): [],
            ("hw:cpu_thread_policy", "require"): [Need(NeedCode.THREADS)],
            ("pci_passthrough:alias", "fast:2"): [Need(NeedCode.PCI_DEVICES, "fast:2")],
            ("trait:HW_CPU_X86_AVX2", "required"): [Need(NeedCode.TRAIT, "HW_CPU_X86_AVX2")],
            ("trait:HW_CPU_X86_AVX2", "forbidden"): [],
            ("perf:vif_queues", "2"): [Need(NeedCode.DRIVER)],
            ("perf:iothreads", "1"): [Need(NeedCode.DRIVER)],
            ("perf:vhost_placement", "numa"): [Need(NeedCode.AGENT, "perf:vhost_placement")],
            ("perf:vhost_placement", "none"): [],
            ("perf:pci_topology", "numa"): [
                Need(NeedCode.DRIVER),
                Need(NeedCode.MACHINE, "perf:pci_topology"),
            ],
            ("perf:pci_topology", "flat"): [Need(NeedCode.DRIVER)],
            ("perf:budget", "web"): [],
        }
        for (key, value), needs in cases.items():
            with self.subTest(key, value=value):
                self.assertEqual(needs, host_needs.needs({key: value}))

    def test_page_sizes_are_those_of_the_kernels_command_line(self):
        cases = {
            "large": "1G",
            "1GB": "1G",
            "1048576": "1G",
            "2MB": "2M",
            "2048": "2M",
            "2MiB": "2M",
            "16384": "16M",
            "64K": "64K",
        }
        for value, size in cases.items():
            with self.subTest(value):
                needs = host_needs.needs({"hw:mem_page_size": value})
                self.assertEqual([Need(NeedCode.HUGE_PAGES, size)], needs)
                self.assertIn(f"hugepagesz={size} ", needs[0].text)
        for value in ("small", "any", "4", "4KB"):
            with self.subTest(value):
                self.assertEqual([], host_needs.needs({"hw:mem_page_size": value}))

    def test_every_code_has_a_text(self):
        self.assertEqual(set(NeedCode), set(host_needs.TEXTS))

    def test_a_shipped_profile(self):
        compute = profiles.shipped()["compute"]
        specs = {key: spec.value for key, spec in compute.specs.items()}
        codes = {need.code for need in host_needs.needs(specs)}
        wanted = {NeedCode.DRIVER, NeedCode.AGENT, NeedCode.DEDICATED_SET, NeedCode.SHARED_SET}
        self.assertLessEqual(wanted, codes)
