"""What the published documents measured, as far as it can be run here: a guest and its host, with intervals.

    python -m tests.benchmarks.published                    measures; needs root and the full image
    python -m tests.benchmarks.published DIR/results.json   takes a run that there is, of nova-perf validate too

Writes doc/source/data/measured.yaml, which the page of published measurements has beside their figures. Guests
are untuned, as the published ones were, and parameters small, since guests were emulated so far: five copies of
1000 MB alone would take four minutes and more in each trial.
"""

from __future__ import annotations

import argparse
import pathlib
import sys
from collections.abc import Sequence
from typing import Any, Final

import yaml

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import launchers, model, session, statistics, store, summary
from nova_perf_tuning.launch import base as launch
from nova_perf_tuning.specs import request

TARGET: Final = pathlib.Path(__file__).parents[2] / "doc/source/data/measured.yaml"
GUEST: Final = "untuned"

JOBS: Final = (
    *(f"himeno:size=M,processes={count}" for count in (1, 2, 4)),
    *(f"fio:size=16M,jobs={count}" for count in (1, 2, 4, 8, 16)),
    *(f"iperf3:streams={count}" for count in (1, 2, 4)),
    *(f"iperf3:bitrate={rate}" for rate in (50, 100, 200, 400, 800)),
    "smb:megabytes=100",
    "tpcc:warehouses=2,threads=3,seconds=10",
    "system",
)
#: What the page tells of the run, from the environment of its results.
_TOLD: Final = (
    "created",
    "accelerator",
    "cpu_model",
    "cpus",
    "load_at_start",
    "vhost_net",
    "scratch_filesystem",
    "qemu",
    "ended",
)


def measure(groups: int, blocks: int, seconds: int, limit_s: float, save: str) -> model.Results:
    """Run every job on the host and in a pair of guests, in turn."""
    plan = session.Plan(
        arms=(launch.Arm(GUEST, request.Request()),),
        jobs=tuple(plugins.jobs(JOBS, seconds)),
        groups=groups,
        blocks=blocks,
        seed=1,
        time_limit_s=limit_s,
    )
    launcher = launchers.load("libvirt")
    launcher.require(*plugins.needs(plan.jobs))
    with launcher:
        running = session.Session(
            launcher, plan, lambda found: store.save(found, save), lambda now: print(f"[{now.done}] {now.text}")
        )
        return running.run()


def page_data(results: model.Results) -> dict[str, Any]:
    """Return what the page shows: of every figure its medians, and the guest's ratio to the host."""
    found = []
    for one in summary.summarise(results):
        medians = {arm.arm: arm.median.value for arm in one.arms if arm.median}
        judged = summary.Secondary(one.metric, one.unit, one.better, medians, one.comparisons)
        guest = next((arm for arm in one.arms if arm.arm == GUEST), None)
        cpus = None if guest is None else sum(value for name, value in guest.cpus.items() if name != "softirq")
        told = results.environment.get("benchmarks", {}).get(one.label, {})
        found.append(
            {
                "label": one.label,
                "parameters": dict(told.get("parameters", {})),
                "host_cpu": _rounded(cpus),
                "guest_busy": None if guest is None else _rounded(guest.guest_busy),
                "figures": [_figure(figure) for figure in (judged, *one.secondary)],
            }
        )
    return {
        "run": {
            **{name: results.environment[name] for name in _TOLD if name in results.environment},
            "boots": len({one.group for one in results.trials}),
            "blocks": len({(one.group, one.block) for one in results.trials}),
        },
        "benchmarks": found,
    }


def _figure(figure: summary.Secondary) -> dict[str, Any]:
    ratio = next(
        (pair.ratio for pair in figure.comparisons if (pair.arm, pair.baseline) == (GUEST, summary.HOST)), None
    )
    return {
        "metric": figure.metric,
        "unit": figure.unit,
        "better": figure.better,
        "host": _rounded(figure.medians.get(summary.HOST)),
        "guest": _rounded(figure.medians.get(GUEST)),
        "ratio": _estimate(ratio),
    }


def _estimate(found: statistics.Estimate | None) -> list[float | None] | None:
    """Return value, both ends of the interval and the number of pairs."""
    return None if found is None else [*map(_rounded, (found.value, found.low, found.high)), found.n]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def written(results: model.Results) -> str:
    """Return the file's text."""
    head = "# Written by python -m tests.benchmarks.published; do not edit.\n"
    data = page_data(results)
    return head + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or read results, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="?", help="results.json of a run that there is")
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--time-limit", type=float, default=3600.0, metavar="S")
    parser.add_argument("--save", default="results.json", help="where a new run's results go")
    parser.add_argument("--output", type=pathlib.Path, default=TARGET)
    args = parser.parse_args(arguments)
    if args.results:
        results = store.load(args.results)
    else:
        results = measure(args.groups, args.blocks, args.seconds, args.time_limit, args.save)
    args.output.write_text(written(results), encoding="utf-8")
    print(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
