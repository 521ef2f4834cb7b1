# SPDX-License-Identifier: Apache-2.0
"""Print of logs of stestr runs "PASSED FAILED", or with --slowest their ten slowest tests."""

import re
import sys


def count(text: str) -> tuple[int, int]:
    """Return how many tests passed and failed; a run without totals counts as nothing passed."""
    totals = {
        name: int(number)
        for name, number in re.findall(r"^ - (\w[\w ]*): (\d+)$", text, re.MULTILINE)
    }
    return totals.get("Passed", 0), totals.get("Failed", 0) + totals.get("Unexpected Success", 0)


def slowest(text: str, number: int = 10) -> list[tuple[float, str]]:
    """Return (seconds, name) of the slowest tests, the slowest first."""
    found = re.findall(r"^\{\d+\} (\S+)(?: .*)? \[([\d.]+)s\] \.\.\. ", text, re.MULTILINE)
    return sorted(((float(seconds), name) for name, seconds in found), reverse=True)[:number]


if __name__ == "__main__":
    paths = [path for path in sys.argv[1:] if path != "--slowest"]
    text = ""
    for path in paths:
        with open(path, encoding="utf-8", errors="replace") as stream:
            text += stream.read()
    if "--slowest" in sys.argv:
        for seconds, name in slowest(text):
            print(f"{seconds:7.1f} s  {name}")
    else:
        print(*count(text))
