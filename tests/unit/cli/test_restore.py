# SPDX-License-Identifier: Apache-2.0
"""``nova-perf restore``."""

import pathlib

from tests.support import sysroots, transaction_case

_RPS = "sys/class/net/eth0/queues/rx-0/rps_cpus"


class RestoreTest(transaction_case.TransactionCase):
    def test_every_byte_and_twice(self):
        before = sysroots.content(self.root)
        self.run_json("apply", "--from", self.some_plan())
        self.assertNotEqual(before, sysroots.content(self.root))
        self.assertEqual({"restored": 4}, self.run_json("restore")["counts"])
        self.assertEqual(before, sysroots.content(self.root))
        self.assertEqual({}, self.run_json("restore")["counts"])
        self.assertEqual((0, "nothing is applied, nothing to restore\n", ""), self.run_command("restore"))

    def test_what_somebody_else_changed(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put(_RPS, "3c")
        code, out, _err = self.run_command("restore")
        self.assertEqual(1, code)
        self.assertIn("foreign", out)
        self.assertEqual("3c", pathlib.Path(self.root, _RPS).read_text().strip())
        self.assertEqual({"restored": 1}, self.run_json("restore", "--force")["counts"])
        self.assertEqual("00", pathlib.Path(self.root, _RPS).read_text().strip())

    def test_after_a_reboot_it_says_so_and_forgets(self):
        pathlib.Path(self.root, "proc/sys/kernel/random").mkdir(parents=True)
        self.put("proc/sys/kernel/random/boot_id", "one")
        self.run_json("apply", "--from", self.some_plan())
        after = sysroots.content(self.root)
        self.put("proc/sys/kernel/random/boot_id", "two")
        code, out, _err = self.run_command("restore")
        self.assertEqual(0, code)
        self.assertIn("booted since", out)
        self.put("proc/sys/kernel/random/boot_id", "one")
        self.assertEqual(after, sysroots.content(self.root))
        self.assertEqual({}, self.run_json("restore")["counts"])

    def test_a_damaged_journal(self):
        self.run_json("apply", "--from", self.some_plan())
        path = pathlib.Path(self.state, "journal.sqlite")
        path.write_bytes(b"x" * 10_000)
        for command in ("restore", "verify", "status"):
            self.refused(command, words=(str(path),))
        self.refused("apply", "--from", self.some_plan(), words=(str(path),))
