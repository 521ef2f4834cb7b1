# SPDX-License-Identifier: Apache-2.0
"""The plots of the documentation are those of the figures that are recorded in the tree."""

import pathlib
import re
import sys

from tests.support import directories, patience

TOP = pathlib.Path(__file__).parents[3]
PROGRAM = TOP / "doc/make_pictures.py"
NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


class PicturesTest(directories.DirectoryCase):
    def test_plots_are_those_of_the_recorded_figures(self):
        environment = {"PYTHONPATH": str(TOP), "PYTHONDONTWRITEBYTECODE": "1"}
        argv = [sys.executable, PROGRAM, "--plots-only", "--output", self.directory]
        done = patience.run(argv, env=environment)
        self.assertEqual(0, done.returncode, done.stderr)
        made = {path.name: path.read_text() for path in self.directory.iterdir()}
        kept = {path.name: path.read_text() for path in (TOP / "doc/source/_static").glob("*.svg")}
        self.assertEqual(kept.keys(), made.keys())
        for name, text in made.items():
            self.assertEqual(NUMBER.sub("#", kept[name]), NUMBER.sub("#", text), name)
            # Ends of intervals are drawn at random with a seed: another numpy may move them by a pixel.
            pairs = zip(NUMBER.findall(kept[name]), NUMBER.findall(text), strict=True)
            self.assertEqual(
                [], [pair for pair in pairs if abs(float(pair[0]) - float(pair[1])) > 1], name
            )

    def test_every_picture_is_shown_somewhere(self):
        pages = [TOP / "README.rst", *(TOP / "doc/source").rglob("*.rst")]
        shown = {name for page in pages for name in re.findall(r"_static/(\S+)", page.read_text())}
        self.assertEqual({path.name for path in (TOP / "doc/source/_static").iterdir()}, shown)
