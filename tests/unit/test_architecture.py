# SPDX-License-Identifier: Apache-2.0
"""The architecture page names what is there, and a class has its name alone."""

import ast
import collections
import pathlib
import re
import tomllib

from tests.support import testcase

TOP = pathlib.Path(__file__).parents[2]
PLACE = re.compile(
    r"``((?:specs|guest|host|nova|agent|validation|placement|cli)/[\w/]+\.py)(?::(\w+))?``"
)
#: A module without it has no public class.
CLASS = re.compile(r"^class [^_]", re.MULTILINE)


class ArchitectureTest(testcase.TestCase):
    def test_every_place_is_there(self):
        page = (TOP / "doc/source/contributor/architecture.rst").read_text(encoding="utf-8")
        wrong, seen = [], 0
        for file, name in PLACE.findall(page):
            path = TOP / "nova_perf_tuning" / file
            nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if path.exists() else ()
            names = {
                node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)
            }
            if not path.exists() or (name and name not in names):
                wrong.append(f"{file}:{name}")
            seen += 1
        self.assertEqual([], wrong)
        self.assertGreater(seen, 25)


class ClassNameTest(testcase.TestCase):
    def test_each_class_has_its_name_alone(self):
        """Entry points name their classes for users; every other name means one class."""
        project = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
        named = set()
        for points in project["project"]["entry-points"].values():
            named.update(points.values())
        places = collections.defaultdict(list)
        for path in sorted((TOP / "nova_perf_tuning").rglob("*.py")):
            module = ".".join(path.relative_to(TOP).with_suffix("").parts)
            text = path.read_text(encoding="utf-8")
            if not CLASS.search(text):
                continue
            for node in ast.parse(text).body:
                if not isinstance(node, ast.ClassDef) or node.name.startswith("_"):
                    continue
                if f"{module}:{node.name}" not in named:
                    places[node.name].append(module)
        twins = {name: modules for name, modules in places.items() if len(modules) > 1}
        self.assertEqual({}, twins)
        self.assertIn("Finding", places)
