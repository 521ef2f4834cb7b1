# SPDX-License-Identifier: Apache-2.0
"""nova-perf evaluate: exit codes and lines for recorded samples."""

import contextlib
import dataclasses
import io
import json
import lzma
import os
import pathlib
import re

from nova_perf_tuning.cli import result_tables
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.results import environment
from tests.support import directories, program, samples

TOP = pathlib.Path(__file__).parents[3]


class ShownVerdictTest(directories.DirectoryCase):
    def test_pages_show_the_verdict_of_the_results_in_the_tree(self):
        """A line may be cut, which "..." says."""
        recorded = (TOP / "doc/source/data/run.json.xz").read_bytes()
        results = os.path.join(self.directory, "results.json")
        pathlib.Path(results).write_bytes(lzma.decompress(recorded))
        printed = program.nova_perf("evaluate", results).stdout.splitlines()
        for page in ("README.rst", "doc/source/admin/measuring.rst"):
            rows = []
            for line in (TOP / page).read_text(encoding="utf-8").splitlines():
                if line.startswith("    ") and "(98% interval" in line and " vcpu " not in line:
                    rows.append(line.strip().removesuffix(" ..."))
            with self.subTest(page):
                self.assertEqual(2, len(rows))
                for row in rows:
                    self.assertTrue(any(line.startswith(row) for line in printed), row)

    def test_readme_shows_the_verdict_of_the_recorded_demonstration(self):
        recorded = (TOP / "doc/source/data/demo.json.xz").read_bytes()
        results = os.path.join(self.directory, "results.json")
        pathlib.Path(results).write_bytes(lzma.decompress(recorded))
        budget = os.fspath(TOP / "tools/placement_demo/budget.yaml")
        done = program.nova_perf("evaluate", results, "--budget", budget)
        self.assertEqual(0, done.returncode, done.stdout)
        rows = []
        for line in (TOP / "README.rst").read_text(encoding="utf-8").splitlines():
            if line.startswith("    PASS ") and " vcpu " in line:
                rows.append(line.strip().removesuffix(" ..."))
        self.assertEqual(2, len(rows))
        for row in rows:
            self.assertTrue(any(line.startswith(row) for line in done.stdout.splitlines()), row)


class EvaluateTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.results = os.path.join(self.directory, "results.json")
        self.data = samples.results({"host": 1000.0, "tuned": 900.0}, boots=3, blocks=6)
        results_file.save(self.data, self.results)

    def evaluate(self, *lines, form="table"):
        budgets = [f"- {{benchmark: iperf3, {line}}}\n" for line in lines]
        path = self.write_file("budget.yaml", "".join(["budgets:\n", *budgets]))
        return program.nova_perf("evaluate", self.results, "--budget", path, "-f", form)

    def test_exit_codes(self):
        for lines, word, code in (
            (["arm: tuned, max_loss: 0.15"], "PASS", 0),
            (["arm: tuned, max_loss: 0.05"], "FAIL", 1),
            (["arm: tuned, max_loss: 0.1"], "INCONCLUSIVE", 2),
            (["arm: guest, max_loss: 0.1"], "INVALID", 3),
            (["arm: tuned, max_loss: 0.15", "arm: tuned, max_loss: 0.05"], "FAIL", 1),
        ):
            with self.subTest(lines):
                done = self.evaluate(*lines)
                self.assertEqual((code, ""), (done.returncode, done.stderr), done.stdout)
                self.assertEqual(word, done.stdout.split()[-1])

    def test_every_figure_has_a_row_with_its_own_verdict(self):
        done = self.evaluate("arm: tuned, max_loss: 0.15, max_host_cpu_per_unit: 0.1")
        self.assertEqual(
            ["PASS", "FAIL"], [row.split()[0] for row in done.stdout.splitlines()[1:3]]
        )
        self.assertEqual("FAIL", done.stdout.split()[-1])

    def test_a_run_that_ended_early_is_named_beside_its_verdict(self):
        for ended, codes in (("interrupted", ["ended_early"]), ("complete", [])):
            with self.subTest(ended):
                samples.tell(self.data, ended=ended)
                results_file.save(self.data, self.results)
                done = self.evaluate("arm: tuned, max_loss: 0.15", form="json")
                document = json.loads(done.stdout)
                self.assertEqual("PASS", document["verdict"])
                self.assertEqual(codes, [note["code"] for note in document["note_details"]])
                table = self.evaluate("arm: tuned, max_loss: 0.15").stdout
                self.assertEqual(bool(codes), f"note: The run ended early ({ended})" in table)

    def test_no_budget_for_these_arms(self):
        results_file.save(
            samples.results({"untuned": 1000.0, "again": 900.0}, boots=3, blocks=6), self.results
        )
        out = program.shown(self, "evaluate", self.results, code=3)
        self.assertIn("no budget applies: the results have the arms untuned, again", out)

    def test_json_has_verdict_cost_and_interval(self):
        done = self.evaluate("arm: tuned, max_loss: 0.15, max_host_cpu_per_unit: 0.3", form="json")
        document = json.loads(done.stdout)
        self.assertEqual("PASS", document["verdict"])
        [judgement] = document["judgements"]
        self.assertEqual("Gbit", judgement["unit"])
        self.assertAlmostEqual(0.2, judgement["cpu"]["value"])
        self.assertTrue(judgement["loss"]["low"] < 0.1 < judgement["loss"]["high"])

    def test_findings_of_guests_are_told(self):
        clock, queues = (
            "client: its clock source is hpet",
            "client: eth0: 1 of 4 queues are enabled",
        )
        for findings_of_guests, word in (
            ({"clock_source": clock}, "PASS"),
            ({"clock_source": clock, "queues": queues}, "INVALID"),
        ):
            with self.subTest(findings_of_guests):
                findings = [
                    {"code": code, "text": line} for code, line in findings_of_guests.items()
                ]
                samples.tell(self.data, arms={"untuned": {}, "tuned": {"findings": findings}})
                results_file.save(self.data, self.results)
                done = self.evaluate("arm: tuned, max_loss: 0.15")
                self.assertEqual(word, done.stdout.split()[-1])
                for line in findings_of_guests.values():
                    self.assertIn(f"warning: guests of tuned: {line}\n", done.stdout)
                alone = json.loads(self.evaluate("arm: tuned, max_loss: 0.15", form="json").stdout)
                self.assertEqual(
                    [f"tuned: {line}" for line in findings_of_guests.values()], alone["findings"]
                )

    def test_names_in_files_move_no_cursor(self):
        escape = "\x1b]0;x\x07\x1b[31m\x9b5m\nPASS"
        for trial in self.data.trials:
            trial.benchmark = f"b{escape}"
        results_file.save(self.data, self.results)
        budgets = {"budgets": [{"benchmark": f"b{escape}", "arm": "tuned", "max_loss": 0.05}]}
        budget = self.write_file("budget.yaml", json.dumps(budgets))
        seen = [program.nova_perf("evaluate", self.results, "--budget", budget)]
        self.assertEqual(1, seen[0].returncode, seen[0].stderr)
        self.data.trials[-1].unit = escape
        results_file.save(self.data, self.results)
        seen.append(program.nova_perf("evaluate", self.results, "--budget", budget))
        seen.append(program.nova_perf("evaluate", f"/missing{escape}"))
        seen.append(program.nova_perf("evaluate", self.results, f"--x{escape}"))
        for done in seen:
            for text in (done.stdout, done.stderr):
                with self.subTest(text):
                    self.assertTrue(text.replace("\n", "").isprintable(), repr(text))
                    self.assertNotIn("\nPASS", text)
        self.assertEqual([1, 3, 3, 3], [done.returncode for done in seen])

    def test_a_fleet_without_hosts_has_passed_nothing(self):
        fleet = {"run": "r", "verdict": None, "hosts": [], "pairs": []}
        results_file.save(
            dataclasses.replace(samples.results({}, fleet=fleet), trials=[]), self.results
        )
        for form in ("table", "json"):
            with self.subTest(form):
                done = self.evaluate("arm: tuned, max_loss: 0.15", form=form)
                self.assertEqual((3, ""), (done.returncode, done.stderr), done.stdout)
        self.assertEqual("INVALID", json.loads(done.stdout)["verdict"])

    def test_a_host_of_which_nothing_is_known_is_called_as_publish_calls_it(self):
        with contextlib.redirect_stdout(io.StringIO()) as out:
            result_tables.print_hosts([environment.FleetHost("a", None, [], 0, 0)])
        self.assertEqual(["INCONCLUSIVE", "a"], out.getvalue().splitlines()[1].split()[:2])

    def test_mistakes_are_one_line_and_exit_3(self):
        os.unlink(self.results)
        program.refused(self, "evaluate", self.results)

    def test_a_junit_file_stays_where_it_was_begun(self):
        """A run takes hours, and whoever owns the directory may swap it for a link meanwhile."""
        place, moved, outside = (self.directory / name for name in ("place", "moved", "outside"))
        place.mkdir()
        outside.mkdir()
        with result_options.JunitFile(str(place / "junit.xml")) as junit_file:
            self.assertIn("did not come to a verdict", (place / "junit.xml").read_text())
            place.rename(moved)
            place.symlink_to(outside)
            junit_file.write(self.data, [], None)
        self.assertEqual([], os.listdir(outside))
        self.assertIn("no budget was given", (moved / "junit.xml").read_text())


