# SPDX-License-Identifier: Apache-2.0
"""Rules on NICs' interrupts where the names of a driver say nothing of queues."""

from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

#: The good host's NIC with names that no rule knows: one vector for each of its two queues.
_NUMBER = 40
_RULES = ("nic-irq-on-cpu0", "nic-irq-on-dedicated", "nic-irq-one-cpu", "nic-irq-remote-node")


def vectors(*cpus: int) -> hosts.Tree:
    """Return interrupts of the good host's NIC, in place of its own, that fire on ``cpus``."""
    tree: dict[str, str | None] = {"proc/irq": None, f"{hosts.ETH0}/msi_irqs": None}
    for at, cpu in enumerate(cpus):
        tree |= hosts.irq(_NUMBER + at, f"stranger-vector.{at}", cpu, hosts.ETH0)
    return tree


class UnknownNamesTest(testcase.TestCase):
    def verdict(self, rule: str, *cpus: int) -> str:
        report = audit_cases.judge(rule, vectors(*cpus))
        if report.findings:
            return "finding"
        return "holds" if report.clean else "unknown"

    def test_rules_judge_by_what_is_true_of_any_vector(self) -> None:
        for rule, cpus, expected in (
            ("nic-irq-on-dedicated", (1, 9, 2), "finding"),
            ("nic-irq-on-dedicated", (1, 9, 8), "holds"),
            ("nic-irq-on-cpu0", (0, 0, 0), "finding"),
            ("nic-irq-on-cpu0", (0, 9, 1), "unknown"),  # it may be the one that serves no queue
            ("nic-irq-on-cpu0", (0, 9), "finding"),
            ("nic-irq-on-cpu0", (1, 9, 8), "holds"),
            ("nic-irq-remote-node", (4, 5, 12), "finding"),
            ("nic-irq-remote-node", (4, 5, 1), "finding"),
            ("nic-irq-remote-node", (4, 9, 1), "unknown"),
            ("nic-irq-remote-node", (8, 9, 1), "holds"),
            ("nic-irq-one-cpu", (1, 1, 1), "finding"),
            ("nic-irq-one-cpu", (1, 1, 9), "holds"),
        ):
            with self.subTest(rule, cpus=cpus):
                self.assertEqual(expected, self.verdict(rule, *cpus))

    def test_an_interrupt_that_has_not_fired_since_its_mask_was_written(self) -> None:
        moving: hosts.Tree = {"proc/irq/40/effective_affinity_list": "2\n"}
        (finding,) = audit_cases.judge("nic-irq-on-dedicated", moving).findings
        self.assertIn("each moves when it fires the next time", finding.remedy)
        self.assertEqual((), tuple(finding.settings))

    def test_a_nic_without_interrupts_is_unknown(self) -> None:
        for rule in ("nic-irq-on-dedicated", "nic-irq-on-cpu0", "nic-irq-remote-node"):
            with self.subTest(rule):
                self.assertEqual("unknown", self.verdict(rule))


class UnknownPlacesTest(testcase.TestCase):
    """The kernel does not say which CPU of a mask serves an interrupt: its counts say it, or nothing does."""

    def verdict(self, rule: str, allowed: str, counts: str) -> str:
        changes: dict[str, str | None] = {"proc/interrupts": counts or None}
        for number in (40, 41):
            changes[f"proc/irq/{number}/smp_affinity_list"] = f"{allowed}\n"
            changes[f"proc/irq/{number}/effective_affinity_list"] = None
        report = audit_cases.judge(rule, changes)
        if report.findings:
            return report.findings[0].evidence[-1].path
        return "holds" if report.clean else "unknown"

    def counted(self, *cpus: int) -> str:
        """Return /proc/interrupts with the counts of interrupts 40, 41 ... on one CPU each."""
        lines = ["  ".join(["    ", *(f"CPU{cpu}" for cpu in range(16))])]
        for at, cpu in enumerate(cpus):
            counts = ["3"] * 16  # some are from before it was moved
            counts[cpu] = "271490338"
            lines.append(f" {40 + at}: {'  '.join(counts)}  PCI-MSI 5767168-edge  eth0-TxRx-{at}")
        lines.append("NMI: 1 2 3")
        return "\n".join(lines) + "\n"

    def test_a_wide_mask_is_no_place(self) -> None:
        for rule in _RULES:
            with self.subTest(rule):
                self.assertEqual("unknown", self.verdict(rule, "0-15", ""))

    def test_a_mask_without_a_wrong_cpu_holds(self) -> None:
        for rule in _RULES[:2]:
            self.assertEqual("holds", self.verdict(rule, "8-9", ""), rule)
        self.assertEqual("holds", self.verdict("nic-irq-remote-node", "0-3,8-11", ""))
        wrong = "/proc/irq/41/smp_affinity_list"
        self.assertEqual(wrong, self.verdict("nic-irq-on-dedicated", "2-3", ""))
        self.assertEqual(wrong, self.verdict("nic-irq-remote-node", "4-7", ""))

    def test_masks_without_a_cpu_in_common_are_several_places(self) -> None:
        for masks, expected in (
            (("0-1", "8-9"), "holds"),
            (("0-1", "1,8"), "unknown"),
            (("0-1", "8"), "holds"),
            (("0-1", "1"), "unknown"),
        ):
            changes: dict[str, str | None] = {"proc/interrupts": None}
            for number, mask in zip((40, 41), masks, strict=True):
                changes[f"proc/irq/{number}/smp_affinity_list"] = f"{mask}\n"
                changes[f"proc/irq/{number}/effective_affinity_list"] = None
            report = audit_cases.judge("nic-irq-one-cpu", changes)
            self.assertEqual([], report.findings)
            self.assertEqual(expected, "holds" if report.clean else "unknown", masks)

    def test_counts_say_where(self) -> None:
        counted = "/proc/interrupts"
        for rule, cpus, expected in (
            ("nic-irq-on-cpu0", (0, 0), counted),
            ("nic-irq-on-cpu0", (8, 9), "holds"),
            ("nic-irq-on-dedicated", (1, 10), counted),
            ("nic-irq-on-dedicated", (1, 9), "holds"),
            ("nic-irq-one-cpu", (9, 9), counted),
            ("nic-irq-one-cpu", (1, 9), "holds"),
            ("nic-irq-remote-node", (1, 4), counted),
            ("nic-irq-remote-node", (1, 9), "holds"),
        ):
            with self.subTest(rule, cpus=cpus):
                self.assertEqual(expected, self.verdict(rule, "0-15", self.counted(*cpus)))


