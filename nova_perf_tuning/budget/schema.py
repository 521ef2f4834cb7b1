"""Checks foreign data against the JSON schemas of this package."""

from __future__ import annotations

import collections
import contextlib
import functools
import itertools
import json
import math
import os
import re
import select
import stat
from collections.abc import Callable, Sequence
from importlib import resources
from typing import Any, NoReturn

from nova_perf_tuning import at_once, errors, schema_fault

#: Bytes that most files do not reach: to make room for the largest one takes longer than to read them.
_MOST = 1 << 20
#: What a value breaks where the schema's description of it says better what is wanted.
_WANTED = ("type", "minimum", "maximum", "exclusiveMaximum", "minItems")
#: Faults of a document that are looked at for the one that says most.
_MOST_FAULTS = 100
#: How files begin that a program has compressed.
_COMPRESSED = {
    b"\xfd7zXZ\0": "xz",
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\x28\xb5\x2f\xfd": "zstd",
    b"PK\x03\x04": "zip",
}
#: How long a pipe may be without a writer, in milliseconds.
_PATIENCE_MS = 5000
#: A number that may be too large for a float, and an escape that may be half of a pair.
_LARGE = re.compile(r"[eE]\+?[0-9]{3}|[0-9]{300}").search
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]").search


class InputError(errors.PerfTuningError):
    """A file is not what it should be: names the file, the place in it and what is wrong."""


@functools.cache
def _validator(name: str) -> Any:
    import jsonschema

    text = (resources.files(__package__) / f"{name}.schema.json").read_text(encoding="utf-8")
    return jsonschema.Draft202012Validator(json.loads(text))


@functools.cache
def _quick(name: str) -> Callable[[Any], bool] | None:
    """Return a check that is some fifty times as fast and does not say what is wrong; None: not installed.

    Limits in a schema are best whole numbers: those with a fraction, 1.0 too, take it four times as long.
    """
    try:
        import jsonschema_rs
    except ImportError:
        return None
    compiled = jsonschema_rs.validator_for(_validator(name).schema)

    def is_valid(data: object) -> bool:
        try:
            return bool(compiled.is_valid(data))
        except (ValueError, TypeError):  # what it cannot even look at, such as a key that is no text
            return False

    return is_valid


def check(name: str, data: object, where: str) -> None:
    """Check ``data`` against ``NAME.schema.json``.

    :param where: the file's name, for the message.
    :raises InputError: naming the place of the first fault.
    """
    if (quick := _quick(name)) is not None and quick(data):
        return
    # What is wrong, and where, the other validator says.
    faults = itertools.islice(_validator(name).iter_errors(data), _MOST_FAULTS)
    error = next(faults, None)
    if error is None:
        return
    if error.validator == "required":  # what is missing may be there, under a name that nobody knows
        here = (one for one in faults if one.absolute_path == error.absolute_path)
        error = next((one for one in here if one.validator == "additionalProperties"), error)
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path)
    told = schema_fault.text(error)
    if error.validator in _WANTED and isinstance(wanted := error.schema.get("description"), str):
        told = f"{' '.join(repr(error.instance).split())[:60]} where {wanted} is wanted"
    raise InputError(f"{where}: {place.lstrip('.') or 'the document'}: {told}")


def read_text(path: str, limit: int) -> str:
    """Return a file's text.

    It may be a pipe, as of ``<(...)`` in a shell.

    :param limit: most bytes it may have.
    :raises InputError: unreadable, a pipe that nobody writes to, larger, or no UTF-8.
    """
    try:
        with open(path, "rb", opener=at_once.opener) as file:
            data = _begun(file.fileno(), path)
            data += file.read(_MOST - len(data))
            if len(data) == _MOST:
                data += file.read(max(0, limit + 1 - _MOST))
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    if len(data) > limit:
        raise InputError(f"{path}: larger than {limit >> 10} KiB; that is no file of this program")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        packed = next((name for magic, name in _COMPRESSED.items() if data.startswith(magic)), None)
        fault = (
            f"it is compressed ({packed}); unpack it first" if packed else f"no UTF-8 text at byte {error.start}"
        )
        raise InputError(f"{path}: {fault}") from None


def _begun(descriptor: int, path: str) -> bytes:
    """Return what had to be read of a pipe to see whether it has a writer, and let the rest wait for it.

    :raises InputError: nobody writes to it.
    """
    first = b""
    if stat.S_ISFIFO(os.fstat(descriptor).st_mode):
        seen = select.poll()
        seen.register(descriptor, select.POLLIN)
        if not seen.poll(_PATIENCE_MS):
            with contextlib.suppress(BlockingIOError):  # a writer is there and takes its time
                first = os.read(descriptor, 1)
                if not first:
                    raise InputError(f"{path}: it is a pipe that nobody writes to; give a file")
    os.set_blocking(descriptor, True)
    return first


def load_json(path: str, limit: int) -> Any:
    """Return a JSON document without NaN, infinity, and keys stated twice in it.

    :raises InputError: no JSON, or not acceptable.
    """
    text = read_text(path, limit)
    with contextlib.suppress(ImportError, ValueError, TypeError):  # what is wrong the standard library says better
        import orjson

        data = orjson.loads(text)
        # What stands for a key that is stated twice is lost, and its colon with it, which an escape could stand in
        # for. To count them takes half as long as to read the file, a function called for each object thrice.
        if "\\u003" not in text and orjson.dumps(data).count(b":") == text.count(":"):
            return data
    large = _LARGE(text)
    try:
        # A Python function called for each number takes longer than all the rest; most files have no such number.
        data = json.loads(
            text,
            object_pairs_hook=_once,
            parse_constant=_refuse,
            parse_float=_finite if large else None,
            parse_int=_whole if large else None,
        )
        # Half a surrogate pair, written as an escape, is text that can never be printed again.
        if _SURROGATE(text):
            json.dumps(data, ensure_ascii=False).encode("utf-8")
        return data
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: no JSON at line {error.lineno} column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: no acceptable JSON: {' '.join(str(error).split())[:100]}") from None


def _once(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        twice = collections.Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the key '{twice[:50]}' stands twice in one object; leave one of them out")
    return found


def _refuse(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is too large")
    return value


def _whole(text: str) -> int:
    _finite(text)
    return int(text)
