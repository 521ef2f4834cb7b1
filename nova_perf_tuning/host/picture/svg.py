# SPDX-License-Identifier: Apache-2.0
"""The picture of a host as SVG: whose each CPU is, what works on it, and where that disturbs somebody.

It needs nothing else: no script, no font, no other file. Everything has a letter beside its colour.
"""

import importlib.resources
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from lxml import etree

from nova_perf_tuning import cpulist, errors, rules
from nova_perf_tuning.host import model
from nova_perf_tuning.host.owners import Claim, CpuOwners, Owner
from nova_perf_tuning.host.picture import layout
from nova_perf_tuning.host.picture import work as work_module
from nova_perf_tuning.host.picture.layout import Box, fit
from nova_perf_tuning.host.picture.work import Kind, Mark, Work
from nova_perf_tuning.printing import counted, printable

_STYLE: Final = importlib.resources.files(__package__).joinpath("picture.css").read_text(encoding="utf-8")
#: Letter and meaning of an owner; a guest's CPUs show its number.
_OWNERS: Final = {
    Owner.HOST: ("H", "housekeeping"),
    Owner.SHARED: ("S", "shared by guests"),
    Owner.GUEST: ("G", "dedicated to a guest, by its number"),
    Owner.DEDICATED: ("D", "dedicated, free"),
    Owner.ISOLATED: ("I", "isolated"),
    Owner.SLICE: ("C", "a slice's own"),
    Owner.PROGRAM: ("P", "another program's"),
    None: ("×", "offline"),
}
#: Class, letter and meaning of what may happen to work.
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
#: Guests in the legend, and names in a tooltip.
_GUESTS, _NAMES = 36, 4


class PictureError(errors.PerfTuningError):
    """There is nothing to draw."""


class State(NamedTuple):
    """What is drawn beside other states of a host: its heading, and the work as it is then."""

    title: str
    work: Sequence[Work]


def topology(facts: model.HostFacts, owners: CpuOwners, name: str = "") -> bytes:
    """Return the picture of a host as it is; :param name: of the host, for the title.

    :raises PictureError: no CPU of the host is known.
    """
    now = State("Now", work_module.present(facts, owners))
    return Picture(facts, owners, [now]).render(f"CPUs of {name or 'this host'}")


def plan(facts: model.HostFacts, owners: CpuOwners, settings: Sequence[model.Setting], name: str = "") -> bytes:
    """Return the picture of a host now and once the settings of a plan hold, as :func:`topology`."""
    now = work_module.present(facts, owners)
    changes = sum(setting.current != setting.value for setting in settings)
    title = f"Planned: {counted(len(settings), 'setting')}, {changes} to change"
    states = [State("Now", now), State(title, work_module.planned(now, settings))]
    return Picture(facts, owners, states, settings).render(f"Plan of {name or 'this host'}")


