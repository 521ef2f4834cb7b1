# SPDX-License-Identifier: Apache-2.0
"""Every rule that can be applied, on the running kernel: audit, apply, verify, the next boot's programs, restore.

Three of them cannot be shown on a machine like this one, and are in the lab (``tests/lab/test_rules.py``);
:data:`IN_THE_LAB` says why.
"""

import json
import pathlib
import re
import sys
from collections.abc import Iterable
from typing import Any

from nova_perf_tuning.host.audit import runner
from tests.support import directories, live_rules, machine_masks, patience, program, testcase

TOP = pathlib.Path(__file__).parents[3]
NAMESPACE = ("unshare", "--mount", "--propagation", "private")
#: Rule -> what it would take, and what there is instead.
IN_THE_LAB = {
    "ring-drops": "a device with rings below their maximum; veth, tap, ifb, macvlan and bridges have none",
    "lro-on-forwarding": "a device whose LRO can be on; those that the kernel makes without hardware refuse it",
    "cpu-governor": "frequency domains; a virtual machine has none",
}


class EveryRuleTest(directories.DirectoryCase):
    def keep(self, paths: Iterable[str]) -> dict[pathlib.Path, bytes]:
        """Put back what the kernel holds even if the process that changes it is killed."""
        before = {
            path: path.read_bytes()
            for path in map(pathlib.Path, sorted(set(paths)))
            if path.exists()
        }
        for path, data in before.items():
            self.addCleanup(self.put_back, path, data)
        return before

    @staticmethod
    def put_back(path: pathlib.Path, data: bytes) -> None:
        if path.read_bytes() != data:
            path.write_text(re.sub(r".*\[(\w+)\].*", r"\1", data.decode()))

    def steps(self, rules: Iterable[str], *options: str) -> dict[str, dict[str, Any]]:
        done = patience.run(
            [
                *NAMESPACE,
                *options,
                sys.executable,
                "-m",
                live_rules.__name__,
                self.directory,
                *rules,
            ],
            cwd=TOP,
        )
        self.assertEqual(0, done.returncode, done.stderr)
        steps_of: dict[str, dict[str, Any]] = json.loads(done.stdout)
        self.assertEqual(list(rules), list(steps_of))
        return steps_of

    def check(self, rule: str, steps: dict[str, Any]) -> None:
        if steps["absent"]:
            self.assertEqual([rule], steps["unknown"])
            print(
                f"NOTE: {rule}: this kernel has no {steps['absent'][0]}, and the audit says that it cannot judge"
            )
            return
        self.assertGreater(steps["found"], 0, f"{rule} does not fire")
        self.assertEqual(([], []), (steps["differ"], steps["warnings"]), rule)
        self.assertEqual((True, 0, 0), (steps["changed"], steps["verify"], steps["restore"]), rule)
        lasts = live_rules.EVERY[rule].lasts
        self.assertEqual(lasts, bool(steps["files"]), rule)
        if steps["read-only"]:
            self.assertEqual([1, ["failed", "written"]], steps["apply"], rule)
            print(
                f"NOTE: {rule}: this kernel lets nobody write {steps['read-only'][0]}, and apply says so"
            )
            return
        self.assertEqual([0, ["written"]], steps["apply"], rule)
        self.assertEqual(0, steps["applied"], f"{rule} still fires when it is applied")
        if lasts:
            self.assertEqual(
                (True, 0), (steps["forgotten"] > 0, steps["booted"]), f"{rule} after a boot"
            )
        self.assertIn(steps["pasted"], (0, None), f"{rule} still fires when its remedy is pasted")

    def test_each_is_tried_or_named(self) -> None:
        appliable = {rule.id for rule in runner.load() if rule.appliable}
        self.assertEqual(appliable, set(live_rules.EVERY) | set(IN_THE_LAB))
        self.assertEqual(set(), set(live_rules.EVERY) & set(IN_THE_LAB))

    def test_those_of_a_network_namespace(self) -> None:
        self.enterContext(machine_masks.reserved())
        for rule, steps in self.steps(live_rules.OF_A_NAMESPACE, "--net").items():
            self.check(rule, steps)

    def test_those_of_the_machine(self) -> None:
        self.enterContext(machine_masks.reserved())
        files = [path for live in live_rules.OF_THE_MACHINE.values() for path in live.bad]
        files += map(str, pathlib.Path("/proc/irq").glob("*/smp_affinity"))
        before = self.keep(files)
        for rule, steps in self.steps(live_rules.OF_THE_MACHINE).items():
            self.check(rule, steps)
        self.assertEqual(before, {path: path.read_bytes() for path in before})


class MachineTest(testcase.TestCase):
    """On this machine as it is: what is found is the machine's affair, that it works is ours."""

    def test_the_whole_audit(self) -> None:
        done = patience.run(
            [*program.COMMAND, "audit", "-f", "json", "--fail-on", "error"], cwd=TOP
        )
        self.assertIn(done.returncode, (0, 1), done.stderr)
        self.assertEqual("", done.stderr)
        self.assertEqual([], json.loads(done.stdout)["failed"])
