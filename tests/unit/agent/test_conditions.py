# SPDX-License-Identifier: Apache-2.0
"""The conditions of the agent: what is applied, what is degraded, since when."""

import dataclasses
from unittest import mock

from nova_perf_tuning.agent import conditions, findings, metrics
from nova_perf_tuning.cli import status
from nova_perf_tuning.host.transaction import journal
from tests.support import agent_bench, testcase


def judged(**changes):
    """Return status and reason of Applied and of Degraded."""
    values = {"fault": "", "looked": True, "due": None, "settings": 9, "totals": {}}
    values |= {"earlier": [], "now": 0.0}
    both = conditions.judge(**(values | changes))
    return {found["type"]: (found["status"], found["reason"]) for found in both}


class JudgeTest(testcase.TestCase):
    def assert_judged(self, applied, degraded, **changes):
        expected = {"Applied": tuple(applied.split()), "Degraded": tuple(degraded.split())}
        self.assertEqual(expected, judged(**changes))

    def test_each_state_has_its_conditions(self):
        as_expected = "True AsExpected", "False AsExpected"
        self.assert_judged(*as_expected)
        self.assert_judged(*as_expected, due=0)
        self.assert_judged("False Observing", "False AsExpected", due=3)
        self.assert_judged("Unknown Waiting", "Unknown Waiting", looked=False)
        self.assert_judged("False Failed", "True Failed", fault="disk full")
        self.assert_judged("False Failed", "True Failed", fault="no", looked=False)

    def test_each_finding_has_its_conditions(self):
        expected = {
            "not_in_force": ("False NotInForce", "True NotInForce"),
            "written_by_others": ("False WrittenByOthers", "True WrittenByOthers"),
            "irqbalance_without_script": ("True AsExpected", "False IrqbalanceWithoutScript"),
            "competing_daemon": ("True AsExpected", "False CompetingDaemon"),
            "applied_by_person": ("True AsExpected", "False AppliedByPerson"),
        }
        self.assertEqual({code.value for code in findings.AgentFindingCode}, set(expected))
        for code, (applied, degraded) in expected.items():
            self.assert_judged(applied, degraded, totals={code: 1})

    def test_a_fault_hides_a_warning_and_no_warning_a_fault(self):
        totals = {"competing_daemon": 2, "written_by_others": 1}
        self.assert_judged("False WrittenByOthers", "True WrittenByOthers", totals=totals)
        totals = {"competing_daemon": 2}
        self.assert_judged("False Observing", "False CompetingDaemon", totals=totals, due=1)

    def test_a_time_is_that_of_the_last_change_of_the_status(self):
        values = {"fault": "", "looked": True, "due": None, "settings": 9}
        first = conditions.judge(**values, totals={}, earlier=[], now=0.0)
        totals = {"competing_daemon": 1}
        second = conditions.judge(**values, totals=totals, earlier=first, now=60.0)
        totals = {"not_in_force": 1}
        third = conditions.judge(**values, totals=totals, earlier=second, now=120.0)
        times = []
        for both in (first, second, third):
            times.append([found["lastTransitionTime"] for found in both])
        begin, end = "1970-01-01T00:00:00Z", "1970-01-01T00:02:00Z"
        self.assertEqual([[begin] * 2, [begin] * 2, [end] * 2], times)


class AgentTest(agent_bench.LoopCase):
    def shown(self, agent):
        """Return type, status and reason as the state file, the metrics and the command have them."""
        state, _facts = agent.snapshot
        reasons = {found["type"]: found["reason"] for found in state.conditions}
        of_state = {found["type"]: found["status"] for found in state.conditions}
        of_metrics = {}
        for family in metrics.MetricsCollector(agent).collect():
            if family.name != "nova_perf_condition":
                continue
            self.assertEqual(6, len(family.samples))
            for sample in family.samples:
                if sample.value:
                    of_metrics[sample.labels["condition"]] = sample.labels["status"]
        self.assertEqual(of_state, of_metrics)
        lines = "\n".join(status.agent_lines(dataclasses.replace(state, age_s=0.0)))
        for kind, value in of_state.items():
            self.assertIn(f"agent: {kind}: {value} since ", lines)
        return {kind: (value, reasons[kind]) for kind, value in of_state.items()}

    def test_a_host_is_applied_then_degraded_then_applied_again(self):
        good = {"Applied": ("True", "AsExpected"), "Degraded": ("False", "AsExpected")}
        agent = self.serve()
        self.assertEqual(good, self.shown(agent))
        self.host.takes_writes = False
        self.host.vectors[self.nic_vectors()[0]].affinity = "7"
        agent.make_pass({"look"})
        bad = {"Applied": ("False", "NotInForce"), "Degraded": ("True", "NotInForce")}
        self.assertEqual(bad, self.shown(agent))
        self.host.takes_writes = True
        self.reconciler.retry_refused()
        agent.make_pass({"look"})
        self.assertEqual(good, self.shown(agent))

    def test_a_first_pass_that_is_put_off_leaves_them_unknown(self):
        busy = journal.BusyError("process 1 is changing this host")
        with mock.patch.object(self.reconciler.journal, "writing", side_effect=busy):
            agent = self.serve()
        unknown = ("Unknown", "Waiting")
        self.assertEqual({"Applied": unknown, "Degraded": unknown}, self.shown(agent))

    def test_a_pass_that_fails_degrades_it(self):
        agent = self.serve()
        full = OSError(28, "No space left on device")
        with mock.patch.object(self.reconciler.journal, "writing", side_effect=full):
            agent.make_pass({"look"})
        failed = {"Applied": ("False", "Failed"), "Degraded": ("True", "Failed")}
        self.assertEqual(failed, self.shown(agent))
