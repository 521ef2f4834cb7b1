# SPDX-License-Identifier: Apache-2.0
"""The operator's smoke tests against a real cloud: they pass where all is well, and say what is not."""

import re
import subprocess

from nova_perf_tuning.nova import metadefs
from tests.cloud import base

CONF = "/run/cloud/etc/glance/glance-api.conf"
LOAD = f"glance-manage --config-file {CONF} db_load_metadefs $(nova-perf paths metadefs)"


class SmokeTest(base.CloudTest):
    """Runs ``python -m nova_perf_tuning_smoke`` in the controller, as an operator does beside any cloud."""

    def smoke(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        settings = [
            f"NOVA_PERF_SMOKE_IMAGE={base.IMAGE}",
            f"NOVA_PERF_SMOKE_NETWORK={base.NETWORK}",
            "NOVA_PERF_SMOKE_TIMEOUT=600",
        ]
        program = ["python", "-m", "nova_perf_tuning_smoke", *arguments]
        return base.tool("run", "--", "env", *settings, *program, check=False)

    def test_all_pass_and_leave_nothing(self) -> None:
        base.tool("run", "--", "sh", "-c", LOAD)
        for wanted in metadefs.namespaces().values():
            self.addCleanup(self.cloud.image.delete_metadef_namespace, wanted["namespace"])
        done = self.smoke()
        self.assertEqual(0, done.returncode, done.stderr)
        ran = re.search(r"^Ran (\d+) tests", done.stderr, re.MULTILINE)
        self.assertIsNotNone(ran, done.stderr)
        self.assertNotIn("skipped", done.stderr)
        named = [server.name for server in self.cloud.compute.servers(all_projects=True)]
        named += [flavor.name for flavor in self.cloud.compute.flavors(is_public=None)]
        self.assertEqual([], [name for name in named if name.startswith("nova-perf-smoke-")])

    def test_missing_metadefs_are_named(self) -> None:
        done = self.smoke("-k", "MetadefsTest")
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("run 'glance-manage db_load_metadefs", done.stderr)