class Picture:
    """States of one host side by side.

    :param settings: of the second state, which is planned.
    :raises PictureError: no CPU of the host is known.
    """

    def __init__(
        self,
        facts: model.HostFacts,
        owners: CpuOwners,
        states: Sequence[State],
        settings: Sequence[model.Setting] = (),
    ) -> None:
        if not facts.cpus:
            raise PictureError("no CPU of this host is known: there is nothing to draw")
        self.facts, self.owners, self.states, self.settings = facts, owners, states, settings
        self.online = cpulist.parse(facts.online)
        self.node_of = {cpu.id: cpu.node for cpu in facts.cpus}
        self.guests = {claim.name: number for number, claim in enumerate(owners.of_kind(Owner.GUEST), 1)}
        self.host = layout.tree(facts)
        self.cells = list(self.host.walk("cell"))
        self.detailed = self.cells[0].number is not None
        self.chips = list(self.host.walk("chip", "chip device"))
        self.numbers = {name: str(number) for number, chip in enumerate(self.chips, 1) for name in chip.names}
        self.cell_of = {cpu: index for index, cell in enumerate(self.cells) for cpu in cell.cpus}
        self.marks = [
            work_module.marks(state.work, beside.work, self.cell_of, owners, self.node_of)
            for state, beside in zip(states, reversed(states) if settings else states, strict=True)
        ]
        self.lines = [{cell: self._lines(marks) for cell, marks in every.items()} for every in self.marks]
        rows = max((len(lines) for every in self.lines for lines in every.values()), default=0)
        layout.place(self.host, rows, 1.8 / len(states))

    def _lines(self, marks: Sequence[Mark]) -> list[list[tuple[Mark, str, float]]]:
        """Return marks in lines, each with its code and width; the last code counts those without room."""
        room = (layout.CELL_WIDTH if self.detailed else layout.TILE_WIDTH) - 4
        lines: list[list[tuple[Mark, str, float]]] = [[]]
        for index, mark in enumerate(marks):
            count = mark.names.total()
            nic = self.numbers.get(next(iter(mark.names)), "?") if mark.kind is Kind.IRQ and self.detailed else ""
            code = f"{nic or mark.kind.value[0]}{'×' if nic and count > 1 else ''}{count if count > 1 else ''}"
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
        _add(root, "title", title)
        _add(root, "style", _STYLE)
        background = _rect(root, (0, 0, width, 0), "bg")
        _text(root, _MARGIN, 24, fit(title, width - 2 * _MARGIN, 16), "t1")
        _text(root, _MARGIN, 40, fit(self._summary(), width - 2 * _MARGIN), "soft")
        for index, state in enumerate(self.states):
            self._state(root, index, state, _MARGIN + index * step)
        bottom = self._changes(root, _TITLE + _HEAD + self.host.height + 14, width)
        bottom = self._legend(root, bottom, width) + 6
        size = {"width": f"{width:.0f}", "height": f"{bottom:.0f}"}
        background.attrib.update(size)
        root.attrib.update({**size, "viewBox": f"0 0 {width:.0f} {bottom:.0f}"})
        return bytes(etree.tostring(root, encoding="utf-8", xml_declaration=True))

    def _summary(self) -> str:
        online = [cpu for cpu in self.facts.cpus if cpu.online]
        counts = [
            (len({cpu.package for cpu in online if cpu.package is not None}), "package"),
            (len(self.facts.nodes), "NUMA node"),
            (len({cpu.l3 for cpu in online if cpu.l3}), "L3 group"),
            (len({cpu.siblings for cpu in online}), "core"),
            (len(online), "online CPU"),
            (len(self.facts.guests), "running guest"),
        ]
        return ", ".join(counted(number, noun) for number, noun in counts if number)

    def _state(self, root: etree._Element, index: int, state: State, left: float) -> None:
        every = [mark for marks in self.marks[index].values() for mark in marks]
        conflict = len({cpu for mark in every for cpu in mark.conflict})
        far = len({cpu for mark in every for cpu in mark.far})
        found = [f"work on {counted(conflict, 'reserved CPU')}"] if conflict else []
        found += [f"far work on {counted(far, 'CPU')}"] if far else []
        room = max(_STATE, self.host.width)
        _text(root, left, _TITLE + 16, fit(state.title, room, 13), "t2")
        _text(root, left, _TITLE + 30, ", ".join(found) or "no conflict", "worse" if found else "soft")
        group = _add(root, "g", transform=f"translate({left:.0f} {_TITLE + _HEAD})", **{"class": "state"})
        for box in self.host.walk("package", "node", "l3", "core"):
            part = _add(group, "g", **{"data-cpus": cpulist.format(box.cpus)})
            if box.label:
                _add(part, "title", f"{box.label}: {cpulist.format(box.cpus) or 'none'}")
            if box.number is not None:
                part.set(f"data-{box.role}", str(box.number))
            _rect(part, (box.x, box.y, box.width, box.height), box.role, 3)
        self._wires(group, state)
        for box in self.host.walk("package", "node", "l3"):
            _text(group, box.x + 7, box.y + 11.5, box.label, "halo soft" if box.role == "l3" else "halo")
        for number, cell in enumerate(self.cells):
            self._cell(group, cell, index, number)
        for chip in self.chips:
            self._chip(group, chip, index)

    def _owner(self, cpu: int) -> Claim | None:
        """Return the strongest claim on a CPU; None while it is offline."""
        return next(iter(self.owners.by_cpu.get(cpu, ())), None) if cpu in self.online else None

    def _cell(self, parent: etree._Element, cell: Box, state: int, number: int) -> None:
        shares: dict[Claim | None, list[int]] = {}
        for cpu in cell.cpus:
            shares.setdefault(self._owner(cpu), []).append(cpu)
        marks = self.marks[state].get(number, [])
        group = _add(parent, "g", **{"class": "cpu", "data-cpus": cpulist.format(cell.cpus)})
        group.set("data-owner", " ".join(dict.fromkeys(_role(claim) for claim in shares)))
        if (node := self.node_of[cell.cpus[0]]) is not None:
            group.set("data-node", str(node))
        if targets := [target for mark in marks for target in mark.targets]:
            group.set("data-settings", " ".join(targets))
        words = [f"CPU {cpulist.format(cell.cpus)}{'' if node is None else f', node {node}'}"]
        for claim, cpus in list(shares.items())[: 4 * _NAMES]:
            words.append(f"{cpulist.format(cpus)}: {_meaning(claim)}{f' ({claim.name})' if claim else ''}")
        _add(group, "title", printable("\n".join([*words, *_tooltip(marks)]), "\n"))
        place = cell.x, cell.y, cell.width, cell.height
        conflict = {cpu for mark in marks for cpu in mark.conflict}
        head = layout.CELL_HEAD
        if self.detailed:
            [claim] = shares
            is_odd = claim is not None and self.guests.get(claim.name, 0) % 2
            _rect(group, place, f"{_role(claim)} odd" if is_odd else _role(claim))
            code = str(self.guests.get(claim.name, _letter(claim))) if claim else "×"
            _text(group, cell.x + 3, cell.y + 11, cell.label)
        else:
            head, code = layout.TILE_HEAD, f"{len(conflict)}!" if conflict else ""
            _rect(group, place, "tile")
            heat = 0.15 + 0.45 * len(conflict) / len(cell.cpus) if conflict else 0
            _rect(group, place, "heat").set("fill-opacity", f"{heat:.2f}")
            _text(group, cell.x + 4, cell.y + 11, fit(cell.label, cell.width - (34 if conflict else 8)))
            self._bar(group, cell)
        _text(group, cell.x + cell.width - 3, cell.y + 11, code, "code end")
        if conflict or any(mark.far for mark in marks):
            _rect(group, place, "ring" if conflict else "ring far")
        for row, line in enumerate(self.lines[state].get(number, [])):
            x, y = cell.x + 2, cell.y + head + row * layout.MARK_HEIGHT
            for mark, code, width in line:
                kind = [
                    "mark",
                    *(["bad"] if mark.conflict else []),
                    *(["wide"] if mark.wide == mark.names.total() else []),
                ]
                kind += ["comes" if state else "leaves"] if mark.moved else []
                _rect(
                    group,
                    (x + 0.7, y + 0.7, width - 1.4, 11),
                    " ".join(kind),
                    5.5 if mark.kind is Kind.IRQ else 1.5,
                )
                _text(group, x + width / 2, y + 9.3, code)
                x += width

    def _bar(self, group: etree._Element, cell: Box) -> None:
        """Draw how many CPUs of an L3 group each kind of owner has."""
        x, room = cell.x + 4, (cell.width - 8) / len(cell.cpus)
        claims = sorted(map(self._owner, cell.cpus), key=_role)
        for role in dict.fromkeys(map(_role, claims)):
            members = [claim for claim in claims if _role(claim) == role]
            width = room * len(members)
            _rect(group, (x, cell.y + 16, width, 14), role)
            _text(
                group,
                x + width / 2,
                cell.y + 26.5,
                fit(f"{_letter(members[0])}{len(members)}", width, 9),
                "code mid",
            )
            x += width

    def _wires(self, parent: etree._Element, state: State) -> None:
        """Draw a line from each NIC to each cell that serves it; far ones only while they can be told apart."""
        served: dict[str, dict[int, bool]] = {}
        for item in state.work:
            if item.kind is Kind.IRQ and len(item.cpus) == 1 and item.cpus <= self.cell_of.keys():
                ends = served.setdefault(item.owner, {})
                ends[self.cell_of[min(item.cpus)]] = bool(work_module.far(item, self.node_of))
        is_crowded = sum(far for ends in served.values() for far in ends.values()) > _FAR_WIRES
        for chip in self.chips:
            x, y = chip.x + chip.width / 2, chip.y + chip.height
            for number, is_far in (end for name in chip.names for end in served.get(name, {}).items()):
                cell = self.cells[number]
                to_x, bend = cell.x + cell.width / 2, max(18.0, abs(cell.y - y) / 2)
                start, end = f"{x:.0f} {y:.0f}", f"{to_x:.0f} {cell.y + 1:.0f}"
                curve = f"M{start}C{x:.0f} {y + bend:.0f} {to_x:.0f} {cell.y - bend:.0f} {end}"
                if not (is_far and is_crowded):
                    _add(parent, "path", d=curve, **{"class": "wire far" if is_far else "wire"})

    def _chip(self, parent: etree._Element, chip: Box, state: int) -> None:
        steering = [setting for setting in self.settings if setting.target.partition("/")[0] in chip.names]
        irqs = [item for item in self.states[state].work if item.kind is Kind.IRQ and item.owner in chip.names]
        far = sum(bool(work_module.far(item, self.node_of)) for item in irqs)
        group = _add(parent, "g", **{"data-nic": " ".join(chip.names)})
        words = [", ".join(chip.names[: 4 * _NAMES]), chip.label]
        if state and steering:
            changes = sum(setting.current != setting.value for setting in steering)
            kinds = "/".join(dict.fromkeys(setting.kind.upper() for setting in steering))
            group.set("data-settings", " ".join(setting.target for setting in steering))
            words.append(f"{kinds}: {changes}/{len(steering)} change")
        words += [f"{far} of {len(irqs)} far"] if far else []
        _add(group, "title", printable("\n".join(words), "\n"))
        _rect(group, (chip.x, chip.y, chip.width, chip.height), chip.role, 6)
        _rect(group, (chip.x + 4, chip.y + 4, 20, 12), "mark", 5.5)
        _text(group, chip.x + 14, chip.y + 13, self.numbers[chip.names[0]])
        name = rules.named(chip.names, 1)
        _text(group, chip.x + 28, chip.y + 13.5, fit(name, chip.width - 32), "code")
        _text(group, chip.x + 5, chip.y + 25.5, fit(words[-1], chip.width - 8, 9), "worse" if far else "soft")

    def _changes(self, root: etree._Element, top: float, width: float) -> float:
        """Write a line for each rule of the plan; return where it ends."""
        by_rule: dict[str, list[model.Setting]] = {}
        for setting in self.settings:
            by_rule.setdefault(setting.rule, []).append(setting)
        for rule, settings in by_rule.items():
            changes = [setting for setting in settings if setting.current != setting.value]
            example = f", for example: {changes[0].reason}" if changes else ""
            words = f"{rule}: {len(changes)} of {len(settings)} change{example}"
            _text(root, _MARGIN, top + 10, fit(words, width - 2 * _MARGIN)).set("data-rule", rule)
            top += _LINE
        return top + (8 if by_rule else 0)

    def _legend(self, root: etree._Element, top: float, width: float) -> float:
        """Draw what occurs, with its meaning; return where it ends."""
        claims = {self._owner(cpu) for cpu in self.node_of}
        kinds = {claim.owner if claim else None for claim in claims}
        entries = [(owner or "offline", *words) for owner, words in _OWNERS.items() if owner in kinds]
        marks = [mark for every in self.marks for of_cell in every.values() for mark in of_cell]
        seen = {mark.kind for mark in marks}
        entries += [
            ("mark", *kind.value) for kind in Kind if kind in seen and not (kind is Kind.IRQ and self.detailed)
        ]
        if Kind.IRQ in seen and self.detailed:
            entries.append(("mark", "1", "interrupt of the NIC or device of this number"))
        entries += [
            (role, code, meaning)
            for name, role, code, meaning in _SIGNS
            if any(getattr(mark, name) for mark in marks)
        ]
        guests = list(self.guests.items())
        entries += [
            ("guest odd" if number % 2 else "guest", str(number), name) for name, number in guests[:_GUESTS]
        ]
        if len(guests) > _GUESTS:
            entries.append(("guest", "…", f"and {len(guests) - _GUESTS} more guests"))
        x = float(_MARGIN)
        for role, code, meaning in entries:
            words = fit(meaning, 420)
            needed = 30 + layout.text_width(words) + 14
            if x > _MARGIN and x + needed > width:
                x, top = _MARGIN, top + _LINE
            _rect(root, (x, top, 24, 12), role)
            _text(root, x + 12, top + 9.5, code, "code mid")
            _text(root, x + 30, top + 10, words)
            x += needed
        return top + _LINE


