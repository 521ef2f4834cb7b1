# SPDX-License-Identifier: Apache-2.0
"""``nova-perf topology``: the tables of network devices and of L3 groups."""

from tests.support import audit_hosts as hosts
from tests.support import program, sysroots, testcase


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


class L3GroupsTest(testcase.TestCase):
    def rows(self, preset: str) -> list[list[str]]:
        root = sysroots.make_host(self, preset)
        lines = program.shown(self, "topology", "--sysroot", root).splitlines()
        starts = [at for at, line in enumerate(lines) if line.endswith("L3 group of CPUs")]
        if not starts:
            return []
        end = lines.index("", starts[0])
        return [line.split() for line in lines[starts[0] + 1 : end]]

    def test_the_groups_of_nodes_that_have_several(self) -> None:
        expected = [
            ["0", "8", "0-7,32-39"],
            ["0", "8", "8-15,40-47"],
            ["1", "8", "16-23,48-55"],
            ["1", "8", "24-31,56-63"],
        ]
        self.assertEqual(expected, self.rows("small"))

    def test_one_group_a_node_is_not_shown(self) -> None:
        self.assertEqual([], self.rows("tiny"))
