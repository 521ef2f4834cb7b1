# SPDX-License-Identifier: Apache-2.0
"""``nova-perf apply``."""

import errno
import json
import os
import pathlib
import shlex
import shutil

from nova_perf_tuning.host.kinds import config_file, irqbalance, registry
from nova_perf_tuning.host.transaction import journal, planfile
from tests.support import program, sysroots, transaction_case
from tests.support.transaction_case import RPS


class ApplyTest(transaction_case.TransactionCase):
    def test_dry_run_prints_the_exact_writes_and_changes_nothing(self):
        before = sysroots.content(self.root)
        out = self.shown("apply", "--from", self.some_plan(), "--dry-run")
        self.assertEqual(
            [
                f"echo 0f > {self.root}/sys/class/net/eth0/queues/tx-1/xps_cpus",
                f"echo f0 > {self.root}/sys/class/net/eth0/queues/tx-2/xps_cpus",
                f"echo 0f > {self.root}/sys/class/net/eth0/queues/rx-0/rps_cpus",
                f"echo 2 > {self.root}/proc/irq/24/smp_affinity_list",
                "# 4 settings: 4 to write; nothing was changed",
            ],
            out.splitlines(),
        )
        self.assertEqual(before, sysroots.content(self.root))
        self.assertFalse(os.path.exists(self.state))

    def test_apply_and_again(self):
        plan = self.some_plan()
        first = self.run_json("apply", "--from", plan)
        self.assertEqual({"written": 3, "pending": 1}, first["counts"])
        irq = next(setting for setting in first["settings"] if setting["kind"] == "irq_affinity")
        self.assertEqual(("0-7", "pending", "why"), (irq["previous"], irq["result"], irq["reason"]))
        after = sysroots.content(self.root)
        self.assertEqual({"unchanged": 4}, self.run_json("apply", "--from", plan)["counts"])
        self.assertEqual(after, sysroots.content(self.root))

    def test_it_names_the_command_that_undoes_it(self):
        before = sysroots.content(self.root)
        directory = os.path.join(self.root, "a state")
        out = self.shown("apply", "--from", self.some_plan(), "--state-dir", directory)
        words = shlex.split(out.splitlines()[-1].partition("undo it with: ")[2])
        self.assertEqual("nova-perf", words[0], out)
        self.assertEqual("4 settings: 4 restored\n", program.shown(self, *words[1:]))
        after = {path: text for path, text in sysroots.content(self.root).items() if "a state" not in str(path)}
        self.assertEqual(before, after)

    def test_the_computed_plan(self):
        before = sysroots.content(self.root)
        result = self.run_json("apply")
        self.assertGreater(sum(result["counts"].values()), 4)
        self.assertLessEqual(set(result["counts"]), {"written", "pending", "unchanged"})
        settings = self.run_json("plan")["settings"]
        self.assertTrue(all(setting["current"] == setting["value"] for setting in settings), settings)
        self.run_json("restore")
        self.assertEqual(before, sysroots.content(self.root))

    def test_one_bad_setting_hides_no_other(self):
        plan = self.plan(
            [
                {"kind": "rps", "target": "eth0/rx-0", "value": "0f"},
                {"kind": "rps", "target": "no-such-nic/rx-0", "value": "0f"},
                {"kind": "irq_affinity", "target": "irq:24", "value": "1", "identity": "0000:00:00.0|other"},
                {"kind": "thread_affinity", "target": "tid:10001", "value": "1", "identity": "10000:20000"},
                {"kind": "irq_affinity", "target": "irq:25", "value": "1-", "identity": ""},
            ]
        )
        result = self.run_json("apply", "--from", plan, code=1)
        self.assertEqual({"written": 1, "pending": 1, "stale": 2, "unsupported": 1}, result["counts"])
        self.assertEqual("0f", self.held(RPS))
        self.assertIn("no-such-nic", self.shown("apply", "--from", plan, code=1))


