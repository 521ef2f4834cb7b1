"""Each rule breaks where it should and keeps silent where it should."""

import testtools

from nova_perf_tuning.specs import crosscheck, parsing, profiles

MULTI = {"hw:vif_multiqueue_enabled": "true"}
#: rule -> [(extra specs, image properties, vCPUs, words of the message)] that break it.
BROKEN = {
    "vif-queues-above-vcpus": [({"perf:vif_queues": "8", **MULTI}, {}, 4, "at most 4")],
    "disk-queues-above-vcpus": [({}, {"hw_perf_disk_queues": "8"}, 4, "hw_perf_disk_queues=8")],
    "multiqueue-off": [
        (
            {"perf:vif_queues": "2", "hw:vif_multiqueue_enabled": "no"},
            {},
            None,
            "set hw:vif_multiqueue_enabled=true",
        ),
        ({"perf:vif_queues": "auto"}, {"hw_vif_multiqueue_enabled": "false"}, 4, "perf:vif_queues=1"),
        ({"perf:profile": "balanced", "hw:vif_multiqueue_enabled": "false"}, {}, 4, "(of the profile)"),
    ],
    "single-queue-of-multiqueue-tap": [({"perf:vif_queues": "1", **MULTI}, {}, 4, "2 or more")],
    "irq-vcpu-needs-dedicated": [
        ({"perf:irq_placement": "vcpu"}, {}, None, "hw:cpu_policy=dedicated"),
        ({"perf:irq_placement": "vcpu", "hw:cpu_policy": "shared"}, {}, None, "hw:cpu_policy=dedicated"),
        ({"perf:irq_placement": "vcpu", "resources:PCPU": "0"}, {}, None, "hw:cpu_policy=dedicated"),
        ({"perf:irq_placement": "vcpu", "resources:VCPU": "4"}, {}, None, "hw:cpu_policy=dedicated"),
    ],
    "emulator-numa-needs-topology": [
        ({"perf:emulator_placement": "numa"}, {}, None, "hw:numa_nodes=1"),
        # Nova reads the mask of pinned guests alone, and persistent memory in the flavor.
        ({"perf:emulator_placement": "numa", "hw:cpu_realtime_mask": "^0"}, {}, None, "hw:numa_nodes=1"),
        ({"perf:emulator_placement": "numa"}, {"hw_pmem": "4GB"}, None, "hw:numa_nodes=1"),
    ],
    "vhost-numa-without-topology": [({"perf:vhost_placement": "numa"}, {}, None, "perf:vhost_placement=none")],
    "emulator-numa-or-isolate": [
        (
            {
                "perf:emulator_placement": "numa",
                "hw:cpu_policy": "dedicated",
                "hw:emulator_threads_policy": "isolate",
            },
            {},
            None,
            "share",
        )
    ],
    "offload-needs-checksum": [
        ({"perf:vif_host_offload.csum": "off", "perf:vif_host_offload.tso6": "on"}, {}, None, "tso6=true")
    ],
}
FITTING = [
    ({"perf:vif_queues": "auto", **MULTI}, {}, 4),
    ({"perf:vif_queues": "auto", "hw:vif_multiqueue_enabled": "false"}, {}, 1),
    ({"perf:vif_queues": "1", "hw:vif_multiqueue_enabled": "false"}, {}, 4),
    ({"perf:vif_queues": "1", **MULTI}, {}, 1),
    ({"perf:irq_placement": "vcpu"}, {"hw_cpu_policy": "dedicated"}, 4),
    ({"perf:irq_placement": "vcpu", "hw:cpu_policy": "mixed"}, {}, 4),
    ({"perf:irq_placement": "vcpu", "resources:PCPU": "4"}, {}, 4),
    ({"perf:emulator_placement": "numa", "resources12:PCPU": "4"}, {}, 4),
    ({"perf:emulator_placement": "numa", "hw:mem_page_size": "large"}, {}, 4),
    ({"perf:emulator_placement": "default"}, {}, 4),
    (
        {"perf:emulator_placement": "numa", "hw:cpu_policy": "dedicated"},
        {"hw_emulator_threads_policy": "isolate"},
        4,
    ),
    ({"perf:iothreads": "1"}, {"hw_emulator_threads_policy": "none"}, 4),
    ({"perf:vif_host_offload.csum": "off", "perf:vif_host_offload.tso4": "off"}, {}, 4),
]


def findings(specs, properties, vcpus):
    return crosscheck.findings(parsing.parse(specs, properties), specs, properties, vcpus)


class CrosscheckTest(testtools.TestCase):
    def test_broken(self):
        for rule, examples in BROKEN.items():
            for specs, properties, vcpus, words in examples:
                found = findings(specs, properties, vcpus)
                self.assertEqual([rule], [finding.rule for finding in found])
                self.assertIn(words, crosscheck.message(found[0]))

    def test_fitting(self):
        for specs, properties, vcpus in FITTING:
            self.assertEqual([], findings(specs, properties, vcpus))

    def test_errors_raise_and_warnings_come_back(self):
        parsed = parsing.parse({"perf:vif_queues": "9", "perf:irq_placement": "vcpu"})
        error = self.assertRaises(crosscheck.ContradictionError, crosscheck.check, parsed, {}, {}, 4)
        self.assertIn("perf:vif_queues=9", str(error))
        self.assertIn("perf:irq_placement=vcpu", str(error))
        warnings = crosscheck.check(parsing.parse({"perf:vhost_placement": "numa"}), {}, {}, 4)
        self.assertEqual(1, len(warnings))

    def test_native_specs_that_the_flavor_lacks(self):
        def needed(specs, vcpus=4):
            return crosscheck.needed_native(parsing.parse(specs), specs, {}, vcpus)

        self.assertEqual(MULTI, needed({"perf:vif_queues": "2"}))
        self.assertEqual(MULTI, needed({"perf:vif_queues": "auto"}, None))
        self.assertEqual({}, needed({"perf:vif_queues": "auto"}, 1))
        self.assertEqual({}, needed({"perf:vif_queues": "auto", **MULTI}))
        self.assertEqual("dedicated", needed({"perf:profile": "compute"})["hw:cpu_policy"])


