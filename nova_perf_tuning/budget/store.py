"""Results on disk: one JSON document, written atomically, checked when read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from nova_perf_tuning import whole_file
from nova_perf_tuning.budget import consistency, definitions, model, schema

#: Largest results file that is read, in bytes: more than 50,000 trials need.
MAX_BYTES = 64 * 1024 * 1024


def to_dict(results: model.Results) -> dict[str, Any]:
    """Return ``results`` as the JSON contract has it."""
    return {
        "schema": results.schema,
        "environment": dict(results.environment),
        "trials": [dataclasses.asdict(trial) for trial in results.trials],
    }


def from_dict(data: Any, where: str) -> model.Results:
    """Return results from a JSON document.

    :param where: the file's name, for messages.
    :raises schema.InputError: the document breaks the schema or itself.
    """
    schema.check("results", data, where)
    environment = data["environment"]
    trials = [model.Trial(**row) for row in data["trials"]]
    if not any("order" in row for row in data["trials"]):  # a file need not number its runs
        runs: dict[tuple[object, ...], int] = {}
        for one in trials:
            one.order = runs.setdefault((one.benchmark, one.arm, one.group, one.block), len(runs))
    definitions.correct(environment, trials)
    if fault := consistency.find(environment, trials):
        raise schema.InputError(f"{where}: {fault}")
    return model.Results(environment, trials)


def load(path: str) -> model.Results:
    """Read a results file.

    :raises schema.InputError: unreadable, too large, no JSON or not of the schema.
    """
    return from_dict(schema.load_json(path, MAX_BYTES), path)


def save(results: model.Results, path: str) -> None:
    """Write a results file; a reader sees the old one or the new one, never a part.

    :raises OSError: the directory cannot be written or the disk is full; the old file is untouched.
    """
    text = json.dumps(to_dict(results), ensure_ascii=False, allow_nan=False, indent=1)
    write_atomically(path, text + "\n")


def write_atomically(path: str, text: str) -> None:
    """Replace the file at ``path`` by one with ``text``.

    What UTF-8 has no bytes for (half a surrogate pair in a name) is replaced, so that what was measured is kept.

    :raises whole_file.OutputError: something else than a file is there, or the directory is missing.
    :raises OSError: as for :func:`save`.
    """
    with whole_file.writing(path) as file:
        file.write(text.encode("utf-8", "replace"))
