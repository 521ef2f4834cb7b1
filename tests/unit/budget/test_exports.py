"""Forms that other programs read: valid whatever the results say, and with the right figures in them."""

import csv
import io
import re
from xml.etree import ElementTree

import testtools

from nova_perf_tuning.budget import budget_file, exports, summary, verdict
from tests.unit.budget import samples

HOSTILE = "=cmd|'/c calc'!A1\x00\x1b\ufffe\"\\\n<&]]>"

SAMPLE = re.compile(
    r'nova_perf_[a-z_]+(\{([a-z_]+="([^"\\\n]|\\["\\n])*",)*[a-z_]+="([^"\\\n]|\\["\\n])*"\})? [-+.e0-9]+'
)


def judged(results):
    budgets = [
        budget_file.Budget("iperf3", "tuned", 0.9),
        budget_file.Budget("iperf3", "tuned", 0.01),
        budget_file.Budget("iperf3", "tuned", 0.4),
        budget_file.Budget("none", "tuned", 0.1),
    ]
    return verdict.judge_all(results, budgets)


class ExportsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        created = {"created": "2026-11-20T10:00:00+00:00", "host": HOSTILE}
        self.data = samples.results({"host": 1000.0, "tuned": 600.0}, groups=4, **created)
        self.data.trials.append(samples.trial(arm="tuned", group=4, value=None, error=HOSTILE, order=99))

    def test_junit(self):
        suite = ElementTree.fromstring(exports.junit(self.data, judged(self.data)))
        counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
        self.assertEqual({"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}, counts)
        self.assertEqual("2026-11-20T10:00:00", suite.get("timestamp"))
        outcomes = [[part.tag for part in case if part.tag != "system-out"] for case in suite]
        self.assertEqual([[], ["failure"], ["skipped"], ["error"]], outcomes)
        self.assertIn("FAIL: loss 4", suite[1].find("failure").get("message"))
        self.assertEqual("nova_perf.iperf3", suite[0].get("classname"))

    def test_junit_of_nothing_judged_is_an_error(self):
        """CI programs show a suite without test cases as passed."""
        suite = ElementTree.fromstring(exports.junit(self.data, [], "no budget was given"))
        self.assertEqual(("1", "1"), (suite.get("tests"), suite.get("errors")))
        self.assertIn("no budget was given", suite[0].find("error").get("message"))

    def test_findings_of_guests(self):
        told = ["client: its clock source is hpet", "server: vda: 4 queues were asked for, the disk has 1"]
        self.data.environment["arms"] = {
            "tuned": {"findings": [{"code": "disk_queues", "text": line} for line in told]},
            "untuned": {"virtualization": "kvm"},
            "x": {},
        }
        for case in ElementTree.fromstring(exports.junit(self.data, judged(self.data))):
            self.assertIn(f"warning: guests of tuned: {told[0]}\n", case.find("system-out").text)
            self.assertIn(f"warning: guests of tuned: {told[1]}", case.find("system-out").text)
        text = exports.prometheus(self.data, [], [])
        lines = [line.split('arm="')[1] for line in text.splitlines() if "guest_findings{" in line]
        self.assertEqual(['tuned"} 2.0', 'untuned"} 0.0'], lines)

    def test_csv(self):
        rows = list(csv.DictReader(io.StringIO(exports.table(self.data, {}))))
        self.assertEqual(len(self.data.trials), len(rows))
        self.assertEqual(self.data.trials[1].value, float(rows[1]["value"]))
        self.assertEqual("4.0", rows[1]["host_cpu_s_vcpu"])
        self.assertEqual("", rows[-1]["value"])
        self.assertTrue(rows[-1]["error"].startswith("'=cmd"), "no spreadsheet takes it for a formula")
        self.assertTrue(rows[-1]["error"].isprintable(), "no terminal takes it for a command")

    def test_prometheus(self):
        text = exports.prometheus(self.data, summary.summarise(self.data), judged(self.data))
        samples_ = [line for line in text.splitlines() if not line.startswith("#")]
        for line in samples_:
            self.assertTrue(SAMPLE.fullmatch(line), line)
        self.assertEqual(len(samples_), len(set(samples_)))
        types = [line for line in text.splitlines() if line.startswith("# TYPE")]
        self.assertEqual(len(types), len(set(types)), "samples of a metric stand together")
        verdicts = [
            line for line in samples_ if line.startswith("nova_perf_budget_verdict") and line.endswith(" 1.0")
        ]
        self.assertEqual(4, len(verdicts))
        self.assertIn("nova_perf_run_timestamp_seconds", text)
        self.assertTrue(text.endswith("\n"))

    def test_no_two_samples_have_the_same_labels(self):
        """The textfile collector refuses the whole file otherwise."""
        self.data.trials.append(samples.trial(arm="\x1b", order=101))
        self.data.trials.append(samples.trial(arm="\x07", value=5.0, order=102))
        budgets = [
            budget_file.Budget("iperf3", "tuned", 0.9),
            budget_file.Budget("iperf3", "tuned", 0.01),
            budget_file.Budget("iperf3", "tuned", 0.9, max_host_cpu_per_unit=1e-9),
            budget_file.Budget("iperf3", "\x1b", 0.9),
            budget_file.Budget("iperf3", "\x07", 0.9),
        ]
        found = verdict.judge_all(self.data, budgets)
        text = exports.prometheus(self.data, summary.summarise(self.data), found)
        names = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(names), len(set(names)))
        for limit, word in (('0.9"', "PASS"), ('0.01"', "FAIL"), ('0.9",max_host_cpu_per_unit="1e-09"', "FAIL")):
            self.assertIn(f'arm="tuned",baseline="host",max_loss="{limit},verdict="{word}"}} 1.0', text)

    def test_hosts_of_a_fleet(self):
        hosts = [
            {"host": "one", "verdict": "PASS", "reasons": [], "peers": 2, "measured": 2},
            {"host": "two", "verdict": "FAIL", "reasons": ["loses with all peers"], "peers": 2, "measured": 2},
            {"host": "three", "verdict": None, "reasons": [], "peers": 2, "measured": 0},
        ]
        self.data.environment["fleet"] = {"run": "r", "verdict": "FAIL", "hosts": hosts, "pairs": []}
        suite = ElementTree.fromstring(exports.junit(self.data, []))
        self.assertEqual(("2", "1"), (suite.get("tests"), suite.get("failures")))
        self.assertEqual(["one", "two"], [case.get("name") for case in suite])
        text = exports.prometheus(self.data, [], [])
        self.assertIn('nova_perf_host_verdict{host="two",verdict="FAIL"} 1.0', text)
        self.assertIn('nova_perf_host_verdict{host="one",verdict="FAIL"} 0.0', text)
        suite = ElementTree.fromstring(exports.junit(self.data, [], recorded=True))
        self.assertEqual("nova_perf.recorded_host", suite[0].get("classname"))
        text = exports.prometheus(self.data, [], [], recorded=True)
        self.assertIn('nova_perf_host_recorded_verdict{host="one",verdict="PASS"} 1.0', text)
        self.assertNotIn("nova_perf_host_verdict", text)
