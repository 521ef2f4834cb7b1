# SPDX-License-Identifier: Apache-2.0
"""Each failing case of a loop is reported, and the test fails."""

import testtools

from tests.support import testcase


class Example(testcase.TestCase):
    """Run by the test below only: its method is no test's name."""

    def cases(self):
        for number in range(4):
            with self.subTest(number):
                self.assertEqual(0, number % 2)


class SubTestsTest(testcase.TestCase):
    def test_each_failing_case_is_reported(self):
        example = Example("cases")
        result = testtools.TestResult()
        example.run(result)
        self.assertEqual(1, len(result.failures))
        for number in range(4):
            with self.subTest(number):
                self.assertEqual(bool(number % 2), f"case {number}" in result.failures[0][1])
