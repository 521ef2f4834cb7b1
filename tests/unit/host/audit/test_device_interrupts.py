# SPDX-License-Identifier: Apache-2.0
"""Interrupts of storage and of other devices beside NICs: which CPU serves them."""

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.plan.refused import Refused
from tests.support import audit_cases, field_hosts, testcase
from tests.support import audit_hosts as hosts

_RULE = "device-irqs-one-cpu"


class DevicesTest(testcase.TestCase):
    def judge(self, rows: str, online: str = "0-3", **more: str) -> rules.Report:
        """Return what is said of a host with these lines of /proc/interrupts; masks allow all CPUs."""
        head = "    ".join(f"CPU{cpu}" for cpu in range(4))
        tree = field_hosts.machine(online) | {"proc/interrupts": f"   {head}\n{rows}", **more}
        for row in rows.splitlines():
            number, _, rest = row.partition(":")
            tree[f"proc/irq/{number.strip()}/smp_affinity_list"] = f"{online}\n"
            tree[f"proc/irq/{number.strip()}/{rest.split()[-1]}"] = hosts.DIRECTORY
        return runner.run(hosts.view(tree), runner.chosen([_RULE]), strict=True)

    def test_devices_that_share_a_cpu(self) -> None:
        (finding,) = self.judge(
            "0: 90 0 0 0 timer\n5: 40000 0 0 0 megasas\n6: 90000 0 0 0 em2-0\n7: 9000000 0 0 0 em2-1\n"
        ).findings
        self.assertEqual(rules.Level.WARNING, finding.level)
        self.assertIn("served by CPU 0, while CPUs 1-3 serve no device", finding.why)
        self.assertIn("7 (em2-1), 6 (em2-0)", finding.why)
        self.assertNotIn("timer", finding.why)
        first = "echo 1 > /proc/irq/6/smp_affinity_list\necho 2 > /proc/irq/5/smp_affinity_list"
        self.assertEqual(first, finding.remedy)

    def test_each_of_the_busiest_gets_a_cpu_of_its_own(self) -> None:
        rows = "".join(f"{number}: 0 50000 0 0 disk{number}\n" for number in range(5, 9))
        (finding,) = self.judge(rows).findings
        commands = [f"echo {cpu} > /proc/irq/{irq}/" for cpu, irq in ((0, 6), (2, 7), (3, 8))]
        for command, line in zip(commands, finding.remedy.splitlines(), strict=True):
            self.assertIn(command, line)

    def test_nothing_is_wrong(self) -> None:
        for name, rows in (
            ("two CPUs", "5: 40000 0 0 0 ahci\n6: 0 90000 0 0 eth0\n"),
            ("all CPUs in turn", "5: 4000 4000 4000 4000 ahci\n6: 90000 90000 9000 9000 eth0\n"),
        ):
            with self.subTest(name):
                self.assertEqual([_RULE], self.judge(rows).clean)
        for name, rows in (
            ("one interrupt", "79: 2506 0 0 0 megasas\n"),
            ("one device fires", "5: 40000 0 0 0 ahci\n6: 30 0 0 0 eth0\n"),
            ("they hardly fire", "5: 400 0 0 0 ahci\n6: 900 0 0 0 eth0\n"),
        ):
            with self.subTest(name):
                (lack,) = self.judge(rows).unknown
                self.assertEqual("not_applicable", lack.code)

    def test_where_one_cpu_is_meant(self) -> None:
        rows = "5: 40000 0 0 0 ahci\n6: 90000 0 0 0 eth0\n"
        given = {"proc/cmdline": "irqaffinity=0\n"}
        self.assertEqual("not_applicable", self.judge(rows, **given).unknown[0].code)
        balanced = self.judge(rows, **{"proc/300/comm": "irqbalance\n"}).findings
        self.assertEqual([rules.Level.INFO], [finding.level for finding in balanced])

    def test_threads_of_one_core_are_one_place(self) -> None:
        rows = "5: 40000 0 0 0 ahci\n6: 90000 0 0 0 eth0\n7: 50000 0 0 0 eth1\n"
        core = "sys/devices/system/cpu/cpu{}/topology/core_cpus_list"
        pairs = {core.format(cpu): f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n" for cpu in range(4)}
        (finding,) = self.judge(rows, **pairs).findings
        self.assertIn("CPUs 2-3 serve no device", finding.why)
        self.assertEqual("echo 2 > /proc/irq/7/smp_affinity_list", finding.remedy)
        one_core = {core.format(cpu): "0-3\n" for cpu in range(4)}
        (lack,) = self.judge(rows, **one_core).unknown
        self.assertEqual("one core is left for interrupts", lack.text)

    def test_vectors_of_one_device_that_share_a_core(self) -> None:
        """A passed-through device, or a controller whose queues are not known: no other rule judges them."""
        core = "sys/devices/system/cpu/cpu{}/topology/core_cpus_list"
        pairs = {core.format(cpu): f"{cpu % 2},{cpu % 2 + 2}\n" for cpu in range(4)}
        name = "vfio-msix[{}](0000:01:00.1)"
        busy, idle = "40000", "3"
        for case, counts, more, words in (
            ("one CPU", [(busy, "0", "0"), (busy, "0", "0")], {}, "served by CPU 0, while"),
            ("one core", [(busy, "0", "0"), ("0", "0", busy)], pairs, "by CPUs 0,2, one core"),
            ("two cores", [(busy, "0", "0"), ("0", busy, "0")], pairs, ""),
            ("one fires", [(busy, "0", "0"), (idle, "0", "0")], {}, ""),
            ("rarely", [("400", "0", "0"), ("500", "0", "0")], {}, ""),
        ):
            rows = "".join(
                f"{number}: {' '.join(three)} 0 {name.format(number)}\n"
                for number, three in enumerate(counts, 5)
            )
            device: dict[str, str] = {}
            for number in (5, 6):
                device[f"sys/devices/pci0000:01/0000:01:00.1/msi_irqs/{number}"] = "msix\n"
            device["sys/bus/pci/devices/0000:01:00.1"] = (
                "-> ../../../devices/pci0000:01/0000:01:00.1"
            )
            with self.subTest(case):
                report = self.judge(rows, **device, **more)
                self.assertEqual(bool(words), bool(report.findings), report)
                for finding in report.findings:
                    self.assertEqual(rules.Level.INFO, finding.level)
                    self.assertIn("2 interrupts of one device", finding.why)
                    self.assertIn(words, finding.why)

    def test_queues_of_a_nic_are_another_rules(self) -> None:
        for names, fires in ((("eth0-TxRx-0", "eth0-TxRx-1"), False), (("x", "x"), True)):
            with self.subTest(names=names):
                nic = hosts.nic("eth0", node=0, address="0000:41:00.0")
                rows = ""
                for number, handler in zip((40, 41), names, strict=True):
                    nic |= {f"{hosts.ETH0}/msi_irqs/{number}": "msix\n"}
                    rows += f"{number}: 40000 0 0 0 {handler}\n"
                tree = {path: text for path, text in nic.items() if text is not None}
                self.assertEqual(fires, bool(self.judge(rows, **tree).findings))

    def test_a_device_stays_on_its_node(self) -> None:
        rows = "5: 40000 0 0 0 ahci\n6: 90000 0 0 0 eth0\n"
        nodes = {
            "sys/devices/system/node/online": "0-1\n",
            "sys/devices/system/node/node0/cpulist": "0-1\n",
            "sys/devices/system/node/node1/cpulist": "2-3\n",
        }
        for node, cpu in ((0, 1), (1, 2)):
            near = {**nodes, "proc/irq/5/node": f"{node}\n"}
            (finding,) = self.judge(rows, **near).findings
            self.assertEqual(f"echo {cpu} > /proc/irq/5/smp_affinity_list", finding.remedy)

    def test_without_counts(self) -> None:
        gone = {"proc/interrupts": ""}
        rows = "5: 0 0 0 0 ahci\n6: 0 0 0 0 eth0\n"
        (lack,) = self.judge(rows, **gone).unknown
        self.assertEqual("no_data", lack.code)
        self.assertIn("5-6 (ahci, eth0) may be on CPUs 0-3", lack.text)


class LeftTest(testcase.TestCase):
    def test_interrupts_that_the_operator_leaves_alone(self) -> None:
        case = audit_cases.CASES["device-irq-on-dedicated"]
        for pattern, expected in (("nvme*", 0), ("0000:42:*", 0), ("eth*", 1)):
            with self.subTest(pattern):
                left = Refused(left=(pattern,))
                report = audit_cases.judge("device-irq-on-dedicated", case.changes, refused=left)
                self.assertEqual(expected, len(report.findings))
