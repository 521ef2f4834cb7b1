"""Whose CPUs are whose: the host's own work against guests', and the kernel's command line against both."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import base, kernel
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Host

_NODES = "/sys/devices/system/node/online"
_ONLINE = "/sys/devices/system/cpu/online"
_ISOLATED = "/sys/devices/system/cpu/isolated"
_CMDLINE = "/proc/cmdline"
_ORACLE = (
    "Oracle, 10GbE network performance tuning (2013): the most important step, 5.2 to 9.5 Gb/s with the others"
)
_SEAPATH = "seapath/ansible #865, TuneD realtime-virtual-host, kernel documentation of these parameters"


def _sockets(host: Host) -> dict[int, frozenset[int]]:
    """Return the online CPUs of each package, or of each node where the packages are unknown."""
    found: dict[int, set[int]] = {}
    for cpu in host.facts.cpus:
        place = cpu.package if cpu.package is not None else cpu.node
        if cpu.online and place is not None:
            found.setdefault(place, set()).add(cpu.id)
    return {place: frozenset(cpus) for place, cpus in found.items()}


class XenDom0SpansSockets(base.Rule):
    """dom0 with as many CPUs as the machine has."""

    id = "xen-dom0-spans-sockets"
    level = Level.WARNING
    title = "Xen's control domain has the CPUs of one socket"
    reads = "/proc/xen/capabilities, /sys/devices/system/cpu"
    why = (
        "The back ends of all guests' disks and NICs wander over the sockets, away from their buffers and caches."
    )
    remedy = "dom0_max_vcpus=THREADS_OF_A_SOCKET dom0_vcpus_pin on Xen's command line, then reboot"
    source = _ORACLE

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.is_xen:
            raise NotApplicableError("not Xen's control domain")
        sockets = _sockets(host)
        if len(sockets) < 2:
            return
        first = sockets[min(sockets)]
        threads = len(first)
        yield self.finding(
            [("/proc/xen/capabilities", "control_d"), (_ONLINE, host.facts.online)],
            f"dom0 has {len(host.online)} CPUs of {len(sockets)} sockets: netback and blkback run on any of them, "
            f"far from the NIC and from the guest they serve; socket {min(sockets)} has {threads} threads",
            f"on Xen's command line (kernel /xen.gz, GRUB_CMDLINE_XEN): dom0_max_vcpus={threads} dom0_vcpus_pin; "
            "then reboot",
        )


class XenDom0Unpinned(base.Rule):
    """dom0's vCPUs may move."""

    id = "xen-dom0-unpinned"
    level = Level.WARNING
    title = "the CPUs of Xen's control domain are pinned"
    reads = "/boot/grub/grub.conf, /boot/grub2/grub.cfg, /etc/default/grub"
    why = "Xen moves dom0's CPUs over all physical ones; what Linux calls CPU 3 is another one each time."
    remedy = "dom0_vcpus_pin on Xen's command line, then reboot"
    source = _ORACLE

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.is_xen:
            raise NotApplicableError("not Xen's control domain")
        if host.boot_file is None:
            raise NotApplicableError("no boot loader configuration to read")
        path, text = host.boot_file
        lines = [line.strip() for line in text.splitlines() if re.search(r"xen[^ ]*\.gz|GRUB_CMDLINE_XEN", line)]
        if not lines or any("dom0_vcpus_pin" in line for line in lines):
            return
        shown = "".join(char if char.isprintable() else "?" for char in lines[0])[:200]
        yield self.finding([(path, shown)], f"Xen is started without dom0_vcpus_pin: {self.why}")


