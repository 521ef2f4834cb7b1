"""Which commands are known, and that only the one that runs is imported."""

import subprocess
import sys

import testtools

from nova_perf_tuning.cli import main


class CommandsTest(testtools.TestCase):
    def test_names_of_several_words(self):
        _, name, rest = main.Commands(main.NAMESPACE).find_command(["bench", "run", "cpu"])
        self.assertEqual(("bench run", ["cpu"]), (name, rest))
        self.assertRaises(ValueError, main.Commands(main.NAMESPACE).find_command, ["nowhere"])

    def test_a_command_imports_no_other(self):
        """Else each would take the second that the statistics of validate take to load."""
        program = "import sys; from nova_perf_tuning.cli import main; main.main(['explain', '--vcpus', '4']);"
        program += "sys.exit('numpy' in sys.modules)"
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=600, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
