# SPDX-License-Identifier: Apache-2.0
"""Programs whose caller has closed standard output or another of the three (``>&-``)."""

import json
import os
import re
import sys

from nova_perf_tuning.validation.measure import results_file
from tests.support import directories, openstack_program, patience, program, samples

#: The program that a message is of.
WHO = re.compile("[a-z -]*")


def run(closed, *command):
    """Run a program with a standard stream closed, such as ``>&-``."""
    return patience.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command])


class ClosedTest(directories.DirectoryCase):
    def test_lost_output_is_an_error(self):
        """Of each program, and also where Python writes each line at once; files are written all the same."""
        results = os.path.join(self.directory, "results.json")
        junit = os.path.join(self.directory, "junit.xml")
        results_file.save(
            samples.results({"host": 1000.0, "tuned": 900.0}, boots=3, blocks=6), results
        )
        budget = self.write_file(
            "budget.yaml", "budgets: [{benchmark: iperf3, arm: tuned, max_loss: 0.05}]"
        )
        status = (sys.executable, "-m", "nova_perf_tuning.cli.upgrade_check")
        commands = (
            (*program.COMMAND, "evaluate", results, "--budget", budget, "--junit", junit),
            (*program.COMMAND, "plan", "--help"),
            (*program.COMMAND, "--version"),
            (*status, "upgrade", "check"),
            (*status, "--help"),
            (sys.executable, "-m", "nova_perf_tuning.agent.main", "--help"),
        )
        endings = {
            ">&-": (3, ": standard output: Bad file descriptor\n"),
            ">/dev/full": (3, ": standard output: No space left on device\n"),
            "| true; exit ${PIPESTATUS[0]}": (141, ""),
            "<&- >&- 2>&-": (3, ""),
        }
        for number, command in enumerate(commands):
            for lost, (code, said) in endings.items():
                buffered = str(number % 2)
                environment = {**os.environ, "PYTHONUNBUFFERED": buffered.replace("0", "")}
                shell = ["bash", "-c", f'"$@" {lost}', "bash", *command]
                done = patience.run(shell, env=environment)
                self.assertEqual(code, done.returncode, (command, lost, done.stderr))
                self.assertEqual(said, done.stderr.removeprefix(WHO.match(done.stderr)[0]))
        with open(junit, encoding="utf-8") as file:
            self.assertIn('failures="1"', file.read())

    def test_an_error_is_not_printed_as_output(self):
        done = run("2>&-", *program.COMMAND, "evaluate", "/missing")
        self.assertEqual((3, ""), (done.returncode, done.stdout))
        done = run("2>&-", *program.COMMAND, "evaluate", "/missing", "-f", "json")
        document = {"error": "/missing: No such file or directory", "error_code": "input_error"}
        self.assertEqual((3, document), (done.returncode, json.loads(done.stdout)))

    def test_a_closed_input_is_empty(self):
        done = run("<&-", *program.COMMAND, "evaluate", "-")
        self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
        self.assertNotIn("internal error", done.stderr)


class FullTest(directories.DirectoryCase):
    """A log on a full disk (``>>log 2>&1``) makes no verdict."""

    def test_an_error_is_no_verdict(self):
        commands = {
            "no file": (*program.COMMAND, "evaluate", "/missing"),
            "wrong usage": (*program.COMMAND, "evaluate"),
            "no command": (*program.COMMAND, "evaluat"),
            "agent": (
                sys.executable,
                "-m",
                "nova_perf_tuning.agent.main",
                "--sysroot",
                "/missing",
            ),
            "status": (sys.executable, "-m", "nova_perf_tuning.cli.upgrade_check", "upgrade"),
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
        evaluate = (*program.COMMAND, "evaluate", results, "--budget", budget)
        for streams, code in {"2>/dev/full": 0, ">/dev/full": 3, ">/dev/full 2>&1": 3}.items():
            with self.subTest(streams):
                self.assertEqual(code, run(streams, *evaluate).returncode)


class ClosedOpenstackTest(openstack_program.ProgramTestCase):
    def test_commands_of_openstack(self):
        self.cloud.add_host("compute-1")
        command = (
            sys.executable,
            "-m",
            "openstackclient.shell",
            "--os-cloud",
            "test",
            "perf",
            "host",
        )
        # An error has no output, so that one way to lose it is enough.
        for closed, *words in (
            (">&-", "list"),
            (">/dev/full", "list"),
            (">&-", "show", "nowhere"),
        ):
            with self.subTest((words, closed)):
                done = run(closed, *command, *words)
                self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")))
                is_lost = "standard output: " in done.stderr
                self.assertEqual(words == ["list"], is_lost, done.stderr)
