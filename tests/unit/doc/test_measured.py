"""The figures that stand beside the published ones are those of a run, with its intervals."""

import json
import lzma
import pathlib

import fixtures
import testtools
import yaml

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import store
from nova_perf_tuning.validation.report import summary
from tests.benchmarks import published
from tests.support import samples
from tests.unit.validation.report import test_every_figure

TOP = pathlib.Path(__file__).parents[3]


class MeasuredTest(testtools.TestCase):
    def test_every_figure_of_a_run_is_written_with_its_interval(self):
        results = test_every_figure.measured()
        benchmarks = {"iperf3": {"parameters": {"streams": "1"}}}
        samples.tell(results, created="2026-11-01T00:00:00+00:00", benchmarks=benchmarks)
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        store.save(results, str(folder / "results.json"))
        published.main([str(folder / "results.json"), "--output", str(folder / "measured.yaml")])
        data = yaml.safe_load((folder / "measured.yaml").read_text(encoding="utf-8"))
        [run] = data["runs"]
        self.assertEqual("2026-11-01T00:00:00+00:00", run["run"]["created"])
        [one] = [one for one in run["benchmarks"] if one["guests"] == "untuned"]
        self.assertEqual(("iperf3", {"streams": "1"}), (one["label"], one["parameters"]))
        self.assertEqual(["throughput", *test_every_figure.TESTS], [figure["metric"] for figure in one["figures"]])
        [found] = summary.summarise(results)
        for figure, known in zip(one["figures"][1:], found.secondary, strict=True):
            pair = next(pair for pair in known.comparisons if (pair.arm, pair.baseline) == ("untuned", "host"))
            value, low, high, count = figure["ratio"]
            self.assertEqual(pair.ratio.n, count)
            for told, right in ((value, pair.ratio.value), (low, pair.ratio.low), (high, pair.ratio.high)):
                self.assertAlmostEqual(1, told / right, 3)
            self.assertAlmostEqual(1, figure["guest"] / known.medians["untuned"], 3)

    def test_the_page_has_a_run_of_these_jobs(self):
        data = yaml.safe_load(published.TARGET.read_text(encoding="utf-8"))
        wanted = [
            (job.label, arm)
            for part in published.PARTS.values()
            for job in plugins.jobs(part.jobs)
            for arm in part.arms
        ]
        found = [(one["label"], one["guests"]) for run in data["runs"] for one in run["benchmarks"]]
        self.assertEqual(set(), set(wanted) - set(found))
        for one in (one for run in data["runs"] for one in run["benchmarks"]):
            self.assertIsNotNone(one["figures"][0]["guest"], one["label"])
            self.assertIsNotNone(one["figures"][0]["host"], one["label"])

    def test_the_recorded_run_of_the_report_can_be_read(self):
        with lzma.open(TOP / "doc/source/data/run.json.xz", "rt", encoding="utf-8") as file:
            results = store.from_dict(json.load(file), "run.json.xz")
        self.assertEqual({"host", "tuned", "untuned"}, {trial.arm for trial in results.trials})
