# SPDX-License-Identifier: Apache-2.0
"""Runs inside the emulated host under boundary.c: kills writes of each kind at every boundary; the script undoes them.

    LD_PRELOAD=boundary.so python -m tests.lab.killed BOUNDARY.so DIRECTORY

The guest g1 runs, and no agent. One setting of each kind is written. While the script runs, the package is gone.
Prints a JSON object: what :func:`tests.support.kill_boundaries.run` returns, and how often the script undid.
"""

import json
import os
import sys

import nova_perf_tuning
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.kinds import registry
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.plan import planner
from tests.lab import probe
from tests.support import kill_boundaries

_PACKAGE = os.path.dirname(nova_perf_tuning.__file__)
_GONE = f"{_PACKAGE}.gone"


class Cut(kill_boundaries.Cut):
    def undo(self, where: str) -> None:
        os.rename(_PACKAGE, _GONE)
        try:
            super().undo(where)
        finally:
            os.rename(_GONE, _PACKAGE)


def settings() -> list[Setting]:
    """Return of each kind the first setting of the plan that does not hold."""
    sets = novaconf.cpu_sets(novaconf.found(reader.open_root("/")))
    plan = planner.plan(reader.read_host("/"), sets, rps=True)
    kinds = registry.kinds("/")
    chosen: dict[str, Setting] = {}
    for setting in plan.settings:
        current = setting.current
        if current is None or not kinds[setting.kind].holds(
            setting.target, setting.value, current
        ):
            chosen.setdefault(setting.kind, setting)
    return list(chosen.values())


def content(chosen: list[Setting]) -> dict[str, bytes]:
    """Return every mask of the host, the guest's threads, and what the chosen settings hold."""
    originals = probe.originals()
    found = {**originals["irqs"], **originals["masks"], "new": originals["new"]}
    for thread in probe.threads("g1"):
        if thread["name"] != "worker":
            found[f"thread {thread['tid']}"] = thread["cpus"]
    kinds = registry.kinds("/")
    for setting in chosen:
        found[f"{setting.kind} {setting.target}"] = kinds[setting.kind].read(setting.target)
    return {name: json.dumps(value).encode() for name, value in found.items()}


def main() -> None:
    chosen = settings()
    library = kill_boundaries.open_library(sys.argv[1])
    cut = Cut(library, "/", sys.argv[2], chosen, lambda: content(chosen))
    cut.scripted = 1
    result = kill_boundaries.run(cut, torn=(0,))
    kinds = sorted(setting.kind for setting in chosen)
    print(json.dumps({**result, "undone": cut.undone, "kinds": kinds}))


if __name__ == "__main__":
    main()
