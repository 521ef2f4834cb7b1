"""Standard streams that are closed, have no reader, or cannot take every character."""

import json
import os
import subprocess
import sys

import fixtures
import testtools

PROGRAM = (sys.executable, "-m", "nova_perf_tuning.cli.main")
EXPLAIN = ("explain", "--vcpus", "4", "--spec", "perf:profile=storage")


def run(arguments, redirection="", **environment):
    """Run nova-perf with a shell's redirection and return it when it has ended."""
    shell = ("bash", "-c", f'"$@" {redirection}', "bash", *PROGRAM, *arguments)
    return subprocess.run(shell, capture_output=True, text=True, timeout=600, env={**os.environ, **environment})


class StreamsTest(testtools.TestCase):
    def test_stdout_closed(self):
        for arguments in (EXPLAIN, ("--help",), ("help", "explain"), ("metadefs", "show", "-f", "json")):
            done = run(arguments, ">&-")
            self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
            self.assertIn("stdout is closed", done.stderr)

    def test_an_error_stays_one_line(self):
        done = run(("explain",), ">&-")
        self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
        self.assertIn("--vcpus is missing", done.stderr)

    def test_no_reader(self):
        for arguments in (EXPLAIN, ("metadefs", "show", "-f", "json")):
            done = run(arguments, "| true; exit ${PIPESTATUS[0]}")
            self.assertEqual((141, ""), (done.returncode, done.stderr), arguments)

    def test_ascii(self):
        plain = json.loads(run((*EXPLAIN, "-f", "json"), PYTHONIOENCODING="utf-8").stdout)
        done = run((*EXPLAIN, "-f", "json"), PYTHONIOENCODING="ascii")
        self.assertEqual((0, "", plain), (done.returncode, done.stderr, json.loads(done.stdout)))
        done = run(("xml", "--spec", "perf:profile=\u00b5", "-"), "<&-", PYTHONIOENCODING="ascii")
        self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)

    def test_pipes_and_bad_text_are_refused(self):
        folder = self.useFixture(fixtures.TempDir()).path
        pipe, plan = os.path.join(folder, "pipe"), os.path.join(folder, "plan.json")
        os.mkfifo(pipe)
        with open(plan, "w", encoding="ascii") as file:
            json.dump({"settings": [{"kind": "irq", "target": "1", "value": "1", "reason": "\ud800"}]}, file)
        for arguments, told in (
            (("xml", pipe), "it is no file"),
            (("apply", "--from", plan, "--state-dir", folder), "no Unicode"),
        ):
            done = run(arguments)
            self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr)
            self.assertIn(told, done.stderr)
