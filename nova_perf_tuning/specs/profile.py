"""Profiles: named sets of extra specs, each with the reason for its value. Text in, data out.

The files are read by :mod:`nova_perf_tuning.specs.profiles`.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from nova_perf_tuning import errors, schema_fault
from nova_perf_tuning.specs import vocabulary

#: A profile is a page of text; a bound for operator-made files.
MAX_BYTES: Final = 64 << 10
#: No file of an operator needs a larger one; exact in a double as well.
_MAX_INTEGER: Final = (1 << 53) - 1

#: What a profile file may hold (JSON schema); values are checked against the vocabulary afterwards.
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "required": ["name", "description", "specs"],
    "additionalProperties": False,
    "properties": {
        "name": {"type": "string", "pattern": rf"^{vocabulary.NAME_PATTERN}\Z"},
        "description": {"type": "string", "minLength": 1, "maxLength": 2000},
        "override": {"type": "boolean"},
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
    :ivar override: the file may take the place of a shipped profile of this name.
    """

    name: str
    description: str
    specs: Mapping[str, ProfileSpec]
    source: str
    override: bool = False


def parse(text: str, source: str, *, trusted: bool = False) -> Profile:
    """Read one profile.

    :param source: file name for messages.
    :param trusted: skip the schema (a shipped file, which the tests check): it takes longer than the rest.
    :raises ProfileError: not YAML, not of the schema, a key twice, an unknown spec or value.
    """
    data = load_yaml(text, source)
    if not trusted:
        _check_schema(data, source)
    specs = {key: _spec(key, entry, source) for key, entry in data["specs"].items()}
    return Profile(data["name"], " ".join(data["description"].split()), specs, source, data.get("override", False))


def combine(shipped: Iterable[Profile], own: Iterable[Profile]) -> dict[str, Profile]:
    """Return all profiles by name; an operator's replaces a shipped one only when it says ``override: true``.

    :raises ProfileError: a name twice, or a shipped name without ``override``.
    """
    profiles = {profile.name: profile for profile in shipped}
    seen: dict[str, Profile] = {}
    for profile in own:
        if profile.name in seen:
            other = seen[profile.name].source
            raise ProfileError(f"{profile.source}: name: '{profile.name}' is in {other} as well; rename one")
        if profile.name in profiles and not profile.override:
            raise ProfileError(
                f"{profile.source}: name: '{profile.name}' is a shipped profile; rename yours, or write "
                "'override: true' to replace the shipped one"
            )
        seen[profile.name] = profile
    return profiles | seen


def load_yaml(text: str, source: str) -> Any:
    """Return the data of a YAML file that an operator made.

    :param source: file name for messages.
    :raises ProfileError: not YAML, nested too deeply, an alias or a key twice in it.
    """
    import yaml  # takes as long as everything else of a host without profiles

    class Loader(yaml.SafeLoader):
        """YAML without what no file of an operator needs: keys stated twice (the last would win), aliases."""

        def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
            if self.check_event(yaml.AliasEvent):
                event: Any = self.peek_event()  # type: ignore[no-untyped-call]
                raise yaml.constructor.ConstructorError(None, None, "aliases are not allowed", event.start_mark)
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            mapping: dict[Any, Any] = super().construct_mapping(node, deep)
            if len(mapping) != len(node.value):
                raise yaml.constructor.ConstructorError(None, None, "a key stands here twice", node.start_mark)
            return mapping

        def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
            number: int = super().construct_yaml_int(node)
            # Python refuses to write out what has thousands of digits, in messages as well.
            if abs(number) > _MAX_INTEGER:
                raise yaml.constructor.ConstructorError(None, None, "a number is too large", node.start_mark)
            return number

    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_yaml_int)
    try:
        return yaml.load(text, Loader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f"line {mark.line + 1}: " if mark else ""
        raise ProfileError(f"{source}: {place}not usable YAML: {error.problem}") from None
    except (AttributeError, LookupError):  # PyYAML's own, where an explicit tag does not fit its text
        raise ProfileError(f"{source}: not usable YAML: a value is not of the type that its tag states") from None
    except (yaml.YAMLError, ValueError, ArithmeticError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else " ".join(str(error).split())[:200]
        raise ProfileError(f"{source}: not usable YAML: {reason}") from None


def _check_schema(data: Any, source: str) -> None:
    import jsonschema

    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(SCHEMA).iter_errors(data))
    if error is not None:
        place = ": ".join(str(part) for part in error.absolute_path)
        raise ProfileError(f"{source}: {place + ': ' if place else ''}{schema_fault.text(error)}")


def _spec(key: str, entry: Mapping[str, Any], source: str) -> ProfileSpec:
    value = entry["value"]
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if key == f"{vocabulary.PREFIX}profile":
        raise ProfileError(f"{source}: {key}: a profile cannot name another profile; write its specs out")
    known = vocabulary.by_key().get(key)
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
