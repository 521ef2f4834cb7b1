# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a JSON document of others, in one line that a person can read."""

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jsonschema

_LONGEST = 160
#: Faults that are compared: what strangers write may have a million.
_MOST = 100


def validator(schema: Mapping[str, Any]) -> "jsonschema.Draft202012Validator":
    """Return what checks data against a JSON schema."""
    import jsonschema  # a fifth of the start of a command, most of which check no document

    return jsonschema.Draft202012Validator(schema)


def find(data: Any, schema: Mapping[str, Any]) -> str | None:
    """Return where ``data`` breaks a JSON schema and why, in one line; None when it does not."""
    from jsonschema import exceptions  # see validator

    faults = validator(schema).iter_errors(data)
    error = exceptions.best_match(itertools.islice(faults, _MOST))
    if error is None:
        return None
    return ": ".join([*map(str, error.absolute_path), text(error)])


def text(error: "jsonschema.ValidationError") -> str:
    """Return why a value is wrong; of a long message both ends, since it begins with the whole value."""
    message = " ".join(error.message.split())
    if len(message) <= _LONGEST:
        return message
    return f"{message[:60]} … {message[-100:]}"
