# SPDX-License-Identifier: Apache-2.0
"""Results of output files: boots, workloads, and the comparison of arms that nothing pairs."""

import math
import pathlib

from scipy import stats

from nova_perf_tuning.validation.judge import budget_file, outputs, run_notes, statistics, verdict
from nova_perf_tuning.validation.report import diagnosis
from nova_perf_tuning.validation.results import messages, reasons, schema
from tests.support import directories, samples, testcase

C = reasons.ReasonCode
V = verdict.Verdict
B = budget_file.Budget
DATA = pathlib.Path(__file__).parents[1] / "bench" / "data"


def three(mean, low, high):
    """Return three samples with a mean and a 95 % interval that k8s-netperf has printed of three."""
    spread = (high - low) / 2 * math.sqrt(3) / stats.t.ppf(0.975, 2)
    return (mean - spread, mean, mean + spread)


#: iperf3 over a direct path and over one that a proxy forwards, Mbit/s (runs 0 to 4 of either in
#: kfirtoledo/CloudPilot_Project, results/latest/host-che01_ibm, 14 October 2021, 01:47).
DIRECT = (100.40344, 103.39056, 98.26269, 101.69841, 93.31709)
FORWARDED = (46.00036, 45.14988, 42.91020, 48.67925, 49.93381)


#: MySQL on a Kunpeng server of two nodes, transactions/s of eight runs each: client and server
#: threads on many CPUs, and on two each (kunpengcompute/kunpengcompute.github.io, issue 25).
MANY_CPUS = (35188, 37426, 35140, 37640, 37625, 35574, 35709, 37680)
FEW_CPUS = (30001, 36160, 24403, 24354, 37708, 24478, 36323, 24579)
#: Pods and hosts by netperf, Mbit/s, mean and interval of three samples each
#: (cloud-bulldozer/e2e-benchmarking, pull request 575, run 1), and hosts by iperf3.
PODS = three(4930.583333, 4929.447038, 4931.719628)
HOSTS = three(7164.306667, 7010.984364, 7317.628969)
HOSTS_BY_IPERF3 = three(8731.176448, 5300.568382, 12161.784514)

#: cloud-bulldozer/k8s-netperf, pull request 78 (UDP_STREAM) and issue 102 (TCP_STREAM), Mbit/s.
SERIES = {
    "paths": (FORWARDED, DIRECT),
    "udp": (
        three(3778.567851, 3776.457029, 3780.678673),
        three(5510.046667, 5259.322547, 5760.770786),
    ),
    "tcp": (
        three(6544.064512, 5633.842639, 7454.286385),
        three(84504.846667, 79678.284239, 89331.409094),
    ),
    "Kunpeng": (FEW_CPUS, MANY_CPUS),
    "e2e": (PODS, HOSTS),
    "e2e by tool": (HOSTS, HOSTS_BY_IPERF3),
    "uneven": (FORWARDED[:3], DIRECT + (99.0, 97.5, 102.25)),
}


def welch(arm, baseline, confidence=0.95):
    """Return ratio and interval as scipy has them."""
    logs = [math.log(value) for value in arm], [math.log(value) for value in baseline]
    interval = stats.ttest_ind(*logs, equal_var=False).confidence_interval(confidence)
    ratio = math.exp(sum(logs[0]) / len(arm) - sum(logs[1]) / len(baseline))
    return ratio, math.exp(interval.low), math.exp(interval.high)


def unpaired(arms, **changes):
    """Return results of files, a boot each; a value may be None for a run without a figure."""
    trials = []
    for arm, values in arms.items():
        for boot, value in enumerate(values):
            place = {"arm": arm, "boot": boot, "order": len(trials), "host_cpu_s": {}}
            error = None if value is not None else "no"
            trials.append(samples.trial(**{**place, "value": value, "error": error, **changes}))
    return samples.of(trials, unpaired=True, launcher="files")


