# SPDX-License-Identifier: Apache-2.0
"""``nova-perf verify``."""

import pathlib

from tests.support import transaction_case
from tests.support.transaction_case import BOOT_ID, RPS


class VerifyTest(transaction_case.TransactionCase):
    def test_nothing_applied(self):
        self.assertEqual("nothing is applied\n", self.shown("verify"))

    def test_holds_and_pending(self):
        self.run_json("apply", "--from", self.some_plan())
        result = self.run_json("verify")
        self.assertEqual({"holds": 3, "pending": 1}, result["counts"])
        self.put("proc/irq/24/effective_affinity_list", "2")
        self.assertEqual({"holds": 4}, self.run_json("verify")["counts"])

    def test_changed_value_is_drift_and_exit_1(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put(RPS, "3c")
        result = self.run_json("verify", code=1)
        self.assertEqual({"holds": 2, "pending": 1, "drifted": 1}, result["counts"])
        drifted = next(setting for setting in result["settings"] if setting["state"] == "drifted")
        self.assertEqual(
            ("eth0/rx-0", "0f", "3c"), (drifted["target"], drifted["value"], drifted["current"])
        )
        self.assertIn("drifted", self.shown("verify", code=1))

    def test_news_come_first_and_what_holds_only_with_all(self):
        self.run_json("apply", "--from", self.some_plan())
        self.assertEqual("4 settings: 3 hold, 1 pending\n", self.shown("verify"))
        self.put(RPS, "3c")
        _head, drifted, counts = self.shown("verify", code=1).splitlines()
        self.assertEqual(["drifted", "rps", "eth0/rx-0"], drifted.split()[:3])
        self.assertEqual("4 settings: 1 drifted, 2 hold, 1 pending", counts)
        _head, first, *others = self.shown("verify", "--all", code=1).splitlines()
        self.assertEqual((drifted.split(), 4), (first.split(), len(others)))

    def test_gone_is_drift_for_a_nic(self):
        self.run_json("apply", "--from", self.some_plan())
        pathlib.Path(self.root, "sys/class/net/eth0").unlink()
        self.assertEqual(3, self.run_json("verify", code=1)["counts"]["gone"])

    def test_unreadable_is_an_error(self):
        self.run_json("apply", "--from", self.some_plan())
        path = pathlib.Path(self.root, RPS)
        path.unlink()
        path.mkdir()
        self.assertIn("unreadable", self.shown("verify", code=3))

    def test_after_a_reboot(self):
        self.boot("one")
        self.run_json("apply", "--from", self.some_plan())
        self.boot("two")
        result = self.run_json("verify", code=1)
        self.assertEqual(({}, 4), (result["counts"], result["stale"]))
        self.assertIn(
            "no longer in force: 4 settings of an earlier boot", self.shown("verify", code=1)
        )
        self.assertIn("no longer in force: 4 settings of an earlier boot", self.shown("status"))

    def test_another_boot_id_alone_ends_nothing(self):
        self.put(BOOT_ID, "one")
        self.run_json("apply", "--from", self.some_plan())
        self.put(BOOT_ID, "two")
        result = self.run_json("verify")
        self.assertEqual(({"holds": 3, "pending": 1}, 0), (result["counts"], result["stale"]))
        self.assertEqual(0, self.run_json("status")["stale"])
