# SPDX-License-Identifier: Apache-2.0
"""Filter ``worse``: whether what nova-perf-agent counts rises faster than before."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible.errors import AnsibleFilterError

DOCUMENTATION = """
name: worse
short_description: Says which figures of nova-perf-agent are worse than before
description: Compares the rates of counters in two windows of time. Counters that are in one reading alone are left out.
options:
  _input:
    description: Two readings of the time before, each with C(at), seconds, and C(text), what the agent served.
    type: list
    elements: dict
    required: true
  after:
    description: Two readings of the time after.
    type: list
    elements: dict
    required: true
  factor:
    description: How many times the rate of the time before a rate may be.
    type: float
    required: true
"""
EXAMPLES = """
worse: "{{ before | nova_perf.tuning.worse(after, 1.5) }}"
"""
RETURN = """
_value:
  description: A clause for each figure that is worse.
  type: list
  elements: str
"""

#: Counter, what it counts, and how much a second is allowed in any case.
COUNTERS = (
    ("nova_perf_drift_total", "values changed by others, a second", 0.0),
    ("nova_perf_guest_vcpu_wait_seconds_total", "CPUs that vCPUs waited for", 0.05),
    ("nova_perf_packet_drops_total", "packets dropped, a second", 1.0),
)


def worse(
    before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]], factor: float
) -> list[str]:
    """Return a clause for each figure that rises more than ``factor`` times as fast as before."""
    found: list[str] = []
    last = after[1]["text"]
    if _series(last, "nova_perf_up").get("") != 1.0:
        found.append("the agent cannot work: nova-perf status on the host says why")
    degraded = _series(last, "nova_perf_condition")
    if degraded.get('{condition="Degraded",status="True"}') == 1.0:
        found.append("the agent is degraded: nova-perf status on the host says why")
    for name, meaning, allowed in COUNTERS:
        rate_before, rate_after = _rate(before, name), _rate(after, name)
        if rate_after > rate_before * float(factor) + allowed:
            found.append(f"{meaning}: {rate_after:.3g}, before {rate_before:.3g}")
    return found


def _rate(window: Sequence[Mapping[str, Any]], name: str) -> float:
    """Return how fast all series of a counter rise together, a second.

    A series that fell began again at 0. One that has come or gone is left out: it is a guest's, and
    what it counted before is not of this time.
    """
    first, second = window
    seconds = float(second["at"]) - float(first["at"])
    if seconds <= 0.0:
        raise AnsibleFilterError(f"worse: the readings are {seconds} seconds apart")
    earlier = _series(first["text"], name)
    rise = 0.0
    for labels, value in _series(second["text"], name).items():
        if labels not in earlier:
            continue
        if value >= earlier[labels]:
            rise += value - earlier[labels]
        else:
            rise += value
    return rise / seconds


def _series(text: str, name: str) -> dict[str, float]:
    """Return labels -> value of a metric in the text format of Prometheus."""
    lines = re.findall(rf"^{name}({{.*}})? (\S+)$", text, re.MULTILINE)
    return {labels: float(value) for labels, value in lines}


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        return {"worse": worse}
