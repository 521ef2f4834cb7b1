# SPDX-License-Identifier: Apache-2.0
"""A real irqbalance leaves alone what is placed, and nothing else, through its restart and until the restore.

It runs in namespaces where /proc/irq and /proc/interrupts are made up: no interrupt of this machine moves.
"""

import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
from unittest import mock

from nova_perf_tuning.agent import findings
from nova_perf_tuning.host.kinds import irqbalance
from nova_perf_tuning.host.transaction import verify
from tests.support import beside_irqbalance, irqbalance_program, patience, testcase

TOP = pathlib.Path(__file__).parents[3]
_NAMESPACE = """
mount --bind "$1/irq" /proc/irq
mount --bind "$1/interrupts" /proc/interrupts
mount -t tmpfs none /run
mkdir /run/irqbalance
exec "$0" -m tests.support.beside_irqbalance "$2"
"""


class IrqbalanceTest(testcase.TestCase):
    def test_interrupts_are_ours_until_the_restore(self):
        work = pathlib.Path(
            self.enterContext(tempfile.TemporaryDirectory(prefix="nova-perf-irqbalance-"))
        )
        cpus = os.sysconf("SC_NPROCESSORS_ONLN")
        table = [" " * 11 + " ".join(f"CPU{cpu:<7}" for cpu in range(cpus))]
        for number in beside_irqbalance.NUMBERS:
            directory = work / "irq" / str(number)
            directory.mkdir(parents=True)
            (directory / "smp_affinity").write_text("3\n")
            (directory / "node").write_text("0\n")
            table.append(f"{number}: {'0 ' * cpus} PCI-MSI 0-edge nic")
        (work / "interrupts").write_text("\n".join(table) + "\n")
        # Of processes too: it is not to meet another irqbalance of this machine.
        kinds = (
            "--mount",
            "--net",
            "--propagation",
            "private",
            "--pid",
            "--fork",
            "--kill-child",
            "--mount-proc",
        )
        done = patience.run(
            [
                "unshare",
                *kinds,
                "sh",
                "-ec",
                _NAMESPACE,
                sys.executable,
                work,
                irqbalance_program.find(str(work)),
            ],
            cwd=TOP,
            env={**os.environ, "PYTHONPATH": str(TOP)},
        )
        self.assertEqual(0, done.returncode, done.stderr)
        theirs, ours, banned = sorted(beside_irqbalance.THEIRS), "ours", [beside_irqbalance.BANNED]
        self.assertEqual(
            [
                ["started", ours, *theirs],
                ["placed", *theirs],
                ["banned", *banned],
                ["started again", *theirs],
                ["restored", ours, *theirs],
                ["banned", *banned],
            ],
            [json.loads(line) for line in done.stdout.splitlines()],
        )


class ScriptTest(testcase.TestCase):
    def test_it_bans_exactly_what_is_listed(self):
        directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        numbers, script = directory / "list", directory / "script"
        script.write_text(
            (TOP / "etc/irqbalance" / irqbalance.SCRIPT)
            .read_text()
            .replace(f"/{irqbalance.LIST}", str(numbers))
        )

        def answer(number):
            return patience.run(["sh", script, "/sys", number]).stdout

        self.assertEqual("", answer("24"))
        numbers.write_text("24\n130\n")
        self.assertEqual(
            ["ban=true\n", "", "", "ban=true\n"], list(map(answer, ("24", "2", "30", "130")))
        )


#: Is named irqbalance, and ends with the number of the first of two signals that it gets.
_PROGRAM = """
import pathlib, signal, sys
signals = {signal.SIGHUP, signal.SIGUSR1}
signal.pthread_sigmask(signal.SIG_BLOCK, signals)
pathlib.Path("/proc/self/comm").write_text("irqbalance")
print("ready", flush=True)
sys.exit(signal.sigwait(signals))
"""


class ProgramsTest(testcase.TestCase):
    """With programs that are named irqbalance."""

    def start(self, *arguments):
        process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, *arguments], stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.assertEqual("ready\n", process.stdout.readline())
        return process

    def test_ours_are_told_to_ask_the_script_again(self):
        ways = ([f"--policyscript=/x/{irqbalance.SCRIPT}"], ["-l", f"/x/{irqbalance.SCRIPT}"])
        ours = [self.start(*arguments) for arguments in ways]
        other = self.start("--policyscript=/x/theirs")
        irqbalance.rescan()
        self.assertFalse(irqbalance.uses_our_script(other.pid))
        other.send_signal(signal.SIGUSR1)  # the lower number would be first
        for process in (*ours, other):
            patience.finish(process)
        codes = [process.returncode for process in (*ours, other)]
        self.assertEqual([signal.SIGHUP, signal.SIGHUP, signal.SIGUSR1], codes)

    def test_one_without_our_script_is_reported(self):
        for argument, reported in (
            (f"--policyscript=/x/{irqbalance.SCRIPT}", False),
            ("--banirq=9", True),
        ):
            with self.subTest(argument=argument):
                process = self.start(argument)
                with mock.patch.object(
                    verify, "daemon_processes", return_value=[("irqbalance", process.pid)]
                ):
                    codes = [
                        (finding.code, finding.pid)
                        for finding in findings.CompetingDaemons().findings()
                    ]
                expected = (
                    [(findings.AgentFindingCode.IRQBALANCE_WITHOUT_SCRIPT, process.pid)]
                    if reported
                    else []
                )
                self.assertEqual(expected, codes)
