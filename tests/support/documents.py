# SPDX-License-Identifier: Apache-2.0
"""Documents as heat/runner.sh makes them, for tests."""

import base64
import gzip
import itertools
import json
import math
import pathlib

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.heat import collector
from nova_perf_tuning.validation.measure import fleet_model

DATA = pathlib.Path(__file__).parents[1] / "unit/validation/bench/data"
IPERF3 = (DATA / "iperf3-two-streams.json").read_text(encoding="utf-8")
FIO = (DATA / "fio-two-jobs.json").read_text(encoding="utf-8")
FACTS = {
    "kernel": "6.1.0-40-cloud-amd64",
    "cpus": 2,
    "memory_kib": 200000,
    "clocksource": "hpet",
    "mtu": 1442,
    "queues": 2,
    "queues_max": 2,
    "tx_checksum": "off",
}
GRID = fleet_model.Grid(arms=2, length_s=20)
BEGUN = 1_800_000_000.0


def expected(arm=0, trials=2, jobs=("iperf3", "fio")):
    """Return what was asked of one arm."""
    arms = fleet_model.FleetArm("untuned"), fleet_model.FleetArm("tuned")
    plan = fleet_model.MeasurePlan("run1", arms, tuple(plugins.jobs(jobs)), trials, 600.0)
    return collector.Expected(
        plan, arms[arm].name, arm, GRID, BEGUN, BEGUN + 60 + GRID.length_s * 4 * trials
    )


def following(grid, arm, moment):
    """Return the first slot of ``arm`` that begins at ``moment`` or later, as heat/runner.sh works it out."""
    return next(
        slot
        for slot in itertools.count(math.ceil(moment / grid.length_s))
        if grid.arm(slot) == arm
    )


def document(wanted):
    """Return a document that answers ``wanted``."""
    trials = []
    moment = wanted.begun
    for number in range(1, wanted.plan.trials + 1):
        slot = following(wanted.grid, wanted.arm, moment)
        begin = float(wanted.grid.begin(slot)) + 0.5
        for job in wanted.plan.jobs:
            output = IPERF3 if job.benchmark.kind == "iperf3" else FIO
            for role in ("client",) if job.benchmark.paired else ("client", "server"):
                trials.append(trial(job.label, number, slot, begin, output, role=role))
                begin += 6
        moment = wanted.grid.begin(slot) + 1
    return {
        "schema": 1,
        "run_id": wanted.plan.run_id,
        "arm": wanted.arm,
        "arms": wanted.grid.arms,
        "slot_seconds": wanted.grid.length_s,
        "guests": {"client": dict(FACTS), "server": dict(FACTS)},
        "trials": trials,
    }


def trial(label, number, slot, begin, stdout, status=0, role="client"):
    """Return one trial of a document."""
    return {
        "label": label,
        "trial": number,
        "role": role,
        "slot": slot,
        "begin": begin,
        "end": begin + 5.25,
        "status": status,
        "cpu": {"client": 3.1, "server": 2.0},
        "stdout": stdout,
        "stderr": "",
    }


def packed(content):
    """Return a document (or any text or bytes) as the data of its signal."""
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    if isinstance(content, str):
        content = content.encode()
    return base64.b64encode(gzip.compress(content)).decode()


def signalled(content):
    """Return the ``data`` attribute of the wait condition after one signal with a document."""
    return json.dumps({"results": packed(content)})