class UnevenQueuesTest(testcase.TestCase):
    def test_queues_that_are_seen_are_not_all(self) -> None:
        for queues, words in (
            ((), "the 2 queues that are seen"),
            (range(2, 4), "2 of its 4 queues"),
        ):
            changes: dict[str, str | None] = dict(hosts.irq(40, "eth0-TxRx-0", 1, hosts.ETH0))
            changes |= hosts.irq(41, "eth0-TxRx-1", 1, hosts.ETH0)
            if not queues:
                changes[f"{hosts.ETH0}/net/eth0/queues"] = None
            for queue in queues:
                changes[f"{hosts.ETH0}/net/eth0/queues/rx-{queue}/rps_cpus"] = "0\n"
            (finding,) = audit_cases.judge("nic-irq-one-cpu", changes).findings
            self.assertIn(f"of {words} served by CPU 1", finding.why)

    def test_queues_beyond_those_that_are_seen_may_be_too_many(self) -> None:
        for queues, words, where in (
            (0, "eth0 has at least 9 queues", "/proc/irq, seen"),
            (9, "eth0 has 9 queues", "/proc/irq, seen"),
            (12, "eth0 has 12 queues", "/sys/class/net/eth0/queues"),
        ):
            changes: dict[str, str | None] = {
                "nova-perf": None,
                f"{hosts.ETH0}/net/eth0/queues": None,
            }
            for number in range(9):
                changes |= hosts.irq(40 + number, f"eth0-TxRx-{number}", 1, hosts.ETH0)
            for queue in range(queues):
                changes[f"{hosts.ETH0}/net/eth0/queues/rx-{queue}/rps_cpus"] = "0\n"
            (finding,) = audit_cases.judge("channels-vs-housekeeping", changes).findings
            with self.subTest(queues):
                self.assertIn(words, finding.why)
                self.assertEqual(where, finding.evidence[0].path)

    def test_queues_that_share_a_cpu_while_another_is_idle(self) -> None:
        for cpus, expected in (
            ((1, 1, 9, 9), "CPUs 1,9, while CPUs 0,8 serve none"),
            ((1, 8, 9, 9), "CPU 9, while CPU 0 serves none"),
            ((0, 1, 8, 9), ""),
            ((0, 1, 8, 9, 9), ""),  # there is no idle CPU
        ):
            tree: dict[str, str | None] = {"proc/irq": None, f"{hosts.ETH0}/msi_irqs": None}
            for at, cpu in enumerate(cpus):
                tree |= hosts.irq(_NUMBER + at, f"eth0-TxRx-{at}", cpu, hosts.ETH0, allowed="0-15")
                tree[f"{hosts.ETH0}/net/eth0/queues/rx-{at}/rps_cpus"] = "0000\n"
                tree[f"{hosts.ETH0}/net/eth0/queues/tx-{at}/xps_cpus"] = "0000\n"
            report = audit_cases.judge("nic-irq-one-cpu", tree)
            with self.subTest(cpus=cpus):
                self.assertEqual(bool(expected), not report.clean)
                for finding in report.findings:
                    self.assertIn(expected, finding.why)
                    self.assertEqual(("info", False), (finding.level.value, finding.safe))
                    self.assertTrue(finding.settings)