class PlanFileTest(transaction_case.TransactionCase):
    def _text(self, text):
        path = pathlib.Path(self.root, "hostile.json")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def test_hostile_plans_are_refused_and_touch_nothing(self):
        good = {"kind": "rps", "target": "eth0/rx-0", "value": "0f"}
        before = sysroots.content(self.root)
        for text in ("", "[]", "null", '{"settings": {}}', "[" * 100_000, b"\xff\xfe\x00"):
            self.refused("apply", "--from", self._text(text))
        for change in (
            {"value": 9},
            {"value": ""},
            {"value": "0f\n"},
            {"value": "0; reboot"},
            {"target": "eth0/../.."},
            {"target": "eth0/tx-0"},
            {"target": "eth0\x1b[2J"},
            {"reason": "\x1b]0;title\x07"},
            {"reason": "\ud800"},
            {"kind": None},
            {"kind": "thread_affinity", "target": "tid:../1"},
        ):
            self.refused("apply", "--from", self._text(json.dumps({"settings": [good, good | change]})))
        self.refused("apply", "--from", self._text(json.dumps({"settings": [good, 1]})))
        two = json.dumps({"settings": [good, good | {"value": "01"}]})
        self.refused("apply", "--from", self._text(two), words=("two values",))
        self.assertEqual(before, sysroots.content(self.root))

    def test_only_kinds_that_the_planner_makes_are_taken(self):
        """What others write, such as files of modprobe.d, runs as root; who makes a plan need not be root."""
        for kind in set(registry.kinds("/")) - set(planfile.FORMS) | {"nothing"}:
            setting = {"kind": kind, "target": "x", "value": "y"}
            words = (kind, "not taken from a file")
            self.refused("apply", "--from", self._text(json.dumps({"settings": [setting]})), words=words)
        planned = self.run_json("plan")["settings"]
        self.assertLessEqual({setting["kind"] for setting in planned}, set(planfile.FORMS))
        settings = planfile.load(self.plan(planned))
        self.assertEqual(len(planned), len(settings))
        self.assertEqual(set(), {setting.rule for setting in settings} & journal.AGENT_RULES, "it is the person's")


class OptionsTest(transaction_case.TransactionCase):
    def test_unusable_directories_are_refused(self):
        plan = self.some_plan()
        self.refused("apply", "--from", plan, "--sysroot", "/no/such/root", sysroot=False)
        self.refused("apply", "--from", plan, "--sysroot", plan, sysroot=False)
        self.refused("apply", "--from", plan, "--state-dir", plan, words=("--state-dir",))
        self.refused("apply", "--from", plan, "--state-dir", "/proc/nova", words=("/proc/nova",))


class StrangersSysrootTest(transaction_case.TransactionCase):
    """A recorded host is a stranger's: nothing is written through its links, nor by root to another user's."""

    def test_a_journal_behind_a_link(self):
        outside = sysroots.make_host(self)
        before = os.listdir(outside)
        os.makedirs(self.state)
        for link, target in (("journal.sqlite", "x"), ("journal.sqlite-wal", "x"), ("", ""), ("..", "")):
            path = os.path.normpath(os.path.join(self.state, link))
            shutil.rmtree(path, ignore_errors=True)
            os.symlink(os.path.join(outside, target), path)
            for command in (("apply", "--from", self.some_plan()), ("restore",)):
                self.refused(*command, words=("leads out of",))
            os.unlink(path)
            os.makedirs(self.state, exist_ok=True)
        self.assertEqual(before, os.listdir(outside))

    def test_files_behind_a_link(self):
        outside = sysroots.make_host(self)
        for name in ("etc", "run"):
            shutil.rmtree(os.path.join(self.root, name), ignore_errors=True)
            os.symlink(outside, os.path.join(self.root, name))
        os.makedirs(os.path.join(outside, "sysctl.d"))
        kind = config_file.ConfigFile(self.root)
        error = self.assertRaises(OSError, kind.write, "etc/sysctl.d/90-nova-perf-tuning.conf", '"x"')
        self.assertEqual(errno.ELOOP, error.errno)
        self.assertRaises(OSError, irqbalance.IrqbalanceBan(self.root).write, irqbalance.TARGET, "1")
        self.assertEqual([], os.listdir(os.path.join(outside, "sysctl.d")))
