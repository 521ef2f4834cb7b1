# SPDX-License-Identifier: Apache-2.0
"""The help of an option stands at the option: a reader of the code sees what a reader of --help sees."""

import ast
import pathlib

from tests.support import testcase

PACKAGE = pathlib.Path(__file__).parents[3] / "nova_perf_tuning"
#: How options are added, and the place of the help among the arguments: by keyword alone for argparse's own.
ADDERS = {"add_argument": None, "add": 3, "add_repeated": 3}
#: The functions that add what their callers give.
ADDING = "cli/options/__init__.py"


def helps(path):
    """Yield the line and the expression of each help text of a module."""
    text = path.read_text(encoding="utf-8")
    if "help=" not in text and "options.add" not in text:
        return
    for node in ast.walk(ast.parse(text)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
            continue
        if node.func.attr not in ADDERS:
            continue
        place = ADDERS[node.func.attr]
        texts = [keyword.value for keyword in node.keywords if keyword.arg == "help"]
        if ast.unparse(node.func).startswith("options.") and place is not None:
            texts += node.args[place : place + 1]
        for text in texts:
            yield node.lineno, text


class LiteralHelpTest(testcase.TestCase):
    def test_no_help_is_put_together_elsewhere(self):
        wrong, seen = [], 0
        for path in sorted(PACKAGE.rglob("*.py")):
            relative = path.relative_to(PACKAGE).as_posix()
            if relative == ADDING:
                continue
            for line, text in helps(path):
                seen += 1
                is_hidden = ast.unparse(text) == "argparse.SUPPRESS"
                if not is_hidden and not isinstance(text, ast.Constant | ast.JoinedStr):
                    wrong.append(f"{relative}:{line}: {ast.unparse(text)}")
        self.assertGreater(seen, 100)
        self.assertEqual([], wrong)
