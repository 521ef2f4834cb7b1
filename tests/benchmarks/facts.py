"""Speed of reading a host: ``python -m tests.benchmarks.facts``.

Reads the generated hosts small and huge with a C program and with ``facts.reader.read_host`` in turn, each in a
fresh process, and prints medians of CPU time (user + system), their ratio, and the median of the ratios of runs in
turn, which a busy machine disturbs least and which the goal is about. Exit code 1 when huge misses the goal.

By design ``read_host`` opens fewer files than the C program does: one of each thread where the set has two, and
it lists hardly any interrupt's folder. It also reads some that the set lacks: core ids, and the MTU of taps.
"""

from __future__ import annotations

import statistics
import sys
import tempfile

from tests.benchmarks import limits

RUNS = 7
#: Facts of huge against the C reader of the facts set.
GOAL = 2.0

_READ = """
import sys, time
from nova_perf_tuning.host.facts import reader
begin = time.process_time()
facts = reader.read_host(sys.argv[1])
print((time.process_time() - begin) * 1e3)
"""


def _measure(root: str) -> dict[str, float]:
    """Print and return the medians for one host: ``facts`` (ours), ``c_facts`` and ``c_verify``, milliseconds."""
    ours: list[float] = []
    with limits.CReader(root) as reader:
        runs: dict[str, list[limits.Reading]] = {name: [] for name in limits.SETS}
        for _ in range(RUNS):
            for name, readings in runs.items():
                readings.append(reader.run(name))
            ours.append(limits.cpu_ms(_READ, root))
    medians = {f"c_{name}": statistics.median(one.cpu_ms for one in readings) for name, readings in runs.items()}
    medians["facts"] = statistics.median(ours)
    limit = [one.cpu_ms for one in runs["facts"]]
    medians["ratio"] = statistics.median(spent / least for spent, least in zip(ours, limit, strict=True))
    print(f"{root}:")
    for name, readings in runs.items():
        one = readings[0]
        print(
            f"  C reader, {name:6}: {medians[f'c_{name}']:7.2f} ms CPU, {one.files} files, {one.folders} folders,"
            f" {one.size / 1e6:.1f} MB"
        )
    print(f"  read_host         : {medians['facts']:7.2f} ms CPU ({min(ours):.2f} to {max(ours):.2f})")
    print(f"  read_host / C facts: {medians['facts'] / medians['c_facts']:.2f}, in turn {medians['ratio']:.2f}")
    return medians


def main() -> int:
    """Run both sizes and return the exit code."""
    with tempfile.TemporaryDirectory(prefix="nova-perf-facts-", dir=limits.workplace()) as folder:
        small = _measure(limits.generated_host(folder, "small"))
        huge = _measure(limits.generated_host(folder, "huge"))
    ratio = huge["ratio"]
    growth = {name: huge[name] / small[name] for name in huge}
    print(f"growth small -> huge: read_host {growth['facts']:.0f}, C {growth['c_facts']:.0f}")
    print(f"goal on huge: <= {GOAL} x C facts: {'reached' if ratio <= GOAL else 'MISSED'} ({ratio:.2f})")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
