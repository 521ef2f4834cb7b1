"""What a run over many hosts tells its user to give next does what it says."""

import os
import shlex

import fixtures

from nova_perf_tuning import errors
from nova_perf_tuning.cli import validate, validate_cloud, validate_hints
from tests import simulated_cloud as simulation
from tests.unit.cli import fleet_case


class HintsTest(fleet_case.SimulatedValidation):
    def hints(self, *arguments, os_cloud=""):
        parser = validate.Validate(None, None).get_parser("validate")
        args = parser.parse_args(["--launcher", "heat", *arguments])
        return validate_hints.Hints(args, "nova-perf validate --launcher heat", os_cloud)

    def test_a_run_goes_on_as_it_was_told(self):
        """Its database, its files and its budgets are those of the call that was cut off."""
        budget, junit = os.path.join(self.folder, "b.yaml"), os.path.join(self.folder, "a file.xml")
        with open(budget, "w", encoding="utf-8") as file:
            file.write("budgets: [{benchmark: iperf3, arm: tuned, baseline: untuned, max_loss: -0.5}]")
        asked = ("--hosts", "all", "--blocks", "8", "--budget", budget, "--junit", junit)
        self.assertRaises(validate_cloud.NoResultsError, self.validate, *asked, "--time-limit", "20s")
        words = shlex.split(self.err.getvalue().rsplit("go on with: ", 1)[1])
        self.assertEqual(["nova-perf", "validate"], words[:2])
        for name in ("results.json", "report.html"):
            self.assertFalse(os.path.exists(os.path.join(self.output, name)))
        os.unlink(junit)
        parser = validate.Validate(None, None).get_parser("validate")
        self.assertEqual(1, self.go_on(parser.parse_args(words[2:])), "the budget counts")
        self.assertEqual(["report.html", "results.json"], sorted(os.listdir(self.output)))
        self.assertTrue(os.path.exists(junit))

    def go_on(self, args):
        with fixtures.MonkeyPatch("sys.stdout", self.out), fixtures.MonkeyPatch("sys.stderr", self.err):
            return validate_cloud.run(args, "nova-perf validate --launcher heat", fleet_case.SimulatedCloud())

    def test_what_was_left_is_removed_as_it_was_told(self):
        class Launcher(simulation.SimulatedLauncher):
            def cleanup(self, run_id=""):
                raise validate_cloud.NoResultsError("it is pinned")

        with fixtures.MonkeyPatch("tests.simulated_cloud.SimulatedLauncher", Launcher):
            self.assertRaises(errors.PerfTuningError, self.validate, "--hosts", "all", "--os-cloud", "my cloud")
        told = next(line for line in self.err.getvalue().splitlines() if "this removes them: " in line)
        words = shlex.split(told.rsplit("this removes them: ", 1)[1])
        self.assertEqual(["openstack", "--os-cloud", "my cloud", "perf", "cleanup"], words[:5])
        self.assertEqual(["--database", self.url], words[6:])

    def test_what_is_as_by_default_is_not_told(self):
        self.assertEqual("nova-perf validate --launcher heat --resume r1", self.hints().resume("r1"))
        self.assertEqual("openstack perf cleanup r1", self.hints().cleanup("r1"))

    def test_the_cloud_is_named_where_the_program_takes_it(self):
        args = self.hints().args
        hints = validate_hints.Hints(args, "openstack perf validate", "lab")
        self.assertEqual("openstack --os-cloud lab perf validate --resume r1", hints.resume("r1"))
        self.assertIn("--os-cloud lab --resume r1", self.hints("--os-cloud", "lab").resume("r1"))

    def test_limits_of_a_call_that_goes_on_already_are_told_again(self):
        """Those of the beginning are kept with the run."""
        limits = ("--max-loss", "0.2", "--agent-metrics", "")
        self.assertNotIn("0.2", self.hints(*limits).resume("r1"))
        self.assertIn("--max-loss 0.2 --agent-metrics ''", self.hints(*limits, "--resume", "r1").resume("r1"))

    def test_no_password_is_told(self):
        told = self.hints("--database", "postgresql://perf:geheim@host/runs").resume("r1")
        self.assertNotIn("geheim", told)
        self.assertIn("postgresql://perf:***@host/runs", told)
