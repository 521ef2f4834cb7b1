# SPDX-License-Identifier: Apache-2.0
"""What the audit read where a rule holds, and the CPU sets that it judged by."""

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import runner
from tests.support import audit_hosts as hosts
from tests.support import program, testcase


class HeldTest(testcase.TestCase):
    def test_rules_say_why_they_hold(self) -> None:
        affinity = {"etc/systemd/system.conf": f"CPUAffinity={hosts.SHARED}\n"}
        irqbalance = {
            "proc/300/comm": "irqbalance\n",
            "etc/default/irqbalance": f"IRQBALANCE_BANNED_CPULIST={hosts.DEDICATED}\n",
        }
        report = runner.run(hosts.view({**hosts.good(), **affinity, **irqbalance}), strict=True)
        self.assertEqual([], report.findings)
        held = {rule: dict(evidence) for rule, evidence in report.held.items()}
        self.assertLessEqual(held.keys(), set(report.clean))
        for rule, path, value in (
            ("nova-cpu-sets", "/etc/nova/nova.conf [compute] cpu_dedicated_set", hosts.DEDICATED),
            ("housekeeping-unset", "/sys/devices/system/cpu/isolated", hosts.DEDICATED),
            ("housekeeping-unset", "/etc/systemd/system.conf CPUAffinity", hosts.SHARED),
            ("nic-irq-one-cpu", "/proc/irq/40-41", "eth0, on CPUs 1,9"),
            ("channels-vs-housekeeping", "ethtool -l eth0", "combined 4 of 32"),
            (
                "irqbalance-unaware",
                "/etc/default/irqbalance",
                f"IRQBALANCE_BANNED_CPULIST bans CPUs {hosts.DEDICATED} and leaves CPUs {hosts.SHARED}",
            ),
        ):
            with self.subTest(rule, path=path):
                self.assertEqual(value, held[rule].get(path), held[rule])

    def test_devices_of_other_namespaces_are_said_to_be_unseen(self) -> None:
        for number, value in (
            ("3\n", "3; their devices are not checked"),
            ("0\n", None),
            (None, "unknown; their devices are not checked"),
        ):
            tree = {**hosts.good(), "nova-perf/namespaces": number}
            held = runner.run(hosts.view(tree), strict=True).held
            for rule in ("rps-on-dedicated", "rfs-with-pinned-guests", "napi-thread-on-dedicated"):
                with self.subTest(rule, number=number):
                    found = dict(held.get(rule, ()))
                    self.assertEqual(value, found.get("other network namespaces"))

    def test_the_command_prints_it(self) -> None:
        root = hosts.grow(self, hosts.good())
        text = program.shown(self, "audit", "--all", "--rule", "nova-cpu-sets", "--sysroot", root)
        self.assertIn(f"CPUs     dedicated: {hosts.DEDICATED}\n", text)
        self.assertIn("holds    nova-cpu-sets\n  read: /etc/nova/nova.conf [compute]", text)
        document = program.document(self, "audit", "--sysroot", root)
        self.assertEqual(hosts.DEDICATED, document["sets"]["dedicated"])
        self.assertIn("nova-cpu-sets", [held["rule"] for held in document["held"]])
        for cpus in document["sets"].values():
            self.assertTrue(cpulist.parse(cpus))
        plain = program.shown(self, "audit", "--sysroot", root)
        self.assertNotIn("read:", plain)
