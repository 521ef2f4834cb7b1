# SPDX-License-Identifier: Apache-2.0
"""Commands share options and helpers, never each other: no module of a command imports that of another one."""

import ast
import pathlib
import tomllib

from tests.support import testcase

TOP = pathlib.Path(__file__).parents[3]
CLI = TOP / "nova_perf_tuning" / "cli"
NAMESPACES = ("nova_perf_tuning.cli", "openstack.perf.v1")


def command_modules():
    """Return the dotted names of the modules that the entry points of commands and programs name."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    entries = list(project["scripts"].values())
    for namespace in NAMESPACES:
        entries += project["entry-points"][namespace].values()
    modules = {entry.partition(":")[0] for entry in entries}
    return {module for module in modules if module.startswith("nova_perf_tuning.cli.")}


def imports(path):
    """Return the dotted names that a module imports, wherever in it; names of functions and classes as well."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: line {node.lineno} is a relative import"
            found.add(node.module)
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


class CommandModulesTest(testcase.TestCase):
    def test_no_module_of_the_command_line_imports_a_command(self):
        commands = command_modules()
        self.assertGreater(len(commands), 30)
        wrong = []
        for path in sorted(CLI.rglob("*.py")):
            here = ".".join(path.relative_to(TOP).with_suffix("").parts)
            for name in sorted((imports(path) & commands) - {here}):
                wrong.append(
                    f"{here} imports {name}; move what it needs into nova_perf_tuning.cli.options"
                )
        self.assertEqual([], wrong)

    def test_the_command_line_measures_no_fleet_itself(self):
        """It reads options and prints; what measures pairs is behind fleet_validation.py."""
        fleet_run = "nova_perf_tuning.validation.fleet.fleet_run"
        wrong = [path.name for path in sorted(CLI.rglob("*.py")) if fleet_run in imports(path)]
        self.assertEqual([], wrong)
