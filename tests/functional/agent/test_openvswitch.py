# SPDX-License-Identifier: Apache-2.0
"""Threads of a real Open vSwitch, whose datapath is in user space and has no device of this machine."""

import os
import subprocess

from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model.owners import CpuOwners, CpuSets, Owner
from nova_perf_tuning.host.plan import planner
from tests.support import directories, patience

_SCHEMA = "/usr/share/openvswitch/vswitch.ovsschema"
#: A CPU of this machine that is not the first.
_CPU = max(os.sched_getaffinity(0))


class OpenVSwitchTest(directories.DirectoryCase):
    def setUp(self) -> None:
        super().setUp()
        self.socket = f"unix:{self.directory}/db.sock"
        keys = ("OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR")
        self.environment = {**os.environ, **dict.fromkeys(keys, str(self.directory))}
        database = f"{self.directory}/conf.db"
        self.must("ovsdb-tool", "create", database, _SCHEMA)
        self.start("ovsdb-server", database, f"--remote=p{self.socket}")
        patience.until(lambda: os.path.exists(f"{self.directory}/db.sock"), "the database listens")
        self.must("ovs-vsctl", f"--db={self.socket}", "--no-wait", "init")

    def must(self, *command: str) -> None:
        done = patience.run(command, env=self.environment)
        self.assertEqual(0, done.returncode, done.stderr)

    def start(self, *command: str) -> subprocess.Popen[bytes]:
        """Start a program that ends with the test."""
        process = subprocess.Popen(command, env=self.environment, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.terminate)
        return process

    def test_a_pmd_thread_owns_its_cpu(self) -> None:
        bridge = ("add-br", "br0", "--", "set", "Bridge", "br0", "datapath_type=dummy")
        port = ("add-port", "br0", "p0", "--", "set", "Interface", "p0", "type=dummy-pmd")
        mask = ("set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={1 << _CPU:x}")
        self.must(
            "ovs-vsctl", f"--db={self.socket}", "--no-wait", *mask, "--", *bridge, "--", *port
        )
        switch = self.start("ovs-vswitchd", self.socket, "--enable-dummy", "--disable-system")

        def polling() -> list[str]:
            threads = [
                thread for thread in reader.read_host().programs if thread.pid == switch.pid
            ]
            return [thread.affinity for thread in threads if thread.is_bound]

        patience.until(polling, "a PMD thread polls")
        facts = reader.read_host()
        self.assertEqual([str(_CPU)], polling())
        claims = CpuOwners.of(facts, CpuSets()).of_kind(Owner.PROGRAM)
        self.assertIn(("ovs-vswitchd", {_CPU}), [(claim.name, claim.cpus) for claim in claims])
        plan = planner.plan(facts, CpuSets())
        self.assertNotIn(str(_CPU), plan.sets["housekeeping"].split(","))
        names = {
            thread.name.rstrip("0123456789")
            for thread in facts.programs
            if thread.pid == switch.pid
        }
        self.assertLessEqual({"handler", "revalidator"}, names)
