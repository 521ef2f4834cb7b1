"""Progress of a validation, on terminals and elsewhere."""

import io

import fixtures
import testtools

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import session
from nova_perf_tuning.cli import progress
from nova_perf_tuning.cloud import heat_pair, model


class Terminal(io.StringIO):
    def isatty(self):
        return True


class ProgressTest(testtools.TestCase):
    def shown(self, stream, *told, pause_s=0.0, **environment):
        """Return what a terminal of its own shows, whatever that of the caller is."""
        for name in ("TERM", "COLUMNS", "NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
            self.useFixture(fixtures.EnvironmentVariable(name, environment.get(name)))
        clock = [1000.0]
        self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.cli.progress.time.monotonic", lambda: clock[0]))
        with fixtures.MonkeyPatch("sys.stdout", stream), progress.showing(False) as show:
            for one in told:
                show(one)
                clock[0] += pause_s
        return stream.getvalue()

    def test_on_a_terminal_the_time_left_passes(self):
        one = session.Progress(0, 2, 356.0, "measuring a with b")
        for pause_s, left in ((0.0, "about 5:56 left"), (355.0, "about 0:01 left"), (400.0, "about 0:00 left")):
            text = self.shown(Terminal(), one, pause_s=pause_s, TERM="xterm", COLUMNS="100")
            self.assertIn(left, text)
            self.assertIn("measuring a with b", text)

    def test_elsewhere_few_lines(self):
        told = [session.Progress(done, 90, 356.0, f"trial {done}", done == 3) for done in range(9)]
        for stream, environment in ((io.StringIO(), {}), (Terminal(), {"TERM": "dumb"})):
            lines = self.shown(stream, *told, pause_s=1.0, **environment).splitlines()
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