class HousekeepingUnset(base.Rule):
    """Guests with CPUs of their own, and a host that may use those too."""

    id = "housekeeping-unset"
    level = Level.WARNING
    title = "the host's own work is confined to housekeeping CPUs"
    reads = "/etc/nova/nova.conf, /proc/cmdline, /etc/systemd/system.conf, guests' pins"
    why = "Daemons and kernel threads preempt vCPUs that have paid for a CPU of their own, on every node."
    remedy = (
        "set [compute] cpu_dedicated_set and cpu_shared_set (nova-perf generate nova-conf), and keep the "
        "host off the "
        "dedicated CPUs: CPUAffinity= in /etc/systemd/system.conf, or isolcpus= (nova-perf generate grub-args)"
    )
    source = "Nova's documentation of CPU topologies; Oracle's step for dom0, on KVM"

    def check(self, host: Host) -> Iterator[Finding]:
        if host.is_xen or not host.sets.dedicated:
            raise NotApplicableError("no guest has CPUs of its own here")
        affinity = _systemd_affinity(host)
        confined = host.isolated or (affinity is not None and not affinity & host.sets.dedicated)
        if host.dedicated is not None and confined:
            return
        owned = cpulist.format(host.sets.dedicated)
        evidence = [(_ISOLATED, host.facts.isolated or "none")]
        if host.dedicated is None:
            evidence.append(host.owned)
        if affinity is None:
            evidence.append(("/etc/systemd/system.conf", "no CPUAffinity"))
        nodes = len(host.nodes_of(host.online))
        yield self.finding(
            evidence,
            f"guests own CPUs {owned}, and everything else on this host may run there as well as on the other "
            f"{base.plural(len(host.online - host.sets.dedicated), 'CPU')} ({base.plural(max(nodes, 1), 'node')})",
            "" if host.dedicated is None else self._confine(host),
            level=None if host.dedicated is None else Level.INFO,
        )

    @staticmethod
    def _confine(host: Host) -> str:
        own = cpulist.format(host.online - host.sets.dedicated)
        return f"CPUAffinity={own} in /etc/systemd/system.conf and a reboot, or isolcpus= (generate grub-args)"


def _systemd_affinity(host: Host) -> frozenset[int] | None:
    """Return ``CPUAffinity`` of systemd's manager, None when it is not set to a list."""
    found = None
    names = host.names("etc/systemd/system.conf.d")
    for path in ["etc/systemd/system.conf", *(f"etc/systemd/system.conf.d/{name}" for name in names)]:
        for line in (host.content(path, 65536) or "").splitlines():
            key, _, value = line.partition("=")
            if key.strip() == "CPUAffinity" and value.strip():
                found = kernel.cpus(",".join(value.split()))
    given = host.boot.get("systemd.cpu_affinity")
    return found if given is None else kernel.cpus(given)


class HousekeepingNodeMissing(base.Rule):
    """A NIC's node without a CPU for its interrupts."""

    id = "housekeeping-node-missing"
    level = Level.WARNING
    title = "each node with a NIC has a housekeeping CPU"
    reads = "/sys/class/net/*/device/numa_node, /etc/nova/nova.conf, isolcpus"
    why = "Interrupts and vhost workers of that NIC work from another node, over the interconnect."
    remedy = "leave at least one core of that node out of cpu_dedicated_set and isolcpus"
    source = "ESnet fasterdata: up to twice as slow from the remote socket"

    def check(self, host: Host) -> Iterator[Finding]:
        if len(host.nodes_of(host.online)) < 2:
            raise NotApplicableError("one NUMA node, or none known")
        if all(nic.node is None for nic in host.links):
            raise NotApplicableError("no NIC whose node is known")
        spare = host.nodes_of(host.sets.housekeeping)
        for nic in host.links:
            if nic.node is None or nic.node in spare or not host.sets.housekeeping:
                continue
            yield self.finding(
                [
                    (f"/sys/class/net/{nic.name}/device/numa_node", nic.node),
                    host.owned,
                    (_ISOLATED, host.facts.isolated or "none"),
                ],
                f"{nic.name} is on node {nic.node}, all of whose CPUs are dedicated or isolated; CPUs "
                f"{cpulist.format(host.sets.housekeeping)} are left to the host",
                subject=nic.name,
            )


class SharedIsolated(base.Rule):
    """cpu_shared_set on isolated CPUs."""

    id = "shared-set-isolated"
    level = Level.ERROR
    title = "cpu_shared_set has no isolated CPU"
    reads = "/sys/devices/system/cpu/isolated, /etc/nova/nova.conf"
    why = (
        "The scheduler balances nothing on isolated CPUs: floating vCPUs and emulators pile up on the "
        "first of them."
    )
    remedy = "take these CPUs out of isolcpus=, or out of cpu_shared_set"
    source = "kernel documentation of isolcpus; seapath/ansible #865"

    def check(self, host: Host) -> Iterator[Finding]:
        if host.shared is None:
            raise NotApplicableError("no [compute] cpu_shared_set")
        both = host.shared & cpulist.parse(host.facts.isolated)
        if both:
            text = cpulist.format(both)
            yield self.finding(
                [(_ISOLATED, host.facts.isolated), _nova(host, "cpu_shared_set")],
                f"CPUs {text} are shared and isolated: every thread put there stays on CPU {min(both)}",
            )


