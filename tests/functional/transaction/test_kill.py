# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at every write of the journal and of the host: restore always brings every byte back."""

import dataclasses
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

from nova_perf_tuning.host.audit import persist, runner
from tests.support import audit_cases, audit_hosts, live_objects, machine_masks, patience, testcase

HERE = pathlib.Path(__file__).parent
TOP = HERE.parents[2]
DRIVER = "tests.support.kill_driver"


class KillTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.directory = self.enterContext(
            tempfile.TemporaryDirectory(prefix="nova-perf-boundary-")
        )
        self.library = os.path.join(self.directory, "boundary.so")
        source = HERE / "boundary.c"
        subprocess.run(
            [
                "cc",
                "-shared",
                "-fPIC",
                "-O1",
                "-Wall",
                "-Wextra",
                "-o",
                self.library,
                str(source),
                "-ldl",
            ],
            check=True,
        )

    def _drive(self, *arguments, before=()):
        """Run the driver and check what holds for all hosts; return its result."""
        run = patience.run(
            [
                *before,
                "env",
                f"LD_PRELOAD={self.library}",
                sys.executable,
                "-m",
                DRIVER,
                self.library,
                self.directory,
            ]
            + list(arguments),
            cwd=TOP,
            limit_s=3 * patience.LIMIT_S,  # some hundred processes one after the other
        )
        self.assertEqual(0, run.returncode, run.stderr)
        result = json.loads(run.stdout)
        self.assertEqual([], result["wrong"], run.stderr)
        self.assertEqual({"unchanged"}, set(result["second"].values()))
        for name in ("apply", "apply again with other values"):
            letters = result["letters"][name]
            # Before the first write to the host the journal's last write has been synchronised.
            begun = re.match(r"[^krai]*w[^krai]*s[^wkrai]*", re.sub("i", "", letters))
            self.assertTrue(
                begun, f"{name}: written before the journal was synchronised: {letters}"
            )
        for name, count in result["boundaries"].items():
            self.assertGreater(count, 12, name)
        return result

    def test_what_rules_propose_and_the_files_that_make_it_last(self):
        rules = ("tcp-autotuning-off", "thp-never", "cpu-governor", "nic-irq-on-cpu0")
        changes = {}
        for name in rules:
            changes |= audit_cases.CASES[name].changes
        cells = "<numa><cell id='0'/><cell id='1'/></numa>"
        guest = audit_hosts.domain(vcpus=32, pins=(), policy="shared", backing="", numa=cells)
        tree = audit_hosts.changed(
            audit_hosts.good(), {**changes, "run/libvirt/qemu/instance-1.xml": guest}
        )
        view = audit_hosts.view(tree)
        findings = runner.run(view, runner.chosen(rules)).findings
        settings, _lost = persist.plan(
            view, [setting for finding in findings for setting in finding.settings]
        )
        kinds = {"config_file", "sysctl", "memory", "governor", "irq_affinity"}
        self.assertEqual(kinds, {setting.kind for setting in settings})
        plan = os.path.join(self.directory, "plan.json")
        pathlib.Path(plan).write_text(
            json.dumps({"settings": list(map(dataclasses.asdict, settings))})
        )
        result = self._drive(audit_hosts.grow(self, tree), plan)
        print(
            f"USED: {sum(result['boundaries'].values())} kills at write boundaries of what rules propose"
        )

    def test_real_kernel_objects(self):
        self.enterContext(machine_masks.reserved())
        number = live_objects.idle_interrupt()
        path = pathlib.Path(f"/proc/irq/{number}/smp_affinity_list")
        before = path.read_text()
        self.addCleanup(path.write_text, before)
        thread = live_objects.kernel_thread()
        self.addCleanup(os.sched_setaffinity, thread, os.sched_getaffinity(thread))
        for mask in map(pathlib.Path, live_objects.OF_THE_MACHINE):
            self.addCleanup(mask.write_text, mask.read_text())
        result = self._drive(before=("unshare", "--net", "--mount", "--propagation", "private"))
        self.assertEqual({"pending"}, {result["results"].pop(f"irq:{number}")})
        self.assertEqual({"written"}, set(result["results"].values()))
        moves = result["letters"]["apply"].count("a")
        self.assertEqual(2, moves, "the guest's and the kernel's thread are moved once")
        self.assertEqual(before, path.read_text())
        print(
            f"USED: {sum(result['boundaries'].values())} kills at write boundaries of real kernel objects"
        )
