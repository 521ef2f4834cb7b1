# SPDX-License-Identifier: Apache-2.0
"""The program itself: which commands it knows, what it imports, and its standard output."""

import contextlib
import io
import json
import os
import sys

from nova_perf_tuning.cli import command, main
from tests.support import patience, program, testcase

EXPLAIN = ("explain", "--vcpus", "4", "--spec", "perf:profile=storage")


class CommandsTest(testcase.TestCase):
    def test_names_of_several_words(self):
        _, name, rest = main.Commands(main.NAMESPACE).find_command(["bench", "run", "cpu"])
        self.assertEqual(("bench run", ["cpu"]), (name, rest))
        self.assertRaises(ValueError, main.Commands(main.NAMESPACE).find_command, ["nowhere"])

    def test_a_long_list_of_cpus_is_cut_between_two_of_them(self):
        cpus = ",".join(map(str, range(100, 200, 2)))
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown):
            command.print_table(("CPUs", "role"), [(cpus, "irq")], limit=60)
        kept, _, _ = shown.getvalue().splitlines()[1].partition(",...")
        self.assertEqual([], [cpu for cpu in kept.split(",") if cpu not in cpus.split(",")])

    def test_a_command_imports_no_other(self):
        """Else each would take the second that the statistics of validate take to load."""
        code = f"import sys; from nova_perf_tuning.cli import main; main.main({list(EXPLAIN)});"
        code += "sys.exit('numpy' in sys.modules)"
        done = patience.run([sys.executable, "-c", code])
        self.assertEqual(0, done.returncode, done.stderr)

    def test_no_sqlalchemy(self):
        code = "import sys; sys.modules['sqlalchemy'] = None; from nova_perf_tuning.cli import main; "
        code += "sys.exit(main.main(['history']))"
        done = patience.run([sys.executable, "-c", code])
        self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")))
        self.assertIn("install nova-perf-tuning[validation]", done.stderr)

    def test_closed_pipe_ends_with_141(self):
        for arguments in (EXPLAIN, ("paths", "-f", "json")):
            with self.subTest(arguments):
                shell = ("bash", "-c", '"$@" | true; exit ${PIPESTATUS[0]}', "bash", *program.COMMAND, *arguments)
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
