# SPDX-License-Identifier: Apache-2.0
"""nova-perf report: HTML beside the results, JSON for programs."""

import dataclasses
import json
import math
import os
import pathlib
import stat

from scipy import stats

from nova_perf_tuning.validation.measure import results_file
from tests.support import directories, program, samples


class ReportTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.results = os.path.join(self.directory, "results.json")
        results_file.save(
            samples.results({"host": 1000.0, "untuned": 500.0, "tuned": 900.0}), self.results
        )

    def test_beside_the_results_or_where_asked(self):
        other = os.path.join(self.directory, "other.html")
        for arguments, path in (
            ((), os.path.join(self.directory, "report.html")),
            (("-o", other), other),
        ):
            with self.subTest(arguments):
                done = program.nova_perf("report", self.results, *arguments)
                self.assertEqual((0, f"{path}\n", ""), (done.returncode, done.stdout, done.stderr))
                with open(path, encoding="utf-8") as file:
                    self.assertIn("a gain in iperf3", file.read())

    def test_json_writes_no_file(self):
        done = program.nova_perf("report", self.results, "-f", "json")
        self.assertEqual("iperf3", json.loads(done.stdout)["benchmarks"][0]["label"])
        self.assertEqual(["results.json"], os.listdir(self.directory))

    def test_mistakes_are_one_line_and_exit_3(self):
        for arguments in (
            ("/nonexistent",),
            (self.results, "-o", "/nonexistent/x.html"),
            (os.devnull,),
        ):
            program.refused(self, "report", *arguments)
        self.assertEqual(["results.json"], os.listdir(self.directory))

    def test_audits_take_no_options_of_results(self):
        """An option that does nothing is a promise that is not kept."""
        audit = self.write_file("host.json", "{}")
        beside = os.path.join(self.directory, "trials.ndjson")
        for option, value in (("-f", "json"), ("--budget", "nosuch.yaml"), ("--ndjson", beside)):
            with self.subTest(option):
                line = program.refused(self, "report", option, value, "--audits", audit)
                self.assertIn(": --audits gives only HTML", line)
                self.assertIn(option, line)
        self.assertEqual({"results.json", "host.json"}, set(os.listdir(self.directory)))

    def test_what_is_read_and_special_files_stay(self):
        link, pipe = os.path.join(self.directory, "link"), os.path.join(self.directory, "pipe")
        os.symlink("results.json", link)
        os.mkfifo(pipe)
        before = os.stat(self.results)
        for path in (self.results, link, pipe, str(self.directory)):
            program.refused(self, "report", self.results, "-o", path)
        self.assertEqual(
            (before.st_ino, before.st_mtime_ns), (os.stat(link).st_ino, os.stat(link).st_mtime_ns)
        )
        self.assertTrue(stat.S_ISFIFO(os.lstat(pipe).st_mode))

    def test_ndjson_is_a_document_a_trial_with_keys_and_types_that_stay(self):
        """A store takes the type of the first document: neither an integer nor a name of a spec may be a key's."""
        data = samples.results(
            {"untuned": 500.0, "tuned": 900.0}, created="2026-11-20T10:00:00+01:00", host="one"
        )
        samples.tell(
            data,
            arms={"untuned": {}, "tuned": {"request": {"perf:vif_host_offload.csum": "true"}}},
        )
        data.trials[0] = dataclasses.replace(
            data.trials[0], value=1, conditions={"steal_share": 1, "of.others": 2}
        )
        data.trials.append(
            samples.trial(arm="tuned", boot=4, value=None, error="\u2028", order=99)
        )
        results_file.save(data, self.results)
        path = os.path.join(self.directory, "trials.ndjson")
        documents = []
        for _ in range(2):
            done = program.nova_perf("report", self.results, "--ndjson", path)
            self.assertEqual((0, f"{path}\n", ""), (done.returncode, done.stdout, done.stderr))
            with open(path, encoding="ascii") as file:
                documents.append(list(map(json.loads, file.read().splitlines())))
        self.assertEqual(["results.json", "trials.ndjson"], sorted(os.listdir(self.directory)))
        self.assertEqual(*documents)
        first, *_, last = documents[0]
        self.assertEqual(len(data.trials), len({document["id"] for document in documents[0]}))
        types = [
            set(map(type, (document["value"], document["window_s"])))
            for document in documents[0][:-1]
        ]
        self.assertEqual([{float}] * (len(data.trials) - 1), types)
        self.assertEqual({frozenset(first)}, set(map(frozenset, documents[0])))
        shown = tuple(map(first.get, ("@timestamp", "host", "peer")))
        self.assertEqual(("2026-11-20T09:00:00Z", "one", None), shown)
        conditions = first["conditions"]
        self.assertEqual((1, None), (conditions["steal_share"], conditions.get("of.others")))
        self.assertEqual(("steal", None), (first["excluded"], documents[0][1]["excluded"]))
        self.assertEqual(["perf:vif_host_offload.csum=true"], last["request"])
        program.refused(self, "report", self.results, "--ndjson", self.results)


