# SPDX-License-Identifier: Apache-2.0
"""Who else writes: known programs that run."""

import os
import subprocess
from unittest import mock

from nova_perf_tuning.host.transaction import verify
from tests.support import testcase


class DaemonsTest(testcase.TestCase):
    def program(self, **options):
        """Start a process that is named irqbalance."""
        code = "echo irqbalance >/proc/$$/comm; echo ready; read -r line"
        process = subprocess.Popen(
            ["sh", "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )
        for clean in (process.stdout.close, process.stdin.close, process.wait, process.kill):
            self.addCleanup(clean)
        self.assertEqual("ready\n", process.stdout.readline())
        return process.pid

    def test_a_name_that_anybody_may_take_counts_for_root_and_ourselves_alone(self):
        if os.geteuid() == 0:
            stranger = self.program(user=65534)
        else:
            stranger = self.program()
            self.enterContext(mock.patch.object(os, "geteuid", lambda: 65534))
        self.assertNotIn(stranger, verify.running_daemons().values())
