# SPDX-License-Identifier: Apache-2.0
"""The vocabulary is the one place of names and values; everything that is made from it relies on these."""

import dataclasses

from nova_perf_tuning.specs import request, vocabulary
from tests.support import testcase

BY_NAME = {spec.name: spec for spec in vocabulary.VOCABULARY}


class VocabularyTest(testcase.TestCase):
    def test_every_field_of_a_request_is_a_spec(self):
        fields = {field.name for field in dataclasses.fields(request.Request)} - {"native"}
        self.assertEqual(fields, set(BY_NAME))

    def test_keys_have_both_forms(self):
        keys = vocabulary.BY_KEY
        self.assertIn("perf:vif_host_offload.mrg_rxbuf", keys)
        self.assertNotIn("perf:vif_guest_offload.gso", keys)
        self.assertNotIn("perf:vif_guest_offload.mrg_rxbuf", keys)
        self.assertEqual(
            "perf:vif_host_offload.tso4",
            vocabulary.BY_IMAGE_PROPERTY["hw_perf_vif_host_offload_tso4"],
        )

    def test_images_ask_for_nothing_on_the_host_but_io_threads(self):
        """Images are a tenant's; I/O threads have a limit of their own."""
        acting = {
            spec.name for spec in vocabulary.VOCABULARY if vocabulary.Effect.HOST in spec.effects
        }
        self.assertEqual(
            {"iothreads"}, acting & {spec.name for spec in vocabulary.VOCABULARY if spec.image}
        )
        self.assertEqual(
            set(), {"hw_perf_profile", "hw_perf_budget"} & set(vocabulary.BY_IMAGE_PROPERTY)
        )

    def test_documented_values_are_accepted(self):
        accepted = {
            "vif_queues": {"auto": "auto", "1": 1, "256": 256},
            "vif_rx_queue_size": {"256": 256, "512": 512, "1024": 1024},
            "vif_host_offload": {"on": True, " Yes ": True, "0": False, "FALSE": False, "t": True},
            "iothreads": {"0": 0, "16": 16},
            "disk_queues": {"auto": "auto", "8": 8},
            "emulator_placement": {"default": "default", "numa": "numa"},
            "vhost_placement": {"none": "none", "numa": "numa", "spread": "spread"},
            "irq_placement": {"vcpu": "vcpu"},
            "pci_topology": {"flat": "flat", "numa": "numa"},
            "budget": {"gold-1.5": "gold-1.5"},
            "profile": {"storage": "storage"},
        }
        for name, values in accepted.items():
            for text, value in values.items():
                parsed = BY_NAME[name].parse(text)
                self.assertEqual((value, type(value)), (parsed, type(parsed)), (name, text))

    def test_values_refused(self):
        refused = {
            "vif_queues": [
                "",
                "0",
                "257",
                *"-1 +1 01 1_0 1.0 0x1 AUTO ٣".split(),
                " 1",
                "1 ",
                "9" * 5000,
            ],
            "vif_rx_queue_size": ["0", "128", "300", "auto", "0256", "2048"],
            "vif_host_offload": ["", "maybe", "2", "enabled"],
            "iothreads": ["17", "-1", "auto"],
            "emulator_placement": ["NUMA", "", "isolate"],
            "pci_topology": ["", "NUMA", "true"],
            "profile": ["", "../etc/passwd", "a b", "-x", "x" * 64, "a\n"],
            "budget": [".hidden", "a/b"],
        }
        for name, values in refused.items():
            for text in values:
                self.assertIsNone(BY_NAME[name].parse(text), (name, text))
