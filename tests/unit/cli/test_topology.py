# SPDX-License-Identifier: Apache-2.0
"""``nova-perf topology``: the tables of network devices and of L3 groups."""

from nova_perf_tuning.host.input.facts import reader
from tests.support import audit_hosts as hosts
from tests.support import field_trees, program, sysroots, testcase, trees
from tests.support.field_hosts import Case


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

    def test_queues_that_are_not_recorded_are_not_none(self) -> None:
        self.assertIn(" 2/2 ", self.shown({}))
        self.assertNotIn("0/0", self.shown({f"{hosts.ETH0}/net/eth0/queues": None}))

    def test_names_that_are_not_recorded_say_nothing(self) -> None:
        unnamed = {f"proc/irq/{irq}/eth0-TxRx-{irq - 40}": None for irq in (40, 41)}
        row = self.shown(unnamed)
        self.assertIn("40-41 on 1,9", row)
        self.assertNotIn("handler", row)


class NodesTest(testcase.TestCase):
    def test_rows_and_distances_are_in_one_order(self) -> None:
        """POWER numbers nodes 0, 1, 16 and 17; node 16 has lower CPUs than node 1."""
        tree = dict(field_trees.tree(Case("batch6", "167")))
        shown = program.shown(self, "topology", "--sysroot", hosts.grow(self, tree))
        lines = shown.splitlines()
        (at,) = [number for number, line in enumerate(lines) if line.startswith("node ")]
        self.assertIn("  distances to 0 1 16 17  CPUs", lines[at])
        rows = lines[at + 1 : at + 5]
        self.assertEqual(["0", "1", "16", "17"], [row.split()[0] for row in rows])
        column = lines[at].index("distances")
        far = [row[column:].split()[:4] for row in rows]
        self.assertEqual(["10"] * 4, [row[place] for place, row in enumerate(far)])


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


class BooksTest(testcase.TestCase):
    """Packages of s390 are numbered within a book, books within a drawer."""

    def host(self, places: list[tuple[int, int, int]]) -> str:
        tree = trees.cpus(len(places))
        for cpu, (drawer, book, package) in enumerate(places):
            topology = f"sys/devices/system/cpu/cpu{cpu}/topology"
            tree |= {
                f"{topology}/drawer_id": str(drawer),
                f"{topology}/book_id": str(book),
                f"{topology}/physical_package_id": str(package),
            }
        return trees.grow(self, tree)

    def test_numbers_that_repeat_in_another_book(self) -> None:
        root = self.host([(0, 0, 0), (0, 0, 0), (0, 1, 0), (1, 0, 0), (1, 0, 1)])
        shown = program.shown(self, "topology", "--sysroot", root)
        self.assertIn("5 cores, 4 packages, 3 books, 2 drawers", shown)
        rows = [line.split() for line in shown.splitlines()]
        at = rows.index(["drawer", "book", "packages", "cores", "CPUs"])
        expected = [["0", "0", "0", "2", "0-1"], ["0", "1", "1", "1", "2"]]
        expected.append(["1", "2", "2-3", "2", "3-4"])
        self.assertEqual(expected, rows[at + 1 : at + 4])

    def test_numbers_that_do_not_repeat_are_the_kernels(self) -> None:
        root = self.host([(1, 2, 5), (1, 2, 6)])
        shown = program.shown(self, "topology", "--sysroot", root)
        self.assertIn("2 packages, 1 book, 1 drawer", shown)
        self.assertNotIn("drawer  book", shown)
        facts = reader.read_host(root)
        self.assertEqual(
            [(5, 2, 1), (6, 2, 1)], [(cpu.package, cpu.book, cpu.drawer) for cpu in facts.cpus]
        )

    def test_cores_that_share_an_l2_cache(self) -> None:
        tree = trees.cpus(4)
        for cpu in range(4):
            cache = f"sys/devices/system/cpu/cpu{cpu}/cache"
            tree |= {f"{cache}/index0/level": "1", f"{cache}/index1/level": "2"}
            tree[f"{cache}/index1/shared_cpu_list"] = "0-1" if cpu < 2 else str(cpu)
        shown = program.shown(self, "topology", "--sysroot", trees.grow(self, tree))
        rows = [line.split() for line in shown.splitlines()]
        at = rows.index(["node", "cores", "L2", "group", "of", "CPUs"])
        self.assertEqual([["-", "2", "0-1"], []], rows[at + 1 : at + 3])
