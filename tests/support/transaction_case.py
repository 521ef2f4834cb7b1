# SPDX-License-Identifier: Apache-2.0
"""Runs ``nova-perf`` commands in this process on a generated host of their own."""

import json
import os
import pathlib

from tests.support import program, sysroots, testcase

RPS = "sys/class/net/eth0/queues/rx-0/rps_cpus"
XPS = ("sys/class/net/eth0/queues/tx-1/xps_cpus", "sys/class/net/eth0/queues/tx-2/xps_cpus")
BOOT_ID = "proc/sys/kernel/random/boot_id"


class TransactionCase(testcase.TestCase):
    """A tiny generated host below ``self.root``; its journal lies in it."""

    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.first = {}
        self.state = os.path.join(self.root, "var/lib/nova-perf-tuning")

    def shown(self, *arguments, code=0):
        """Return what a command printed that ends with ``code``."""
        return program.shown(self, *arguments, "--sysroot", self.root, code=code)

    def run_json(self, *arguments, code=0):
        """Return the JSON document of a command that ends with ``code``."""
        return program.document(self, *arguments, "--sysroot", self.root, code=code)

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
                {
                    "kind": "irq_affinity",
                    "target": "irq:24",
                    "value": "2",
                    "reason": "why",
                    "rule": "nic",
                },
                {"kind": "xps", "target": "eth0/tx-1", "value": "0f"},
                {"kind": "xps", "target": "eth0/tx-2", "value": "f0"},
                {"kind": "rps", "target": "eth0/rx-0", "value": "0f"},
            ]
        )

    def put(self, path, text):
        """Write a file of the host, as somebody else would."""
        file = pathlib.Path(self.root, path)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def boot(self, name):
        """Start a boot with another id, in which the kernel's own values are back."""
        self.put(BOOT_ID, name)
        for path in ("proc/irq/24/smp_affinity_list", *XPS, RPS):
            self.put(path, self.first.setdefault(path, self.held(path)))

    def held(self, path):
        """Return the value that a file of the host holds."""
        return pathlib.Path(self.root, path).read_text().strip()
