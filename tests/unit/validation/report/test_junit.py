# SPDX-License-Identifier: Apache-2.0
"""JUnit XML: valid whatever the results say, and with the right verdicts in it."""

from xml.etree import ElementTree

from nova_perf_tuning.validation.judge import budget_file, verdict
from nova_perf_tuning.validation.report import junit
from tests.support import samples, testcase

HOSTILE = "=cmd|'/c calc'!A1\x00\x1b\ufffe\"\\\n<&]]>"


def judged(results):
    budgets = [budget_file.Budget("iperf3", "tuned", max_loss) for max_loss in (0.9, 0.01, 0.4)]
    budgets.append(budget_file.Budget("none", "tuned", 0.1))
    return verdict.judge_all(results, budgets)


class JunitTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        created = {"created": "2026-11-20T10:00:00+00:00", "host": HOSTILE}
        self.data = samples.results({"host": 1000.0, "tuned": 600.0}, boots=4, **created)
        self.data.trials.append(
            samples.trial(arm="tuned", boot=4, value=None, error=HOSTILE, order=99)
        )

    def test_each_verdict_has_its_junit_outcome(self):
        suite = ElementTree.fromstring(junit.junit(self.data, judged(self.data)))
        counts = {name: suite.get(name) for name in ("tests", "failures", "errors", "skipped")}
        self.assertEqual({"tests": "4", "failures": "1", "errors": "1", "skipped": "1"}, counts)
        self.assertEqual("2026-11-20T10:00:00", suite.get("timestamp"))
        outcomes = [[part.tag for part in case if part.tag != "system-out"] for case in suite]
        self.assertEqual([[], ["failure"], ["skipped"], ["error"]], outcomes)
        self.assertIn("FAIL: -4", suite[1].find("failure").get("message"))
        self.assertEqual("nova_perf.iperf3", suite[0].get("classname"))

    def test_junit_of_nothing_judged_is_an_error(self):
        """CI programs show a suite without test cases as passed."""
        suite = ElementTree.fromstring(junit.junit(self.data, [], "no budget was given"))
        self.assertEqual(("1", "1"), (suite.get("tests"), suite.get("errors")))
        self.assertIn("no budget was given", suite[0].find("error").get("message"))

    def test_findings_of_guests(self):
        output = [
            "client: its clock source is hpet",
            "server: vda: 4 queues were asked for, the disk has 1",
        ]
        findings = [{"code": "disk_queues", "text": line} for line in output]
        samples.tell(
            self.data, arms={"tuned": {"findings": findings}, "untuned": {"virtualization": "kvm"}}
        )
        for case in ElementTree.fromstring(junit.junit(self.data, judged(self.data))):
            self.assertIn(f"warning: guests of tuned: {output[0]}\n", case.find("system-out").text)
            self.assertIn(f"warning: guests of tuned: {output[1]}", case.find("system-out").text)

    def test_hosts_of_a_fleet(self):
        hosts = [
            {"host": "one", "verdict": "PASS", "reasons": [], "peers": 2, "measured": 2},
            {
                "host": "two",
                "verdict": "FAIL",
                "reasons": ["loses with all peers"],
                "peers": 2,
                "measured": 2,
            },
            {"host": "three", "verdict": None, "reasons": [], "peers": 2, "measured": 0},
        ]
        samples.tell(self.data, fleet={"run": "r", "verdict": "FAIL", "hosts": hosts, "pairs": []})
        suite = ElementTree.fromstring(junit.junit(self.data, []))
        self.assertEqual(("2", "1"), (suite.get("tests"), suite.get("failures")))
        self.assertEqual(["one", "two"], [case.get("name") for case in suite])

    def test_no_text_holds_what_a_terminal_would_obey(self):
        """C1 controls and characters that turn the direction of writing are characters of XML."""
        evil = "h\x9b2J\u202e\u200b\x1b\x00\r\ud800\tx"
        hosts = [
            {"host": evil, "verdict": "FAIL", "reasons": [evil], "peers": 2, "measured": 2},
        ]
        fleet = {"run": "r", "verdict": "FAIL", "hosts": hosts, "pairs": []}
        samples.tell(self.data, host=evil, fleet=fleet)
        written = junit.junit(self.data, [])
        plain = written.replace("\n", "").replace("\t", "")
        self.assertTrue(plain.isprintable(), written)
        suite = ElementTree.fromstring(written)
        self.assertEqual("h?2J??????\tx", suite[0].get("name"))
