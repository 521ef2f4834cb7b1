"""Profiles: named sets of extra specs, each with the reason for its value. Text in, data out.

The files are the operator's: trusted, and checked for mistakes.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, Final

import yaml

from nova_perf_tuning import errors, json_schema
from nova_perf_tuning.specs import vocabulary

#: What a profile file may hold (JSON schema); values are checked against the vocabulary afterwards.
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["name", "description", "specs"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": rf"^{vocabulary.NAME_PATTERN}\Z"},
        "description": {"type": "string", "minLength": 1, "maxLength": 2000},
        "specs": {
            "type": "object",
            "minProperties": 1,
            "propertyNames": {"type": "string"},
            "additionalProperties": {
                "type": "object",
                "required": ["value", "reason"],
                "additionalProperties": False,
                "properties": {
                    "value": {"type": ["string", "integer", "boolean"]},
                    "reason": {"type": "string", "minLength": 1, "maxLength": 2000},
                    "basis": {"enum": ["rule", "practice", "measured"]},
                },
            },
        },
    },
}
_NATIVE_KEY: Final = re.compile(r"hw:[a-z0-9_.:-]{1,100}")


class ProfileError(errors.PerfTuningError):
    """A profile file cannot be used; the message names the file and the key."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProfileSpec:
    """One spec of a profile.

    :ivar basis: ``rule`` (follows from how the parts work), ``practice`` (published experience, to be decided
        by measurement) or ``measured``.
    """

    value: str
    reason: str
    basis: str


@dataclasses.dataclass(frozen=True, slots=True)
class Profile:
    """A named set of extra specs (``perf:*`` and Nova's ``hw:*``).

    :ivar source: the file it was read from.
    """

    name: str
    description: str
    specs: Mapping[str, ProfileSpec]
    source: str


def parse(text: str, source: str) -> Profile:
    """Read one profile.

    :param source: file name for messages.
    :raises ProfileError: not YAML, not of the schema, a key twice, an unknown spec or value.
    """
    data = load_yaml(text, source)
    fault = json_schema.find(data, SCHEMA)
    if fault is not None:
        raise ProfileError(f"{source}: {fault}")
    specs = {key: _spec(key, entry, source) for key, entry in data["specs"].items()}
    return Profile(data["name"], " ".join(data["description"].split()), specs, source)


class _Loader(yaml.SafeLoader):
    """YAML in which no key stands twice: the last would win."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        mapping: dict[Any, Any] = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(None, None, "a key stands here twice", node.start_mark)
        return mapping


def load_yaml(text: str, source: str) -> Any:
    """Return the data of a YAML file that an operator made.

    :param source: file name for messages.
    :raises ProfileError: not YAML, or a key twice in it.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        place = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ProfileError(f"{source}: {place}not usable YAML: {error.problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(f"{source}: not usable YAML: {' '.join(str(error).split())[:200]}") from None


def _spec(key: str, entry: Mapping[str, Any], source: str) -> ProfileSpec:
    value = entry["value"]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if key == f"{vocabulary.PREFIX}profile":
        raise ProfileError(f"{source}: {key}: a profile cannot name another profile; write its specs out")
    known = vocabulary.BY_KEY.get(key)
    if known is not None:
        try:
            known[0].parse(text)
        except vocabulary.SpecValueError as error:
            raise ProfileError(f"{source}: {key}={vocabulary.shown(text)}: {error}") from None
    elif not _NATIVE_KEY.fullmatch(key):
        hint = vocabulary.suggestion(key)
        raise ProfileError(
            f"{source}: {vocabulary.shown(key)}: neither a perf:* spec nor one of Nova's hw:*{hint}"
        )
    return ProfileSpec(text, " ".join(entry["reason"].split()), entry.get("basis", "practice"))
