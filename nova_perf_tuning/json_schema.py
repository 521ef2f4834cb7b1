# SPDX-License-Identifier: Apache-2.0
"""What is wrong with a JSON document of others, in one line that a person can read."""

import itertools
from collections.abc import Mapping
from typing import Any

import jsonschema

_LONGEST = 160
#: Faults that are compared: what strangers write may have a million.
_MOST = 100


def find(data: Any, schema: Mapping[str, Any]) -> str | None:
    """Return where ``data`` breaks a JSON schema and why, in one line; None when it does not."""
    faults = jsonschema.Draft202012Validator(schema).iter_errors(data)
    error = jsonschema.exceptions.best_match(itertools.islice(faults, _MOST))
    if error is None:
        return None
    return ": ".join([*map(str, error.absolute_path), text(error)])


def text(error: jsonschema.ValidationError) -> str:
    """Return why a value is wrong; of a long message both ends, since it begins with the whole value."""
    message = " ".join(error.message.split())
    if len(message) <= _LONGEST:
        return message
    return f"{message[:60]} … {message[-100:]}"
