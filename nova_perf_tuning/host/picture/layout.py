# SPDX-License-Identifier: Apache-2.0
"""Where everything of a picture lies: boxes of packages, nodes, L3 groups, cores and CPUs, in pixels."""

import dataclasses
import math
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host import model
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
_GAPS: Final[Mapping[str, tuple[float, float]]] = {"host": (0, 10), "core": (2, 2), "no-l3": (0, 6)}
#: Widths of a state that are tried for the best shape.
_WIDTHS: Final = (330, 420, 560, 700, 860, 1060, 1300, 1600, 2000)


@dataclasses.dataclass(slots=True)
class Box:
    """Something with a place; x and y are absolute once :func:`place` has run.

    :ivar role: ``host``, ``package``, ``node``, ``l3``, ``no-l3``, ``core``, ``cell``, ``chip``, ``chip device``.
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
    return sum(2 if unicodedata.east_asian_width(char) in "WF" else 1 for char in text) * size * _CHARACTER


def fit(text: str, width: float, size: float = 10) -> str:
    """Return what of a text surely fits into a width."""
    text = printable(text[:400])
    ends = (f"{text[:end]}…" for end in range(len(text) - 1, 0, -1))
    return next((shown for shown in (text, *ends) if text_width(shown, size) <= width), "")


def tree(facts: model.HostFacts) -> Box:
    """Return the boxes of a host, nowhere yet."""
    online = [cpu for cpu in facts.cpus if cpu.online]
    # As a rule packages hold nodes, and these L3 groups; of kinds that are there, the fewer hold the more.
    counts = {kind: len({getattr(cpu, kind) for cpu in online} - {None}) for kind in ("package", "node", "l3")}
    kinds = sorted(counts, key=lambda kind: counts[kind] or math.inf)
    # Of an offline CPU only the node is known; what holds this node holds it, too.
    beside, known = {cpu.node: cpu for cpu in online}, kinds[: kinds.index("node")]
    cpus = [
        cpu
        if cpu.online or cpu.node not in beside
        else dataclasses.replace(cpu, **{kind: getattr(beside[cpu.node], kind) for kind in known})
        for cpu in facts.cpus
    ]
    nodes = {node.id: node.memory_kib for node in facts.nodes}
    host = Box("host", children=_nest(cpus, kinds, nodes, len(cpus) > DETAILED))
    shown = {box.number for box in host.walk("node")}
    host.children += [_box("node", number, [], memory) for number, memory in nodes.items() if number not in shown]
    chips = _chips(facts)
    for box in host.walk("node"):
        box.children[:0] = chips.pop(box.number, [])
    host.children[:0] = [chip for rest in chips.values() for chip in rest]
    return host


def _nest(
    cpus: Sequence[model.Cpu], kinds: Sequence[str], nodes: Mapping[int, int | None], collapsed: bool
) -> list[Box]:
    """Return the boxes of CPUs, of the first kind and all others inside; :param nodes: memory of each, in KiB."""
    if not kinds and collapsed:
        numbers = tuple(cpu.id for cpu in cpus)
        return [Box("cell", cpulist.format(numbers), None, numbers)]
    groups: dict[int | str | None, list[model.Cpu]] = {}
    for cpu in cpus:
        core = cpu.siblings if cpu.online else f"{cpu.id} offline"
        groups.setdefault(getattr(cpu, kinds[0]) if kinds else core, []).append(cpu)
    boxes = []
    for key, members in groups.items():
        kind = kinds[0] if kinds else "core"
        boxes.append(_box(kind, key, members, nodes.get(key) if kind == "node" and isinstance(key, int) else None))
        if kinds:
            boxes[-1].children = _nest(members, kinds[1:], nodes, collapsed)
        else:
            boxes[-1].children = [Box("cell", str(cpu.id), cpu.id, (cpu.id,)) for cpu in members]
    return boxes


def _box(kind: str, key: int | str | None, cpus: Sequence[model.Cpu], memory: int | None) -> Box:
    """Return a box, empty yet; CPUs without an L3 cache are a group as well."""
    numbers, number = tuple(cpu.id for cpu in cpus), key if isinstance(key, int) else None
    if kind == "core" or (kind == "l3" and key is None):
        return Box("core" if kind == "core" else "no-l3", "", None, numbers)
    if kind == "l3":
        return Box(kind, f"L3: {counted(len({cpu.siblings for cpu in cpus}), 'core')}", None, numbers)
    size = "" if memory is None else f"{memory / (1 << 20):.1f} GiB, " if memory else "no memory, "
    name = f"{'NUMA ' if kind == 'node' else ''}{kind} {'unknown' if number is None else number}"
    online = sum(cpu.online for cpu in cpus)
    offline = f", {len(cpus) - online} offline" if online < len(cpus) else ""
    return Box(kind, f"{name}: {size}{counted(online, 'CPU')}{offline}", number, numbers)


def _chips(facts: model.HostFacts) -> dict[int | None, list[Box]]:
    """Return the chips of NICs and passed-through devices by node; None where that is unknown."""
    passed = passed_through(facts)
    found: list[tuple[int | None, Box]] = []
    for nic in facts.nics:
        if nic.kind in ("physical", "vf") and (nic.pci or "").lower() not in passed:
            speed = f"{nic.speed_mbps / 1000:g} Gbit/s, " if nic.speed_mbps else ""
            found.append((nic.node, Box("chip", f"{speed}{counted(nic.rx_queues, 'queue')}", name=nic.name)))
    node_of = {(irq.device or "").lower(): irq.node for irq in facts.irqs.values()}
    devices = ((node_of.get(name), Box("chip device", f"of {passed[name]}", name=name)) for name in sorted(passed))
    known = {node.id for node in facts.nodes}
    return grouped((node if node in known else None, box) for node, box in (*found, *devices))


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
        is_tile = box.number is None
        box.width = TILE_WIDTH if is_tile else CELL_WIDTH
        box.height = (TILE_HEAD if is_tile else CELL_HEAD) + MARK_HEIGHT * rows
    if box.name:
        box.width, box.height = _CHIP_WIDTH, _CHIP_HEIGHT
    if not box.children and box.width:
        return 1
    padding, gap = _GAPS.get(box.role, (7, 6))
    parts = [child for child in box.children if child.cpus]
    is_grid = bool(parts) and parts[0].role in ("core", "cell")
    inner = math.inf if is_grid else limit - 2 * padding
    for child in box.children:
        _arrange(child, inner, rows)
    in_line = (inner + gap) // (max((child.width for child in parts), default=1) + gap)
    lines = math.ceil(len(parts) / max(1, in_line))
    across = _columns(len(parts)) if is_grid else math.ceil(len(parts) / max(1, lines))
    x, y, line, right, count = padding, padding + (_HEAD if box.label else 0), 0.0, 0.0, 0
    for before, child in zip((None, *box.children), box.children, strict=False):
        full = count == across if child.cpus else x + child.width > inner + padding
        if before and (full or bool(before.cpus) != bool(child.cpus)):
            x, y, line, count = padding, y + line + gap, 0.0, 0
        child.x, child.y = x, y
        right, line, count = max(right, x + child.width), max(line, child.height), count + 1
        x += child.width + gap
    box.width = max(right + padding, text_width(box.label) + 2 * padding if box.label else 0)
    box.height = y + line + padding
    return box.width / box.height


def _columns(number: int) -> int:
    """Return how many of equal things stand side by side: a divisor where one is near."""
    root = math.sqrt(number)
    return next(
        (count for count in range(math.ceil(root), int(2 * root) + 1) if not number % count), math.ceil(root)
    )
