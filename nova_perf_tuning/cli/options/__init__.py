# SPDX-License-Identifier: Apache-2.0
"""How options of commands are added and read: types of their values, files, pairs.

The modules of this package are groups of options that several commands have.
"""

import argparse
import re
from collections.abc import Callable, Sequence

from nova_perf_tuning import bounded_read, cpulist, errors
from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.validation.bench import base

_DURATION = re.compile(r"([0-9]{1,6})([smhd]?)").fullmatch
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_TAG = re.compile("[A-Za-z0-9_.-]{1,64}=.{0,255}").fullmatch


class OptionError(errors.PerfTuningError):
    """Options that do not go together, or one whose value cannot be used."""


def whole(low: int, high: int) -> Callable[[str], int]:
    def convert(text: str) -> int:
        if text.isascii() and text.isdigit() and len(text) < 12 and low <= int(text) <= high:
            return int(text)
        raise argparse.ArgumentTypeError(
            f"'{text[:40]}': give a whole number from {low} to {high}"
        )

    return convert


def number(low: float, high: float) -> Callable[[str], float]:
    def convert(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = low - 1
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"'{text[:40]}': give a number from {low:g} to {high:g}"
            )
        return value

    return convert


def duration(least_s: int) -> Callable[[str], float]:
    """Return the type of a time of at least ``least_s`` seconds and at most a week, in seconds."""

    def convert(text: str) -> float:
        match = _DURATION(text)
        seconds = 0
        if match is not None:
            seconds = int(match[1]) * _UNITS[match[2]]
        if not least_s <= seconds <= 7 * 86400:
            raise argparse.ArgumentTypeError(
                f"'{text[:40]}': give {least_s}s to 168h, such as 90s, 8m or 1h"
            )
        return float(seconds)

    return convert


def cpus(text: str) -> frozenset[int]:
    """Return the CPUs of a list in Nova's form, such as ``0-3,^1,16``, at least one."""
    try:
        numbers = cpulist.parse_spec(text)
    except cpulist.CpuListError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if not numbers:
        raise argparse.ArgumentTypeError(f"'{text[:40]}' names no CPU; write it as in 4-12,^8")
    return numbers


def benchmark(text: str) -> tuple[str, dict[str, str]]:
    """Return kind and parameters of a benchmark such as ``fio:seconds=5``."""
    try:
        return base.split(text)
    except base.ParameterError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def read(path: str, limit: int, option: str = "", hint: str = "") -> bytes:
    """Return what a file, a pipe or ``-`` (stdin) holds; an OptionError has ``option`` before, ``hint`` behind."""
    try:
        return bounded_read.read_argument(path, limit)
    except OSError as error:
        raise OptionError(f"{option}{path}: {error.strerror}{hint}") from None


def add(
    parser: argparse.ArgumentParser,
    name: str,
    metavar: str,
    meaning: str,
    kind: Callable[[str], object] = str,
    default: object = None,
) -> None:
    parser.add_argument(name, metavar=metavar, type=kind, default=default, help=meaning)


def add_repeated(parser: argparse.ArgumentParser, name: str, metavar: str, meaning: str) -> None:
    """Add an option that may be given several times; its value is a list."""
    parser.add_argument(
        name, metavar=metavar, action="append", default=[], help=f"{meaning}; may be repeated"
    )


def pairs(option: str, values: Sequence[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a mapping; OptionError: no ``=``, no key, or a key with two values."""
    specs: dict[str, str] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise OptionError(f"{option} {vocabulary.shown(text)}: write it as KEY=VALUE")
        if specs.setdefault(key, value) != value:
            raise OptionError(
                f"{option} {vocabulary.shown(key)} is given twice with different values; remove one"
            )
    return specs


def tags(args: argparse.Namespace) -> dict[str, str]:
    """Return the ``--tag`` options; OptionError: as of :func:`pairs`, or what results cannot hold."""
    known = pairs("--tag", args.tag)
    for key, value in known.items():
        if not _TAG(f"{key}={value}") or not value.isprintable():
            allowed = "64 letters, digits, '_', '.' and '-', and a value of at most 255 characters"
            raise OptionError(f"--tag {vocabulary.shown(key)}: give a key of at most {allowed}")
    return known