class WelchTest(testcase.TestCase):
    def test_published_series_give_what_scipy_gives(self):
        for name, (arm, baseline) in SERIES.items():
            for confidence in (0.95, 0.99):
                with self.subTest(name, confidence=confidence):
                    data = unpaired({"tuned": arm, "untuned": baseline})
                    budget = B("iperf3", "tuned", 0.1, baseline="untuned", confidence=confidence)
                    [found] = verdict.judge_all(data, [budget])
                    ratio, low, high = welch(arm, baseline, confidence)
                    loss = found.loss
                    for wanted, value in (
                        (ratio, loss.value),
                        (high, loss.low),
                        (low, loss.high),
                    ):
                        self.assertAlmostEqual(1 - wanted, value, places=9)
                    self.assertEqual(min(len(arm), len(baseline)), loss.boots)

    def test_recorded_values_of_scipy(self):
        """scipy 1.17: ttest_ind(log(arm), log(baseline), equal_var=False).confidence_interval()."""
        for name, wanted in (
            ("paths", (0.467697, 0.433185, 0.504959)),
            ("Kunpeng", (0.800944, 0.676207, 0.94869)),
            ("e2e", (0.688232, 0.673662, 0.703117)),
        ):
            with self.subTest(name):
                arm, baseline = SERIES[name]
                logs = {boot: [math.log(value)] for boot, value in enumerate(arm)}
                others = {boot: [math.log(value)] for boot, value in enumerate(baseline)}
                found = statistics.unpaired_ratio(logs, others)
                for value, seen in zip(wanted, (found.value, found.low, found.high), strict=True):
                    self.assertAlmostEqual(value, seen, places=5)

    def test_less_is_better(self):
        arms = {"tuned": FORWARDED, "untuned": DIRECT}
        data = unpaired(arms, better="lower", metric="latency_p99", unit="µs")
        budget = B("iperf3", "tuned", 0.1, baseline="untuned", metric="latency_p99")
        [found] = verdict.judge_all(data, [budget])
        self.assertEqual(V.PASS, found.verdict)
        ratio, _low, _high = welch(DIRECT, FORWARDED)
        self.assertAlmostEqual(1 - ratio, found.loss.value)

    def test_arms_may_have_other_numbers_of_boots_and_none_is_missing(self):
        data = unpaired({"tuned": DIRECT[:2], "untuned": DIRECT + DIRECT[:3]})
        [found] = verdict.judge_all(data, [B("iperf3", "tuned", 0.5, baseline="untuned")])
        self.assertEqual((V.PASS, ()), (found.verdict, found.reasons[0].notes))

    def test_one_boot_of_an_arm_has_no_interval(self):
        data = unpaired({"tuned": DIRECT[:1], "untuned": DIRECT})
        [found] = verdict.judge_all(data, [B("iperf3", "tuned", 0.5, baseline="untuned")])
        self.assertEqual(C.TOO_FEW_BOOTS, found.deciding.code)
        actions = diagnosis.diagnose(data, [found]).actions
        self.assertEqual([C.MORE_FILES], [action.code for action in actions])

    def test_equal_values_have_an_interval_of_no_width(self):
        data = unpaired({"tuned": (90.0, 90.0), "untuned": (100.0, 100.0)})
        [found] = verdict.judge_all(data, [B("iperf3", "tuned", 0.1, baseline="untuned")])
        self.assertEqual(V.PASS, found.verdict)

    def test_a_run_without_a_figure_counts_as_the_worst_of_its_arm(self):
        data = unpaired({"tuned": (*DIRECT, None), "untuned": DIRECT})
        [found] = verdict.judge_all(data, [B("iperf3", "tuned", 0.5, baseline="untuned")])
        self.assertEqual([C.FAILED, C.WORST], [note.code for note in found.reasons[0].notes])
        ratio, *_ = welch((*DIRECT, min(DIRECT)), DIRECT)
        self.assertAlmostEqual(1 - ratio, found.loss.value)
        self.assertIn("1 of 6 files of 'tuned' failed", messages.lines(found.reasons))
        self.assertIn("files without a figure of 'tuned', taken", messages.lines(found.reasons))
        data = unpaired({"tuned": (*DIRECT, None, None), "untuned": DIRECT})
        [found] = verdict.judge_all(data, [B("iperf3", "tuned", 0.5, baseline="untuned")])
        self.assertEqual((V.INVALID, C.TOO_MANY_LOST), (found.verdict, found.deciding.code))

    def test_boots_of_several_runs_count_once(self):
        """Three runs of a boot are one sample, so that copies of a boot narrow nothing."""
        data = unpaired({"tuned": DIRECT[:3], "untuned": FORWARDED[:3]})
        more = unpaired({"tuned": DIRECT[:3] * 3, "untuned": FORWARDED[:3] * 3})
        for trial in more.trials:
            trial.boot, trial.block = trial.boot % 3, trial.boot // 3
        budget = B("iperf3", "tuned", 0.5, baseline="untuned")
        [once], [thrice] = verdict.judge_all(data, [budget]), verdict.judge_all(more, [budget])
        self.assertAlmostEqual(once.loss.high, thrice.loss.high)

    def test_what_pairing_is_assumed_and_what_it_costs(self):
        notes = run_notes.of(unpaired({"tuned": DIRECT, "untuned": FORWARDED}))
        self.assertEqual([C.UNPAIRED, C.NO_CONDITIONS], [note.code for note in notes])
        self.assertIn("Welch's t-test on logarithms", messages.of(notes[0]))
        alone = run_notes.of(unpaired({"tuned": DIRECT}))
        self.assertEqual([C.NO_CONDITIONS], [note.code for note in alone])


