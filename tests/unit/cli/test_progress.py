"""Progress of a validation."""

import io

import fixtures
import testtools

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import session
from nova_perf_tuning.cli import progress
from nova_perf_tuning.cloud import heat_pair, model


class ProgressTest(testtools.TestCase):
    def test_few_lines_and_what_is_important(self):
        clock = iter(range(1000, 1009))
        out = io.StringIO()
        with (
            fixtures.MonkeyPatch("nova_perf_tuning.cli.progress.time.monotonic", lambda: next(clock)),
            fixtures.MonkeyPatch("sys.stdout", out),
        ):
            show = progress.shower(to_stderr=False)
            for done in range(9):
                show(session.Progress(done, 90, 356.0, f"trial {done}", done == 3))
        lines = out.getvalue().splitlines()
        self.assertEqual(["trial 0", "trial 3", "trial 8"], [line[-7:] for line in lines])
        self.assertEqual("[0/90] about 5:56 left  trial 0", lines[0])


class PlanTest(testtools.TestCase):
    def test_a_pair_takes_boots_and_slots_of_all_blocks(self):
        launcher = heat_pair.HeatPairLauncher(heat_pair.Settings(slot_s=13, boot_s=60.0), connect=lambda: None)
        plan = model.MeasurePlan("r", tuple(plugins.jobs(["cpu"])), 3, time_limit_s=1200.0)
        arms = (model.Arm("untuned"), model.Arm("tuned"))
        by_plan = (
            60 + 13 * (1 + 2 * 4) + 20 + 30
        )  # boot, a slot to warm up, blocks and one begun, hand-over, removal
        self.assertEqual(by_plan, launcher.expected_s(arms, plan))
        self.assertEqual(by_plan + 2 * 13, launcher.expected_s((*arms, model.Arm("x")), plan) - 2 * 13)
        launcher._boots_s.append(100.0)  # as seen of the last pair: no guess any more
        self.assertEqual(by_plan - 60 + 125, launcher.expected_s(arms, plan))
