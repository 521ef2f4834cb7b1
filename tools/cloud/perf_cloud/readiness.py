# SPDX-License-Identifier: Apache-2.0
"""Whether the cloud as a whole works: what its own APIs say."""

import datetime
import json
import urllib.request
from collections.abc import Collection
from typing import Any, Final

from perf_cloud import layout

_HERE: Final = f"http://{layout.CONTROLLER.address}"
_USER: Final = {"name": "admin", "domain": {"id": "default"}, "password": "adminpw"}
_LOGIN: Final = {
    "auth": {
        "identity": {"methods": ["password"], "password": {"user": _USER}},
        "scope": {"project": {"name": "admin", "domain": {"id": "default"}}},
    }
}


def lacking(hosts: int, since: datetime.datetime, started: Collection[str]) -> str:
    """Return what the cloud still waits for; empty when guests can be started.

    A row that a snapshot brought says "up" of a service that has not started yet, so reports before ``since``
    do not count, but for an engine of Heat that is not among the services ``started`` now: it reports once a minute.
    """
    try:
        return _lacking(hosts, since, started)
    except (OSError, ValueError, KeyError) as error:
        return str(error)


def _lacking(hosts: int, since: datetime.datetime, started: Collection[str]) -> str:
    answer, token = _call(f"{_HERE}:5000/v3/auth/tokens", body=_LOGIN)
    project = answer["token"]["project"]["id"]
    services = _call(f"{_HERE}:8774/v2.1/os-services", token)[0]["services"]
    up = [s["binary"] for s in services if s["state"] == "up" and _new(s["updated_at"], since)]
    for binary in ("nova-conductor", "nova-scheduler"):
        if binary not in up:
            return f"{binary} has not reported"
    if up.count("nova-compute") < hosts:
        return f"{up.count('nova-compute')} of {hosts} nova-compute have reported"
    found = len(_call(f"{_HERE}:8774/v2.1/os-hypervisors", token)[0]["hypervisors"])
    if found < hosts:
        return f"{found} of {hosts} compute hosts are in a cell"
    engines = _call(f"{_HERE}:8004/v1/{project}/services", token)[0]["services"]
    up_engines = [engine for engine in engines if engine["status"] == "up"]
    if "heat-engine" in started:
        up_engines = [
            engine
            for engine in up_engines
            if _new(engine["updated_at"] or engine["created_at"], since)
        ]
    if not up_engines:
        return "heat-engine has not reported"
    return ""


def _call(url: str, token: str = "", body: dict[str, Any] | None = None) -> tuple[Any, str]:
    headers = {"Content-Type": "application/json", **({"X-Auth-Token": token} if token else {})}
    request = urllib.request.Request(
        url, headers=headers, data=json.dumps(body).encode() if body else None
    )
    with urllib.request.urlopen(request, timeout=30) as response:
        return json.load(response), response.headers.get("X-Subject-Token", "")


def _new(when: str | None, since: datetime.datetime) -> bool:
    if not when:
        return False
    time = datetime.datetime.fromisoformat(when.removesuffix("Z")).replace(tzinfo=datetime.UTC)
    return time >= since.replace(microsecond=0)
