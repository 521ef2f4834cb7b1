"""What the benchmark of capacity says of runs whose answer is known."""

import testtools

from nova_perf_tuning.budget import capacity
from tests.benchmarks import capacity as benchmark

SHARED = 0.044
#: 4.4 guests fit, 4.1 at the dear end, 4.8 at the cheap one.
FOUND = benchmark.Predicted(capacity.Limit("all", 1.0, 0.01, 4, 4, 4), 4, 4, 4, (4.1, 4.4, 4.8))


def run(guests, used, limited=True, share=1.0):
    return benchmark.Run(guests, limited, [share] * guests, 1.0, used * SHARED, 0.1, 0.5, 0.01)


class JudgeTest(testtools.TestCase):
    def judged(self, *used, control=1.0, share=1.0):
        runs = [run(guests, one, share=share) for guests, one in enumerate(used, 3)]
        return benchmark.judge([*runs, run(6, 1.5, limited=False, share=control)], FOUND, SHARED)

    def test_as_calculated(self):
        code, lines = self.judged(0.7, 0.92, 0.99, 1.0)
        self.assertEqual((0, "HELD: 4 to 4 guests fit"), (code, lines[-1]))

    def test_fewer_fit(self):
        code, lines = self.judged(0.8, 0.99, 1.0, 1.0)
        self.assertEqual((1, "NOT HELD: 4 to 4 guests fit"), (code, lines[-1]))
        wrong = [line for line in lines if line.startswith("WRONG")]
        self.assertEqual(["WRONG: for 4 guests the shared CPU was used up"], wrong)

    def test_more_fit(self):
        self.assertEqual(1, self.judged(0.6, 0.75, 0.9, 1.0)[0])

    def test_guests_that_lose_their_rate_have_not_enough(self):
        self.assertEqual(1, self.judged(0.7, 0.9, 0.99, 1.0, share=0.9)[0])

    def test_something_else_runs_out(self):
        code, lines = self.judged(0.7, 0.92, 0.99, 1.0, control=0.9)
        self.assertEqual(2, code)
        self.assertIn("without the quota too", lines[0])

    def test_just_beyond_the_cheap_end_tells_nothing(self):
        near = benchmark.Predicted(FOUND.limit, 4, 4, 4, (4.1, 4.5, 4.95))
        for used in (0.93, 0.99):
            self.assertEqual(0, benchmark.judge([run(4, 0.9), run(5, used), run(6, 1.0)], near, SHARED)[0])

    def test_cost_among_others_stands_beside_that_alone(self):
        told = benchmark.cost([run(3, 0.6), run(4, 0.8), run(5, 1.0)], FOUND, SHARED)
        self.assertIn("0.0088 to 0.0088, median 0.0088; measured 0.0100 (0.0092 to 0.0107)", told)

    def test_the_most_guests_are_ones_that_must_use_it_up(self):
        """3.92 fit at the cheap end: 4 take 98 % of it, which is as good as all or as enough."""
        near = benchmark.Predicted(FOUND.limit, 3, 2, 3, (2.88, 3.4, 3.92))
        self.assertEqual([1, 2, 3, 4, 5], list(benchmark.numbers(near)))
        self.assertEqual([3, 4, 5], list(benchmark.numbers(FOUND)))
        for found in (near, FOUND):
            most = benchmark.numbers(found)[-1]
            code, lines = benchmark.judge([run(most, 0.9)], found, SHARED)
            self.assertEqual((1, "WRONG"), (code, lines[0][:5]))
