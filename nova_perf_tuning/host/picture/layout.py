# SPDX-License-Identifier: Apache-2.0
"""Where everything of a picture lies: boxes of packages, nodes, L3 groups, cores and CPUs, in
pixels.
"""

import dataclasses
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan.layout import passed_through
from nova_perf_tuning.printing import counted, printable

#: Beyond this number of CPUs an L3 group is one cell.
DETAILED: Final = 256
#: Height of a line of marks, and of what stands above them in a CPU's cell and in a group's.
MARK_HEIGHT, CELL_HEAD, TILE_HEAD = 13, 15, 34
CELL_WIDTH, TILE_WIDTH, _CHIP_WIDTH, _CHIP_HEIGHT = 48, 172, 136, 30
#: Width of a character by its height, of the widest usual font without serifs.
_CHARACTER: Final = 0.62
_HEAD: Final = 15
#: Role -> padding, and the gap between what is in it.
_GAPS: Final[Mapping[str, tuple[float, float]]] = {
    "host": (0, 10),
    "core": (2, 2),
    "no-l3": (0, 6),
}
#: Widths of a state that are tried for the best shape.
_WIDTHS: Final = (330, 420, 560, 700, 860, 1060, 1300, 1600, 2000)


@dataclasses.dataclass(slots=True)
class Box:
    """Something with a place; x and y are absolute once :func:`place` has run.

    :ivar role: ``host``, ``package``, ``node``, ``l3``, ``no-l3``, ``core``, ``cell``, ``chip``,
        ``chip device``.
    :ivar number: of a package, node or CPU; :ivar cpus: all in it.
    :ivar name: of a chip: NIC or PCI address.
    """

    role: str
    label: str = ""
    number: int | None = None
    cpus: tuple[int, ...] = ()
    children: list["Box"] = dataclasses.field(default_factory=list)
    name: str = ""
    x: float = 0
    y: float = 0
    width: float = 0
    height: float = 0

    @property
    def place(self) -> tuple[float, float, float, float]:
        return self.x, self.y, self.width, self.height

    def walk(self, *roles: str) -> Iterator["Box"]:
        """Yield this box and all in it that have one of the roles, outer ones first."""
        if not roles or self.role in roles:
            yield self
        for child in self.children:
            yield from child.walk(*roles)


def text_width(text: str, size: float = 10) -> float:
    """Return the width that a text may take, wide characters counted double."""
    characters = len(text)
    for char in text:
        if unicodedata.east_asian_width(char) in "WF":
            characters += 1
    return characters * size * _CHARACTER


def fit(text: str, width: float, size: float = 10) -> str:
    """Return what of a text surely fits into a width."""
    text = printable(text[:400])
    if text_width(text, size) <= width:
        return text
    for end in range(len(text) - 1, 0, -1):
        shown = f"{text[:end]}…"
        if text_width(shown, size) <= width:
            return shown
    return ""


def tree(facts: host_model.HostFacts) -> Box:
    """Return the boxes of a host, nowhere yet."""
    counts = _counts(facts)
    # As a rule packages hold nodes, and these L3 groups; of kinds that are there, the fewer hold
    # the more.
    kinds = sorted(counts, key=lambda kind: counts[kind] or math.inf)
    cpus = _with_offline(facts, kinds[: kinds.index("node")])
    memory = {node.id: node.memory_kib for node in facts.nodes}
    host = Box("host", children=_nest(cpus, kinds, memory, len(cpus) > DETAILED))
    shown = {box.number for box in host.walk("node")}
    for number, size in memory.items():
        if number not in shown:
            host.children.append(_box("node", number, [], size))
    chips = _chips(facts)
    for box in host.walk("node"):
        box.children[:0] = chips.pop(box.number, [])
    of_no_node: list[Box] = []
    for rest in chips.values():
        of_no_node += rest
    host.children[:0] = of_no_node
    return host


