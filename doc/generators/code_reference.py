# SPDX-License-Identifier: Apache-2.0
"""Parts of reference pages that are made from the code; ``doc/make_reference.py`` writes them into the pages.

Each class writes reStructuredText from the very objects that the program uses: the vocabulary of extra
specs, the shipped profiles, the kinds of settings and the benchmarks that are installed, and JSON schemas.
"""

import abc
import importlib
import json
import pathlib
import re
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from typing import Any, ClassVar

import nova_perf_tuning
from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model import channels, messages
from nova_perf_tuning.host.transaction import journal
from nova_perf_tuning.specs import profiles, vocabulary
from nova_perf_tuning.validation.bench import base, plugins, rt_tests

ORIGINS = {
    "rule": "follows from how the parts work",
    "practice": "published experience, not yet measured here",
    "measured": "measured",
}


#: What reStructuredText, or its typographer, would take for markup.
MARKUP = re.compile(r"[*`|\\]|_(?!\w)|-(?=-)")
#: Columns of a line of prose.
WIDTH = 79


def wrapped(text: str, first: str, rest: str) -> list[str]:
    """Return a paragraph in lines; ``first`` and ``rest`` are before the first line and the others."""
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=first,
        subsequent_indent=rest,
        break_long_words=False,
        break_on_hyphens=False,
    )


def table(header: Sequence[str], rows: Iterable[Sequence[str]], widths: str) -> list[str]:
    """Return a list-table; a cell may hold several lines."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in [header, *rows]:
        for number, cell in enumerate(row):
            first = "   * - " if number == 0 else "     - "
            for line in (cell or "–").splitlines():
                if line:
                    lines += wrapped(line, first, " " * 7)
                else:
                    lines.append("")
                first = " " * 7
    return [*lines, ""]


def heading(text: str, mark: str) -> list[str]:
    """Return a section's title."""
    return [text, mark * len(text), ""]


def fields(facts: Iterable[tuple[str, str]]) -> list[str]:
    """Return a field list."""
    lines: list[str] = []
    for key, value in facts:
        lines += wrapped(f":{key}: {value}", "", "    ")
    return [*lines, ""]


class Generated(abc.ABC):
    """A part of a page; :ivar arguments: words after its name in the page."""

    def __init__(self, *arguments: str) -> None:
        self.arguments = arguments

    @abc.abstractmethod
    def lines(self) -> list[str]:
        """Return the text, line by line."""


class ExtraSpecs(Generated):
    """What each extra spec takes and means, and where it has its effect."""

    def lines(self) -> list[str]:
        return [line for spec in vocabulary.VOCABULARY for line in self.section(spec)]

    @staticmethod
    def section(spec: vocabulary.Spec) -> Iterator[str]:
        name = f"{vocabulary.PREFIX}{spec.name}"
        image = f"{vocabulary.IMAGE_PREFIX}{spec.name}"
        if spec.features:
            name, image = f"{name}.FEATURE", f"{image}_FEATURE"
        yield from heading(name, "-")
        yield from [*wrapped(spec.description, "", ""), ""]
        output = f"``{image}``" if spec.image else "none: flavors only"
        facts = [("Image property", output), ("Allowed", spec.allowed), ("Default", spec.default)]
        if spec.features:
            facts.insert(1, ("FEATURE", ", ".join(spec.features)))
        facts.append(("Becomes", literal_xml(spec.becomes)))
        facts.append(("Example", f"``{spec.assignment}``"))
        yield from fields(facts)


def literal_xml(text: str) -> str:
    """Return text with its XML elements as literals."""
    parts = text.replace("<", "\0<").replace(">", ">\0").split("\0")
    joined = "".join(f"``{part}``" if part.startswith("<") else part for part in parts)
    # Elements that follow each other, <interface><driver ...>, are one literal.
    return joined.replace("````", "")


class PolicyTable(Generated):
    """Extra spec by extra spec: is it Nova's own, in the guest's XML, on the host, or judged?"""

    def lines(self) -> list[str]:
        columns = (
            (vocabulary.Effect.NATIVE, "Nova's own specs"),
            (vocabulary.Effect.XML, "guest's XML"),
            (vocabulary.Effect.HOST, "host"),
            (vocabulary.Effect.JUDGED, "judged"),
        )
        rows = [
            [
                f"``{vocabulary.PREFIX}{spec.name}{'.FEATURE' if spec.features else ''}``",
                *("yes" if effect in spec.effects else "" for effect, _ in columns),
            ]
            for spec in vocabulary.VOCABULARY
        ]
        return table(["Extra spec", *(title for _, title in columns)], rows, "40 15 15 15 15")


