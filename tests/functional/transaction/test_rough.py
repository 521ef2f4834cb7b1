"""Rough treatment: no permission, full and read-only disks, two at once, kills, refusals of a real kernel."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile

import testtools

from nova_perf_tuning.host.transaction import planfile
from tests.functional.transaction import live
from tests.support import patience, sysroots

TOP = pathlib.Path(__file__).parents[3]
COMMAND = (sys.executable, "-m", "nova_perf_tuning.cli.main")
#: May read everything, as the tree under test may lie in root's home; may write nothing.
READER = "+dac_read_search"
NOBODY = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
NOBODY += (f"--inh-caps={READER}", f"--ambient-caps={READER}")


class RoughCase(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.before = sysroots.content(self.root)
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-rough-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        os.chmod(self.folder, 0o755)
        self.plan = os.path.join(self.folder, "plan.json")
        self.write_plan(self.settings())

    def settings(self):
        """Return six settings that a plan file may hold, none of which holds."""
        return [vars_of(one) for one in sysroots.settings(self.root) if one.kind in planfile.FORMS]

    def write_plan(self, settings):
        pathlib.Path(self.plan).write_text(json.dumps({"settings": settings}))

    def run_command(self, *arguments, before=(), sysroot=True):
        """Run ``nova-perf ARGUMENTS`` as a process of its own."""
        where = ["--sysroot", self.root] if sysroot else []
        command = [*before, *COMMAND, *arguments, *where]
        return patience.run(command, cwd=TOP)

    def refused(self, run, *words):
        """Check that a command ended with one line and exit code 3, and that the host is as it was."""
        self.assertEqual((3, "", 1), (run.returncode, run.stdout, run.stderr.count("\n")), run.stderr)
        for word in words:
            self.assertIn(word, run.stderr)
        self.assertEqual(self.before, sysroots.content(self.root))

    def restore(self):
        run = self.run_command("restore")
        self.assertEqual(0, run.returncode, run.stdout + run.stderr)
        after = {path: data for path, data in sysroots.content(self.root).items() if not path.endswith(".new")}
        self.assertEqual(self.before, after)


def vars_of(one):
    """Return a setting as the plan file has it."""
    return {name: getattr(one, name) for name in ("kind", "target", "value", "reason", "rule", "identity")}


class PermissionTest(RoughCase):
    def test_nobody(self):
        live_plan = ("--from", self.plan, "--state-dir", os.path.join(self.folder, "state"))
        self.refused(self.run_command("apply", *live_plan, before=NOBODY, sysroot=False), "needs root")
        self.refused(self.run_command("restore", before=NOBODY, sysroot=False), "needs root")
        self.refused(self.run_command("apply", "--from", self.plan, before=NOBODY), "may not be written by you")
        self.assertFalse(os.path.exists(os.path.join(self.folder, "state")))

    def test_the_journal_is_not_for_nobody(self):
        self.assertEqual(0, self.run_command("apply", "--from", self.plan).returncode)
        run = self.run_command("verify", before=NOBODY)
        self.assertEqual((3, "", 1), (run.returncode, run.stdout, run.stderr.count("\n")), run.stderr)
        self.assertIn("only its owner (root) may read it: run this as root", run.stderr)
        run = self.run_command("status", before=NOBODY)
        self.assertEqual((2, ""), (run.returncode, run.stderr), run.stdout)
        self.assertIn("only its owner (root) may read it: run this as root", run.stdout)
        self.assertIn("agent: not running", run.stdout)
        self.restore()

    def test_dry_run_is_for_everybody(self):
        os.chmod(os.path.dirname(self.root), 0o755)
        run = self.run_command("apply", "--from", self.plan, "--dry-run", before=NOBODY)
        self.assertEqual((0, 6), (run.returncode, run.stdout.count("echo ")), run.stderr)


class SignalTest(RoughCase):
    """Runs the command in a Python process that gets a signal at its nth write."""

    PROGRAM = """
import os, sys
from nova_perf_tuning.cli import main
from nova_perf_tuning.host import privileged
number, left = int(sys.argv[1]), int(sys.argv[2])
write = privileged.write
def counted(*arguments):
    global left
    write(*arguments)
    left -= 1
    if left <= 0:  # also during the undo: it is not to be cut short
        os.kill(os.getpid(), number)
