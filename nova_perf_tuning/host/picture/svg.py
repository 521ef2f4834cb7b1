# SPDX-License-Identifier: Apache-2.0
"""The picture of a host as SVG: whose each CPU is, what works on it, and where that disturbs somebody.

It needs nothing else: no script, no font, no other file. Everything has a letter beside its colour.
"""

import collections
import importlib.resources
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from lxml import etree

from nova_perf_tuning import cpulist, errors, rules
from nova_perf_tuning.host import model
from nova_perf_tuning.host.owners import CpuOwners, Owner
from nova_perf_tuning.host.picture import layout
from nova_perf_tuning.host.picture import work as work_module
from nova_perf_tuning.host.picture.layout import Box, fit
from nova_perf_tuning.host.picture.work import Kind, Mark, Work
from nova_perf_tuning.printing import counted, printable

_STYLE: Final = importlib.resources.files(__package__).joinpath("picture.css").read_text(encoding="utf-8")
#: Letter and meaning of an owner, which is its class, too; a guest's CPUs show its number.
_OWNERS: Final = {
    Owner.HOST.value: ("H", "housekeeping"),
    Owner.SHARED.value: ("S", "shared by guests"),
    Owner.GUEST.value: ("G", "dedicated to a guest"),
    Owner.DEDICATED.value: ("D", "dedicated, free"),
    Owner.ISOLATED.value: ("I", "isolated"),
    Owner.TICKLESS.value: ("T", "without a tick"),
    Owner.SLICE.value: ("C", "a slice's own"),
    Owner.PROGRAM.value: ("P", "another program's"),
    "offline": ("×", "offline"),
}
#: What may be of a mark; class, letter and meaning.
_SIGNS: Final = (
    ("wide", "mark wide", "v", "may run on several CPUs"),
    ("conflict", "mark bad", "v", "conflict: on a CPU that is dedicated, isolated or a program's"),
    ("far", "ring far", "", "work of another node"),
    ("moved", "mark leaves", "v", "will not be here any more"),
    ("moved", "mark comes", "v", "comes here"),
)
_MARGIN, _TITLE, _HEAD, _LINE = 14, 50, 38, 17
#: Lines of marks in a cell, the least width of a state, and lines between nodes that can be told apart.
_LINES, _STATE, _FAR_WIRES = 3, 330, 60
#: What is counted under the title: attribute of a CPU and its noun.
_NOUNS = {"package": "package", "node": "NUMA node", "l3": "L3 group", "siblings": "core", "id": "online CPU"}
#: Guests in the legend, and names in a tooltip.
_GUESTS, _NAMES = 36, 4


_States = Sequence[tuple[str, Sequence[Work]]]
_Settings = Sequence[model.Setting]


def draw(facts: model.HostFacts, owners: CpuOwners, name: str = "", settings: _Settings | None = None) -> bytes:
    """Return the picture of a host as it is, and beside it once the settings of a plan hold.

    :param name: of the host, for the title.
    :raises errors.PerfTuningError: no CPU of the host is known.
    """
    states = [("Now", list(work_module.present(facts, owners)))]
    if settings is not None:
        title = f"Planned: {counted(len(settings), 'setting')}, {_changes(settings)} to change"
        states.append((title, work_module.planned(states[0][1], settings)))
    what = "CPUs" if settings is None else "Plan"
    return _Picture(facts, owners, states, settings or ()).render(f"{what} of {name or 'this host'}")


def _changes(settings: _Settings) -> int:
    return sum(setting.current != setting.value for setting in settings)


