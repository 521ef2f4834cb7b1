# SPDX-License-Identifier: Apache-2.0
"""What tools/mutate.sh mutates and runs is there: a module that moves takes its line with it."""

import ast
import pathlib

from tests.support import testcase

TREE = pathlib.Path(__file__).parents[2]


class TableTest(testcase.TestCase):
    def table(self):
        """Return the table; the script itself needs cosmic-ray."""
        script = ast.parse((TREE / "tools/mutation/run.py").read_text())
        (value,) = (
            node.value
            for node in script.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "MODULES"
        )
        return ast.literal_eval(value)

    def test_modules_and_their_tests_are_there(self):
        table = self.table()
        self.assertGreater(len(table), 10)
        for module, tests in table.items():
            with self.subTest(module):
                self.assertTrue((TREE / "nova_perf_tuning" / module).is_file())
                for test in tests.split():
                    self.assertTrue(
                        (TREE / "tests/unit" / f"{test.replace('.', '/')}.py").is_file(), test
                    )
