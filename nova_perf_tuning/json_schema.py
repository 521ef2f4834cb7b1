# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a JSON document of others, in one line that a person can read."""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import jsonschema

from nova_perf_tuning import printing

_LONGEST = 160
#: Faults that are compared: what strangers write may have a million.
_MOST = 100


class EqualKeysError(ValueError):
    """An object has a key twice, with different values; says which."""


def distinct(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object of JSON (``object_pairs_hook``); of equal keys json.loads() takes the last without a word.

    The same value twice says nothing else: iperf3 3.12 prints sock_bufsize so.

    :raises EqualKeysError: a key is there twice, with different values.
    """
    data: dict[str, Any] = {}
    for key, value in pairs:
        if data.setdefault(key, value) != value:
            raise EqualKeysError(f"'{printing.one_line(key, 40)}' twice in one object")
    return data


def find(data: Any, schema: Mapping[str, Any]) -> str | None:
    """Return where ``data`` breaks a JSON schema and why, in one line; None when it does not."""
    faults = jsonschema.Draft202012Validator(schema).iter_errors(data)
    error = jsonschema.exceptions.best_match(itertools.islice(faults, _MOST))
    return None if error is None else ": ".join([*map(str, error.absolute_path), text(error)])


def text(error: jsonschema.ValidationError) -> str:
    """Return why a value is wrong; of a long message both ends, since it begins with the whole value."""
    message = " ".join(error.message.split())
    return message if len(message) <= _LONGEST else f"{message[:60]} … {message[-100:]}"
