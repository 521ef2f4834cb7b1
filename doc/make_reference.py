#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the parts of the pages that are made from the code: ``doc/make_reference.py``.

    doc/make_reference.py            write them into the pages
    doc/make_reference.py --check    name the pages that are behind the code, and end with 1

A part stands in a page between two comments, of which the first names it. The modules in doc/generators make the
parts. It needs the extras agent, validation, cloud and test.
"""

import argparse
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TOP), str(TOP / "doc/generators")]

import code_reference  # noqa: E402
import command_reference  # noqa: E402
import count_figures  # noqa: E402
import metric_reference  # noqa: E402
import placement_figures  # noqa: E402
import published_figures  # noqa: E402
import sosreport_rules  # noqa: E402

PARTS = {
    **code_reference.PARTS,
    **command_reference.PARTS,
    **count_figures.PARTS,
    **metric_reference.PARTS,
    **placement_figures.PARTS,
    **published_figures.PARTS,
    **sosreport_rules.PARTS,
}
END = ".. end of what doc/make_reference.py made"
#: A part that was not made yet has no end; the next one is not taken for it.
PART = re.compile(
    r"^(\.\. made by doc/make_reference\.py: (.+))\n"
    rf"(?:(?:(?!\.\. made by ).*\n)*?{re.escape(END)}\n)?",
    re.MULTILINE,
)


def made(text: str) -> str:
    """Return a page with its generated parts as the code makes them now."""

    def part(match: re.Match[str]) -> str:
        name, *arguments = match[2].split()
        lines = PARTS[name](*arguments).lines()
        return "\n".join([match[1], "", *lines]).rstrip() + f"\n\n{END}\n"

    return PART.sub(part, text)


def pages() -> list[pathlib.Path]:
    """Return the pages that have such a part."""
    found = []
    for path in sorted((TOP / "doc/source").rglob("*.rst")):
        if PART.search(path.read_text(encoding="utf-8")):
            found.append(path)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args().check
    code = 0
    for path in pages():
        before = path.read_text(encoding="utf-8")
        after = made(before)
        if after == before:
            continue
        if check:
            print(f"{path.relative_to(TOP)}: run doc/make_reference.py")
            code = 1
        else:
            path.write_text(after, encoding="utf-8")
            print(path.relative_to(TOP))
    return code


if __name__ == "__main__":
    sys.exit(main())
