"""Names of functions and variables that DevStack's shell code has, branch by branch.

    python -m tests.unit.devstack.names stable/2026.1=FOLDER master=FOLDER > tests/unit/devstack/names.txt

FOLDER is the tree of that branch. A line of the file is a kind, a name, and the branch where not all have it.
"""

import pathlib
import re
import sys

RECORDED = pathlib.Path(__file__).with_name("names.txt")
PATTERNS = {
    "function": re.compile(r"^\s*function (\w+)", re.MULTILINE),
    "variable": re.compile(r"^\s*(?:export |declare (?:-\w+ )?)?([A-Z][A-Z0-9_]+)\+?=", re.MULTILINE),
}
#: What stack.sh sources before a plugin's first phase, and itself.
FILES = ("stack.sh", "stackrc", "openrc", "functions", "functions-common", "inc/*", "lib/**/*")


def read(tree):
    """Return (kind, name) of everything in a tree of DevStack's."""
    files = {path for pattern in FILES for path in pathlib.Path(tree).glob(pattern) if path.is_file()}
    texts = [path.read_text(encoding="utf-8") for path in files]
    return {(kind, name) for kind, pattern in PATTERNS.items() for text in texts for name in pattern.findall(text)}


def recorded():
    """Return branch -> (kind, name) of everything that it has."""
    first, *lines = RECORDED.read_text(encoding="utf-8").splitlines()
    branches = first.split()[1:]
    found = {branch: set() for branch in branches}
    for line in lines:
        kind, name, *only = line.split()
        for branch in only or branches:
            found[branch].add((kind, name))
    return found


def main():
    trees = dict(one.split("=", 1) for one in sys.argv[1:])
    found = {branch: read(tree) for branch, tree in trees.items()}
    print("branches", *found)
    for kind, name in sorted(set().union(*found.values())):
        having = [branch for branch, names in found.items() if (kind, name) in names]
        print(kind, name, *(having if len(having) < len(found) else ()))


if __name__ == "__main__":
    main()
