"""``nova-perf apply``."""

import json
import os
import pathlib
import shlex

from tests.hosts import sysroots
from tests.unit.cli import transaction_case


class ApplyTest(transaction_case.TransactionCase):
    def test_dry_run_prints_the_exact_writes_and_changes_nothing(self):
        before = sysroots.content(self.root)
        code, out, err = self.run_command("apply", "--from", self.some_plan(), "--dry-run")
        self.assertEqual((0, ""), (code, err))
        self.assertEqual(
            [
                f"echo 9000 > {self.root}/sys/class/net/eth0/mtu",
                f"echo 300000 > {self.root}/proc/sys/net/core/rmem_max",
                f"echo 0f > {self.root}/sys/class/net/eth0/queues/tx-1/xps_cpus",
                f"echo 2 > {self.root}/proc/irq/24/smp_affinity_list",
                "# 4 settings: 4 to write; nothing was changed",
            ],
            out.splitlines(),
        )
        self.assertEqual(before, sysroots.content(self.root))
        self.assertFalse(os.path.exists(self.state))

    def test_the_lines_of_a_dry_run_do_what_apply_does(self):
        other = sysroots.make_host(self)
        plan = self.some_plan()
        for line in self.run_json("apply", "--from", plan, "--dry-run")["writes"]:
            word, value, arrow, path = line.split()
            self.assertEqual(("echo", ">"), (word, arrow))
            pathlib.Path(path.replace(self.root, other)).write_text(f"{value}\n")
        self.run_json("apply", "--from", plan)
        self.assertEqual(sysroots.content(other), sysroots.content(self.root))

    def test_apply_and_again(self):
        plan = self.some_plan()
        first = self.run_json("apply", "--from", plan)
        self.assertEqual({"written": 3, "pending": 1}, first["counts"])
        irq = next(one for one in first["settings"] if one["kind"] == "irq_affinity")
        self.assertEqual(("0-7", "pending", "why"), (irq["previous"], irq["result"], irq["reason"]))
        after = sysroots.content(self.root)
        self.assertEqual({"unchanged": 4}, self.run_json("apply", "--from", plan)["counts"])
        self.assertEqual(after, sysroots.content(self.root))

    def test_it_names_the_command_that_undoes_it(self):
        before = sysroots.content(self.root)
        folder = os.path.join(self.root, "a state")
        code, out, err = self.run_command("apply", "--from", self.some_plan(), "--state-dir", folder)
        self.assertEqual((0, ""), (code, err))
        words = shlex.split(out.splitlines()[-1].partition("undo it with: ")[2])
        self.assertEqual("nova-perf", words[0], out)
        code, out, err = self.run_command(*words[1:], sysroot=False)
        self.assertEqual((0, ""), (code, err))
        self.assertEqual("4 settings: 4 restored\n", out)
        after = {path: text for path, text in sysroots.content(self.root).items() if "a state" not in str(path)}
        self.assertEqual(before, after)

    def test_the_computed_plan(self):
        before = sysroots.content(self.root)
        result = self.run_json("apply")
        self.assertGreater(sum(result["counts"].values()), 4)
        self.assertLessEqual(set(result["counts"]), {"written", "pending", "unchanged"})
        code, out, err = self.run_command("plan", "-f", "json")
        self.assertEqual((0, ""), (code, err))
        self.assertTrue(all(one["current"] == one["value"] for one in json.loads(out)["settings"]), out)
        self.run_json("restore")
        self.assertEqual(before, sysroots.content(self.root))

    def test_one_bad_setting_hides_no_other(self):
        plan = self.plan(
            [
                {"kind": "mtu", "target": "eth0", "value": "9000"},
                {"kind": "mtu", "target": "no-such-nic", "value": "9000"},
                {"kind": "irq_affinity", "target": "irq:../../x", "value": "1"},
                {"kind": "xps", "target": "eth0/../..", "value": "1"},
                {"kind": "sysctl", "target": "kernel.core_pattern", "value": "1"},
                {"kind": "irq_affinity", "target": "irq:24", "value": "1", "identity": "0000:00:00.0|other"},
                {"kind": "thread_affinity", "target": "tid:10001", "value": "1"},
                {"kind": "ring", "target": "eth0/rx", "value": "1024"},
            ]
        )
        result = self.run_json("apply", "--from", plan, code=1)
        self.assertEqual({"written": 1, "stale": 3, "unsupported": 1, "failed": 3}, result["counts"])
        self.assertEqual("9000", pathlib.Path(self.root, "sys/class/net/eth0/mtu").read_text().strip())
        code, out, _err = self.run_command("apply", "--from", plan)
        self.assertEqual(1, code)
        self.assertIn("irq:../../x", out)


