# SPDX-License-Identifier: Apache-2.0
"""Programs whose caller has closed standard output or another of the three (``>&-``)."""

import os
import sys

from nova_perf_tuning.validation.measure import results_file
from tests.support import directories, openstack_program, patience, program, samples


def run(closed, *command):
    """Run a program with a standard stream closed, such as ``>&-``."""
    return patience.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command])


class ClosedTest(directories.DirectoryCase):
    def test_a_verdict_is_an_exit_code_all_the_same(self):
        results = os.path.join(self.directory, "results.json")
        junit = os.path.join(self.directory, "junit.xml")
        results_file.save(
            samples.results({"host": 1000.0, "tuned": 900.0}, boots=3, blocks=6), results
        )
        budget = self.write_file(
            "budget.yaml", "budgets: [{benchmark: iperf3, arm: tuned, max_loss: 0.05}]"
        )
        for closed in (">&-", "<&- >&- 2>&-"):
            with self.subTest(closed):
                evaluate = ("evaluate", results, "--budget", budget, "--junit", junit)
                done = run(closed, *program.COMMAND, *evaluate)
                self.assertEqual((1, ""), (done.returncode, done.stderr))
                with open(junit, encoding="utf-8") as file:
                    self.assertIn('failures="1"', file.read())

    def test_an_error_is_not_printed_as_output(self):
        done = run("2>&-", *program.COMMAND, "evaluate", "/missing", "-f", "json")
        self.assertEqual((3, ""), (done.returncode, done.stdout))

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
        for words, code in ((("list",), 0), (("show", "nowhere"), 3)):
            with self.subTest(words):
                done = run(">&-", *command, *words)
                self.assertEqual(
                    (code, code == 0), (done.returncode, not done.stderr), done.stderr
                )
                self.assertNotIn("internal error", done.stderr)
