"""A journal with damaged entries: each is one fault at most, and all else is kept as planned."""

from __future__ import annotations

import dataclasses
from unittest import mock

import testtools

from nova_perf_tuning import cpulist
from nova_perf_tuning.agent import coexist
from nova_perf_tuning.host import irqbalance, privileged
from nova_perf_tuning.host.settings import irqbalance as ban
from nova_perf_tuning.host.transaction import apply
from tests.unit.agent import simulated, test_convergence

#: What is no value of any kind; SQLite stores a BLOB in a column of any type.
RUBBISH = ("rubbish", "", "24\0", b"\0blob", b"\xff")


class Masks(simulated._Xps):
    """Queues whose masks are compared as the real kind does it."""

    def holds(self, _target, value, current):
        return current == value or cpulist.parse_mask(current) == cpulist.parse_mask(value)


class DamageTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.bench = test_convergence.Bench()
        self.addCleanup(self.bench.close)
        self.host, self.agent = self.bench.host, self.bench.agent
        kinds = self.host.kinds
        self.more = {"xps": Masks(self.host)}
        self.host.kinds = lambda: {**kinds(), **self.more}

    def damage(self, column, value, which):
        """Put a value into a column of the first entry of those that ``which`` says."""
        with self.bench.journal.transaction():
            self.bench.journal._connection.execute(
                f"UPDATE entry SET {column} = ? WHERE id = (SELECT min(id) FROM entry WHERE {which})",
                (value,),
            )

    def told(self):
        return [(one.setting.kind, one.setting.target, one.detail) for one in self.agent.not_in_force()]

    def entry(self, kind):
        return next(one for one in self.bench.journal.entries() if one.kind == kind)


class ValuesTest(DamageTest):
    def test_what_is_only_compared_is_mended_by_the_next_write(self):
        self.agent.reconcile()
        sound = self.entry("xps")
        for column in ("written", "wanted"):
            for value in RUBBISH:
                self.damage(column, value, "kind = 'xps'")
                self.host.reset("eth0")
                self.host.reset("eth1")
                self.bench.now += 1000.0
                done = self.agent.reconcile()
                self.assertEqual([], done.faults, (column, value))
                self.assertEqual([], self.bench.wrong(), (column, value))
                mended = self.entry("xps")
                self.assertEqual(
                    (sound.original, sound.wanted, sound.written, "applied"),
                    (mended.original, mended.wanted, mended.written, mended.state),
                    (column, value),
                )

    def test_an_original_that_is_none_is_one_fault_once_it_is_to_be_put_back(self):
        self.agent.reconcile()
        for value in RUBBISH:
            self.damage("original", value, "kind = 'xps'")
            self.agent.reconcile()
            self.assertEqual([], self.told())
        kept = self.entry("xps")
        self.host.xps[kept.target.partition("/")[0]].masks = ["1"] * 4
        done = {one.entry.target: one.result.name for one in self.agent.restore() if one.entry.kind == "xps"}
        self.assertEqual("FAILED", done.pop(kept.target))
        self.assertNotIn("FAILED", done.values())

    def test_a_person_s_entry_that_means_nothing_is_left_alone(self):
        self.agent.reconcile()
        kept = self.entry("xps")
        self.damage("rule", "a person's", "kind = 'xps'")
        self.damage("wanted", "rubbish", "kind = 'xps'")
        self.host.reset("eth0")
        self.host.reset("eth1")
        done = self.agent.reconcile()
        self.assertEqual([(kept.target, "rubbish")], [(one.target, entry.wanted) for one, entry in done.foreign])

    def test_no_type_of_a_column_ends_a_pass(self):
        self.agent.reconcile()
        for column in ("boot_id", "original", "wanted", "written", "reason", "since", "changed"):
            for value in (*RUBBISH, 7, 7.5):
                self.damage(column, value, "kind = 'xps'")
                self.bench.journal._connection.execute("UPDATE entry SET reason = CAST(x'ff41' AS TEXT)")
                self.host.reset("eth0")
                self.bench.now += 1000.0
                self.agent.reconcile()
                self.assertEqual([], self.bench.wrong(), (column, value))


