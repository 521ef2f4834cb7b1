# SPDX-License-Identifier: Apache-2.0
"""The picture of a host as SVG: who owns each CPU, what runs on it, and where work disturbs an
owner.

It needs no script, no font and no other file. Everything has a letter as well as its colour.
"""

import collections
import dataclasses
import importlib.resources
import textwrap
from collections.abc import Iterator, Sequence
from typing import Final

from lxml import etree

from nova_perf_tuning import cpulist, errors, rules
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.owners import Claim, CpuOwners, Owner
from nova_perf_tuning.host.picture import layout, work
from nova_perf_tuning.host.picture.layout import Box, fit
from nova_perf_tuning.host.picture.work import Mark, Work, WorkKind
from nova_perf_tuning.printing import counted, printable

_STYLE: Final = (
    importlib.resources.files(__package__).joinpath("picture.css").read_text(encoding="utf-8")
)
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
    Owner.EXCLUDED.value: ("F", "kept free of services"),
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
#: Lines of marks in a cell, the least width of a state, and lines between nodes that a reader
#: can distinguish.
_LINES, _STATE, _FAR_WIRES = 3, 330, 60
#: What is counted under the title: attribute of a CPU and its noun.
_NOUNS = {
    "package": "package",
    "node": "NUMA node",
    "l3": "L3 group",
    "siblings": "core",
    "id": "online CPU",
}
#: Guests in the legend, and names in a tooltip.
_GUESTS, _NAMES = 36, 4


_States = Sequence[tuple[str, Sequence[Work]]]
_Settings = Sequence[host_model.Setting]
#: An entry of the legend: class, letter and meaning.
_Entry = tuple[str, str, str]


@dataclasses.dataclass(slots=True)
class _Sign:
    """A mark as it is drawn: its code and its width."""

    mark: Mark
    code: str
    width: float


_Line = list[_Sign]


def draw(
    facts: host_model.HostFacts,
    owners: CpuOwners,
    name: str = "",
    settings: _Settings | None = None,
) -> bytes:
    """Return the picture of a host as it is; with settings of a plan, also how it will be.

    :param name: of the host, for the title.
    :raises errors.PerfTuningError: no CPU of the host is known.
    """
    now = list(work.present(facts, owners))
    states = [("Now", now)]
    what = "CPUs"
    if settings is not None:
        what = "Plan"
        title = f"Planned: {counted(len(settings), 'setting')}, {_changes(settings)} to change"
        states.append((title, work.planned(now, settings)))
    picture = _Picture(facts, owners, states, settings or ())
    return picture.render(f"{what} of {name or 'this host'}")


def _changes(settings: _Settings) -> int:
    return sum(setting.current != setting.value for setting in settings)


