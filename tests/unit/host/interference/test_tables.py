# SPDX-License-Identifier: Apache-2.0
"""Counters per CPU as the kernel writes them, and what they grew by."""

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.host.interference import tables
from tests.support import testcase
from tests.unit.host.interference import recorded

#: Of a guest with two CPUs (Linux 6.18); some lines are left out.
INTERRUPTS = recorded.text("interrupts")
SOFTNET = recorded.text("softnet_stat")
#: Linux 4.18 says of no line which CPU it is of.
OLD_SOFTNET = recorded.text("softnet_stat-4.18")
COUNTS = strategies.integers(0, (1 << 32) - 1)


class ParseTest(testcase.TestCase):
    def test_counts_of_each_cpu_and_what_they_are_of(self):
        table = tables.parse_counts(INTERRUPTS)
        self.assertEqual(
            ("PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0", {0: 0, 1: 13419831}), table["36"]
        )
        self.assertEqual(("Local timer interrupts", {0: 11727841, 1: 11010659}), table["LOC"])
        self.assertNotIn("ERR", table)

    def test_only_the_cpus_that_are_wanted(self):
        self.assertEqual({1: 296543}, tables.parse_counts(INTERRUPTS, {1, 7})["TLB"][1])

    def test_cpus_have_gaps_where_some_are_offline(self):
        text = "   CPU0  CPU3\nLOC:  5   6  Local timer interrupts\n"
        self.assertEqual({0: 5, 3: 6}, tables.parse_counts(text)["LOC"][1])

    def test_packets_handed_over(self):
        self.assertEqual({0: 42, 5: 7}, tables.parse_received_rps(SOFTNET, [0, 5]))
        self.assertEqual({0: 17, 3: 18}, tables.parse_received_rps(OLD_SOFTNET, [0, 3]))

    @hypothesis.given(strategies.text("0123456789abcCPU: \nLOCx,-", max_size=200))
    def test_garbage_is_passed_over(self, text):
        tables.parse_counts(text)
        tables.parse_received_rps(text, [0, 1])

    @hypothesis.given(
        strategies.dictionaries(
            strategies.integers(0, 8191), strategies.integers(0, 1 << 40), min_size=1, max_size=20
        ),
        strategies.sampled_from(["", "Local timer interrupts", "IO-APIC 9-fasteoi acpi, x y"]),
    )
    def test_what_is_written_is_read(self, counts, about):
        head = " ".join(f"CPU{cpu}" for cpu in counts)
        line = " ".join(map(str, counts.values()))
        table = tables.parse_counts(f"{head}\n  9: {line}  {about}\n")
        self.assertEqual({"9": (about, counts)}, table)


class ChangedTest(testcase.TestCase):
    @hypothesis.given(
        strategies.lists(strategies.tuples(COUNTS, COUNTS, strategies.booleans()), max_size=20)
    )
    def test_counts_left_out_are_those_that_did_not_change(self, lines):
        """What is left is what the whole tables have, however wide the kernel writes a count."""
        for width in (11, 12, 1):
            before = after = "".join(f"CPU{cpu:<8}" for cpu in range(3)) + "\n"
            for number, (old, new, changes) in enumerate(lines):
                third = new if changes else old
                before += f"{number:4}:{old:{width}}{old:{width}}{old:{width}}  a:b\n"
                after += f"{number:4}:{old:{width}}{new:{width}}{third:{width}}  a:b\n"
            whole = tables.parse_counts(before, (0, 1)), tables.parse_counts(after, (0, 1))
            short = self.changes(before, after, (0, 1))
            for name, (_about, counts) in whole[1].items():
                for cpu, count in counts.items():
                    old_count = whole[0][name][1][cpu]
                    if old_count != count:
                        self.assertEqual(old_count, short[0][name][1][cpu])
                        self.assertEqual(count, short[1][name][1][cpu])
                    elif width == 11:
                        self.assertNotIn(cpu, short[1].get(name, ("", {}))[1])

    def changes(self, before, after, cpus):
        """Return the counts of interrupts that differ."""
        changes = tables.CounterChanges()
        self.assertIsNone(changes.read(before.encode().splitlines(True), "", cpus))
        readings = changes.read(after.encode().splitlines(True), "", cpus)
        return tuple(reading.interrupts for reading in readings)

    def test_an_interrupt_that_came_begins_at_nothing(self):
        head = "CPU0       CPU1       \n"
        line = f"LOC:{5:11}{6:11}  x\n"
        short = self.changes(head, head + line, (0, 1))
        self.assertEqual(({}, {"LOC": ("x", {0: 5, 1: 6})}), short)

    def test_where_cpus_came_or_went_all_counts_count(self):
        before, after = " CPU0\nLOC: 1 x\n", " CPU0 CPU1\nLOC: 1 1 x\n"
        whole = tables.parse_counts(before, (0, 1)), tables.parse_counts(after, (0, 1))
        self.assertEqual(whole, self.changes(before, after, (0, 1)))


class GrowthTest(testcase.TestCase):
    @hypothesis.given(COUNTS, strategies.integers(0, (1 << 31) - 1))
    @hypothesis.example((1 << 32) - 1, (1 << 31) - 1)
    def test_a_counter_that_wraps_grew_by_what_it_counted(self, before, grown):
        after = (before + grown) % (1 << 32)
        self.assertEqual((grown, False), tables.growth(before, after))

    @hypothesis.given(COUNTS, COUNTS)
    def test_it_never_falls(self, before, after):
        grown, _again = tables.growth(before, after)
        self.assertGreaterEqual(grown, 0)

    def test_one_that_began_again_is_a_lower_bound(self):
        self.assertEqual((3, True), tables.growth(1000, 3))
