# SPDX-License-Identifier: Apache-2.0
"""Programs whose caller has closed standard output or another of the three (``>&-``)."""

import json
import os
import re
import sys

from nova_perf_tuning.validation.measure import results_file
from tests.support import directories, loaded, openstack_program, patience, program, samples

#: The program that a message is of.
WHO = re.compile("[a-z -]*")
#: Runs a program whose reader has gone before it begins.
GONE = 'coproc true; exec 5>&"${COPROC[1]}"; wait; "$@" >&5'


def run(closed, *command):
    """Run a program with a standard stream closed, such as ``>&-``."""
    return patience.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command])


class ProgramsCase(directories.DirectoryCase):
    """Each program and each ending is seen at one start at least; the other cases have loaded programs."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.bin = loaded.of_class(cls, "nova-perf", "nova-perf-agent", "nova-perf-status")


class ClosedTest(ProgramsCase):
    def test_lost_output_is_an_error(self):
        """Of each program, and also where Python writes each line at once; files are written all the same."""
        results = os.path.join(self.directory, "results.json")
        junit_file = self.directory / "junit.xml"
        junit = str(junit_file)
        results_file.save(
            samples.results({"host": 1000.0, "tuned": 900.0}, boots=3, blocks=6), results
        )
        budget = self.write_file(
            "budget.yaml", "budgets: [{benchmark: iperf3, arm: tuned, max_loss: 0.05}]"
        )
        status = (sys.executable, "-m", "nova_perf_tuning.cli.upgrade_check")
        agent = (sys.executable, "-m", "nova_perf_tuning.agent.main")
        ours, own = "nova-perf", "nova-perf-status"
        commands = (
            (program.COMMAND, ours, "evaluate", results, "--budget", budget, "--junit", junit),
            (program.COMMAND, ours, "plan", "--help"),
            (program.COMMAND, ours, "--version"),
            (status, own, "upgrade", "check"),
            (status, own, "--help"),
            (agent, "nova-perf-agent", "--help"),
        )
        endings = {
            ">&-": (3, ": standard output: Bad file descriptor\n"),
            ">/dev/full": (3, ": standard output: No space left on device\n"),
            GONE: (141, ""),
            "<&- >&- 2>&-": (3, ""),
        }
        for number, (program_of_its_own, name, *words) in enumerate(commands):
            for place, (lost, (code, said)) in enumerate(endings.items()):
                is_started = place == number % len(endings)
                command = [*(program_of_its_own if is_started else [self.bin / name]), *words]
                junit_file.unlink(missing_ok=True)
                buffered = str(number % 2)
                environment = {**os.environ, "PYTHONUNBUFFERED": buffered.replace("0", "")}
                script = lost if lost is GONE else f'"$@" {lost}'
                done = patience.run(["bash", "-c", script, "bash", *command], env=environment)
                self.assertEqual(code, done.returncode, (command, lost, done.stderr))
                self.assertEqual(said, done.stderr.removeprefix(WHO.match(done.stderr)[0]))
                if "evaluate" in words:
                    self.assertIn('failures="1"', junit_file.read_text(encoding="utf-8"))

    def test_an_error_is_not_printed_as_output(self):
        done = run("2>&-", *program.COMMAND, "evaluate", "/missing")
        self.assertEqual((3, ""), (done.returncode, done.stdout))
        done = run("2>&-", self.bin / "nova-perf", "evaluate", "/missing", "-f", "json")
        document = {"error": "/missing: No such file or directory", "error_code": "input_error"}
        self.assertEqual((3, document), (done.returncode, json.loads(done.stdout)))

    def test_a_closed_input_is_empty(self):
        done = run("<&-", *program.COMMAND, "evaluate", "-")
        self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
        self.assertNotIn("internal error", done.stderr)


class FullTest(ProgramsCase):
    """A log on a full disk (``>>log 2>&1``) makes no verdict."""

    def test_an_error_is_no_verdict(self):
        commands = {
            "no file": (*program.COMMAND, "evaluate", "/missing"),
            "wrong usage": (self.bin / "nova-perf", "evaluate"),
            "no command": (self.bin / "nova-perf", "evaluat"),
            "agent": (self.bin / "nova-perf-agent", "--sysroot", "/missing"),
            "status": (self.bin / "nova-perf-status", "upgrade"),
        }
        for streams in ("2>/dev/full", ">/dev/full 2>&1"):
            for case, command in commands.items():
                with self.subTest(f"{case} {streams}"):
                    self.assertEqual(3, run(streams, *command).returncode)

    def test_a_verdict_that_nobody_can_read_is_an_error(self):
        results = os.path.join(self.directory, "results.json")
        results_file.save(
            samples.results({"host": 1000.0, "tuned": 1000.0}, boots=3, blocks=6), results
        )
        budget = self.write_file(
            "budget.yaml", "budgets: [{benchmark: iperf3, arm: tuned, max_loss: 0.05}]"
        )
        evaluate = (self.bin / "nova-perf", "evaluate", results, "--budget", budget)
        for streams, code in {"2>/dev/full": 0, ">/dev/full": 3, ">/dev/full 2>&1": 3}.items():
            with self.subTest(streams):
                self.assertEqual(code, run(streams, *evaluate).returncode)


class ClosedOpenstackTest(openstack_program.ProgramTestCase):
    def test_commands_of_openstack(self):
        self.cloud.add_host("compute-1")
        started = (sys.executable, "-m", "openstackclient.shell")
        openstack = (self.useFixture(loaded.Programs("openstack")).bin / "openstack",)
        words_before = ("--os-cloud", "test", "perf", "host")
        # An error has no output, so that one way to lose it is enough.
        for command, closed, *words in (
            (started, ">&-", "list"),
            (openstack, ">/dev/full", "list"),
            (openstack, ">&-", "show", "nowhere"),
        ):
            with self.subTest((words, closed)):
                done = run(closed, *command, *words_before, *words)
                self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")))
                is_lost = "standard output: " in done.stderr
                self.assertEqual(words == ["list"], is_lost, done.stderr)