class Profiles(Generated):
    """Every shipped profile with the reason of each value."""

    def lines(self) -> list[str]:
        lines: list[str] = []
        for name, profile in sorted(profiles.shipped().items()):
            lines += [*heading(name, "-"), *wrapped(profile.description, "", ""), ""]
            rows = [
                [f"``{key}={spec.value}``", spec.reason, ORIGINS[spec.basis]]
                for key, spec in profile.specs.items()
            ]
            lines += table(["Spec", "Why", "Where this is from"], rows, "30 50 20")
        return lines


class Channels(Generated):
    """Every way in which work of the host reaches a guest's CPU, and what is done about it."""

    #: What says that it does not -> in words.
    PROOFS: ClassVar = {
        channels.ComparedBy.PLAN: "the plan",
        channels.ComparedBy.AUDIT: "the audit",
        channels.ComparedBy.NOTHING: "nothing",
    }

    def lines(self) -> list[str]:
        rows = []
        for number, row in enumerate(channels.CHANNELS, 1):
            means = [f"``{name}``" for name in (*row.kinds, *row.rules)]
            done = ", ".join(means)
            if row.remark:
                done = f"{done}\n\n{row.remark}" if done else row.remark
            cells = [str(number), row.title, row.seen, self.PROOFS[row.proof], done]
            rows.append([cell.replace("*", "\\*") for cell in cells])
        header = ["No.", "Channel", "Seen in", "Compared by", "Settings and rules"]
        return table(header, rows, "5 30 30 10 25")


class Settings(Generated):
    """The kinds of settings that are installed, in the order in which they are written."""

    def lines(self) -> list[str]:
        kinds = registry.kinds()
        rows = [
            [
                f"``{name}``",
                summary(kind),
                "yes" if name in journal.AGENT_KINDS else "",
                str(kind.order),
                "yes" if kind.needs_identity else "",
                "yes" if kind.ephemeral else "",
            ]
            for name, kind in sorted(kinds.items(), key=lambda pair: (pair[1].order, pair[0]))
        ]
        header = ["Kind", "What it is", "Agent", "Order", "Identity", "Ephemeral"]
        return table(header, rows, "18 44 8 8 11 11")


def summary(thing: object) -> str:
    """Return the first paragraph of an object's docstring."""
    return textwrap.dedent((type(thing).__doc__ or "").strip()).split("\n\n")[0].replace("\n", " ")


class Benchmarks(Generated):
    """Every installed benchmark."""

    IMAGES: ClassVar[Mapping[str, str]] = {
        "small": "the small one (``tools/image/build``)",
        "full": "the full one (``tools/image/build --full``)",
        "own": "one that it was added to (``tools/image/build --add``)",
    }

    def lines(self) -> list[str]:
        return [line for benchmark in plugins.load_all() for line in self.section(benchmark)]

    def section(self, benchmark: base.Benchmark) -> Iterator[str]:
        yield from heading(benchmark.kind, "-")
        yield from textwrap.dedent("    " + (type(benchmark).__doc__ or "").strip()).splitlines()
        yield ""
        metric, unit, better = benchmark.primary
        given = {
            parameter.name: "2-3"
            for parameter in benchmark.parameters
            if parameter.default == rt_tests.PLANNED
        }
        steps = benchmark.steps(given, "PEER" if benchmark.paired else None)
        facts = {
            "Judged": f"``{metric}`` in {unit}, {better} is better",
            "Unit of work": f"``{benchmark.work_metric}``" if benchmark.work_metric else "",
            "Programs on the host": ", ".join(f"``{name}``" for name in benchmark.programs),
            "Debian packages": ", ".join(f"``{name}``" for name in benchmark.packages),
            "Guest image": self.IMAGES[benchmark.image_variant],
            "Needs a peer": "yes" if benchmark.paired else "no",
        }
        facts |= {f"Command of the {step.role}": f"``{' '.join(step.argv)}``" for step in steps}
        yield from fields((key, value) for key, value in facts.items() if value)
        rows = [
            [
                f"``{parameter.name}``",
                f"``{parameter.default}``" if parameter.default else "",
                parameter.help,
            ]
            for parameter in benchmark.parameters
        ]
        yield from table(["Parameter", "Default", "Meaning"], rows, "20 15 65")


class Rules(Generated):
    """The rules of a check: ``perf-rules:: MODULE``, which has them as ``RULES``."""

    def lines(self) -> list[str]:
        module = importlib.import_module(self.arguments[0])
        rows = [
            [f"``{rule.id}``\n\n{rule.level.value}", rule.why, rule.remedy, rule.source]
            for rule in module.RULES
        ]
        return table(["Rule", "Why", "Remedy", "Known from"], rows, "22 34 24 20")


class Notes(Generated):
    """The codes of notes on a host, with their texts."""

    def lines(self) -> list[str]:
        rows = [[f"``{code.value}``", text] for code, text in messages.TEXTS.items()]
        return table(["Code", "Text"], rows, "30 70")


