# SPDX-License-Identifier: Apache-2.0
"""The smoke tests pass on a cloud that is well, and fail on one that is not; a real one is in tests/cloud."""

import io
import os
import pathlib
import sys
import unittest

import fixtures

from nova_perf_tuning_smoke import test_api, test_guest
from tests.support import openstack_program, patience

TOP = str(pathlib.Path(__file__).parents[3])


class SmokeTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.add_host("compute1")
        for name in [name for name in os.environ if name.startswith("NOVA_PERF_SMOKE_")]:
            self.useFixture(fixtures.EnvironmentVariable(name))
        self.useFixture(fixtures.EnvironmentVariable("OS_CLOUD", "test"))

    def run_tests(self, *cases):
        """Return the result of test classes, and what was said."""
        suite = unittest.TestSuite(
            unittest.defaultTestLoader.loadTestsFromTestCase(case) for case in cases
        )
        output = io.StringIO()
        return unittest.TextTestRunner(stream=output).run(suite), output.getvalue()

    def test_a_cloud_that_is_well(self):
        result, output = self.run_tests(test_api.ValidatorsTest, test_api.ServicesTest)
        self.assertEqual([4, True], [result.testsRun, result.wasSuccessful()], output)
        self.assertEqual({}, self.cloud.flavors)

    def test_an_api_without_the_validators(self):
        self.cloud.checks = False
        result, output = self.run_tests(test_api.ValidatorsTest)
        self.assertEqual([2, []], [len(result.failures), result.errors], output)
        self.assertIn("is nova-perf-tuning installed where nova-api runs", output)
        self.assertEqual({}, self.cloud.flavors)

    def test_a_compute_service_that_is_down(self):
        self.cloud.add_host("compute2", state="down")
        self.cloud.add_host("compute3", state="down", status="disabled")
        result, output = self.run_tests(test_api.ServicesTest)
        self.assertEqual(1, len(result.failures), output)
        self.assertIn("'compute2'", output)
        self.assertNotIn("compute3", output)

    def test_no_guest_without_an_image(self):
        result, output = self.run_tests(test_guest.GuestTest)
        self.assertEqual([3, True], [len(result.skipped), result.wasSuccessful()], output)
        self.assertIn("NOVA_PERF_SMOKE_IMAGE", result.skipped[0][1])

    def run_program(self, *arguments, code):
        """Run the program as an operator does, without the metadata definitions; return what it says."""
        argv = [sys.executable, "-m", "nova_perf_tuning_smoke", *arguments]
        done = patience.run(
            argv, env={"NOVA_PERF_SMOKE_METADEFS": "no", "PYTHONPATH": TOP, **os.environ}
        )
        output = done.stdout + done.stderr
        self.assertEqual(code, done.returncode, output)
        return output

    def test_program_says_what_it_skips(self):
        output = self.run_program(code=0)
        self.assertIn("OK (skipped=4)", output)
        self.assertNotIn("Warning", output)
        for reason in (
            "IMAGE is not set: no guest is started",
            "METADEFS is no: definitions are not wanted",
        ):
            with self.subTest(reason):
                self.assertIn(reason, output)
        self.cloud.checks = False
        self.assertIn("FAILED (failures=2)", self.run_program("-k", "ValidatorsTest", code=1))

    def test_a_cloud_that_cannot_be_used_is_one_line(self):
        self.cloud.admin = False
        (line,) = self.run_program(code=3).splitlines()
        self.assertIn("403", line)
        self.useFixture(fixtures.EnvironmentVariable("OS_CLOUD", "elsewhere"))
        (line,) = self.run_program(code=3).splitlines()
        self.assertIn("elsewhere", line)

    def test_without_openstacksdk_it_says_what_to_install(self):
        self.write_file("openstack.py", "raise ModuleNotFoundError(name='openstack')\n")
        self.useFixture(fixtures.EnvironmentVariable("PYTHONPATH", f"{self.directory}:{TOP}"))
        (line,) = self.run_program(code=3).splitlines()
        self.assertIn("no openstack; install nova-perf-tuning[smoke]", line)