class FilesTest(directories.DirectoryCase):
    """``--arm NAME=FILES`` in place of results."""

    def setUp(self):
        super().setUp()
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(self.directory)
        data = pathlib.Path(__file__).resolve().parents[1] / "validation" / "bench" / "data"
        text = (data / "netperf-stream.txt").read_text()
        for name, values in (("a", (1000, 1010, 990)), ("b", (905, 900, 895))):
            for number, value in enumerate(values):
                self.write_file(f"{name}{number}.txt", text.replace("12306.82", str(value)))
        self.budget = self.write_file(
            "budget.yaml",
            "budgets:\n"
            "- {benchmark: netperf, baseline: untuned, arm: tuned, max_loss: 0.15}\n"
            "- {benchmark: netperf, arm: tuned, min_value: 0.8 Gbit/s}\n",
        )

    def evaluate(self, *arms, form="table", more=()):
        given = [text for arm in arms for text in ("--arm", arm)]
        return program.nova_perf(
            "evaluate",
            *("--benchmark", "netperf", *given, "--budget", self.budget, "-f", form, *more),
        )

    def test_the_report_is_that_of_results_with_the_same_exit_codes(self):
        done = self.evaluate("untuned=a*.txt", "tuned=b*.txt")
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        self.assertEqual(
            ["PASS", "PASS"], [row.split()[0] for row in done.stdout.splitlines()[1:3]]
        )
        self.assertRegex(done.stdout, "workload: .*protocol: TCP")
        for words in ("Welch's t-test", "counts as a boot of its own", "no run was excluded"):
            self.assertIn(words, done.stdout)
        done = self.evaluate("untuned=b*.txt", "tuned=a0.txt")
        self.assertEqual(2, done.returncode, done.stdout)
        done = self.evaluate("untuned=a*.txt")
        self.assertEqual(3, done.returncode, done.stdout)
        self.assertIn("arm 'tuned' was not measured; the results have untuned", done.stdout)

    def test_json_and_junit(self):
        more = ("--junit", "junit.xml")
        done = self.evaluate("untuned=a*.txt", "tuned=b*.txt", form="json", more=more)
        document = json.loads(done.stdout)
        self.assertEqual("PASS", document["verdict"])
        codes = [note["code"] for note in document["note_details"]]
        self.assertEqual(["unpaired", "no_conditions", "files_as_boots"], codes)
        self.assertEqual("TCP", document["workload"]["protocol"])
        loss, value = document["judgements"]
        self.assertTrue(0.07 < loss["loss"]["low"] < 0.1 < loss["loss"]["high"] < 0.13)
        self.assertAlmostEqual(900, value["value"]["value"], delta=0.1)
        self.assertIn('tests="2" failures="0"', (self.directory / "junit.xml").read_text())

    def test_one_arm_alone_has_absolute_limits(self):
        self.budget = self.write_file(
            "one.yaml", "budgets: [{benchmark: netperf, arm: x, max_value: 0.95 Gbit/s}]"
        )
        for pattern, code in (("b*.txt", 0), ("a*.txt", 1), ("a0.txt", 2)):
            with self.subTest(pattern):
                done = self.evaluate(f"x={pattern}")
                self.assertEqual(code, done.returncode, done.stdout + done.stderr)
                self.assertNotIn("Welch", done.stdout)

    def test_a_directory_or_a_pattern_is_a_boot(self):
        text = (self.directory / "a0.txt").read_text()
        for boot in ("x", "y"):
            (self.directory / boot).mkdir()
            for number in range(2):
                value = f"{1000 + number + ord(boot)}"
                (self.directory / boot / f"{number}").write_text(text.replace("1000", value))
        for arms, boots in (
            (("tuned=[xy]",), 2),
            (("tuned=x", "tuned=y/*"), 2),
            (("tuned=[xy]/*",), 4),
            (("tuned=x/*", "tuned=y", "tuned=b*.txt"), 3),
        ):
            with self.subTest(arms):
                done = self.evaluate("untuned=a*.txt", *arms, form="json")
                document = json.loads(done.stdout)
                self.assertEqual(boots, document["judgements"][1]["value"]["boots"])
                [note] = [n for n in document["note_details"] if n["code"] == "files_as_boots"]
                alone = ["tuned"] if boots == 4 else []
                self.assertEqual(["untuned", *alone], note["params"]["arms"])

    def test_errors_have_the_form_that_was_asked_for(self):
        """JSON and JUnit say why there is no verdict; a file of an earlier run does not stay."""
        self.write_file("cut.txt", "")
        for arms, words in (
            (
                ("untuned=a*.txt", "tuned=nope*", "third=nope"),
                "--arm tuned=nope*: matches no file",
            ),
            (("untuned=a*.txt", "tuned=cut.txt"), "cut.txt: netperf: "),
        ):
            with self.subTest(words):
                self.write_file("junit.xml", "an earlier verdict")
                done = self.evaluate(*arms, form="json", more=("--junit", "junit.xml"))
                document = json.loads(done.stdout)
                self.assertEqual(
                    (3, f"nova-perf evaluate: {document['error']}\n"),
                    (done.returncode, done.stderr),
                )
                self.assertIn(words, document["error"])
                self.assertIn(document["error_code"], ("option_error", "input_error"))
                written = (self.directory / "junit.xml").read_text()
                self.assertIn('errors="1"', written)
                self.assertIn(words, written)
        done = self.evaluate("a=a*.txt", "b=no", more=("--junit", "a0.txt"))
        self.assertIn("this command reads that file", done.stderr)
        self.assertIn("THROUGHPUT", (self.directory / "a0.txt").read_text())

    def test_without_a_budget_an_example_is_shown_that_can_be_used(self):
        oslat = pathlib.Path(__file__).resolve().parents[1] / "validation/bench/data/oslat-one.txt"
        for given, code in (
            (("--benchmark", "netperf", "--arm", "a b=a*.txt", "--arm", "x=b*.txt"), 1),
            (("--benchmark", "netperf", "--arm", "x=b*.txt"), 2),  # its own mean is the limit
            (("--benchmark", "oslat", "--arm", f"host={oslat}"), 1),  # rounded down
            # The budgets that are shipped know these arms: nobody asked for them.
            (("--benchmark", "netperf", "--arm", "untuned=a*.txt", "--arm", "tuned=b*.txt"), 1),
        ):
            with self.subTest(given):
                out = program.shown(self, "evaluate", *given, code=3)
                example = re.search(r"as in (budgets: .*), and give it with --budget FILE", out)
                budget = self.write_file("written.yaml", example[1])
                done = program.nova_perf("evaluate", *given, "--budget", budget, "-f", "json")
                document = json.loads(done.stdout)
                self.assertEqual((code, 1), (done.returncode, len(document["judgements"])))
                document = program.document(self, "evaluate", *given, code=3)
                self.assertEqual(
                    ["write_budget"], [row["code"] for row in document["action_details"]]
                )

    def test_parameters_of_a_benchmark_are_those_of_the_files(self):
        for command in (
            ("evaluate", "--arm", "a=a0.txt", "--benchmark", "netperf:seconds=5"),
            ("report", "--arm", "a=a0.txt", "-o", "page.html", "--benchmark", "netperf:seconds=5"),
            ("bench", "parse", "netperf:seconds=5", "a0.txt"),
        ):
            line = program.refused(self, *command)
            self.assertIn("give 'netperf' without parameters", line)

    def test_many_wrong_files_are_one_short_line(self):
        data = pathlib.Path(__file__).resolve().parents[1] / "validation" / "bench" / "data"
        fio = (data / "fio-fdatasync.txt").read_text()
        for number in range(40):
            self.write_file(f"wrong{number:02}.txt", f"hello {number}")
        for number in range(1, 5):
            self.write_file(f"fio{number}.txt", fio)
        for more, words in (
            ((), ""),
            (
                ("tuned=fio*.txt",),
                "; not read either: fio1.txt, fio2.txt, fio3.txt and 1 more ('nova-perf bench parse",
            ),
        ):
            line = self.evaluate("untuned=wrong*.txt", *more).stderr
            named = "wrong00.txt, wrong01.txt, wrong02.txt and 37 more: netperf: .*"
            self.assertRegex(line, f"{named}{re.escape(words)}")
            self.assertTrue(len(line) < 500, line)
        line = self.evaluate(
            "untuned=nope[0-9]", *(f"tuned=no{number}" for number in range(40))
        ).stderr
        self.assertIn(
            "--arm tuned=no0, --arm tuned=no1, --arm tuned=no2 and 37 more: no such", line
        )

    def test_options_that_do_not_go_together(self):
        (self.directory / "empty").mkdir()
        arm = ("--arm", "x=a0.txt")
        for arguments, words in (
            ((), "give RESULTS.json or --arm NAME=FILES, and only one of them"),
            (("r.json", "--benchmark", "fio", *arm), "and only one of them"),
            (arm, "--arm requires --benchmark"),
            (("r.json", "--benchmark", "fio"), "--benchmark requires --arm"),
            (("--benchmark", "fio", "--arm", "x"), "write it as NAME=FILES"),
            (("--benchmark", "fio", "--arm", "x=nope*"), "--arm x=nope*: matches no file"),
            (("--benchmark", "fio", "--arm", "x=nope"), "--arm x=nope: no such file"),
            (("--benchmark", "fio", "--arm", "x=empty"), "the directory has no files"),
            (("--benchmark", "fio", "--arm", "x=."), "--arm x=.: has directories in it"),
            (("--benchmark", "nope", *arm), "there is no benchmark 'nope'"),
            (
                ("--benchmark", "netperf", *arm, "--junit", "a0.txt"),
                "this command reads that file",
            ),
        ):
            with self.subTest(arguments):
                done = program.nova_perf("evaluate", *arguments)
                self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")), done.stderr)
                self.assertIn(words, done.stderr)
