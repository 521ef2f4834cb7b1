# SPDX-License-Identifier: Apache-2.0
"""From extra specs and image properties to a request."""

import dataclasses

import hypothesis
from hypothesis import strategies

from nova_perf_tuning import errors
from nova_perf_tuning.specs import parsing, request, vocabulary
from tests.support import spec_strategies, testcase

PROFILES = strategies.sampled_from([None, "storage", "balanced", "compute", "network-latency"])


class ParsingTest(testcase.TestCase):
    def error(self, extra_specs, profiles=None):
        return str(self.assertRaises(parsing.SpecError, parsing.parse, extra_specs, {}, profiles))

    def test_specs_of_others_are_no_request(self):
        parsed = parsing.parse(
            {"hw:cpu_policy": "dedicated", "quota:x": "1"}, {"hw_disk_bus": "scsi"}
        )
        self.assertFalse(parsed)
        self.assertEqual(request.Request(), parsed)

    def test_flavor_and_image_make_one_request(self):
        parsed = parsing.parse(
            {
                "perf:vif_queues": "auto",
                "perf:iothreads": "2",
                "perf:vif_host_offload.tso4": "off",
            },
            {"hw_perf_vif_host_offload_csum": "True", "hw_perf_disk_queues": "3"},
        )
        expected = request.Request(
            vif_queues="auto",
            iothreads=2,
            vif_host_offload={"tso4": False, "csum": True},
            disk_queues=3,
        )
        self.assertEqual(expected, parsed)

    def test_unknown_key_suggests_the_nearest(self):
        self.assertIn("did you mean perf:vif_queues?", self.error({"perf:vif_queue": "1"}))
        _, wrong = parsing.usable_properties({}, {"hw_perf_iothread": "1"})
        self.assertIn("did you mean hw_perf_iothreads?", str(wrong["hw_perf_iothread"]))
        self.assertIn("unknown spec perf:", self.error({"perf:": "1"}))

    def test_profile_expands_and_explicit_specs_win(self):
        parsed = parsing.parse(
            {"perf:profile": "storage", "perf:disk_queues": "2"}, {"hw_perf_iothreads": "4"}
        )
        self.assertEqual(("storage", 2, 4), (parsed.profile, parsed.disk_queues, parsed.iothreads))

    def test_native_specs_of_a_profile_yield_to_flavor_and_image(self):
        native = parsing.parse({"perf:profile": "compute"}).native
        self.assertEqual("dedicated", native["hw:cpu_policy"])
        for specs, properties in (
            ({"hw:cpu_policy": "shared"}, {}),
            ({}, {"hw_cpu_policy": "mixed"}),
        ):
            with self.subTest(specs):
                parsed = parsing.parse({"perf:profile": "compute", **specs}, properties)
                self.assertEqual(set(native) - {"hw:cpu_policy"}, set(parsed.native))

    def test_unknown_profile_lists_those_there_are(self):
        self.assertIn("balanced, compute", self.error({"perf:profile": "fast"}))
        self.assertIn(
            "there are mine", self.error({"perf:profile": "fast"}, profiles={"mine": None})
        )

    def test_expanded_request_needs_no_profile(self):
        self.assertEqual("gone", parsing.parse_expanded({"perf:profile": "gone"}).profile)

    @hypothesis.given(spec_strategies.VALID_SPECS, PROFILES)
    def test_round_trip(self, specs, name):
        if name:
            specs = {**specs, "perf:profile": name}
        parsed = parsing.parse(specs)
        again = parsing.parse(parsed.extra_specs())
        self.assertEqual(
            dataclasses.replace(parsed, native={}), dataclasses.replace(again, native={})
        )
        self.assertEqual(
            dataclasses.replace(parsed, native={}), parsing.parse_expanded(parsed.extra_specs())
        )

    @hypothesis.given(
        strategies.dictionaries(
            strategies.one_of(
                strategies.sampled_from(sorted(vocabulary.BY_KEY)),
                strategies.text().map("perf:{}".format),
            ),
            strategies.text(),
        ),
        strategies.dictionaries(
            strategies.one_of(
                strategies.sampled_from(sorted(vocabulary.BY_IMAGE_PROPERTY)),
                strategies.text().map("hw_perf_{}".format),
            ),
            strategies.text(),
        ),
    )
    def test_arbitrary_text_is_parsed_or_refused(self, specs, properties):
        try:
            parsing.parse(specs, properties)
        except errors.PerfTuningError as error:
            self.assertTrue(str(error).isprintable())
