# SPDX-License-Identifier: Apache-2.0
"""Each rule breaks where it should and keeps silent where it should."""

from nova_perf_tuning.specs import crosscheck, parsing, profiles
from tests.support import testcase

MULTI, SINGLE = {"hw:vif_multiqueue_enabled": "true"}, {"hw:vif_multiqueue_enabled": "no"}
PINNED = {"hw:cpu_policy": "dedicated"}
#: rule -> [(extra specs, image properties, vCPUs, words of the message)] that break it.
BROKEN = {
    "vif-queues-above-vcpus": [({"perf:vif_queues": "8", **MULTI}, {}, 4, "at most 4")],
    "disk-queues-above-vcpus": [({}, {"hw_perf_disk_queues": "8"}, 4, "hw_perf_disk_queues=8")],
    "multiqueue-off": [
        ({"perf:vif_queues": "2", **SINGLE}, {}, None, "set hw:vif_multiqueue_enabled=true"),
        (
            {"perf:vif_queues": "auto"},
            {"hw_vif_multiqueue_enabled": "false"},
            4,
            "perf:vif_queues=1",
        ),
        ({"perf:profile": "balanced", **SINGLE}, {}, 4, "(of the profile)"),
    ],
    "single-queue-of-multiqueue-tap": [({"perf:vif_queues": "1", **MULTI}, {}, 4, "2 or more")],
    "irq-vcpu-needs-dedicated": [
        ({"perf:irq_placement": "vcpu"}, {}, None, "hw:cpu_policy=dedicated"),
        (
            {"perf:irq_placement": "vcpu", "hw:cpu_policy": "shared"},
            {},
            None,
            "hw:cpu_policy=dedicated",
        ),
        (
            {"perf:irq_placement": "vcpu", "resources:PCPU": "0"},
            {},
            None,
            "hw:cpu_policy=dedicated",
        ),
        (
            {"perf:irq_placement": "vcpu", "resources:VCPU": "4"},
            {},
            None,
            "hw:cpu_policy=dedicated",
        ),
    ],
    "emulator-numa-needs-topology": [
        ({"perf:emulator_placement": "numa"}, {}, None, "hw:numa_nodes=1"),
        # Nova reads the mask of pinned guests alone, and persistent memory in the flavor.
        (
            {"perf:emulator_placement": "numa", "hw:cpu_realtime_mask": "^0"},
            {},
            None,
            "hw:numa_nodes=1",
        ),
        ({"perf:emulator_placement": "numa"}, {"hw_pmem": "4GB"}, None, "hw:numa_nodes=1"),
    ],
    "vhost-numa-without-topology": [
        ({"perf:vhost_placement": "numa"}, {}, None, "perf:vhost_placement=none")
    ],
    "pci-topology-needs-cells": [
        ({"perf:pci_topology": "numa"}, {}, None, "hw:numa_nodes=1"),
        ({}, {"hw_perf_pci_topology": "numa"}, 4, "hw_perf_pci_topology=numa"),
    ],
    "pci-topology-machine": [
        (
            {"perf:pci_topology": "numa", **PINNED},
            {"hw_machine_type": "pc"},
            4,
            "hw_machine_type=q35",
        ),
        (
            {"perf:pci_topology": "numa", **PINNED},
            {"hw_machine_type": "pc-i440fx-7.2"},
            4,
            "no effect",
        ),
    ],
    "emulator-numa-or-isolate": [
        (
            {"perf:emulator_placement": "numa", "hw:emulator_threads_policy": "isolate", **PINNED},
            {},
            None,
            "share",
        )
    ],
    "vhost-needs-shared-emulator": [
        (
            {"perf:vhost_placement": placement, **PINNED, **policy},
            {},
            4,
            "hw:emulator_threads_policy=share",
        )
        for placement in ("numa", "spread")
        for policy in ({}, {"hw:emulator_threads_policy": "isolate"})
    ],
    "offload-needs-checksum": [
        (
            {"perf:vif_host_offload.csum": "off", "perf:vif_host_offload.tso6": "on"},
            {},
            None,
            "tso6=true",
        )
    ],
}
FITTING = [
    ({"perf:vif_queues": "auto", **MULTI}, {}, 4),
    ({"perf:vif_queues": "auto", **SINGLE}, {}, 1),
    ({"perf:vif_queues": "1", **SINGLE}, {}, 4),
    ({"perf:vif_queues": "1", **MULTI}, {}, 1),
    ({"perf:irq_placement": "vcpu"}, {"hw_cpu_policy": "dedicated"}, 4),
    ({"perf:irq_placement": "vcpu", "hw:cpu_policy": "mixed"}, {}, 4),
    ({"perf:irq_placement": "vcpu", "resources:PCPU": "4"}, {}, 4),
    ({"perf:emulator_placement": "numa", "resources12:PCPU": "4"}, {}, 4),
    ({"perf:emulator_placement": "numa", "hw:mem_page_size": "large"}, {}, 4),
    ({"perf:emulator_placement": "default"}, {}, 4),
    ({"perf:emulator_placement": "numa", **PINNED}, {"hw_emulator_threads_policy": "isolate"}, 4),
    ({"perf:vhost_placement": "numa", **PINNED, "hw:emulator_threads_policy": "share"}, {}, 4),
    ({"perf:vhost_placement": "spread"}, {}, 4),
    ({"perf:pci_topology": "flat"}, {"hw_machine_type": "pc"}, 4),
    ({"perf:pci_topology": "numa", "hw:numa_nodes": "2"}, {}, 4),
    ({"perf:pci_topology": "numa", **PINNED}, {"hw_machine_type": "pc-q35-9.2"}, 4),
    ({"perf:pci_topology": "numa", **PINNED}, {"hw_machine_type": "virt-9.2"}, 4),
    ({"perf:iothreads": "1"}, {"hw_emulator_threads_policy": "none"}, 4),
    ({"perf:vif_host_offload.csum": "off", "perf:vif_host_offload.tso4": "off"}, {}, 4),
]


