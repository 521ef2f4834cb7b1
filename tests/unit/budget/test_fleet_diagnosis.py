"""The verdict on many hosts in one sentence."""

import testtools

from nova_perf_tuning.budget import budget_file, fleet_diagnosis, model, report, summary
from nova_perf_tuning.cloud import fleet
from tests.unit.budget import samples
from tests.unit.cloud import test_fleet

BENCHMARKS = {"cpu": {"kind": "cpu"}, "iperf3:streams=2": {"kind": "iperf3"}, "fio": {"kind": "fio"}}


def detail(word, *codes, benchmark="", figure=""):
    return {"verdict": word, "codes": codes, "benchmark": benchmark, "figure": figure}


def told(*hosts, **fleet):
    """Return what is said of hosts, each (verdict, details)."""
    rows = [
        {"host": f"c{place}", "verdict": word, "reasons": [f"why {place}"], "details": details}
        for place, (word, *details) in enumerate(hosts)
    ]
    return fleet_diagnosis.diagnose({"benchmarks": BENCHMARKS, "fleet": {"hosts": rows, **fleet}})


GOOD = ("PASS",)
LOSS = detail("FAIL", "host_beyond", benchmark="iperf3:streams=2", figure="loss")


class FleetDiagnosisTest(testtools.TestCase):
    def test_nothing_was_judged(self):
        self.assertIsNone(told((None,), (None,)))

    def test_all_pass(self):
        self.assertEqual("PASS: all 2 hosts are as good as asked for.", told(GOOD, GOOD).sentence)
        self.assertIn("1 of 2 hosts are as good as asked for; of the others nothing", told(GOOD, (None,)).sentence)

    def test_a_failing_host_is_named_with_what_it_lost(self):
        found = told(GOOD, ("FAIL", LOSS), ("INVALID", detail("INVALID", "no_result")))
        self.assertEqual("FAIL: 1 of 3 hosts fails: c1 (c1: why 1). It points at the network.", found.sentence)
        self.assertEqual("network", found.culprit)
        self.assertIn("rate limit", found.actions[0])
        self.assertIn("--disable-on-fail", found.actions[-1])

    def test_what_it_points_at(self):
        open_loss = detail("INCONCLUSIVE", "budget", "beyond", "holm", benchmark="cpu", figure="loss")
        cost = detail("FAIL", "budget", "beyond", benchmark="fio", figure="cpu")
        for details, culprit in (
            ([open_loss, LOSS], "network"),
            ([cost], "host CPU"),
            ([detail("FAIL", "slow", benchmark="cpu")], "CPU"),
            ([detail("FAIL", "slow", benchmark="unheard of")], ""),
            ([], ""),
        ):
            self.assertEqual(culprit, told(("FAIL", *details), GOOD, GOOD).culprit, details)

    def test_a_thousand_hosts_are_not_all_named(self):
        sentence = told(*[("INCONCLUSIVE",)] * 1000).sentence
        self.assertIn("1000 of 1000 hosts are undecided: c0, c1, c2, c3, c4 and 995 more (c0: why 0", sentence)

    def test_what_could_not_be_judged_has_advice(self):
        found = told(("INVALID", detail("INVALID", "budget", "no_arm", benchmark="fio")))
        self.assertEqual("INVALID: 1 of 1 hosts cannot be judged: c0", found.sentence.partition(" (")[0])
        self.assertIn("Correct the budget", found.actions[0])
        self.assertTrue(all(told(("INVALID",)).actions))

    def test_a_report_says_it(self):
        budgets = [budget_file.Budget("iperf3", "tuned", 0.15, baseline="untuned")]
        data, _ = fleet.judge(test_fleet.ring(), budgets)
        summaries = summary.summarise(data)
        self.assertIn("PASS: all 4 hosts are as good", report.as_json(data, summaries, [])["headline"])
        self.assertIn("PASS: all 4 hosts are as good", report.render(data, summaries, []))
        self.assertIn("As recorded: PASS: all 4", report.render(data, summaries, [], recorded=True))
        alone = model.Results({}, samples.results({"untuned": 1.0, "tuned": 1.0}).trials)
        self.assertNotIn("hosts are as good", report.render(alone, summary.summarise(alone), []))
