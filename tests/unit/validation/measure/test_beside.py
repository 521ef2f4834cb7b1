# SPDX-License-Identifier: Apache-2.0
"""A load beside a latency benchmark: it runs in the whole window, is named in results, and leaves nothing."""

import contextlib
import dataclasses
import os
import pathlib

from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.bench import base as bench
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.launch import local
from nova_perf_tuning.validation.measure import host_environment, session, trial
from nova_perf_tuning.validation.results import model
from tests.support import directories, program, samples, testcase

TOP = pathlib.Path(__file__).parents[4]
#: Prints 40 and 1 if the load has begun to count.
SEEN = "test -s ../load && echo 40 1 || echo 40 0"


class Counting(samples.Quick):
    """A load that leaves a mark and runs until it is killed; ``script`` makes it end early."""

    kind = "counting"
    defaults = {"script": "echo x > ../load; exec sleep 600"}


class Late(samples.Quick):
    """A benchmark of latencies."""

    latency = True


def loaded(script=Counting.defaults["script"], measured=SEEN):
    job = plugins.Job("late", Late(), {"script": measured})
    load = plugins.Job("counting:a=1", Counting(), {"script": script})
    return dataclasses.replace(job, beside=(load,))


class LoadTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.launcher = local.LocalLauncher(str(self.directory))
        self.addCleanup(self.launcher.close)
        self.launcher.prepare()

    def run_job(self, job):
        return trial.run(job, self.launcher.host_pair(), 60.0)

    def test_it_runs_while_the_benchmark_does(self):
        outcome = self.run_job(loaded())
        steps = {reading.metric: reading.value for reading in outcome.readings}["steps"]
        self.assertEqual((1.0, "counting:a=1"), (steps, outcome.workload["beside"]))

    def test_nothing_of_it_is_left(self):
        pid = os.path.join(self.directory, "pid")
        self.run_job(loaded(f"echo x > ../load; echo $$ > {pid}; exec sleep 600"))
        with open(pid, encoding="ascii") as file:
            number = int(file.read())
        self.assertFalse(os.path.exists(f"/proc/{number}"))

    def test_a_load_that_ends_early_is_a_failed_trial(self):
        for script in ("echo no room >&2; exit 1", "sleep 0.9"):
            with self.subTest(script):
                outcome = self.run_job(loaded(script, "sleep 1; echo 40 2"))
                self.assertEqual([], outcome.readings)
                self.assertEqual(model.TrialFailure.SERVER, outcome.trial.failure)
                self.assertIn("the load sh ended early", outcome.trial.error)

    def test_a_missing_program(self):
        client = self.launcher.host_pair().client
        with contextlib.ExitStack() as stack:
            absent = client.loading(("nova-perf-nothing",))
            self.assertRaises(launch.ProgramError, stack.enter_context, absent)

    def test_results_name_it_and_count_no_work(self):
        """The CPU of a unit of work would be that of the load too."""
        self.patch(host_environment, "idle_softirq", lambda: 0.0)
        arms = (launch.Arm("untuned", request.Request()),)
        plan = session.SessionPlan(arms, (loaded(),), 1, 1, 0, 600.0, with_host=False)
        running = session.Session(self.launcher, plan, lambda _results: None)
        results = running.run()
        recorded = results.environment.benchmarks["late"]
        self.assertEqual("counting:a=1", recorded.parameters["beside"])
        self.assertEqual([{"beside": "counting:a=1"}], recorded.workloads["untuned"])
        self.assertEqual(2, len(recorded.commands))
        self.assertEqual({None}, {row.work for row in results.trials})


class OptionTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        [self.job] = plugins.jobs(["cyclictest"], 5)

    def test_loads_have_the_parameters_of_the_benchmarks(self):
        found = plugins.beside(self.job, ["cpu", "iperf3:streams=2"], 6)
        self.assertEqual("cpu:threads=6 and iperf3:streams=2", found.loads)
        cpu, iperf3 = found.beside
        self.assertEqual("6", cpu.parameters["threads"])
        self.assertEqual("2", iperf3.parameters["streams"])
        self.assertEqual({"3600"}, {load.parameters["seconds"] for load in found.beside})
        programs, _memory, _scratch = plugins.needs([found])
        self.assertEqual({"cyclictest", "sysbench", "iperf3"}, programs)
        self.assertNotIn("beside", self.job.recorded_parameters)

    def test_help_and_refusal_name_all_that_can_have_a_load(self):
        known = {benchmark.kind for benchmark in plugins.load_all() if benchmark.latency}
        self.assertEqual({"cyclictest", "oslat", "timerlat"}, known)
        [fio] = plugins.jobs(["fio"])
        refused = str(self.assertRaises(bench.ParameterError, plugins.beside, fio, ["cpu"], 2))
        texts = [refused]
        for command in (("validate",), ("bench", "run")):
            texts.append(program.nova_perf(*command, "--help").stdout)
        texts.append(
            (TOP / "doc/source/admin/benchmarks.rst").read_text().partition("``--beside`` runs")[2]
        )
        for text in texts:
            for kind in known:
                self.assertIn(kind, text)

    def test_what_is_no_load_or_cannot_have_one(self):
        for texts in (["fio"], ["cpu", "cpu:threads=1"], ["cpu:seconds=3"], ["cpu:threads=x"]):
            with self.subTest(texts):
                self.assertRaises(bench.ParameterError, plugins.beside, self.job, texts, 2)
        for text in ("fio", "iperf3", "cyclictest:seconds=3600"):
            with self.subTest(text):
                [job] = plugins.jobs([text])
                self.assertRaises(bench.ParameterError, plugins.beside, job, ["cpu"], 2)
