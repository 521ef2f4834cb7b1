# SPDX-License-Identifier: Apache-2.0
"""``nova-perf apply``."""

import errno
import io
import json
import os
import pathlib
import shlex
import shutil
from unittest import mock

from nova_perf_tuning.cli import apply
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.kinds import config_file, irqbalance, registry
from nova_perf_tuning.host.transaction import journal, planfile, refusals
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
        self.assertEqual(
            ("0-7", "pending", "why"), (irq["previous"], irq["result"], irq["reason"])
        )
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
        after = {
            path: text
            for path, text in sysroots.content(self.root).items()
            if "a state" not in str(path)
        }
        self.assertEqual(before, after)

    def test_it_says_that_settings_were_written_where_it_can_print_nothing(self):
        """Python has no stdout where the caller has closed it."""
        command = apply.Apply(None, None)
        parser = command.get_parser("nova-perf apply")
        for form in ("table", "json"):
            with self.subTest(form):
                before = self.held(RPS)
                words = ["--from", self.some_plan(), "--sysroot", self.root, "-f", form]
                stderr = io.StringIO()
                with mock.patch.multiple("sys", stdout=None, stderr=stderr):
                    code = command.run(parser.parse_args(words))
                self.assertEqual(3, code, stderr.getvalue())
                first = stderr.getvalue().splitlines()[0]
                self.assertIn(
                    "settings were written, the output was not; undo them with: nova-perf", first
                )
                self.assertNotEqual(before, self.held(RPS))
                self.run_json("restore")

    def test_any_error_after_the_first_write_says_that_settings_were_written(self):
        with mock.patch.object(refusals.RefusalMemory, "learn", side_effect=ValueError("x")):
            done = program.nova_perf("apply", "--sysroot", self.root)
        self.assertEqual(3, done.returncode)
        self.assertIn(
            "settings were written before this error; undo them with: nova-perf restore",
            done.stderr,
        )

    def test_the_computed_plan(self):
        before = sysroots.content(self.root)
        result = self.run_json("apply")
        self.assertGreater(sum(result["counts"].values()), 4)
        self.assertLessEqual(set(result["counts"]), {"written", "pending", "unchanged"})
        settings = self.run_json("plan")["settings"]
        self.assertTrue(
            all(setting["current"] == setting["value"] for setting in settings), settings
        )
        self.run_json("restore")
        self.assertEqual(before, sysroots.content(self.root))

    def test_one_bad_setting_hides_no_other(self):
        plan = self.plan(
            [
                {"kind": "rps", "target": "eth0/rx-0", "value": "0f"},
                {"kind": "rps", "target": "no-such-nic/rx-0", "value": "0f"},
                {
                    "kind": "irq_affinity",
                    "target": "irq:24",
                    "value": "1",
                    "identity": "0000:00:00.0|other",
                },
                {
                    "kind": "thread_affinity",
                    "target": "tid:10001",
                    "value": "1",
                    "identity": "10000:20000",
                },
                {"kind": "irq_affinity", "target": "irq:25", "value": "1-", "identity": ""},
            ]
        )
        result = self.run_json("apply", "--from", plan, code=1)
        self.assertEqual(
            {"written": 1, "pending": 1, "stale": 2, "unsupported": 1}, result["counts"]
        )
        self.assertEqual("0f", self.held(RPS))
        self.assertIn("no-such-nic", self.shown("apply", "--from", plan, code=1))


