# SPDX-License-Identifier: Apache-2.0
"""Interrupts that the kernel places itself, against the CPUs that guests own.

A driver that asks for PCI_IRQ_AFFINITY has the kernel spread its vectors over all CPUs and keep
them there: a write to their affinity fails (EIO, since Linux 6.12 EPERM). Nothing in /proc says
so. Known are queues of NVMe (queue 0 is the administrator's and is not managed), of virtio disks
and SCSI controllers, and whatever refused a write.
"""

import re
from collections.abc import Iterator
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit.base import HostRule, need_none_left
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, NoDataError, need

#: drivers/nvme/host/pci.c, drivers/block/virtio_blk.c, drivers/scsi/virtio_scsi.c.
_MANAGED: Final = re.compile(
    r"(?P<device>nvme\d{1,5})q[1-9]\d{0,4}|(?P<virtio>virtio\d{1,5})-(req\.\d{1,4}|request)"
)
_FLAG: Final = "managed_irq"
_CMDLINE: Final = "/proc/cmdline"


class ManagedOnDedicated(HostRule):
    """Managed interrupts that housekeeping CPUs can take stay off the CPUs that guests own."""

    id = "managed-irq-on-dedicated"
    why = "Disk I/O of the host interrupts vCPUs there, and such an interrupt cannot be moved."
    remedy = (
        "isolcpus=managed_irq,... on the kernel's command line (nova-perf generate grub-args{given}), "
        "then a reboot"
    )
    source = "Linux, kernel-parameters.txt: isolcpus=managed_irq (5.6); kernel/irq/manage.c"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.sets.reserved, "no dedicated CPUs")
        need(host.facts.irqs, "interrupts are not in this record", NoDataError)
        by_device: dict[str, list[host_model.Irq]] = {}
        for number in sorted(host.facts.irqs):
            irq = host.facts.irqs[number]
            device = managed_device(host, irq)
            if device is not None:
                by_device.setdefault(device, []).append(irq)
        need(by_device, "no interrupt that the kernel is known to manage")
        unknown: list[int] = []
        left: list[int] = []
        kept = _kept_off(host)
        for device, irqs in by_device.items():
            wrong: list[host_model.Irq] = []
            for irq in irqs:
                if not irq.effective or not irq.affinity:
                    unknown.append(irq.number)
                elif not _disturbs(host, irq, kept):
                    continue
                elif irq.number in host.left:
                    left.append(irq.number)
                else:
                    wrong.append(irq)
            if wrong:
                yield self._about(host, device, wrong)
        text = f"the CPUs of interrupts {cpulist.format(unknown)} are not in this record"
        need(not unknown, text, NoDataError)
        need_none_left(left)

    def _about(self, host: Host, device: str, irqs: list[host_model.Irq]) -> Finding:
        evidence: list[tuple[str, object]] = []
        for irq in irqs[:3]:
            shown = f"{irq.effective} of {irq.affinity} ({irq.name})"
            evidence.append((f"/proc/irq/{irq.number}/effective_affinity_list", shown))
        if "isolcpus" in host.boot:
            evidence.append((_CMDLINE, f"isolcpus={host.boot['isolcpus']}"))
        evidence.append(host.owned)
        owned = cpulist.union(irq.effective or "" for irq in irqs) & host.sets.reserved
        queues = cpulist.union(irq.affinity or "" for irq in irqs)
        others = (queues & host.sets.online) - host.sets.reserved
        return self.finding(
            evidence,
            f"{counted(len(irqs), 'interrupt')} of {device} on {cpulist.named(owned)}, which guests or "
            f"programs own: I/O of {cpulist.named(others)} interrupts them",
            subject=device,
        )


def managed_device(host: Host, irq: host_model.Irq) -> str | None:
    """Return what a device is called whose interrupt the kernel manages; None: it is not known to."""
    match = _MANAGED.fullmatch(irq.name or "")
    if match is not None:
        return match["device"] or match["virtio"]
    if host.options.refused.is_managed(irq):
        return irq.device or irq.name or f"irq {irq.number}"
    return None


def _disturbs(host: Host, irq: host_model.Irq, kept: frozenset[int]) -> bool:
    """Whether I/O of other CPUs interrupts one that a guest owns.

    A queue whose CPUs are all owned by guests fires only for I/O that these CPUs submit.
    """
    serving = cpulist.parse(irq.effective or "")
    queue = cpulist.parse(irq.affinity or "")
    others = (queue & host.sets.online) - host.sets.reserved
    return bool(serving & host.sets.reserved - kept) and bool(others)


def _kept_off(host: Host) -> frozenset[int]:
    """Return the CPUs from which ``isolcpus=managed_irq`` keeps what another CPU can take."""
    value = host.boot.get("isolcpus", "")
    if _FLAG not in value.split(","):
        return frozenset()
    return host.cpus_of_parameter(value) or frozenset()
