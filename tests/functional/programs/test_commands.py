# SPDX-License-Identifier: Apache-2.0
"""The program itself: which commands it knows, what it imports, and its standard output."""

import contextlib
import io
import json
import os
import re
import sys
from unittest import mock

from nova_perf_tuning.cli import command, main
from tests.support import patience, program, testcase

EXPLAIN = ("explain", "--vcpus", "4", "--spec", "perf:profile=storage")


class CommandsTest(testcase.TestCase):
    def test_names_of_several_words(self):
        _, name, rest = main.Commands(main.NAMESPACE).find_command(["bench", "run", "cpu"])
        self.assertEqual(("bench run", ["cpu"]), (name, rest))
        self.assertRaises(
            main.UnknownCommandError, main.Commands(main.NAMESPACE).find_command, ["nowhere"]
        )

    def test_a_table_fits_a_terminal_and_cuts_nothing(self):
        cpus = ",".join(map(str, range(100, 200, 2)))
        row = ("instance-00000001", cpus, cpus, f"{cpus} {'because ' * 9}")
        for terminal in (False, True):
            shown = io.StringIO()
            shown.isatty = lambda terminal=terminal: terminal
            with contextlib.redirect_stdout(shown), mock.patch.dict(os.environ, COLUMNS="100"):
                command.print_table(("guest", "CPUs", "emulator", "why"), [row])
            _, *lines = shown.getvalue().splitlines()
            numbers = re.findall(r"\d+", "\n".join(lines))
            self.assertEqual({"00000001", *cpus.split(",")}, set(numbers))
            self.assertEqual(3 * len(cpus.split(",")) + 1, len(numbers))
            self.assertTrue(lines[0].startswith(row[0]))
            fits = max(map(len, lines)) <= 100
            self.assertEqual((terminal, terminal), (fits, len(lines) > 1))

    def test_a_command_imports_no_other(self):
        """Else each would take the second that the statistics of validate take to load."""
        code = f"import sys; from nova_perf_tuning.cli import main; main.main({list(EXPLAIN)});"
        code += "sys.exit('numpy' in sys.modules)"
        done = patience.run([sys.executable, "-c", code])
        self.assertEqual(0, done.returncode, done.stderr)

    def test_no_sqlalchemy(self):
        code = (
            "import sys; sys.modules['sqlalchemy'] = None; from nova_perf_tuning.cli import main; "
        )
        code += "sys.exit(main.main(['history']))"
        done = patience.run([sys.executable, "-c", code])
        self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")))
        self.assertIn("install nova-perf-tuning[validation]", done.stderr)

    def test_closed_pipe_ends_with_141(self):
        for arguments in (EXPLAIN, ("paths", "-f", "json")):
            with self.subTest(arguments):
                shell = (
                    "bash",
                    "-c",
                    '"$@" | true; exit ${PIPESTATUS[0]}',
                    "bash",
                    *program.COMMAND,
                    *arguments,
                )
                done = patience.run(shell)
                self.assertEqual((141, ""), (done.returncode, done.stderr), arguments)

    def test_json_is_the_same_on_an_ascii_terminal(self):
        shown = []
        for encoding in ("utf-8", "ascii"):
            with self.subTest(encoding):
                environment = {**os.environ, "PYTHONIOENCODING": encoding}
                done = patience.run([*program.COMMAND, *EXPLAIN, "-f", "json"], env=environment)
                self.assertEqual((0, ""), (done.returncode, done.stderr))
                shown.append(json.loads(done.stdout))
        self.assertEqual(*shown)
