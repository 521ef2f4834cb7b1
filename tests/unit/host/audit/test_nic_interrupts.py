# SPDX-License-Identifier: Apache-2.0
"""Rules on NICs' interrupts where the names of a driver say nothing of queues."""

from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

#: The good host's NIC with names that no rule knows: one vector for each of its two queues.
_NUMBER = 40


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

    def test_a_nic_without_interrupts_is_unknown(self) -> None:
        for rule in ("nic-irq-on-dedicated", "nic-irq-on-cpu0", "nic-irq-remote-node"):
            with self.subTest(rule):
                self.assertEqual("unknown", self.verdict(rule))