class _Picture:
    """States of one host side by side: their headings, and the work as it is then."""

    def __init__(self, facts: model.HostFacts, owners: CpuOwners, states: _States, settings: _Settings) -> None:
        if not facts.cpus:
            raise errors.PerfTuningError("no CPU of this host is known: there is nothing to draw")
        self.facts, self.states, self.settings = facts, states, settings
        self.claims = {cpu.id: owners.by_cpu[cpu.id][0] if cpu.online else None for cpu in facts.cpus}
        self.roles = {cpu: claim.owner.value if claim else "offline" for cpu, claim in self.claims.items()}
        self.guests = {claim.name: number for number, claim in enumerate(owners.of_kind(Owner.GUEST), 1)}
        self.node_of = {cpu.id: cpu.node for cpu in facts.cpus}
        self.host = layout.tree(facts)
        self.cells = list(self.host.walk("cell"))
        self.detailed = self.cells[0].number is not None
        self.chips = list(self.host.walk("chip", "chip device"))
        self.numbers = {chip.name: str(number) for number, chip in enumerate(self.chips, 1)}
        self.cell_of = {cpu: index for index, cell in enumerate(self.cells) for cpu in cell.cpus}
        self.marks = [
            work_module.marks(here, beside, self.cell_of, owners, self.node_of)
            for (_title, here), (_beside, beside) in zip(states, reversed(states), strict=True)
        ]
        self.lines = [{cell: self._lines(marks) for cell, marks in every.items()} for every in self.marks]
        rows = max((len(lines) for every in self.lines for lines in every.values()), default=0)
        layout.place(self.host, rows, 1.8 / len(states))

    def _lines(self, marks: Sequence[Mark]) -> list[list[tuple[Mark, str, float]]]:
        """Return marks in lines, each with its code and width; the last code counts those without room."""
        room = (layout.CELL_WIDTH if self.detailed else layout.TILE_WIDTH) - 4
        lines: list[list[tuple[Mark, str, float]]] = [[]]
        for index, mark in enumerate(marks):
            nic = self.numbers.get(next(iter(mark.names)), "?") if mark.kind is Kind.IRQ and self.detailed else ""
            count = mark.names.total()
            code = (nic or mark.kind.value[0]) + (f"{'×' if nic else ''}{count}" if count > 1 else "")
            width = max(11.0, 4.5 + 5.6 * len(code))
            if sum(before for _mark, _code, before in lines[-1]) + width > room:
                if len(lines) == _LINES:
                    lines[-1][-1] = lines[-1][-1][0], f"+{len(marks) - index + 1}", lines[-1][-1][2]
                    break
                lines.append([])
            lines[-1].append((mark, code, width))
        return lines

    def render(self, title: str) -> bytes:
        """Return the whole as a document of its own."""
        step = max(_STATE, self.host.width) + 2 * _MARGIN
        width = max(620.0, len(self.states) * step)
        root = etree.Element("svg", {"class": "np"}, nsmap={None: "http://www.w3.org/2000/svg"})
        _add(root, "title", printable(title))
        _add(root, "style", _STYLE)
        background = _rect(root, (0, 0, width, 0), "bg")
        _text(root, _MARGIN, 24, fit(title, width - 2 * _MARGIN, 16), "t1")
        online = [cpu for cpu in self.facts.cpus if cpu.online]
        counts = {noun: len({getattr(cpu, kind) for cpu in online} - {None}) for kind, noun in _NOUNS.items()}
        counts["NUMA node"] = len(self.facts.nodes)  # also those without CPUs
        summary = [counted(number, noun) for noun, number in counts.items() if number]
        _text(root, _MARGIN, 40, ", ".join([*summary, counted(len(self.facts.guests), "running guest")]), "soft")
        for index in range(len(self.states)):
            self._state(root, index, _MARGIN + index * step)
        bottom = self._rules(root, _TITLE + _HEAD + self.host.height + 14, width)
        size = {"width": f"{width:.0f}", "height": f"{self._legend(root, bottom, width) + 6:.0f}"}
        background.attrib.update(size)
        root.attrib.update({**size, "viewBox": " ".join(["0 0", *size.values()])})
        return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))

    def _state(self, root: etree._Element, index: int, left: float) -> None:
        every = [mark for marks in self.marks[index].values() for mark in marks]
        conflict = len({cpu for mark in every for cpu in mark.conflict})
        far = len({cpu for mark in every for cpu in mark.far})
        found = [f"work on {counted(conflict, 'reserved CPU')}"] if conflict else []
        found += [f"far work on {counted(far, 'CPU')}"] if far else []
        _text(root, left, _TITLE + 16, fit(self.states[index][0], max(_STATE, self.host.width), 13), "t2")
        _text(root, left, _TITLE + 30, ", ".join(found) or "no conflict", "worse" if found else "soft")
        group = _add(root, "g", transform=f"translate({left:.0f} {_TITLE + _HEAD})", **{"class": "state"})
        for box in self.host.walk("package", "node", "l3", "core"):
            part = _add(group, "g", **{"data-cpus": cpulist.format(box.cpus)})
            if box.label:
                _add(part, "title", f"{box.label}: {cpulist.format(box.cpus) or 'none'}")
            if box.number is not None:
                part.set(f"data-{box.role}", str(box.number))
            _rect(part, box.place, box.role, 3)
        self._wires(group, self.states[index][1])
        for box in self.host.walk("package", "node", "l3"):
            _rect(group, (box.x + 5, box.y + 2, layout.text_width(box.label), 12), f"{box.role} under")
            _text(group, box.x + 7, box.y + 11.5, box.label, "soft" if box.role == "l3" else "")
        for number, cell in enumerate(self.cells):
            self._cell(group, cell, index, number)
        for chip in self.chips:
            self._chip(group, chip, index)

    def _cell(self, parent: etree._Element, cell: Box, state: int, number: int) -> None:
        """Draw a CPU or an L3 group with its marks."""
        marks, node, roles = self.marks[state].get(number, []), self.node_of[cell.cpus[0]], self.roles
        group = _add(parent, "g", **{"class": "cpu", "data-cpus": cpulist.format(cell.cpus)})
        group.set("data-owner", " ".join(dict.fromkeys(roles[cpu] for cpu in cell.cpus)))
        group.set("data-settings", " ".join(target for mark in marks for target in mark.targets))
        if node is not None:
            group.set("data-node", str(node))
        _add(group, "title", printable("\n".join(self._words(cell, marks)), "\n"))
        conflict = len({cpu for mark in marks for cpu in mark.conflict})
        if self.detailed:
            claim, role, head = self.claims[cell.cpus[0]], roles[cell.cpus[0]], layout.CELL_HEAD
            guest = self.guests[claim.name] if claim and claim.owner is Owner.GUEST else None
            _rect(group, cell.place, f"{role} odd" if guest and guest % 2 else role)
            code = str(guest or _OWNERS[role][0])
        else:
            head, code = layout.TILE_HEAD, f"{conflict}!" if conflict else ""
            _rect(group, cell.place, "tile")
            heat = 0.15 + 0.45 * conflict / len(cell.cpus) if conflict else 0
            _rect(group, cell.place, "heat").set("fill-opacity", f"{heat:.2f}")
            x = cell.x + 4
            for role, count in sorted(collections.Counter(roles[cpu] for cpu in cell.cpus).items()):
                width = (cell.width - 8) * count / len(cell.cpus)
                _rect(group, (x, cell.y + 16, width, 14), role)
                label = fit(f"{_OWNERS[role][0]}{count}", width, 9)
                _text(group, x + width / 2, cell.y + 26.5, label, "code mid")
                x += width
        _text(group, cell.x + 3, cell.y + 11, fit(cell.label, cell.width - (22 if self.detailed else 34)))
        _text(group, cell.x + cell.width - 3, cell.y + 11, code, "code end")
        if conflict or any(mark.far for mark in marks):
            _rect(group, cell.place, "ring" if conflict else "ring far")
        for row, line in enumerate(self.lines[state].get(number, [])):
            x, y = cell.x + 2, cell.y + head + row * layout.MARK_HEIGHT
            for mark, code, width in line:
                is_wide, moved = mark.wide == mark.names.total(), "comes" if state else "leaves"
                kinds = (("bad", mark.conflict), ("wide", is_wide), (moved, mark.moved))
                kind = " ".join(["mark", *(name for name, holds in kinds if holds)])
                radius = 5.5 if mark.kind is Kind.IRQ else 1.5
                _rect(group, (x + 0.7, y + 0.7, width - 1.4, 11), kind, radius)
                _text(group, x + width / 2, y + 9.3, code)
                x += width

    def _words(self, cell: Box, marks: Sequence[Mark]) -> Iterator[str]:
        """Yield the lines of a cell's tooltip."""
        node = self.node_of[cell.cpus[0]]
        yield f"CPU {cpulist.format(cell.cpus)}{'' if node is None else f', node {node}'}"
        shares: dict[str, list[int]] = {}
        for cpu in cell.cpus:
            claim, meaning = self.claims[cpu], _OWNERS[self.roles[cpu]][1]
            shares.setdefault(f"{meaning} ({claim.name})" if claim else meaning, []).append(cpu)
        yield from (f"{cpulist.format(cpus)}: {owner}" for owner, cpus in list(shares.items())[: 4 * _NAMES])
        for mark in marks:
            names = rules.named((f"{name} ({number})" for name, number in mark.names.items()), _NAMES)
            yield f"{counted(mark.names.total(), mark.kind.value[1])}: {names}"
            for cpus, what in ((mark.conflict, "conflict: reserved CPUs"), (mark.far, "not of its node: CPUs")):
                if cpus:
                    yield f"  {what} {cpulist.format(cpus)}"
            if mark.moved:
                yield f"  {mark.moved} not here in the other state"

    def _wires(self, parent: etree._Element, work: Sequence[Work]) -> None:
        """Draw a line from each NIC to each cell that serves it; far ones only while they can be told apart."""
        served: dict[str, dict[int, bool]] = {}
        for item in work:
            if item.kind is Kind.IRQ and len(item.cpus) == 1 and item.cpus <= self.cell_of.keys():
                served.setdefault(item.owner, {})[self.cell_of[min(item.cpus)]] = bool(item.far(self.node_of))
        is_crowded = sum(far for ends in served.values() for far in ends.values()) > _FAR_WIRES
        for chip in self.chips:
            x, y = chip.x + chip.width / 2, chip.y + chip.height
            for number, is_far in served.get(chip.name, {}).items():
                cell = self.cells[number]
                to_x, bend = cell.x + cell.width / 2, max(18.0, abs(cell.y - y) / 2)
                bends = f"{x:.0f} {y + bend:.0f} {to_x:.0f} {cell.y - bend:.0f}"
                if not (is_far and is_crowded):
                    curve = f"M{x:.0f} {y:.0f}C{bends} {to_x:.0f} {cell.y + 1:.0f}"
                    _add(parent, "path", d=curve, **{"class": "wire far" if is_far else "wire"})

    def _chip(self, parent: etree._Element, chip: Box, state: int) -> None:
        """Draw a NIC or passed-through devices; planned steering is shown here."""
        steering = [item for item in self.settings if state and item.target.partition("/")[0] == chip.name]
        irqs = [item for item in self.states[state][1] if item.kind is Kind.IRQ and item.owner == chip.name]
        far = sum(bool(item.far(self.node_of)) for item in irqs)
        cpus = frozenset[int]().union(*(item.cpus for item in irqs))
        group = _add(parent, "g", **{"data-nic": chip.name, "data-cpus": cpulist.format(cpus)})
        group.set("data-settings", " ".join(setting.target for setting in steering))
        words = [chip.name, chip.label]
        if steering:
            kinds = "/".join(dict.fromkeys(setting.kind.upper() for setting in steering))
            words.append(f"{kinds}: {_changes(steering)}/{len(steering)} change")
        words += [f"{far} of {len(irqs)} far"] if far else []
        _add(group, "title", printable("\n".join(words), "\n"))
        _rect(group, chip.place, chip.role, 6)
        _rect(group, (chip.x + 4, chip.y + 4, 20, 12), "mark", 5.5)
        _text(group, chip.x + 14, chip.y + 13, self.numbers[chip.name])
        _text(group, chip.x + 28, chip.y + 13.5, fit(chip.name, chip.width - 32), "code")
        _text(group, chip.x + 5, chip.y + 25.5, fit(words[-1], chip.width - 8, 9), "worse" if far else "soft")

    def _rules(self, root: etree._Element, top: float, width: float) -> float:
        """Write some lines for each rule of the plan; return where they end."""
        by_rule = dict.fromkeys(setting.rule for setting in self.settings)
        for rule in by_rule:
            settings = [setting for setting in self.settings if setting.rule == rule]
            example = max(settings, key=lambda setting: setting.current != setting.value).reason
            words = f"{rule}: {_changes(settings)} of {len(settings)} change, for example: {example}"
            for line in textwrap.wrap(words[:400], int((width - 2 * _MARGIN) / layout.text_width("x"))):
                _text(root, _MARGIN, top + 10, line).set("data-rule", rule)
                top += _LINE
        return top + (8 if by_rule else 0)

    def _legend(self, root: etree._Element, top: float, width: float) -> float:
        """Draw what occurs, with its meaning; return where it ends."""
        entries = [(role, *words) for role, words in _OWNERS.items() if role in self.roles.values()]
        marks = [mark for every in self.marks for of_cell in every.values() for mark in of_cell]
        seen = {mark.kind for mark in marks}
        by_nic = ("1", "interrupt of the NIC or device of this number") if self.detailed else Kind.IRQ.value
        entries += [("mark", *(by_nic if kind is Kind.IRQ else kind.value)) for kind in Kind if kind in seen]
        entries += [sign[1:] for sign in _SIGNS if any(getattr(mark, sign[0]) for mark in marks)]
        if not self.detailed and any(mark.conflict for mark in marks):
            entries.append(("bad wide", "5!", "reserved CPUs with other work: the more, the darker"))
        named = self.guests.items() if self.detailed else ()
        guests = [("guest odd" if number % 2 else "guest", str(number), name) for name, number in named]
        more = [("guest", "…", f"and {len(guests) - _GUESTS} more guests")] if len(guests) > _GUESTS else []
        x = float(_MARGIN)
        for role, code, meaning in [*entries, *guests[:_GUESTS], *more]:
            words = fit(meaning, 420)
            needed = 44 + layout.text_width(words)
            if x > _MARGIN and x + needed > width:
                x, top = _MARGIN, top + _LINE
            _rect(root, (x, top, 24, 12), role)
            _text(root, x + 12, top + 9.5, code, "code mid")
            _text(root, x + 30, top + 10, words)
            x += needed
        return top + _LINE


def _add(parent: etree._Element, tag: str, text: str | None = None, **attributes: str) -> etree._Element:
    element = etree.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _rect(parent: etree._Element, place: Sequence[float], role: str, radius: float = 2) -> etree._Element:
    values = zip(("x", "y", "width", "height", "rx"), (*place, radius), strict=True)
    return _add(parent, "rect", **{name: f"{value:.5g}" for name, value in values}, **{"class": role})


def _text(parent: etree._Element, x: float, y: float, words: str, role: str = "") -> etree._Element:
    return _add(parent, "text", printable(words), x=f"{x:.5g}", y=f"{y:.5g}", **{"class": role})
