# SPDX-License-Identifier: Apache-2.0
"""What hwloc found on a recorded host: reads the .console and .xml files beside the recorded hosts."""

import dataclasses
import os
import pathlib
import re
from xml.etree import ElementTree

_REPOSITORY = pathlib.Path(__file__).parents[2]
DIRECTORY = pathlib.Path(
    os.environ.get("NOVA_PERF_TOPOLOGIES") or _REPOSITORY.parent / "shared" / "data" / "topologies"
)
HOSTS = sorted(path.name.removesuffix(".tar.bz2") for path in DIRECTORY.glob("*.tar.bz2"))
_OBJECT = re.compile(r"^( *)(\w+)(?:\([^)]*\))? L#(\d+)(?: \(P#(\d+))?")
_LOCAL = re.compile(r"local=(\d+)(KiB|MiB|GiB)")
_UNITS = {"KiB": 1, "MiB": 1 << 10, "GiB": 1 << 20}


@dataclasses.dataclass
class Object:
    """One package, core, NUMA node or CPU.

    :ivar memory: number and its unit in KiB: hwloc's console rounds to the nearest; None but for NUMA nodes.
    """

    kind: str
    number: int | None
    logical: int
    cpus: set[int] = dataclasses.field(default_factory=set)
    memory: tuple[int, int] | None = None


@dataclasses.dataclass
class Expected:
    """A host as hwloc sees it; ``hidden`` are CPUs that it leaves out (offline or forbidden)."""

    objects: list[Object]
    hidden: set[int]
    distances: dict[tuple[int, int], int]

    def of(self, kind: str) -> list[Object]:
        return [item for item in self.objects if item.kind == kind]

    @property
    def cpus(self) -> set[int]:
        return {item.number for item in self.of("PU") if item.number is not None}


def read(path: pathlib.Path) -> Expected:
    """Read an expected result, by its suffix."""
    return _read_xml(path) if path.suffix == ".xml" else _read_console(path.read_text())


def _bits(mask: str) -> set[int]:
    """CPUs of hwloc's masks: ``0x000000ff,0xffffffff``."""
    groups = [int(group or "0", 16) for group in mask.split(",")]
    bits = sum(group << 32 * place for place, group in enumerate(reversed(groups)))
    return {bit for bit in range(bits.bit_length()) if bits >> bit & 1}


def _read_console(text: str) -> Expected:
    objects: list[Object] = []
    open_objects: list[tuple[int, Object]] = []  # indent and object of the line and its parents
    nodes: list[tuple[Object, Object]] = []  # NUMA node, the object it hangs on
    for line in text.splitlines():
        match = _OBJECT.match(line) if line.strip() else None
        if match is None or line.startswith("Machine"):
            if line.startswith("Machine"):
                open_objects = [(-1, Object("Machine", None, 0))]
            elif line.startswith("depth"):
                break
            continue
        indent = len(match[1])
        while open_objects[-1][0] >= indent:
            open_objects.pop()
        item = Object(match[2], int(match[4]) if match[4] else None, int(match[3]))
        if item.kind == "NUMANode":
            local = _LOCAL.search(line)
            assert local, line
            item.memory = int(local[1]), _UNITS[local[2]]
            parents = [parent for _, parent in open_objects if parent.kind != "MemCache"]
            nodes.append((item, parents[-1]))
        elif item.kind == "PU":
            assert item.number is not None, line
            item.cpus = {item.number}
            for _, parent in open_objects:
                parent.cpus.add(item.number)
        objects.append(item)
        open_objects.append((indent, item))
    for node, parent in nodes:
        node.cpus = parent.cpus
    hidden = re.search(r"^\d+ processors not represented in topology: (\S+)", text, re.MULTILINE)
    return Expected(
        objects, _bits(hidden[1]) if hidden else set(), _console_distances(text, objects)
    )


def _console_distances(text: str, objects: list[Object]) -> dict[tuple[int, int], int]:
    numbers = {item.logical: item.number for item in objects if item.kind == "NUMANode"}
    lines = iter(text.splitlines())
    for line in lines:
        if line.startswith("Relative latency matrix") and "NUMALatency" in line:
            columns = [int(word) for word in next(lines).split()[1:]]
            rows = [[int(word) for word in next(lines).split()] for _ in columns]
            return {
                (numbers[row[0]], numbers[to]): d
                for row in rows
                for to, d in zip(columns, row[1:], strict=True)
            }
    return {}


def _read_xml(path: pathlib.Path) -> Expected:
    root = ElementTree.parse(path).getroot()
    objects = []
    machine = root.find("object")
    assert machine is not None, path
    for element in machine.iter("object"):
        kind, number = element.attrib["type"], element.get("os_index")
        if kind in ("Package", "L3Cache", "Core", "PU", "NUMANode"):
            item = Object(
                kind,
                int(number) if number else None,
                len(objects),
                _bits(element.attrib["cpuset"]),
            )
            if kind == "NUMANode":
                item.memory = int(element.attrib["local_memory"]) // 1024, 1
            objects.append(item)
    distances = {}
    matrix = root.find("distances2[@name='NUMALatency']")
    if matrix is not None:
        ids = [
            int(word)
            for element in matrix.findall("indexes")
            for word in (element.text or "").split()
        ]
        values = [
            int(word)
            for element in matrix.findall("u64values")
            for word in (element.text or "").split()
        ]
        distances = {
            (a, b): values[i * len(ids) + j] for i, a in enumerate(ids) for j, b in enumerate(ids)
        }
    hidden = _bits(machine.attrib["complete_cpuset"]) - _bits(machine.attrib["cpuset"])
    return Expected(objects, hidden, distances)
