"""The time left passes while nothing is told, on a terminal by the clock, and is never below 0."""

import io
import re

import fixtures
import testtools

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import session
from nova_perf_tuning.cli import progress
from nova_perf_tuning.cloud import heat_pair, model


class Terminal(io.StringIO):
    def isatty(self):
        return True


class TimeLeftTest(testtools.TestCase):
    def test_on_a_terminal(self):
        clock = [1000.0]
        self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.cli.progress.time.monotonic", lambda: clock[0]))
        column = progress._left_column()

        def shown(told):
            task = type("Task", (), {"fields": told})()
            return column.render(task).plain

        told = {"left_s": 356.0, "told": 1000.0}
        seen = []
        for passed in (0, 56, 355, 400):
            clock[0] = 1000.0 + passed
            seen.append(shown(told))
        self.assertEqual(["about 5:56 left", "about 5:00 left", "about 0:01 left", "about 0:00 left"], seen)
        self.assertEqual("", shown({"left_s": None, "told": 0.0}))

    def test_the_bar_has_it(self):
        terminal = Terminal()
        with fixtures.MonkeyPatch("sys.stdout", terminal), progress.showing(False) as tell:
            tell(session.Progress(0, 2, 356.0, "measuring a with b"))
        self.assertTrue(re.search(r"about 5:5[56] left", terminal.getvalue()), terminal.getvalue())


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