class _Picture:
    """States of one host side by side: their headings, and the work as it is then."""

    def __init__(
        self, facts: host_model.HostFacts, owners: CpuOwners, states: _States, settings: _Settings
    ) -> None:
        if not facts.cpus:
            raise errors.PerfTuningError("no CPU of this host is known: there is nothing to draw")
        self.facts, self.states, self.settings = facts, states, settings
        self.claims: dict[int, Claim | None] = {}
        self.roles: dict[int, str] = {}
        self.node_of: dict[int, int | None] = {}
        for cpu in facts.cpus:
            self.node_of[cpu.id] = cpu.node
            self.claims[cpu.id] = None
            self.roles[cpu.id] = "offline"
            if cpu.online:
                owner = owners.by_cpu[cpu.id][0]
                self.claims[cpu.id] = owner
                self.roles[cpu.id] = owner.owner.value
        self.guests: dict[str, int] = {}
        for number, claim in enumerate(owners.of_kind(Owner.GUEST), 1):
            self.guests[claim.name] = number
        self.host = layout.tree(facts)
        self.cells = list(self.host.walk("cell"))
        self.detailed = self.cells[0].number is not None
        self.cell_of: dict[int, int] = {}
        for number, cell in enumerate(self.cells):
            for cpu_id in cell.cpus:
                self.cell_of[cpu_id] = number
        self.chips = list(self.host.walk("chip", "chip device"))
        self.numbers: dict[str, str] = {}
        for number, chip in enumerate(self.chips, 1):
            self.numbers[chip.name] = str(number)
        self.marks: list[dict[int, list[Mark]]] = []
        self.lines: list[dict[int, list[_Line]]] = []
        rows = 0
        for (_title, here), (_beside, beside) in zip(states, reversed(states), strict=True):
            marks = work.marks(here, beside, self.cell_of, owners, self.node_of)
            lines = {cell: self._lines(of_cell) for cell, of_cell in marks.items()}
            rows = max(rows, max(map(len, lines.values()), default=0))
            self.marks.append(marks)
            self.lines.append(lines)
        layout.place(self.host, rows, 1.8 / len(states))

    def _lines(self, marks: Sequence[Mark]) -> list[_Line]:
        """Return marks in lines; the last code counts those without room."""
        room = (layout.CELL_WIDTH if self.detailed else layout.TILE_WIDTH) - 4
        lines: list[_Line] = [[]]
        taken = 0.0
        for index, mark in enumerate(marks):
            code = self._code(mark)
            width = max(11.0, 4.5 + 5.6 * len(code))
            if taken + width > room:
                if len(lines) == _LINES:
                    lines[-1][-1].code = f"+{len(marks) - index + 1}"
                    break
                lines.append([])
                taken = 0.0
            lines[-1].append(_Sign(mark, code, width))
            taken += width
        return lines

    def _code(self, mark: Mark) -> str:
        """Return the letter of a mark's kind, or the number of its NIC, with how many it stands
        for.
        """
        count = mark.names.total()
        times = ""
        code = mark.kind.value[0]
        if mark.kind is WorkKind.IRQ and self.detailed:
            times = "×"
            code = self.numbers.get(next(iter(mark.names)), "?")
        if count > 1:
            code = f"{code}{times}{count}"
        return code

    def render(self, title: str) -> bytes:
        """Return the whole as a document of its own."""
        step = max(_STATE, self.host.width) + 2 * _MARGIN
        width = max(620.0, len(self.states) * step)
        root = etree.Element("svg", {"class": "np"}, nsmap={None: "http://www.w3.org/2000/svg"})
        _add(root, "title", printable(title))
        _add(root, "style", _STYLE)
        background = _rect(root, (0, 0, width, 0), "bg")
        _text(root, _MARGIN, 24, fit(title, width - 2 * _MARGIN, 16), "t1")
        _text(root, _MARGIN, 40, self._summary(), "soft")
        for index in range(len(self.states)):
            self._state(root, index, _MARGIN + index * step)
        bottom = self._rules(root, _TITLE + _HEAD + self.host.height + 14, width)
        bottom = self._legend(root, bottom, width) + 6
        size = {"width": f"{width:.0f}", "height": f"{bottom:.0f}"}
        background.attrib.update(size)
        root.attrib.update(size)
        root.set("viewBox", f"0 0 {size['width']} {size['height']}")
        return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))

    def _summary(self) -> str:
        """Return what the host has, for the line under the title."""
        parts: list[str] = []
        for kind, noun in _NOUNS.items():
            if kind == "node":
                number = len(self.facts.nodes)  # also those without CPUs
            else:
                there = {getattr(cpu, kind) for cpu in self.facts.cpus if cpu.online}
                number = len(there - {None})
            if number:
                parts.append(counted(number, noun))
        parts.append(counted(len(self.facts.guests), "running guest"))
        return ", ".join(parts)

    def _state(self, root: etree._Element, index: int, left: float) -> None:
        title, items = self.states[index]
        found = self._findings(index)
        _text(root, left, _TITLE + 16, fit(title, max(_STATE, self.host.width), 13), "t2")
        if found:
            _text(root, left, _TITLE + 30, ", ".join(found), "worse")
        else:
            _text(root, left, _TITLE + 30, "no conflict", "soft")
        group = _add(
            root, "g", transform=f"translate({left:.0f} {_TITLE + _HEAD})", **{"class": "state"}
        )
        for box in self.host.walk("package", "node", "l3", "core"):
            part = _add(group, "g", **{"data-cpus": cpulist.format(box.cpus)})
            if box.label:
                _add(part, "title", f"{box.label}: {cpulist.format(box.cpus) or 'none'}")
            if box.number is not None:
                part.set(f"data-{box.role}", str(box.number))
            _rect(part, box.place, box.role, 3)
        self._wires(group, items)
        for box in self.host.walk("package", "node", "l3"):
            _rect(
                group,
                (box.x + 5, box.y + 2, layout.text_width(box.label), 12),
                f"{box.role} under",
            )
            _text(group, box.x + 7, box.y + 11.5, box.label, "soft" if box.role == "l3" else "")
        for number, cell in enumerate(self.cells):
            self._cell(group, cell, index, number)
        for chip in self.chips:
            self._chip(group, chip, index)

    def _findings(self, index: int) -> list[str]:
        """Return what is wrong in a state, in words."""
        conflict: set[int] = set()
        far: set[int] = set()
        for marks in self.marks[index].values():
            for mark in marks:
                conflict |= mark.conflict
                far |= mark.far
        found: list[str] = []
        if conflict:
            found.append(f"work on {counted(len(conflict), 'reserved CPU')}")
        if far:
            found.append(f"far work on {counted(len(far), 'CPU')}")
        return found

    def _cell(self, parent: etree._Element, cell: Box, state: int, number: int) -> None:
        """Draw a CPU or an L3 group with its marks."""
        marks = self.marks[state].get(number, [])
        conflict: set[int] = set()
        targets: list[str] = []
        is_far = False
        for mark in marks:
            conflict |= mark.conflict
            targets += mark.targets
            is_far = is_far or bool(mark.far)
        group = _add(parent, "g", **{"class": "cpu", "data-cpus": cpulist.format(cell.cpus)})
        group.set("data-owner", " ".join(dict.fromkeys(self.roles[cpu] for cpu in cell.cpus)))
        group.set("data-settings", " ".join(targets))
        node = self.node_of[cell.cpus[0]]
        if node is not None:
            group.set("data-node", str(node))
        _add(group, "title", printable("\n".join(self._words(cell, marks)), "\n"))
        if self.detailed:
            code = self._cpu(group, cell)
            head, label_width = layout.CELL_HEAD, cell.width - 22
        else:
            code = self._tile(group, cell, len(conflict))
            head, label_width = layout.TILE_HEAD, cell.width - 34
        _text(group, cell.x + 3, cell.y + 11, fit(cell.label, label_width))
        _text(group, cell.x + cell.width - 3, cell.y + 11, code, "code end")
        if conflict:
            _rect(group, cell.place, "ring")
        elif is_far:
            _rect(group, cell.place, "ring far")
        for row, line in enumerate(self.lines[state].get(number, [])):
            y = cell.y + head + row * layout.MARK_HEIGHT
            _signs(group, line, cell.x + 2, y, "comes" if state else "leaves")

    def _cpu(self, group: etree._Element, cell: Box) -> str:
        """Draw the ground of a CPU; return the number of its guest, or the letter of its owner."""
        claim, role = self.claims[cell.cpus[0]], self.roles[cell.cpus[0]]
        if claim is None or claim.owner is not Owner.GUEST:
            _rect(group, cell.place, role)
            return _OWNERS[role][0]
        guest = self.guests[claim.name]
        _rect(group, cell.place, _guest_role(guest))
        return str(guest)

    def _tile(self, group: etree._Element, cell: Box, conflict: int) -> str:
        """Draw the ground of an L3 group; return how many of its CPUs have a conflict, if any has."""
        _rect(group, cell.place, "tile")
        heat = 0.0
        code = ""
        if conflict:
            heat = 0.15 + 0.45 * conflict / len(cell.cpus)
            code = f"{conflict}!"
        _rect(group, cell.place, "heat").set("fill-opacity", f"{heat:.2f}")
        x = cell.x + 4
        counts = collections.Counter(self.roles[cpu] for cpu in cell.cpus)
        for role, count in sorted(counts.items()):
            width = (cell.width - 8) * count / len(cell.cpus)
            _rect(group, (x, cell.y + 16, width, 14), role)
            label = fit(f"{_OWNERS[role][0]}{count}", width, 9)
            _text(group, x + width / 2, cell.y + 26.5, label, "code mid")
            x += width
        return code

    def _words(self, cell: Box, marks: Sequence[Mark]) -> Iterator[str]:
        """Yield the lines of a cell's tooltip."""
        node = self.node_of[cell.cpus[0]]
        where = f"CPU {cpulist.format(cell.cpus)}"
        if node is not None:
            where += f", node {node}"
        yield where
        shares: dict[str, list[int]] = {}
        for cpu in cell.cpus:
            claim, owner = self.claims[cpu], _OWNERS[self.roles[cpu]][1]
            if claim is not None:
                owner = f"{owner} ({claim.name})"
            shares.setdefault(owner, []).append(cpu)
        for owner in list(shares)[: 4 * _NAMES]:
            yield f"{cpulist.format(shares[owner])}: {owner}"
        for mark in marks:
            names = [f"{name} ({number})" for name, number in mark.names.items()]
            count = counted(mark.names.total(), mark.kind.value[1])
            yield f"{count}: {rules.named(names, _NAMES)}"
            if mark.conflict:
                yield f"  conflict: reserved CPUs {cpulist.format(mark.conflict)}"
            if mark.far:
                yield f"  not of its node: CPUs {cpulist.format(mark.far)}"
            if mark.moved:
                yield f"  {mark.moved} not here in the other state"

    def _wires(self, parent: etree._Element, items: Sequence[Work]) -> None:
        """Draw a line from each NIC to each cell that serves it; far ones only while they can be
        distinguished.
        """
        served: dict[str, dict[int, bool]] = {}  # NIC -> cell -> whether it is far
        for item in items:
            if (
                item.kind is WorkKind.IRQ
                and len(item.cpus) == 1
                and item.cpus <= self.cell_of.keys()
            ):
                number = self.cell_of[min(item.cpus)]
                served.setdefault(item.owner, {})[number] = bool(item.far(self.node_of))
        is_crowded = sum(sum(ends.values()) for ends in served.values()) > _FAR_WIRES
        for chip in self.chips:
            x, y = chip.x + chip.width / 2, chip.y + chip.height
            for number, is_far in served.get(chip.name, {}).items():
                if is_far and is_crowded:
                    continue
                cell = self.cells[number]
                to_x, bend = cell.x + cell.width / 2, max(18.0, abs(cell.y - y) / 2)
                bends = f"{x:.0f} {y + bend:.0f} {to_x:.0f} {cell.y - bend:.0f}"
                curve = f"M{x:.0f} {y:.0f}C{bends} {to_x:.0f} {cell.y + 1:.0f}"
                _add(parent, "path", d=curve, **{"class": "wire far" if is_far else "wire"})

    def _chip(self, parent: etree._Element, chip: Box, state: int) -> None:
        """Draw a NIC or passed-through devices; planned steering is shown here."""
        far = irqs = 0
        cpus: set[int] = set()
        for item in self.states[state][1]:
            if item.kind is WorkKind.IRQ and item.owner == chip.name:
                irqs += 1
                cpus |= item.cpus
                if item.far(self.node_of):
                    far += 1
        steering: list[host_model.Setting] = []
        targets: list[str] = []
        kinds: dict[str, None] = {}
        if state:
            for setting in self.settings:
                if setting.target.partition("/")[0] == chip.name:
                    steering.append(setting)
                    targets.append(setting.target)
                    kinds[setting.kind.upper()] = None
        group = _add(parent, "g", **{"data-nic": chip.name, "data-cpus": cpulist.format(cpus)})
        group.set("data-settings", " ".join(targets))
        words = [chip.name, chip.label]
        if steering:
            words.append(f"{'/'.join(kinds)}: {_changes(steering)}/{len(steering)} change")
        if far:
            words.append(f"{far} of {irqs} far")
        _add(group, "title", printable("\n".join(words), "\n"))
        _rect(group, chip.place, chip.role, 6)
        _rect(group, (chip.x + 4, chip.y + 4, 20, 12), "mark", 5.5)
        _text(group, chip.x + 14, chip.y + 13, self.numbers[chip.name])
        _text(group, chip.x + 28, chip.y + 13.5, fit(chip.name, chip.width - 32), "code")
        role = "worse" if far else "soft"
        _text(group, chip.x + 5, chip.y + 25.5, fit(words[-1], chip.width - 8, 9), role)

    def _rules(self, root: etree._Element, top: float, width: float) -> float:
        """Write some lines for each rule of the plan; return where they end."""
        by_rule = grouped((setting.rule, setting) for setting in self.settings)
        if not by_rule:
            return top
        columns = int((width - 2 * _MARGIN) / layout.text_width("x"))
        for rule, settings in by_rule.items():
            example = max(settings, key=lambda setting: setting.current != setting.value).reason
            words = (
                f"{rule}: {_changes(settings)} of {len(settings)} change, for example: {example}"
            )
            for line in textwrap.wrap(words[:400], columns):
                _text(root, _MARGIN, top + 10, line).set("data-rule", rule)
                top += _LINE
        return top + 8

    def _legend(self, root: etree._Element, top: float, width: float) -> float:
        """Draw what occurs, with its meaning; return where it ends."""
        entries = self._owners() + self._kinds()
        if self.detailed:
            entries += self._named_guests()
        x = float(_MARGIN)
        for role, code, meaning in entries:
            words = fit(meaning, 420)
            needed = 44 + layout.text_width(words)
            if x > _MARGIN and x + needed > width:
                x, top = _MARGIN, top + _LINE
            _rect(root, (x, top, 24, 12), role)
            _text(root, x + 12, top + 9.5, code, "code mid")
            _text(root, x + 30, top + 10, words)
            x += needed
        return top + _LINE

    def _owners(self) -> list[_Entry]:
        """Return the entries of the legend for the owners of CPUs."""
        there = set(self.roles.values())
        entries: list[_Entry] = []
        for role, (code, meaning) in _OWNERS.items():
            if role in there:
                entries.append((role, code, meaning))
        return entries

    def _kinds(self) -> list[_Entry]:
        """Return the entries of the legend for the kinds of marks, and for what may be of a mark."""
        seen: set[WorkKind] = set()
        signs: set[str] = set()
        for every in self.marks:
            for of_cell in every.values():
                for mark in of_cell:
                    seen.add(mark.kind)
                    signs.update(name for name, *_words in _SIGNS if getattr(mark, name))
        entries: list[_Entry] = []
        for kind in WorkKind:
            if kind is WorkKind.IRQ and kind in seen and self.detailed:
                entries.append(("mark", "1", "interrupt of the NIC or device of this number"))
            elif kind in seen:
                code, meaning = kind.value
                entries.append(("mark", code, meaning))
        for name, role, code, meaning in _SIGNS:
            if name in signs:
                entries.append((role, code, meaning))
        if not self.detailed and "conflict" in signs:
            entries.append(
                ("bad wide", "5!", "reserved CPUs with other work: the more, the darker")
            )
        return entries

    def _named_guests(self) -> list[_Entry]:
        """Return the entries of the legend for guests with CPUs of their own."""
        entries: list[_Entry] = []
        for name, number in list(self.guests.items())[:_GUESTS]:
            entries.append((_guest_role(number), str(number), name))
        more = len(self.guests) - _GUESTS
        if more > 0:
            entries.append((Owner.GUEST.value, "…", f"and {more} more guests"))
        return entries


