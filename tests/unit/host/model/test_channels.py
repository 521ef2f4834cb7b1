# SPDX-License-Identifier: Apache-2.0
"""The table of channels names what there is: facts, sets of the plan, settings, rules, and its page."""

import dataclasses
import pathlib
import re

from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model import channels, host_model
from nova_perf_tuning.host.model.channels import CHANNELS, Channel, ComparedBy
from nova_perf_tuning.host.plan import proof, reach
from tests.support import hosts, testcase

#: A name in a page: of a rule, a fact or a test.
NAME = re.compile("``([^`]+)``")
DOCUMENTATION = pathlib.Path(__file__).parents[4] / "doc" / "source"


class TableTest(testcase.TestCase):
    def test_each_channel_has_one_row(self):
        self.assertEqual(list(Channel), [row.channel for row in CHANNELS])
        self.assertEqual(21, len(CHANNELS))

    def test_what_a_row_names_is_there(self):
        kinds = set(registry.kinds())
        rules = {rule.id for rule in runner.load()}
        for row in CHANNELS:
            with self.subTest(row.channel):
                self.assertLessEqual(set(row.kinds), kinds)
                self.assertLessEqual(set(row.rules), rules)
                self.assertLessEqual(set(row.work), set(proof.WORK))
                self.assertTrue(row.title and row.seen)

    def test_each_is_moved_judged_or_said_to_be_neither(self):
        for row in CHANNELS:
            with self.subTest(row.channel):
                self.assertEqual(row.proof is ComparedBy.PLAN, bool(row.work))
                self.assertEqual(row.proof is ComparedBy.NOTHING, not row.rules)
                self.assertTrue(row.kinds or row.rules or row.remark)

    def test_no_work_that_the_plan_compares_is_missing(self):
        named = {name for row in CHANNELS for name in row.work}
        self.assertEqual(set(proof.WORK), named)

    def test_the_page_shows_the_table(self):
        page = (DOCUMENTATION / "reference" / "channels.rst").read_text()
        for number, row in enumerate(CHANNELS, 1):
            title = row.title.replace("*", "\\*")
            self.assertIn(f"   * - {number}\n     - {title}\n", page)
        self.assertIn("reference/channels", (DOCUMENTATION / "index.rst").read_text())


class TestsTest(testcase.TestCase):
    """The table for contributors: each channel with its fact, rules, tests and page."""

    def setUp(self):
        super().setUp()
        page = DOCUMENTATION / "contributor" / "channels.rst"
        self.rows = page.read_text().split("\n   * - ")[2:]

    def test_each_channel_has_its_row(self):
        facts = {field.name for field in dataclasses.fields(host_model.HostFacts)}
        self.assertEqual(len(CHANNELS), len(self.rows))
        for number, (text, row) in enumerate(zip(self.rows, CHANNELS, strict=True), 1):
            with self.subTest(row.channel):
                first, its_facts, proof, texts, _tests, page = text.split("\n     - ")
                self.assertEqual((str(number), row.proof.value), (first, proof))
                self.assertEqual([*row.kinds, *row.rules], NAME.findall(texts))
                self.assertLessEqual(set(NAME.findall(its_facts)), facts)
                if row.proof is ComparedBy.PLAN:
                    self.assertNotEqual([], NAME.findall(its_facts))
                name = page.strip().removeprefix(":doc:`").removesuffix("`")
                self.assertTrue((DOCUMENTATION / "contributor" / f"{name}.rst").exists(), name)

    def test_the_tests_are_there(self):
        for text in self.rows:
            tests = NAME.findall(text.split("\n     - ")[4])
            self.assertNotEqual([], tests)
            for dotted in tests:
                with self.subTest(dotted):
                    module, case, test = dotted.rsplit(".", 2)
                    path = DOCUMENTATION.parents[1] / f"{module.replace('.', '/')}.py"
                    _before, _line, body = path.read_text().partition(f"\nclass {case}(")
                    self.assertIn(f"    def {test}(self)", body.partition("\nclass ")[0])


class ReachTest(testcase.TestCase):
    def test_channels_with_facts_have_their_cpus(self):
        cpus = hosts.cpus_of([(0, 8)])
        threads = [
            host_model.KernelThread(36, "kcompactd0", "0-3", 20),
            host_model.KernelThread(37, "rcuop/2", "0-1", 21),
        ]
        bridge = hosts.nic("br0", (), None, None, None, 1, "bridge", "0c")
        bridge.threaded = False
        facts = hosts.facts(
            cpus,
            [bridge],
            [hosts.irq(24, "eth0-TxRx-0", affinity="5")],
            [hosts.guest("g", 1000, ["4"], workers=1, affinity="6")],
            new_irq_mask="ff",
            workqueue_mask="03",
            kernel_threads=threads,
            namespaces=0,
        )
        reached = {name: sorted(known) for name, known in reach.now(facts).items()}
        self.assertEqual(
            {
                Channel.INTERRUPTS: [5],
                Channel.NEW_INTERRUPTS: list(range(8)),
                Channel.RPS: [2, 3],
                Channel.VHOST_WORKERS: [6],
                Channel.QEMU_THREADS: [6],
                Channel.WORKQUEUES: [0, 1],
                Channel.KERNEL_THREADS: [0, 1, 2, 3],
                Channel.RCU_CALLBACKS: [0, 1],
            },
            reached,
        )
        of_sysctls = [Channel.RFS, Channel.TICK_AND_TIMERS, Channel.WATCHDOGS]
        self.assertEqual(of_sysctls, [each.channel for each in channels.unseen(facts)])
