"""Results on disk: one JSON document, written atomically, checked when read."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from nova_perf_tuning import whole_file
from nova_perf_tuning.budget import model, schema

#: Largest results file that is read, in bytes: more than 50,000 trials need.
MAX_BYTES = 64 * 1024 * 1024

#: Smallest figure but 0 that is read: means and ratios of far smaller ones become 0 or infinite.
MIN_FIGURE = 1e-9


def to_dict(results: model.Results) -> dict[str, Any]:
    """Return ``results`` as the JSON contract has it."""
    return {
        "schema": results.schema,
        "environment": dict(results.environment),
        "trials": [{**dataclasses.asdict(one), "host_cpu_s": dict(one.host_cpu_s)} for one in results.trials],
    }


def from_dict(data: Any, where: str) -> model.Results:
    """Return results from a JSON document.

    :param where: the file's name, for messages.
    :raises schema.InputError: the document breaks the schema or itself.
    """
    schema.check("results", data, where)
    trials = [model.Trial(**one) for one in data["trials"]]
    better: dict[tuple[str, str], str] = {}
    for index, one in enumerate(trials):
        if (one.value is None) != (one.error is not None):
            raise schema.InputError(f"{where}: trials[{index}]: needs either a value or an error")
        for name in ("value", "work", "window_s"):
            figure = getattr(one, name)
            if figure is not None and 0 < figure < MIN_FIGURE:
                raise schema.InputError(
                    f"{where}: trials[{index}].{name}: {figure} is too small, the least is 0 or {MIN_FIGURE}"
                )
        if better.setdefault((one.benchmark, one.metric), one.better) != one.better:
            raise schema.InputError(f"{where}: trials[{index}].better: contradicts an earlier trial of its metric")
    return model.Results(data["environment"], trials)


def load(path: str) -> model.Results:
    """Read a results file.

    :raises schema.InputError: unreadable, too large, no JSON or not of the schema.
    """
    return from_dict(schema.load_json(path, MAX_BYTES), path)


def save(results: model.Results, path: str) -> None:
    """Write a results file; a reader sees the old one or the new one, never a part.

    :raises OSError: the folder cannot be written or the disk is full; the old file is untouched.
    """
    text = json.dumps(to_dict(results), ensure_ascii=False, allow_nan=False, indent=1)
    write_atomically(path, text + "\n")


def write_atomically(path: str, text: str) -> None:
    """Replace the file at ``path`` by one with ``text``.

    :raises whole_file.OutputError: something else than a file is there, or the folder is missing.
    :raises OSError: as for :func:`save`.
    """
    with whole_file.writing(path) as file:
        file.write(text.encode("utf-8"))
