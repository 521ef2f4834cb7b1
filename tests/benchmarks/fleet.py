# SPDX-License-Identifier: Apache-2.0
"""A simulated validation of 1,000 hosts: verdicts, memory of the controller, wall time against pairs at a time.

``python -m tests.benchmarks fleet [--hosts N] [--peers N] [--parallel N ...] [--seeds N ...]``: the real
controller (pairing, threads, database, verdicts) on the simulated cloud of tests/support with 2 %
faults, in virtual time, in which a pair takes 2 to 4 minutes. Ten hosts are slow by 30 %, and one is dead but for
seed 0. Each row is a process of its own, so that its peak memory is its own.
"""

import argparse
import collections
import concurrent.futures
import multiprocessing
import os
import random
import resource
import tempfile
import time

from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.cloud import fleet_results, fleet_run, model, run_store
from nova_perf_tuning.validation.judge import budget_file
from tests.support import simulated_cloud as simulation

GOAL_MIB = 300
FAULTS = 0.02
BAD = 10
BUDGETS = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")]


def main() -> None:
    """Print a row for every number of pairs at a time and every seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--parallel", type=int, nargs="+", default=[64])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    args = parser.parse_args()
    print(f"{args.hosts} hosts with {args.peers} peers, {FAULTS:.0%} of attempts fail, {BAD} hosts are 30 % slow")
    rows = []
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for parallel in args.parallel:
            for seed in args.seeds:
                row = pool.submit(run, args.hosts, args.peers, parallel, seed).result()
                rows.append(row)
                print(f"parallel {parallel}, seed {seed}: " + ", ".join(f"{key} {row[key]:.4g}" for key in row))
    right = all((row["found"], row["wrong"], row["undecided"]) == (BAD, 0, 0) for row in rows)
    print(
        f"goal all slow hosts FAIL, the dead one is INVALID, all others PASS: {'reached' if right else 'MISSED'}"
    )
    worst = max(row["peak MiB"] for row in rows)
    print(f"goal peak memory of the controller < {GOAL_MIB} MiB: {'reached' if worst < GOAL_MIB else 'MISSED'}")


def run(hosts: int, peers: int, parallel: int, seed: int) -> dict[str, float]:
    """Validate a simulated fleet and return its figures."""
    names = [f"compute-{number:04d}" for number in range(hosts)]
    dead, *slow = random.Random(seed).sample(names, BAD + 1)
    if not seed:  # the time that attempts with a dead host take would hide the speed-up
        dead = ""
    threads = simulation.VirtualWorkers()
    cloud = simulation.Cloud(faults=FAULTS, bad=dict.fromkeys(slow, 0.7), dead={dead}, noise=0.02, seed=seed)
    launcher = simulation.SimulatedLauncher(cloud, threads)
    pairs = model.schedule(names, peers, seed)
    with tempfile.TemporaryDirectory() as directory:
        store = run_store.RunStore(f"sqlite:///{os.path.join(directory, 'results.db')}")
        run_id = run_store.new_id()
        plan = simulation.fleet_plan(run_id, ["iperf3", "fio", "cpu"], 6, peers=peers, max_parallel=parallel)
        kinds = {job.label: {"kind": job.benchmark.kind} for job in plan.measure.jobs}
        stored = store.create(plan, names, pairs, environments.from_dict({"benchmarks": kinds}))
        begun = time.process_time()
        fleet_run.FleetRun(store, launcher, stored, threads=threads).run()
        cpu_s = time.process_time() - begun
        after = store.load(run_id)
        hosts_of = fleet_results.collect(store, run_id, BUDGETS, 0.15, "complete")[1].hosts
        store.close()
    if launcher.overlaps or launcher.stacks():
        raise SystemExit("a host was in two pairs at a time, or a stack is left")
    states = collections.Counter(task.state for task in after.tasks)
    verdicts = {host.host: host.verdict for host in hosts_of if host.verdict != "PASS"}
    if dead and verdicts.pop(dead) != "INVALID":
        raise SystemExit("the dead host has another verdict than INVALID")
    failing = {host for host, word in verdicts.items() if word == "FAIL"}
    return {
        "wall h": threads.now() / 3600,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "CPU ms a pair": 1000 * cpu_s / len(after.tasks),
        "done": states["done"],
        "failed": states["failed"],
        "found": len(failing & set(slow)),
        "wrong": len(failing - set(slow)),
        "undecided": len(verdicts.keys() - failing - set(slow)),
    }


if __name__ == "__main__":
    main()
