# SPDX-License-Identifier: Apache-2.0
"""Each code of a reason is produced by the code that is tested, in one of the tests of the modules below."""

import sys
import unittest

from nova_perf_tuning.validation.results import reasons
from tests.support import testcase

#: Below tests.unit.validation: the quickest in which every code is produced.
MODULES = (
    "judge.test_fleet",
    "judge.test_host_results",
    "judge.test_budget_file",
    "judge.test_capacity",
    "judge.test_guards",
    "judge.test_limits",
    "judge.test_noise",
    "judge.test_outputs",
    "judge.test_speeds",
    "judge.test_trial_filter",
    "judge.test_verdict",
    "judge.test_workloads",
    "measure.test_overhead",
    "measure.test_window",
    "report.test_diagnosis",
    "report.test_fleet_diagnosis",
    "store.test_history",
    "report.test_report",
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
        names = [f"tests.unit.validation.{name}" for name in MODULES]
        suite = unittest.defaultTestLoader.loadTestsFromNames(names)
        result = unittest.TestResult()
        codes = self.record()
        examples(suite).run(result)
        self.assertTrue(result.wasSuccessful(), result.failures + result.errors)
        self.assertEqual(set(), set(reasons.ReasonCode) - codes)
