"""Parameters of a benchmark as people write them, ``streams=2,seconds=5``: each is declared with its range."""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning import errors

_SIZE = re.compile(r"([1-9][0-9]{0,11})([kKmMgG]?)").fullmatch
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class ParameterError(errors.PerfTuningError):
    """A parameter of a benchmark is unknown, malformed or out of range: names it and what is allowed."""


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter(abc.ABC):
    """One parameter.

    :ivar default: as people write it. :ivar meaning: one line for people, without the range.
    """

    name: str
    default: str
    meaning: str

    @abc.abstractmethod
    def read(self, text: str) -> int | str:
        """Return the value.

        :raises ValueError: not allowed; says what is.
        """

    @property
    def help(self) -> str:
        """What it means and what is allowed."""
        return self.meaning


@dataclasses.dataclass(frozen=True, slots=True)
class Text(Parameter):
    """A text that matches ``pattern`` as a whole.

    :ivar form: what such a text is, for messages.
    """

    pattern: str = "(?s:.*)"
    form: str = "any text"

    def read(self, text: str) -> str:
        if re.fullmatch(self.pattern, text):
            return text
        raise ValueError(self.form)


@dataclasses.dataclass(frozen=True, slots=True)
class Integer(Parameter):
    """A whole number from ``low`` to ``high``."""

    low: int = 1
    high: int = 1 << 31

    def read(self, text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) <= 12 and self.low <= int(text) <= self.high:
            return int(text)
        raise ValueError(f"a whole number from {self.low} to {self.high}")

    @property
    def help(self) -> str:
        return f"{self.meaning}, {self.low} to {self.high}"


@dataclasses.dataclass(frozen=True, slots=True)
class Choice(Parameter):
    """One of some words."""

    allowed: Sequence[str] = ()

    def read(self, text: str) -> str:
        if text in self.allowed:
            return text
        raise ValueError(f"one of {', '.join(self.allowed)}")


@dataclasses.dataclass(frozen=True, slots=True)
class Size(Parameter):
    """Bytes with a suffix of 1024, such as ``16k`` or ``64M``."""

    low: int = 1
    high: int = 1 << 40

    def read(self, text: str) -> int:
        if match := _SIZE(text):
            value = int(match[1]) * _FACTOR[match[2].lower()]
            if self.low <= value <= self.high:
                return value
        raise ValueError(f"a size from {_show(self.low)} to {_show(self.high)}, such as 16k or 64M")

    @property
    def help(self) -> str:
        return f"{self.meaning}, {_show(self.low)} to {_show(self.high)}"


SECONDS: Final = Integer("seconds", "10", "length of the run", 1, 3600)


class Values(dict[str, int | str]):
    """The values of all parameters of one run."""

    def number(self, name: str) -> int:
        """Return a whole number or a size in bytes."""
        return int(self[name])

    def numbers(self, *names: str) -> list[int]:
        """Return several whole numbers or sizes, in the order of ``names``."""
        return [self.number(name) for name in names]

    def text(self, name: str) -> str:
        """Return a text or a choice."""
        return str(self[name])


def split(text: str) -> dict[str, str]:
    """Return ``KEY=VALUE,...`` as a dictionary; empty: none.

    :raises ParameterError: a part without ``=`` or a key given twice.
    """
    pairs: dict[str, str] = {}
    for pair in text.split(",") if text else ():
        key, equals, value = map(str.strip, pair.partition("="))
        if not equals or not key:
            raise ParameterError(f"'{pair[:80]}' is not KEY=VALUE; write it as in seconds=5")
        if key in pairs:
            raise ParameterError(f"parameter '{key[:40]}' is given twice; keep one of them")
        pairs[key] = value
    return pairs


def _show(value: int) -> str:
    for suffix in ("g", "m", "k"):
        if value % _FACTOR[suffix] == 0:
            return f"{value // _FACTOR[suffix]}{suffix}"
    return str(value)