class FilesTest(directories.DirectoryCase):
    def netperf(self, name, value):
        text = (DATA / "netperf-stream.txt").read_text()
        return self.write_file(name, text.replace("12306.82", str(value)))

    def cpu(self, name, rate, threads=1):
        text = (DATA / "sysbench-cpu.txt").read_text()
        text = text.replace("threads: 1", f"threads: {threads}")
        return self.write_file(name, text.replace("3052.87", str(rate)))

    def arm(self, name, *boots):
        return outputs.ArmFiles(name, [list(boot) for boot in boots])

    def test_boots_and_blocks(self):
        files = [self.netperf(f"n{number}", 100 + number) for number in range(3)]
        found = outputs.read("netperf", [self.arm("a", files[:2], files[2:])])
        self.assertEqual(
            [("a", 0, 0), ("a", 0, 1), ("a", 1, 0)],
            [
                (trial.arm, trial.boot, trial.block)
                for trial in found.results.trials
                if trial.primary
            ],
        )
        environment = found.results.environment
        self.assertEqual(files, list(environment.shown["files"].values()))
        self.assertEqual("TCP", found.workload["protocol"])
        self.assertIsNone(found.mixed)

    def test_published_series_as_files_give_what_scipy_gives(self):
        for name in ("Kunpeng", "e2e", "paths"):
            with self.subTest(name):
                arms = []
                for arm, values in zip(("tuned", "untuned"), SERIES[name], strict=True):
                    files = [
                        self.netperf(f"{name}-{arm}-{number}", f"{value:.6f}")
                        for number, value in enumerate(values)
                    ]
                    arms.append(self.arm(arm, *([file] for file in files)))
                found = outputs.read("netperf", arms)
                [judged] = verdict.judge_all(
                    found.results, [B("netperf", "tuned", 0.1, baseline="untuned")], found.mixed
                )
                ratio, low, high = welch(*SERIES[name])
                for wanted, value in (
                    (ratio, judged.loss.value),
                    (high, judged.loss.low),
                    (low, judged.loss.high),
                ):
                    self.assertAlmostEqual(1 - wanted, value, places=6)

    def test_files_that_were_taken_as_boots_are_named(self):
        files = [self.netperf(f"n{number}", 100 + number) for number in range(2)]
        arm = outputs.ArmFiles("a", [[file] for file in files], files_are_boots=True)
        found = outputs.read("netperf", [arm])
        self.assertEqual([C.FILES_AS_BOOTS], [note.code for note in found.notes])
        alone = outputs.ArmFiles("a", [files[:1]], files_are_boots=True)
        self.assertEqual([], outputs.read("netperf", [alone]).notes)

    def test_other_workloads_are_not_compared(self):
        one = [self.cpu(f"one{number}", 3000 + number) for number in range(3)]
        two = [self.cpu(f"two{number}", 3900 + number, threads=2) for number in range(3)]
        arms = [
            self.arm("one", *([file] for file in one)),
            self.arm("two", *([file] for file in two)),
        ]
        found = outputs.read("cpu", arms)
        self.assertEqual(C.MIXED_WORKLOADS, found.mixed.code)
        line = messages.of(found.mixed)
        self.assertIn("threads is 1 (one0) and 2 (two0); judge files of one workload", line)
        self.assertNotIn("threads", found.workload)
        budgets = [B("cpu", "two", 0.1, baseline="one"), B("cpu", "two", min_value="1 events/s")]
        judged = verdict.judge_all(found.results, budgets, found.mixed)
        self.assertEqual([V.INVALID] * 2, [judgement.verdict for judgement in judged])
        mixed = outputs.read("cpu", [self.arm("one", [one[0]], [two[0]])])
        self.assertEqual(C.MIXED_WORKLOADS, mixed.mixed.code)

    def test_another_spelling_is_the_same_workload(self):
        runs = []
        for size in ("4k", "4096", "4KiB", "4096B"):
            report = outputs.base.BenchmarkReport(workload={"block size": size, "seconds": size})
            runs.append(outputs._Run(size, size, report))
        self.assertIsNone(outputs._mixed(runs))
        report = outputs.base.BenchmarkReport(workload={"block size": "8k"})
        self.assertEqual(
            {"4k": "4k", "8k": "8k"},
            outputs._mixed([runs[0], outputs._Run("8k", "", report)]).params["by_file"],
        )

    def test_another_form_of_the_same_job_is_the_same_workload(self):
        """fio's normal output repeats neither size nor fdatasync nor direct, its JSON no defaults."""
        for kind, name, silent in (
            ("fio", "fio-fdatasync", {"txt": ["fdatasync after", "size"]}),
            (
                "oslat",
                "oslat-one",
                {
                    "txt": ["threads"],
                    "json": ["priority", "workload", "memory of the workload"],
                },
            ),
        ):
            with self.subTest(kind):
                files = [str(DATA / f"{name}.{form}") for form in ("json", "txt")]
                found = outputs.read(kind, [self.arm("a", files[:1]), self.arm("b", files[1:])])
                self.assertIsNone(found.mixed)
                unsaid = {}
                for note in found.notes:
                    self.assertEqual(C.NOT_SAID, note.code)
                    [file] = note.params["files"]
                    unsaid[file.partition(".")[2]] = note.params["names"]
                self.assertEqual(silent, unsaid)

    def test_what_an_output_says_by_silence_is_compared(self):
        """fio's JSON repeats all options that were given, and either form shows whether it synced."""
        plain, normal = (str(DATA / f"fio-fdatasync.{form}") for form in ("json", "txt"))
        text = pathlib.Path(plain).read_text()
        text = text.replace('"size" :', '"iodepth" : "8", "size" :').replace(
            '"sync",', '"libaio",'
        )
        deep = self.write_file("deep", text)
        text = pathlib.Path(normal).read_text()
        begin, end = text.index("  fsync/fdatasync"), text.index("  cpu ")
        unsynced = self.write_file("unsynced", text[:begin] + text[end:])
        for name, first, second in (
            ("engine", plain, deep),
            ("depth", plain, deep),
            ("depth", normal, deep),
            ("syncs", normal, unsynced),
            ("syncs", plain, unsynced),
        ):
            with self.subTest(name, first=first):
                found = outputs.read("fio", [self.arm("a", [first]), self.arm("b", [second])])
                params = found.mixed.params
                self.assertIn(name, (params["name"], *params["others"]))

    def test_jobs_of_one_output_are_compared_one_by_one(self):
        def runs(*sizes):
            found = []
            for number, size in enumerate(sizes):
                parts = {}
                for job in ("one", "two"):
                    work = {"pattern": "read", "block size": size, "seconds": str(number)}
                    parts[job] = outputs.base.BenchmarkReport(workload=work)
                found.append(outputs._Run(f"f{number}", "", outputs.base.several(parts)))
            return found

        self.assertIsNone(outputs._mixed(runs("4k", "4096B")))
        found = outputs._mixed(runs("4k", "8k"))
        self.assertEqual("one: block size", found.params["name"])
        self.assertEqual({"4k": "f0", "8k": "f1"}, found.params["by_file"])

    def test_the_command_of_a_run_is_compared_where_the_report_does_not_repeat_it(self):
        def mixed(*commands):
            runs = []
            for command in commands:
                report = outputs.base.BenchmarkReport(workload={"command": command})
                runs.append(outputs._Run(command, command, report))
            return outputs._mixed(runs)

        self.assertIsNone(
            mixed("cyclictest -i 200 --json=a", "cyclictest --interval=200 --json=b")
        )
        self.assertEqual("interval", mixed("cyclictest -i200", "cyclictest -i1000").params["name"])
        self.assertIsNone(mixed("dd if=/dev/zero of=/a bs=1M", "dd if=/dev/zero of=/b bs=1M"))
        self.assertEqual("bs", mixed("dd of=/a bs=1M", "dd of=/a bs=4k").params["name"])
        self.assertIsNone(mixed("dd of=/a bs=4096", "dd of=/a bs=4k"))

    def test_files_of_other_programs_are_refused_all_at_once(self):
        files = [self.netperf("n", 100), self.cpu("c", 5), self.write_file("README", "hello")]
        error = self.assertRaises(
            schema.InputError,
            outputs.read,
            "netperf",
            [self.arm("a", files), self.arm("b", ["none"])],
        )
        for file in (*files[1:], "none"):
            self.assertIn(file, str(error))
        self.assertNotIn(f"{files[0]}: ", str(error))

    def test_a_file_that_is_cut_off_is_no_failed_run(self):
        """It is refused, however many others are whole."""
        for name, kind, cut in (
            ("fio-fdatasync.json", "fio", 3000),
            ("fio-fdatasync.txt", "fio", 900),
            ("iperf3-two-streams.json", "iperf3", 2000),
            ("sysbench-cpu.txt", "cpu", 300),
            ("oslat-one.txt", "oslat", 500),
            ("cyclictest.json", "cyclictest", 300),
        ):
            with self.subTest(name):
                text = (DATA / name).read_text()
                cut_off = self.write_file("cut", text[:cut])
                for other in (self.write_file("empty", ""), cut_off):
                    arm = self.arm("a", [str(DATA / name)], [other])
                    error = self.assertRaises(schema.InputError, outputs.read, kind, [arm])
                    self.assertIn(f"{other}: ", str(error))

    def test_another_test_of_the_same_program_is_no_failed_run(self):
        files = [str(DATA / name) for name in ("iperf3-two-streams.json", "iperf3-udp.json")]
        error = self.assertRaises(
            schema.InputError, outputs.read, "iperf3", [self.arm("a", files)]
        )
        self.assertIn(f"{files[1]}: is an output of 'packets', not of 'iperf3'", str(error))

    def test_a_run_counts_once(self):
        text = (DATA / "iperf3-two-streams.json").read_text()
        files = [self.write_file(name, text) for name in ("n", "copy")]
        for arms, line in (
            ([self.arm("a", files)], "is a copy of"),
            ([self.arm("a", files[:1]), self.arm("b", files[:1])], "given twice"),
        ):
            error = self.assertRaises(schema.InputError, outputs.read, "iperf3", arms)
            self.assertIn(line, str(error))
        short = [self.netperf("s", 941.49), self.netperf("t", 941.49)]
        found = outputs.read("netperf", [self.arm("a", short)])  # line rate, twice
        self.assertEqual(2, sum(trial.primary for trial in found.results.trials))

    def test_a_run_that_failed_is_a_trial_without_a_figure(self):
        failed = self.write_file("f", (DATA / "fio-disk-full.json").read_text())
        found = outputs.read("fio", [self.arm("a", [failed])])
        [trial] = found.results.trials
        self.assertEqual((None, "output", "iops"), (trial.value, trial.failure, trial.metric))
        self.assertEqual([C.UNREAD_FILE], [note.code for note in found.notes])
        self.assertIn("error 28", messages.of(found.notes[0]))

    def test_the_length_of_a_run(self):
        for kind, name, seconds in (
            ("oslat", "oslat.txt", 1.0),
            ("cyclictest", "cyclictest.json", 1.0),
            ("cpu", "sysbench-cpu.txt", 1.0004),
            ("iperf3", "iperf3-two-streams.json", 1.0),
            ("himeno", "own-himeno.json", 0.0),
        ):
            with self.subTest(kind):
                found = outputs.read(kind, [self.arm("a", [str(DATA / name)])])
                self.assertAlmostEqual(seconds, found.results.trials[0].window_s, places=2)

    def test_the_worst_file_is_named(self):
        file = str(DATA / "oslat.txt")
        found = outputs.read("oslat", [self.arm("host", [file])])
        for limit, duration, word in (
            ("1ns", "1s", V.FAIL),
            ("1s", "1s", V.PASS),
            ("1s", "60s", V.INVALID),
        ):
            budget = B("oslat", "host", max_value=limit, min_duration=duration)
            [judged] = verdict.judge_all(found.results, [budget])
            self.assertEqual(word, judged.verdict)
            if word is not V.INVALID:
                self.assertIn(f"greatest of 1 run ({file})", messages.lines(judged.reasons))
