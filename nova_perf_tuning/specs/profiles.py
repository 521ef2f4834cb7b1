# SPDX-License-Identifier: Apache-2.0
"""Profiles: named sets of extra specs, each with the reason for its value; shipped ones and an operator's.

The files are the operator's: trusted, and checked for mistakes. Nothing else in ``specs`` reads a
file.
"""

import dataclasses
import functools
import importlib.resources
import math
import pathlib
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

import yaml

from nova_perf_tuning import bounded_json, bounded_read, errors, json_schema
from nova_perf_tuning.specs import vocabulary

_MAX_BYTES: Final = 64 << 10
#: Most characters of a number: to make one of thousands of digits takes long, and to print it is an error.
_MAX_NUMBER: Final = 40
_NUMBERS: Final = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_SHIPPED: Final = pathlib.Path(__file__).parent / "profiles"

#: What a profile file may hold (JSON schema); values are checked against the vocabulary
#: afterwards.
SCHEMA: Final[Mapping[str, object]] = bounded_json.parse(
    importlib.resources.files(__package__)
    .joinpath("profile.schema.json")
    .read_text(encoding="utf-8")
)
_NATIVE_KEY: Final = re.compile(r"hw:[a-z0-9_.:-]{1,100}")


class ProfileError(errors.PerfTuningError):
    """A profile file cannot be used; the message names the file and the key."""


@dataclasses.dataclass(frozen=True, slots=True)
class ProfileSpec:
    """One spec of a profile.

    :ivar basis: ``rule`` (follows from how the parts work), ``practice`` (published experience, to
        be decided by measurement) or ``measured``.
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
    """YAML of few levels without aliases, a few of which name billions of values, where no key stands twice.

    Numbers are short.
    """

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            problem = "an alias (*name) is not allowed; write the value out"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        if self._depth > bounded_json.DEEPEST:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            problem = f"it is nested more than {bounded_json.DEEPEST} levels deep"
            raise yaml.composer.ComposerError(None, None, problem, event.start_mark)
        self._depth += 1
        node: yaml.Node | None = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def construct_scalar(self, node: yaml.ScalarNode | yaml.MappingNode) -> Any:
        value: Any = super().construct_scalar(node)
        if node.tag in _NUMBERS and len(value) > _MAX_NUMBER:
            problem = f"a number has at most {_MAX_NUMBER} characters"
            raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
        return value

    def construct_mapping(
        self, node: yaml.MappingNode, deep: bool = False
    ) -> dict[object, object]:
        mapping: dict[object, object] = super().construct_mapping(node, deep)
        if len(mapping) != len(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "a key stands here twice", node.start_mark
            )
        return mapping


def _finite(loader: _Loader, node: yaml.ScalarNode) -> float:
    """Return a number; .nan compares with no limit, so that a schema lets it through."""
    value: float = loader.construct_yaml_float(node)
    if not math.isfinite(value):
        problem = f"{node.value} is not a finite number; write a figure"
        raise yaml.constructor.ConstructorError(None, None, problem, node.start_mark)
    return value


_Loader.add_constructor("tag:yaml.org,2002:float", _finite)


def load_yaml(text: str, source: str) -> Any:
    """Return the data of a YAML file that an operator made.

    :param source: file name for messages.
    :raises ProfileError: not YAML, a key twice in it, or a number that is not finite.
    """
    try:
        return yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader)
    except yaml.MarkedYAMLError as error:
        where = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise ProfileError(f"{source}: {where}not usable YAML: {error.problem}") from None
    except (LookupError, AttributeError):  # PyYAML looks at no value that a tag comes before
        problem = "a value is not what its tag (!!int, !!bool, ...) says; leave the tag out"
        raise ProfileError(f"{source}: not usable YAML: {problem}") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ProfileError(
            f"{source}: not usable YAML: {' '.join(str(error).split())[:200]}"
        ) from None


def _spec(key: str, entry: Mapping[str, Any], source: str) -> ProfileSpec:
    value = entry["value"]
    text = str(value)
    if isinstance(value, bool):
        text = text.lower()
    if key == f"{vocabulary.PREFIX}profile":
        raise ProfileError(
            f"{source}: {key}: a profile cannot name another profile; write its specs out"
        )
    known = vocabulary.BY_KEY.get(key)
    if known is not None:
        if known[0].parse(text) is None:
            raise ProfileError(
                f"{source}: {key}={vocabulary.shown(text)}: allowed: {known[0].allowed}"
            )
    elif not _NATIVE_KEY.fullmatch(key):
        hint = vocabulary.suggestion(key)
        raise ProfileError(
            f"{source}: {vocabulary.shown(key)}: neither a perf:* spec nor one of Nova's hw:*{hint}"
        )
    return ProfileSpec(text, " ".join(entry["reason"].split()), entry.get("basis", "practice"))


@functools.cache
def shipped() -> Mapping[str, Profile]:
    """Return the profiles of this package by name."""
    profiles: dict[str, Profile] = {}
    for path in sorted(_SHIPPED.glob("*.yaml")):
        profile = _read(path)
        profiles[profile.name] = profile
    return profiles


def load(directory: str | None) -> Mapping[str, Profile]:
    """Return the shipped profiles and those of an operator's ``directory`` (``*.yaml``), by name.

    Within nova-compute each boot of a guest with a profile asks, so files are read anew when they
    have changed.

    :raises ProfileError: the directory or a file cannot be read, or holds something that is no
        profile, or a name twice.
    """
    if directory is None:
        return shipped()
    try:
        files: list[tuple[pathlib.Path, int, int]] = []
        for path in sorted(pathlib.Path(directory).iterdir()):
            if path.suffix in (".yaml", ".yml"):
                status = path.stat()
                files.append((path, status.st_mtime_ns, status.st_size))
        return _combined(tuple(files))
    except OSError as error:
        raise ProfileError(f"profile directory {directory}: {error.strerror}") from None


@functools.lru_cache(maxsize=4)
def _combined(files: Iterable[tuple[pathlib.Path, int, int]]) -> Mapping[str, Profile]:
    """Combine files; their times and sizes only tell this cache that one has changed."""
    known = dict(shipped())
    for path, _time, _size in files:
        own = _read(path)
        if own.name in known:
            raise ProfileError(
                f"{own.source}: name: '{own.name}' is in {known[own.name].source} as well"
            )
        known[own.name] = own
    return known


def _read(path: pathlib.Path) -> Profile:
    try:
        return parse(bounded_read.read_text(path, _MAX_BYTES), str(path))
    except OSError as error:
        raise ProfileError(f"{path}: {error.strerror}") from None