class IsolatedUnused(base.Rule):
    """Isolated CPUs that no guest can get."""

    id = "isolated-not-dedicated"
    level = Level.WARNING
    title = "isolated CPUs are those that Nova dedicates"
    reads = "/sys/devices/system/cpu/isolated, nohz_full, /etc/nova/nova.conf"
    why = (
        "Isolated CPUs that are not dedicated run nothing; dedicated ones that are not isolated run the "
        "host's work."
    )
    remedy = "make isolcpus= and cpu_dedicated_set the same (nova-perf generate grub-args)"
    source = _SEAPATH

    def check(self, host: Host) -> Iterator[Finding]:
        if host.dedicated is None or not host.isolated:
            raise NotApplicableError("no isolated CPUs, or no [compute] cpu_dedicated_set")
        idle = (host.isolated & host.online) - host.dedicated - (host.shared or frozenset())
        open_ = (host.dedicated & host.online) - host.isolated
        evidence = [(_ISOLATED, cpulist.format(host.isolated)), _nova(host, "cpu_dedicated_set")]
        if idle:
            yield self.finding(
                evidence,
                f"CPUs {cpulist.format(idle)} are isolated and given to nobody: they are lost to this host",
            )
        if open_:
            yield self.finding(
                evidence,
                f"of the dedicated CPUs {cpulist.format(open_)} are not isolated: their guests are disturbed "
                "where "
                "those of the isolated ones are not",
                level=Level.INFO,
            )


class NohzFull(base.Rule):
    """nohz_full beside the dedicated CPUs."""

    id = "nohz-full-mismatch"
    level = Level.WARNING
    title = "nohz_full names dedicated CPUs only"
    reads = "/sys/devices/system/cpu/nohz_full, /proc/cmdline, /etc/nova/nova.conf"
    why = (
        "Without the tick every entry into the kernel costs more; it pays only where one thread has the "
        "CPU for itself."
    )
    remedy = "nohz_full= the same CPUs as cpu_dedicated_set (nova-perf generate grub-args)"
    source = _SEAPATH

    def check(self, host: Host) -> Iterator[Finding]:
        full = cpulist.parse(host.facts.nohz_full)
        if not full:
            raise NotApplicableError("no nohz_full")
        beyond = full - host.sets.dedicated
        if beyond:
            yield self.finding(
                [
                    ("/sys/devices/system/cpu/nohz_full", host.facts.nohz_full),
                    host.owned,
                ],
                f"CPUs {cpulist.format(beyond)} are without a tick, but several threads share them: {self.why}",
            )


class IrqAffinity(base.Rule):
    """irqaffinity= and isolcpus= that contradict each other."""

    id = "irqaffinity-on-dedicated"
    level = Level.WARNING
    title = "irqaffinity= is the complement of the dedicated and isolated CPUs"
    reads = "/proc/cmdline, /etc/nova/nova.conf"
    why = "New interrupts start on guests' CPUs, until somebody moves them."
    remedy = "irqaffinity= the housekeeping CPUs (nova-perf generate grub-args)"
    source = "seapath/ansible #865: irqaffinity collided with isolcpus=managed_irq"

    def check(self, host: Host) -> Iterator[Finding]:
        if "irqaffinity" not in host.boot:
            raise NotApplicableError("no irqaffinity= on the kernel's command line")
        value = host.boot["irqaffinity"]
        isolated = kernel.cpus(host.boot.get("isolcpus", "")) | host.isolated
        wrong = kernel.cpus(value) & (isolated | host.sets.dedicated)
        if wrong:
            managed = "managed_irq" in kernel.flags(host.boot.get("isolcpus", ""))
            also = "; isolcpus=managed_irq asks for the contrary" if managed else ""
            evidence = [(_CMDLINE, f"irqaffinity={value}")]
            if "isolcpus" in host.boot:
                evidence.append((_CMDLINE, f"isolcpus={host.boot['isolcpus']}"))
            yield self.finding(
                evidence,
                f"new interrupts may start on CPUs {cpulist.format(wrong)}, which are dedicated or isolated{also}",
            )


def _nova(host: Host, key: str) -> tuple[str, str]:
    value = host.nova["compute", key]
    return value.source, value.text
