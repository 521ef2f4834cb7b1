"""Print "PASSED FAILED" of a stestr run from the totals that it printed."""

import re
import sys


def count(text: str) -> tuple[int, int]:
    """Return how many tests passed and failed; a run without totals counts as nothing passed."""
    totals = {name: int(number) for name, number in re.findall(r"^ - (\w[\w ]*): (\d+)$", text, re.MULTILINE)}
    return totals.get("Passed", 0), totals.get("Failed", 0) + totals.get("Unexpected Success", 0)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8", errors="replace") as stream:
        print(*count(stream.read()))
