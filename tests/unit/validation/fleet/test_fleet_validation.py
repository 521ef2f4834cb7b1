# SPDX-License-Identifier: Apache-2.0
"""The steps of a fleet run on a simulated cloud: what each refuses, and what it leaves behind."""

import dataclasses
import signal

import fixtures

from nova_perf_tuning import errors
from nova_perf_tuning.validation.fleet import fleet_run, fleet_validation
from nova_perf_tuning.validation.measure import fleet_model, results_file
from nova_perf_tuning.validation.results.environment import Ended, Environment
from nova_perf_tuning.validation.store import run_store
from tests.support import directories, fleet_case
from tests.support import simulated_cloud as simulation


class RefusingCloud(fleet_case.SimulatedCloud):
    """A cloud whose check fails; what was left of a run can be removed, or cannot."""

    can_clean = True

    def launcher(self, guests):
        made = super().launcher(guests)
        made.check = self._refuse
        if not self.can_clean:
            made.cleanup = self._refuse
        return made

    @staticmethod
    def _refuse(_what):
        raise errors.CloudError("no Heat here")


class ValidationCase(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.store = run_store.RunStore(f"sqlite:///{self.directory}/results.db")
        self.addCleanup(self.store.close)
        self.cloud = fleet_case.SimulatedCloud(count=4)
        self.warnings = []
        self.plan = simulation.fleet_plan(run_store.new_id(), ["iperf3", "cpu"], peers=2)

    def prepare(self, cloud=None):
        environment = Environment.from_dict({"benchmarks": {"iperf3": {"kind": "iperf3"}}})
        return fleet_validation.prepare(
            self.plan, environment, cloud or self.cloud, ["all"], self.warnings.append
        )

    def create(self):
        return fleet_validation.create(self.store, self.prepare(), self.cloud)

    def measure(self, started):
        return fleet_validation.measure(self.store, started, lambda _now: None)

    def interrupted(self, *, leftovers=False):
        """Return a run of which nothing was measured."""
        run = self.create().run
        self.store.end(run.run_id, "interrupted", leftovers=leftovers)
        return self.store.load(run.run_id)

    def take_up(self, before, cloud=None):
        return fleet_validation.take_up(
            self.store, before, cloud or self.cloud, self.warnings.append
        )


class NewRunTest(ValidationCase):
    def test_hosts_are_chosen_and_paired_and_nothing_is_made(self):
        new = self.prepare()
        self.assertEqual(["h000", "h001", "h002", "h003"], new.hosts)
        self.assertEqual(fleet_model.schedule(new.hosts, 2), new.pairs)
        self.assertEqual(["host h999 is left out: it is down"], self.warnings)
        self.assertEqual([], self.store.lines())

    def test_more_trials_than_results_hold_are_refused_before_the_cloud_is_checked(self):
        """Of a benchmark without peer there are two for each pair: 4 pairs, 2 blocks, 2 arms, 1 + 2."""
        cloud = RefusingCloud(count=4)
        self.useFixture(fixtures.MockPatchObject(results_file, "MAX_TRIALS", 47))
        error = self.assertRaises(fleet_validation.TooManyTrialsError, self.prepare, cloud)
        self.assertEqual(
            "4 pairs have 48 trials, results hold 47; give fewer --blocks, --peers or --hosts",
            str(error),
        )
        self.useFixture(fixtures.MockPatchObject(results_file, "MAX_TRIALS", 48))
        self.assertRaises(errors.CloudError, self.prepare, cloud)

    def test_the_run_knows_its_cloud(self):
        started = self.create()
        stored = self.store.load(started.run.run_id)
        self.assertEqual(("running", "region R project p"), (stored.state, stored.plan.cloud))


class TakeUpTest(ValidationCase):
    def test_a_run_of_another_cloud_is_refused(self):
        before = self.interrupted()
        fleet_validation.check_cloud(before, self.cloud)
        self.cloud.where = "region R project other"
        error = self.assertRaises(
            run_store.RunError, fleet_validation.check_cloud, before, self.cloud
        )
        self.assertIn("was begun on another cloud or project: region R project p", str(error))

    def test_a_complete_run_needs_no_cloud(self):
        started = self.create()
        self.measure(started)
        before = self.store.load(started.run.run_id)
        fleet_validation.check_cloud(before, None)
        again = self.take_up(before, fleet_case.SimulatedCloud)
        self.assertEqual((before, None), (again.run, again.launcher))
        self.assertEqual(
            fleet_validation.FleetMeasurement(Ended.COMPLETE, has_leftovers=False),
            self.measure(again),
        )

    def test_it_goes_on_by_the_plan_that_is_given(self):
        before = self.interrupted()
        settings = dataclasses.replace(before.plan.settings, time_limit_s=33.0)
        before.plan = dataclasses.replace(before.plan, settings=settings)
        started = self.take_up(before)
        self.assertEqual(33.0, started.run.plan.settings.time_limit_s)
        self.assertEqual([], self.warnings[1:], "nothing was left")

    def test_what_was_left_is_removed_first(self):
        before = self.interrupted(leftovers=True)
        started = self.take_up(before)
        self.assertEqual("removing what the run left when it was cut off", self.warnings[-1])
        self.assertFalse(started.run.leftovers)

    def test_a_run_that_cannot_go_on_is_given_back(self):
        """With what is left of it, unless that could be removed."""
        for can_clean in (True, False):
            with self.subTest(can_clean):
                before = self.interrupted(leftovers=True)
                cloud = RefusingCloud(count=4)
                cloud.can_clean = can_clean
                self.assertRaises(errors.CloudError, self.take_up, before, cloud)
                after = self.store.load(before.run_id)
                self.assertEqual(("interrupted", not can_clean), (after.state, after.leftovers))
                self.store.claim(before.run_id)  # nobody has it
                self.store.end(before.run_id)
                self.plan = simulation.fleet_plan(run_store.new_id(), ["iperf3"], peers=2)


class MeasureTest(ValidationCase):
    def test_a_whole_run(self):
        measured = self.measure(self.create())
        self.assertEqual(
            fleet_validation.FleetMeasurement(Ended.COMPLETE, has_leftovers=False), measured
        )

    def test_an_error_is_returned_since_what_was_measured_counts(self):
        started = self.create()
        lost = errors.CloudError("the credentials are not valid any more")
        started.launcher.measured = lambda *_: self.raise_error(lost)
        measured = self.measure(started)
        self.assertEqual((Ended.ERROR, lost), (measured.ended, measured.error))

    def raise_error(self, error):
        raise error

    def test_a_run_that_another_process_has_is_left_to_it(self):
        taken = run_store.TakenOverError("run r was taken over")
        run = fixtures.MockPatchObject(fleet_run.FleetRun, "run", side_effect=taken)
        self.useFixture(run)
        self.assertRaises(run_store.TakenOverError, self.measure, self.create())

    def test_the_signal_that_stopped_it_is_known(self):
        started = self.create()
        self.useFixture(
            fixtures.MockPatchObject(
                fleet_run.FleetRun,
                "run",
                lambda going: self.stop(going, signal.SIGTERM),
            )
        )
        measured = self.measure(started)
        self.assertEqual(
            fleet_validation.FleetMeasurement(Ended.INTERRUPTED, True, signal.SIGTERM), measured
        )

    @staticmethod
    def stop(going, number):
        going.stopped_by = number
        going.unclean = True
        return Ended.INTERRUPTED


class WhyNoResultTest(ValidationCase):
    def why(self, ended, *kinds):
        run = self.create().run
        for kind in kinds:
            run.tasks[1].faults.append(fleet_model.PairError(kind, f"reason {kind.name}"))
        return str(fleet_validation.why_no_result(run, ended))

    def test_the_first_error_or_the_time_limit(self):
        kinds = fleet_model.ErrorClass.NO_HOST, fleet_model.ErrorClass.API
        self.assertEqual(
            "no pair gave a result; first error: no valid host: reason NO_HOST",
            self.why(Ended.TIME_LIMIT, *kinds),
        )
        self.plan = simulation.fleet_plan(run_store.new_id(), ["iperf3"], peers=2)
        self.assertEqual(
            "no pair was measured; give more --time-limit", self.why(Ended.TIME_LIMIT)
        )
        self.plan = simulation.fleet_plan(run_store.new_id(), ["iperf3"], peers=2)
        self.assertEqual("no pair was measured", self.why(Ended.INTERRUPTED))
