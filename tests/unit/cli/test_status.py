# SPDX-License-Identifier: Apache-2.0
"""``nova-perf status``."""

import pathlib
import sqlite3
from unittest import mock

from nova_perf_tuning.agent import findings
from nova_perf_tuning.agent import state as agent_state
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.host.transaction import journal
from tests.support import agent_samples, transaction_case
from tests.support.transaction_case import RPS


class StateCase(transaction_case.TransactionCase):
    def setUp(self):
        super().setUp()
        self.run_dir = pathlib.Path(self.root, "run/nova-perf-tuning")

    def agent(self, **content):
        """Let this process be the agent of the host."""
        self.run_dir.mkdir(parents=True, exist_ok=True)
        agent_state.write(str(self.run_dir), agent_samples.agent_state(settings=3, **content))

    def lines(self):
        """Return what is said of the agent."""
        return [line for line in self.shown("status").splitlines() if line.startswith("agent: ")]


class StatusTest(StateCase):
    def test_nothing_applied(self):
        self.assertIn("nothing is applied", self.shown("status"))

    def test_what_is_applied(self):
        self.run_json("apply", "--from", self.some_plan())
        result = self.run_json("status")
        self.assertEqual(f"{self.state}/journal.sqlite", result["journal"])
        irq = next(setting for setting in result["settings"] if setting["target"] == "irq:24")
        self.assertEqual(
            ("2", "0-7", "nic", "why"), (irq["value"], irq["original"], irq["rule"], irq["reason"])
        )
        self.assertRegex(irq["since"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d$")
        out = self.shown("status", "--all")
        for word in ("irq:24", "eth0/tx-1", "eth0/rx-0", "journal: "):
            with self.subTest(word):
                self.assertIn(word, out)

    def test_news_come_first_and_what_holds_only_with_all(self):
        self.run_json("apply", "--from", self.some_plan())
        quiet = self.shown("status").splitlines()
        self.assertEqual("4 settings: 3 hold, 1 pending; --all lists them", quiet[0])
        self.put(RPS, "3c")
        head, drifted, counts, *_rest = self.shown("status").splitlines()
        self.assertEqual(["state", "kind", "target", "value", "detail"], head.split())
        self.assertEqual(["drifted", "rps", "eth0/rx-0"], drifted.split()[:3])
        self.assertTrue(counts.startswith("4 settings: 1 drifted, 2 hold, 1 pending"), counts)
        every = self.shown("status", "--all")
        self.assertEqual(0, every.index(head))
        self.assertIn("irq_affinity irq:24", every)

    def test_many_news_are_counted(self):
        settings = []
        for queue in range(30):
            self.put(f"sys/class/net/eth0/queues/rx-{queue}/rps_cpus", "00")
            settings.append({"kind": "rps", "target": f"eth0/rx-{queue}", "value": "0f"})
        self.run_json("apply", "--from", self.plan(settings))
        for queue in range(30):
            self.put(f"sys/class/net/eth0/queues/rx-{queue}/rps_cpus", "3c")
        for command, code in (("status", 0), ("verify", 1)):
            with self.subTest(command):
                out = self.shown(command, code=code)
                self.assertIn("and 10 more; --all lists them all", out)
                self.assertIn("30 settings: 30 drifted", out)
                every = self.shown(command, "--all", code=code)
                self.assertIn("eth0/rx-29", every.partition("30 settings")[0])
                self.assertNotIn(" more; ", every)

    def test_a_detail_of_several_settings_is_said_once(self):
        settings = [
            {"kind": "rps", "target": f"eth0/rx-{queue}", "value": "0f"} for queue in (0, 1)
        ]
        self.put("sys/class/net/eth0/queues/rx-1/rps_cpus", "00")
        self.run_json("apply", "--from", self.plan(settings))
        for queue in (0, 1):
            self.put(f"sys/class/net/eth0/queues/rx-{queue}/rps_cpus", "3c")
        _head, first, second, *_rest = self.shown("status").splitlines()
        self.assertIn("holds 3c; may have been written by", first)
        self.assertTrue(second.endswith("as above"), second)

    def test_what_held_already_is_not_listed_as_applied(self):
        self.run_json(
            "apply", "--from", self.plan([{"kind": "rps", "target": "eth0/rx-0", "value": "00"}])
        )
        self.assertEqual([], self.run_json("status")["settings"])

    def test_a_journal_that_may_not_be_read(self):
        with mock.patch.object(
            journal_options, "open_journal", side_effect=journal.ForbiddenError("root's")
        ):
            shown = self.run_json("status", code=2)
        fault = ("root's", "forbidden_error", None)
        self.assertEqual(
            fault, tuple(shown[key] for key in ("journal_fault", "journal_fault_code", "settings"))
        )

    def test_drift_names_the_suspect(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put("proc/irq/24/smp_affinity_list", "5")
        self.put(RPS, "3c")
        self.put("proc/4242/comm", "irqbalance")
        result = self.run_json("status")
        self.assertEqual({"irqbalance": 4242}, result["competing_daemons"])
        details = {setting["target"]: setting["detail"] for setting in result["settings"]}
        self.assertEqual(
            "holds 5; may have been written by irqbalance (pid 4242)", details["irq:24"]
        )
        self.assertEqual(
            "holds 3c; may have been written by an unknown program", details["eth0/rx-0"]
        )

    def test_what_the_script_put_back_is_said(self):
        original = pathlib.Path(self.root, RPS).read_text().strip()
        self.run_json("apply", "--from", self.some_plan())
        self.put(RPS, original)
        details = {row["target"]: row["detail"] for row in self.run_json("status")["settings"]}
        self.assertIn(
            f"holds its original, {original}, again; put back by undo.sh", details["eth0/rx-0"]
        )

    def test_only_decimal_numbers_are_processes(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put(RPS, "3c")
        for name in ("\N{SUPERSCRIPT TWO}", "\N{ARABIC-INDIC DIGIT TWO}", "0", "9" * 200):
            self.put(f"proc/{name}/comm", "irqbalance")
        self.assertEqual({}, self.run_json("status")["competing_daemons"])

    def test_a_strangers_process_with_the_name_of_a_daemon_is_no_suspect(self):
        """Its effective id is root's where it runs a set-user-ID program."""
        self.run_json("apply", "--from", self.some_plan())
        self.put(RPS, "3c")
        for pid, ids in (
            (4240, "65534\t0\t0\t0"),
            (4241, "65534\t65534\t65534\t65534"),
            (4242, "0\t0\t0\t0"),
        ):
            self.put(f"proc/{pid}/comm", "irqbalance")
            self.put(f"proc/{pid}/status", f"Name:\tirqbalance\nUid:\t{ids}")
        self.assertEqual({"irqbalance": 4242}, self.run_json("status")["competing_daemons"])

    def test_an_apply_that_was_cut(self):
        self.run_json("apply", "--from", self.some_plan())
        connection = sqlite3.connect(f"{self.state}/journal.sqlite")
        connection.execute(
            "UPDATE entry SET state = 'intended', written = NULL WHERE target = 'eth0/rx-0'"
        )
        connection.commit()
        connection.close()
        settings = self.run_json("status")["settings"]
        self.assertEqual(
            ["eth0/rx-0"], [setting["target"] for setting in settings if setting["interrupted"]]
        )

    def test_what_a_file_says_cannot_command_the_terminal(self):
        self.run_json("apply", "--from", self.some_plan())
        self.put(RPS, "\x1b[2J3c")
        out = self.shown("status")
        self.assertNotIn("\x1b", out)
        self.assertIn("?[2J3c", out)


class AgentTest(StateCase):
    """What is shown of the agent's state."""

    def test_a_state_that_no_agent_wrote(self):
        self.run_json("apply", "--from", self.some_plan())
        self.agent()
        path = self.run_dir / "agent.json"
        path.write_text(f'{{"schema": {agent_state.SCHEMA}, "updated_monotonic": null}}')
        (line,) = self.lines()
        self.assertIn(f"agent: its state cannot be read: {path}: ", line)
        document = self.run_json("status")
        self.assertEqual(4, len(document["settings"]))
        self.assertIsNone(document["agent"]["running"])
        self.assertIn(str(path), document["agent"]["unreadable"])
        self.assertEqual("unreadable_error", document["agent"]["unreadable_code"])

    def test_findings_are_sentences(self):
        codes = findings.AgentFindingCode
        known = [
            findings.AgentFinding(codes.COMPETING_DAEMON, "ksmtuned", pid=5751),
            findings.AgentFinding(codes.NOT_IN_FORCE, "EIO", "xps", "eth0/tx-0", "0f", "03"),
        ]
        self.agent(findings=[finding.as_json() for finding in known])
        daemon, other = self.lines()[2:4]
        self.assertEqual(
            "agent: ksmtuned (process 5751) runs and may change settings of kind memory", daemon
        )
        self.assertEqual("agent: xps eth0/tx-0: EIO, holds 03", other)

    def test_what_is_wrong_comes_before_the_rest(self):
        conflict = findings.AgentFinding(
            findings.AgentFindingCode.NOT_IN_FORCE, "EIO", "xps", "eth0/tx-0", "0f", "03"
        )
        self.agent(error="no permission", findings=[conflict.as_json()])
        _process, _due, error, finding, *rest = self.lines()
        self.assertEqual("agent: cannot work: no permission", error)
        self.assertIn("eth0/tx-0", finding)
        self.assertTrue(rest[-1].startswith("agent: nova.conf: "), rest)

    def test_a_directory_in_its_place(self):
        (self.run_dir / "agent.json").mkdir(parents=True)
        self.assertIn(
            f"cannot be read: {self.run_dir}/agent.json: Is a directory", self.lines()[0]
        )
