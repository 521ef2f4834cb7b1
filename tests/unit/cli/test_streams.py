"""Standard output that has no reader, or cannot take every character."""

import json
import os
import subprocess
import sys

import testtools

PROGRAM = (sys.executable, "-m", "nova_perf_tuning.cli.main")
EXPLAIN = ("explain", "--vcpus", "4", "--spec", "perf:profile=storage")


def run(arguments, redirection="", **environment):
    """Run nova-perf with a shell's redirection and return it when it has ended."""
    shell = ("bash", "-c", f'"$@" {redirection}', "bash", *PROGRAM, *arguments)
    return subprocess.run(shell, capture_output=True, text=True, timeout=600, env={**os.environ, **environment})


class StreamsTest(testtools.TestCase):
    def test_no_reader(self):
        for arguments in (EXPLAIN, ("paths", "-f", "json")):
            done = run(arguments, "| true; exit ${PIPESTATUS[0]}")
            self.assertEqual((141, ""), (done.returncode, done.stderr), arguments)

    def test_ascii(self):
        plain = json.loads(run((*EXPLAIN, "-f", "json"), PYTHONIOENCODING="utf-8").stdout)
        done = run((*EXPLAIN, "-f", "json"), PYTHONIOENCODING="ascii")
        self.assertEqual((0, "", plain), (done.returncode, done.stderr, json.loads(done.stdout)))
