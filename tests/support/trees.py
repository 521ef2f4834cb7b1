# SPDX-License-Identifier: Apache-2.0
"""Small hand-made hosts: a dictionary of paths becomes a directory that is removed after the test."""

import os
import tempfile
from collections.abc import Mapping

from tests.support import testcase
from tests.support.sysroots import workplace

#: A tree's value for a directory of its own, and for a link: ``("-> ", target)``.
DIRECTORY = None
Tree = Mapping[str, str | None]


def link(target: str) -> str:
    """Return the value that makes a link to ``target``."""
    return f"-> {target}"


def grow(test: testcase.TestCase, tree: Tree, end: str = "\n") -> str:
    """Write ``tree`` (path -> text without ``end``, ``DIRECTORY`` or :func:`link`) and return its root."""
    directory = test.enterContext(
        tempfile.TemporaryDirectory(prefix="nova-perf-tree-", dir=workplace())
    )
    write(directory, tree, end)
    return directory


def write(directory: str, tree: Tree, end: str = "\n") -> None:
    """Write ``tree`` into a directory, see :func:`grow`."""
    for path, text in tree.items():
        place = os.path.join(directory, path)
        os.makedirs(place if text is DIRECTORY else os.path.dirname(place), exist_ok=True)
        if text is None:
            continue
        if text.startswith("-> "):
            os.symlink(text[3:], place)
        else:
            with open(place, "w") as file:
                file.write(text + end)


def cpus(count: int) -> dict[str, str | None]:
    """Return ``count`` CPUs of one thread each in package 0."""
    base = "sys/devices/system/cpu"
    tree: dict[str, str | None] = {f"{base}/online": f"0-{count - 1}", f"{base}/isolated": ""}
    for cpu in range(count):
        topology = f"{base}/cpu{cpu}/topology"
        tree |= {f"{topology}/core_cpus_list": str(cpu), f"{topology}/core_id": str(cpu)}
        tree |= {
            f"{topology}/physical_package_id": "0",
            f"{topology}/package_cpus_list": f"0-{count - 1}",
        }
    return tree
