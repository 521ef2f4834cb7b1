# SPDX-License-Identifier: Apache-2.0
"""Sessions with real programs on this host: order, errors, time limit, what is kept when they end early."""

import dataclasses
import json
import os
import time

from nova_perf_tuning import atomic_write
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import collectors, results_file, session
from nova_perf_tuning.validation.measure import trial as trial_module
from tests.support import directories, samples

ARMS = tuple(launch.Arm(name, request.Request()) for name in ("untuned", "tuned"))


class RefusingLauncher(local.LocalLauncher):
    """This host, but some arms cannot be booted, as guests sometimes cannot."""

    def __init__(self, directory, refused):
        super().__init__(directory)
        self.refused = refused

    def boot(self, arm):
        if arm.name in self.refused:
            raise launch.LaunchError(f"guest {arm.name}: \x1b[31mpanic")
        return super().boot(arm)


class LosingLauncher(local.LocalLauncher):
    """This host, whose machines are lost when they are to measure."""

    def boot(self, arm):
        pair = super().boot(arm)
        pair.client.run = self.lose
        return pair

    @staticmethod
    def lose(*_arguments):
        raise launch.LaunchError("the guest does not answer")


class Serverless(samples.Paired):
    """A benchmark whose server cannot be started."""

    def steps(self, parameters, peer=None):
        server, client = super().steps(parameters, peer)
        return [dataclasses.replace(server, argv=("false",)), client]


class SessionTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.directory, "results.json")
        self.saves = 0

    def save(self, results):
        self.saves += 1
        results_file.save(results, self.path)

    def make(self, *jobs, launcher=None, tell=lambda _: None, **changes):
        fields = {"boots": 2, "blocks": 3, "seed": 5, "time_limit_s": 120.0, **changes}
        # Each run has work of its own: on a coarse clock two that end at once are equal else, like copies.
        plan = session.SessionPlan(ARMS, jobs or (samples.job("echo 40 2.$$"),), **fields)
        self.launcher = launcher or local.LocalLauncher(str(self.directory))
        return session.Session(self.launcher, plan, self.save, tell)

    def run_session(self, *jobs, **changes):
        running = self.make(*jobs, **changes)
        with self.launcher:
            running.run()
        self.assertEqual(
            ["results.json"], os.listdir(self.directory), "the launcher left something"
        )
        loaded = results_file.load(self.path)
        self.assertEqual(running.results, loaded)
        return loaded

    def order(self, results):
        """Return boot -> block -> arms in the order of time."""
        found = {}
        for trial in results.trials:
            if trial.primary:
                found.setdefault(trial.boot, {}).setdefault(trial.block, []).append(trial.arm)
        return found

    def test_every_arm_once_per_block_and_every_second_block_mirrored(self):
        found = self.order(self.run_session(blocks=4))
        self.assertEqual([0, 1], list(found))
        for blocks in found.values():
            self.assertEqual([0, 1, 2, 3], list(blocks))
            for arms in blocks.values():
                self.assertEqual(["host", "tuned", "untuned"], sorted(arms))
            self.assertEqual((blocks[0][::-1], blocks[2][::-1]), (blocks[1], blocks[3]))

    def test_the_seed_is_the_order(self):
        first, again = (self.order(self.run_session(boots=1)) for _ in range(2))
        self.assertEqual(first, again)
        self.assertNotEqual(first[0], self.order(self.run_session(seed=1, boots=1))[0])

    def test_what_a_trial_carries(self):
        results = self.run_session(samples.job())
        primary = [trial for trial in results.trials if trial.primary]
        self.assertEqual(18, len(primary))
        for trial in primary:
            self.assertEqual(
                ("quick", "speed", 40.0), (trial.benchmark, trial.metric, trial.value)
            )
            self.assertEqual((2.0, "steps"), (trial.work, trial.work_unit))
            self.assertTrue(trial.window_s > 0)
            self.assertTrue(trial.host_cpu_s["total"] >= 0)
        beside = [trial for trial in results.trials if not trial.primary]
        self.assertEqual({"twice"}, {trial.metric for trial in beside})
        self.assertTrue(all(trial.course["host_cpu"]["total"] for trial in primary))
        self.assertEqual([None] * len(beside), [trial.course for trial in beside], "one is enough")
        self.assertEqual([trial.order for trial in primary], [trial.order for trial in beside])
        self.assertEqual("complete", results.environment.ended)
        self.assertEqual((5, 2), (results.environment.seed, results.environment.boots_run))
        self.assertEqual({"untuned", "tuned"}, set(results.environment.arms))

    def test_tools_watch_every_trial_and_mark_it(self):
        output = self.enterContext(atomic_write.open_directory(str(self.directory)))
        attached = collectors.Attachment((collectors.Interrupts,), output)
        running = self.make(
            samples.job("echo 40 2; sleep 0.1"), boots=1, blocks=2, attached=attached
        )
        with self.launcher:
            running.run()
        self.assertEqual(
            {("interrupts",)},
            {tuple(trial.collectors) for trial in results_file.load(self.path).trials},
        )
        files = sorted((self.directory / "collected").iterdir())
        self.assertEqual(
            [f"{order:05d}-interrupts.json" for order in range(6)], [path.name for path in files]
        )
        for path in files:
            served = json.loads(path.read_text())["data"]["softirqs"]
            self.assertTrue(all(served["cpus"].values()) for served in served)

    def test_guests_are_warmed_up_in_every_boot_and_the_host_once(self):
        said = []
        self.run_session(blocks=1, tell=lambda what: said.append(what.text))
        warmed = [text.partition(" on ")[2] for text in said if "warm-up" in text]
        self.assertEqual(
            {"host": 1, "untuned": 2, "tuned": 2}, {arm: warmed.count(arm) for arm in set(warmed)}
        )

    def test_one_arm_that_does_not_boot(self):
        results = self.run_session(launcher=RefusingLauncher(str(self.directory), {"tuned"}))
        self.assertEqual({"host", "untuned"}, {trial.arm for trial in results.trials})
        noted = results.environment.errors
        self.assertEqual(
            [(0, "tuned"), (1, "tuned")], [(incident.boot, incident.arm) for incident in noted]
        )
        self.assertEqual(("boot", "guest tuned: ?[31mpanic"), (noted[0].code, noted[0].error))

    def test_trials_that_fail_say_why(self):
        """Once more for each boot, in the warm-up: it is noted, and the trials are tried all the same."""
        for job, launcher, expected in (
            (samples.job("echo none"), local.LocalLauncher, {"output"}),
            (samples.job(kind=Serverless), local.LocalLauncher, {"server"}),
            (samples.job(), LosingLauncher, {"not_run"}),
        ):
            with self.subTest(expected):
                results = self.run_session(
                    job, launcher=launcher(str(self.directory)), boots=1, blocks=1
                )
                guests = [trial for trial in results.trials if trial.arm == "tuned"]
                self.assertEqual(expected, {trial.failure for trial in guests})
                warmed = [
                    incident.code
                    for incident in results.environment.errors
                    if incident.arm == "tuned"
                ]
                self.assertEqual(["warm_up"], warmed)

    def test_a_machine_that_is_lost(self):
        with LosingLauncher(str(self.directory)) as launcher:
            pair = launcher.boot(ARMS[0])
            outcome = trial_module.run(samples.job(), pair, 60.0)
        self.assertEqual(("machine", True), (outcome.trial.failure, outcome.lost))

    def test_no_arm_boots(self):
        running = self.make(launcher=RefusingLauncher(str(self.directory), {"tuned", "untuned"}))
        with self.launcher:
            self.assertRaises(launch.LaunchError, running.run)
        self.assertEqual("error", running.results.environment.ended)
        self.assertEqual([], os.listdir(self.directory), "results without a trial")

    def test_time_limit_keeps_every_boot(self):
        """A thousand blocks do not fit: that is said, each boot gets its share, and the run ends in time."""
        begun, output = time.monotonic(), []
        results = self.run_session(
            samples.job("sleep 0.05; echo 40 2"), blocks=1000, time_limit_s=9.0, tell=output.append
        )
        # All blocks would take minutes.
        self.assertTrue(time.monotonic() - begun < 60)
        self.assertEqual(2, results.environment.boots_run)
        self.assertEqual("time limit", results.environment.ended)
        self.assertEqual("time_limit", results.environment.errors[0].code)
        places = [place for place, now in enumerate(output) if now.important]
        self.assertEqual(
            (3, 1), (len(places), places[0]), "before the first boot, and for each boot"
        )

    def test_interrupted_run_keeps_its_finished_trials(self):
        def tell(now):
            if "block 2/3" in now.text:
                raise KeyboardInterrupt

        running = self.make(tell=tell)
        with self.launcher:
            self.assertRaises(KeyboardInterrupt, running.run)
        results = results_file.load(self.path)
        self.assertEqual("interrupted", results.environment.ended)
        self.assertEqual(3, sum(trial.primary for trial in results.trials))
        self.assertEqual(["results.json"], os.listdir(self.directory))

    def test_one_look_at_half_of_the_boots_may_end_it(self):
        for answer, run in ((True, 6), (False, 3)):
            with self.subTest(answer):
                looks = []

                def more(results, looks=looks, answer=answer):
                    looks.append(len({trial.boot for trial in results.trials}))
                    return answer

                running = self.make(boots=6, blocks=1)
                with self.launcher:
                    running.run(more)
                self.assertEqual([3], looks)
                self.assertEqual(run, running.results.environment.boots_run)
                self.assertEqual([3], running.results.environment.looks)
                self.assertEqual("complete", running.results.environment.ended)

    def test_progress_counts_up_to_its_total(self):
        output = []
        self.run_session(tell=output.append)
        done = [now.done for now in output]
        self.assertEqual(sorted(done), done)
        self.assertEqual((24, 23), (output[-1].total, output[-1].done))
        self.assertTrue(all(0 <= now.left_s <= 120 for now in output))


class Spanned(samples.Quick):
    """A program that measures for 0.8 s and ends."""

    def span(self, output):
        return bench.Span(0.8)


class TrialTest(directories.DirectoryCase):
    def run_trial(self, kind):
        burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"
        with local.LocalLauncher(str(self.directory)) as launcher:
            job = samples.job(f"{burn}; sleep 1; echo 40 2", kind)
            outcome = trial_module.run(job, launcher.host_pair(), 60.0)
        self.assertTrue(outcome.readings, outcome.trial.error)
        return outcome.trial

    def test_start_is_not_counted(self):
        spanned, whole = self.run_trial(Spanned), self.run_trial(samples.Quick)
        self.assertEqual(("measuring", "program"), (spanned.window, whole.window))
        self.assertTrue(whole.host_cpu_s["total"] > 0.05, whole)
        self.assertTrue(
            spanned.host_cpu_s["total"] < whole.host_cpu_s["total"] / 3, (spanned, whole)
        )
        self.assertTrue(spanned.window_s < spanned.exec_s)
