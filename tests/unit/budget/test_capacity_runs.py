"""What the benchmark of capacity says of runs whose answer is known."""

import testtools

from nova_perf_tuning.budget import capacity
from tests.benchmarks import capacity as benchmark

#: 4.4 guests fit, 4.1 at the dear end, 4.8 at the cheap one.
FOUND = benchmark.Predicted(capacity.Limit("all", 1.0, 0.01, 4, 4, 4), 4, 4, 4, (4.1, 4.4, 4.8))


def run(guests, share, limited=True):
    return benchmark.Run(guests, limited, [share] * guests, 0.04, 0.1, 0.5, 0.01)


class JudgeTest(testtools.TestCase):
    def judged(self, *shares, control=1.0):
        runs = [run(guests, share) for guests, share in enumerate(shares, 3)]
        return benchmark.judge([*runs, run(6, control, limited=False)], FOUND)

    def test_as_calculated(self):
        code, lines = self.judged(1.0, 0.99, 0.88, 0.73)
        self.assertEqual((0, "HELD: 4 to 4 guests fit"), (code, lines[-1]))

    def test_fewer_fit(self):
        code, lines = self.judged(1.0, 0.95, 0.8, 0.7)
        self.assertEqual((1, "NOT HELD: 4 to 4 guests fit"), (code, lines[-1]))
        self.assertEqual(["WRONG: 4 guests did not keep their rate (95.0%)"], [x for x in lines if "WRONG" in x])

    def test_more_fit(self):
        self.assertEqual(1, self.judged(1.0, 1.0, 1.0, 0.9)[0])

    def test_something_else_runs_out(self):
        code, lines = self.judged(1.0, 1.0, 0.88, 0.73, control=0.9)
        self.assertEqual(2, code)
        self.assertIn("without the quota too", lines[0])

    def test_just_beyond_the_cheap_end_tells_nothing(self):
        near = benchmark.Predicted(FOUND.limit, 4, 4, 4, (4.1, 4.5, 4.95))
        for share in (0.9, 1.0):
            self.assertEqual(0, benchmark.judge([run(4, 1.0), run(5, share), run(6, 0.8)], near)[0])

    def test_work_done_in_guests_worth(self):
        told = benchmark.carried([run(4, 1.0), run(5, 0.9), run(6, 0.75)], FOUND)
        self.assertIn("4.50 to 4.50, median 4.50; calculated 4.40 (4.10 to 4.80)", told)


class LimitedFioTest(testtools.TestCase):
    def test_rate_is_asked_for(self):
        one = benchmark.job(50, 10)
        [step] = one.benchmark.steps(one.parameters)
        self.assertEqual("--rate_iops=50", step.argv[-1])
        self.assertIn("--runtime=10", step.argv)
        [step] = benchmark.job(None, 10).benchmark.steps(benchmark.job(None, 10).parameters)
        self.assertFalse([word for word in step.argv if "rate" in word])
