"""Checks foreign data against the JSON schemas of this package."""

from __future__ import annotations

import functools
import json
import math
from importlib import resources
from typing import Any, NoReturn

from nova_perf_tuning import errors


class InputError(errors.PerfTuningError):
    """A file is not what it should be: names the file, the place in it and what is wrong."""


@functools.cache
def _validator(name: str) -> Any:
    import jsonschema

    text = (resources.files(__package__) / f"{name}.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


def check(name: str, data: object, where: str) -> None:
    """Check ``data`` against ``NAME.schema.json``.

    :param where: the file's name, for the message.
    :raises InputError: naming the place of the first fault.
    """
    error = next(_validator(name).iter_errors(data), None)
    if error is None:
        return
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    message = " ".join(error.message.split())
    raise InputError(f"{where}: {place.lstrip('.') or 'the document'}: {message[:200]}")


def read_text(path: str, limit: int) -> str:
    """Return a file's text.

    :param limit: most bytes it may have.
    :raises InputError: unreadable, larger, or no UTF-8.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(limit + 1)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if len(data) > limit:
        raise InputError(f"{path}: larger than {limit >> 10} KiB; that is no file of this program")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: no UTF-8 text at byte {error.start}") from None


def load_json(path: str, limit: int) -> Any:
    """Return a JSON document without NaN and infinity in it.

    :raises InputError: no JSON, or not acceptable.
    """
    text = read_text(path, limit)
    try:
        data = json.loads(text, parse_constant=_refuse, parse_float=_finite)
        # Half a surrogate pair, written as an escape, is text that can never be printed again.
        json.dumps(data, ensure_ascii=False).encode("utf-8")
        return data
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: no JSON at line {error.lineno} column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no acceptable JSON: {' '.join(str(error).split())[:100]}") from None


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value
