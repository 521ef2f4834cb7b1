"""Tables of what Prometheus can read, made by letting the exporters say it.

``perf-metrics:: agent`` asks the agent's collector, ``perf-metrics:: validation`` the textfile of a validation.
"""

from __future__ import annotations

import collections
import json
import lzma
import pathlib
import re
import types
from collections.abc import Iterable
from typing import Any, ClassVar

from code_reference import Generated, table
from sphinx.application import Sphinx

from nova_perf_tuning.agent import metrics, stats
from nova_perf_tuning.budget import budget_file, exports, model, store, summary, verdict

TOP = pathlib.Path(__file__).resolve().parents[3]
RECORDING = TOP / "tests/benchmarks/aa_guests.json.xz"
SAMPLE = re.compile(r"(\w+)\{(.*)\} ")
LABEL = re.compile(r'(\w+)="')


class Metrics(Generated):
    """Name, kind, labels and meaning of each metric."""

    required_arguments: ClassVar[int] = 1

    def lines(self) -> list[str]:
        rows = {"agent": agent_rows, "validation": validation_rows}[self.arguments[0]]()
        return table(["Metric", "Kind", "Labels", "Meaning"], rows, "34 12 22 32")


def agent_rows() -> list[list[str]]:
    """Return a row for each metric of an agent that has counted each kind of thing once."""
    counted = stats.Stats(**{name: collections.Counter(x=1) for name in ("passes", "written", "drifted")})
    state = {"settings": 0, "guests": 0, "findings_total": {}, "error": None}
    facts = types.SimpleNamespace(guests=[types.SimpleNamespace(name="guest", pid=0, threads=())])
    agent: Any = types.SimpleNamespace(snapshot=types.SimpleNamespace(stats=counted, state=state, facts=facts))
    rows = []
    for family in metrics.Collector(agent).collect():
        # A counter's samples end in _total.
        name = f"{family.name}_total" if family.type == "counter" else family.name
        # le is how Prometheus writes a histogram, no label of ours.
        names = {label: None for sample in family.samples for label in sample.labels if label != "le"}
        rows.append([f"``{name}``", family.type, labels(names), f"{family.documentation}."])
    return rows


def validation_rows() -> list[list[str]]:
    """Return a row for each metric of a validation with a budget and a host of a fleet, judged and as recorded."""
    data = json.loads(lzma.decompress(RECORDING.read_bytes()))
    measured = store.from_dict(data, str(RECORDING))
    fleet = {"hosts": [{"host": "host1", "verdict": "PASS", "reasons": []}]}
    arms = {"untuned": {"findings": []}}
    results = model.Results({**measured.environment, "fleet": fleet, "arms": arms}, measured.trials)
    judged = verdict.judge_all(results, [budget_file.Budget("cpu", "untuned", 0.15, max_host_cpu_per_unit=1.0)])
    text = exports.prometheus(results, summary.summarise(results), judged)
    text += exports.prometheus(results, [], [], recorded=True)
    found: dict[str, str] = {}
    for sample in SAMPLE.finditer(text):
        found.setdefault(sample[1], labels(LABEL.findall(sample[2])))
    meaning = dict(re.findall(r"# HELP (\w+) (.*)", text))
    return [[f"``{name}``", "gauge", names, meaning[name]] for name, names in found.items()]


def labels(names: Iterable[str]) -> str:
    """Return the names of labels as literals."""
    return ", ".join(f"``{name}``" for name in names)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("perf-metrics", Metrics)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
