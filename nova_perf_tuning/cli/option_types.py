"""Types of options: argparse refuses a wrong value with one line that says what to give."""

import argparse
import re
from collections.abc import Callable

from nova_perf_tuning import cpulist, errors

_DURATION = re.compile(r"([0-9]{1,6})([smh]?)").fullmatch
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600}


class OptionError(errors.PerfTuningError):
    """Options that do not go together, or one whose value cannot be used."""


def whole(low: int, high: int) -> Callable[[str], int]:
    """Return the type of a whole number from ``low`` to ``high``."""

    def convert(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(f"'{text[:40]}': give a whole number from {low} to {high}")

    return convert


def number(low: float, high: float) -> Callable[[str], float]:
    """Return the type of a number from ``low`` to ``high``."""

    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"'{text[:40]}': give a number from {low:g} to {high:g}")
        return value

    return convert


def duration(least_s: int) -> Callable[[str], float]:
    """Return the type of a time of at least ``least_s`` seconds and at most a week, in seconds."""

    def convert(text: str) -> float:
        match = _DURATION(text)
        seconds = int(match[1]) * _UNITS[match[2]] if match else 0
        if not least_s <= seconds <= 7 * 86400:
            raise argparse.ArgumentTypeError(f"'{text[:40]}': give {least_s}s to 168h, such as 90s, 8m or 1h")
        return float(seconds)

    return convert


def cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list such as ``0-3,16``, at least one."""
    try:
        numbers = cpulist.parse(text)
    except cpulist.CpuListError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not numbers:
        raise argparse.ArgumentTypeError("empty; give at least one CPU, such as 0-3")
    return numbers