class FilesTest(directories.DirectoryCase):
    """Reports of output files: ``--arm NAME=FILES`` in place of results."""

    def setUp(self):
        super().setUp()
        data = pathlib.Path(__file__).resolve().parents[1] / "validation" / "bench" / "data"
        text = (data / "netperf-stream.txt").read_text()
        self.given = ["--benchmark", "netperf"]
        for name, values in (("old", (1000, 1010, 990)), ("new", (905, 900, 895))):
            for number, value in enumerate(values):
                self.write_file(f"{name}{number}.txt", text.replace("12306.82", str(value)))
            self.given += ["--arm", f"{name}={self.directory}/{name}*.txt"]
        self.page = os.path.join(self.directory, "page.html")

    def test_arms_are_compared_as_samples_that_nothing_pairs(self):
        done = program.nova_perf("report", *self.given, "-o", self.page, "-f", "json")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        document = json.loads(done.stdout)
        [benchmark] = document["benchmarks"]
        [pair] = benchmark["comparisons"]
        logs = [list(map(math.log, values)) for values in ((905, 900, 895), (1000, 1010, 990))]
        interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval()
        self.assertAlmostEqual(math.exp(interval.low), pair["ratio"]["low"])
        self.assertAlmostEqual(math.exp(interval.high), pair["ratio"]["high"])
        codes = [note["code"] for note in document["note_details"]]
        self.assertEqual(["unpaired", "no_conditions", "files_as_boots"], codes)
        with open(self.page, encoding="utf-8") as file:
            page = file.read()
        self.assertIn("Welch", page)
        self.assertIn("protocol: TCP", page)
        self.assertNotIn("the guest as libvirt makes it", page)

    def page_of(self, *given):
        done = program.nova_perf("report", *given, "-o", self.page)
        self.assertEqual((0, ""), (done.returncode, done.stderr), done.stdout)
        with open(self.page, encoding="utf-8") as file:
            return " ".join(file.read().split())

    def test_every_sentence_is_true_of_files(self):
        """Nothing was booted or run here, and the work is that of the files."""
        data = pathlib.Path(__file__).resolve().parents[1] / "validation" / "bench" / "data"
        fio = ["--benchmark", "fio"]
        for form in ("json", "txt"):
            fio += ["--arm", f"{form}={data}/fio-fdatasync.{form}"]
        for given, names in ((self.given, "old0.txt new2.txt"), (fio, "fio-fdatasync.txt")):
            page = self.page_of(*given)
            for untrue in (
                *("random writes", "order of time", "New guests", "Every boot created"),
                *("tuned guests", "tuning is worth", "seed of the order", "? ×", "this host"),
                *("service CPU", "a block is", "over all boots that this host", "two machines"),
            ):
                with self.subTest(untrue):
                    self.assertNotIn(untrue, page)
            for name in names.split():
                self.assertIn(f"/{name}</td>", page)
        self.assertIn("<title>Output files of fio: json, txt</title>", page)
        self.assertIn("pattern: write; block size: 2300; engine: sync", page)
        self.assertIn(
            "a write is safe after its sync", page
        )  # what the reader says of the figures
        alone = self.page_of(*fio[:4])
        self.assertNotIn("Nothing pairs", alone)
        self.assertNotIn("No pair of trials", alone)

    def test_figures_and_ratio_say_the_same(self):
        """A ratio of arms that nothing pairs is that of the figures beside it, in every row."""
        text = (
            pathlib.Path(__file__).resolve().parents[1] / "validation/bench/data/fio-fdatasync.txt"
        )
        given = ["--benchmark", "fio"]
        for arm, means in (("a", ("20", "200", "131")), ("b", ("90", "100", "110"))):
            for number, mean in enumerate(means):
                changed = text.read_text().replace("avg=131.44", f"avg={mean}.44")
                self.write_file(f"{arm}{number}", changed)
            given += ["--arm", f"{arm}={self.directory}/{arm}[0-9]"]
        done = program.nova_perf("report", *given, "-f", "json")
        [benchmark] = json.loads(done.stdout)["benchmarks"]
        for row in benchmark["secondary"]:
            ratio = row["medians"]["b"] / row["medians"]["a"]
            if row["better"] == "lower":
                ratio = 1 / ratio
            self.assertAlmostEqual(ratio, row["comparisons"][0]["ratio"]["value"], msg=row)
        page = self.page_of(*given)
        self.assertIn("Figure: the median of the runs of each boot, then the geometric mean", page)
        self.assertIn("Ratio: the figure of the arm by that of the other", page)
        self.assertNotIn(">median<", page)

    def test_what_is_refused(self):
        other = self.write_file("x", "no output")
        for arguments, words in (
            (self.given, "--arm requires -o FILE"),
            ((*self.given, "--ndjson", self.page), "--ndjson needs RESULTS.json"),
            ((*self.given, "-o", f"{self.directory}/old0.txt"), "this command reads that file"),
            (("--arm", f"a={other}", "-o", self.page), "--arm requires --benchmark"),
            (("--benchmark", "netperf", "--arm", f"a={other}", "-o", self.page), f"{other}: "),
        ):
            with self.subTest(arguments):
                self.assertIn(words, program.refused(self, "report", *arguments))

    def test_files_of_different_workloads_have_no_report(self):
        data = pathlib.Path(__file__).resolve().parents[1] / "validation" / "bench" / "data"
        text = (data / "sysbench-cpu.txt").read_text()
        given = ["--benchmark", "cpu", "-o", self.page]
        for threads in (1, 2):
            path = self.write_file(
                f"t{threads}", text.replace("threads: 1", f"threads: {threads}")
            )
            given += ["--arm", f"a{threads}={path}"]
        line = program.refused(self, "report", *given)
        self.assertIn("the files are of different workloads: threads is 1 (t1) and 2 (t2)", line)
        self.assertFalse(os.path.exists(self.page))