def _guest_role(number: int) -> str:
    """Return the class of a guest's CPUs: neighbouring guests have different colours."""
    role = Owner.GUEST.value
    return f"{role} odd" if number % 2 else role


def _signs(group: etree._Element, line: _Line, x: float, y: float, moved: str) -> None:
    """Draw a line of marks.

    :param moved: class of a mark that is not there in the other state.
    """
    for sign in line:
        mark = sign.mark
        role = "mark"
        if mark.conflict:
            role += " bad"
        if mark.wide == mark.names.total():
            role += " wide"
        if mark.moved:
            role += f" {moved}"
        radius = 5.5 if mark.kind is WorkKind.IRQ else 1.5
        _rect(group, (x + 0.7, y + 0.7, sign.width - 1.4, 11), role, radius)
        _text(group, x + sign.width / 2, y + 9.3, sign.code)
        x += sign.width


def _add(
    parent: etree._Element, tag: str, text: str | None = None, **attributes: str
) -> etree._Element:
    element = etree.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _rect(
    parent: etree._Element, place: Sequence[float], role: str, radius: float = 2
) -> etree._Element:
    x, y, width, height = (f"{value:.5g}" for value in place)
    return _add(
        parent, "rect", x=x, y=y, width=width, height=height, rx=f"{radius:.5g}", **{"class": role}
    )


def _text(
    parent: etree._Element, x: float, y: float, words: str, role: str = ""
) -> etree._Element:
    return _add(parent, "text", printable(words), x=f"{x:.5g}", y=f"{y:.5g}", **{"class": role})
