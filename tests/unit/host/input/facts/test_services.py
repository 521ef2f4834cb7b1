# SPDX-License-Identifier: Apache-2.0
"""Where systemd and TuneD let services run, and what the plan makes of it."""

from nova_perf_tuning.host.input import record
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model.owners import CpuSets
from nova_perf_tuning.host.plan import planner
from tests.support import audit_hosts as hosts
from tests.support import field_hosts, testcase

_CONF = "etc/systemd/system.conf"
_PROFILE = "etc/tuned/active_profile"
_VARIABLES = "etc/tuned/cpu-partitioning-variables.conf"
_TUNED = {_PROFILE: "cpu-partitioning\n", _VARIABLES: "# 2-7\nisolated_cores=4-7\n"}


class ServicesTest(testcase.TestCase):
    def test_where_services_may_run(self) -> None:
        affinity = {_CONF: "[Manager]\n#CPUAffinity=5\nCPUAffinity=0 1,2-3\n"}
        drop_in = {**affinity, f"{_CONF}.d/50.conf": "[Manager]\nCPUAffinity=0-1\n"}
        boot = {**affinity, "proc/cmdline": "quiet systemd.cpu_affinity=6-7\n"}
        for name, files, cpus, where in (
            ("nothing", {}, "", ""),
            ("systemd", affinity, "0-3", f"/{_CONF} CPUAffinity"),
            ("drop-in", drop_in, "0-1", f"/{_CONF}.d/50.conf CPUAffinity"),
            ("empty", {_CONF: "[Manager]\nCPUAffinity=\n"}, "", ""),
            ("numa", {_CONF: "[Manager]\nCPUAffinity=numa\n"}, "", ""),
            ("absent CPUs", {_CONF: "CPUAffinity=0 99\n"}, "0", f"/{_CONF} CPUAffinity"),
            ("boot", boot, "6-7", "/proc/cmdline systemd.cpu_affinity"),
            ("TuneD", _TUNED, "0-3", f"/{_VARIABLES} isolated_cores"),
            ("both", {**_TUNED, **drop_in}, "0-1", f"/{_CONF}.d/50.conf CPUAffinity"),
            ("another profile", {**_TUNED, _PROFILE: "virtual-host\n"}, "", ""),
            (
                "no list",
                {**_TUNED, _VARIABLES: "isolated_cores=${f:calc_isolated_cores:2}\n"},
                "",
                "",
            ),
        ):
            tree = {**field_hosts.machine("0-7"), **files}
            facts = reader.read_root(hosts.TreeRoot(tree))
            with self.subTest(name):
                self.assertEqual((cpus, where), (facts.services, facts.services_from))
                kept = record.collect(hosts.TreeRoot(tree)).entries
                texts = {path: text for path, text in kept.items() if path in {**files}}
                copy = {
                    path: text.decode() for path, text in texts.items() if isinstance(text, bytes)
                }
                again = reader.read_root(hosts.TreeRoot({**field_hosts.machine("0-7"), **copy}))
                self.assertEqual(facts.services, again.services)

    def test_the_plan_keeps_interrupts_where_services_are(self) -> None:
        pinned = {"etc/libvirt/qemu/instance-1.xml": hosts.domain(pins=("4", "5"))}
        tree = {**field_hosts.machine("0-7"), **_TUNED}
        for name, files, sets, housekeeping, excluded, shared in (
            ("floating guests", {}, CpuSets(), "0-3", "4-7", "0-7"),
            ("a pinned guest", pinned, CpuSets(), "0-3", "6-7", "0-3"),
            ("Nova's set", {}, CpuSets(dedicated="2-7"), "0-1", "", "0-1"),
            ("sets elsewhere", {}, CpuSets(dedicated="0-3"), "4-7", "", "4-7"),
            ("the operator's", {}, CpuSets(housekeeping="0-5"), "0-5", "", "0-5"),
            ("shared", {}, CpuSets(dedicated="4-5", shared="6"), "0-3,6", "7", "6"),
        ):
            facts = reader.read_root(hosts.TreeRoot({**tree, **files}))
            plan = planner.plan(facts, sets)
            with self.subTest(name):
                found = [plan.sets.get(key, "") for key in ("housekeeping", "excluded", "shared")]
                self.assertEqual([housekeeping, excluded, shared], found)
