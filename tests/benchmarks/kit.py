# SPDX-License-Identifier: Apache-2.0
"""Checks a results file of another machine, and prints it as a row: ``python -m tests.benchmarks kit FILE``.

FILE was made there by ``python -m tests.benchmarks interference --output FILE``. It is refused with one line and exit
code 3 unless it has all rounds of that command, figures that are those of the rounds, and no text that could name a
host, a guest or a person. The row is for the table of machines in doc/source/reference/placement.rst.
"""

import json
import pathlib
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import bounded_json, json_schema
from tests.benchmarks.interference import __main__ as interference
from tests.benchmarks.interference import figures, inside

MOST_BYTES = 8 << 20
#: Columns of the row, after the machine: channels of the file, misplaced and after apply.
COLUMNS: Final = ("rps", "rps_flood", "rps_tcp", "napi", "workqueue", "emulator", "all")
#: What a run notes of its states.
_NOTES: Final = (
    r"nova-perf (apply|restore): [0-9a-z_, ]{1,200}",
    r"irqbalance had moved \d{1,5} interrupts",
    r"TuneD moved \d{1,6} threads and \d{1,5} interrupts, and wrote \d{1,5} masks of workqueues and "
    r"\d{1,5} other settings",
    r"what TuneD did not undo was put back: \d{1,5} masks or settings, \d{1,5} interrupts",
)
_NUMBER: Final = {"type": "number"}


def _text(pattern: str) -> dict[str, str]:
    return {"type": "string", "pattern": rf"^({pattern})\Z"}


def _object(properties: Mapping[str, Any], optional: Sequence[str] = ()) -> dict[str, Any]:
    """Return the schema of an object with these keys and no others."""
    required = [name for name in properties if name not in optional]
    names = {"properties": dict(properties), "required": required}
    return {"type": "object", "additionalProperties": False, **names}


def schema() -> dict[str, Any]:
    """Return the JSON schema of a results file of today's command; texts have the form that it writes."""
    states: list[str] = []
    for group in inside.GROUPS:
        states += group
    one = {
        "block": {"type": "integer", "minimum": 0, "maximum": interference.BLOCKS - 1},
        "state": {"enum": states},
        "channel": {"enum": sorted(set(inside.CHANNELS))},
        "steal": _object({"cpu0": _NUMBER, "cpu1": _NUMBER}),
        "discarded": {"type": "boolean"},
        "events_per_s": {"type": "number", "exclusiveMinimum": 0},
        "memory_events_per_s": {"type": "number", "exclusiveMinimum": 0},
        "longest_ms": _NUMBER,
        "done_each_per_s": _object(dict.fromkeys(inside.TOGETHER, _NUMBER)),
    }
    for name in figures.MEDIANS:
        one[name] = _NUMBER
    optional = ("done_per_s", "done_each_per_s", "cpu1_streams")
    notes = {"type": "array", "items": _text("|".join(_NOTES))}
    properties: dict[str, Any] = {
        "created": _text(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00"),
        "kernel": _text(r"[\w.+~-]{1,64}"),
        "cpu_model": _text(r"[\w ().,@/+-]{0,80}"),
        "cpus": {"const": 2},
        "virtual": {"type": "boolean"},
        "one_core": {"type": "boolean"},
        "load_average": _NUMBER,
        "irqbalance": _text(r"|irqbalance version [\w.+~-]{1,32}"),
        "tuned": _text(r"|TuneD [\d.]{1,32}"),
        "discarded": {"type": "integer"},
        "notes": {
            "type": "object",
            "propertyNames": {"enum": states},
            "additionalProperties": notes,
        },
        "table": {"type": "array"},
        "ranking": {"type": "array"},
        "rounds": {"type": "array", "items": _object(one, optional)},
    }
    for name, value in json.loads(json.dumps(interference.CONSTANTS)).items():
        properties[name] = {"const": value}
    return _object(properties)


def fault(results: Any) -> str | None:
    """Return what is wrong with a results file, in one line; None when it can be shown."""
    if isinstance(results, dict) and results.get("schema") != interference.SCHEMA:
        return (
            f"schema: only {interference.SCHEMA} is read, which this version's command writes; "
            "run it again"
        )
    found = json_schema.find(results, schema())
    if found is not None:
        return found
    expected = []
    programs = bool(results["irqbalance"]), bool(results["tuned"])
    for block in range(interference.BLOCKS):
        for state, channels in inside.order(block, *programs):
            expected += [(block, state, channel) for channel in channels]
    rounds = results["rounds"]
    if [(one["block"], one["state"], one["channel"]) for one in rounds] != expected:
        return "rounds: these are not all rounds of a run, in its order"
    for number, one in enumerate(rounds):
        if one["discarded"] != (max(one["steal"].values()) > inside.MOST_STEAL):
            return f"rounds: {number}: discarded is not what its steal says"
    if results["table"] != figures.table(rounds):
        return "table: these are not the figures of the rounds"
    if results["ranking"] != figures.ranking(rounds):
        return "ranking: these are not the figures of the rounds"
    return None


def _loss(row: Mapping[str, Any]) -> str:
    names = ("loss_percent", "low_percent", "high_percent")
    median, low, high = [f"{row[name] + 0.0:.1f}" for name in names]
    return f"{median} ({low} to {high})"


def row(results: Mapping[str, Any]) -> str:
    """Return a results file as a row of a list-table."""
    rows = {(one["channel"], one["state"]): one for one in results["table"]}
    kind = "hardware"
    if results["virtual"]:
        kind = "virtual machine"
    if results["one_core"]:
        kind = f"{kind}, both CPUs of one core"
    model = results["cpu_model"] or "CPU without a name"
    cells = [f"{model}, {kind}, Linux {results['kernel']}, {results['created'][:10]}"]
    for channel in COLUMNS:
        parts = []
        for state in ("misplaced", "applied"):
            found = rows.get((channel, state))
            if found is None:  # all its rounds were discarded
                parts.append("no round")
            else:
                parts.append(_loss(found))
        cells.append("; ".join(parts))
    lines = []
    mark = "   * - "
    for cell in cells:
        lines += textwrap.wrap(cell, 79, initial_indent=mark, subsequent_indent=" " * 7)
        mark = "     - "
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """Check the file, and print its row."""
    if len(arguments) != 1:
        print(__doc__, file=sys.stderr)
        return 3
    try:
        with pathlib.Path(arguments[0]).open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise bounded_json.JsonError(f"it has more than {MOST_BYTES} bytes")
        results = bounded_json.parse(data)
        wrong = fault(results)
    except (OSError, bounded_json.JsonError) as error:
        wrong = str(error)
    if wrong is not None:
        print(f"{arguments[0]}: {wrong}", file=sys.stderr)
        return 3
    print(row(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
