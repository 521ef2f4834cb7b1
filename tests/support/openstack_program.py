# SPDX-License-Identifier: Apache-2.0
"""Runs the real ``openstack`` program of python-openstackclient in this process, on clouds of a test."""

import contextlib
import dataclasses
import io
import json
import logging
import os

import fixtures
from openstackclient import shell

from tests.support import api_server, directories


@dataclasses.dataclass
class Done:
    """What a run of the program printed and ended with."""

    code: int
    out: str
    err: str

    @property
    def data(self):
        """The output of ``-f json``."""
        return json.loads(self.out)


def run(*arguments):
    """Run ``openstack`` with ``arguments`` in this process, which has it imported after the first time."""
    out, err = io.StringIO(), io.StringIO()
    root = logging.getLogger("")
    handlers, level = root.handlers[:], root.level
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = shell.OpenStackShell().run(list(arguments))
            except SystemExit as stop:
                code = stop.code
    finally:
        root.handlers, root.level = handlers, level
    return Done(code, out.getvalue(), err.getvalue())


class ProgramTestCase(directories.DirectoryCase):
    """Has a cloud ``test`` in clouds.yaml: all services on loopback, an administrator that is let in."""

    def setUp(self):
        super().setUp()
        self.cloud = self.useFixture(api_server.ApiServer())
        # Its name in messages, and no terminal to ask for a password.
        self.useFixture(fixtures.MonkeyPatch("cliff.app.App.NAME", "openstack"))
        self.useFixture(fixtures.MonkeyPatch("sys.stdin", io.StringIO()))
        for name in [name for name in os.environ if name.startswith("OS_")]:
            self.useFixture(fixtures.EnvironmentVariable(name))
        self.useFixture(
            fixtures.EnvironmentVariable("OS_CLIENT_CONFIG_FILE", f"{self.directory}/clouds.yaml")
        )
        self.useFixture(fixtures.EnvironmentVariable("HOME", str(self.directory)))
        self.write_clouds()

    def write_clouds(self, password="secret", url=None, **settings):
        """Write clouds.yaml with the one cloud ``test``."""
        auth = {
            "auth_url": (url or self.cloud.url) + "/identity/v3",
            "username": "somebody",
            "password": password,
            "project_name": "project",
            "user_domain_id": "default",
            "project_domain_id": "default",
        }
        clouds = {"clouds": {"test": {"auth": auth, "region_name": "RegionOne", **settings}}}
        self.write_file("clouds.yaml", json.dumps(clouds))

    def run_openstack(self, *arguments):
        """Run ``openstack --os-cloud test`` with ``arguments``."""
        return run("--os-cloud", "test", *arguments)

    def perf(self, *arguments):
        """Run a command that must succeed without a word on stderr; return the data of its JSON output."""
        done = self.run_openstack("perf", *arguments, "-f", "json")
        self.assertEqual(["", 0], [done.err, done.code], done.out)
        return done.data

    def refused(self, *arguments, code=3):
        """Run a command that must fail with one line and nothing else; return the line."""
        done = self.run_openstack("perf", *arguments)
        self.assertEqual(["", code], [done.out, done.code], done.err)
        self.assertEqual(1, len(done.err.splitlines()), done.err)
        self.assertTrue(done.err.startswith(f"openstack perf {arguments[0]}"), done.err)
        return done.err
