"""Every block of commands that a newcomer reads is run here, or says where it is run.

Above each literal block of the pages below (above the paragraph that ends with ``::``) stands a comment of
reStructuredText, ``.. tried: WHERE``. WHERE is

``here``
    This test runs the block with bash, in an empty folder; ``here, exit code N`` when it is to end with N.
a file or folder of the tree
    The test or tool that runs these commands.
``YYYY-MM-DD, ...``
    Somebody ran it on that day, on what follows.
``no commands``
    A diagram, a listing, a configuration file.
"""

import dataclasses
import os
import pathlib
import re
import subprocess
import sys

import fixtures
import testtools

TOP = pathlib.Path(__file__).parents[3]
PAGES = (
    "README.rst",
    "devstack/README.rst",
    "doc/source/install.rst",
    "doc/source/quickstart.rst",
    "doc/source/tutorial.rst",
    "doc/source/admin/devstack.rst",
    "doc/source/admin/upgrade.rst",
    "doc/source/contributor/extending.rst",
)
MARK = re.compile(r"\.\. tried: (.+)")
HERE = re.compile(r"here(?:, exit code (\d))?")
DAY = re.compile(r"20\d\d-\d\d-\d\d, .+")


@dataclasses.dataclass
class Block:
    """A literal block: where it is, what it holds, the words of its mark or None."""

    place: str
    text: str
    mark: str | None


def blocks(page):
    """Yield the literal blocks of a page."""
    lines = (TOP / page).read_text(encoding="utf-8").splitlines()
    for number, line in enumerate(lines):
        if not line.rstrip().endswith("::") or line.lstrip().startswith(".. "):
            continue
        depth = len(line) - len(line.lstrip())
        body = []
        for following in lines[number + 1 :]:
            if following.strip() and len(following) - len(following.lstrip()) <= depth:
                break
            body.append(following)
        indent = min((len(one) - len(one.lstrip()) for one in body if one.strip()), default=0)
        text = "\n".join(one[indent:] for one in body).strip()
        yield Block(f"{page}:{number + 1}", text, mark_above(lines, number))


def mark_above(lines, number):
    """Return the mark above the paragraph that ends in line ``number``."""
    while number >= 0 and lines[number].strip():
        if found := MARK.fullmatch(lines[number].strip()):
            return found[1]
        number -= 1
    while number >= 0 and not lines[number].strip():
        number -= 1
    found = MARK.fullmatch(lines[number].strip()) if number >= 0 else None
    return found[1] if found else None


class CommandsTest(testtools.TestCase):
    def test_every_block_says_where_it_is_tried(self):
        found = [block for page in PAGES for block in blocks(page)]
        self.assertGreater(len(found), 20)
        self.assertEqual([], [block.place for block in found if block.mark is None])
        self.assertEqual([], [f"{block.place}: {block.mark}" for block in found if not self.is_known(block.mark)])

    @staticmethod
    def is_known(mark):
        return bool(HERE.fullmatch(mark) or DAY.fullmatch(mark) or mark == "no commands" or (TOP / mark).exists())

    def test_blocks_that_are_run_here(self):
        folder = self.useFixture(fixtures.TempDir()).path
        programs = pathlib.Path(sys.executable).parent
        environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "COLUMNS": "120"}
        ran = 0
        for block in (block for page in PAGES for block in blocks(page)):
            here = HERE.fullmatch(block.mark or "")
            if here is None:
                continue
            done = subprocess.run(
                ["bash", "-e", "-c", block.text], cwd=folder, env=environment, capture_output=True, text=True
            )
            said = f"{block.place}\n{block.text}\n{done.stdout[-2000:]}{done.stderr}"
            self.assertEqual(int(here[1] or 0), done.returncode, said)
            ran += 1
        self.assertGreater(ran, 5)