class RefusedInterruptTest(transaction_case.TransactionCase):
    """Where the kernel refuses to move an interrupt, apply plans again."""

    def setUp(self):
        super().setUp()
        self.attempts = []
        self.full, self.managed = set(), set()
        self.write = privileged.write
        self.patch(privileged, "write", self._write)
        self.irqs = self._planned()

    def _planned(self):
        settings = self.run_json("plan")["settings"]
        return {one["target"]: one["value"] for one in settings if one["kind"] == "irq_affinity"}

    def _write(self, root, path, value):
        if path.endswith("/smp_affinity_list"):
            number = path.split("/")[3]
            self.attempts.append((number, value))
            if number in self.managed:
                raise OSError(errno.EPERM, os.strerror(errno.EPERM))
            if value in self.full:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.write(root, path, value)

    def _held_irqs(self):
        return {
            target: self.held(f"proc/irq/{target[4:]}/smp_affinity_list") for target in self.irqs
        }

    def test_another_cpu_is_taken_and_kept(self):
        before = sysroots.content(self.root)
        self.full = {min(self.irqs.values())}
        first = self.run_json("apply")
        self.assertLessEqual(set(first["counts"]), {"written", "pending", "unchanged"})
        codes = [note["code"] for note in first["notes"]]
        self.assertIn("vectors_full", codes)
        held = self._held_irqs()
        self.assertEqual(held, self._planned(), "plan asks for nothing that was refused")
        self.assertEqual(set(), self.full & set(held.values()))
        self.attempts.clear()
        self.assertEqual({"unchanged"}, set(self.run_json("apply")["counts"]))
        self.assertEqual([], self.attempts)
        self.assertLessEqual(set(self.run_json("verify")["counts"]), {"holds", "pending"})
        self.run_json("restore")
        after = {
            path: text
            for path, text in sysroots.content(self.root).items()
            if "refused.json" not in str(path)
        }
        self.assertEqual(before, after)

    def test_what_a_rule_proposes(self):
        rule = ("apply", "--rule", "nic-irq-on-dedicated")
        proposed = self.run_json(*rule, "--dry-run")["writes"]
        self.full = {proposed[0].split()[1]}
        first = self.run_json(*rule)
        self.assertLessEqual(set(first["counts"]), {"written", "pending"})
        self.assertEqual(len(proposed), len(first["settings"]))
        self.assertEqual(set(), self.full & set(self._held_irqs().values()))

    def test_a_managed_interrupt_is_left_alone(self):
        target = min(self.irqs)
        self.managed = {target[4:]}
        before = self._held_irqs()[target]
        first = self.run_json("apply")
        self.assertNotIn(target, {one["target"] for one in first["settings"]})
        self.assertIn("interrupts_managed", [note["code"] for note in first["notes"]])
        self.assertEqual(before, self._held_irqs()[target])
        self.assertNotIn(target, self._planned())
        self.attempts.clear()
        self.run_json("apply")
        self.assertEqual([], self.attempts)

    def test_a_rule_says_what_is_left_alone(self):
        self.managed = {target[4:] for target in self.irqs}
        done = self.run_json("apply", "--rule", "nic-irq-on-dedicated")
        self.assertEqual([], done["settings"])
        self.assertIn("interrupts_managed", [note["code"] for note in done["notes"]])

    def test_a_kernel_that_takes_nothing_is_a_fault(self):
        def refuse(_root, _path, _value):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS))

        self.patch(privileged, "write", refuse)
        counts = self.run_json("apply", code=1)["counts"]
        self.assertLessEqual(len(self.irqs), counts["failed"])

    def test_no_rule_asks_for_what_was_refused(self):
        audit = ("audit", "--rule", "nic-irq-remote-node", "--rule", "nic-irq-on-dedicated")
        self.assertNotEqual([], self.run_json(*audit, code=1)["findings"])
        self.managed = {target[4:] for target in self.irqs}
        self.run_json("apply")
        self.assertEqual([], self.run_json(*audit)["findings"])


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
            {"target": "eth0\u3000/rx-0"},
            {"reason": 1},
            {"reason": "\ud800"},
            {"kind": None},
            {"kind": "thread_affinity", "target": "tid:../1"},
        ):
            self.refused(
                "apply", "--from", self._text(json.dumps({"settings": [good, good | change]}))
            )
        irq = {"kind": "irq_affinity", "target": "irq:24", "value": "0"}
        thread = {"kind": "thread_affinity", "target": "tid:10001", "value": "0"}
        for setting in (
            irq | {"identity": "|../../../tmp/d"},
            irq | {"identity": "|.."},
            irq | {"identity": "|."},
            irq | {"identity": "../..|x"},
            irq | {"identity": "9:9"},
            thread | {"identity": "10000:x"},
            thread | {"identity": "../1:1"},
            good | {"identity": "x"},
        ):
            words = (setting["kind"], "identity")
            self.refused(
                "apply", "--from", self._text(json.dumps({"settings": [setting]})), words=words
            )
        self.refused("apply", "--from", self._text(json.dumps({"settings": [good, 1]})))
        two = json.dumps({"settings": [good, good | {"value": "01"}]})
        self.refused("apply", "--from", self._text(two), words=("two values",))
        self.assertEqual(before, sysroots.content(self.root))

    def test_every_name_that_facts_know_can_be_written(self):
        """One pattern for readers and writers: else one device costs the whole plan."""
        net = next(pathlib.Path(self.root).glob("sys/devices/pci*/*/net/*"), None) or next(
            pathlib.Path(self.root).glob("sys/devices/pci*/*/*/net/*")
        )
        link = pathlib.Path(self.root, "sys/class/net", net.name)
        for name in ("eth0+1", "a_b.c@d-e"):
            with self.subTest(name):
                target = os.readlink(link)
                link.unlink()
                net = net.rename(net.with_name(name))
                link = link.with_name(name)
                link.symlink_to(os.path.join(os.path.dirname(target), name))
                settings = self.run_json("plan")["settings"]
                self.assertIn(name, {each["target"].partition("/")[0] for each in settings})
                self.assertEqual(len(settings), len(planfile.load(self.plan(settings))))

    def test_words_of_tenants_are_shown_as_text(self):
        """A reason names a guest, and Nova takes spaces of every script in a name of an instance."""
        settings = self.run_json("plan")["settings"]
        for words, shown in {
            "web\u3000server": "web server",
            "web\u00a0server": "web server",
            "\x1b]0;title\x07": "?]0;title?",
            "web\u202eserver": "web?server",
        }.items():
            with self.subTest(words):
                plan = json.dumps({"settings": [settings[0] | {"reason": f"{words} asks"}]})
                [setting] = planfile.load(self._text(plan))
                self.assertEqual(f"{shown} asks", setting.reason)

    def test_only_kinds_that_the_planner_makes_are_taken(self):
        """What others write, such as files of modprobe.d, runs as root; who makes a plan need not be root."""
        for kind in set(registry.kinds("/")) - set(planfile.FORMS) | {"nothing"}:
            setting = {"kind": kind, "target": "x", "value": "y"}
            words = (kind, "not taken from a file")
            self.refused(
                "apply", "--from", self._text(json.dumps({"settings": [setting]})), words=words
            )
        planned = self.run_json("plan")["settings"]
        self.assertLessEqual({setting["kind"] for setting in planned}, set(planfile.FORMS))
        settings = planfile.load(self.plan(planned))
        self.assertEqual(len(planned), len(settings))
        self.assertEqual(
            set(),
            {setting.rule for setting in settings} & journal.AGENT_RULES,
            "it is the person's",
        )


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
        for link, target in (
            ("journal.sqlite", "x"),
            ("journal.sqlite-wal", "x"),
            ("", ""),
            ("..", ""),
        ):
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
        error = self.assertRaises(
            OSError, kind.write, "etc/sysctl.d/90-nova-perf-tuning.conf", '"x"'
        )
        self.assertEqual(errno.ELOOP, error.errno)
        self.assertRaises(
            OSError, irqbalance.IrqbalanceBan(self.root).write, irqbalance.TARGET, "1"
        )
        self.assertEqual([], os.listdir(os.path.join(outside, "sysctl.d")))
