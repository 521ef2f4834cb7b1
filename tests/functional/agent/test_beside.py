# SPDX-License-Identifier: Apache-2.0
"""The agent and people's commands on one host: they take turns, neither takes the other's, nothing is lost."""

import json
import os
import pathlib
import random
import signal
import sqlite3
import subprocess
import sys
import time

from nova_perf_tuning.agent import state
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.transaction import journal
from tests.support import agent_process, patience, program, sysroots

_RULE = "numa-balancing-with-pinned-guests"
_BALANCING = "proc/sys/kernel/numa_balancing"
_XPS = "sys/class/net/eth0/queues/tx-1/xps_cpus"
#: Seconds for which both write.
_LOOP_S = 8.0
#: Applies a plan and restores it until it is killed.
_COMMANDS = """
import sys
from nova_perf_tuning.cli import main
root, rule, turns = sys.argv[1:]
while True:
    for words in (["apply", "--rule", rule], ["restore"]):
        code = main.main([*words, "--sysroot", root])
        if code:
            sys.exit(f"{words[0]} ended with {code}")
    with open(turns, "a") as file:
        file.write("x")
"""


class BesideCase(agent_process.AgentCase):
    def command(self, *words, code=0):
        """Run ``nova-perf`` and return its output and what it says on stderr."""
        done = patience.run([*program.COMMAND, *words, "--sysroot", self.root])
        self.assertEqual(code, done.returncode, done.stdout + done.stderr)
        return done.stdout, done.stderr

    def plan(self, *settings):
        path = self.directory / "plan.json"
        rows = [
            dict(zip(("kind", "target", "value", "rule"), setting, strict=True))
            for setting in settings
        ]
        for row in rows:
            if row["kind"] == "irq_affinity":
                row["identity"] = registry.kinds(self.root)["irq_affinity"].identity(row["target"])
        path.write_text(json.dumps({"settings": rows}))
        return str(path)

    def restored(self):
        """Restore what is left, and compare every byte."""
        self.command("restore")
        # A command that was killed in the middle of a write leaves its new file, which a kernel's /proc never has.
        content = {
            path: data for path, data in sysroots.content(self.root).items() if "/." not in path
        }
        self.assertEqual(self.before, content)
        with sysroots.open_journal(self.root, writer=False) as session:
            self.assertEqual([], session.entries())

    def hold(self):
        """Hold the journal's lock, as a command does."""
        return journal.Journal(
            journal.default_state_dir(self.root), self.root, writer=True, patience=60.0
        )

    def rounds(self, number):
        """Wait until the agent has made ``number`` more passes."""
        target = sum(self.status()["passes"].values()) + number
        for place in range(number * 3):
            if sum(self.status()["passes"].values()) >= target:
                return
            self.file("proc/irq/24/smp_affinity_list").write_text(f"0-{place % 7}\n")
            self.until(lambda: self.irq() == "4", "the interrupt is placed again")
        self.assertGreaterEqual(sum(self.status()["passes"].values()), target)


