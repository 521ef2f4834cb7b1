# SPDX-License-Identifier: Apache-2.0
"""Reads documents that others wrote, and checks them against the JSON schemas of this package."""

import functools
import itertools
from importlib import resources
from typing import Any

from nova_perf_tuning import bounded_json, bounded_read, errors, json_schema

#: What a value breaks where the schema's description says better what is wanted.
_WANTED = ("type", "minimum", "maximum", "exclusiveMaximum", "minItems")
#: Faults of a document that are looked at for the one that says most.
_MOST_FAULTS = 100


class InputError(errors.PerfTuningError):
    """A file is not what it should be: names the file, the place in it and what is wrong."""


@functools.cache
def _validator(name: str, package: str) -> Any:
    return json_schema.validator(_schema(name, package))


def _schema(name: str, package: str) -> Any:
    text = (resources.files(package) / f"{name}.schema.json").read_text(encoding="utf-8")
    return bounded_json.parse(text)


@functools.cache
def _trial_validator() -> Any:
    results = _schema("results", __package__)
    trial = results["properties"]["trials"]["items"]
    return json_schema.validator({**trial, "$defs": results["$defs"]})


def check_trial(row: object, where: str) -> None:
    """Check one trial as :func:`check` does all of them in results.

    :raises InputError: results with this trial would be refused.
    """
    _raise_fault(_trial_validator(), row, where)


def check(name: str, data: object, where: str, package: str = __package__) -> None:
    """Check ``data`` against ``NAME.schema.json`` of a package.

    :param where: the file's name, for the message.
    :raises InputError: naming the place of a fault; an unknown key, perhaps misspelt, comes first.
    """
    _raise_fault(_validator(name, package), data, where)


def _raise_fault(validator: Any, data: object, where: str) -> None:
    faults = list(itertools.islice(validator.iter_errors(data), _MOST_FAULTS))
    if not faults:
        return
    error = min(faults, key=lambda fault: fault.validator != "additionalProperties")
    path = ""
    for step in error.absolute_path:
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            path += f".{step}"
    text = json_schema.text(error)
    if error.validator in _WANTED and isinstance(error.schema.get("description"), str):
        wanted = error.schema["description"]
        text = f"{' '.join(repr(error.instance).split())[:60]} where {wanted} is wanted"
    raise InputError(f"{where}: {path.lstrip('.') or 'the document'}: {text}")


def read_text(path: str, limit: int) -> str:
    """Return a file's text; InputError: unreadable, larger than ``limit`` bytes, or no UTF-8."""
    try:
        return bounded_read.read_argument(path, limit).decode("utf-8")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: no UTF-8 text at byte {error.start}; is it compressed?"
        ) from None


def load_json(path: str, limit: int) -> Any:
    """Return a JSON document without NaN, infinity and half surrogate pairs; InputError: no such."""
    return parse_json(read_text(path, limit), path)


def parse_json(text: str, where: str) -> Any:
    """As :func:`load_json`, of a text; ``where``: what it is called in the message."""
    try:
        return bounded_json.parse(text)
    except bounded_json.JsonError as error:
        raise InputError(f"{where}: {error}") from None
