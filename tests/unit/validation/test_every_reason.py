# SPDX-License-Identifier: Apache-2.0
"""Each code of a reason is produced by the code that is tested, in one of the tests of the classes below."""

import sys
import unittest

from nova_perf_tuning.validation.results import reasons
from tests.support import testcase

#: Below tests.unit.validation: the quickest in which every code is produced, the longest last.
CLASSES = (
    "judge.test_budget_file.ApplicableTest",
    "judge.test_budget_file.ShippedTest",
    "judge.test_capacity.CapacityTest",
    "judge.test_fleet.BudgetTest",
    "judge.test_fleet.LostTrialsTest",
    "judge.test_fleet.OrderOfPassesTest",
    "judge.test_guards.GuardTest",
    "judge.test_host_results.ReadTest",
    "judge.test_limits.IntervalTest",
    "judge.test_limits.WorstRunTest",
    "judge.test_noise.NoiseTest",
    "judge.test_outputs.WelchTest",
    "judge.test_verdict.JudgeTest",
    "judge.test_workloads.FaultTest",
    "measure.test_window.NoteTest",
    "report.test_diagnosis.DiagnosisTest",
    "report.test_report.ReportTest",
    "report.test_fleet_diagnosis.FleetDiagnosisTest",
    "judge.test_outputs.FilesTest",
    "measure.test_overhead.CostTest",
    "store.test_history.HistoryTest",
)
#: What makes a reason of a code that somebody else gives.
_MAKERS = (reasons.__file__, "dataclasses.py", "<string>")


def examples(suite: unittest.TestSuite) -> unittest.TestSuite:
    """Return the tests of a suite but for properties, which hypothesis lets nobody run from a second place."""
    kept = unittest.TestSuite()
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            kept.addTest(examples(test))
            continue
        method = getattr(test, test.id().rpartition(".")[2], None)
        if not getattr(method, "is_hypothesis_test", False):
            kept.addTest(test)
    return kept


class UntilAll(unittest.TestResult):
    """Ends the tests when they have produced every code."""

    def __init__(self, codes: set[reasons.ReasonCode]) -> None:
        super().__init__()
        self._codes = codes

    def stopTest(self, test: unittest.TestCase) -> None:
        super().stopTest(test)
        if self._codes >= set(reasons.ReasonCode):
            self.stop()


class EveryReasonTest(testcase.TestCase):
    def record(self) -> set[reasons.ReasonCode]:
        """Return a set to which the codes of reasons are added that the product makes; not those of a test."""
        codes: set[reasons.ReasonCode] = set()
        make = reasons.Reason.__init__

        def recording(reason: reasons.Reason, *arguments: object, **named: object) -> None:
            make(reason, *arguments, **named)
            frame = sys._getframe(1)
            while frame.f_code.co_filename.endswith(_MAKERS) and frame.f_back is not None:
                frame = frame.f_back
            if frame.f_globals["__name__"].startswith("nova_perf_tuning."):
                codes.add(reason.code)

        self.patch(reasons.Reason, "__init__", recording)
        return codes

    def test_no_code_is_without_a_case(self) -> None:
        names = [f"tests.unit.validation.{name}" for name in CLASSES]
        suite = unittest.defaultTestLoader.loadTestsFromNames(names)
        codes = self.record()
        result = UntilAll(codes)
        examples(suite).run(result)
        self.assertTrue(result.wasSuccessful(), result.failures + result.errors)
        self.assertEqual(set(), set(reasons.ReasonCode) - codes)
