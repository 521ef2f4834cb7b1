# SPDX-License-Identifier: Apache-2.0
"""Interrupts of which counts alone say where they are: shares of CPUs, names, and what is no device's."""

from collections.abc import Mapping, Sequence

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import host, runner
from nova_perf_tuning.host.input.facts import irq_counts, reader
from nova_perf_tuning.host.interference import attribute
from nova_perf_tuning.host.model import cpu_interrupts
from nova_perf_tuning.host.model.channels import Channel
from nova_perf_tuning.host.plan import vectors
from tests.support import audit_hosts, testcase

_CPU = "sys/devices/system/cpu"
_FOUR_CORES = {f"{_CPU}/online": "0-3\n"} | {
    f"{_CPU}/cpu{cpu}/topology/core_cpus_list": f"{cpu}\n" for cpu in range(4)
}


def table(rows: Sequence[tuple[int, Sequence[int], str, str]]) -> dict[str, str]:
    """Return /proc/interrupts: number, counts, chip with its number, and name of each."""
    lines = ["           CPU0       CPU1       CPU2       CPU3"]
    for number, counts, chip, name in rows:
        lines.append(f"{number}: {' '.join(map(str, counts))}  {chip}      {name}")
    return {"proc/interrupts": "\n".join(lines) + "\n"}


def nic(name: str, driver: str) -> dict[str, str]:
    """Return what a sosreport has of a NIC: ``ethtool -i`` alone."""
    text = f"driver: {driver}\nbus-info: 0000:07:00.0\n"
    return {f"sos_commands/networking/ethtool_-i_{name}": text}


class CountedCase(testcase.TestCase):
    def view(self, *trees: Mapping[str, str]) -> host.Host:
        """Return the host of these files alone, as a directory or a sosreport."""
        root: dict[str, str | None] = dict(_FOUR_CORES)
        for tree in trees:
            root |= tree
        opened = reader.open_root(audit_hosts.grow(self, root))
        return host.Host(opened, reader.read_root(opened))

    def found(self, view: host.Host, rule: str) -> list[tuple[rules.Level, str, str]]:
        """Return level, subject and reason of what a rule finds."""
        report = runner.run(view, strict=True)
        return [
            (finding.level, finding.subject, finding.why)
            for finding in report.findings
            if finding.rule == rule
        ]


_PCI = "PCI-MSI-edge"


class SharesTest(CountedCase):
    def devices(self, *counts: Sequence[int]) -> host.Host:
        rows = [(20 + index, row, _PCI, f"disk{index}") for index, row in enumerate(counts)]
        return self.view(table(rows))

    def test_the_past_of_a_few_interrupts_does_not_spread_them(self) -> None:
        view = self.devices((96_000, 4_000, 0, 0), (95_000, 0, 5_000, 0), (80_000, 0, 0, 0))
        ((level, _subject, why),) = self.found(view, "device-irqs-one-cpu")
        self.assertEqual(rules.Level.WARNING, level)
        self.assertIn("97% of their counts since boot on CPU 0", why)

    def test_a_busy_interrupt_does_not_hide_that_the_others_are_spread(self) -> None:
        view = self.devices((9_900_000, 0, 0, 0), (0, 50_000, 0, 0), (0, 0, 50_000, 0))
        self.assertEqual([], self.found(view, "device-irqs-one-cpu"))

    def test_evenly_served_interrupts_are_in_order(self) -> None:
        view = self.devices((50_000, 50_000, 0, 0), (0, 0, 50_000, 50_000))
        self.assertEqual([], self.found(view, "device-irqs-one-cpu"))

    def test_masks_say_where_they_are_now(self) -> None:
        masks = {"proc/irq/20/effective_affinity_list": "0\n"}
        masks["proc/irq/21/effective_affinity_list"] = "1\n"
        rows = [(20, (96_000, 0, 0, 0), _PCI, "d0"), (21, (96_000, 10, 0, 0), _PCI, "d1")]
        handlers = {
            "proc/irq/20/d0": audit_hosts.DIRECTORY,
            "proc/irq/21/d1": audit_hosts.DIRECTORY,
        }
        view = self.view(table(rows), masks, handlers)
        self.assertEqual([], self.found(view, "device-irqs-one-cpu"))

    def test_queues_of_a_nic(self) -> None:
        rows = []
        for queue in range(4):
            rows.append((44 + queue, (9_200_000, 800_000, 0, 0), _PCI, f"eth1-rx-{queue}"))
            rows.append((48 + queue, (84_000, 16_000, 0, 0), _PCI, f"eth1-tx-{queue}"))
        view = self.view(table(rows), nic("eth1", "igb"))
        ((level, subject, why),) = self.found(view, "nic-irq-one-cpu")
        self.assertEqual((rules.Level.WARNING, "eth1"), (level, subject))
        self.assertIn("92% of their counts since boot on CPU 0", why)

    def test_mostly_serving(self) -> None:
        for counts, expected in (
            ({0: 96, 1: 4}, {0}),
            ({0: 50, 1: 50}, {0, 1}),
            ({0: 10, 1: 80, 2: 10}, {0, 1}),
            ({}, set()),
        ):
            self.assertEqual(expected, irq_counts.mostly_serving(counts))

    def test_few_counts_say_nothing(self) -> None:
        self.assertEqual(("", 0.0), irq_counts.gathered([{0: 90}, {0: 50, 1: 1}], {}))