class PlanFileTest(transaction_case.TransactionCase):
    def _text(self, text):
        path = pathlib.Path(self.root, "hostile.json")
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return str(path)

    def test_hostile_plans_are_refused_and_touch_nothing(self):
        good = {"kind": "mtu", "target": "eth0", "value": "9000"}
        before = sysroots.content(self.root)
        for text in (
            "",
            "{}",
            "[]",
            "null",
            '{"settings": {}}',
            '{"settings": [1]}',
            '{"settings": [{"kind": "mtu"}]}',
            "[" * 100_000,
            '{"settings": ' + "9" * 10_000 + "}",
            b"\xff\xfe\x00",
            b"\0" * 100,
            json.dumps({"settings": [good | {"value": 9000}]}),
            json.dumps({"settings": [good | {"value": ""}]}),
            json.dumps({"settings": [good | {"value": "9000\n"}]}),
            json.dumps({"settings": [good | {"target": "eth0\x1b[2J"}]}),
            json.dumps({"settings": [good | {"reason": "\x1b]0;title\x07"}]}),
            json.dumps({"settings": [good | {"kind": "../mtu"}]}),
            json.dumps({"settings": [good | {"target": "x" * 10_000}]}),
            json.dumps({"settings": [good | {"kind": "os_system"}]}),
            json.dumps({"settings": [good, good | {"value": "1400"}]}),
        ):
            self.refused("apply", "--from", self._text(text))
        self.assertEqual(before, sysroots.content(self.root))

    def test_files_that_cannot_be_read(self):
        persisted = {
            "kind": "config_file",
            "target": "modprobe.d/nova-perf.conf",
            "value": "install x /bin/sh",
        }
        text = json.dumps({"settings": [persisted]})
        self.refused("apply", "--from", self._text(text), words=("config_file", "not taken from a file"))
        self.refused("apply", "--from", "/no/such/file", words=("/no/such/file", "No such file"))
        self.refused("apply", "--from", self.root, words=(self.root,))
        fifo = os.path.join(self.root, "fifo")
        os.mkfifo(fifo)
        self.refused("apply", "--from", fifo, words=(fifo,))
        self.refused("apply", "--from", "a\0b")

    def test_a_setting_is_refused_before_anything_is_written(self):
        plan = self.plan(
            [{"kind": "mtu", "target": "eth0", "value": "9000"}, {"kind": "nothing", "target": "x", "value": "y"}]
        )
        self.refused("apply", "--from", plan, words=("nothing", "known: "))
        self.assertEqual("1500", pathlib.Path(self.root, "sys/class/net/eth0/mtu").read_text().strip())


class OptionsTest(transaction_case.TransactionCase):
    def test_wrong_places(self):
        plan = self.some_plan()
        self.refused("apply", "--from", plan, "--sysroot", "/no/such/root", sysroot=False)
        self.refused("apply", "--from", plan, "--sysroot", plan, sysroot=False)
        self.refused("apply", "--from", plan, "--state-dir", plan, words=("--state-dir",))
        self.refused("apply", "--from", plan, "--state-dir", "/proc/nova", words=("/proc/nova",))
        self.refused("apply", "--from", plan, "--config-file", "/no/such.conf", words=("/no/such.conf",))

    def test_state_dir_of_flag_and_configuration(self):
        plan = self.some_plan()
        config = pathlib.Path(self.root, "perf.conf")
        config.write_text(f"[nova_perf_tuning]\nstate_dir = {self.root}/conf-state\n")
        self.run_json("apply", "--from", plan, "--config-file", str(config))
        self.assertTrue(os.path.exists(f"{self.root}/conf-state/journal.sqlite"))
        self.assertEqual({}, self.run_json("verify")["counts"])
        self.assertEqual(
            {"holds": 3, "pending": 1}, self.run_json("verify", "--config-file", str(config))["counts"]
        )
        arguments = ("--config-file", str(config), "--state-dir", f"{self.root}/flag-state")
        self.assertEqual({"unchanged": 4}, self.run_json("apply", "--from", plan, *arguments)["counts"])
        self.assertTrue(os.path.exists(f"{self.root}/flag-state/journal.sqlite"))

    def test_a_configuration_that_is_wrong(self):
        config = pathlib.Path(self.root, "perf.conf")
        for text in (
            "[nova_perf_tuning]\nlock_timeout = soon\n",
            "no section",
            "[nova_perf_tuning]\nlock_timeout=-1",
        ):
            config.write_text(text)
            self.refused("status", "--config-file", str(config), words=(str(config),))

    def test_a_waiting_time_that_is_none(self):
        for text in ("nan", "inf", "-1", "soon"):
            self.refused("status", f"--lock-timeout={text}", words=("--lock-timeout",))