def _counts(facts: host_model.HostFacts) -> dict[str, int]:
    """Return how many packages, nodes and L3 groups the online CPUs have."""
    counts: dict[str, int] = {}
    for kind in ("package", "node", "l3"):
        there = {getattr(cpu, kind) for cpu in facts.cpus if cpu.online}
        counts[kind] = len(there - {None})
    return counts


def _with_offline(facts: host_model.HostFacts, kinds: Sequence[str]) -> list[host_model.Cpu]:
    """Return all CPUs, offline ones where online ones of their node are.

    Of an offline CPU only the node is known; what holds this node (``kinds``) holds it, too.
    """
    online = {cpu.node: cpu for cpu in facts.cpus if cpu.online}
    cpus: list[host_model.Cpu] = []
    for cpu in facts.cpus:
        if not cpu.online and cpu.node in online:
            known = {kind: getattr(online[cpu.node], kind) for kind in kinds}
            cpu = dataclasses.replace(cpu, **known)
        cpus.append(cpu)
    return cpus


def _nest(
    cpus: Sequence[host_model.Cpu],
    kinds: Sequence[str],
    memory: Mapping[int, int | None],
    collapsed: bool,
) -> list[Box]:
    """Return the boxes of CPUs, of the first kind and all others inside.

    :param memory: of each node, in KiB. :param collapsed: one cell stands for all CPUs of a box.
    """
    if not kinds and collapsed:
        return [Box("cell", cpulist.format(_numbers(cpus)), None, _numbers(cpus))]
    if not kinds:
        return _cores(cpus)
    kind = kinds[0]
    groups = grouped((getattr(cpu, kind), cpu) for cpu in cpus)
    boxes: list[Box] = []
    for key, members in groups.items():
        if kind == "l3":
            box = _l3(key, members)
        elif kind == "node" and isinstance(key, int):
            box = _box(kind, key, members, memory.get(key))
        else:
            box = _box(kind, key, members, None)
        box.children = _nest(members, kinds[1:], memory, collapsed)
        boxes.append(box)
    return boxes


def _cores(cpus: Sequence[host_model.Cpu]) -> list[Box]:
    """Return the cores of CPUs, with a cell for each thread; an offline CPU is a core of its own."""
    groups: dict[str, list[host_model.Cpu]] = {}
    for cpu in cpus:
        core = cpu.siblings if cpu.online else f"{cpu.id} offline"
        groups.setdefault(core, []).append(cpu)
    cores: list[Box] = []
    for members in groups.values():
        box = Box("core", "", None, _numbers(members))
        for cpu in members:
            box.children.append(Box("cell", str(cpu.id), cpu.id, (cpu.id,)))
        cores.append(box)
    return cores


def _numbers(cpus: Sequence[host_model.Cpu]) -> tuple[int, ...]:
    return tuple(cpu.id for cpu in cpus)


def _box(
    kind: str, key: int | str | None, cpus: Sequence[host_model.Cpu], memory: int | None
) -> Box:
    """Return the box of a package or node, empty yet.

    :param memory: of a node, in KiB; None where it is not known.
    """
    number = None
    name = "unknown"
    if isinstance(key, int):
        number = key
        name = str(key)
    label = f"{kind} {name}: "
    if kind == "node":
        label = f"NUMA {label}"
    if memory:
        label += f"{memory / (1 << 20):.1f} GiB, "
    elif memory == 0:
        label += "no memory, "
    online = sum(cpu.online for cpu in cpus)
    label += counted(online, "CPU")
    if online < len(cpus):
        label += f", {len(cpus) - online} offline"
    return Box(kind, label, number, _numbers(cpus))


def _l3(key: int | str | None, cpus: Sequence[host_model.Cpu]) -> Box:
    """Return the box of an L3 group, empty yet; CPUs without an L3 cache are a group as well."""
    if key is None:
        return Box("no-l3", "", None, _numbers(cpus))
    cores = {cpu.siblings for cpu in cpus}
    return Box("l3", f"L3: {counted(len(cores), 'core')}", None, _numbers(cpus))


