# SPDX-License-Identifier: Apache-2.0
"""The table of the reference "policy x host configuration -> outcome" is what the planner does.

``python -m tests.unit.host.plan.test_outcomes`` writes it anew from the planner.
"""

import csv
import functools
import io
import pathlib

from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.plan.layout import CpuSets
from tests.support import hosts, testcase

TABLE = pathlib.Path(__file__).parents[4] / "doc/source/reference/outcomes.csv"

#: Two nodes of eight CPUs, 0-7 and 8-15. The guest is on node 1.
CPUS = hosts.cpus_of([(0, 8), (1, 8)])
VF = "0000:82:10.0"

CONFIGURATIONS = {
    "dedicated and shared on both nodes": CpuSets(dedicated="4-7,12-15", shared="2-3,10-11"),
    "dedicated only": CpuSets(dedicated="4-7,12-15"),
    "shared on the other node only": CpuSets(dedicated="4-7,10-15", shared="2-3"),
    "node 1 is all dedicated": CpuSets(dedicated="4-15"),
    "no sets; vCPUs own no CPU": CpuSets(),
}
POLICIES = (
    ("vhost_placement", "none"),
    ("vhost_placement", "numa"),
    ("vhost_placement", "spread"),
    ("emulator_placement", "default"),
    ("emulator_placement", "numa"),
    ("irq_placement", "none"),
    ("irq_placement", "numa"),
    ("irq_placement", "vcpu"),
)
HEAD = ["extra spec", *CONFIGURATIONS]


def outcome(spec, value, sets):
    """Return, in a few words, where the threads or vectors that ``spec`` is about end up."""
    pins = () if sets.dedicated is None else ("12", "13")
    irqs = [hosts.irq(60 + number, f"vfio-msix[{number}]({VF})", VF) for number in range(2)]
    guest = functools.partial(
        hosts.guest, "g", 1000, pins, 2, "0-15", hostdevs=[VF], memory_nodes="1", tap="tap1"
    )
    asking = guest(asks={spec: value})
    plan, silent = (
        planner.plan(hosts.facts(CPUS, [], irqs, [who]), sets) for who in (asking, guest(asks={}))
    )
    names = {f"tid:{thread.tid}": thread.kind for thread in asking.threads}
    names |= {f"irq:{irq.number}": "vector" for irq in irqs}
    lines = {}
    for setting in plan.settings:
        if setting.target in names:
            lines.setdefault(names[setting.target], []).append(setting.value)
    about = "; ".join(
        f"{name} {values[0]}" if len(set(values)) == 1 else f"{name} {', '.join(values)}"
        for name, values in sorted(lines.items())
    )
    warned = set(plan.warnings) - set(silent.warnings)
    return (about or "left alone") + (" (warned)" if warned else "")


def table():
    """Return the table as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for spec, value in POLICIES:
        writer.writerow(
            [
                f"perf:{spec}={value}",
                *(outcome(spec, value, sets) for sets in CONFIGURATIONS.values()),
            ]
        )
    return text.getvalue()


class OutcomesTest(testcase.TestCase):
    def test_the_reference_shows_what_the_planner_does(self):
        self.assertEqual(
            TABLE.read_text(encoding="utf-8"),
            table(),
            "the planner has changed; python -m tests.unit.host.plan.test_outcomes writes the table anew",
        )


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
