# SPDX-License-Identifier: Apache-2.0
"""``nova-perf restore``."""

import pathlib

from tests.support import sysroots, transaction_case
from tests.support.transaction_case import BOOT_ID, RPS


class RestoreTest(transaction_case.TransactionCase):
    def test_every_byte_and_twice(self):
        before = sysroots.content(self.root)
        self.run_json("apply", "--from", self.some_plan())
        self.assertNotEqual(before, sysroots.content(self.root))
        self.assertEqual({"restored": 4}, self.run_json("restore")["counts"])
        self.assertEqual(before, sysroots.content(self.root))
        self.assertEqual({}, self.run_json("restore")["counts"])
        self.assertEqual("nothing is applied, nothing to restore\n", self.shown("restore"))

    def test_what_held_already_is_told_from_what_was_put_back(self):
        self.run_json(
            "apply", "--from", self.plan([{"kind": "rps", "target": "eth0/rx-0", "value": "00"}])
        )
        self.assertEqual("1 setting: 1 already original\n", self.shown("restore"))

    def affinities(self):
        """Return the affinity of each interrupt."""
        files = pathlib.Path(self.root, "proc/irq").glob("*/smp_affinity_list")
        return {file.parent.name: file.read_text() for file in files}

    def rename_handlers(self, old, new):
        """Give the handlers of vectors other names, as when a NIC is renamed and comes up again."""
        for directory in pathlib.Path(self.root, "proc/irq").glob(f"*/*{old}*"):
            directory.rename(directory.with_name(directory.name.replace(old, new)))

    def test_a_vector_whose_handler_was_renamed_gets_its_original_back(self):
        before = self.affinities()
        self.run_json("apply")
        self.assertNotEqual(before, self.affinities())
        self.rename_handlers("eth0", "ens1")
        done = self.run_json("restore")
        self.assertNotIn("gone", done["counts"])
        self.assertEqual(before, self.affinities())

    def test_a_renamed_handler_is_planned_again_without_losing_the_original(self):
        before = self.affinities()
        self.run_json("apply")
        self.rename_handlers("eth0", "ens1")
        self.run_json("apply")
        self.run_json("restore")
        self.assertEqual(before, self.affinities())

    def test_another_vector_of_the_device_under_the_number_is_left_alone(self):
        """It has a handler of another name, and not what was written."""
        self.run_json("apply")
        self.rename_handlers("eth0", "ens1")
        for file in pathlib.Path(self.root, "proc/irq").glob("*/smp_affinity_list"):
            file.write_text("0-6\n")
        done = self.run_json("restore")
        self.assertIn("gone", done["counts"])
        self.assertEqual({"0-6\n"}, set(self.affinities().values()))

    def test_what_somebody_else_changed(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put(RPS, "3c")
        self.assertIn("foreign", self.shown("restore", code=1))
        self.assertEqual("3c", self.held(RPS))
        self.assertEqual({"foreign": 1}, self.run_json("restore", code=1)["counts"])
        self.assertEqual({"restored": 1}, self.run_json("restore", "--force")["counts"])
        self.assertEqual("00", self.held(RPS))
        self.assertEqual({}, self.run_json("restore")["counts"])

    def test_after_a_reboot_it_says_so_and_forgets(self):
        self.boot("one")
        self.run_json("apply", "--from", self.some_plan())
        self.boot("two")
        after = sysroots.content(self.root)
        self.assertIn("booted since", self.shown("restore"))
        self.assertEqual(after, sysroots.content(self.root))
        self.assertEqual({}, self.run_json("restore")["counts"])

    def test_another_boot_id_alone_loses_no_original(self):
        self.put(BOOT_ID, "one")
        before = sysroots.content(self.root)
        self.run_json("apply", "--from", self.some_plan())
        self.put(BOOT_ID, "two")
        self.run_json(
            "apply", "--from", self.plan([{"kind": "rps", "target": "eth0/rx-0", "value": "3c"}])
        )
        self.run_json("apply", "--from", self.some_plan())
        self.assertEqual({"restored": 4}, self.run_json("restore")["counts"])
        self.put(BOOT_ID, "one")
        after = sysroots.content(self.root)
        after.pop("plan.json", None)
        self.assertEqual(before, after)

    def test_without_a_boot_id_nothing_is_written_and_nothing_forgotten(self):
        self.put(BOOT_ID, "one")
        self.run_json("apply", "--from", self.some_plan())
        after = sysroots.content(self.root)
        self.put(BOOT_ID, "")
        for command in (
            ["restore"],
            ["verify"],
            ["status"],
            ["apply", "--from", self.some_plan()],
        ):
            self.refused(*command, words=("boot_id: it is empty",))
        self.put(BOOT_ID, "one")
        self.assertEqual(after, sysroots.content(self.root))
        self.assertEqual({"restored": 4}, self.run_json("restore")["counts"])

    def test_a_damaged_journal(self):
        self.run_json("apply", "--from", self.some_plan())
        path = pathlib.Path(self.state, "journal.sqlite")
        path.write_bytes(b"x" * 10_000)
        for command in ("restore", "verify", "status"):
            self.refused(command, words=(str(path),))
        self.refused("apply", "--from", self.some_plan(), words=(str(path),))