def _chips(facts: host_model.HostFacts) -> dict[int | None, list[Box]]:
    """Return the chips of NICs and passed-through devices by node; None where that is unknown."""
    passed = passed_through(facts)
    found: list[tuple[int | None, Box]] = []
    for nic in facts.nics:
        if nic.kind in ("physical", "vf") and (nic.pci or "").lower() not in passed:
            parts: list[str] = []
            if nic.speed_mbps:
                parts.append(f"{nic.speed_mbps / 1000:g} Gbit/s")
            if nic.rx_queues:
                parts.append(counted(nic.rx_queues, "queue"))
            label = ", ".join(parts)
            found.append((nic.node, Box("chip", label, name=nic.name)))
    node_of = {(irq.device or "").lower(): irq.node for irq in facts.irqs.values()}
    for name in sorted(passed):
        found.append((node_of.get(name), Box("chip device", f"of {passed[name]}", name=name)))
    known = {node.id for node in facts.nodes}
    chips: dict[int | None, list[Box]] = {}
    for node, box in found:
        place = node if node in known else None
        chips.setdefault(place, []).append(box)
    return chips


def place(host: Box, rows: int, shape: float) -> None:
    """Give every box its size and place, the host's at 0, 0.

    :param rows: of marks in each cell; :param shape: the best width by height.
    """
    best = min(_WIDTHS, key=lambda width: abs(math.log(_arrange(host, width, rows) / shape)))
    _arrange(host, best, rows)
    for box in host.walk():
        for child in box.children:
            child.x, child.y = child.x + box.x, child.y + box.y


def _arrange(box: Box, limit: float, rows: int) -> float:
    """Place what is in a box in lines of at most ``limit``; return its width by its height.

    Boxes with CPUs stand in columns; chips, and nodes that have none, fill lines of their own.
    """
    if box.role == "cell":
        box.width, box.height = CELL_WIDTH, CELL_HEAD + MARK_HEIGHT * rows
        if box.number is None:
            box.width, box.height = TILE_WIDTH, TILE_HEAD + MARK_HEIGHT * rows
    if box.name:
        box.width, box.height = _CHIP_WIDTH, _CHIP_HEIGHT
    if not box.children and box.width:
        return 1
    padding, gap = _GAPS.get(box.role, (7, 6))
    with_cpus = [child for child in box.children if child.cpus]
    is_grid = bool(with_cpus) and with_cpus[0].role in ("core", "cell")
    inner = math.inf if is_grid else limit - 2 * padding
    for child in box.children:
        _arrange(child, inner, rows)
    if is_grid:
        columns = _columns(len(with_cpus))
    else:
        columns = _fitting(with_cpus, inner + gap, gap)
    x = y = padding
    if box.label:
        y += _HEAD
    right = height = 0.0  # of all lines, of this line
    count = 0
    before: Box | None = None
    for child in box.children:
        full = count == columns if child.cpus else x + child.width > inner + padding
        if before is not None and (full or bool(before.cpus) != bool(child.cpus)):
            x, y = padding, y + height + gap
            height, count = 0.0, 0
        child.x, child.y = x, y
        right = max(right, x + child.width)
        height = max(height, child.height)
        count += 1
        x += child.width + gap
        before = child
    box.width = right + padding
    if box.label:
        box.width = max(box.width, text_width(box.label) + 2 * padding)
    box.height = y + height + padding
    return box.width / box.height


def _fitting(boxes: Sequence[Box], width: float, gap: float) -> int:
    """Return how many boxes stand side by side, so that all lines of them are equally full."""
    widest = max((box.width for box in boxes), default=1)
    in_line = width // (widest + gap)
    lines = math.ceil(len(boxes) / max(1, in_line))
    return math.ceil(len(boxes) / max(1, lines))


def _columns(number: int) -> int:
    """Return how many of equal things stand side by side: a divisor where one is near."""
    root = math.sqrt(number)
    for count in range(math.ceil(root), int(2 * root) + 1):
        if number % count == 0:
            return count
    return math.ceil(root)
