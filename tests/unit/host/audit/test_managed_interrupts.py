# SPDX-License-Identifier: Apache-2.0
"""Managed interrupts on guests' CPUs: which of them disturb, and which cannot be judged."""

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import managed_interrupts, runner
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan.refused import Refused
from tests.support import audit_hosts as hosts
from tests.support import testcase

_DEVICE = "sys/devices/pci0000:02/0000:02:00.0"
_BUS = {"sys/bus/pci/devices/0000:02:00.0": f"-> ../../../{_DEVICE[4:]}"}
RULE = managed_interrupts.ManagedOnDedicated.id


class ManagedTest(testcase.TestCase):
    def report(
        self,
        *irqs: tuple[str, int, str],
        cmdline: str = "quiet",
        refused: Refused | None = None,
        **changes: str | None,
    ) -> rules.Report:
        """Judge the good host with interrupts: name, CPU that serves it, CPUs of its queue."""
        tree: dict[str, str | None] = {**_BUS, "proc/cmdline": f"{cmdline}\n"}
        tree |= dict.fromkeys(hosts.irq(50, "nvme0q1", 0, hosts.NVME))  # its own
        for number, (name, cpu, queue) in enumerate(irqs, 90):
            tree |= hosts.irq(number, name, cpu, _DEVICE, allowed=queue)
        options = {"refused": refused} if refused else {}
        view = hosts.view(hosts.changed(hosts.good(), {**tree, **changes}), **options)
        return runner.run(view, runner.chosen([RULE]), strict=True)

    def subjects(self, report: rules.Report) -> list[str]:
        return [finding.subject for finding in report.findings]

    def test_a_queue_that_housekeeping_cpus_use_too(self) -> None:
        for name, subject in (
            ("nvme0q1", "nvme0"),
            ("nvme10q64", "nvme10"),
            ("virtio3-req.2", "virtio3"),
            ("virtio1-request", "virtio1"),
        ):
            with self.subTest(name):
                report = self.report((name, 2, "1-2"))
                self.assertEqual([subject], self.subjects(report))
                self.assertIn("isolcpus=managed_irq", report.findings[0].remedy)

    def test_what_disturbs_no_guest(self) -> None:
        for name, cpu, queue in (
            ("nvme0q1", 1, "1-2"),  # a housekeeping CPU serves it
            ("nvme0q1", 2, "2,10"),  # only CPUs of guests use the queue
        ):
            with self.subTest((cpu, queue)):
                self.assertEqual([RULE], self.report((name, cpu, queue)).clean)

    def test_the_boot_argument_helps(self) -> None:
        irq = ("nvme0q1", 2, "1-2")
        for cmdline, found in (
            ("isolcpus=managed_irq,domain,2-3,6-7", []),
            ("isolcpus=managed_irq,3", ["nvme0"]),
            ("isolcpus=domain,2-3", ["nvme0"]),
            ("isolcpus=2-3", ["nvme0"]),
        ):
            with self.subTest(cmdline):
                self.assertEqual(found, self.subjects(self.report(irq, cmdline=cmdline)))

    def test_what_is_not_known_to_be_managed(self) -> None:
        for name in ("nvme0q0", "ahci[0000:02:00.0]", "virtio3-config", "nvme-tcp"):
            with self.subTest(name):
                (unjudged,) = self.report((name, 2, "0-15")).unknown
                self.assertEqual("not_applicable", unjudged.code)

    def test_what_refused_a_write_is_managed(self) -> None:
        target = host_model.IrqTarget(90, "0000:02:00.0", "hba-7")
        refused = Refused(managed=frozenset({target}))
        report = self.report(("hba-7", 2, "0-15"), refused=refused)
        self.assertEqual(["0000:02:00.0"], self.subjects(report))

    def test_one_finding_a_device(self) -> None:
        report = self.report(
            ("nvme0q1", 2, "1-2"),
            ("nvme0q2", 3, "0,3"),
            ("nvme1q1", 6, "5-6"),
            ("nvme1q2", 5, "5-6"),
        )
        self.assertEqual(["nvme0", "nvme1"], self.subjects(report))
        self.assertEqual(
            "2 interrupts of nvme0 on CPUs 2-3, which guests or programs own: I/O of CPUs 0-1 "
            "interrupts them",
            report.findings[0].why,
        )

    def test_unknown_cpus_silence_one_interrupt_alone(self) -> None:
        gone = {"proc/irq/91/effective_affinity_list": None}
        irqs = ("nvme0q1", 2, "1-2"), ("nvme0q2", 3, "0,3")
        self.assertEqual(["nvme0"], self.subjects(self.report(*irqs, **gone)))
        (unjudged,) = self.report(("nvme0q0", 0, "0"), irqs[1], **gone).unknown
        self.assertEqual("no_data", unjudged.code)
