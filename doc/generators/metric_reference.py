# SPDX-License-Identifier: Apache-2.0
"""``perf-metrics``: a table of what Prometheus can read, made by asking the agent's collector.

``perf-alerts``: a table of the alerts that are shipped.
"""

import collections
import datetime
import pathlib
import re
import tempfile
import types
from collections.abc import Iterable
from typing import Any

import yaml
from code_reference import Generated, table

from nova_perf_tuning.agent import metrics, state
from nova_perf_tuning.nova import host_result

ALERTS = pathlib.Path(__file__).parents[2] / "etc/prometheus"
#: The value of a label in a summary.
_LABEL = re.compile(r"\{\{ \$labels\.(\w+) \}\}")


class Metrics(Generated):
    """Name, kind, labels and meaning of each metric."""

    def lines(self) -> list[str]:
        return table(["Metric", "Kind", "Labels", "Meaning"], agent_rows(), "34 12 22 32")


class Alerts(Generated):
    """Name, time and meaning of each alert of a file in etc/prometheus."""

    def lines(self) -> list[str]:
        [file] = self.arguments
        return table(["Alert", "After", "What it says"], alert_rows(file), "30 10 60")


def alert_rows(file: str) -> list[list[str]]:
    """Return a row for each alert of a file."""
    document = yaml.safe_load((ALERTS / file).read_text(encoding="utf-8"))
    rows = []
    for group in document["groups"]:
        for rule in group["rules"]:
            summary = _LABEL.sub(r"*\1*", rule["annotations"]["summary"])
            rows.append([f"``{rule['alert']}``", rule.get("for", "at once"), f"{summary}."])
    return rows


def agent_rows() -> list[list[str]]:
    """Return a row for each metric of an agent that has counted each kind of thing once."""
    counted = state.Stats(
        **{name: collections.Counter(x=1) for name in ("passes", "written", "drifted")}
    )
    shown = types.SimpleNamespace(
        **vars(counted),
        settings=0,
        guests=0,
        findings_total={},
        conditions=[{"type": "Applied", "status": "True"}],
        error="",
        plan_digest="x",
        mode="observe",  # has the metrics of an enforcing agent, and some of its own
        would_change={"x": 1},
        would_change_begun={"x": 1},
        would_change_since={"x": 0.0},
    )
    facts = types.SimpleNamespace(
        guests=[types.SimpleNamespace(name="guest", pid=0, threads=(), domain=None)], nics=[]
    )
    agent: Any = types.SimpleNamespace(snapshot=(shown, facts))
    now = datetime.datetime.now(datetime.UTC)
    result = host_result.HostResult("host", now, "PASS", {}, losses={"figure": (0.0, 0.1)})
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(result.to_json())
        file.flush()
        families = list(metrics.MetricsCollector(agent, file.name).collect())
    rows = []
    for family in families:
        # A counter's samples end in _total.
        name = f"{family.name}_total" if family.type == "counter" else family.name
        # Not of the samples: a kernel without pressure counters gives none.
        names = family._labelnames
        rows.append([f"``{name}``", family.type, labels(names), f"{family.documentation}."])
    return rows


def labels(names: Iterable[str]) -> str:
    """Return the names of labels as literals."""
    return ", ".join(f"``{name}``" for name in names)


PARTS = {"perf-metrics": Metrics, "perf-alerts": Alerts}
