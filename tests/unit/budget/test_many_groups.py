"""Intervals of runs over many hosts: from order statistics, with the coverage they promise and little memory."""

import random
import tracemalloc

import fixtures
import testtools

from nova_perf_tuning.budget import statistics


class ManyGroupsTest(testtools.TestCase):
    def test_coverage(self):
        rng = random.Random(4)
        hits = 0
        for _ in range(300):
            found = statistics.estimate({group: [rng.gauss(0, 1)] for group in range(301)})
            hits += found.low <= 0 <= found.high
        self.assertTrue(0.92 <= hits / 300 <= 0.99, hits / 300)

    def test_the_same_is_judged_whatever_the_number_of_boots(self):
        """Boots that lose little mostly and much at times: their mean lies at the edge, their median within it."""
        rng = random.Random(4)
        for boots in (190, 250):
            within = 0
            for _ in range(60):
                samples = {group: [0.03 - rng.expovariate(1 / 0.03)] for group in range(boots)}
                within += statistics.estimate(samples, draws=500).low >= 0
            self.assertTrue(within <= 60 * 0.12, (boots, within))

    def test_memory(self):
        samples = {group: [float(block + group % 7) for block in range(6)] for group in range(1500)}
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        found = statistics.estimate(samples)
        self.assertTrue(found.low <= found.value <= found.high)
        self.assertTrue(tracemalloc.get_traced_memory()[1] < 20e6)

    def test_memory_where_one_boot_has_nearly_all_blocks(self):
        rng = random.Random(4)
        samples = {group: [rng.gauss(0, 1) for _ in range(1 if group else 3000)] for group in range(199)}
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        found = statistics.estimate(samples)
        self.assertTrue(found.low <= found.value <= found.high)
        self.assertTrue(tracemalloc.get_traced_memory()[1] < 300e6)

    def test_draws_in_parts_are_those_of_all_at_once(self):
        for sizes in ((7, 7, 7), (6, 5, 7, 1)):
            whole = statistics._counts.__wrapped__(sizes, 3, 500)
            self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.budget.statistics._AT_ONCE", 90))
            parts = statistics._counts.__wrapped__(sizes, 3, 500)
            self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.budget.statistics._AT_ONCE", 10**6))
            for one, other in zip(whole, parts, strict=True):
                self.assertEqual(one.tolist(), other.tolist())

    def test_draws_of_uneven_boots_are_from_their_own_blocks(self):
        self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.budget.statistics._MOST_PLACES", 0))
        counts, totals = statistics._counts.__wrapped__((4, 1, 2), 3, 2000)
        self.assertEqual(totals.tolist(), counts.sum(axis=0).tolist())
        for begin, end in ((0, 4), (4, 5), (5, 7)):  # a boot is drawn once a draw, with all its blocks
            self.assertTrue(0.95 < counts[begin:end].sum() / 2000 / (end - begin) < 1.05)
        for row in counts:
            self.assertTrue(0.9 < row.mean() < 1.1, row.mean())
