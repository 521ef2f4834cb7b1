# SPDX-License-Identifier: Apache-2.0
"""``nova-perf verify``."""

import pathlib

from tests.support import transaction_case

_RPS = "sys/class/net/eth0/queues/rx-0/rps_cpus"


class VerifyTest(transaction_case.TransactionCase):
    def test_nothing_applied(self):
        self.assertEqual((0, "nothing is applied\n", ""), self.run_command("verify"))

    def test_holds_and_pending(self):
        self.run_json("apply", "--from", self.some_plan())
        result = self.run_json("verify")
        self.assertEqual({"holds": 3, "pending": 1}, result["counts"])
        self.put("proc/irq/24/effective_affinity_list", "2")
        self.assertEqual({"holds": 4}, self.run_json("verify")["counts"])

    def test_changed_value_is_drift_and_exit_1(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put(_RPS, "3c")
        result = self.run_json("verify", code=1)
        self.assertEqual({"holds": 2, "pending": 1, "drifted": 1}, result["counts"])
        drifted = next(setting for setting in result["settings"] if setting["state"] == "drifted")
        self.assertEqual(("eth0/rx-0", "0f", "3c"), (drifted["target"], drifted["value"], drifted["current"]))
        code, out, _err = self.run_command("verify")
        self.assertEqual(1, code)
        self.assertIn("drifted", out)

    def test_gone_is_drift_for_a_nic(self):
        self.run_json("apply", "--from", self.some_plan())
        pathlib.Path(self.root, "sys/class/net/eth0").unlink()
        self.assertEqual(3, self.run_json("verify", code=1)["counts"]["gone"])

    def test_unreadable_is_an_error(self):
        self.run_json("apply", "--from", self.some_plan())
        path = pathlib.Path(self.root, _RPS)
        path.unlink()
        path.mkdir()
        code, out, _err = self.run_command("verify")
        self.assertEqual(3, code)
        self.assertIn("unreadable", out)

    def test_after_a_reboot(self):
        self._boot("one")
        self.run_json("apply", "--from", self.some_plan())
        self._boot("two")
        result = self.run_json("verify", code=1)
        self.assertEqual(({}, 4), (result["counts"], result["stale"]))

    def _boot(self, name):
        pathlib.Path(self.root, "proc/sys/kernel/random").mkdir(parents=True, exist_ok=True)
        self.put("proc/sys/kernel/random/boot_id", name)
