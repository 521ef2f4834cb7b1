"""Speed of the audit: ``python -m tests.benchmarks.audit``.

Judges the generated host huge by every installed rule, each run in a fresh process, and prints the CPU time of the
rules beside that of reading the facts they stand on. The rules may take twice as long as the facts.
"""

from __future__ import annotations

import statistics
import sys
import tempfile

from tests.benchmarks import limits

RUNS = 5
#: Rules of huge against reading its facts.
GOAL = 2.0

_READ = """
import sys, time
from nova_perf_tuning.host.facts import reader
begin = time.process_time()
reader.read_root(reader.open_root(sys.argv[1]))
print((time.process_time() - begin) * 1e3)
"""
_JUDGE = """
import sys, time
from nova_perf_tuning.host.audit import host, runner
from nova_perf_tuning.host.facts import reader
root = reader.open_root(sys.argv[1])
facts = reader.read_root(root)
rules = runner.load()
begin = time.process_time()
runner.run(host.Host(root, facts), rules, strict=True)
print((time.process_time() - begin) * 1e3)
"""


def main() -> int:
    """Measure huge and return the exit code: 1 when it misses the goal."""
    with tempfile.TemporaryDirectory(prefix="nova-perf-audit-", dir=limits.workplace()) as folder:
        root = limits.generated_host(folder, "huge")
        pairs = [(limits.cpu_ms(_READ, root), limits.cpu_ms(_JUDGE, root)) for _ in range(RUNS)]
    facts, rules = (statistics.median(pair[place] for pair in pairs) for place in (0, 1))
    ratio = statistics.median(judged / read for read, judged in pairs)
    print(f"huge: facts {facts:.0f} ms CPU, all rules {rules:.0f} ms, in turn {ratio:.2f} times the facts")
    print(f"goal: <= {GOAL} times the facts: {'reached' if ratio <= GOAL else 'MISSED'}")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
