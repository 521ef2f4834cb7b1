# SPDX-License-Identifier: Apache-2.0
"""No rule finds, or calls right, what ``[agent] leave_interrupts`` names."""

from nova_perf_tuning.host.plan.refused import Refused
from tests.support import audit_cases, testcase
from tests.support import audit_hosts as hosts

#: Rules about interrupts, queue masks and NAPI threads -> patterns that name what their case has.
RULES = {
    "device-irq-on-dedicated": ("nvme*", "ahci*", "0000:*"),
    "device-irqs-one-cpu": ("*",),
    "managed-irq-on-dedicated": ("nvme0*", "0000:02:00.0"),
    "napi-thread-on-dedicated": ("eth0", "0000:41:00.0"),
    "nic-irq-on-cpu0": ("eth0", "eth0-TxRx-*", "0000:41:00.0"),
    "nic-irq-on-dedicated": ("eth0", "eth0-TxRx-*", "0000:41:00.0"),
    "nic-irq-one-cpu": ("eth0",),
    "nic-irq-remote-node": ("eth0",),
    "rps-on-dedicated": ("br0",),
}


class LeftTest(testcase.TestCase):
    def judge(self, rule, *patterns):
        case = audit_cases.CASES[rule]
        refused = Refused(left=patterns)
        return audit_cases.judge(rule, case.changes, **case.options, refused=refused)

    def test_neither_found_nor_right(self):
        for rule, patterns in RULES.items():
            with self.subTest(rule):
                self.assertNotEqual([], self.judge(rule, "other").findings)
                report = self.judge(rule, *patterns)
                self.assertEqual(([], []), (report.findings, report.clean))
                self.assertEqual(["not_applicable"], [each.code for each in report.unknown])
                self.assertIn("left alone", report.unknown[0].text)

    def test_not_right_either_where_others_are(self):
        """The other interrupts of the host are right: they do not speak for those that are left."""
        for rule, pattern in (
            ("device-irq-on-dedicated", "nvme0q3"),
            ("managed-irq-on-dedicated", "nvme0q1"),
        ):
            changes = dict(audit_cases.CASES[rule].changes)
            changes |= hosts.irq(60, "nvme1q1", 0, hosts.NVME, allowed="0-1")
            changes |= hosts.irq(61, "ahci", 0, hosts.NVME)
            for left, found in (((), 1), ((pattern,), 0)):
                with self.subTest(rule, left=left):
                    report = audit_cases.judge(rule, changes, refused=Refused(left=left))
                    self.assertEqual((found, []), (len(report.findings), report.clean))

    def test_a_rule_holds_where_what_is_left_is_right(self):
        for rule in RULES.keys() - {"device-irqs-one-cpu", "managed-irq-on-dedicated"}:
            case = audit_cases.CASES[rule]
            refused = Refused(left=("eth0", "br0"))
            with self.subTest(rule):
                self.assertEqual(
                    [rule], audit_cases.judge(rule, case.holds, refused=refused).clean
                )

    def test_one_interrupt_of_two_is_judged_on(self):
        """The other one of the NIC is found, and no setting moves the first."""
        both = hosts.irq(40, "eth0-TxRx-0", 2, hosts.ETH0)
        both |= hosts.irq(41, "eth0-TxRx-1", 3, hosts.ETH0)
        refused = Refused(left=("eth0-TxRx-0",))
        report = audit_cases.judge("nic-irq-on-dedicated", both, refused=refused)
        (finding,) = report.findings
        self.assertEqual({"irq:41"}, {setting.target for setting in finding.settings})

    def test_a_link_file_for_nics_that_are_left_alone(self):
        """A key that is not known of a NIC, or of the file in a record, excludes no NIC."""
        nics = hosts.nic("eth1", node=0, address="0000:43:00.0")
        for device, name, driver, address, renamed in (
            (hosts.ETH0, "eth0", "ice", "55", "1"),
            (hosts.ETH0.replace("41", "43"), "eth1", "i40e", "66", "4"),
        ):
            nics[f"{device}/driver"] = f"-> ../../../bus/pci/drivers/{driver}"
            nics[f"{device}/net/{name}/address"] = f"00:11:22:aa:44:{address}\n"
            nics[f"{device}/net/{name}/name_assign_type"] = f"{renamed}\n"
        for match, left, is_left in (
            ("", ("eth0",), False),
            ("", ("eth*",), True),
            ("Path=pci-0000:41:00.0", ("eth0",), True),
            ("Path=pci-0000:41:*", ("0000:41:00.0",), True),
            ("Path=pci-0000:41:00.0", ("eth0-TxRx-*",), True),
            ("Path=pci-0000:41:00.0", ("eth0-TxRx-0",), False),
            ("Path=pci-0000:41:00.0 pci-0000:43:*", ("eth0",), False),
            ("Path=pci-0000:41:00.0\nPath=pci-0000:43:00.0", ("eth0",), False),
            ("Path=pci-0000:43:00.0\nPath=\nPath=pci-0000:41:00.0", ("eth0",), True),
            ("Path=!pci-0000:43:*", ("eth0",), False),
            ("Path=pci-0000:44:00.0", ("eth*",), False),
            ("Driver=ice", ("eth0",), True),
            ("Driver=i*", ("eth0",), False),
            ("MACAddress=00-11-22-AA-44-55", ("eth0",), True),
            ("MACAddress=0011.22aa.4455 0011.22aa.4466", ("eth0",), False),
            ("OriginalName=eth9", ("eth1",), True),
            ("OriginalName=eth0", ("eth0",), False),
            ("Property=ID_X=y", ("eth0",), False),
        ):
            file = f"[Match]\n{match}\n[Link]\nIRQAffinityPolicy=spread\n"
            changes = nics | {"etc/systemd/network/10-nic.link": file}
            with self.subTest(match=match, left=left):
                rule = "competing-irq-writers"
                report = audit_cases.judge(rule, changes, refused=Refused(left=left))
                self.assertEqual(not is_left, bool(report.findings), report)
                self.assertEqual([], report.clean)
