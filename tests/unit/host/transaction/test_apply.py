# SPDX-License-Identifier: Apache-2.0
"""Apply and restore: order, errors by class, first originals, what others have changed, interruptions."""

import errno
import os
import sqlite3
from unittest import mock

from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.transaction import apply, journal, restore, verify
from tests.support import boxes, directories

Result, RestoreResult = apply.Result, restore.RestoreResult


class TransactionCase(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.directory = os.path.join(self.directory, "state")
        self.box = boxes.Box()
        self.box.values = {"a": "1", "b": "1", "c": "1"}
        self.kinds = {"box": self.box}

    def open(self, writer=True):
        return journal.Journal(self.directory, "/", writer=writer, patience=0.1)

    def apply(self, *settings, boot="boot"):
        with self.open() as session:
            return {
                outcome.setting.target: outcome.result
                for outcome in apply.apply(settings, self.kinds, session, boot)
            }

    def restore(self, boot="boot"):
        with self.open() as session:
            return {
                restored.entry.target: restored.result
                for restored in restore.restore(session, self.kinds, boot)
            }

    def entries(self):
        with self.open(writer=False) as session:
            return {entry.target: entry for entry in session.entries()}


class BootIdTest(directories.DirectoryCase):
    def test_one_that_is_hidden_or_empty_is_an_error(self):
        (self.directory / "empty").touch()
        for path in (self.directory / "empty", self.directory / "absent"):
            with self.subTest(path), mock.patch.object(apply, "BOOT_ID", str(path)):
                error = self.assertRaises(apply.BootIdError, apply.boot_id)
                self.assertIn(f"{path}: ", str(error))


class ApplyTest(TransactionCase):
    def test_written_once_and_restored(self):
        wanted = [boxes.setting("a", "2"), boxes.setting("b", "1")]
        self.assertEqual({"a": Result.WRITTEN, "b": Result.UNCHANGED}, self.apply(*wanted))
        self.assertEqual({"a": Result.UNCHANGED, "b": Result.UNCHANGED}, self.apply(*wanted))
        self.assertEqual([("a", "2")], self.box.writes)
        entry = self.entries()["a"]
        self.assertEqual(
            ("1", "2", "2", "applied"), (entry.original, entry.wanted, entry.written, entry.state)
        )
        self.assertEqual(("because", "rule"), (entry.reason, entry.rule))
        self.assertEqual({"a": RestoreResult.RESTORED, "b": RestoreResult.ALREADY}, self.restore())
        self.assertEqual({"a": "1", "b": "1", "c": "1"}, self.box.values)
        self.assertEqual({}, self.restore())

    def test_originals_are_in_the_journal_before_the_first_write(self):
        seen = []

        def look(_target, _value):
            connection = sqlite3.connect(os.path.join(self.directory, "journal.sqlite"))
            seen.append(
                dict(
                    connection.execute(
                        "SELECT target, original FROM entry WHERE state = 'intended'"
                    )
                )
            )
            connection.close()

        self.box.on_write = look
        self.apply(boxes.setting("a", "2"), boxes.setting("b", "3"))
        self.assertEqual([{"a": "1", "b": "1"}] * 2, seen)

    def test_order_of_kinds_and_its_reverse(self):
        log = []
        late, early = boxes.Box(order=60, log=log), boxes.Box(order=10, log=log)
        late.values, early.values = {"irq": "1"}, {"channels": "1"}
        self.kinds = {"late": late, "early": early}
        self.apply(boxes.setting("irq", "2", "late"), boxes.setting("channels", "2", "early"))
        self.restore()
        self.assertEqual([("channels", "2"), ("irq", "2"), ("irq", "1"), ("channels", "1")], log)

    def test_one_failure_hides_no_other(self):
        self.box.refuse = {"b": [errno.EIO]}
        result = self.apply(*(boxes.setting(name, "2") for name in "abc"))
        self.assertEqual({"a": Result.WRITTEN, "b": Result.FAILED, "c": Result.WRITTEN}, result)
        self.assertEqual(
            {"a", "c"}, set(self.entries()), "what was never written has nothing to be undone"
        )

    def test_classes_of_failures(self):
        self.box.refuse = {
            "a": [errno.EBUSY],
            "b": [errno.ENOSPC, errno.EIO],
            "c": [errno.EINVAL] * 9,
        }
        with self.open() as session:
            wanted = [boxes.setting(name, "2") for name in "abc"]
            a, b, c = apply.apply(wanted, self.kinds, session, "boot")
        self.assertIs(Result.WRITTEN, a.result, "tried again")
        self.assertEqual(
            (Result.FAILED, base.FailureClass.NO_ROOM), (b.result, b.failure), "not tried again"
        )
        self.assertEqual((Result.FAILED, base.FailureClass.TRANSIENT), (c.result, c.failure))
        self.assertEqual(9 - 3, len(self.box.refuse["c"]))
        self.assertEqual(os.strerror(errno.EINVAL), c.detail)

    def test_a_failure_after_an_earlier_success_keeps_the_earlier_entry(self):
        self.apply(boxes.setting("a", "2"))
        self.box.refuse = {"a": [errno.EIO]}
        self.assertEqual({"a": Result.FAILED}, self.apply(boxes.setting("a", "3")))
        self.assertEqual(("1", "2", "2"), self._shape("a"))
        self.assertEqual({"a": RestoreResult.RESTORED}, self.restore())

    def _shape(self, target):
        entry = self.entries()[target]
        return entry.original, entry.wanted, entry.written

    def test_a_value_that_the_kernel_rounds(self):
        self.box.round = {"1000": "1024"}
        self.assertEqual({"a": Result.DIFFERS}, self.apply(boxes.setting("a", "1000")))
        self.assertEqual(("1", "1000", "1024"), self._shape("a"))
        self.assertEqual({"a": RestoreResult.RESTORED}, self.restore())

    def test_interrupt_that_has_not_moved_yet_is_pending(self):
        self.box.in_use = {"a": "1"}
        self.assertEqual({"a": Result.PENDING}, self.apply(boxes.setting("a", "2")))
        observations = verify.verify([boxes.setting("a", "2")], self.kinds)
        self.assertEqual([base.State.PENDING], [observation.state for observation in observations])

    def test_another_object_under_the_number(self):
        self.box.owners = {"a": "new"}
        self.assertEqual({"a": Result.STALE}, self.apply(boxes.setting("a", "2", identity="old")))
        self.assertEqual([], self.box.writes)
        self.assertEqual({}, self.entries())

    def test_an_identity_that_is_required(self):
        self.box.needs_identity = True
        self.box.owners = {"a": "x"}
        self.assertEqual({"a": Result.STALE}, self.apply(boxes.setting("a", "2")))

    def test_a_number_that_changes_hands_meanwhile(self):
        """Channels written first give the interrupt's number to another vector."""
        irq = boxes.Box(order=60)
        irq.values, irq.owners = {"irq": "1"}, {"irq": "old"}
        self.kinds["irq"] = irq
        self.box.on_write = lambda target, value: irq.owners.update(irq="new")
        result = self.apply(boxes.setting("a", "2"), boxes.setting("irq", "2", "irq", "old"))
        self.assertEqual({"a": Result.WRITTEN, "irq": Result.STALE}, result)
        self.assertEqual([], irq.writes)

    def test_gone_and_unknown(self):
        self.assertEqual({"z": Result.STALE}, self.apply(boxes.setting("z", "2")))
        self.assertRaises(base.TargetError, self.apply, boxes.setting("a", "2", kind="nothing"))
        self.assertRaises(
            base.TargetError, self.apply, boxes.setting("a", "2"), boxes.setting("a", "3")
        )
        self.assertEqual([], self.box.writes)

    def test_ended_threads_leave_the_journal(self):
        self.box.ephemeral = True
        self.apply(boxes.setting("a", "2"), boxes.setting("b", "2"))
        del self.box.values["a"]
        self.apply(boxes.setting("b", "2"))
        self.assertEqual({"b"}, set(self.entries()))

    def test_preview_changes_nothing(self):
        wanted = [boxes.setting("a", "2"), boxes.setting("b", "1"), boxes.setting("z", "1")]
        lines, rest = apply.preview(wanted, self.kinds)
        self.assertEqual(["put 2 into a"], lines)
        self.assertEqual(
            {"b": Result.UNCHANGED, "z": Result.STALE},
            {outcome.setting.target: outcome.result for outcome in rest},
        )
        self.assertEqual([], self.box.writes)
        self.assertFalse(os.path.exists(self.directory))


class FailureTest(TransactionCase):
    def break_second(self, error=RuntimeError, lasting=()):
        """Let the second write break, and return two settings; ``lasting`` cannot be undone."""

        def cut(target, value):
            if (target, value) == ("b", "2"):
                self.box.refuse |= {name: [errno.EIO] for name in lasting}
                raise error("broken")

        self.box.on_write = cut
        return boxes.setting("a", "2"), boxes.setting("b", "2")

    def test_what_it_wrote_is_undone(self):
        self.assertRaises(RuntimeError, self.apply, *self.break_second())
        self.assertEqual({"a": "1", "b": "1", "c": "1"}, self.box.values)
        self.assertEqual({RestoreResult.ALREADY}, set(self.restore().values()))

    def test_what_cannot_be_undone_is_named(self):
        error = self.assertRaises(apply.ApplyError, self.apply, *self.break_second(lasting="a"))
        self.assertIn("broken", str(error))
        self.assertIn("box a", str(error))
        self.assertEqual({"a": RestoreResult.RESTORED, "b": RestoreResult.ALREADY}, self.restore())

    def test_interrupted_it_is_put_back_by_restore(self):
        self.assertRaises(KeyboardInterrupt, self.apply, *self.break_second(KeyboardInterrupt))
        self.assertEqual("2", self.box.values["a"])
        self.restore()
        self.assertEqual({"a": "1", "b": "1", "c": "1"}, self.box.values)


class RestoreTest(TransactionCase):
    def test_apply_after_a_reboot_starts_afresh(self):
        self.apply(boxes.setting("a", "2"), boxes.setting("b", "2"), boot="first")
        self.box.values.update(a="7", b="1")
        self.apply(boxes.setting("a", "2"), boot="second")
        self.assertEqual(
            {("a", "7")}, {(entry.target, entry.original) for entry in self.entries().values()}
        )
        self.assertEqual({"a": RestoreResult.RESTORED}, self.restore(boot="second"))
        self.assertEqual("7", self.box.values["a"])

    def test_gone_and_replaced(self):
        self.box.owners = {"a": "x"}
        self.apply(boxes.setting("a", "2"), boxes.setting("b", "2"))
        self.box.owners["a"] = "y"
        del self.box.values["b"]
        self.assertEqual({"a": RestoreResult.GONE, "b": RestoreResult.GONE}, self.restore())
        self.assertEqual("2", self.box.values["a"])
        self.assertEqual({}, self.entries())

    def test_a_failure_keeps_its_entry(self):
        self.apply(boxes.setting("a", "2"), boxes.setting("b", "2"))
        self.box.refuse = {"a": [errno.EIO]}
        self.assertEqual({"a": RestoreResult.FAILED, "b": RestoreResult.RESTORED}, self.restore())
        self.assertEqual({"a"}, set(self.entries()))
        self.assertEqual({"a": RestoreResult.RESTORED}, self.restore())

    def test_what_the_kernel_makes_of_an_original_is_ours(self):
        """XPS takes no CPU that is offline: the next restore, when it is back, shall not find somebody else's."""
        self.apply(boxes.setting("a", "2"))
        self.box.round = {"1": "0"}
        for expected in (RestoreResult.FAILED, RestoreResult.FAILED):
            with self.subTest(expected):
                self.assertEqual({"a": expected}, self.restore())
        self.box.round = {}
        self.assertEqual({"a": RestoreResult.RESTORED}, self.restore())

    def test_a_kind_that_is_no_longer_installed(self):
        self.apply(boxes.setting("a", "2"))
        kinds, self.kinds = self.kinds, {}
        self.assertEqual({"a": RestoreResult.FAILED}, self.restore())
        seen = verify.verify([boxes.setting("a", "2")], self.kinds)
        self.assertEqual([base.State.UNREADABLE], [observation.state for observation in seen])
        self.kinds = kinds
        self.assertEqual({"a": RestoreResult.RESTORED}, self.restore())


class VerifyTest(TransactionCase):
    def test_verify_tells_drift_from_objects_that_are_gone(self):
        self.box.owners = {"b": "x"}
        wanted = [
            boxes.setting("a", "1"),
            boxes.setting("a", "2"),
            boxes.setting("z", "1"),
            boxes.setting("b", "1", identity="y"),
        ]
        observations = verify.verify(wanted, self.kinds)
        states = [base.State.HOLDS, base.State.DRIFTED, base.State.GONE, base.State.GONE]
        self.assertEqual(states, [observation.state for observation in observations])
        drift = [
            verify.is_drift(setting, seen, self.kinds)
            for setting, seen in zip(wanted, observations, strict=True)
        ]
        self.assertEqual([False, True, True, True], drift)
        self.box.ephemeral = True
        self.assertFalse(verify.is_drift(wanted[2], observations[2], self.kinds))
