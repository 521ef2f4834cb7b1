"""irqbalance is kept from what is placed, by a list and a script, and other programs are reported."""

from __future__ import annotations

import pathlib
import stat
import subprocess
from unittest import mock

import fixtures
import testtools

from nova_perf_tuning.agent import findings
from nova_perf_tuning.host import model
from nova_perf_tuning.host.kinds import base, irqbalance, registry
from nova_perf_tuning.host.transaction import apply, restore, verify
from tests.support import patience, sysroots

TOP = pathlib.Path(__file__).parents[3]
SCRIPT = TOP / "etc/irqbalance" / irqbalance.SCRIPT
DROP_IN = TOP / "etc/irqbalance/nova-perf-tuning.conf"


def placed(number):
    return model.Setting("irq_affinity", f"irq:{number}", "0", "0", "", "nic-irq-local", "x|y")


class ListTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.path = pathlib.Path(self.root, irqbalance.LIST)
        self.daemons = findings.CompetingDaemons(self.root)
        self.journal = self.enterContext(sysroots.open_journal(self.root, writer=True))

    def apply(self, *numbers):
        settings = self.daemons.ban([placed(number) for number in numbers])
        return [
            outcome.result for outcome in apply.apply(settings, registry.kinds(self.root), self.journal, "boot")
        ]

    def test_it_holds_any_number_and_goes_with_the_restore(self):
        numbers = range(24, 24 + 2048)
        self.assertEqual([apply.Result.WRITTEN], self.apply(*numbers))
        self.assertEqual(list(numbers), [int(line) for line in self.path.read_text().splitlines()])
        self.assertEqual(0o644, stat.S_IMODE(self.path.stat().st_mode), "irqbalance may be another user")
        self.assertEqual([apply.Result.WRITTEN], self.apply(30))
        self.assertEqual("30\n", self.path.read_text())
        restore.restore(self.journal, registry.kinds(self.root), "boot")
        self.assertFalse(self.path.exists())

    def test_without_interrupts_there_is_none(self):
        self.assertEqual([], self.daemons.ban([]))

    def test_a_damaged_one_is_one_error_that_says_what_to_remove(self):
        self.path.parent.mkdir(parents=True)
        self.path.write_text("24\nx\n")
        error = self.assertRaises(base.TargetError, irqbalance.IrqbalanceBan(self.root).read, irqbalance.TARGET)
        self.assertIn(f"{self.path} is damaged: remove it", str(error))
        self.assertRaises(base.TargetError, irqbalance.IrqbalanceBan(self.root).read, "other")

    def test_what_an_operator_would_type(self):
        kind = irqbalance.IrqbalanceBan("/")
        self.assertIn("printf '%s\\n' 24 30 > /run/", kind.describe(irqbalance.TARGET, "30,24"))
        self.assertIn("rm -f /run/", kind.describe(irqbalance.TARGET, irqbalance.NONE))


class ScriptTest(testtools.TestCase):
    def test_it_bans_exactly_what_is_listed(self):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        numbers, script = folder / "list", folder / "script"
        script.write_text(SCRIPT.read_text().replace(f"/{irqbalance.LIST}", str(numbers)))

        def asked(number):
            done = subprocess.run(["sh", script, "/sys", number], capture_output=True, text=True, check=True)
            return done.stdout

        self.assertEqual("", asked("24"))
        numbers.write_text("24\n130\n")
        self.assertEqual(
            ["ban=true\n", "", "", "ban=true\n"], [asked(number) for number in ("24", "2", "30", "130")]
        )

    def test_the_drop_in_starts_irqbalance_with_it(self):
        (command,) = [line for line in DROP_IN.read_text().splitlines() if line.startswith("ExecStart=/")]
        self.assertIn(f"--policyscript=/usr/share/nova-perf-tuning/{irqbalance.SCRIPT} ", command)


class ProgramsTest(testtools.TestCase):
    """With programs that are named irqbalance."""

    def start(self, *arguments):
        """Return a program and the file that it writes when it gets a SIGHUP."""
        output = pathlib.Path(self.useFixture(fixtures.TempDir()).path, "told")
        code = f"trap 'echo >{output}' HUP; printf irqbalance >/proc/$$/comm; echo; while sleep 0.1; do :; done"
        process = subprocess.Popen(["sh", "-c", code, "sh", *arguments], stdout=subprocess.PIPE)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        process.stdout.readline()
        return process, output

    def test_ours_are_told_to_ask_the_script_again(self):
        ways = ([f"--policyscript=/x/{irqbalance.SCRIPT}"], ["-l", f"/x/{irqbalance.SCRIPT}"])
        ours = [self.start(*arguments) for arguments in ways]
        other, untold = self.start("--policyscript=/x/theirs")
        irqbalance.rescan()
        patience.until(lambda: all(output.exists() for _process, output in ours), "they are told")
        self.assertEqual((False, None), (untold.exists(), other.poll()))
        self.assertFalse(irqbalance.uses_our_script(other.pid))

    def test_one_without_our_script_is_reported(self):
        for argument, reported in ((f"--policyscript=/x/{irqbalance.SCRIPT}", False), ("--banirq=9", True)):
            with self.subTest(argument=argument):
                process, _told = self.start(argument)
                with mock.patch.object(verify, "running_daemons", return_value={"irqbalance": process.pid}):
                    found = [(finding.code, finding.pid) for finding in findings.CompetingDaemons().findings()]
                self.assertEqual(
                    [(findings.FindingCode.IRQBALANCE_WITHOUT_SCRIPT, process.pid)] if reported else [], found
                )


class MovedTest(testtools.TestCase):
    def test_it_is_told_again_when_interrupts_are_moved_but_not_all_the_time(self):
        now, output = [100.0], []
        daemons = findings.CompetingDaemons(clock=lambda: now[0])
        with mock.patch.object(irqbalance, "rescan", side_effect=lambda: output.append(now[0])):
            for seconds in (0.0, 1.0, 10.0, 30.0, 31.0):
                now[0] = 100.0 + seconds
                daemons.moved()
        self.assertEqual([100.0, 130.0], output)
