# SPDX-License-Identifier: Apache-2.0
"""The parameters of a benchmark: names, defaults, and which texts are allowed."""

import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning import errors


class ParameterError(errors.PerfTuningError):
    """A parameter of a benchmark is unknown, malformed or out of range: names it and what is allowed."""


class Parameter:
    """One parameter: a text that matches ``pattern`` as a whole; ``allowed`` says in words what that is."""

    def __init__(
        self,
        name: str,
        default: str,
        help: str,
        pattern: str = "(?s:.*)",
        allowed: str = "any text",
    ) -> None:
        self.name, self.default, self.help = name, default, help
        self._pattern, self._allowed = pattern, allowed

    def read(self, text: str) -> int | str:
        """Return the value; ValueError: it is not allowed, with what is."""
        if re.fullmatch(self._pattern, text):
            return text
        raise ValueError(self._allowed)


class Choice(Parameter):
    """One of some words."""

    def __init__(self, name: str, default: str, help: str, words: Sequence[str]) -> None:
        super().__init__(name, default, help, "|".join(words), f"one of {', '.join(words)}")


class Integer(Parameter):
    """A whole number from ``low`` to ``high``."""

    _NUMBER, _NOUN, _SUCH_AS = "[0-9]{1,12}", "a whole number", ""

    def __init__(
        self, name: str, default: str, help: str, low: int | str, high: int | str
    ) -> None:
        allowed = f"{self._NOUN} from {low} to {high}{self._SUCH_AS}"
        super().__init__(name, default, f"{help}, {low} to {high}", self._NUMBER, allowed)
        self._range = range(self._value(str(low)), self._value(str(high)) + 1)

    def read(self, text: str) -> int:
        if (value := self._value(str(super().read(text)))) in self._range:
            return value
        raise ValueError(self._allowed)

    def _value(self, text: str) -> int:
        return int(text)


class Size(Integer):
    """Bytes, where a suffix is a power of 1024; the ends are given as people write them: ``16k``, ``64M``."""

    _NUMBER, _NOUN, _SUCH_AS = "[1-9][0-9]{0,11}[kKmMgG]?", "a size", ", such as 16k or 64M"

    def _value(self, text: str) -> int:
        digits = text.rstrip("kKmMgG")
        return int(digits) << {"": 0, "k": 10, "m": 20, "g": 30}[text[len(digits) :].lower()]


SECONDS: Final = Integer("seconds", "10", "length of the run", 1, 3600)


class Values(dict[str, int | str]):
    """The values of all parameters of one run."""

    def number(self, name: str) -> int:
        return int(self[name])

    def numbers(self, *names: str) -> list[int]:
        """Return several of them, in the order of ``names``."""
        return [self.number(name) for name in names]

    def text(self, name: str) -> str:
        return str(self[name])


def split(text: str) -> tuple[str, dict[str, str]]:
    """Return kind and parameters of ``KIND[:KEY=VALUE,...]``; ParameterError: a part is none, or twice there."""
    kind, _, given = text.partition(":")
    pairs: dict[str, str] = {}
    if not given:
        return kind, pairs
    for pair in given.split(","):
        key, equals, value = map(str.strip, pair.partition("="))
        if not equals or not key:
            raise ParameterError(f"'{pair[:80]}' is not KEY=VALUE; write it as in seconds=5")
        if key in pairs:
            raise ParameterError(f"parameter '{key[:40]}' is given twice; keep one of them")
        pairs[key] = value
    return kind, pairs
