"""Reads a plan that ``nova-perf plan -f json`` wrote, or that a person or another program made."""

from __future__ import annotations

import json
from typing import Any, Final

from nova_perf_tuning import at_once, errors
from nova_perf_tuning.host import setting as setting_module

#: Written by this program alone, in one process with the rules that propose it: the content of such a file runs as
#: root at the next boot (modprobe.d, tmpfiles.d), and who gives a plan to root need not be root.
_OURS: Final = frozenset({"config_file"})
#: A plan of the largest host that is tested (11,000 settings) has 5 MB.
MAX_BYTES: Final = 64 << 20
MAX_SETTINGS: Final = 200_000

# One line of printable text: it goes to terminals, logs and the journal. \Z and not $, which takes a newline.
_LINE: Final = r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z"

SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["settings"],
    "properties": {
        "settings": {
            "type": "array",
            "maxItems": MAX_SETTINGS,
            "items": {
                "type": "object",
                "required": ["kind", "target", "value"],
                "properties": {
                    "kind": {"type": "string", "pattern": r"^[a-z][a-z0-9_]{0,63}\Z"},
                    "target": {"type": "string", "minLength": 1, "maxLength": 256, "pattern": _LINE},
                    "value": {"type": "string", "minLength": 1, "maxLength": 65536, "pattern": _LINE},
                    "current": {"type": ["string", "null"], "maxLength": 65536},
                    "reason": {"type": "string", "maxLength": 4096, "pattern": _LINE},
                    "rule": {"type": "string", "maxLength": 256, "pattern": _LINE},
                    "identity": {"type": "string", "maxLength": 512, "pattern": _LINE},
                    "persistent": {"type": "boolean"},
                },
            },
        }
    },
}


class PlanFileError(errors.PerfTuningError):
    """A plan file cannot be read or is no plan."""


def load(path: str) -> list[setting_module.Setting]:
    """Return the settings of the plan in ``path`` (``-`` is standard input).

    :raises PlanFileError: no such file, too large, no JSON, or not the documented form.
    """
    data = _read(path)
    try:
        plan = json.loads(data)
        # Half a surrogate pair, written as an escape, is text that can never be printed or stored.
        json.dumps(plan, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise PlanFileError(f"{path}: it has text that is no Unicode (half a surrogate pair)") from None
    except (ValueError, RecursionError) as error:
        raise PlanFileError(f"{path}: it is no JSON: {str(error)[:120]}") from None
    _check(path, plan)
    if foreign := sorted({one["kind"] for one in plan["settings"]} & _OURS):
        raise PlanFileError(
            f"{path}: settings of kind {foreign[0]} are not taken from a file;"
            " 'nova-perf apply --rule ID --persist' writes them"
        )
    return [
        setting_module.Setting(
            kind=one["kind"],
            target=one["target"],
            value=one["value"],
            current=one.get("current"),
            reason=one.get("reason", ""),
            rule=one.get("rule", ""),
            identity=one.get("identity", ""),
            persistent=one.get("persistent", False),
        )
        for one in plan["settings"]
    ]


def _read(path: str) -> bytes:
    try:
        return at_once.read_argument(path, MAX_BYTES)
    except OSError as error:
        raise PlanFileError(f"{path}: {error.strerror}") from None


def _check(path: str, plan: object) -> None:
    import jsonschema  # slow to import, and a plan that is computed needs no check

    validator = jsonschema.Draft202012Validator(SCHEMA)
    error = next(validator.iter_errors(plan), None)
    if error is not None:
        place = "/".join(map(str, error.absolute_path)) or "the document"
        raise PlanFileError(f"{path}: {place}: {error.message[:160]!r}: see 'nova-perf plan -f json' for the form")
