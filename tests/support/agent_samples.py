# SPDX-License-Identifier: Apache-2.0
"""What a running agent says of itself."""

import datetime
import json
import os
import pathlib
import time

from nova_perf_tuning.agent import conditions, state
from nova_perf_tuning.nova import host_result

_BOARDS = pathlib.Path(__file__).parents[2] / "etc/grafana"


def agent_state(**changes):
    """Return the state of this process as if it were an agent, with ``changes``."""
    values = dict.fromkeys(("settings", "guests"), 0)
    values |= {
        "pid": os.getpid(),
        "pid_start": state.process_start(os.getpid()),
        "started": 0.0,
        "updated": 0.0,
    }
    values |= {"updated_monotonic": time.monotonic(), "cpu_s": 0.0, "error": ""}
    values |= {"mode": "observe", "would_change": {"nic-irq-local": 2}}
    values |= {"would_change_begun": {"nic-irq-local": 2}}
    values |= {"would_change_since": {"nic-irq-local": time.time() - 60.0}}
    values |= {"plan_digest": "0123456789abcdef"}
    values |= {"findings": [], "findings_total": {}, "warnings": []}
    values["conditions"] = conditions.judge(
        fault="", looked=True, due=2, settings=2, totals={}, earlier=[], now=0.0
    )
    return state.AgentState(**(values | changes))


def verdict_file(directory):
    """Write the verdict on this host and return its path."""
    now = datetime.datetime.now(datetime.UTC)
    losses = {"iperf3 tuned/host": (0.12, 0.1)}
    result = host_result.HostResult("one", now, "FAIL", {"network": "FAIL"}, 88.0, losses)
    path = pathlib.Path(directory, "verdict.json")
    path.write_text(result.to_json(), encoding="utf-8")
    return str(path)


def queries(*, admission=False):
    """Return the queries of all boards for Grafana: of those on agents' figures, or of the one on admission."""
    boards = []
    for path in sorted(_BOARDS.glob("*.json")):
        if path.name.endswith("-admission.json") == admission:
            boards.append(json.loads(path.read_text(encoding="utf-8")))
    return [
        target["expr"]
        for board in boards
        for panel in board["panels"]
        for target in panel["targets"]
    ]
