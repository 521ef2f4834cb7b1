"""nova-perf validate on this host alone (an A/A run): files, exit codes, Ctrl-C, mistakes."""

import argparse
import io
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import fixtures
import testtools

from nova_perf_tuning.budget import local, session, store, timetable
from nova_perf_tuning.cli import validate, validate_checks
from tests.unit.budget import samples
from tests.unit.cli import test_bench

QUICK = ("--launcher", "host", "--benchmark", "cpu", "--groups", "1", "--blocks", "1", "--seconds", "1")


class ValidateTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.output = os.path.join(self.folder, "out")
        self.temporary = os.path.join(self.folder, "tmp")
        os.mkdir(self.temporary)
        self.environment = {**os.environ, "TMPDIR": self.temporary}

    def validate(self, *arguments):
        return test_bench.nova_perf("validate", "--output", self.output, *arguments, env=self.environment)

    def check_clean(self):
        self.assertEqual([], os.listdir(self.temporary))
        self.assertEqual(["report.html", "results.json"], sorted(os.listdir(self.output)))

    def test_short_run(self):
        done = self.validate(*QUICK, "--seed", "7")
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        results = store.load(os.path.join(self.output, "results.json"))
        self.assertEqual(["host", "tuned", "untuned"], sorted(one.arm for one in results.trials if one.primary))
        self.assertEqual(7, results.environment["seed"])
        self.assertIn("an A/A run", done.stdout)
        self.assertIn("block 1/1: cpu on", done.stdout)
        self.check_clean()

    def test_budget_and_json(self):
        budget = os.path.join(self.folder, "budget.yaml")
        with open(budget, "w", encoding="utf-8") as file:
            file.write("budgets: [{benchmark: cpu, arm: tuned, max_loss: 0.5, accelerator: kvm}]")
        done = self.validate(*QUICK, "--budget", budget, "-f", "json")
        self.assertEqual(3, done.returncode)
        found = json.loads(done.stdout)
        self.assertEqual("INVALID", found["verdict"])
        self.assertEqual(["guests ran on none, the budget is for kvm"], found["judgements"][0]["reasons"])
        self.check_clean()

    def test_ctrl_c_keeps_what_there_is(self):
        program = [sys.executable, "-m", "nova_perf_tuning.cli.main", "validate", "--output", self.output]
        running = subprocess.Popen(
            [*program, *QUICK, "--blocks", "100", "--time-limit", "5m"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.kill)
        path = os.path.join(self.output, "results.json")
        until = time.monotonic() + 600
        while not os.path.exists(path) and time.monotonic() < until:
            time.sleep(0.05)
        running.send_signal(signal.SIGINT)
        shown, complaints = running.communicate(timeout=600)
        self.assertEqual(130, running.returncode, complaints)
        self.assertIn("fewer trials", shown)
        self.assertNotIn("fewer trials", complaints)
        self.assertIn("interrupted; guests are removed, results so far are kept", complaints)
        results = store.load(path)
        self.assertEqual("interrupted", results.environment["ended"])
        self.assertTrue(len(results.trials) >= 3)
        self.check_clean()

    def test_stopped_before_the_first_trial(self):
        """The last line says so, and neither results nor a report without a trial are left."""
        program = [sys.executable, "-m", "nova_perf_tuning.cli.main", "validate", "--output", self.output, *QUICK]
        program += ["--seconds", "600", "--time-limit", "24h"]
        for number, word in ((signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated")):
            with subprocess.Popen(
                program, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=self.environment
            ) as running:
                self.addCleanup(running.kill)
                self.assertIn("preparing", running.stdout.readline())  # the warm-up follows, minutes long
                running.send_signal(number)
                shown, complaints = running.communicate(timeout=600)
            self.assertEqual(128 + number, running.returncode, complaints)
            self.assertEqual(
                f"nova-perf validate: {word}; nothing was measured, no guest is left and no file written\n",
                complaints,
            )
            self.assertNotIn("results:", shown)
            self.assertEqual([], os.listdir(self.output))
            self.assertEqual([], os.listdir(self.temporary))

    def test_the_default_plan_fits_its_own_limit(self):
        for options in ((), ("--budget", "default")):
            args = validate.Validate(None, None).get_parser("validate").parse_args(options)
            plan = validate._plan(args, 2)
            one = session.Session(local.LocalLauncher(self.folder), plan, lambda _: None)
            self.assertTrue(one.expected_s() + 2 * timetable.CLOSING_S < plan.time_limit_s, one.expected_s())

    def test_a_bar_on_a_terminal(self):
        """On a terminal progress is drawn in place: bar, count and time left."""
        master, slave = pty.openpty()
        self.addCleanup(os.close, master)
        program = [sys.executable, "-m", "nova_perf_tuning.cli.main", "validate", "--output", self.output, *QUICK]
        environment = {**self.environment, "TERM": "xterm", "COLUMNS": "120"}
        with subprocess.Popen(program, stdout=slave, stderr=slave, env=environment) as running:
            os.close(slave)
            seen = b""
            while select.select([master], [], [], 600)[0]:
                try:
                    seen += os.read(master, 65536)
                except OSError:  # the other end is closed
                    break
        self.assertEqual(0, running.returncode)
        self.assertIn("left", seen.decode())
        self.assertIn("cpu on", seen.decode())
        self.assertIn("\x1b[", seen.decode())

    def test_budgets_that_judge_nothing_are_refused(self):
        """Before the run; what applies no more when the accelerator is known is no PASS either."""
        budget = os.path.join(self.folder, "budget.yaml")
        for text, told in (
            ("{benchmark: cpu, arm: tuned, max_loss: 0.5, host_group: elsewhere}", "none is for host_group ''"),
            ("{benchmark: fio, arm: tuned, max_loss: 0.5, optional: true}", "all are optional"),
        ):
            with open(budget, "w", encoding="utf-8") as stream:
                stream.write(f"budgets: [{text}]")
            done = self.validate(*QUICK, "--budget", budget)
            self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr)
            self.assertIn("no budget applies: " + told, done.stderr)
        self.assertFalse(os.path.exists(self.output), "what is refused leaves nothing behind")
        with open(budget, "w", encoding="utf-8") as stream:
            stream.write(
                "budgets: [{benchmark: cpu, arm: tuned, max_loss: 0.5, accelerator: kvm, optional: true}]"
            )
        done = self.validate(*QUICK, "--budget", budget)
        self.assertEqual((3, ""), (done.returncode, done.stderr), done.stdout)
        self.assertIn("no budget applies: guests ran on none, budgets are for kvm", done.stdout)

    def test_a_noise_file_is_checked_before_the_run(self):
        junk, plain = os.path.join(self.folder, "junk.json"), os.path.join(self.folder, "plain")
        for path in (junk, plain):
            with open(path, "w", encoding="ascii") as stream:
                stream.write("x")
        for path, more, told in (
            (junk, (), "junk.json: no JSON"),
            (junk, ("--noise-floor",), "junk.json: no JSON"),
            (os.path.join(self.folder, "missing.json"), (), "no such file"),
            (os.path.join(plain, "x.json"), ("--noise-floor",), "noise floors cannot be kept there"),
            (self.folder, ("--noise-floor",), "not a regular file"),
        ):
            done = self.validate(*QUICK, "--noise-file", path, *more)
            self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr)
            self.assertIn(told, done.stderr)

    def test_a_noise_file_that_goes_bad_meanwhile(self):
        """It is read once, before the run."""
        path, results = os.path.join(self.folder, "noise.json"), os.path.join(self.output, "results.json")
        with open(path, "w", encoding="ascii") as stream:
            stream.write('{"schema": 1, "floors": []}')
        program = [sys.executable, "-m", "nova_perf_tuning.cli.main", "validate", "--output", self.output]
        running = subprocess.Popen(
            [*program, *QUICK, "--blocks", "2", "--noise-file", path],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self.environment,
        )
        self.addCleanup(running.kill)
        until = time.monotonic() + 600
        while not os.path.exists(results) and time.monotonic() < until:
            time.sleep(0.1)
        with open(path, "w", encoding="ascii") as stream:
            stream.write("x")
        out, err = running.communicate(timeout=600)
        self.assertEqual((0, ""), (running.returncode, err), out)
        self.assertEqual(2, len({one.block for one in store.load(results).trials}))
        self.check_clean()

    def finish(self, *arguments, spoil):
        """Return the exit code, stdout and stderr of a measured run whose files went bad meanwhile."""
        options = ("--groups", "2", "--blocks", "4", "--seconds", "1", "--launcher", "host", "--benchmark", "cpu")
        args = (
            validate.Validate(None, None)
            .get_parser("validate")
            .parse_args([*options, *arguments, "--output", self.output])
        )
        os.makedirs(self.output, exist_ok=True)
        plan = validate._plan(args, 2)
        run = validate._Run(args, plan, local.LocalLauncher(self.folder), [], self.output, [])
        os.mkdir(spoil)
        results = samples.results({"untuned": 100.0, "again": 100.0}, groups=4, blocks=4)
        out, err = io.StringIO(), io.StringIO()
        with fixtures.MonkeyPatch("sys.stdout", out), fixtures.MonkeyPatch("sys.stderr", err):
            code = run._finish(results)
        return code, out.getvalue(), err.getvalue()

    def test_what_fails_after_the_run_is_told_last(self):
        """The report and the table are there all the same."""
        noise_file, database = os.path.join(self.folder, "noise.json"), os.path.join(self.folder, "runs.db")
        for arguments, bad in (
            (("--noise-floor", "--noise-file", noise_file), noise_file),
            (("--history", "--database", f"sqlite:///{database}"), database),
            (("--csv", f"{noise_file}.csv"), f"{noise_file}.csv"),
        ):
            code, out, err = self.finish(*arguments, spoil=bad)
            self.assertEqual((3, 1), (code, err.count("\n")), err)
            self.assertIn(os.path.basename(bad), err)
            self.assertIn("report: ", out)
            self.assertEqual(["report.html"], os.listdir(self.output))

    def test_the_database_is_opened_before_the_run(self):
        done = self.validate(*QUICK, "--history", "--database", f"sqlite:///{self.folder}")
        self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr)
        self.assertIn("database sqlite", done.stderr)

    def test_what_budgets_are_chosen_by(self):
        """The flavor is one text here, as results have it."""
        given = argparse.Namespace(launcher="libvirt", host_group=None, flavor=["m1"])
        self.assertEqual({"flavor": "m1"}, validate_checks.told_of_host(given))
        given = argparse.Namespace(launcher="host", host_group="gen3", flavor=[])
        self.assertEqual({"host_group": "gen3"}, validate_checks.told_of_host(given))

    def test_a_noise_file_without_a_floor_for_the_run_is_told(self):
        budget, noise_file = (os.path.join(self.folder, name) for name in ("budget.yaml", "noise.json"))
        with open(budget, "w", encoding="utf-8") as file:
            file.write("budgets: [{benchmark: cpu, arm: tuned, max_loss: 0.5}]")
        with open(noise_file, "w", encoding="utf-8") as file:
            json.dump({"schema": 1, "floors": []}, file)
        # A busy machine would take minutes more to decide.
        done = self.validate(*QUICK, "--time-limit", "20s", "--budget", budget, "--noise-file", noise_file)
        self.assertIn("it has no noise floor for this host and these benchmarks", done.stderr)

    def test_mistakes_are_one_line_and_exit_3(self):
        file = os.path.join(self.folder, "file")
        budget = os.path.join(self.folder, "budget.yaml")
        with open(budget, "w", encoding="utf-8") as stream:
            stream.write("budgets: [{benchmark: fio, arm: tuned, max_loss: 0.5}]")
        with open(file, "w", encoding="utf-8"):
            pass
        for arguments, told in (
            (("--benchmark", "linpack"), "there is no benchmark 'linpack'"),
            (("--benchmark", "cpu:threads=x"), "threads='x'"),
            (("--launcher", "cloud"), "there is no launcher 'cloud'"),
            (("--time-limit", "5"), "--time-limit '5'"),
            (("--time-limit", "soon"), "--time-limit 'soon'"),
            (("--groups", "0"), "--groups '0'"),
            (("--blocks", "-1"), "--blocks '-1'"),
            (("--seed", "x"), "--seed 'x'"),
            (("--profile", "fastest"), "fastest"),
            (("--spec", "perf:vif_queues=0"), "perf:vif_queues"),
            (("--spec", "perf:vif_queues=99"), "perf:vif_queues=99 is more than the 2 vCPUs"),
            (("--profile", "balanced", "--spec", "perf:profile=compute"), "different profiles"),
            (("--launcher", "host", "--profile", "balanced"), "tunes nothing"),
            (("--launcher", "host", "--flavor", "m1"), "--flavor: launcher 'host' has no guests of a flavor"),
            (("--flavor", "m1", "--flavor", "m2"), "--flavor: on this host one run is judged for one flavor"),
            (("--output", os.path.join(file, "x")), "Not a directory"),
            (("--budget", file), "the document"),
            (("--benchmark", "cpu", "--budget", budget), "benchmark 'fio' is not in this run, which has cpu"),
        ):
            done = self.validate(*arguments)
            self.assertEqual((3, ""), (done.returncode, done.stdout), arguments)
            self.assertIn(told, done.stderr)
            self.assertEqual(1, done.stderr.count("\n"), done.stderr)