class GuestRequestTest(testtools.TestCase):
    """What the driver makes of flavor and image: only a flavor can be wrong."""

    def request(self, specs, properties, **options):
        return crosscheck.guest_request(specs, properties, 4, **options)

    def test_what_is_wrong_in_an_image_is_left_out_with_a_warning(self):
        for properties, words in (
            ({"hw_perf_iothreads": "x"}, "hw_perf_iothreads=x"),
            ({"hw_perf_iothreads": "9" * 250}, "hw_perf_iothreads=999"),
            ({"hw_perf_iothreads": "2\nERROR \x1b[2J"}, "hw_perf_iothreads=2?ERROR ?[2J"),
            ({"hw_perf_typo": "1"}, "unknown spec hw_perf_typo"),
            ({"hw_perf_vhost_placement": "numa"}, "set perf:vhost_placement on the flavor"),
            ({"hw_perf_profile": "compute"}, "set perf:profile on the flavor"),
            ({"hw_perf_vif_queues": "8"}, "more than the 4 vCPUs"),
        ):
            asked, warnings = self.request({"perf:disk_queues": "2"}, properties)
            self.assertEqual({"perf:disk_queues": "2"}, asked.extra_specs())
            self.assertIn(words, " ".join(warnings))
            self.assertTrue(all(line.isprintable() and len(line) < 300 for line in warnings), warnings)

    def test_flavor_wins(self):
        asked, (warning,) = self.request({"perf:disk_queues": "2"}, {"hw_perf_disk_queues": "3"})
        self.assertEqual(2, asked.disk_queues)
        self.assertIn("contradicts hw_perf_disk_queues=3", warning)
        self.assertEqual(
            ({"perf:vif_host_offload.gso": "true"}, ()),
            (lambda asked, warnings: (asked.extra_specs(), warnings))(
                *self.request({"perf:vif_host_offload.gso": "YES"}, {"hw_perf_vif_host_offload_gso": "1"})
            ),
        )

    def test_io_threads_of_an_image_have_a_limit(self):
        self.assertEqual(4, self.request({}, {"hw_perf_iothreads": "4"})[0].iothreads)
        asked, (warning,) = self.request({}, {"hw_perf_iothreads": "5"})
        self.assertEqual((None, True), (asked.iothreads, "at most 4" in warning))
        self.assertEqual(16, self.request({}, {"hw_perf_iothreads": "16"}, image_iothreads=16)[0].iothreads)
        self.assertEqual(16, self.request({"perf:iothreads": "16"}, {})[0].iothreads)

    def test_an_image_that_a_flavor_does_not_fit_fails_nothing(self):
        asked, (warning,) = self.request({"perf:vif_queues": "2"}, {"hw_vif_multiqueue_enabled": "false"})
        self.assertEqual(2, asked.vif_queues)
        self.assertIn("hw:vif_multiqueue_enabled=false", warning)

    def test_a_wrong_flavor_fails_whatever_the_image_says(self):
        for properties in ({}, {"hw_vif_model": "e1000"}, {"hw_perf_vif_queues": "1"}):
            self.assertRaises(crosscheck.ContradictionError, self.request, {"perf:vif_queues": "9"}, properties)
            self.assertRaises(parsing.SpecError, self.request, {"perf:iothreads": "x"}, properties)

    def test_an_image_can_give_the_cpus_that_a_flavor_needs(self):
        asked, warnings = self.request({"perf:irq_placement": "vcpu"}, {"hw_cpu_policy": "dedicated"})
        self.assertEqual(("vcpu", ()), (asked.irq_placement, warnings))
        self.assertRaises(crosscheck.ContradictionError, self.request, {"perf:irq_placement": "vcpu"}, {})

    def test_native_specs_of_a_profile_are_not_in_force_for_nova(self):
        entries = {"hw:cpu_policy": "dedicated", "perf:irq_placement": "vcpu"}
        specs = {key: profiles.ProfileSpec(text, "x", "rule") for key, text in entries.items()}
        known = {"own": profiles.Profile("own", "x", specs, "own.yaml")}

        def request(**specs):
            flavor = {"perf:profile": "own", **{key.replace("__", ":"): text for key, text in specs.items()}}
            return self.request(flavor, {}, profiles=known, native_of_profile=False)

        self.assertRaises(crosscheck.ContradictionError, request)
        self.assertEqual((), request(hw__cpu_policy="mixed")[1])
        _, (warning,) = request(perf__irq_placement="none")
        self.assertIn("the flavor lacks hw:cpu_policy=dedicated", warning)
