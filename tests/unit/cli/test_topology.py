# SPDX-License-Identifier: Apache-2.0
"""``nova-perf topology``: the table of network devices."""

from tests.support import audit_hosts as hosts
from tests.support import program, testcase


class InterruptsTest(testcase.TestCase):
    def shown(self, changes: hosts.Tree) -> str:
        """Return the row of eth0."""
        root = hosts.grow(self, hosts.changed(hosts.good(), changes))
        text = program.shown(self, "topology", "--sysroot", root)
        (row,) = [line for line in text.splitlines() if line.startswith("eth0 ")]
        return row

    def test_vectors_without_a_handler_do_not_run(self) -> None:
        """Their queue is closed: the kernel keeps the affinity and the counts, and no interrupt comes."""
        idle: dict[str, str | None] = {}
        for number, cpu in ((42, 2), (43, 3)):
            for path, text in hosts.irq(number, "gone", cpu, hosts.ETH0).items():
                if not path.endswith("/gone"):
                    idle[path] = text
        self.assertIn("40-41 on 1,9", self.shown({}))
        self.assertIn("40-41 on 1,9; 42-43 without handler", self.shown(idle))

    def test_names_that_are_not_recorded_say_nothing(self) -> None:
        unnamed = {f"proc/irq/{irq}/eth0-TxRx-{irq - 40}": None for irq in (40, 41)}
        row = self.shown(unnamed)
        self.assertIn("40-41 on 1,9", row)
        self.assertNotIn("handler", row)
