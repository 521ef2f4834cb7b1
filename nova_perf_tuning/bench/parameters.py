"""Parameters of a benchmark as people write them: ``streams=2,seconds=5``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from nova_perf_tuning.bench import base

_SIZE = re.compile(r"([1-9][0-9]{0,11})([kKmMgG]?)").fullmatch
_FACTOR = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def split(pairs: Iterable[str]) -> dict[str, str]:
    """Return ``KEY=VALUE`` texts as a dictionary.

    :raises base.ParameterError: a text without ``=`` or a key given twice.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = key.strip()
        if not equals or not key:
            raise base.ParameterError(f"'{pair[:80]}' is not KEY=VALUE; write it as in seconds=5")
        if key in found:
            raise base.ParameterError(f"parameter '{key[:40]}' is given twice; keep one of them")
        found[key] = value.strip()
    return found


def merge(kind: str, defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    """Return ``defaults`` overlaid by ``given``.

    :raises base.ParameterError: a key that the benchmark does not have.
    """
    for key in given:
        if key not in defaults:
            raise base.ParameterError(
                f"{kind} has no parameter '{key[:40]}'; it has {', '.join(sorted(defaults))}"
            )
    return {**defaults, **given}


def integer(kind: str, parameters: Mapping[str, str], key: str, low: int, high: int) -> int:
    """Return a whole number between ``low`` and ``high``.

    :raises base.ParameterError: it is none.
    """
    text = parameters[key]
    if text.isascii() and text.isdigit() and len(text) <= 12 and low <= int(text) <= high:
        return int(text)
    raise base.ParameterError(f"{kind}: {key}='{text[:40]}' must be a whole number from {low} to {high}")


def choice(kind: str, parameters: Mapping[str, str], key: str, allowed: tuple[str, ...]) -> str:
    """Return one of ``allowed``.

    :raises base.ParameterError: it is none of them.
    """
    text = parameters[key]
    if text not in allowed:
        raise base.ParameterError(f"{kind}: {key}='{text[:40]}' must be one of {', '.join(allowed)}")
    return text


def size(kind: str, parameters: Mapping[str, str], key: str, low: int, high: int) -> int:
    """Return a size such as ``16k`` or ``64M`` (powers of 1024) in bytes, between ``low`` and ``high``.

    :raises base.ParameterError: it is none.
    """
    text = parameters[key]
    match = _SIZE(text)
    if match:
        value = int(match[1]) * _FACTOR[match[2].lower()]
        if low <= value <= high:
            return value
    raise base.ParameterError(
        f"{kind}: {key}='{text[:40]}' must be a size from {_show(low)} to {_show(high)}, such as 16k or 64M"
    )


def _show(value: int) -> str:
    for suffix in ("g", "m", "k"):
        if value % _FACTOR[suffix] == 0:
            return f"{value // _FACTOR[suffix]}{suffix}"
    return str(value)
