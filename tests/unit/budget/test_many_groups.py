"""Intervals of runs over many hosts: from order statistics, with the coverage they promise and little memory."""

import random
import tracemalloc

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

    def test_memory(self):
        samples = {group: [float(block + group % 7) for block in range(6)] for group in range(1500)}
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        found = statistics.estimate(samples)
        self.assertTrue(found.low <= found.value <= found.high)
        self.assertTrue(tracemalloc.get_traced_memory()[1] < 20e6)
