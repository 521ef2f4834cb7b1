# SPDX-License-Identifier: Apache-2.0
"""Figures as people write them, with their unit: ``40us``, ``10 Gbit/s``, ``100k IO/s``."""

import dataclasses
import re
from typing import Final

_WRITTEN: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)[ \t]*(1/[a-z]{1,9}|[^0-9.,]{0,40})")
#: Before a unit that has no such prefix itself: ``100k IO/s``.
_MULTIPLE: Final = re.compile(r"([kM])[ \t]*(.+)")
_FACTORS: Final = {"k": 1e3, "M": 1e6}
#: The longest of a run, of all threads or of one.
_MAXIMUM: Final = re.compile(r"(.+_)?latency_max(_(cpu|thread)[0-9]+)?")
_EXAMPLES: Final = "40us, 10 ms, 10 Gbit/s or 100k IO/s"


class QuantityError(ValueError):
    """A text is no number with its unit; the message is the end of a sentence."""


@dataclasses.dataclass(frozen=True, slots=True)
class Unit:
    """:ivar dimension: what it measures; :ivar factor: how many of the dimension's own unit it is."""

    dimension: str
    factor: float = 1.0


@dataclasses.dataclass(frozen=True, slots=True)
class Quantity:
    """A number with its unit; :ivar written: as its author wrote it."""

    number: float
    unit: Unit
    written: str

    @property
    def value(self) -> float:
        """Return the number in its dimension's own unit: seconds, bits a second."""
        return self.number * self.unit.factor

    def within(self, unit: str) -> float | None:
        """Return the number in another unit; None: that has another dimension."""
        wanted = unit_of(unit)
        if wanted.dimension != self.unit.dimension:
            return None
        return float(f"{self.value / wanted.factor:.12g}")  # 0.03 ms are 30 µs


TIME: Final = "time"
_RATE: Final = "data rate"


def _units() -> dict[str, Unit]:
    """Return every spelling of a unit that is known; others mean only themselves."""
    units: dict[str, Unit] = {}
    times = {
        1e-9: "ns nsec",
        1e-6: "us µs μs usec",
        1e-3: "ms msec",
        1.0: "s sec",
        60.0: "m min",
        3600.0: "h",
        86400.0: "d",
    }
    for factor, spellings in times.items():
        for spelling in spellings.split():
            units[spelling] = Unit(TIME, factor)
    decimal = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    for prefix, factor in decimal.items():
        for spelling in ("bit/s", "bits/s", "b/s", "bps"):
            units[f"{prefix}{spelling}"] = Unit(_RATE, factor)
        if prefix != "K":  # KB/s is 1000 bytes to some programs and 1024 to others
            units[f"{prefix}B/s"] = Unit(_RATE, 8 * factor)
    for prefix, factor in (("Ki", 2.0**10), ("Mi", 2.0**20), ("Gi", 2.0**30), ("Ti", 2.0**40)):
        units[f"{prefix}B/s"] = Unit(_RATE, 8 * factor)
    for prefix, factor in (("", 1.0), ("k", 1e3), ("M", 1e6)):
        for spelling in ("IO/s", "IOPS"):
            units[f"{prefix}{spelling}"] = Unit("IO/s", factor)
    units["1/min"] = Unit("1/s", 1 / 60)
    units["GFLOPS"] = Unit("MFLOPS", 1e3)
    return units


_UNITS: Final = _units()


def unit_of(text: str) -> Unit:
    """Return a unit; one that is not known has a dimension of its own."""
    return _UNITS.get(text, Unit(text))


def parse(text: str) -> Quantity:
    """Return a number with its unit.

    :raises QuantityError: it is no such text.
    """
    shown = text.strip()
    written = _WRITTEN.fullmatch(shown)
    if written is None:
        raise QuantityError(f"'{shown[:40]}' is not a number with its unit, such as {_EXAMPLES}")
    number, unit = float(written[1]), written[2].strip()
    if not unit:
        raise QuantityError(f"'{shown[:40]}' has no unit; write it as in {_EXAMPLES}")
    multiple = _MULTIPLE.fullmatch(unit)
    if unit not in _UNITS and multiple is not None:
        rest = multiple[2].strip()
        if rest in _UNITS or multiple[0] != f"{multiple[1]}{rest}":
            number *= _FACTORS[multiple[1]]
            unit = rest
    return Quantity(number, unit_of(unit), shown)


def seconds(text: str) -> float:
    """Return a time in seconds; QuantityError: the text is no time."""
    time = parse(text)
    if time.unit.dimension != TIME:
        raise QuantityError(f"'{time.written[:40]}' is not a time, such as 60s, 10m or 1h")
    return time.value


def is_maximum(metric: str) -> bool:
    """Return whether a figure is the longest that a run has seen, so that longer runs see more."""
    return _MAXIMUM.fullmatch(metric) is not None