def findings(specs, properties, vcpus):
    return crosscheck.findings(parsing.parse(specs, properties), specs, properties, vcpus)


class CrosscheckTest(testcase.TestCase):
    def test_each_contradiction_breaks_one_rule(self):
        for rule, examples in BROKEN.items():
            with self.subTest(rule):
                for specs, properties, vcpus, words in examples:
                    results = findings(specs, properties, vcpus)
                    self.assertEqual([rule], [finding.rule for finding in results])
                    self.assertIn(words, crosscheck.message(results[0]))

    def test_specs_that_fit_have_no_findings(self):
        for specs, properties, vcpus in FITTING:
            with self.subTest(specs):
                self.assertEqual([], findings(specs, properties, vcpus))

    def test_errors_raise_and_warnings_come_back(self):
        wrong = findings({"perf:vif_queues": "9", "perf:irq_placement": "vcpu"}, {}, 4)
        error = self.assertRaises(crosscheck.ContradictionError, crosscheck.refuse, wrong)
        self.assertIn("perf:vif_queues=9", str(error))
        self.assertIn("perf:irq_placement=vcpu", str(error))
        warnings = findings({"perf:vhost_placement": "numa"}, {}, 4)
        self.assertEqual(warnings, crosscheck.refuse(warnings))

    def test_native_specs_that_the_flavor_lacks(self):
        def needed(specs, vcpus=4):
            return crosscheck.needed_native(parsing.parse(specs), specs, {}, vcpus)

        self.assertEqual(MULTI, needed({"perf:vif_queues": "2"}))
        self.assertEqual(MULTI, needed({"perf:vif_queues": "auto"}, None))
        self.assertEqual({}, needed({"perf:vif_queues": "auto"}, 1))
        self.assertEqual({}, needed({"perf:vif_queues": "auto", **MULTI}))
        self.assertEqual("dedicated", needed({"perf:profile": "compute"})["hw:cpu_policy"])


