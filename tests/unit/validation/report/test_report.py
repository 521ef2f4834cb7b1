# SPDX-License-Identifier: Apache-2.0
"""The report: complete, self-contained, and deaf to what hostile results say."""

import html.parser
import json
from urllib import parse

from nova_perf_tuning.validation.judge import ablation, budget_file, statistics, verdict
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import charts, course, report, summary
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.results import messages, reasons
from tests.support import samples, testcase

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>{{7*7}}{% raw %}\x00\x1b[31m\u202e&amp;"


class Page(html.parser.HTMLParser):
    """What a browser would see: elements, attributes, text; unclosed elements are an error."""

    VOID = {"meta", "br", "img", "link", "input"}

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.attributes, self.text = [], [], [], ""
        self.feed(text)
        if self.open:
            raise AssertionError(f"not closed: {self.open}")

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            raise AssertionError(f"</{tag}> closes something else")

    def handle_data(self, data):
        if "style" not in self.open:
            self.text += data


def page(results, budgets=()):
    judged = verdict.judge_all(results, budgets)
    text = report.render(results, summary.summarise(results), judged)
    return text, Page(text)


class ReportTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results(
            {"host": 1000.0, "untuned": 500.0, "tuned": 600.0}, accelerator="tcg"
        )

    def test_says_what_was_found(self):
        _, seen = page(self.data, [budget_file.Budget("iperf3", "tuned", 0.1)])
        self.assertIn("tuned against untuned: a gain in iperf3 (+", seen.text)
        self.assertIn("figures under TCG compare arms with each other, not hardware", seen.text)
        self.assertIn("FAIL", seen.text)
        self.assertIn("All 27 trials", seen.text)
        self.assertEqual(27 + 9, seen.tags.count("circle"), "a dot for each trial and each pair")

    def test_counters_that_say_nothing_are_named(self):
        """CPU of few trials would be a selection, and of counters that contradict each other nothing holds."""
        wrong = {"vcpu": 9.0, "total": 1.0}
        for count, cpu, code in (
            (1, wrong, "contradicted"),
            (2, {}, "few_counters"),
            (1, {}, None),
        ):
            with self.subTest(count=count, code=code):
                data = samples.results({"untuned": 500.0, "tuned": 600.0})
                mine = [trial for trial in data.trials if trial.arm == "tuned"]
                for trial in mine[:count]:
                    trial.host_cpu_s = cpu
                [benchmark] = summary.summarise(data)
                [tuned] = [arm for arm in benchmark.arms if arm.arm == "tuned"]
                self.assertEqual(code, tuned.cpu_invalid and tuned.cpu_invalid.code)
                self.assertEqual(code is None, tuned.service_per_unit is not None)

    def test_a_run_that_ended_early_is_named(self):
        for ended, codes in (("interrupted", ["ended_early"]), ("complete", [])):
            with self.subTest(ended):
                data = samples.results({"untuned": 500.0, "tuned": 600.0}, ended=ended)
                self.assertEqual(codes, [note.code for note in summary.notes(data, [])])

    def test_every_outcome_of_a_comparison(self):
        pairs = {
            reasons.ComparisonOutcome.GAIN: samples.results({"untuned": 500.0, "tuned": 600.0}),
            reasons.ComparisonOutcome.LOSS: samples.results({"untuned": 600.0, "tuned": 500.0}),
            reasons.ComparisonOutcome.NOISE: samples.results({"untuned": 500.0, "again": 600.0}),
            reasons.ComparisonOutcome.NO_DIFFERENCE: samples.results(
                {"untuned": 500.0, "tuned": 500.0}
            ),
            reasons.ComparisonOutcome.TOO_FEW: samples.results(
                {"untuned": 500.0, "tuned": 600.0}, boots=1
            ),
            reasons.ComparisonOutcome.NO_PAIR: samples.results({"host": 500.0, "tuned": 600.0}),
            reasons.ComparisonOutcome.INVALID: samples.results({"untuned": 500.0, "tuned": 600.0}),
        }
        self.assertEqual(set(reasons.ComparisonOutcome), set(pairs))
        for trial in pairs[reasons.ComparisonOutcome.INVALID].trials[1:10:2]:
            trial.value, trial.error = None, "guest lost"
        for outcome, data in pairs.items():
            with self.subTest(outcome):
                [found] = summary.headline(summary.summarise(data)).params["outcomes"]
                self.assertEqual(outcome, found["outcome"])

    def test_environment_that_harms_figures_is_named(self):
        benchmarks = {
            "fio": {"parameters": {"directory": "."}},
            "cpu": {"parameters": {"threads": "1"}},
        }
        noisy = {
            "load_at_start": 5.5,
            "cpus": 2,
            "vhost_net": False,
            "scratch_filesystem": "tmpfs",
        }
        data = samples.results({"untuned": 500.0, "tuned": 600.0}, benchmarks=benchmarks, **noisy)
        _, seen = page(data)
        found = report.as_json(data, summary.summarise(data), [])
        codes = [detail["code"] for detail in found["warning_details"]]
        self.assertEqual(["other_work", "no_vhost_net", "files_in_memory"], codes)
        self.assertEqual([], [line for line in found["warnings"] if line not in seen.text])

    def test_the_verdict_comes_first_and_notices_are_one_list_below(self):
        noisy = {"load_at_start": 5.5, "cpus": 2, "vhost_net": False, "accelerator": "tcg"}
        data = samples.results({"untuned": 500.0, "tuned": 400.0}, boots=5, **noisy)
        finding = {"code": "clock_source", "text": "client: its clock source is hpet"}
        samples.tell(data, arms={"untuned": {}, "tuned": {"findings": [finding]}})
        text, seen = page(data, [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")])
        headline = seen.text.index("FAIL: tuned against untuned in iperf3: -20.")
        self.assertTrue(
            headline
            < seen.text.index("Look for a rate limit")
            < seen.text.index("4 things to know")
        )
        self.assertEqual(1, text.count('class="banner"'))
        self.assertIn("It points at the network", seen.text)
        self.assertIn("its clock source is hpet", seen.text)
        output = report.as_json(data, summary.summarise(data), [])
        self.assertEqual(["tuned: client: its clock source is hpet"], output["findings"])

    def test_what_differs_between_arms_comes_first(self):
        arms = {"untuned": {"request": {}}, "tuned": {"request": {"perf:iothreads": "1"}}}
        data = samples.results({"untuned": 500.0, "tuned": 600.0}, boots=6)
        data.environment.arms = samples.of([], arms=arms).environment.arms
        html, _seen = page(data)
        parts = ("perf:iothreads=1", 'class="headline"', '<div class="tiles"')
        places = [html.index(part) for part in parts]
        self.assertEqual(sorted(places), places)

    def test_ablation_shows_which_spec_paid(self):
        left_out = {"no-iothreads": {"spec": "perf:iothreads", "value": "1"}}
        data = samples.results(
            {"untuned": 500.0, "tuned": 600.0, "no-iothreads": 500.0}, boots=6, ablation=left_out
        )
        seen = Page(report.render(data, summary.summarise(data), [], ablation.judge(data)))
        for output in ("Which extra spec paid", "perf:iothreads=1", "without one spec"):
            with self.subTest(output):
                self.assertIn(output, seen.text)

    def test_an_a_a_run_is_called_so(self):
        for arms, environment in (
            ({"untuned": 500.0, "again": 500.0}, {}),
            ({"untuned": 5.0, "tuned": 5.0}, {"launcher": "host"}),
        ):
            with self.subTest(arms):
                data = samples.results(arms, host="vm", **environment)
                html, seen = page(data)
                self.assertIn("A/A run: what is noise on vm", " ".join(seen.text.split()))
                self.assertIn("<title>A/A run on vm</title>", html)
                self.assertRegex(
                    seen.text, "Noise of (again|tuned) over untuned: both are the same"
                )
                self.assertIn("(an A/A run): differences between them are noise", seen.text)
                booted = environment.get("launcher") != "host"
                for words in ("New guests are created", "Every boot created new guests"):
                    self.assertEqual(booted, words in seen.text)
                self.assertNotIn("Gain of", seen.text)
        data = samples.results({"untuned": 500.0, "again": 600.0}, boots=6)
        output = messages.of(summary.headline(summary.summarise(data)))
        self.assertRegex(
            output,
            r"^A/A run, again against untuned: noise alone makes a difference in iperf3 \(\+",
        )

    def test_loads_nothing_and_runs_nothing(self):
        text, seen = page(self.data)
        self.assertEqual(
            set(), {"script", "link", "img", "iframe", "object", "form"} & set(seen.tags)
        )
        self.assertEqual(
            [],
            [
                name
                for name, _ in seen.attributes
                if name in ("src", "href") or name.startswith("on")
            ],
        )
        self.assertNotRegex(text, r"url\(|@import|https?://")

    def test_no_interval_is_shown_where_n_is_too_small(self):
        few = samples.results({"host": 9.0, "untuned": 5.0, "tuned": 6.0}, boots=1, blocks=3)
        text, seen = page(few)
        self.assertIn("too few trials to tell in iperf3", seen.text)
        self.assertIn("n too small (3)", seen.text)
        self.assertNotIn('class="span"', text)
        self.assertNotRegex(seen.text, r"\d to \d")

    def test_invalid_overhead_is_named_not_shown(self):
        for trial in self.data.trials:
            if trial.arm == "tuned":
                trial.wait_s = 6.0
        _, seen = page(self.data)
        self.assertRegex(
            seen.text,
            "iperf3 on tuned: no full overhead .*: vCPUs waited in 9 of 9 trials, up to 60%",
        )
        self.assertNotIn("iperf3 on untuned", seen.text)
        explained = seen.text.count("What is not valid") + seen.text.count("not valid where")
        self.assertEqual(2, seen.text.count("not valid") - explained)

    def test_nothing_measured(self):
        empty = samples.results({})
        _, seen = page(empty)
        self.assertIn("Nothing was measured.", seen.text)
        for trial in self.data.trials:
            trial.value, trial.error = None, "guest lost"
        _, seen = page(self.data)
        self.assertIn("No trial gave a figure.", seen.text)
        self.assertIn("27 of 27 trials failed", seen.text)
        self.assertIn("guest lost", seen.text)

    def hostile(self):
        """Return results in which every text that may come from outside is hostile."""
        data = self.data
        for trial in data.trials:
            trial.benchmark = trial.metric = HOSTILE
            trial.unit = trial.work_unit = HOSTILE[:40]
            trial.arm = {"host": "host", "untuned": HOSTILE, "tuned": HOSTILE + "2"}[trial.arm]
            trial.host_cpu_s = {**trial.host_cpu_s, HOSTILE[:40]: 1.0}
        data.trials[0].value, data.trials[0].error = None, HOSTILE
        setting = dict.fromkeys(("kind", "target", "value", "previous", "reason"), HOSTILE)
        arm = dict.fromkeys(("request", "reasons", "native_specs_not_applied"), {HOSTILE: HOSTILE})
        arm |= {"notes": [HOSTILE], "settings": [setting]}
        output = {
            "arms": {
                HOSTILE: {**arm, "xml": HOSTILE},
                HOSTILE + "2": {**arm, "xml": "<a>" + HOSTILE},
            },
            "benchmarks": {
                HOSTILE: {"kind": HOSTILE, "summary": HOSTILE, "commands": [[HOSTILE]]}
            },
            "errors": [{"boot": 0, "arm": HOSTILE, "error": HOSTILE}],
            **dict.fromkeys(
                ("host", "cpu_model", "accelerator", "created", "kernel", "qemu", "libvirt"),
                HOSTILE,
            ),
            "guest": {"vcpus": 2, HOSTILE: 320},
            HOSTILE: {HOSTILE: [HOSTILE, {HOSTILE: None}]},
        }
        return samples.of(data.trials, **output)

    def test_hostile_text_stays_text(self):
        data = self.hostile()
        results_file.from_dict(
            json.loads(json.dumps(results_file.to_dict(data))), "hostile.json"
        )  # no check keeps it out
        text, seen = page(data, [budget_file.Budget(HOSTILE, HOSTILE, 0.1, metric=HOSTILE)])
        self.assertEqual(set(), {"script", "img"} & set(seen.tags))
        self.assertFalse([name for name, _ in seen.attributes if name.startswith("on")])
        self.assertEqual(set(), {"\x00", "\x1b", "\u202e"} & set(text))
        self.assertIn("{{7*7}}", seen.text)

    def test_pictures_of_arms_are_images(self):
        """An image runs no script and loads nothing, whatever is in it."""
        picture = f"<svg>{HOSTILE}</svg>"
        self.data.environment.arms = {"tuned": environments.RecordedArm(picture=picture)}
        again = results_file.from_dict(
            json.loads(json.dumps(results_file.to_dict(self.data))), "results.json"
        )
        _, seen = page(again)
        [source] = [value for name, value in seen.attributes if name == "src"]
        self.assertEqual(f"data:image/svg+xml,{picture}", parse.unquote(source))
        self.assertNotIn("script", seen.tags)

    def test_json_has_the_same_figures(self):
        summaries = summary.summarise(self.data)
        found = json.loads(json.dumps(report.as_json(self.data, summaries, [])))
        ratio = found["benchmarks"][0]["comparisons"][0]
        self.assertEqual(("tuned", "untuned"), (ratio["arm"], ratio["baseline"]))
        logs = statistics.log_ratios(self.data.trials, "tuned", "untuned")
        self.assertEqual(statistics.ratio_of(logs).value, ratio["ratio"]["value"])
        self.assertEqual(messages.of(summary.headline(summaries)), found["headline"])
        self.assertEqual(["compared"], [detail["code"] for detail in found["headline_details"]])


class CourseTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results({"host": 1000.0, "untuned": 500.0}, boots=1, blocks=5)
        for trial in self.data.trials:
            trial.course = samples.course(cpus=40) if trial.arm == "untuned" else None

    def panels(self):
        [benchmark] = summary.summarise(self.data)
        return course.panels(benchmark, self.data.trials)

    def test_the_median_trial_and_the_worst(self):
        values = sorted(trial.value for trial in self.data.trials if trial.arm == "untuned")
        self.assertEqual([values[2], values[0]], [panel.trial.value for panel in self.panels()])
        for trial in self.data.trials:
            trial.better = "lower"
        self.assertEqual([values[2], values[4]], [panel.trial.value for panel in self.panels()])

    def test_bars_stand_on_each_other_and_show_what_was_lost(self):
        net, cpu = self.panels()[0].strips
        self.assertEqual((2e8, 1.2), (net.top, cpu.top))
        self.assertTrue(net.bars["net"].endswith("M2 50.0h1v50.0h-1z"))
        vcpu, vhost, wait = cpu.bars.values()
        self.assertTrue(
            vcpu.startswith("M0 16.7h1v83.3h-1z") and vhost.startswith("M0 0.0h1v16.7h-1z")
        )
        self.assertEqual(1, wait.count("M"), "no vCPU waited before")

    def test_the_map_has_a_row_for_each_cpu_and_few_numbers(self):
        cells = {shade: path.count("M") for shade, path in self.panels()[0].heat.items()}
        self.assertEqual({4: 40}, cells, "runs are one cell")
        text, seen = page(self.data)
        self.assertIn("Second by second", seen.text)
        self.assertEqual((2, 2 * 14), (text.count('class="course"'), text.count('dy="0.35em"')))
        self.assertIn("CPU 39: busy 50 %, at most 50 %", seen.text)


class ChartTest(testcase.TestCase):
    def test_axis_is_logarithmic_for_wide_ranges(self):
        narrow, wide = charts.axis([90, 100, 110]), charts.axis([5, 1000])
        self.assertEqual((False, True), (narrow.logarithmic, wide.logarithmic))
        self.assertEqual([90, 95, 100, 105, 110], narrow.ticks)
        self.assertEqual([10, 100, 1000], wide.ticks)

    def test_values_lie_on_the_axis_in_their_order(self):
        for values in (
            [1.0],
            [1.0, 1.0],
            [1e-9, 1e15],
            [3.0, 3.1, 2.9],
            [0.0, 5.0],
            [290.0, 1310.0],
            [2.1, 9.4],
        ):
            with self.subTest(values):
                axis = charts.axis(values)
                places = [axis.place(value) for value in sorted(values)]
                self.assertEqual(sorted(places), places)
                self.assertTrue(all(0 <= place <= 100 for place in places), values)
                self.assertTrue(2 * axis.logarithmic <= len(axis.ticks) <= 12, axis)
                self.assertTrue(all(axis.low <= tick <= axis.high for tick in axis.ticks), axis)