privileged.write = counted
sys.exit(main.main(sys.argv[3:]))
"""

    def _signalled(self, number, place, *arguments, before=()):
        command = [*before, sys.executable, "-c", self.PROGRAM, str(int(number)), str(place)]
        command += [*arguments, "--sysroot", self.root]
        return patience.run(command, cwd=TOP)

    def setUp(self):
        super().setUp()
        # Tests that are run by nohup hand on that hang-ups are ignored.
        self.addCleanup(signal.signal, signal.SIGHUP, signal.signal(signal.SIGHUP, signal.SIG_DFL))

    def test_apply_is_undone(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            for place in (1, 3, 6):
                run = self._signalled(number, place, "apply", "--from", self.plan)
                self.assertEqual((128 + number, ""), (run.returncode, run.stdout), run.stderr)
                self.assertEqual(
                    f"nova-perf apply: ended by {number.name}; what it had written is undone\n", run.stderr
                )
                self.assertEqual(self.before, sysroots.content(self.root))
                self.restore()

    def test_a_signal_while_the_outcome_is_told(self):
        """Whoever reads the output may let it wait; the settings are in force by then."""
        program = """
import io, os, sys
from nova_perf_tuning.cli import main
class Awaited(io.TextIOWrapper):
    def write(self, text):
        os.kill(os.getpid(), int(sys.argv[1]))
        return super().write(text)
sys.stdout = Awaited(sys.stdout.buffer)
sys.exit(main.main(sys.argv[2:]))
"""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            command = [sys.executable, "-c", program, str(int(number)), "apply", "--from", self.plan]
            run = patience.run([*command, "--sysroot", self.root], cwd=TOP)
            self.assertEqual(128 + number, run.returncode, run.stderr)
            self.assertEqual(
                f"nova-perf apply: ended by {number.name}; the settings were written, the output was not; "
                f"undo them with: nova-perf restore --sysroot {self.root}\n",
                run.stderr,
            )
            self.assertNotEqual(self.before, sysroots.content(self.root))
            self.restore()

    def test_restore_goes_on_next_time(self):
        self.assertEqual(0, self.run_command("apply", "--from", self.plan).returncode)
        run = self._signalled(signal.SIGTERM, 4, "restore")
        self.assertEqual((143, ""), (run.returncode, run.stdout), run.stderr)
        self.assertIn("another restore puts back the rest", run.stderr)
        self.assertNotEqual(self.before, sysroots.content(self.root))
        self.restore()

    def test_an_ignored_signal_stays_ignored(self):
        run = self._signalled(signal.SIGHUP, 2, "apply", "--from", self.plan, before=("nohup",))
        self.assertEqual(0, run.returncode, run.stderr)
        self.restore()


class OutputTest(RoughCase):
    def test_full_output_is_not_taken_for_a_refusal(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            command = [*COMMAND, "apply", "--from", self.plan, "--sysroot", self.root]
            run = subprocess.run(command, cwd=TOP, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(3, run.returncode)
        self.assertIn("the output was not; undo them with: nova-perf restore ", run.stderr)
        self.assertNotEqual(self.before, sysroots.content(self.root))
        self.restore()


class KernelTest(RoughCase):
    """What this machine's kernel says to writes that it refuses."""

    def test_an_interrupt_that_refuses(self):
        number = live.idle_interrupt()
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
            "apply", "--from", self.plan, "--state-dir", f"{self.folder}/state", "-f", "json", sysroot=False
        )
        self.assertEqual((1, ""), (run.returncode, run.stderr))
        found = {one["target"]: one for one in json.loads(run.stdout)["settings"]}
        refused = found[f"irq:{number}"]
        self.assertEqual(("failed", "transient"), (refused["result"], refused["class"]))
        self.assertRegex(refused["detail"], re.compile("range|too large|Invalid", re.IGNORECASE))
        self.assertEqual("stale", found["irq:9999998"]["result"])
        self.assertEqual("stale", found[f"tid:{os.getpid()}"]["result"])
        self.assertEqual(before, path.read_text())
        run = self.run_command("verify", "--state-dir", f"{self.folder}/state", "-f", "json", sysroot=False)
        self.assertEqual([], json.loads(run.stdout)["settings"])