class GuestRequestTest(testcase.TestCase):
    """What the driver makes of flavor and image: only a flavor can be wrong."""

    def request(self, specs, properties, **options):
        return crosscheck.guest_request(specs, properties, 4, **options)

    def rules(self, specs, properties, **options):
        """Return the request, and the rules that its warnings are of."""
        parsed, warnings = self.request(specs, properties, **options)
        return parsed, [warning.rule for warning in warnings]

    def test_what_is_wrong_in_an_image_is_left_out_with_a_warning(self):
        for properties, rule, words in (
            ({"hw_perf_iothreads": "x"}, "value-not-allowed", "hw_perf_iothreads=x"),
            ({"hw_perf_iothreads": "9" * 250}, "value-not-allowed", "hw_perf_iothreads=999"),
            (
                {"hw_perf_iothreads": "2\nERROR \x1b[2J"},
                "value-not-allowed",
                "hw_perf_iothreads=2?ERROR ?[2J",
            ),
            ({"hw_perf_typo": "1"}, "unknown-spec", "unknown spec hw_perf_typo"),
            (
                {"hw_perf_vhost_placement": "numa"},
                "unknown-spec",
                "set perf:vhost_placement on the flavor",
            ),
            ({"hw_perf_profile": "compute"}, "unknown-spec", "set perf:profile on the flavor"),
            ({"hw_perf_vif_queues": "8"}, "vif-queues-above-vcpus", "more than the 4 vCPUs"),
            ({"hw_perf_disk_queues": "3"}, "contradiction", "contradicts hw_perf_disk_queues=3"),
        ):
            with self.subTest(properties):
                parsed, (warning,) = self.request({"perf:disk_queues": "2"}, properties)
                self.assertEqual(
                    ({"perf:disk_queues": "2"}, rule), (parsed.extra_specs(), warning.rule)
                )
                line = crosscheck.message(warning)
                self.assertIn(words, line)
                self.assertTrue(line.isprintable() and len(line) < 300, line)

    def test_equal_values_are_no_contradiction(self):
        specs, properties = (
            {"perf:vif_host_offload.gso": "YES"},
            {"hw_perf_vif_host_offload_gso": "1"},
        )
        parsed, rules = self.rules(specs, properties)
        self.assertEqual(
            ({"perf:vif_host_offload.gso": "true"}, []), (parsed.extra_specs(), rules)
        )

    def test_io_threads_of_an_image_have_a_limit(self):
        for threads, specs, properties, options in (
            (4, {}, {"hw_perf_iothreads": "4"}, {}),
            (None, {}, {"hw_perf_iothreads": "5"}, {}),
            (16, {}, {"hw_perf_iothreads": "16"}, {"image_iothreads": 16}),
            (16, {"perf:iothreads": "16"}, {}, {}),
        ):
            with self.subTest(threads):
                parsed, rules = self.rules(specs, properties, **options)
                self.assertEqual(
                    (threads, [] if threads else ["value-not-allowed"]), (parsed.iothreads, rules)
                )

    def test_an_image_that_a_flavor_does_not_fit_fails_nothing(self):
        parsed, rules = self.rules(
            {"perf:vif_queues": "2"}, {"hw_vif_multiqueue_enabled": "false"}
        )
        self.assertEqual((2, ["multiqueue-off"]), (parsed.vif_queues, rules))

    def test_a_wrong_flavor_fails_whatever_the_image_says(self):
        for properties in ({}, {"hw_vif_model": "e1000"}, {"hw_perf_vif_queues": "1"}):
            with self.subTest(properties):
                self.assertRaises(
                    crosscheck.ContradictionError,
                    self.request,
                    {"perf:vif_queues": "9"},
                    properties,
                )
                self.assertRaises(
                    parsing.SpecError, self.request, {"perf:iothreads": "x"}, properties
                )

    def test_an_image_can_give_the_cpus_that_a_flavor_needs(self):
        parsed, rules = self.rules({"perf:irq_placement": "vcpu"}, {"hw_cpu_policy": "dedicated"})
        self.assertEqual(("vcpu", []), (parsed.irq_placement, rules))
        self.assertRaises(
            crosscheck.ContradictionError, self.request, {"perf:irq_placement": "vcpu"}, {}
        )

    def test_native_specs_of_a_profile_are_not_in_force_for_nova(self):
        entries = {"hw:cpu_policy": "dedicated", "perf:irq_placement": "vcpu"}
        specs = {key: profiles.ProfileSpec(text, "x", "rule") for key, text in entries.items()}
        known = {"own": profiles.Profile("own", "x", specs, "own.yaml")}

        def request(**specs):
            flavor = {
                "perf:profile": "own",
                **{key.replace("__", ":"): text for key, text in specs.items()},
            }
            return self.request(flavor, {}, profiles=known, native_of_profile=False)

        self.assertRaises(crosscheck.ContradictionError, request)
        self.assertEqual([], request(hw__cpu_policy="mixed")[1])
        _, (warning,) = request(perf__irq_placement="none")
        self.assertEqual(crosscheck.NATIVE_MISSING, warning.rule)
        self.assertIn("the flavor lacks hw:cpu_policy=dedicated", crosscheck.message(warning))