class BesideTest(BesideCase):
    def test_a_rule_applied_beside_it_stays_and_is_undone_by_its_restore(self):
        process = self.start(f"{agent_process.QUICK}rewrite_limit = 1000\n")
        self.command("apply", "--rule", _RULE)
        self.assertEqual("0", self.file(_BALANCING).read_text().strip())
        self.rounds(3)
        self.assertEqual("0", self.file(_BALANCING).read_text().strip())
        out, _err = self.command("restore")
        self.assertIn("1 setting: 1 restored", out)
        (line,) = [line for line in out.splitlines() if "nova-perf-agent" in line]
        self.assertIn(f"process {process.pid}", line)
        self.assertIn("systemctl stop", line)
        self.assertEqual(self.before[_BALANCING], self.file(_BALANCING).read_bytes())
        self.assertEqual("4", self.irq())
        self.assertEqual((0, ""), (self.end(process)[0], ""))
        self.restored()

    def test_all_safe_leaves_what_it_keeps_so_already(self):
        process = self.start()
        out, _err = self.command("apply", "--all-safe", "-f", "json")
        self.assertEqual(
            {"written": 1},
            {k: v for k, v in json.loads(out)["counts"].items() if k != "unchanged"},
        )
        self.end(process)
        self.restored()

    def test_what_it_keeps_is_refused_to_a_person(self):
        process = self.start()
        plan = self.plan(
            ("irq_affinity", "irq:24", "0", "mine"),
            ("irq_affinity", "irq:25", "2", "nic-irq-local"),
            ("rps", "eth0/rx-3", "0f", "mine"),
        )
        for more in ((), ("--dry-run",)):
            with self.subTest(more):
                out, _err = self.command("apply", "--from", plan, *more, code=1)
                lines = [
                    line
                    for line in out.splitlines()
                    if "owned" in line and str(process.pid) in line
                ]
                self.assertEqual(3, len(lines), out)
        self.assertEqual("4", self.irq())
        self.assertEqual(
            "00", self.file("sys/class/net/eth0/queues/rx-3/rps_cpus").read_text().strip()
        )
        self.end(process)
        self.restored()

    def test_what_the_agent_leaves_alone_is_a_persons(self):
        """It writes no mask of the kernel's own work, and puts back none that a person wrote."""
        process = self.start()
        mask = "proc/irq/default_smp_affinity"
        self.command("apply", "--rule", "new-irqs-on-dedicated")
        self.assertNotEqual(self.before[mask], self.file(mask).read_bytes())
        written = self.file(mask).read_bytes()
        os.kill(process.pid, signal.SIGHUP)
        self.until(lambda: self.status()["passes"].get("signal"), "the agent makes a pass")
        self.assertEqual(written, self.file(mask).read_bytes())
        self.end(process)
        self.restored()

    def test_what_a_person_applied_first_is_left_until_it_is_restored(self):
        self.command("apply", "--from", self.plan(("irq_affinity", "irq:24", "2", "mine")))
        process = self.start(f"{agent_process.QUICK}on_stop = restore\n")
        self.assertEqual("2", self.irq())
        (finding,) = self.status()["findings"]
        self.assertEqual(("applied_by_person", "irq:24"), (finding["code"], finding["target"]))
        self.assertIn("nova-perf restore", finding["text"])
        self.command("restore")
        self.until(lambda: self.irq() == "4", "the agent takes over what was given back")
        self.until(lambda: not self.status()["findings"], "no finding is left")
        code, err = self.end(process)
        self.assertEqual(0, code, err)
        self.assertEqual(self.before, sysroots.content(self.root))

    def test_a_stop_with_restore_leaves_what_a_person_applied(self):
        process = self.start(f"{agent_process.QUICK}on_stop = restore\n")
        self.command("apply", "--rule", _RULE)
        self.assertEqual(0, self.end(process)[0])
        self.assertEqual("0", self.file(_BALANCING).read_text().strip())
        self.restored()

    def test_it_waits_for_a_command_without_stopping_its_loop(self):
        process = self.start()
        with self.hold():
            self.file("proc/irq/24/smp_affinity_list").write_text("0-7\n")
            self.until(lambda: self.status()["skipped"] > 1, "passes are put off")
            self.until_told("WATCHDOG=1")
            self.assertEqual(("0-7", ""), (self.irq(), self.status()["error"]))
            out, _err = self.command("status")
            self.assertIn("passes postponed", out)
        self.until(lambda: self.irq() == "4", "the interrupt is placed again")
        _code, err = self.end(process)
        self.assertIn(f"process {os.getpid()} is changing this host", err)
        self.restored()

    def test_it_starts_while_a_command_is_at_work(self):
        with self.hold():
            process = self.start()
            self.assertNotEqual("4", self.irq())
        self.until(lambda: self.irq() == "4", "the interrupt is placed")
        self.end(process)
        self.restored()


class BothWriteTest(BesideCase):
    def test_both_write_and_are_killed_and_no_original_is_lost(self):
        turns = self.directory / "turns"
        turns.write_text("")
        chance = random.Random(7)
        end = time.monotonic() + _LOOP_S
        kills = written = 0
        while time.monotonic() < end or kills < 4:
            agent = self.start(f"{agent_process.QUICK}rewrite_limit = 1000\n")
            commands = subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    _COMMANDS,
                    self.root,
                    "numa-balancing-with-pinned-guests",
                    turns,
                ],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            self.addCleanup(self._kill, commands)
            stop = time.monotonic() + chance.uniform(1.0, 2.0)
            begun, latest = len(turns.read_text()), stop + 120.0
            while time.monotonic() < stop or (
                len(turns.read_text()) == begun and time.monotonic() < latest
            ):
                # Gives the agent something to write.
                self.file("proc/irq/25/smp_affinity_list").write_text("0-7\n")
                self.file(_XPS).write_text("ff\n")
                agent.send_signal(signal.SIGHUP)
                self.drain()
                time.sleep(chance.uniform(0.005, 0.05))
            for process in (agent, commands):
                with self.subTest(process):
                    self.assertIsNone(
                        process.poll(), process.stderr.read() if process.poll() is not None else ""
                    )
            for process in chance.sample((agent, commands), 2):
                process.send_signal(signal.SIGKILL)
                patience.finish(process)
            kills += 2
            written += sum(state.read(f"{self.root}/run/nova-perf-tuning").written.values())
            self._check_journal()
        self.assertGreater(written, 8 * kills / 2)
        self.assertGreaterEqual(len(turns.read_text()), kills / 2)
        self.command("restore", "--force")
        self._check_journal()
        self.restored()

    def _check_journal(self):
        path = pathlib.Path(journal.default_state_dir(self.root), journal.JOURNAL)
        with sqlite3.connect(path) as connection:
            self.assertEqual("ok", connection.execute("PRAGMA integrity_check").fetchone()[0])
        connection.close()
        with sysroots.open_journal(self.root, writer=False) as session:
            for entry in session.entries():
                if entry.kind == "sysctl" and entry.state != "held":
                    self.assertEqual("1", entry.original, entry)
