# SPDX-License-Identifier: Apache-2.0
"""[agent] leave_interrupts reaches plan, apply, audit and the agent, of this host alone."""

import json

from nova_perf_tuning.agent import reconcile
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.model.notes import NoteCode
from tests.support import directories, gen_host, program


class LeaveInterruptsTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.root = str(self.directory / "host")
        gen_host.write(self.root, "tiny")
        lines = "[agent]\nleave_interrupts = eth0-TxRx-1\nleave_interrupts = nvme*\n"
        self.conf = self.write_file("nova-perf-tuning.conf", lines)

    def configure(self):
        """Let commands take the file as that of the host that they look at."""
        self.patch(opts, "default_files", lambda _root: [self.conf])

    def left(self):
        plan = program.document(self, "plan", "--sysroot", self.root)
        code = NoteCode.INTERRUPTS_LEFT.value
        return [note["params"] for note in plan["notes"] if note["code"] == code]

    def test_plan_and_audit(self):
        self.assertEqual([], self.left())
        self.configure()
        self.assertEqual([{"nic": "eth0", "irqs": "25"}], self.left())
        settings = program.document(self, "plan", "--sysroot", self.root)["settings"]
        self.assertNotIn("irq:25", [setting["target"] for setting in settings])
        self.write_file("host/proc/irq/25/effective_affinity_list", "1\n")
        self.write_file("host/proc/irq/25/smp_affinity_list", "1\n")
        rule = ("audit", "--sysroot", self.root, "--rule", "nic-irq-on-dedicated", "-f", "json")
        done = program.nova_perf(*rule)
        self.assertNotIn("irq:25", done.stdout)

    def test_a_pattern_that_names_nothing_is_said_by_each_command(self):
        self.configure()
        for command in (
            ("plan",),
            ("audit",),
            ("apply", "--dry-run"),
            ("apply", "--dry-run", "--rule", "nic-irq-on-cpu0"),
        ):
            with self.subTest(command):
                done = program.nova_perf(*command, "--sysroot", self.root, "-f", "json")
                notes = json.loads(done.stdout)["notes"]
                said = [note for note in notes if note["code"] == NoteCode.LEAVE_UNMATCHED.value]
                self.assertEqual([["nvme*"]], [note["params"]["patterns"] for note in said])

    def test_apply(self):
        self.configure()
        lines = program.document(self, "apply", "--dry-run", "--sysroot", self.root)["writes"]
        self.assertTrue(any("/proc/irq/24/" in line for line in lines))
        self.assertFalse(any("/proc/irq/25/" in line for line in lines))

    def test_the_agent(self):
        leave = opts.load([self.conf]).agent.leave_interrupts
        host = reconcile.TunedHost(self.root, leave=leave)
        plan = host.plan(host.facts())
        self.assertNotIn("irq:25", [setting.target for setting in plan.settings])
        codes = [note.code for note in plan.warnings]
        self.assertIn(NoteCode.INTERRUPTS_LEFT, codes)
        self.assertEqual(1, codes.count(NoteCode.LEAVE_UNMATCHED))
