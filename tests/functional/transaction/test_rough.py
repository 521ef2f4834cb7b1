# SPDX-License-Identifier: Apache-2.0
"""Rough treatment: no permission, full and read-only disks, two at once, kills, refusals of a real kernel."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

from nova_perf_tuning.host.transaction import planfile
from tests.support import live_objects, machine_masks, patience, program, sysroots, testcase

TOP = pathlib.Path(__file__).parents[3]
#: May read everything, as the tree under test may lie in root's home; may write nothing.
READER = "+dac_read_search"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NOBODY += (f"--inh-caps={READER}", f"--ambient-caps={READER}")


class RoughCase(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.before = sysroots.content(self.root)
        self.directory = self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-rough-"))
        os.chmod(self.directory, 0o755)
        self.plan = os.path.join(self.directory, "plan.json")
        self.write_plan(self.settings())

    def settings(self):
        """Return six settings that a plan file may hold, none of which holds."""
        return [
            vars_of(setting)
            for setting in sysroots.settings(self.root)
            if setting.kind in planfile.FORMS
        ]

    def write_plan(self, settings):
        pathlib.Path(self.plan).write_text(json.dumps({"settings": settings}))

    def run_command(self, *arguments, before=(), sysroot=True):
        """Run ``nova-perf ARGUMENTS`` as a process of its own."""
        where = ["--sysroot", self.root] if sysroot else []
        return patience.run([*before, *program.COMMAND, *arguments, *where], cwd=TOP)

    def refused(self, run, *words):
        """Check that a command ended with one line and exit code 3, and that the host is as it was."""
        self.assertEqual(
            (3, "", 1), (run.returncode, run.stdout, run.stderr.count("\n")), run.stderr
        )
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertEqual(self.before, sysroots.content(self.root))

    def restore(self):
        run = self.run_command("restore")
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        after = {
            path: data
            for path, data in sysroots.content(self.root).items()
            if not path.endswith(".new")
        }
        self.assertEqual(self.before, after)


def vars_of(setting):
    """Return a setting as the plan file has it."""
    return {
        name: getattr(setting, name)
        for name in ("kind", "target", "value", "reason", "rule", "identity")
    }


class PermissionTest(RoughCase):
    def test_an_ordinary_user_is_refused(self):
        live_plan = ("--from", self.plan, "--state-dir", os.path.join(self.directory, "state"))
        self.refused(
            self.run_command("apply", *live_plan, before=NOBODY, sysroot=False), "needs root"
        )
        self.refused(self.run_command("restore", before=NOBODY, sysroot=False), "needs root")
        self.refused(
            self.run_command("apply", "--from", self.plan, before=NOBODY),
            "you may not write to this sysroot",
        )
        self.assertFalse(os.path.exists(os.path.join(self.directory, "state")))

    def test_the_journal_is_not_for_nobody(self):
        self.assertEqual(0, self.run_command("apply", "--from", self.plan).returncode)
        run = self.run_command("verify", before=NOBODY)
        self.assertEqual(
            (3, "", 1), (run.returncode, run.stdout, run.stderr.count("\n")), run.stderr
        )
        self.assertIn("only its owner (root) may read it: run this as root", run.stderr)
        run = self.run_command("status", before=NOBODY)
        self.assertEqual((2, ""), (run.returncode, run.stderr), run.stdout)
        self.assertIn("only its owner (root) may read it: run this as root", run.stdout)
        self.assertIn("agent: not running", run.stdout)
        self.restore()

    def test_dry_run_is_for_everybody(self):
        os.chmod(os.path.dirname(self.root), 0o755)
        run = self.run_command("apply", "--from", self.plan, "--dry-run", before=NOBODY)
        self.assertEqual((0, 7), (run.returncode, run.stdout.count("echo ")), run.stderr)


class SignalTest(RoughCase):
    PROGRAM = """
import os, sys
from nova_perf_tuning.cli import main
from nova_perf_tuning.host import privileged
number, writes = int(sys.argv[1]), int(sys.argv[2])
write = privileged.write
def counted(*arguments):
    global writes
    write(*arguments)
    writes -= 1
    if not writes:
        os.kill(os.getpid(), number)
privileged.write = counted
sys.exit(main.main(sys.argv[3:]))
"""

    def test_restore_undoes_what_was_begun(self):
        """A Python process runs each command and gets the signal at its nth write."""
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, -signal.SIGTERM)):
            with self.subTest(number):
                for command in (("apply", "--from", self.plan), ("restore",)):
                    program = [sys.executable, "-c", self.PROGRAM, str(int(number)), "3", *command]
                    run = patience.run([*program, "--sysroot", self.root], cwd=TOP)
                    self.assertEqual((code, ""), (run.returncode, run.stdout), run.stderr)
                    self.assertNotEqual(self.before, sysroots.content(self.root))
                    if command[0] == "apply":
                        self.assertEqual(
                            0, self.run_command("apply", "--from", self.plan).returncode
                        )
                self.restore()


class OutputTest(RoughCase):
    def test_full_output_is_not_taken_for_a_refusal(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            command = [*program.COMMAND, "apply", "--from", self.plan, "--sysroot", self.root]
            run = subprocess.run(
                command, cwd=TOP, stdout=full, stderr=subprocess.PIPE, text=True, check=False
            )
        self.assertEqual(3, run.returncode)
        self.assertIn("the output was not; undo them with: nova-perf restore ", run.stderr)
        self.assertNotEqual(self.before, sysroots.content(self.root))
        self.restore()


class KernelTest(RoughCase):
    """What this machine's kernel says to writes that it refuses."""

    def test_an_interrupt_that_refuses(self):
        self.enterContext(machine_masks.reserved())
        number = live_objects.idle_interrupt()
        path = pathlib.Path(f"/proc/irq/{number}/smp_affinity_list")
        before = path.read_text()
        self.addCleanup(path.write_text, before)
        self.write_plan(
            [
                {"kind": "irq_affinity", "target": f"irq:{number}", "value": "60000"},
                {"kind": "irq_affinity", "target": "irq:9999998", "value": "0"},
                {"kind": "thread_affinity", "target": f"tid:{os.getpid()}", "value": "0"},
            ]
        )
        run = self.run_command(
            "apply",
            "--from",
            self.plan,
            "--state-dir",
            f"{self.directory}/state",
            "-f",
            "json",
            sysroot=False,
        )
        self.assertEqual((1, ""), (run.returncode, run.stderr))
        by_target = {setting["target"]: setting for setting in json.loads(run.stdout)["settings"]}
        refused = by_target[f"irq:{number}"]
        self.assertEqual(("failed", "transient"), (refused["result"], refused["class"]))
        self.assertRegex(refused["detail"], re.compile("range|too large|Invalid", re.IGNORECASE))
        self.assertEqual("stale", by_target["irq:9999998"]["result"])
        self.assertEqual("stale", by_target[f"tid:{os.getpid()}"]["result"])
        self.assertEqual(before, path.read_text())
        run = self.run_command(
            "verify", "--state-dir", f"{self.directory}/state", "-f", "json", sysroot=False
        )
        self.assertEqual([], json.loads(run.stdout)["settings"])