class AuditRules(Generated):
    """Every installed rule of the audit, by theme.

    :cvar THEMES: title -> the modules of its rules.
    """

    THEMES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "CPU sets and isolation": ("configuration", "nova_options", "boot", "tuned"),
        "Placement of guests": ("placement", "guest_pins", "guest_shape"),
        "Interrupts": (
            "nic_interrupts",
            "nic_channels",
            "device_interrupts",
            "managed_interrupts",
            "irqbalance",
            "writers",
        ),
        "The kernel's own work": ("background",),
        "Open vSwitch, and the slice of guests": ("vswitch",),
        "Devices of guests": ("devices",),
        "Network devices, bridges and TCP": ("network", "physnets"),
        "Machine, memory and power": ("machine",),
    }

    def lines(self) -> list[str]:
        rules_of: dict[str, list[Any]] = {}
        for rule in runner.load():
            rules_of.setdefault(type(rule).__module__.rpartition(".")[2], []).append(rule)
        lines: list[str] = []
        for theme, modules in self.THEMES.items():
            lines += heading(theme, "-")
            for module in modules:
                for rule in rules_of.pop(module):
                    lines += self.section(rule)
        if rules_of:
            modules_left = ", ".join(rules_of)
            raise LookupError(f"THEMES of the audit's rules lacks {modules_left}")
        return lines

    @staticmethod
    def section(rule: Any) -> list[str]:
        how = "printed only"
        if rule.appliable:
            how = f"``nova-perf apply --rule {rule.id}``" + (
                ", and with ``--all-safe``" if rule.safe else ""
            )
        facts = {
            "Level": rule.level.value,
            "Why": plain(rule.why),
            "Remedy": plain(rule.remedy.replace(rules.GIVEN, "")),
            "Applied by": how,
            "Source": plain(rule.source),
        }
        title = plain(rule.title)
        return [
            f"**{rule.id}**",
            "",
            *wrapped(f"{title}.", "", ""),
            "",
            *fields(facts.items()),
        ]


def plain(text: str) -> str:
    """Return text in which nothing is markup."""
    return MARKUP.sub(r"\\\g<0>", text)


class Schema(Generated):
    """A JSON schema as a table: ``json-schema:: module:NAME`` or ``json-schema:: directory/file.schema.json``."""

    def lines(self) -> list[str]:
        source = self.arguments[0]
        if source.endswith(".json"):
            path = pathlib.Path(str(resources.files(nova_perf_tuning))) / source
            schema = json.loads(path.read_text(encoding="utf-8"))
        else:
            module, _, name = source.partition(":")
            schema = getattr(importlib.import_module(module), name)
        rows = list(self.rows(schema, ""))
        if not any(meaning for _key, _value, meaning in rows):
            return table(["Key", "Value"], [row[:2] for row in rows], "60 40")
        return table(["Key", "Value", "Meaning"], rows, "34 33 33")

    def rows(self, schema: Mapping[str, Any], place: str) -> Iterator[list[str]]:
        required = schema.get("required", ())
        for key, part in schema.get("properties", {}).items():
            path = f"{place}.{key}" if place else key
            meaning = part.get("description", "")
            yield [
                f"``{path}``" + ("" if key in required else " (optional)"),
                value_of(part),
                meaning,
            ]
            yield from self.inside(part, path)

    def inside(self, part: Mapping[str, Any], path: str) -> Iterator[list[str]]:
        yield from self.rows(part, path)
        if isinstance(part.get("items"), Mapping):
            yield from self.rows(part["items"], f"{path}[]")
        extra = part.get("additionalProperties")
        if isinstance(extra, Mapping):
            if "properties" not in extra:
                yield [f"``{path}.NAME``", value_of(extra), extra.get("description", "")]
            yield from self.inside(extra, f"{path}.NAME")


def value_of(part: Mapping[str, Any]) -> str:
    """Return in words what a schema allows for one value."""
    if "const" in part:
        return f"always {json.dumps(part['const'])}"
    if "enum" in part:
        return ", ".join("null" if value is None else str(value) for value in part["enum"])
    kinds = part.get("type", "any")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    low = part.get("minimum", part.get("exclusiveMinimum"))
    high = part.get("maximum", part.get("exclusiveMaximum"))
    if low is not None and high is not None:
        text += f", {low:g} to {high:g}"
    elif low is not None:
        text += f", {'at least' if 'minimum' in part else 'more than'} {low:g}"
    if "pattern" in part:
        text += f", ``{part['pattern']}``"
    return text


PARTS: Mapping[str, type[Generated]] = {
    "perf-extra-specs": ExtraSpecs,
    "perf-policy-table": PolicyTable,
    "perf-profiles": Profiles,
    "perf-channels": Channels,
    "perf-settings": Settings,
    "perf-benchmarks": Benchmarks,
    "perf-rules": Rules,
    "perf-notes": Notes,
    "perf-audit": AuditRules,
    "json-schema": Schema,
}
