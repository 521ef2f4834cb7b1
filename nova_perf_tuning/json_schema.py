"""What a JSON schema's validator found wrong, in one line that a person can read."""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Mapping
from typing import Any

import jsonschema

#: Characters of a wrong value that are shown, and of the reason.
_SHOWN = 60
_REASON = 160


def find(data: Any, schema: Mapping[str, Any]) -> str | None:
    """Return where ``data`` breaks a JSON schema and why, in one line; None when it does not."""
    error = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(data))
    return None if error is None else ": ".join([*map(str, error.absolute_path), text(error)])


def text(error: Any) -> str:
    """Return why a value is wrong; a value that is long comes after the reason, and shortened.

    :param error: :class:`jsonschema.ValidationError`. Its messages begin with the whole value, however long.
    """
    if error.validator == "additionalProperties" and error.validator_value is False:
        return _unknown(error)
    message = " ".join(str(error.message).split())
    value = " ".join(repr(error.instance).split())
    if len(value) <= _SHOWN or not message.startswith(value):
        return textwrap.shorten(message, _REASON, placeholder=" …")
    reason = textwrap.shorten(message[len(value) :], _REASON, placeholder=" …")
    return f"{reason}: {value[:_SHOWN]}… ({len(value)} characters)"


def _unknown(error: Any) -> str:
    """Return which keys nobody knows, and which one the first may have been meant to be."""
    known = list(error.schema.get("properties", {}))
    keys = [str(key)[:_SHOWN] for key in error.instance if key not in known]
    unknown = f"unknown key {', '.join(map(repr, keys[:5]))}"
    meant = difflib.get_close_matches(keys[0], known, 1)
    return f"{unknown}; did you mean '{meant[0]}'?" if meant else f"{unknown}; it has {', '.join(known)}"
