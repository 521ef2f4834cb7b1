# SPDX-License-Identifier: Apache-2.0
"""A simulated validation of 1,000 hosts: verdicts, memory of the controller, wall time against pairs at a time.

``python -m tests.benchmarks fleet [--hosts N] [--peers N] [--parallel N ..] [--seeds N ..] [--databases KIND ..]``
is the real controller (pairing, threads, database, verdicts) on the simulated cloud of tests/support with 2 %
faults, in virtual time, in which a pair takes 2 to 4 minutes. Ten hosts are slow by 30 %, and one is dead but for
seed 0. Each row is a process of its own, so that its peak memory is its own. KIND: sqlite, mariadb or postgresql,
servers of Debian's packages with their defaults, on a socket. All have their data below $TMPDIR.
"""

import argparse
import collections
import concurrent.futures
import functools
import itertools
import multiprocessing
import random
import resource
import statistics
import tempfile
import time
from collections.abc import Callable, Sequence

from nova_perf_tuning.validation.fleet import fleet_results, fleet_run
from nova_perf_tuning.validation.judge import budget_file
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.store import run_store
from tests.support import databases
from tests.support import simulated_cloud as simulation

GOAL_MIB = 300
FAULTS = 0.02
BAD = 10
KINDS = ("iperf3", "fio", "cpu")
BUDGETS = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")]


def main() -> None:
    """Print a row for every number of pairs at a time and every seed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--hosts", type=int, default=1000)
    parser.add_argument("--peers", type=int, default=3)
    parser.add_argument("--parallel", type=int, nargs="+", default=[64])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument(
        "--databases", metavar="KIND", choices=databases.KINDS, nargs="+", default=["sqlite"]
    )
    args = parser.parse_args()
    print(
        f"{args.hosts} hosts with {args.peers} peers, {FAULTS:.0%} of attempts fail, {BAD} hosts are 30 % slow"
    )
    rows = []
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), max_tasks_per_child=1
    ) as pool:
        for kind, parallel, seed in itertools.product(args.databases, args.parallel, args.seeds):
            with tempfile.TemporaryDirectory() as directory:
                url = databases.new(kind, directory)
                row = pool.submit(run, args.hosts, args.peers, parallel, seed, url).result()
            rows.append(row)
            figures = ", ".join(f"{key} {row[key]:.4g}" for key in row)
            print(f"{kind}, parallel {parallel}, seed {seed}: {figures}", flush=True)
    right = all((row["found"], row["wrong"], row["undecided"]) == (BAD, 0, 0) for row in rows)
    print(
        f"goal all slow hosts FAIL, the dead one is INVALID, all others PASS: {'reached' if right else 'MISSED'}"
    )
    worst = max(row["peak MiB"] for row in rows)
    print(
        f"goal peak memory of the controller < {GOAL_MIB} MiB: {'reached' if worst < GOAL_MIB else 'MISSED'}"
    )


def run(
    hosts: int,
    peers: int,
    parallel: int,
    seed: int,
    url: str,
    kinds: Sequence[str] = KINDS,
    blocks: int = 6,
) -> dict[str, float]:
    """Validate a simulated fleet and return its figures; :param url: of its database."""
    names = [f"compute-{number:04d}" for number in range(hosts)]
    dead, *slow = random.Random(seed).sample(names, BAD + 1)
    if not seed:  # the time that attempts with a dead host take would hide the speed-up
        dead = ""
    threads = simulation.VirtualWorkers()
    cloud = simulation.Cloud(
        faults=FAULTS, bad=dict.fromkeys(slow, 0.7), dead={dead}, noise=0.02, seed=seed
    )
    launcher = simulation.SimulatedLauncher(cloud, threads)
    pairs = fleet_model.schedule(names, peers, seed)
    store, spent_s = run_store.RunStore(url), []

    def timed(write: Callable[..., None], *args: object) -> None:
        begun = time.perf_counter()
        write(*args)
        spent_s.append(time.perf_counter() - begun)

    store.mark, store.finish = (
        functools.partial(timed, store.mark),
        functools.partial(timed, store.finish),
    )
    run_id = run_store.new_id()
    plan = simulation.fleet_plan(run_id, kinds, blocks, peers=peers, max_parallel=parallel)
    labels = {job.label: {"kind": job.benchmark.kind} for job in plan.measure.jobs}
    stored = store.create(
        plan, names, pairs, environments.Environment.from_dict({"benchmarks": labels})
    )
    begun = time.process_time()
    fleet_run.FleetRun(store, launcher, stored, threads=threads).run()
    cpu_s, begun = time.process_time() - begun, time.perf_counter()
    after = store.load(run_id)
    read = sum(len(outcome.trials) for _, outcome in store.outcomes(run_id))
    read_s = time.perf_counter() - begun
    hosts_of = fleet_results.collect(store, run_id, BUDGETS, 0.15, "complete")[1].hosts
    store.close()
    if launcher.overlaps or launcher.stacks():
        raise AssertionError("a host was in two pairs at a time, or a stack is left")
    states = collections.Counter(task.state for task in after.tasks)
    verdicts = {host.host: host.verdict for host in hosts_of if host.verdict != "PASS"}
    if dead and verdicts.pop(dead) != "INVALID":
        raise AssertionError("the dead host has another verdict than INVALID")
    failing = {host for host, word in verdicts.items() if word == "FAIL"}
    return {
        "wall h": threads.now() / 3600,
        "peak MiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "CPU ms a pair": 1000 * cpu_s / len(after.tasks),
        "ms a write": 1000 * statistics.fmean(spent_s),
        "us to read a trial": 1e6 * read_s / read,
        "done": states["done"],
        "failed": states["failed"],
        "found": len(failing & set(slow)),
        "wrong": len(failing - set(slow)),
        "undecided": len(verdicts.keys() - failing - set(slow)),
    }


if __name__ == "__main__":
    main()
