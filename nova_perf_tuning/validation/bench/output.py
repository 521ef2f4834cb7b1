"""Reading what a benchmark printed. It may come from a hostile guest: everything is bounded and checked."""

from __future__ import annotations

import json
import math
import re
from typing import Any, NoReturn

from nova_perf_tuning.validation.bench import base

#: A group for a number of whatever kind, of bounded length.
NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"

#: Longest output that is read, in characters.
MAX_CHARACTERS = 4 * 1024 * 1024

#: No figure of any benchmark is larger (a terabit per second is 1e12, an hour in nanoseconds 3.6e12).
MAX_NUMBER = 1e15


def printable(text: object, length: int = 160) -> str:
    """Return foreign text fit for one line of a message: no control characters, at most ``length`` long."""
    line = " ".join(str(text)[: 4 * length].split())
    line = "".join(character if character.isprintable() else "?" for character in line)
    return line if len(line) <= length else line[: length - 1] + "…"


def check_length(kind: str, output: str) -> None:
    """Refuse empty and oversized output.

    :raises base.OutputError: it is one of them.
    """
    if not output.strip():
        raise base.OutputError(f"{kind}: the output is empty")
    if len(output) > MAX_CHARACTERS:
        raise base.OutputError(f"{kind}: the output has more than {MAX_CHARACTERS} characters")


def load_json(kind: str, output: str) -> dict[str, Any]:
    """Return the JSON object in ``output``; lines before its opening brace (warnings) are passed over.

    :raises base.OutputError: no object, truncated, NaN or infinity in it, or nested too deep.
    """
    check_length(kind, output)
    start = output.find("{")
    if start < 0:
        raise base.OutputError(f"{kind}: no JSON in the output, it begins '{printable(output, 60)}'")
    try:
        data: dict[str, Any] = json.loads(output[start:], parse_constant=_refuse)
    except json.JSONDecodeError as error:
        cut = error.pos >= len(output[start:].rstrip())
        what = "is cut off" if cut else f"is no JSON at line {error.lineno}: {error.msg}"
        raise base.OutputError(f"{kind}: the output {what}") from None
    except (ValueError, RecursionError) as error:
        raise base.OutputError(f"{kind}: the output is no acceptable JSON: {printable(error, 80)}") from None
    return data


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def labelled(kind: str, text: str, pattern: str, name: str) -> float:
    """Return the number that the one group of ``pattern`` finds; it must be found exactly once.

    :param name: of the figure, for messages.
    :raises base.OutputError: it is there not once, or out of range.
    """
    found = re.findall(pattern, text, re.MULTILINE)
    if len(found) != 1:
        what = "ambiguous" if found else "cut off or foreign"
        raise base.OutputError(f"{kind}: the output is {what}: {len(found)} lines '{name}'")
    return check_number(kind, name, float(found[0]))


def find(kind: str, data: object, *path: str | int) -> Any:
    """Return the value at ``path`` of nested objects and lists.

    :raises base.OutputError: there is none.
    """
    for step in path:
        try:
            if isinstance(data, dict if isinstance(step, str) else list):
                data = data[step]  # type: ignore[index]
                continue
        except (KeyError, IndexError):
            pass
        raise base.OutputError(f"{kind}: the output has no '{'.'.join(map(str, path))}'")
    return data


def number(kind: str, data: object, *path: str | int) -> float:
    """Return the number at ``path``: finite, not negative, at most :data:`MAX_NUMBER`.

    :raises base.OutputError: there is none or it is out of range.
    """
    return check_number(kind, ".".join(map(str, path)), find(kind, data, *path))


def check_number(kind: str, name: str, value: object) -> float:
    """Return ``value`` as a float if it can be a figure.

    :raises base.OutputError: no number, NaN, infinite, negative or absurdly large.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise base.OutputError(f"{kind}: '{name}' is no number: {printable(value, 40)!r}")
    if not 0 <= value <= MAX_NUMBER or not math.isfinite(value):
        raise base.OutputError(f"{kind}: '{name}' is out of range: {printable(value, 40)}")
    return float(value)
