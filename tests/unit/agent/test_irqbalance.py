# SPDX-License-Identifier: Apache-2.0
"""irqbalance is kept from what is placed, by a list and a script, and other programs are reported."""

import pathlib
import shutil
import signal
import stat
import subprocess
import sys
from unittest import mock

from nova_perf_tuning.agent import findings
from nova_perf_tuning.host.kinds import base, irqbalance, registry
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.transaction import apply, restore, verify
from tests.support import directories, sysroots, testcase

DROP_IN = pathlib.Path(__file__).parents[3] / "etc/irqbalance/nova-perf-tuning.conf"


def placed(number):
    return host_model.Setting(
        "irq_affinity", f"irq:{number}", "0", "0", "", "nic-irq-local", "x|y"
    )


class ListTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.path = pathlib.Path(self.root, irqbalance.LIST)
        self.daemons = findings.CompetingDaemons(self.root)
        self.journal = self.enterContext(sysroots.open_journal(self.root, writer=True))

    def apply(self, *numbers):
        settings = self.daemons.ban([placed(number) for number in numbers])
        return [
            outcome.result
            for outcome in apply.apply(settings, registry.kinds(self.root), self.journal, "boot")
        ]

    def test_it_holds_any_number_and_goes_with_the_restore(self):
        numbers = range(24, 24 + 2048)
        self.assertEqual([apply.Result.WRITTEN], self.apply(*numbers))
        self.assertEqual(list(numbers), [int(line) for line in self.path.read_text().splitlines()])
        self.assertEqual(
            0o644, stat.S_IMODE(self.path.stat().st_mode), "irqbalance may be another user"
        )
        self.assertEqual([apply.Result.WRITTEN], self.apply(30))
        self.assertEqual("30\n", self.path.read_text())
        restore.restore(self.journal, registry.kinds(self.root), "boot")
        self.assertFalse(self.path.exists())

    def test_a_long_one_is_read_whole(self):
        numbers = range(100_000, 130_000)
        self.apply(*numbers)
        shown = irqbalance.IrqbalanceBan(self.root).read(irqbalance.TARGET)
        self.assertEqual(irqbalance.as_text(numbers), shown)

    def test_without_interrupts_there_is_none(self):
        self.assertEqual([], self.daemons.ban([]))

    def test_a_damaged_one_is_one_error_that_says_what_to_remove(self):
        self.path.parent.mkdir(parents=True)
        for damaged in (b"24\nx\n", b"24\n\xff", b"24\n" * 500_000):
            self.path.write_bytes(damaged)
            read = irqbalance.IrqbalanceBan(self.root).read
            error = self.assertRaises(base.TargetError, read, irqbalance.TARGET)
            self.assertIn(f"{self.path} is damaged: remove it", str(error))
        self.assertRaises(base.TargetError, irqbalance.IrqbalanceBan(self.root).read, "other")

    def test_what_an_operator_would_type(self):
        kind = irqbalance.IrqbalanceBan("/")
        self.assertIn("printf '%s\\n' 24 30 > /run/", kind.describe(irqbalance.TARGET, "30,24"))
        self.assertIn("rm -f /run/", kind.describe(irqbalance.TARGET, irqbalance.NONE))

    def test_the_drop_in_starts_irqbalance_with_the_script(self):
        (command,) = [
            line for line in DROP_IN.read_text().splitlines() if line.startswith("ExecStart=/")
        ]
        self.assertIn(f"--policyscript=/usr/share/nova-perf-tuning/{irqbalance.SCRIPT} ", command)


class MovedTest(testcase.TestCase):
    def test_it_is_told_again_when_interrupts_are_moved_but_not_all_the_time(self):
        now, output = [100.0], []
        daemons = findings.CompetingDaemons(clock=lambda: now[0])
        with mock.patch.object(irqbalance, "rescan", side_effect=lambda: output.append(now[0])):
            for seconds in (0.0, 1.0, 10.0, 30.0, 31.0):
                now[0] = 100.0 + seconds
                daemons.moved()
        self.assertEqual([100.0, 130.0], output)


class EachIrqbalanceTest(testcase.TestCase):
    def test_one_with_our_script_hides_no_other(self):
        processes = [
            ("irqbalance", 10),
            ("tuned", 11),
            ("irqbalance", 12),
            ("irqbalance", 13),
            ("tuned", 14),
        ]
        self.patch(verify, "daemon_processes", lambda _root: processes)
        self.patch(irqbalance, "uses_our_script", lambda pid: pid == 10)
        found = [(finding.code, finding.pid) for finding in findings.CompetingDaemons().findings()]
        without = findings.AgentFindingCode.IRQBALANCE_WITHOUT_SCRIPT
        expected = [(findings.AgentFindingCode.COMPETING_DAEMON, 11), (without, 12), (without, 13)]
        self.assertEqual(expected, found)


#: Is named irqbalance and has a child before its exec. At the end of its input it ends the child, and prints
#: whether it got the signal itself and by which one its child ended.
_FORKED = """
import os, pathlib, signal, sys
pathlib.Path("/proc/self/comm").write_text("irqbalance")
signal.signal(signal.SIGHUP, signal.SIG_DFL)
child = os.fork()
while not child:
    signal.pause()
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
print(child, flush=True)
sys.stdin.read()
os.kill(child, signal.SIGTERM)
_, status = os.waitpid(child, 0)
print(signal.SIGHUP in signal.sigpending(), os.WTERMSIG(status))
"""


class RescanTest(directories.DirectoryCase):
    """Who gets the signal; SIGHUP ends a program that does not expect it."""

    def setUp(self):
        super().setUp()
        self.program = pathlib.Path(self.directory, "irqbalance")
        shutil.copy("/bin/sh", self.program)  # a process has the name of its file
        self.program.chmod(0o755)
        pathlib.Path(self.directory).chmod(0o755)

    def start(self, script, user=None):
        command = [
            self.program,
            "-c",
            "echo ready; read line",
            "irqbalance",
            f"--policyscript=/x/{script}",
        ]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, user=user
        )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.stdout.close)
        self.assertEqual(b"ready\n", process.stdout.readline())
        return process

    def test_only_an_irqbalance_of_ours_with_our_script(self):
        ours = self.start(irqbalance.SCRIPT)
        strangers = self.start(irqbalance.SCRIPT, user=65534)
        operators = self.start("own-script")
        irqbalance.rescan()
        self.assertEqual(-signal.SIGHUP, ours.wait())
        self.assertEqual([None, None], [strangers.poll(), operators.poll()])

    def test_a_child_that_is_not_yet_the_script_is_spared(self):
        """Between its start and its exec it has name and words of irqbalance, and no handler."""
        command = [sys.executable, "-c", _FORKED, f"--policyscript=/x/{irqbalance.SCRIPT}"]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        child = int(process.stdout.readline())
        self.assertTrue(irqbalance.uses_our_script(child))
        irqbalance.rescan()
        process.stdin.close()
        got = process.stdout.readline().split()
        self.assertEqual(["True", str(int(signal.SIGTERM))], got)
