# SPDX-License-Identifier: Apache-2.0
"""The verdict on many hosts in one sentence."""

from nova_perf_tuning.validation.judge import budget_file, fleet
from nova_perf_tuning.validation.report import diagnosis, report, summary
from nova_perf_tuning.validation.results import messages, reasons
from tests.support import samples, testcase

C = reasons.ReasonCode
GOOD = ("PASS",)


def output(*hosts):
    """Return what is said of hosts, each (verdict, code of its reason)."""
    rows = []
    for place, (word, *codes) in enumerate(hosts):
        details = [{"verdict": word, "codes": codes, "benchmark": "", "figure": ""}]
        row = {
            "host": f"c{place}",
            "verdict": word,
            "reasons": [f"why {place}"],
            "peers": 1,
            "measured": 1,
        }
        rows.append({**row, "details": details})
    return diagnosis.diagnose(samples.of([], fleet={"hosts": rows}), [])


class FleetDiagnosisTest(testcase.TestCase):
    def test_each_outcome_has_one_action(self):
        self.assertIsNone(output((None,), (None,)))
        for hosts, deciding, action in (
            ((GOOD, (None,)), "PASS: 1 of 2 hosts are as good as asked for.", C.PUBLISH),
            (
                (GOOD, ("FAIL", "slow"), ("INVALID",)),
                "FAIL: 1 of 3 hosts: c1 (c1: why 1).",
                C.DISABLE_HOSTS,
            ),
            ([("INCONCLUSIVE",)] * 1000, "and 980 more (c0: why 0).", C.MORE_PEERS),
            ((("INVALID", "no_arm"),), "INVALID: 1 of 1 hosts: c0 (c0: why 0).", C.CORRECT_BUDGET),
            ((("INVALID", "no_result"),), "INVALID: 1 of 1 hosts: c0 (c0: why 0).", C.SEE_TRIALS),
        ):
            with self.subTest(hosts):
                found = output(*hosts)
                self.assertTrue(messages.of(found.headline).endswith(deciding), found)
                self.assertEqual([action], [advice.code for advice in found.actions])

    def test_what_slow_hosts_point_at(self):
        for labels, culprit, action in (
            (("fio", "cpu"), "CPU", C.CHECK_CPU),
            (("fio",), "disk", C.CHECK_DISK),
        ):
            detail = {"verdict": "FAIL", "codes": ["slow"], "figure": ""}
            host = {"host": "a", "verdict": "FAIL", "reasons": ["why"], "peers": 1, "measured": 1}
            host["details"] = [{**detail, "benchmark": label} for label in labels]
            kinds = {label: {"kind": label} for label in labels}
            found = diagnosis.diagnose(
                samples.of([], fleet={"hosts": [host]}, benchmarks=kinds), []
            )
            self.assertEqual((culprit, action), (found.culprit, found.actions[-1].code))

    def test_a_report_says_it(self):
        budgets = [budget_file.Budget("iperf3", "tuned", 0.15, baseline="untuned")]
        data, _ = fleet.judge(samples.fleet(), budgets)
        summaries = summary.summarise(data)
        self.assertIn(
            "PASS: 6 of 6 hosts are as good", report.as_json(data, summaries, [])["headline"]
        )
        self.assertIn(
            "As recorded: PASS: 6 of 6", report.render(data, summaries, [], recorded=True)
        )
        alone = samples.of(samples.results({"untuned": 1.0, "tuned": 1.0}).trials)
        self.assertNotIn("hosts are as good", report.render(alone, summary.summarise(alone), []))
