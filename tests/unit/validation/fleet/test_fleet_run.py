# SPDX-License-Identifier: Apache-2.0
"""The real controller on a simulated cloud, in virtual time: faults, quota, hosts that go, interruptions."""

import collections
import contextlib
import dataclasses
import os
import signal
import threading
from unittest import mock

import fixtures

from nova_perf_tuning import errors
from nova_perf_tuning.validation.fleet import fleet_results, fleet_run
from nova_perf_tuning.validation.measure import fleet_model, results_file
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.store import owner, run_store
from tests.support import directories, samples
from tests.support import simulated_cloud as simulation

KINDS = {"iperf3": {"kind": "iperf3"}, "cpu": {"kind": "cpu"}}


def names(count):
    return [f"h{number:03d}" for number in range(count)]


def kill(controller, number):
    """Send a signal to this process and wait until the run has heard of it."""
    os.kill(os.getpid(), number)
    while not controller.stopped_by:
        threading.Event().wait(0.01)


class FleetRunCase(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.store = run_store.RunStore(f"sqlite:///{self.directory}/results.db")
        self.addCleanup(self.store.close)
        self.progress = []

    def begin(self, hosts, cloud=None, peers=2, **changes):
        """Return a new run on a simulated cloud."""
        self.run_id = run_store.new_id()
        plan = simulation.fleet_plan(self.run_id, ["iperf3", "cpu"], peers=peers, **changes)
        pairs = fleet_model.schedule(names(hosts), peers)
        environment = environments.Environment.from_dict({"benchmarks": KINDS})
        return self.fleet_run(self.store.create(plan, names(hosts), pairs, environment), cloud)

    def fleet_run(self, run, cloud=None, **changes):
        """Go on with a run, with other settings if need be."""
        settings = dataclasses.replace(run.plan.settings, **changes)
        run.plan = dataclasses.replace(run.plan, settings=settings)
        self.threads = simulation.VirtualWorkers()
        self.launcher = simulation.SimulatedLauncher(cloud or simulation.Cloud(), self.threads)
        return fleet_run.FleetRun(
            self.store, self.launcher, run, self.progress.append, self.threads
        )

    def states(self):
        return collections.Counter(task.state for task in self.store.load(self.run_id).tasks)

    def faults(self):
        return [fault for task in self.store.load(self.run_id).tasks for fault in task.faults]

    def check_consistent(self):
        """Every pair that is done has all its trials once, no other has any; nothing is left on the cloud."""
        counts = {
            number: len(outcome.trials) for number, outcome in self.store.outcomes(self.run_id)
        }
        for task in self.store.load(self.run_id).tasks:
            self.assertEqual(24 if task.state == "done" else None, counts.get(task.number), task)
        self.assertEqual([], self.launcher.stacks())
        self.assertEqual([], self.launcher.overlaps)


class FleetRunTest(FleetRunCase):
    def test_every_pair_once(self):
        controller = self.begin(12, peers=3)
        self.assertEqual("complete", controller.run())
        self.assertEqual({"done": 18}, self.states())
        self.assertEqual(18, len([entry for entry in self.launcher.log if entry[0] == "begin"]))
        self.assertEqual(4, self.launcher.most)
        self.check_consistent()
        [line] = self.store.lines()
        shown = line.state, line.alive, line.leftovers, line.hosts, line.pairs, line.done
        self.assertEqual(("complete", False, False, 12, 18, 18), shown)
        self.assertEqual([], self.faults())

    def test_time_left_comes_true(self):
        controller = self.begin(16, peers=4, max_parallel=4)
        controller.run()
        end = self.threads.now()
        half, *_ = [now for now in self.progress if now.done == 16]
        self.assertTrue(0.35 * end < half.left_s < 0.65 * end, (half, end))

    def test_faults_stay_with_their_pair(self):
        controller = self.begin(40, simulation.Cloud(faults=0.2), peers=3, retries=1)
        self.assertEqual("complete", controller.run())
        states = self.states()
        self.assertEqual({"done", "failed"}, set(states))
        self.assertTrue(states["done"] > 40)
        faults = self.faults()
        self.assertTrue({"simulated fault"} == {fault.reason for fault in faults})
        self.assertEqual({1, 2}, {fault.attempt for fault in faults})
        begun = collections.Counter(pair for what, pair, _ in self.launcher.log if what == "begin")
        self.assertEqual(2, max(begun.values()))
        self.check_consistent()

    def first(self, act):
        """Let ``act`` see each pair before it is measured; what it returns, if anything, is the outcome."""
        whole = self.launcher.measured
        self.launcher.measured = lambda pair, *rest: act(pair) or whole(pair, *rest)

    def ended(self):
        """Return how many attempts have ended."""
        return sum(what == "end" for what, _, _ in self.launcher.log)

    def refused(self, pair):
        """Fail for the cloud's sake after some attempts."""
        if self.ended() < 8:
            return None
        self.threads.sleep(5.0)
        return fleet_model.PairOutcome(
            pair, errors=[fleet_model.PairError(fleet_model.ErrorClass.API, "not allowed (403)")]
        )

    def test_a_cloud_that_fails_midway_is_no_host_s_fault(self):
        """The run ends soon, and all that failed is measured when it goes on."""
        for retries in (0, 1):
            with self.subTest(retries):
                controller = self.begin(24, peers=3, retries=retries)
                self.first(self.refused)
                error = self.assertRaises(fleet_run.HopelessError, controller.run)
                self.assertIn("8 attempts on end failed, over different hosts", str(error))
                self.assertEqual("interrupted", self.store.load(self.run_id).state)
                states = self.states()
                self.assertEqual({"done", "planned"}, set(states))
                self.assertEqual(36, states.total())
                self.check_consistent()
                self.assertEqual(
                    "complete", self.fleet_run(self.store.claim(self.run_id), retries=0).run()
                )
                self.assertEqual({"done": 36}, self.states())
                self.check_consistent()

    def leave_stacks(self, *hosts):
        """Let the first pair of each of some hosts leave its stack behind."""
        whole, stuck = self.launcher.measure, set(hosts)

        def measure(pair, plan):
            outcome = whole(pair, plan)
            if pair.hosts & stuck:
                stuck.difference_update((pair.client, pair.server))
                self.launcher.make(f"{fleet_model.NAME_PREFIX}{plan.run_id}-left-{pair.client}")
                outcome.errors.append(
                    fleet_model.PairError(fleet_model.ErrorClass.NOT_REMOVED, "still there")
                )
                self.launcher.log.append(("left", pair, 0))
            return outcome

        self.launcher.measure = measure

    def test_hosts_on_which_a_stack_stayed_are_not_measured_beside_it(self):
        """All others are; then the stacks are removed once more, and the rest is left to who resumes the run."""
        controller = self.begin(12, peers=3)
        self.leave_stacks("h001", "h007")
        error = self.assertRaises(fleet_run.HopelessError, controller.run)
        self.assertIn("pairs not measured: stacks stayed on their hosts", str(error))
        self.assertFalse(controller.unclean)
        stuck, begun = set(), []
        for what, pair, _ in self.launcher.log:
            hosts = pair.hosts
            stuck |= hosts if what == "left" else set()
            if what == "begin":
                begun.append(pair)
                self.assertFalse(hosts & stuck)
        self.check_consistent()
        self.assertEqual("complete", self.fleet_run(self.store.claim(self.run_id)).run())
        self.assertEqual({"done": 18}, self.states())
        begun += [pair for what, pair, _ in self.launcher.log if what == "begin"]
        self.assertEqual(
            {1}, set(collections.Counter(begun).values()), "what was measured is measured once"
        )

    def test_one_dead_host(self):
        """Its pairs are tried again, then they have failed; nobody else is drawn for its peers."""
        controller = self.begin(12, simulation.Cloud(dead={"h004"}), peers=3)
        self.assertEqual("complete", controller.run())
        run = self.store.load(self.run_id)
        failed = [task for task in run.tasks if task.state == "failed"]
        self.assertEqual([2] * 3, [task.attempts for task in failed if "h004" in task.pair.hosts])
        self.assertEqual({"done": 15, "failed": 3}, self.states())
        _, judged = fleet_results.collect(self.store, run.run_id, [], 0.15, "complete")
        verdicts = {
            host.host: (host.verdict, host.measured) for host in judged.hosts if host.measured < 3
        }
        self.assertEqual(("INVALID", 0), verdicts.pop("h004"))
        self.assertEqual([("PASS", 2)] * 3, list(verdicts.values()))
        self.check_consistent()

    def test_quota_lowers_how_many_run_at_a_time(self):
        controller = self.begin(16, simulation.Cloud(quota=3), max_parallel=8)
        self.assertEqual("complete", controller.run())
        self.assertEqual({"done": 16}, self.states())
        self.assertIn(
            "quota: at most 3 pairs at a time", "\n".join(now.text for now in self.progress)
        )
        self.assertEqual([], self.faults())
        self.check_consistent()

    def test_results_of_many_trials_have_those_that_are_judged(self):
        controller = self.begin(6)
        controller.run()
        for limit, count in ((144, 144), (143, 72)):
            with self.subTest(limit):
                self.useFixture(fixtures.MockPatchObject(fleet_results, "MAX_TRIALS", limit))
                measured, judged = fleet_results.collect(
                    self.store, self.run_id, [], 0.15, "complete"
                )
                self.assertEqual((count, "PASS"), (len(measured.trials), judged.whole))
                self.assertEqual(144 - count or None, measured.environment.trials_left_out)

    def test_results_say_what_work_the_guests_did(self):
        controller = self.begin(6)
        whole = self.launcher.measured

        def measured(pair, *rest):
            outcome = whole(pair, *rest)
            outcome.ran("iperf3", "tuned", {"version": "iperf 3.12"})
            return outcome

        self.launcher.measured = measured
        controller.run()
        results, _judged = fleet_results.collect(self.store, self.run_id, [], 0.15, "complete")
        recorded = results.environment.benchmarks["iperf3"]
        self.assertEqual({"tuned": [{"version": "iperf 3.12"}]}, recorded.workloads)

    def test_what_results_leave_out_is_counted(self):
        controller = self.begin(6)
        controller.run()
        outcomes = list(self.store.outcomes(self.run_id))
        for number, outcome in outcomes:
            outcome.host_cpu_faults = {f"agent {number}": "no answer"}
            outcome.trials[0].course = samples.course()
        self.useFixture(fixtures.MockPatchObject(self.store, "outcomes", return_value=outcomes))
        for name, limit in (("_MAX_CPU_FAULTS", 2), ("_MAX_COURSES", 1)):
            self.useFixture(fixtures.MockPatchObject(fleet_results, name, limit))
        measured, _judged = fleet_results.collect(self.store, self.run_id, [], 0.15, "complete")
        environment = measured.environment
        self.assertEqual(2, len(environment.host_cpu_faults))
        self.assertEqual(len(outcomes) - 2, environment.host_cpu_faults_left_out)
        self.assertEqual(len(outcomes), environment.courses_left_out)

    def test_a_stored_trial_that_results_cannot_hold_is_left_out(self):
        """It would make the results of all hosts unreadable."""
        self.begin(6).run()
        outcomes = list(self.store.outcomes(self.run_id))
        for trial in outcomes[0][1].trials[:2]:
            trial.window_s = 0.0
        bad = outcomes[0][1].trials[0]
        self.useFixture(fixtures.MockPatchObject(self.store, "outcomes", return_value=outcomes))
        measured, _judged = fleet_results.collect(self.store, self.run_id, [], 0.15, "complete")
        path = f"{self.directory}/results.json"
        results_file.save(measured, path)
        read = results_file.load(path)
        self.assertEqual(142, len(read.trials))
        self.assertIsNone(read.environment.trials_left_out)
        [incident, *_more] = read.environment.errors
        self.assertIn("a trial is left out: window_s: 0.0 is less", incident.error)
        self.assertEqual(
            (outcomes[0][0], bad.arm, bad.benchmark),
            (incident.boot, incident.arm, incident.benchmark),
        )

    def test_time_limit(self):
        controller = self.begin(20, max_parallel=2, time_limit_s=1500.0)
        self.assertEqual("time limit", controller.run())
        states = self.states()
        self.assertTrue(states["done"] and states["planned"], states)
        self.check_consistent()

    def test_a_launcher_that_breaks_is_a_fault_of_the_pair(self):
        controller = self.begin(6, retries=0)
        self.first(lambda pair: 1 / 0 if "h001" in pair.hosts else None)
        self.assertEqual("complete", controller.run())
        [first, *_] = self.faults()
        self.assertIn("internal error, please report: ZeroDivisionError", first.reason)

    def test_what_concerns_the_whole_cloud_ends_the_run(self):
        controller = self.begin(12)

        def refused(_pair):
            if self.ended() >= 3:
                raise errors.CloudError("Keystone: the credentials are not valid any more")

        self.first(refused)
        error = self.assertRaises(errors.CloudError, controller.run)
        self.assertIn("not valid any more", str(error))
        self.assertTrue(self.states()["done"] >= 3)
        self.check_consistent()
        again = self.fleet_run(self.store.claim(self.run_id))
        self.assertEqual("complete", again.run())
        self.check_consistent()

    def test_stacks_that_cannot_be_removed_are_remembered(self):
        controller = self.begin(4)
        failed = errors.CloudError("stack nova-perf-x: DELETE_FAILED")
        self.launcher.cleanup = mock.Mock(side_effect=failed)
        self.assertEqual("complete", controller.run())
        self.assertTrue(controller.unclean)
        self.assertTrue(self.store.lines()[0].leftovers)
        self.assertIn(
            "stacks may be left: stack nova-perf-x: DELETE_FAILED", self.progress[-1].text
        )

    def test_a_run_that_another_process_took_over_is_left_to_it(self):
        """While pairs are measured, and while the last stacks are removed."""
        for when in ("pair", "sweep"):
            with self.subTest(when):
                controller = self.begin(12, peers=3)
                slept, stacks = self.launcher, self.launcher._stacks
                other = run_store.RunStore(f"sqlite:///{self.directory}/results.db")
                self.addCleanup(other.close)
                taken = []

                def take_over(other=other, taken=taken):
                    with mock.patch.object(owner.RunOwner, "is_alive", lambda *_: False):
                        taken.append(other.claim(self.run_id))

                def sweep(_run_id, slept=slept, take_over=take_over):
                    take_over()
                    return type(slept).cleanup(slept, _run_id)

                if when == "pair":
                    self.first(
                        lambda _pair, act=take_over, taken=taken: (
                            act() if self.ended() >= 7 and not taken else None
                        )
                    )
                else:
                    slept.cleanup = sweep
                slept.make(f"{fleet_model.NAME_PREFIX}{self.run_id}-of-the-new-owner")
                error = self.assertRaises(run_store.TakenOverError, controller.run)
                self.assertIn(
                    f"run {self.run_id} was taken over: process {os.getpid()} on ", str(error)
                )
                self.assertFalse(controller.unclean)
                self.assertIn(f"{fleet_model.NAME_PREFIX}{self.run_id}-of-the-new-owner", stacks)
                [run] = taken
                self.assertEqual("running", other.load(self.run_id).state)
                self.store = other
                again = self.fleet_run(run)
                self.launcher._stacks = stacks
                self.launcher.cleanup()
                self.assertEqual("complete", again.run())
                self.assertEqual({"done": 18}, self.states())

    def test_pairs_that_do_not_stop_are_waited_for_once(self):
        controller = self.begin(4)
        self.launcher.measure = lambda *_: self.threads.sleep(1e6)
        self.launcher.interrupt = lambda: None
        started = self.threads.start

        def stop(*what):
            started(*what)
            kill(controller, signal.SIGTERM)

        self.threads.start = stop
        self.assertEqual("interrupted", controller.run())
        self.assertEqual(fleet_run.STOP_S, self.threads.now())
        self.assertTrue(controller.unclean)
        self.threads.wake_sleepers()

    def test_removal_ends_at_a_second_signal(self):
        """Stacks that stay are then remembered; the first signal alone ends no clean-up at the end."""
        self.useFixture(fixtures.MockPatchObject(fleet_run, "SECOND_S", 0.0))
        for signals in (1, 2):
            with self.subTest(signals):
                controller = self.begin(4)

                def cleanup(_run_id, signals=signals):
                    for _ in range(signals):
                        os.kill(os.getpid(), signal.SIGTERM)
                    return []

                self.launcher.cleanup = cleanup
                self.assertEqual("complete", controller.run())
                run = self.store.load(self.run_id)
                self.assertEqual((signals == 2, signals == 2), (controller.unclean, run.leftovers))
                self.assertEqual("complete", run.state)

    def test_signals_that_are_ignored_stay_so(self):
        """SIGHUP under nohup, SIGINT of a job in the background."""
        with contextlib.ExitStack() as put_back:
            for number in (signal.SIGHUP, signal.SIGINT):
                put_back.callback(signal.signal, number, signal.signal(number, signal.SIG_IGN))
            controller = self.begin(4)

            def interrupt(_pair):
                for number in (signal.SIGHUP, signal.SIGINT):
                    os.kill(os.getpid(), number)

            self.first(interrupt)
            self.assertEqual("complete", controller.run())
            self.assertEqual(0, controller.stopped_by)
            self.assertIs(signal.SIG_IGN, signal.getsignal(signal.SIGHUP))

    def test_ctrl_c_and_resume(self):
        """Also where it has ended the reader of the progress, too: nothing is left, and the run is not lost."""
        broken = BrokenPipeError("gone")
        for number, gone in (
            (signal.SIGINT, None),
            (signal.SIGTERM, None),
            (signal.SIGINT, broken),
        ):
            with self.subTest(number):
                self.progress = mock.Mock(**{"append.side_effect": gone})
                controller = self.begin(16, peers=3)
                self.launcher.make(f"{fleet_model.NAME_PREFIX}{self.run_id}-left")

                def stop(_pair, controller=controller, number=number):
                    if self.ended() >= 7 and not controller.stopped_by:
                        kill(controller, number)

                self.first(stop)
                self.assertEqual("interrupted", controller.run())
                self.assertEqual(number, controller.stopped_by)
                before = self.states()
                self.assertTrue(before["done"] >= 7 and before["planned"] > 5, before)
                self.assertEqual(24, before["done"] + before["planned"])
                self.check_consistent()
                run = self.store.load(self.run_id)
                self.assertEqual(("interrupted", False), (run.state, run.leftovers))
                done = {task.pair for task in run.tasks if task.state == "done"}
                again = self.fleet_run(self.store.claim(self.run_id))
                self.assertEqual("complete", again.run())
                self.assertEqual({"done": 24}, self.states())
                self.assertEqual(
                    set(), done & {pair for _, pair, _ in self.launcher.log}, "measured twice"
                )
                self.check_consistent()
