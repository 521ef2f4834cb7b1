"""``nova-perf status``."""

import pathlib
import sqlite3

from tests.unit.cli import transaction_case


class StatusTest(transaction_case.TransactionCase):
    def test_nothing_applied(self):
        code, out, err = self.run_command("status")
        self.assertEqual((0, ""), (code, err))
        self.assertIn("nothing is applied", out)

    def test_what_is_applied(self):
        self.run_json("apply", "--from", self.some_plan())
        result = self.run_json("status")
        self.assertEqual(f"{self.state}/journal.sqlite", result["journal"])
        irq = next(one for one in result["settings"] if one["target"] == "irq:24")
        self.assertEqual(("2", "0-7", "nic", "why"), (irq["value"], irq["original"], irq["rule"], irq["reason"]))
        self.assertRegex(irq["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$")
        code, out, _err = self.run_command("status")
        self.assertEqual(0, code)
        for word in ("irq:24", "eth0/tx-1", "net.core.rmem_max", "journal: "):
            self.assertIn(word, out)

    def test_what_held_already_is_not_listed_as_applied(self):
        self.run_json("apply", "--from", self.plan([{"kind": "mtu", "target": "eth0", "value": "1500"}]))
        self.assertEqual([], self.run_json("status")["settings"])
        self.assertEqual(["eth0"], [one["target"] for one in self.run_json("status", "--all")["settings"]])

    def test_drift_names_the_suspect(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put("proc/irq/24/smp_affinity_list", "5")
        self.put("sys/class/net/eth0/mtu", "1400")
        pathlib.Path(self.root, "proc/4242").mkdir()
        self.put("proc/4242/comm", "irqbalance")
        result = self.run_json("status")
        self.assertEqual({"irqbalance": 4242}, result["rivals"])
        details = {one["target"]: one["detail"] for one in result["settings"]}
        self.assertEqual("holds 5; may have been written by irqbalance (pid 4242)", details["irq:24"])
        self.assertEqual("holds 1400; may have been written by nobody known", details["eth0"])

    def test_an_apply_that_was_cut(self):
        self.run_json("apply", "--from", self.some_plan())
        connection = sqlite3.connect(f"{self.state}/journal.sqlite")
        connection.execute("UPDATE entry SET state = 'intended', written = NULL WHERE target = 'eth0'")
        connection.commit()
        connection.close()
        details = {one["target"]: one["detail"] for one in self.run_json("status")["settings"]}
        self.assertIn("cut short", details["eth0"])

    def test_what_a_file_says_cannot_command_the_terminal(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put("sys/class/net/eth0/mtu", "\x1b[2J1400")
        _code, out, _err = self.run_command("status")
        self.assertNotIn("\x1b", out)
        self.assertIn("?[2J1400", out)
