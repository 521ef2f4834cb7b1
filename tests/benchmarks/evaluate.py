"""Cost of judging a fleet: ``python -m tests.benchmarks.evaluate``.

Results files of 50 and 100 hosts with 200 trials each, judged by two budgets: ``nova-perf evaluate
FILE...`` as a whole process, start-up included. Prints CPU time, its growth from row to row, and peak memory,
beside the goal.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import tempfile

from nova_perf_tuning.budget import model, store
from tests.benchmarks import limits

SIZES = (50, 100)
TRIALS = 200
GOAL_MS = 100.0
GOAL_MIB = 300.0

_ARMS = ("host", "untuned", "tuned")
_CPU = {"vcpu": 4.0, "emulator": 0.5, "iothread": 0.0, "vhost": 0.4, "worker": 0.1, "total": 5.0}
_CONDITIONS = {
    "steal_share": 0.001,
    "clock_step_s": 1e-6,
    "mhz": 2900.0,
    "max_mhz": 3000.0,
    "link:eth0": 25000.0,
}

#: Two figures under one gate, against the host and against the untuned guests.
_BUDGETS = """
budgets:
- {benchmark: iperf3, baseline: host, arm: tuned, max_loss: 0.15}
- {benchmark: iperf3, baseline: untuned, arm: tuned, max_loss: 0.05}
"""


def _template() -> str:
    """Return a file of one host as ``validate`` writes it, with ``%r`` for its number and for each figure.

    5 boots of 13 or 14 blocks in three arms.
    """
    trials = [
        model.Trial(
            "iperf3", "throughput", "Mbit/s", "higher", _ARMS[number % 3], number // 3 % 5, number // 15, 1.0,
            _CPU, 3.5, 5.0, 0.01, number, True, None, 5.0, "Gbit", _CONDITIONS,
        )
        for number in range(TRIALS)
    ]  # fmt: skip
    data = store.to_dict(model.Results({"seed": "@", "accelerator": "kvm"}, trials))
    for one in data["trials"]:
        one["value"] = "@"
    return json.dumps(data, indent=1).replace('"@"', "%r") + "\n"


def _figures(numbers: random.Random) -> list[float]:
    """Return the figures of one host, whose tuned guests are up to 10 % better or worse than the untuned ones."""
    levels = (1000.0, 880.0, 880.0 * numbers.uniform(0.9, 1.1))
    return [levels[number % 3] * numbers.lognormvariate(0, 0.02) for number in range(TRIALS)]


def _write(folder: str) -> list[str]:
    numbers, template = random.Random(1), _template()
    paths = [os.path.join(folder, f"{host}.json") for host in range(max(SIZES))]
    for host, path in enumerate(paths):
        with open(path, "w", encoding="ascii") as file:
            file.write(template % (host, *_figures(numbers)))
    return paths


def _judge(budgets: str, paths: list[str]) -> tuple[str, float, float]:
    """Return how many files have which verdict, CPU seconds and peak memory in MiB."""
    command = [sys.executable, "-m", "nova_perf_tuning.cli.main", "evaluate", "--budget", budgets, *paths]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        *_, counts, _, _ = process.stdout.read().splitlines()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    return counts, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> int:
    """Write, judge and print; 1 when a goal is missed."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="nova-perf-evaluate-", dir=limits.workplace()) as folder:
        budgets = os.path.join(folder, "budgets.yaml")
        with open(budgets, "w", encoding="ascii") as file:
            file.write(_BUDGETS)
        paths = _write(folder)
        print(f"nova-perf evaluate, {TRIALS} trials and 2 budgets for each host")
        print("hosts  CPU s  ms per host  peak MiB")
        for hosts in SIZES:
            counts, cpu_s, mib = _judge(budgets, paths[:hosts])
            rows.append((cpu_s, mib))
            print(f"{hosts:5}  {cpu_s:5.2f}  {1000 * cpu_s / hosts:11.2f}  {mib:8.1f}   {counts}", flush=True)
    growth = ", ".join(f"{after[0] / before[0]:.2f}" for before, after in itertools.pairwise(rows))
    host_ms, mib = 1000 * rows[-1][0] / SIZES[-1], rows[-1][1]
    word = "reached" if host_ms < GOAL_MS and mib < GOAL_MIB else "MISSED"
    print(f"growth of CPU time for twice the hosts: {growth}")
    print(f"goal: < {GOAL_MS:.0f} ms CPU a host and < {GOAL_MIB:.0f} MiB: {host_ms:.0f} ms, {mib:.0f} MiB {word}")
    return 0 if word == "reached" else 1


if __name__ == "__main__":
    sys.exit(main())
