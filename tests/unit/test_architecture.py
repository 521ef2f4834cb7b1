# SPDX-License-Identifier: Apache-2.0
"""The architecture page names files, functions and classes that are there."""

import ast
import pathlib
import re

from tests.support import testcase

TOP = pathlib.Path(__file__).parents[2]
PLACE = re.compile(r"``((?:specs|guest|host|nova|agent|validation|cli)/[\w/]+\.py)(?::(\w+))?``")


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