def _role(claim: Claim | None) -> str:
    return claim.owner.value if claim else "offline"


def _letter(claim: Claim | None) -> str:
    return _OWNERS[claim.owner if claim else None][0]


def _meaning(claim: Claim | None) -> str:
    return _OWNERS[claim.owner if claim else None][1].partition(",")[0]


def _tooltip(marks: Sequence[Mark]) -> Iterator[str]:
    for mark in marks:
        names = rules.named((f"{name} ({number})" for name, number in mark.names.items()), _NAMES)
        yield f"{counted(mark.names.total(), mark.kind.value[1])}: {names}"
        if mark.conflict:
            yield f"  conflict: reserved CPUs {cpulist.format(mark.conflict)}"
        if mark.far:
            yield f"  not of its node: CPUs {cpulist.format(mark.far)}"
        if mark.moved:
            yield f"  {mark.moved} not here in the other state"


def _add(parent: etree._Element, tag: str, text: str | None = None, **attributes: str) -> etree._Element:
    element = etree.SubElement(parent, tag, attributes)
    element.text = text
    return element


def _rect(
    parent: etree._Element, place: tuple[float, float, float, float], role: str, radius: float = 2
) -> etree._Element:
    values = zip(("x", "y", "width", "height", "rx"), (*place, radius), strict=True)
    return _add(parent, "rect", **{name: f"{value:.5g}" for name, value in values}, **{"class": role})


def _text(parent: etree._Element, x: float, y: float, words: str, role: str = "") -> etree._Element:
    return _add(parent, "text", printable(words), x=f"{x:.5g}", y=f"{y:.5g}", **({"class": role} if role else {}))
