# SPDX-License-Identifier: Apache-2.0
"""What makes a directory a sosreport, and which of its files are kept."""

import fnmatch
import importlib.resources
import re
import tomllib
from collections.abc import Iterable, Sequence
from typing import Final

from nova_perf_tuning.host.input.sosreport.report import ADDRESS

#: Directories that sos makes at the top of every report. The first holds the outputs of its
#: commands, without which a report is a directory like any other.
MARKS: Final = frozenset(("sos_commands", "sos_reports", "sos_logs", "sos_strings"))
_GLOB: Final = re.compile(r"[*?\[]")
#: A device behind five bridges has twelve parts.
_DEEPEST: Final = 16
_NET: Final = "sys/class/net/*"
_PCI: Final = "sys/bus/pci/devices/*"


class PathPattern:
    """A directory in a set of patterns of paths: what may be in it, by name and by pattern."""

    def __init__(self) -> None:
        self.by_name: dict[str, PathPattern] = {}
        self.by_pattern: list[tuple[re.Pattern[str], PathPattern]] = []
        self.ends = False

    def add(self, parts: Sequence[str]) -> None:
        """Add a pattern."""
        node = self
        for part in parts:
            node = node._child(part)
        node.ends = True

    def _child(self, part: str) -> "PathPattern":
        if not _GLOB.search(part):
            return self.by_name.setdefault(part, PathPattern())
        pattern = re.compile(fnmatch.translate(part))
        for known, child in self.by_pattern:
            if known.pattern == pattern.pattern:
                return child
        self.by_pattern.append((pattern, PathPattern()))
        return self.by_pattern[-1][1]

    def below(self, part: str) -> list["PathPattern"]:
        """Return the nodes that a name in this directory may be."""
        nodes: list[PathPattern] = []
        if part in self.by_name:
            nodes.append(self.by_name[part])
        for pattern, node in self.by_pattern:
            if pattern.match(part):
                nodes.append(node)
        return nodes


def _follow(start: Iterable[PathPattern], parts: Sequence[str]) -> list[PathPattern]:
    nodes = list(start)
    for part in parts:
        nodes = [child for node in nodes for child in node.below(part)]
        if not nodes:
            break
    return nodes


def _load() -> PathPattern:
    """Return the patterns of this package and those of a recorded host."""
    tree = PathPattern()
    here = importlib.resources.files(__package__)
    recorded = importlib.resources.files("nova_perf_tuning.host.input") / "recorded.toml"
    for path in tomllib.loads((here / "kept.toml").read_text(encoding="utf-8"))["paths"]:
        tree.add(path.split("/"))
    tables = tomllib.loads(recorded.read_text(encoding="utf-8"))
    for table in (tables["files"], tables["names"]):
        for directory, names in table.items():
            for name in names.split():
                tree.add(f"{directory}/{name}".split("/"))
    return tree


_TREE: Final = _load()
_OF_NET: Final = _follow([_TREE], _NET.split("/"))
_OF_PCI: Final = _follow([_TREE], _PCI.split("/"))


def is_report(names: Iterable[str]) -> bool:
    """Whether a directory with these names in it is a sosreport."""
    return "sos_commands" in names


def top_of(parts: Sequence[str]) -> int | None:
    """Return how many directories are around a report, if the path of a member shows that it is
    one.

    sos packs one directory; some pack its content again.
    """
    for index in (0, 1):
        if index < len(parts) and parts[index] in MARKS:
            return index
    if parts and parts[0].startswith("sosreport-"):
        return 1
    return None


def keeps(parts: Sequence[str]) -> bool:
    """Whether a file, link or empty directory below the top of a report is kept."""
    return any(node.ends for node in _nodes(parts))


def enters(parts: Sequence[str]) -> bool:
    """Whether a directory below the top of a report may hold what is kept."""
    for node in _nodes(parts):
        if node.by_name or node.by_pattern:
            return True
    # Devices of /sys/class/net and of the PCI bus lie anywhere below the others.
    if tuple(parts[:2]) != ("sys", "devices") or len(parts) > _DEEPEST:
        return False
    return len(parts) < 3 or parts[2] not in ("system", "virtual")


def _nodes(parts: Sequence[str]) -> list[PathPattern]:
    """Return the patterns that a path follows, also where the directory of a network or PCI device
    is.
    """
    nodes = _follow([_TREE], parts)
    if len(parts) > 4 and tuple(parts[:2]) == ("sys", "devices"):
        for index in range(2, len(parts) - 1):
            if parts[index] == "net":
                nodes += _follow(_OF_NET, parts[index + 2 :])
            if ADDRESS.fullmatch(parts[index]):
                nodes += _follow(_OF_PCI, parts[index + 1 :])
    return nodes
