"""A simulated validation of 1,000 hosts: memory of the controller, and wall time against pairs at a time.

``python -m tests.benchmarks.fleet [--hosts 1000] [--peers 3]``: the real controller (pairing, threads, database,
attribution) on the simulated cloud of :mod:`tests.simulated_cloud` with 2 % faults, in virtual time. A pair takes
2 to 4 minutes of it. Each row is a process of its own, so that its peak memory is its own. The controller's own
work takes no virtual time; what it takes in CPU is printed beside it. Exit code 1 where the goal is missed.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import resource
import subprocess
import sys
import tempfile
import time

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.cloud import attribution, campaign, model, pairing, run_store
from tests import simulated_cloud as simulation

PARALLEL = (1, 4, 16, 64, 250)
GOAL_MIB = 300
FAULTS = 0.02
BAD = 10


def main() -> int:
    """Print a row for every number of pairs at a time; return 1 if the memory goal is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--parallel", type=int, help="one run only, its figures as JSON")
    args = parser.parse_args()
    if args.parallel:
        print(json.dumps(run(args.hosts, args.peers, args.parallel)))
        return 0
    print(f"{args.hosts} hosts, {args.peers} peers each, {FAULTS:.0%} of attempts fail, {BAD} hosts are 30 % slow")
    head = (
        "parallel",
        "wall h",
        "speed-up",
        "of ideal",
        "peak MiB",
        "CPU s",
        "CPU ms/pair",
        "done",
        "failed",
        "found",
    )
    print("  ".join(f"{name:>11}" for name in head))
    first, worst = 0.0, 0.0
    for parallel in PARALLEL:
        row = measured(args.hosts, args.peers, parallel)
        first = first or row["wall_s"] * parallel
        speed = first / row["wall_s"]
        worst = max(worst, row["peak_mib"])
        cells = (
            parallel,
            f"{row['wall_s'] / 3600:.2f}",
            f"{speed:.1f}",
            f"{speed / parallel:.0%}",
            f"{row['peak_mib']:.0f}",
            f"{row['cpu_s']:.1f}",
            f"{1000 * row['cpu_s'] / row['pairs']:.1f}",
            row["done"],
            row["failed"],
            f"{row['found']}/{BAD}" + (f", {row['wrong']} wrong" if row["wrong"] else ""),
        )
        print("  ".join(f"{cell!s:>11}" for cell in cells), flush=True)
    met = worst < GOAL_MIB
    print(f"peak memory of the controller {worst:.0f} MiB, goal < {GOAL_MIB} MiB: {'met' if met else 'MISSED'}")
    return 0 if met else 1


def measured(hosts: int, peers: int, parallel: int) -> dict[str, float]:
    """Return the figures of one run in a process of its own."""
    program = [sys.executable, "-m", "tests.benchmarks.fleet", "--parallel", str(parallel)]
    program += ["--hosts", str(hosts), "--peers", str(peers)]
    found: dict[str, float] = json.loads(subprocess.run(program, check=True, stdout=subprocess.PIPE).stdout)
    return found


def run(hosts: int, peers: int, parallel: int) -> dict[str, float]:
    """Validate a simulated fleet and return its figures."""
    names = [f"compute-{number:04d}" for number in range(hosts)]
    slow = dict.fromkeys(names[:: hosts // BAD][:BAD], 0.7)
    threads = simulation.VirtualWorkers()
    cloud = simulation.Cloud(faults=FAULTS, bad=slow, noise=0.02)
    launcher = simulation.SimulatedLauncher(cloud, threads, threads.now)
    pairs = pairing.schedule(names, peers)
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
        of = {task.number: task.pair for task in after.tasks}
        turned = {number: model.HostPair(pair.server, pair.client) for number, pair in of.items()}
        trials = ((turned[number] if one.group else of[number], one) for number, one in store.trials(run_id))
        found = attribution.find(trials, {"cpu": False, "fio": False}, 0.15)
        store.close()
    if launcher.overlaps or launcher.stacks():
        raise SystemExit("a host was in two pairs at a time, or a stack is left")
    states = collections.Counter(task.state for task in after.tasks)
    bad = {host for one in found for host, state in one.states.items() if state is attribution.State.BAD}
    return {
        "wall_s": threads.now(),
        "pairs": len(after.tasks),
        "done": states["done"],
        "failed": states["failed"],
        "cpu_s": cpu_s,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "found": len(bad & set(slow)),
        "wrong": len(bad - set(slow)),
    }


if __name__ == "__main__":
    sys.exit(main())
