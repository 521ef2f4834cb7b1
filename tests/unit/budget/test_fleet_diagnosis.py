"""The verdict on many hosts in one sentence."""

import testtools

from nova_perf_tuning.budget import budget_file, fleet_diagnosis, model, report, summary
from nova_perf_tuning.cloud import fleet_file
from tests.unit.budget import samples
from tests.unit.cloud import test_fleet_file

BENCHMARKS = {"cpu": {"kind": "cpu"}, "iperf3:streams=2": {"kind": "iperf3"}, "fio": {"kind": "fio"}}


def told(*hosts, **fleet):
    """Return what is said of hosts, each (verdict, reasons)."""
    rows = [{"host": f"c{place}", "verdict": word, "reasons": why} for place, (word, *why) in enumerate(hosts)]
    return fleet_diagnosis.diagnose({"benchmarks": BENCHMARKS, "fleet": {"hosts": rows, **fleet}})


GOOD = ("PASS",)
LOSS = "iperf3:streams=2: loss 60.0% (95% interval 55.0% to 65.0%) is beyond a loss of 15.0%"


class FleetDiagnosisTest(testtools.TestCase):
    def test_nothing_was_judged(self):
        self.assertIsNone(told((None,), (None,)))

    def test_all_pass(self):
        self.assertEqual("PASS: all 2 hosts are as good as asked for.", told(GOOD, GOOD).sentence)
        self.assertIn("1 of 2 hosts are as good as asked for; of the others nothing", told(GOOD, (None,)).sentence)

    def test_a_failing_host_is_named_with_what_it_lost(self):
        found = told(GOOD, ("FAIL", LOSS), ("INVALID", "no pair of it gave a result"))
        self.assertEqual(f"FAIL: 1 of 3 hosts fails: c1 (c1: {LOSS}). It points at the network.", found.sentence)
        self.assertEqual("network", found.culprit)
        self.assertIn("rate limit", found.actions[0])
        self.assertIn("--disable-on-fail", found.actions[-1])

    def test_what_is_not_certain_points_at_nothing(self):
        undecided = f"{LOSS.replace('iperf3:streams=2', 'cpu')}; but 2 figures are judged together, and after"
        found = told(("FAIL", f"{undecided} Holm's correction for them it is not certain", LOSS), GOOD)
        self.assertEqual("network", found.culprit)

    def test_what_a_host_pays_is_no_loss(self):
        cost = "fio: service CPU per 1,000 IO 0.2 s (95% interval 0.1 s to 0.3 s) is beyond 0.01 s"
        self.assertEqual("host CPU", told(("FAIL", cost), GOOD).culprit)

    def test_against_others(self):
        worse = "cpu (tuned): worse than the other hosts by 30% in all its 3 pairs"
        self.assertEqual("CPU", told(("FAIL", worse), GOOD, GOOD).culprit)

    def test_a_thousand_hosts_are_not_all_named(self):
        sentence = told(*[("INCONCLUSIVE", "fio: too few boots")] * 1000).sentence
        self.assertIn("1000 of 1000 hosts are undecided: c0, c1, c2, c3, c4 and 995 more (c0: fio: too", sentence)

    def test_what_could_not_be_judged_has_advice(self):
        row = {
            "host": "c0",
            "verdict": "INVALID",
            "reasons": ["fio: arm 'host' was not measured"],
            "codes": ["no_arm"],
        }
        found = fleet_diagnosis.diagnose({"fleet": {"hosts": [row]}})
        self.assertEqual("INVALID: 1 of 1 hosts cannot be judged: c0", found.sentence.partition(" (")[0])
        self.assertIn("Name in the budget what was measured", found.actions[0])
        self.assertTrue(all(told(("INVALID",)).actions))

    def test_whoever_is_to_blame_comes_first(self):
        own = f"iperf3: 12 of 12 trials of 'tuned' failed (limit 20%); {fleet_diagnosis.OWN_FAULT}"
        found = told(("INVALID", "iperf3: 3 of 12 trials of 'tuned' failed (limit 20%)"), ("INVALID", own), GOOD)
        self.assertIn(f"2 of 3 hosts cannot be judged: c1, c0 (c1: {own}).", found.sentence)
        self.assertIn("See what became of these trials", found.actions[0])

    def test_paths_between_good_hosts(self):
        self.assertIn("paths", told(GOOD, GOOD, bad_pairs=[{"client": "c0"}]).actions[-1])

    def test_a_report_says_it(self):
        budgets = [budget_file.Budget("iperf3", "tuned", 0.15, baseline="untuned")]
        data, _ = fleet_file.judged_again(test_fleet_file.ring(), budgets)
        summaries = summary.summarise(data)
        self.assertIn("PASS: all 4 hosts are as good", report.as_json(data, summaries, [])["headline"])
        self.assertIn("PASS: all 4 hosts are as good", report.render(data, summaries, []))
        self.assertIn("As recorded: PASS: all 4", report.render(data, summaries, [], recorded=True))
        alone = model.Results({}, samples.results({"untuned": 1.0, "tuned": 1.0}).trials)
        self.assertNotIn("hosts are as good", report.render(alone, summary.summarise(alone), []))
