# SPDX-License-Identifier: Apache-2.0
"""What the kernel refused is remembered as long as it counts."""

import dataclasses
import os
import pathlib

from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan.refused import NOTHING, Refused
from nova_perf_tuning.host.transaction import apply, refusals
from tests.support import directories, hosts, testcase

MANAGED = host_model.IrqTarget(24, "0000:10:00.0", "eth0-TxRx-0")
FULL = frozenset({2})


def outcome(value, failure, target=MANAGED, result=apply.Result.FAILED):
    setting = host_model.Setting.on(target, value, "0-3", "why", "nic-irq-local")
    return apply.Outcome(setting, result, "0-3", failure)


NO_ROOM = outcome("2", base.FailureClass.NO_ROOM)
REFUSES = outcome("1", base.FailureClass.MANAGED)


class MemoryTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.now = 1e9
        irq = hosts.irq(24, MANAGED.action, MANAGED.device, "0-3")
        self.facts = hosts.facts(hosts.cpus_of([(0, 4)]), irqs=[irq])
        self.file = pathlib.Path(f"{self.directory}{refusals.FILE}")

    def memory(self):
        return refusals.RefusalMemory(str(self.directory), clock=lambda: self.now)

    def known(self, boot="boot", facts=None):
        return self.memory().known(facts or self.facts, boot)

    def learn(self, *outcomes):
        memory = self.memory()
        memory.known(self.facts, "boot")
        return memory.learn(outcomes, self.facts, "boot")

    def test_another_one_knows_it(self):
        self.assertTrue(self.learn(NO_ROOM, REFUSES))
        self.assertEqual(Refused(FULL, frozenset({MANAGED})), self.known())
        self.assertFalse(self.learn(NO_ROOM, REFUSES), "it is no news")

    def test_what_one_learns_takes_nothing_from_another(self):
        self.learn(NO_ROOM)
        self.memory().learn([REFUSES], self.facts, "boot")
        self.assertEqual(Refused(FULL, frozenset({MANAGED})), self.known())

    def test_other_failures_are_no_facts(self):
        for failure in (base.FailureClass.PERMANENT, base.FailureClass.TRANSIENT, None):
            self.assertFalse(self.learn(outcome("2", failure)))
        xps = dataclasses.replace(NO_ROOM.setting, kind="xps", target="eth0/tx-0")
        self.assertFalse(self.learn(dataclasses.replace(NO_ROOM, setting=xps)))
        self.assertFalse(self.file.exists())

    def test_a_full_cpu_is_forgotten(self):
        self.learn(NO_ROOM, REFUSES)
        fewer = hosts.facts(
            hosts.cpus_of([(0, 4)], offline={3}), irqs=list(self.facts.irqs.values())
        )
        more = [*self.facts.irqs.values(), hosts.irq(25, "eth1-TxRx-0", "0000:11:00.0", "0-3")]
        for facts in (fewer, hosts.facts(hosts.cpus_of([(0, 4)]), irqs=more)):
            self.assertEqual(Refused(managed=frozenset({MANAGED})), self.known(facts=facts))
        self.now += refusals.FULL_FOR_S - 1.0
        self.assertEqual(FULL, self.known().full)
        for later in (1.0, -refusals.FULL_FOR_S - 1.0):  # a clock that was set back counts as well
            self.now += later
            self.assertEqual(Refused(managed=frozenset({MANAGED})), self.known())

    def test_a_managed_interrupt_is_forgotten_when_it_is_gone(self):
        self.learn(REFUSES)
        asleep = hosts.irq(24, None, MANAGED.device, "0-3")
        other = hosts.irq(24, "another", MANAGED.device, "0-3")
        for irqs, expected in (
            ([asleep], frozenset({MANAGED})),
            ([other], frozenset()),
            ([], frozenset()),
        ):
            with self.subTest(irqs):
                facts = hosts.facts(hosts.cpus_of([(0, 4)]), irqs=irqs)
                self.assertEqual(expected, self.known(facts=facts).managed)

    def test_another_boot_forgets_all(self):
        self.learn(NO_ROOM, REFUSES)
        self.assertEqual(NOTHING, self.known("another boot"))

    def test_a_file_that_cannot_be_used_is_none(self):
        self.learn(NO_ROOM)
        text = self.file.read_text()
        for other in (
            "",
            "[]",
            "{",
            text.replace('"schema": 1', '"schema": 2'),
            text.replace('"2"', '"x"'),
        ):
            with self.subTest(other):
                self.file.write_text(other)
                self.assertEqual(NOTHING, self.known())
        self.file.unlink()
        os.mkfifo(self.file)
        self.assertEqual(NOTHING, self.known())

    def test_it_remembers_where_it_cannot_write(self):
        (self.directory / "run").touch()
        memory = self.memory()
        self.assertTrue(memory.learn([NO_ROOM], self.facts, "boot"))
        self.assertEqual(FULL, memory.known(self.facts, "boot").full)


class TogetherTest(testcase.TestCase):
    def test_what_became_of_each_setting_over_two_rounds(self):
        targets = [
            host_model.IrqTarget(number, "0000:10:00.0", f"eth0-TxRx-{number}")
            for number in range(24, 28)
        ]
        Result = apply.Result
        earlier = [
            outcome("1", None, targets[0], Result.WRITTEN),
            outcome("2", base.FailureClass.NO_ROOM, targets[1]),
            outcome("3", base.FailureClass.MANAGED, targets[2]),
            outcome("1", None, targets[3], Result.PENDING),
        ]
        moved = outcome("3", None, targets[3], Result.WRITTEN)
        later = [
            outcome("1", None, targets[0], Result.UNCHANGED),
            outcome("1", None, targets[1], Result.WRITTEN),
            dataclasses.replace(moved, previous="1"),
        ]
        done = refusals.together(earlier, later)
        shown = [(one.setting.target, one.setting.value, one.result, one.previous) for one in done]
        written = [
            (target, value, Result.WRITTEN, "0-3")
            for target, value in zip(("irq:24", "irq:25", "irq:27"), ("1", "1", "3"), strict=True)
        ]
        self.assertEqual(written, shown)