class KindTest(DamageTest):
    def test_what_is_left_of_a_kind_that_is_not_installed_is_one_finding(self):
        self.agent.reconcile()
        left = self.entry("irq_affinity").target
        self.damage("kind", "nosuch", "kind = 'irq_affinity'")
        for _ in range(3):
            self.agent.reconcile()
            ((kind, target, detail),) = self.told()
            self.assertEqual(("nosuch", left), (kind, target))
            self.assertIn("kind nosuch is not installed", detail)
        # It is no reason for a pass at each reading.
        tries = sum(self._try() for _ in range(3600))
        self.assertTrue(5 < tries < 20, tries)
        kinds = self.host.kinds
        self.host.kinds = lambda: {**kinds(), "nosuch": kinds()["irq_affinity"]}
        self.bench.now += 1000.0
        self.agent.reconcile()
        self.assertEqual([], self.told())

    def _try(self):
        self.bench.now += 1.0
        if not self.agent.overdue():
            return False
        self.agent.reconcile()
        return True

    def test_what_was_only_watched_is_forgotten(self):
        self.agent.reconcile()
        self.damage("state", "held", "kind = 'irq_affinity'")
        self.damage("kind", "nosuch", "kind = 'irq_affinity'")
        self.agent.reconcile()
        self.assertEqual([], self.told())
        self.assertNotIn("nosuch", [one.kind for one in self.bench.journal.entries()])


class Irqbalance:
    """What it bans, without a process: its answers come at once."""

    def __init__(self, case):
        self.banned = frozenset((9,))
        for where, name, value in (
            (irqbalance, "running", lambda: 77),
            (irqbalance, "identity", lambda _pid: "77:1"),
            (irqbalance, "banned", lambda _pid, *_more: self.banned),
            (irqbalance, "uses_our_script", lambda _pid: False),
            (privileged, "ban_interrupts", self.ban),
        ):
            case.enterContext(mock.patch.object(where, name, value))

    def ban(self, _pid, numbers):
        self.banned = frozenset(numbers)


class BanTest(DamageTest):
    def setUp(self):
        super().setUp()
        self.theirs = Irqbalance(self)
        self.agent._extra = coexist.Coexistence().settings
        self.more["irqbalance_ban"] = ban.IrqbalanceBan("/")
        self.agent.reconcile()

    def test_what_cannot_be_told_from_it_is_one_fault_and_what_was_told_stays(self):
        told = self.theirs.banned
        self.assertGreater(len(told), 5)
        for column in ("wanted", "original"):
            sound = getattr(self.entry("irqbalance_ban"), column)
            for value in RUBBISH:
                self.damage(column, value, "kind = 'irqbalance_ban'")
                self.host.set_channels("eth0", 5 if "eth0-TxRx-5" in self._names() else 6)
                self.agent.retry_refused()
                self.bench.now += 1000.0
                done = self.agent.reconcile()
                (fault,) = done.faults
                self.assertEqual(("irqbalance_ban", apply.Result.FAILED), (fault.setting.kind, fault.result))
                self.assertEqual((told, [], True), (self.theirs.banned, done.withdrawn, done.kept_extra))
                self.assertEqual([], self.bench.wrong())
                # Said once; a finding as long as it lasts, of which no reading makes a pass.
                self.assertEqual([], self.agent.reconcile().faults)
                ((_kind, _target, detail),) = self.told()
                self.assertRegex(detail, "^what it was told stays: .*is not a whole number")
                self.assertEqual(([], False), (self.agent.drifting(), self.agent.overdue()))
            self.damage(column, sound, "kind = 'irqbalance_ban'")
        self.bench.now += 1000.0
        self.agent.reconcile()
        self.assertEqual([], self.told())
        self.assertEqual({9, *self.host.numbers("eth0"), *self.host.numbers("eth1")}, self.theirs.banned)

    def test_a_command_that_meets_it_writes_all_else(self):
        told = self.theirs.banned
        self.damage("original", "rubbish", "kind = 'irqbalance_ban'")
        self.host.reset("eth0")
        wanted = [dataclasses.replace(one, current=None) for one in self.agent.wanted]
        settings = [
            dataclasses.replace(one, value="9,24") if one.kind == "irqbalance_ban" else one for one in wanted
        ]
        done = apply.apply(settings, self.host.kinds(), self.bench.journal, self.host.boot())
        (fault,) = [one for one in done if one.result in apply.FAULTS]
        self.assertEqual(("irqbalance_ban", apply.Result.FAILED), (fault.setting.kind, fault.result))
        self.assertIn("what the journal says of it is of no use", fault.detail)
        self.assertEqual((told, []), (self.theirs.banned, self.bench.wrong()))

    def _names(self):
        return [one.name for one in self.host.vectors.values()]
