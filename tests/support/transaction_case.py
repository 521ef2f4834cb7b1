# SPDX-License-Identifier: Apache-2.0
"""Runs ``nova-perf`` commands in this process on a generated host of their own."""

import json
import os
import pathlib

from tests.support import program, sysroots, testcase


class TransactionCase(testcase.TestCase):
    """A tiny generated host below ``self.root``; its journal lies in it."""

    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.state = os.path.join(self.root, "var/lib/nova-perf-tuning")

    def run_command(self, *arguments, sysroot=True):
        """Return (exit code, stdout, stderr) of ``nova-perf ARGUMENTS``."""
        return program.run(*arguments, *(["--sysroot", self.root] if sysroot else []))

    def run_json(self, *arguments, code=0):
        """Return the JSON document of a command that ends with ``code``."""
        exit_code, out, err = self.run_command(*arguments, "-f", "json")
        self.assertEqual((code, ""), (exit_code, err), out)
        return json.loads(out)

    def refused(self, *arguments, words=(), sysroot=True):
        """Run a command that must end with one line on stderr and exit code 3."""
        line = program.refused(self, *arguments, *(["--sysroot", self.root] if sysroot else []))
        for word in words:
            self.assertIn(word, line)

    def plan(self, settings, **more):
        """Write a plan file and return its path."""
        path = pathlib.Path(self.root, "plan.json")
        path.write_text(json.dumps({"settings": settings, **more}))
        return str(path)

    def some_plan(self):
        """Return the path of a plan with four settings, none of which holds."""
        return self.plan(
            [
                {"kind": "irq_affinity", "target": "irq:24", "value": "2", "reason": "why", "rule": "nic"},
                {"kind": "xps", "target": "eth0/tx-1", "value": "0f"},
                {"kind": "xps", "target": "eth0/tx-2", "value": "f0"},
                {"kind": "rps", "target": "eth0/rx-0", "value": "0f"},
            ]
        )

    def put(self, path, text):
        """Write a file of the host, as somebody else would."""
        pathlib.Path(self.root, path).write_text(f"{text}\n")
