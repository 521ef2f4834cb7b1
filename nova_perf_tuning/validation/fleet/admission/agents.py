# SPDX-License-Identifier: Apache-2.0
"""What agents say of their hosts: what a verdict depends on, and whether they can keep the plan.

Their pages are not trusted; :mod:`nova_perf_tuning.validation.heat.host_cpu` bounds them.
"""

import concurrent.futures
import dataclasses
import hashlib
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client import parser

from nova_perf_tuning.validation.heat import host_cpu

#: For a whole answer, in seconds; agents asked at a time.
_LIMIT_S: Final = 3.0
_AT_A_TIME: Final = 32
_INFO: Final = "nova_perf_host_info"
_CONDITION: Final = "nova_perf_condition"
#: Label of :data:`_INFO` that is no part of the fingerprint.
_BOOT: Final = "boot_id"


@dataclasses.dataclass(frozen=True, slots=True)
class AgentFacts:
    """What an agent says of its host.

    :ivar parts: name -> version, of all that a verdict depends on; empty: unknown.
    :ivar boot: id of the host's boot; empty: unknown.
    """

    parts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    boot: str = ""
    degraded: bool = False


def ask(url: str, nodes: Iterable[str]) -> dict[str, AgentFacts]:
    """Return what the agents of hypervisors say; one that does not answer says nothing.

    :param url: of an agent's metrics, with ``{host}`` for the hypervisor's name.
    """

    def one_agent(node: str) -> AgentFacts:
        try:
            address = url.replace("{host}", urllib.parse.quote(node, safe=""))
            return read(host_cpu.fetch(address, _LIMIT_S).decode("utf-8"))
        except (host_cpu.AgentError, ValueError):
            return AgentFacts()

    names = list(nodes)
    with concurrent.futures.ThreadPoolExecutor(_AT_A_TIME) as pool:
        return dict(zip(names, pool.map(one_agent, names), strict=True))


def read(page: str) -> AgentFacts:
    """Return what a page of metrics says; ValueError: it is none."""
    parts: dict[str, str] = {}
    boot, degraded = "", False
    for family in parser.text_string_to_metric_families(page):
        for sample in family.samples:
            if sample.name == _INFO:
                parts = {name: text[:200] for name, text in sample.labels.items()}
                boot = parts.pop(_BOOT, "")
            elif sample.name == _CONDITION and sample.labels.get("condition") == "Degraded":
                if sample.labels.get("status") == "True":
                    degraded = sample.value == 1
    return AgentFacts(parts, boot, degraded)


def fingerprint(parts: Mapping[str, str]) -> str:
    """Return a short name for what a verdict depends on; empty where nothing is known."""
    if not parts:
        return ""
    text = "\n".join(f"{name}={parts[name]}" for name in sorted(parts))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
