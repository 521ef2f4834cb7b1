"""What the published documents measured, as far as it can be run here: a guest and its host, with intervals.

    python -m tests.benchmarks published                 measures all parts; needs root and libvirt
    python -m tests.benchmarks published --part large    measures one part
    python -m tests.benchmarks published FILE ...        takes runs that there are, of nova-perf validate too

Writes doc/source/data/measured.yaml, which the page of published measurements has beside their figures, from the
runs in the order in which they are given. Guests are untuned, as the published ones were, and parameters small,
since guests were emulated so far. Each boot has one block, since boots differ more than blocks do.

The parts are runs of their own, since they need other guests: "main" has virtio devices, "copies" the three kinds
of guests that the published copies of 100 MB had, and "large" copies 1000 MB, three times a trial and not five,
which takes an emulated guest minutes.
"""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final

import yaml

from nova_perf_tuning.specs import request
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import statistics
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import libvirt
from nova_perf_tuning.validation.measure import model, session, store
from nova_perf_tuning.validation.report import summary

TOP: Final = pathlib.Path(__file__).parents[2]
TARGET: Final = TOP / "doc/source/data/measured.yaml"
GUEST: Final = "untuned"

JOBS: Final = (
    *(f"himeno:size=M,processes={count}" for count in (1, 2, 4)),
    *(f"fio:size=16M,jobs={count}" for count in (1, 2, 4, 8, 16)),
    *(f"iperf3:streams={count}" for count in (1, 2, 4)),
    *(f"iperf3:bitrate={rate}" for rate in (50, 100, 200, 400, 800)),
    "tpcc:warehouses=2,threads=3,seconds=10",
    "system",
)
#: What the page tells of the run, from the environment of its results.
_TOLD: Final = (
    *("created", "accelerator", "cpu_model", "cpus", "load_at_start"),
    *("vhost_net", "scratch_filesystem", "qemu", "ended"),
)


class DevicesLauncher(libvirt.LibvirtLauncher):
    """Guests of arm ``emulated`` have NIC and scratch disk emulated, those of ``nic`` the disk alone."""

    def altered(self, arm: launch.Arm, xml: str) -> str:
        if arm.name in ("emulated", "nic"):
            xml = _replaced(xml, '<target dev="vdb" bus="virtio"/>', '<target dev="hda" bus="ide"/>')
        if arm.name == "emulated":
            xml = _replaced(xml, '<model type="virtio"/>', '<model type="rtl8139"/>')
            xml = xml.replace('<driver name="qemu"/>', "")
        return xml


def _replaced(xml: str, old: str, new: str) -> str:
    if xml.count(old) != 1:
        raise SystemExit(f"the launcher's domain XML has {xml.count(old)} times {old}")
    return xml.replace(old, new)


@dataclasses.dataclass(frozen=True, slots=True)
class Part:
    """A run of its own.

    :ivar image: options of tools/image/build.
    """

    jobs: tuple[str, ...]
    arms: tuple[str, ...] = (GUEST,)
    image: tuple[str, ...] = ("--full",)
    launcher: Callable[..., launch.Launcher] = libvirt.LibvirtLauncher


PARTS: Final = {
    "main": Part(JOBS),
    "copies": Part(
        ("smb:megabytes=100",),
        ("both", "nic", "emulated"),
        ("--full", "--emulated"),
        DevicesLauncher,
    ),
    "large": Part(("smb:megabytes=1000,runs=3",)),
}


def measure(part: Part, save: pathlib.Path) -> model.Results:
    """Run every job on the host and in a pair of guests, in turn, and save each trial's results."""
    plan = session.Plan(
        arms=tuple(launch.Arm(name, request.Request()) for name in part.arms),
        jobs=tuple(plugins.jobs(part.jobs, 2)),
        boots=6,
        blocks=1,
        seed=1,
        time_limit_s=3600.0,
    )
    build = [str(TOP / "tools/image/build"), "--quiet", *part.image]
    image = subprocess.run(build, check=True, capture_output=True, text=True).stdout.strip()
    launcher = part.launcher(image_directory=image)
    launcher.require(*plugins.needs(plan.jobs))
    with launcher:
        running = session.Session(
            launcher,
            plan,
            lambda found: store.save(found, str(save)),
            lambda now: print(f"[{now.done}/{now.total}] {now.text}", flush=True),
        )
        return running.run()


def page_data(results: Sequence[model.Results]) -> dict[str, Any]:
    """Return what the page shows: of every figure its medians, and each guest's ratio to the host."""
    return {"runs": [_run(one) for one in results]}


def _run(results: model.Results) -> dict[str, Any]:
    found = []
    for benchmark in summary.summarise(results):
        told = results.environment.benchmarks.get(benchmark.label, environments.Benchmark())
        found += [
            {
                "label": benchmark.label,
                "guests": guest.arm,
                "parameters": dict(told.parameters),
                "host_cpu": _cpu(guest),
                "guest_busy": _rounded(guest.guest_busy),
                "figures": [_figure(figure, guest.arm) for figure in benchmark.figures],
            }
            for guest in benchmark.arms
            if guest.arm != model.HOST
        ]
    known = environments.to_dict(results.environment)
    return {
        "run": {
            **{name: known[name] for name in _TOLD if name in known},
            "boots": len({trial.boot for trial in results.trials}),
            "blocks": len({(trial.boot, trial.block) for trial in results.trials}),
        },
        "benchmarks": found,
    }


def _cpu(guest: summary.ArmSummary) -> float | None:
    """Return the CPUs of both guests' QEMU and workers; None where they are not known."""
    known = [value for name, value in guest.cpus.items() if name != "softirq"]
    return _rounded(sum(known)) if known else None


def _figure(figure: summary.Secondary, guests: str) -> dict[str, Any]:
    ratio = next(
        (pair.ratio for pair in figure.comparisons if (pair.arm, pair.baseline) == (guests, model.HOST)), None
    )
    return {
        "metric": figure.metric,
        "unit": figure.unit,
        "better": figure.better,
        "host": _rounded(figure.medians.get(model.HOST)),
        "guest": _rounded(figure.medians.get(guests)),
        "ratio": _estimate(ratio),
    }


def _estimate(found: statistics.Estimate | None) -> list[float | None] | None:
    """Return value, both ends of the interval and the number of pairs."""
    return None if found is None else [*map(_rounded, (found.value, found.low, found.high)), found.n]


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def written(results: Sequence[model.Results]) -> str:
    """Return the file's text."""
    head = "# Written by python -m tests.benchmarks published; do not edit.\n"
    data = page_data(results)
    return head + yaml.safe_dump(data, sort_keys=False, allow_unicode=True, width=110, default_flow_style=None)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, or read results, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="*", help="results.json of runs that there are")
    parser.add_argument("--part", choices=PARTS, action="append", help="what to measure; may be repeated")
    parser.add_argument("--output", type=pathlib.Path, default=TARGET)
    args = parser.parse_args(arguments)
    runs = [store.load(one) for one in args.results]
    if not runs:
        runs = [measure(PARTS[name], pathlib.Path(f"{name}.json")) for name in args.part or PARTS]
    args.output.write_text(written(runs), encoding="utf-8")
    print(args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
