"""Cost of judging a fleet: ``python -m tests.benchmarks.evaluate``.

1,000 hosts with 200 trials each: results files are written once, then each is read, checked against the schema and
judged by the code behind ``nova-perf evaluate``, in a process of its own. Prints CPU time and peak memory; exit
code 1 when the goal is missed.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile

from tests.hosts.sysroots import workplace

HOSTS = 1000
GOAL_CPU_S = 10.0
GOAL_MIB = 300.0

_JUDGE = """
import resource, sys, time
from nova_perf_tuning.budget import budget_file, store, verdict
budgets = budget_file.load(sys.argv[1])
begin = time.process_time()
read = 0.0
counts = {}
for path in sys.argv[2:]:
    at = time.process_time()
    results = store.load(path)
    read += time.process_time() - at
    word = verdict.overall(verdict.judge_all(results, budgets)).value
    counts[word] = counts.get(word, 0) + 1
spent = time.process_time() - begin
print(spent, read, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, sorted(counts.items()), sep="|")
"""

#: Two figures under one gate, against the host and against the untuned guests.
_BUDGETS = """
budgets:
- {benchmark: iperf3, baseline: host, arm: tuned, max_loss: 0.15}
- {benchmark: iperf3, baseline: untuned, arm: tuned, max_loss: 0.05}
"""


def _write(folder: str, host: int, numbers: random.Random) -> str:
    """Write the results of one host: 200 trials, 5 boots of 13 or 14 blocks in three arms."""
    from nova_perf_tuning.budget import model, store

    arms = {"host": 1000.0, "untuned": 880.0, "tuned": 880.0 * numbers.uniform(0.9, 1.1)}
    cpu = {"vcpu": 4.0, "emulator": 0.5, "iothread": 0.0, "vhost": 0.4, "worker": 0.1, "total": 5.0}
    conditions = {
        "steal_share": 0.001,
        "clock_step_s": 1e-6,
        "mhz": 2900.0,
        "max_mhz": 3000.0,
        "link:eth0": 25000.0,
    }
    trials = []
    for number in range(200):
        arm = list(arms)[number % 3]
        trials.append(
            model.Trial(
                "iperf3", "throughput", "Mbit/s", "higher", arm, number // 3 % 5, number // 15,
                arms[arm] * numbers.lognormvariate(0, 0.02), cpu, 3.5, 5.0, 0.01, number, True, None, 5.0, "Gbit",
                conditions,
            )
        )  # fmt: skip
    path = os.path.join(folder, f"{host}.json")
    environment = {"seed": host, "host": f"compute{host}", "accelerator": "kvm"}
    store.save(model.Results(environment, trials), path)
    return path


def main() -> int:
    """Write, judge, print and return 1 when the goal is missed."""
    numbers = random.Random(1)
    with tempfile.TemporaryDirectory(prefix="nova-perf-evaluate-", dir=workplace()) as folder:
        budgets = os.path.join(folder, "budgets.yaml")
        with open(budgets, "w", encoding="ascii") as file:
            file.write(_BUDGETS)
        paths = [_write(folder, host, numbers) for host in range(HOSTS)]
        command = [sys.executable, "-c", _JUDGE, budgets, *paths]
        output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    spent, read, mib, verdicts = output.strip().split("|")
    met = float(spent) < GOAL_CPU_S and float(mib) < GOAL_MIB
    print(f"{HOSTS} hosts x 200 trials, two budgets each: {verdicts}")
    print(f"  reading and checking: {float(read):6.2f} s CPU")
    print(f"  judging             : {float(spent) - float(read):6.2f} s CPU")
    print(f"  peak memory         : {float(mib):6.1f} MiB")
    print(
        f"goal: < {GOAL_CPU_S:.0f} s CPU and < {GOAL_MIB:.0f} MiB: {float(spent):.1f} s, {float(mib):.0f} MiB "
        f"{'reached' if met else 'MISSED'}"
    )
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
