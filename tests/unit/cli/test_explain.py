# SPDX-License-Identifier: Apache-2.0
"""``nova-perf specs`` and ``explain``, from end to end in this process."""

import shlex

from nova_perf_tuning.specs import parsing, vocabulary
from tests.support import program, testcase


class SpecsCommandTest(testcase.TestCase):
    def test_every_spec_has_an_example_that_is_right(self):
        rows = program.document(self, "specs")["specs"]
        self.assertEqual(len(vocabulary.VOCABULARY), len(rows))
        for row, spec in zip(rows, vocabulary.VOCABULARY, strict=True):
            with self.subTest(spec.name):
                key, _, value = row["example"].partition("=")
                self.assertIs(spec, vocabulary.BY_KEY[key][0])
                self.assertIsNotNone(spec.parse(value))
                if spec.name != "profile":
                    parsing.parse({key: value})

    def test_the_table_has_each_example_with_meaning_and_values(self):
        table = program.shown(self, "specs")
        for spec in vocabulary.VOCABULARY:
            self.assertIn(f"{spec.assignment} ", table)
            self.assertIn(f"{spec.description.strip()} Values: {spec.allowed}.", table)


class ExplainCommandTest(testcase.TestCase):
    def explain(self, *specs, code=0):
        options = [part for spec in specs for part in ("--spec", spec)]
        return program.document(self, "explain", *options, code=code)

    def test_vcpus_have_a_default(self):
        self.assertEqual(4, self.explain("perf:vif_queues=2")["vcpus"])

    def test_the_finished_flavor_has_every_spec_once_and_stated_values_win(self):
        document = self.explain("perf:profile=compute", "perf:irq_placement=none")
        words = shlex.split(document["flavor_create"])
        given = [words[place + 1] for place, word in enumerate(words) if word == "--property"]
        specs = dict(text.split("=", 1) for text in given)
        self.assertEqual(len(given), len(specs))
        self.assertEqual("none", specs["perf:irq_placement"])
        self.assertEqual("dedicated", specs["hw:cpu_policy"])
        self.assertEqual(["openstack", "--os-compute-api-version", "2.86"], words[:3])
        for key, value in document["flavor_lacks"].items():
            self.assertEqual(value, specs[key])

    def test_multiqueue_is_in_the_finished_flavor(self):
        create = self.explain("perf:vif_queues=2")["flavor_create"]
        self.assertIn("--property hw:vif_multiqueue_enabled=true", create)

    def test_memory_of_queues_of_one_nic_and_of_many(self):
        row, *others = self.explain("perf:vif_queues=auto", "perf:vif_rx_queue_size=1024")["specs"]
        one, many = row["cost"]
        self.assertIn("4 queue pairs of 1 virtio NIC for 4 vCPUs", one)
        self.assertIn("32 queue pairs of 8 virtio NICs for 4 vCPUs", many)
        self.assertIn("2304 MiB", many)
        self.assertEqual([[]], [other["cost"] for other in others])
        text = program.shown(self, "explain", "--spec", "perf:vif_queues=2")
        self.assertIn("    cost: 16 queue pairs of 8 virtio NICs", text)

    def test_values_are_quoted_for_a_shell(self):
        create = self.explain("perf:vif_queues=2", "aggregate_instance_extra_specs:a=b c")
        self.assertIn("'aggregate_instance_extra_specs:a=b c'", create["flavor_create"])

    def test_it_ends_with_the_command_and_what_a_host_needs(self):
        text = program.shown(
            self, "explain", "--spec", "perf:profile=compute", "--spec", "hw:mem_page_size=1GB"
        )
        _, _, end = text.partition("The finished flavor; fill in memory, disk and name:\n")
        command, _, needs = end.partition("\nTo run its guests, a host needs:\n")
        words = shlex.split(command)
        self.assertEqual(("openstack", "NAME"), (words[0], words[-1]))
        self.assertIn("hugepagesz=1G", needs)
        self.assertIn("cpu_shared_set", needs)

    def test_no_request_has_no_command(self):
        self.assertNotIn("flavor create", program.shown(self, "explain"))
