"""A simulated validation of 1,000 hosts: verdicts, memory of the controller, wall time against pairs at a time.

``python -m tests.benchmarks.fleet [--hosts 1000] [--peers 3] [--seeds 11]``: the real controller (pairing,
threads, database, verdicts) on the simulated cloud of :mod:`tests.simulated_cloud` with 2 % faults, in virtual
time. A pair takes 2 to 4 minutes of it. Ten hosts are slow by 30 %, and one is dead but for seed 0. Each row is
a process of its own, so that its peak memory is its own. The controller's own work takes no virtual time; what
it takes in CPU is printed beside it. Exit code 1 where a slow host is not found, a good one has another verdict
than PASS, or the memory goal is missed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import budget_file
from nova_perf_tuning.cloud import campaign, fleet_results, model, pairing, run_store
from tests import simulated_cloud as simulation

PARALLEL = (1, 4, 16, 64, 250)
GOAL_MIB = 300
FAULTS = 0.02
BAD = 10
BUDGETS = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")]


def main() -> int:
    """Print a row for every number of pairs at a time; return 1 if the memory goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--seeds", type=int, default=11)
    parser.add_argument("--parallel", type=int, help="one run only, its figures as JSON")
    parser.add_argument("--seed", type=int, default=0, help="of that run")
    args = parser.parse_args()
    if args.parallel:
        print(json.dumps(run(args.hosts, args.peers, args.parallel, args.seed)))
        return 0
    print(
        f"{args.hosts} hosts, {args.peers} peers each, {FAULTS:.0%} of attempts fail, {BAD} hosts are 30 % slow,"
        " one is dead but for seed 0"
    )
    names = (
        "parallel",
        "seed",
        "wall h",
        "speed-up",
        "of ideal",
        "peak MiB",
        "CPU s",
        "CPU ms/pair",
        "done",
        "failed",
    )
    print("  ".join(f"{name:>11}" for name in (*names, "found", "wrong", "undecided")))
    cases = [(parallel, 0) for parallel in PARALLEL] + [(64, seed) for seed in range(1, args.seeds)]
    rows, first = [], 0.0
    for parallel, seed in cases:
        row = measured(args.hosts, args.peers, parallel, seed)
        rows.append(row)
        first = first or row["wall_s"] * parallel
        speed = first / row["wall_s"]
        cells = (
            parallel,
            seed,
            f"{row['wall_s'] / 3600:.2f}",
            f"{speed:.1f}",
            f"{speed / parallel:.0%}",
            f"{row['peak_mib']:.0f}",
            f"{row['cpu_s']:.1f}",
            f"{1000 * row['cpu_s'] / row['pairs']:.1f}",
            row["done"],
            row["failed"],
            f"{row['found']}/{BAD}",
            row["wrong"],
            row["undecided"],
        )
        print("  ".join(f"{cell!s:>11}" for cell in cells), flush=True)
    worst = max(row["peak_mib"] for row in rows)
    right = all((row["found"], row["wrong"], row["undecided"]) == (BAD, 0, 0) for row in rows)
    print(f"all slow hosts FAIL, the dead one is INVALID, all others PASS: {'met' if right else 'MISSED'}")
    print(
        f"peak memory of the controller {worst:.0f} MiB, goal < {GOAL_MIB} MiB:"
        f" {'met' if worst < GOAL_MIB else 'MISSED'}"
    )
    return 0 if right and worst < GOAL_MIB else 1


def measured(hosts: int, peers: int, parallel: int, seed: int) -> dict[str, float]:
    """Return the figures of one run in a process of its own."""
    program = [sys.executable, "-m", "tests.benchmarks.fleet", "--parallel", str(parallel), "--seed", str(seed)]
    program += ["--hosts", str(hosts), "--peers", str(peers)]
    found: dict[str, float] = json.loads(subprocess.run(program, check=True, stdout=subprocess.PIPE).stdout)
    return found


def run(hosts: int, peers: int, parallel: int, seed: int) -> dict[str, float]:
    """Validate a simulated fleet and return its figures."""
    names = [f"compute-{number:04d}" for number in range(hosts)]
    dead, *slow = random.Random(seed).sample(names, BAD + 1)
    if not seed:  # the time that attempts with a dead host take would hide the speed-up
        dead = ""
    threads = simulation.VirtualWorkers()
    cloud = simulation.Cloud(faults=FAULTS, bad=dict.fromkeys(slow, 0.7), dead={dead}, noise=0.02, seed=seed)
    launcher = simulation.SimulatedLauncher(cloud, threads, threads.now)
    pairs = pairing.schedule(names, peers, seed)
    with tempfile.TemporaryDirectory() as folder:
        store = run_store.RunStore(f"sqlite:///{os.path.join(folder, 'results.db')}")
        run_id = run_store.new_id()
        stored = store.create(run_id, names, pairs, {}, {})
        plan = model.MeasurePlan(run_id, tuple(plugins.jobs(["iperf3", "fio", "cpu"])), 6, time_limit_s=900.0)
        arms = (model.Arm("untuned"), model.Arm("tuned"))
        settings = campaign.Settings(peers=peers, max_parallel=parallel)
        begun = time.process_time()
        campaign.Campaign(store, launcher, stored, arms, plan, settings, threads=threads).run()
        cpu_s = time.process_time() - begun
        after = store.load(run_id)
        paired = {"cpu": False, "fio": False}
        hosts_of = fleet_results.collect(store, run_id, paired, BUDGETS, 0.15, "complete")[1].hosts
        store.close()
    if launcher.overlaps or launcher.stacks():
        raise SystemExit("a host was in two pairs at a time, or a stack is left")
    states = collections.Counter(task.state for task in after.tasks)
    verdicts = {host.host: host.verdict for host in hosts_of if host.verdict != "PASS"}
    if dead and verdicts.pop(dead) != "INVALID":
        raise SystemExit("the dead host has another verdict than INVALID")
    failing = {host for host, word in verdicts.items() if word == "FAIL"}
    return {
        "wall_s": threads.now(),
        "pairs": len(after.tasks),
        "done": states["done"],
        "failed": states["failed"],
        "cpu_s": cpu_s,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "found": len(failing & set(slow)),
        "wrong": len(failing - set(slow)),
        "undecided": len(verdicts.keys() - failing - set(slow)),
    }


if __name__ == "__main__":
    sys.exit(main())
