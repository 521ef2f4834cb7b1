# SPDX-License-Identifier: Apache-2.0
"""What goes wrong between the commands and a cloud: one line, exit code 3, no traceback."""

import json
import os

import fixtures

from nova_perf_tuning.placement import api
from tests.support import api_server, openstack_program

HTML = b"<html><head><title>503</title></head><body><h1>Service\n Unavailable</h1>no\x1b[2Jserver</body></html>"


class FaultTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.cloud.add_flavor("f")
        self.cloud.add_host("cmp1")

    def test_wrong_password(self):
        self.write_clouds(password="wrong")
        for arguments in (["flavor", "list"], ["host", "list"]):
            with self.subTest(arguments):
                line = self.refused(*arguments)
                self.assertIn("401", line)
                self.assertNotIn("wrong", line)

    def test_no_credentials(self):
        os.unlink(f"{self.directory}/clouds.yaml")
        done = openstack_program.run("perf", "flavor", "list")
        self.assertEqual(["", 3, 1], [done.out, done.code, len(done.err.splitlines())], done.err)
        self.assertIn("auth-url", done.err)

    def test_no_such_service_in_the_catalog(self):
        self.cloud.without = ("placement",)
        self.assertIn("placement", self.refused("host", "list"))
        self.cloud.without = ("image",)
        self.assertIn("image", self.refused("image", "check", "i"))

    def test_unavailable_for_a_moment_is_bridged(self):
        self.cloud.faults = [
            ("GET", "/flavors/detail", api_server.Answer(503, HTML, "text/html"))
        ] * 2
        self.assertEqual(["f"], [row["Name"] for row in self.perf("flavor", "list", "--all")])

    def test_what_stays_so_is_one_line(self):
        failed = api_server.nova_error(
            500, "computeFault", "Unexpected API Error.\nPlease report this."
        )
        for answer, words in (
            (api_server.Answer(503, HTML, "text/html"), ("503",)),
            (failed, ("500", "Unexpected API Error. Please report", self.cloud.url)),
            (api_server.Answer(200, b"<html>hello", "text/html"), ()),
        ):
            with self.subTest(answer):
                self.cloud.faults = [("GET", "/flavors/detail", answer)] * 9
                line = self.refused("flavor", "list")
                self.assertTrue(all(word in line for word in words), line)
                self.assertNotIn("\x1b", line)
        self.write_clouds(url="http://127.0.0.1:1")
        line = self.refused("flavor", "list")
        self.assertIn("Unable to establish connection to http://127.0.0.1:1/identity/v3", line)

    def test_a_service_that_never_answers(self):
        self.write_clouds(api_timeout=0.2)
        self.cloud.faults = [("GET", "/flavors/detail", None)] * 9
        for _ in range(100):
            line = self.refused("flavor", "list")
            if len(self.cloud.faults) < 9:  # else Keystone was not so fast, and Nova not asked
                break
        self.assertIn("timed out", line)

    def test_a_keystone_that_never_answers(self):
        """The same by clouds.yaml and by OS_*, of which openstacksdk makes a cloud of another kind."""
        self.useFixture(
            fixtures.MockPatchObject(api, "DEFAULTS", {**api.DEFAULTS, "api_timeout": 0.2})
        )
        self.cloud.faults = [(method, "^/identity", None) for method in ("GET", "POST")] * 9
        self.assertIn("timed out", self.refused("flavor", "list"))
        self.by_variables()
        done = openstack_program.run("perf", "flavor", "list")
        self.assertEqual(3, done.code, done.err)
        self.assertIn("timed out", done.err)

    def by_variables(self):
        """Have the cloud in OS_* instead of clouds.yaml."""
        path = self.directory / "clouds.yaml"
        cloud = json.loads(path.read_text())["clouds"]["test"]
        for name, value in {**cloud["auth"], "region_name": cloud["region_name"]}.items():
            self.useFixture(fixtures.EnvironmentVariable(f"OS_{name.upper()}", value))
        path.unlink()

    def test_no_admin_rights(self):
        self.cloud.admin = False
        for arguments in (
            ["host", "list"],
            ["host", "show", "cmp1"],
            ["publish", "--withdraw", "--host", "cmp1"],
            ["flavor", "create", "g", "--vcpus", "1", "--ram", "64"],
            ["flavor", "set", "f", "--spec", "perf:iothreads=1"],
        ):
            with self.subTest(arguments):
                line = self.refused(*arguments)
                self.assertIn("403", line)
