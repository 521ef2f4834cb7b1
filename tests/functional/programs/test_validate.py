# SPDX-License-Identifier: Apache-2.0
"""nova-perf validate on this host alone (an A/A run): files, exit codes, Ctrl-C, mistakes."""

import io
import json
import os
import shutil
import signal
import subprocess
from unittest import mock

import fixtures

from nova_perf_tuning.cli import validate
from nova_perf_tuning.cli.options import validate as validate_options
from nova_perf_tuning.validation.launch import local, registry
from nova_perf_tuning.validation.measure import host_environment, results_file, session
from tests.support import directories, lost_signals, patience, program, samples, testcase

QUICK = (
    "--launcher",
    "host",
    "--benchmark",
    "cpu",
    "--boots",
    "1",
    "--blocks",
    "1",
    "--seconds",
    "1",
)
#: In place of sysbench: it prints a rate at once, another one each time.
SYSBENCH = """#!/bin/sh
sleep 0.05
echo "CPU speed:"; echo "    events per second:  30$(date +%N | cut -c 1-4).87"; echo
echo "General statistics:"; echo "    total time:                          0.0500s"
echo "    total number of events:              15250"; echo; echo "Latency (ms):"
for name in min avg max; do echo "         $name:                                    0.32"; done
echo "         95th percentile:                        0.33"; echo "         sum:                  999.65"
"""


class ValidateTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.output = os.path.join(self.directory, "out")
        self.temporary = os.path.join(self.directory, "tmp")
        os.mkdir(self.temporary)
        os.chmod(self.write_file("bin/sysbench", SYSBENCH), 0o755)
        path = f"{self.directory}/bin:{os.environ['PATH']}"
        self.environment = {**os.environ, "TMPDIR": self.temporary, "PATH": path}
        self.useFixture(
            fixtures.MonkeyPatch(f"{host_environment.__name__}.idle_softirq", lambda: 0.0)
        )

    def budget(self, text):
        return self.write_file("budget.yaml", f"budgets: [{{{text}}}]")

    def validate(self, *arguments):
        return program.nova_perf(
            "validate", "--output", self.output, *arguments, env=self.environment
        )

    def started(self, *arguments):
        """Run it in a process of its own, for signals."""
        argv = [*program.COMMAND, "validate", "--output", self.output, *QUICK, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running = subprocess.Popen(argv, **pipes, text=True, env=self.environment)
        for stream in (running.stdout, running.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(running.kill)
        return running

    def check_clean(self):
        self.assertEqual([], os.listdir(self.temporary))
        self.assertEqual(["report.html", "results.json"], sorted(os.listdir(self.output)))

    def results(self):
        return results_file.load(os.path.join(self.output, "results.json"))

    def refused(self, words, *arguments):
        command = ("validate", "--output", self.output, *arguments)
        self.assertIn(words, program.refused(self, *command, env=self.environment))

    def test_short_run_measures_every_arm(self):
        done = self.validate(*QUICK)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        results = self.results()
        arms = sorted(trial.arm for trial in results.trials if trial.primary)
        self.assertEqual(["host", "tuned", "untuned"], arms)
        self.assertIn("an A/A run", done.stdout)
        self.assertIn("preparing the launcher", done.stdout)
        self.check_clean()

    def test_budget_and_json(self):
        budget = self.budget("benchmark: cpu, arm: tuned, max_loss: 0.5, accelerator: kvm")
        done = self.validate(*QUICK, "--budget", budget, "-f", "json")
        self.assertEqual(3, done.returncode)
        document = json.loads(done.stdout)
        self.assertEqual("INVALID", document["verdict"])
        self.assertEqual("other_accelerator", document["judgements"][0]["details"][0]["code"])
        self.check_clean()

    def test_ctrl_c_keeps_what_there_is(self):
        running = self.started("--blocks", "1000", "--time-limit", "20s")
        path = os.path.join(self.output, "results.json")
        patience.until(lambda: os.path.exists(path), "results of the first block")
        running.send_signal(signal.SIGINT)
        shown, complaints = running.communicate(timeout=600)
        self.assertEqual(130, running.returncode, complaints)
        self.assertIn("fewer trials", shown)
        self.assertIn("interrupted; guests are removed, results so far are kept", complaints)
        results = self.results()
        self.assertEqual("interrupted", results.environment.ended)
        self.assertTrue(len(results.trials) >= 3)
        self.check_clean()

    def test_ctrl_c_that_python_swallows(self):
        """It came in the callback of a weak reference; the run would go on to its end."""
        lost = self.useFixture(lost_signals.Swallowing())
        activate = local.LocalLauncher.activate
        calls = []

        def activate_and_send(launcher, arm):
            activate(launcher, arm)
            calls.append(arm)
            if len(calls) == 8:  # warm-ups of three arms, a block, and one trial more
                lost.send(signal.SIGINT)

        self.patch(local.LocalLauncher, "activate", activate_and_send)
        done = self.validate(*QUICK, "--blocks", "4")
        self.assertEqual((130, 8), (done.returncode, len(calls)), done.stderr)
        self.assertIn("interrupted; guests are removed, results so far are kept", done.stderr)
        self.assertEqual("interrupted", self.results().environment.ended)
        self.check_clean()

    def test_stopped_before_the_first_trial(self):
        """The last line says so, and neither results nor a report without a trial are left."""
        self.write_file("bin/sysbench", "#!/bin/sh\nsleep 600\n")
        for number, word in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")):
            with self.subTest(number):
                running = self.started("--seconds", "600", "--time-limit", "24h")
                self.assertIn(
                    "preparing", running.stdout.readline()
                )  # the warm-up follows, minutes long
                running.send_signal(number)
                shown, complaints = running.communicate(timeout=600)
                self.assertEqual(128 + number, running.returncode, complaints)
                expected = f"nova-perf validate: {word}; nothing was measured, no guest is left and no file written\n"
                self.assertEqual(expected, complaints)
                self.assertNotIn("results:", shown)
                self.assertEqual([], os.listdir(self.output))
                self.assertEqual([], os.listdir(self.temporary))

    def test_the_default_plan_fits_its_own_limit(self):
        for options in (("--flavor", "m1", "--host-group", "gen3"), ("--budget", "default")):
            with self.subTest(options):
                args = validate.Validate(None, None).get_parser("validate").parse_args(options)
                plan = validate.session_plan(args, 2)
                self.assertEqual(
                    ("", "") if args.budget else ("m1", "gen3"), (plan.flavor, plan.host_group)
                )
                # Warm-ups, counted in full, are short.
                measured_s = session.Timetable(plan).expected_s() * plan.blocks / (plan.blocks + 1)
                self.assertLess(measured_s + 2 * session.CLOSING_S, plan.time_limit_s)

    def test_budgets_that_judge_nothing_are_refused(self):
        """Before the run; what applies no more when the accelerator is known is no PASS either."""
        for text, words in (
            (
                "benchmark: cpu, arm: tuned, max_loss: 0.5, host_group: elsewhere",
                "none is for host_group ''",
            ),
            ("benchmark: fio, arm: tuned, max_loss: 0.5, optional: true", "all are optional"),
        ):
            self.refused("no budget applies: " + words, *QUICK, "--budget", self.budget(text))
        self.assertFalse(os.path.exists(self.output), "what is refused leaves nothing behind")
        budget = self.budget(
            "benchmark: cpu, arm: tuned, max_loss: 0.5, accelerator: kvm, optional: true"
        )
        done = self.validate(*QUICK, "--budget", budget)
        self.assertEqual((3, ""), (done.returncode, done.stderr), done.stdout)
        self.assertIn("accelerator 'none'", done.stdout)

    def test_the_file_of_noise_floors_is_checked_before_the_run(self):
        junk, plain = self.write_file("junk.json", "x"), self.write_file("plain", "x")
        for path, arguments, words in (
            (junk, (), "junk.json: no JSON"),
            (junk, ("--noise-floor",), "junk.json: no JSON"),
            (
                os.path.join(plain, "x.json"),
                ("--noise-floor",),
                "noise floors cannot be kept there",
            ),
            (str(self.directory), ("--noise-floor",), "not a regular file"),
        ):
            with self.subTest(path=path), mock.patch.object(validate, "NOISE_FILE", path):
                self.refused(words, *QUICK, *arguments)

    def test_what_fails_after_the_run_is_told_last(self):
        """The report and the table are there all the same."""
        noise_file = os.path.join(self.directory, "noise.json")
        self.enterContext(mock.patch.object(validate, "NOISE_FILE", noise_file))
        results = samples.results({"untuned": 100.0, "again": 100.0}, boots=4, blocks=4)

        def run(running, *_):
            running.results.trials += results.trials
            running.results.environment.ended = "complete"
            if os.path.isfile(broken[0]):
                os.unlink(broken[0])
            os.mkdir(broken[0])
            return running.results

        self.useFixture(
            fixtures.MonkeyPatch("nova_perf_tuning.validation.measure.session.Session.run", run)
        )
        broken = []
        for arguments, bad in (
            (("--junit", f"{noise_file}.xml"), f"{noise_file}.xml"),
            (("--noise-floor",), noise_file),
        ):
            with self.subTest(arguments):
                broken[:] = [bad]
                shutil.rmtree(self.output, ignore_errors=True)
                done = self.validate(*QUICK, *arguments)
                self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
                self.assertIn("report: ", done.stdout)
                self.assertEqual(["report.html"], os.listdir(self.output))

    def test_mistakes_are_one_line_and_exit_3(self):
        class Guests(local.LocalLauncher):
            vcpus = 2

        load = registry.load
        self.patch(registry, "load", lambda name: Guests() if name == "libvirt" else load(name))
        file = self.write_file("file", "")
        budget = self.budget("benchmark: fio, arm: tuned, max_loss: 0.5")
        for arguments, words in (
            (("--benchmark", "linpack"), "there is no benchmark 'linpack'"),
            (("--launcher", "cloud"), "--launcher: invalid choice: 'cloud'"),
            (("--time-limit", "5"), "--time-limit: '5'"),
            (("--blocks", "-1"), "--blocks: '-1'"),
            (("--profile", "fastest"), "fastest"),
            (("--spec", "perf:vif_queues=99"), "perf:vif_queues=99 is more than the 2 vCPUs"),
            (("--launcher", "host", "--profile", "balanced"), "tunes nothing"),
            (
                ("--launcher", "host", "--flavor", "m1"),
                "--flavor: launcher 'host' has no guests of a flavor",
            ),
            (("--output", os.path.join(file, "x")), "Not a directory"),
            (("--budget", file), "the document"),
            (
                ("--benchmark", "cpu", "--budget", budget),
                "benchmark 'fio' is not in this run, which has cpu",
            ),
        ):
            self.refused(words, *arguments)


class ProgressTest(testcase.TestCase):
    def test_few_lines_and_what_is_important(self):
        clock = iter(range(1000, 1009))
        out = io.StringIO()
        with (
            fixtures.MonkeyPatch(
                "nova_perf_tuning.cli.options.validate.time.monotonic", lambda: next(clock)
            ),
            fixtures.MonkeyPatch("sys.stdout", out),
        ):
            show = validate_options.progress(to_stderr=False)
            for done in range(9):
                show(session.Progress(done, 90, 356.0, f"trial {done}", done == 3))
        lines = out.getvalue().splitlines()
        self.assertEqual(["trial 0", "trial 3", "trial 8"], [line[-7:] for line in lines])
        self.assertEqual("[0/90] about 5:56 left  trial 0", lines[0])
