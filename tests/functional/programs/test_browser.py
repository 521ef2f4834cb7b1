# SPDX-License-Identifier: Apache-2.0
"""Chromium opens pictures and the report: nothing is said on its console, and no label lies on another."""

import json
import lzma
import pathlib
import re
import subprocess
import tempfile

from tests.support import directories, gen_host, program, sysroots

TOP = pathlib.Path(__file__).parents[3]
#: Writes pairs of labels that lie on each other in a picture, and their number of labels, in its place.
_SCRIPT = """<script>
for (const picture of document.querySelectorAll("body > svg")) {
  const texts = [...picture.querySelectorAll("text")];
  const labels = texts.map(text => [text.textContent, text.getBoundingClientRect()]);
  const found = [];
  labels.forEach(([name, box], index) => labels.slice(0, index).forEach(([other, beside]) => {
    const width = Math.min(box.right, beside.right) - Math.max(box.left, beside.left);
    const height = Math.min(box.bottom, beside.bottom) - Math.max(box.top, beside.top);
    if (width > 1 && height > 3) found.push(`${name} on ${other}`);
  }));
  const said = document.createElement("p");
  said.textContent = `labels ${labels.length}: ${found.join("; ")}.`;
  picture.replaceWith(said);
}
</script>"""


class BrowserTest(directories.DirectoryCase):
    def opened(self, page: pathlib.Path) -> str:
        """Return what a page has become; nothing may be on the browser's console."""
        options = (
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--enable-logging=stderr",
            "--dump-dom",
        )
        profile = f"--user-data-dir={self.directory}/profile"
        done = subprocess.run(
            ["chromium", *options, profile, page.as_uri()],
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        self.assertEqual([], [line for line in done.stderr.splitlines() if "CONSOLE" in line])
        return done.stdout

    def test_pictures(self) -> None:
        """All in one page, as files of their own and as part of it: a browser takes seconds to start."""
        least = {"tiny": 30, "small": 300, "huge": 600}
        files, parts = [], []
        # The huge host has so many files that a disk takes longer for them than all else does.
        memory = self.enterContext(tempfile.TemporaryDirectory(dir=sysroots.workplace()))
        for preset in least:
            root = gen_host.write(f"{memory}/{preset}", preset)
            path = self.directory / f"{preset}.svg"
            command = "topology" if preset == "tiny" else "plan"
            program.shown(self, command, "--sysroot", root, "--svg", str(path))
            files.append(f'<iframe src="{path.name}"></iframe>')
            parts.append(path.read_text(encoding="utf-8").partition("?>")[2])
        self.assertNotIn(" id=", "".join(parts), "ids of two pictures in one page")
        whole = "".join(parts + files)
        page = self.write_file(
            "page.html", f"<!DOCTYPE html><meta charset=utf-8><body>{whole}{_SCRIPT}"
        )
        said = re.findall(
            "<p>labels ([0-9]+): (.*?)</p>", self.opened(pathlib.Path(page)), re.DOTALL
        )
        self.assertEqual(len(least), len(said))
        for preset, (number, overlaps) in zip(least, said, strict=True):
            with self.subTest(preset):
                self.assertGreater(int(number), least[preset])
                self.assertEqual(".", overlaps)

    def test_report(self) -> None:
        picture = self.directory / "host.svg"
        root = gen_host.write(str(self.directory / "host"), "tiny")
        program.shown(self, "topology", "--sysroot", root, "--svg", str(picture))
        results = json.loads(lzma.decompress((TOP / "doc/source/data/run.json.xz").read_bytes()))
        results["environment"]["arms"]["tuned"]["picture"] = picture.read_text(encoding="utf-8")
        path = self.write_file("run.json", json.dumps(results))
        program.shown(self, "report", path, "-o", str(self.directory / "report.html"))
        self.assertIn("data:image/svg+xml", self.opened(self.directory / "report.html"))