class NamesTest(CountedCase):
    def test_vectors_of_a_report_are_those_of_their_names(self) -> None:
        """Kernels before 6.2 do not say in this file which device an interrupt is of."""
        rows = [
            (60 + index, (5, 0, 0, 0), _PCI, f"mlx4-comp-{index}@pci:0000:07:00.0")
            for index in range(2)
        ]
        rows += [(64 + queue, (10_000, 0, 0, 0), _PCI, f"eth2-{queue}") for queue in range(2)]
        view = self.view(table(rows), nic("eth2", "mlx4_en"))
        device = view.nics["eth2"]
        self.assertEqual("mlx4_core", device.driver)
        queues = vectors.classify(device, view.interrupts(device)).queues
        self.assertEqual(
            {0: [64], 1: [65]}, {key: [irq.number for irq in of] for key, of in queues.items()}
        )

    def test_channels_without_features(self) -> None:
        text = "Channel parameters for eth1:\nPre-set maximums:\nCombined: 8\n"
        text += "Current hardware settings:\nCombined: 4\n"
        name = "sos_commands/networking/ethtool_-l_eth1"
        view = self.view(nic("eth1", "igb"), {name: text, "proc/version": "Linux\n"})
        self.assertEqual(4, view.ethtool["eth1"].channels["combined"])
        report = runner.run(view, strict=True)
        lacking = {lack.rule: lack.text for lack in report.unknown}
        self.assertIn("ethtool -k", lacking["offloads-off"])
        self.assertNotIn("channels unknown", lacking.get("channels-vs-housekeeping", ""))


class OfCpusTest(CountedCase):
    NAMES = (
        *("IPI-0", "IPI-15", "IPI", "ipi reschedule", "ipi call function single", "nmi ipi"),
        *("ipi tick-broadcast", "IPI resched", "IPI call", "resched0", "callfuncsingle12"),
    )

    def test_names(self) -> None:
        for name in self.NAMES:
            self.assertTrue(cpu_interrupts.is_of_cpus(name), name)
            self.assertEqual(Channel.PROCESSOR_INTERRUPTS, attribute.device_interrupt(16, name)[0])
        for name in ("arch_timer", "timer0", "kvm guest vtimer"):
            self.assertEqual(Channel.TICK_AND_TIMERS, attribute.device_interrupt(11, name)[0])
        for other in (None, "timer", "ipi_hsw", "virtio1", "eth0-TxRx-1", "rtc0", "ipmi_si"):
            self.assertFalse(cpu_interrupts.is_of_cpus(other), other)

    def test_they_are_no_devices(self) -> None:
        rows = [
            (16, (90_000, 90_000, 0, 0), "XIVE-IPI   0 Edge", "IPI-0"),
            (17, (0, 0, 90_000, 90_000), "XIVE-IPI   1 Edge", "IPI-1"),
            (18, (0, 60_000, 0, 0), "XIVE-IRQ 4609 Level", "virtio0"),
            (19, (0, 50_000, 0, 0), "XIVE-IRQ 4610 Level", "virtio1"),
        ]
        ((_level, _subject, why),) = self.found(self.view(table(rows)), "device-irqs-one-cpu")
        self.assertNotIn("IPI", why)
        self.assertIn("served by CPU 1", why)
