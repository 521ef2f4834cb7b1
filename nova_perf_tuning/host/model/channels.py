# SPDX-License-Identifier: Apache-2.0
"""Every way in which work of the host reaches a guest's CPU.

One table for the plan's proof, ``topology`` and the documentation.
"""

import dataclasses
import enum
from collections.abc import Iterable, Iterator
from typing import Final

from nova_perf_tuning.host.model import host_model


class Channel(enum.StrEnum):
    """A way in which work of the host reaches a CPU."""

    INTERRUPTS = "interrupts"
    MANAGED_INTERRUPTS = "managed_interrupts"
    NEW_INTERRUPTS = "new_interrupts"
    RPS = "rps"
    RFS = "rfs"
    NAPI_THREADS = "napi_threads"
    VHOST_WORKERS = "vhost_workers"
    QEMU_THREADS = "qemu_threads"
    WORKQUEUES = "workqueues"
    KERNEL_THREADS = "kernel_threads"
    PROCESSES = "processes"
    VSWITCH_THREADS = "vswitch_threads"
    TICK_AND_TIMERS = "tick_and_timers"
    RCU_CALLBACKS = "rcu_callbacks"
    WATCHDOGS = "watchdogs"
    PROCESSOR_INTERRUPTS = "processor_interrupts"
    SIBLING_THREAD = "sibling_thread"
    MACHINE_CHECKS = "machine_checks"
    CPU_BANDWIDTH = "cpu_bandwidth"
    FREQUENCY_AND_IDLE = "frequency_and_idle"
    MAINTENANCE = "maintenance"


class ComparedBy(enum.StrEnum):
    """What says that a channel does not reach a guest's CPU.

    PLAN: the plan compares its CPUs with those of guests. AUDIT: rules judge what causes it.
    NOTHING: it happens on purpose, and nothing of the host shows it beforehand.
    """

    PLAN = "plan"
    AUDIT = "audit"
    NOTHING = "nothing"


@dataclasses.dataclass(frozen=True, slots=True)
class ChannelRow:
    """What is known of one channel.

    :ivar title: what it is; :ivar seen: where it is read.
    :ivar work: its name among the sets of a plan, where the plan proves it.
    :ivar kinds: kinds of settings that move it; :ivar rules: rules of the audit that judge it.
    :ivar remark: what a setting cannot do.
    """

    channel: Channel
    title: str
    seen: str
    proof: ComparedBy
    work: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    remark: str = ""


_IRQ: Final = ("irq_affinity",)
_THREAD: Final = ("thread_affinity",)
_CPUS: Final = ("host_cpus",)
_ELSEWHERE: Final = "devices of other network namespaces are not checked"
#: The channels in the order of their numbers, from 1.
CHANNELS: Final = (
    ChannelRow(
        Channel.INTERRUPTS,
        "interrupts of NICs and of passed-through devices",
        "/proc/irq/N/smp_affinity_list, effective_affinity_list",
        ComparedBy.PLAN,
        work=("irq",),
        kinds=_IRQ,
        rules=("nic-irq-on-dedicated",),
    ),
    ChannelRow(
        Channel.MANAGED_INTERRUPTS,
        "interrupts that the kernel places itself (NVMe, some NICs and adapters)",
        "/proc/irq/N/effective_affinity_list",
        ComparedBy.AUDIT,
        rules=("managed-irq-on-dedicated", "device-irq-on-dedicated"),
        remark="the kernel refuses writes: isolcpus=managed_irq at boot, or fewer queues",
    ),
    ChannelRow(
        Channel.NEW_INTERRUPTS,
        "interrupts that come later",
        "/proc/irq/default_smp_affinity",
        ComparedBy.PLAN,
        work=("new_irq",),
        kinds=_CPUS,
        rules=("new-irqs-on-dedicated", "irqaffinity-on-dedicated"),
    ),
    ChannelRow(
        Channel.RPS,
        "packets that RPS hands on, of any network device",
        "/sys/class/net/*/queues/rx-*/rps_cpus, net.core.rps_default_mask",
        ComparedBy.PLAN,
        work=("rps",),
        kinds=("rps", "host_cpus"),
        rules=("rps-on-dedicated",),
        remark=_ELSEWHERE,
    ),
    ChannelRow(
        Channel.RFS,
        "packets that RFS hands to the CPU of their reader",
        "net.core.rps_sock_flow_entries, queues/rx-*/rps_flow_cnt",
        ComparedBy.AUDIT,
        kinds=("sysctl",),
        rules=("rfs-with-pinned-guests",),
        remark=f"no mask bounds it, the reader's affinity alone does; {_ELSEWHERE}",
    ),
    ChannelRow(
        Channel.NAPI_THREADS,
        "threads that poll NICs",
        "threads napi/*, netlink",
        ComparedBy.PLAN,
        work=("napi",),
        kinds=_THREAD,
        rules=("napi-thread-on-dedicated",),
        remark=_ELSEWHERE,
    ),
    ChannelRow(
        Channel.VHOST_WORKERS,
        "vhost workers",
        "threads of QEMU and of the kernel",
        ComparedBy.PLAN,
        work=("vhost",),
        kinds=_THREAD,
        rules=("vhost-on-dedicated",),
    ),
    ChannelRow(
        Channel.QEMU_THREADS,
        "emulator and I/O threads, QEMU's pool and migration threads",
        "threads of QEMU",
        ComparedBy.PLAN,
        work=("emulator", "iothread"),
        kinds=_THREAD,
        rules=("emulator-on-dedicated", "migration-threads-on-dedicated"),
    ),
    ChannelRow(
        Channel.WORKQUEUES,
        "unbound work of the kernel, such as writeback",
        "/sys/devices/virtual/workqueue/cpumask, cpumask_requested",
        ComparedBy.PLAN,
        work=("workqueue",),
        kinds=_CPUS,
        rules=("workqueues-on-dedicated",),
        remark="a queue's own mask is cut to this one by the kernel",
    ),
    ChannelRow(
        Channel.KERNEL_THREADS,
        "threads of the kernel that are bound to no CPU",
        "children of kthreadd without PF_NO_SETAFFINITY",
        ComparedBy.PLAN,
        work=("kthread",),
        kinds=("kernel_thread_affinity",),
        rules=("kernel-threads-on-dedicated",),
        remark="those of a node without a housekeeping CPU are left alone",
    ),
    ChannelRow(
        Channel.PROCESSES,
        "processes and services of the host",
        "CPUAffinity=, AllowedCPUs=, partitions of cgroup v2",
        ComparedBy.AUDIT,
        rules=("housekeeping-unset", "machine-slice-cpus"),
    ),
    ChannelRow(
        Channel.VSWITCH_THREADS,
        "threads of Open vSwitch: handlers, revalidators, PMD threads",
        "threads of ovs-vswitchd",
        ComparedBy.AUDIT,
        rules=("ovs-threads-on-dedicated", "ovs-pmd-not-isolated"),
    ),
    ChannelRow(
        Channel.TICK_AND_TIMERS,
        "the scheduler's tick, and timers",
        "/sys/devices/system/cpu/nohz_full, kernel.timer_migration",
        ComparedBy.AUDIT,
        kinds=("sysctl",),
        rules=("nohz-full-mismatch", "timer-migration-off"),
    ),
    ChannelRow(
        Channel.RCU_CALLBACKS,
        "callbacks of RCU",
        "threads rcuo*",
        ComparedBy.PLAN,
        work=("kthread",),
        kinds=("kernel_thread_affinity",),
        rules=("kernel-threads-on-dedicated",),
        remark="without rcu_nocbs= or nohz_full= a CPU runs its callbacks itself",
    ),
    ChannelRow(
        Channel.WATCHDOGS,
        "watchdogs for lockups",
        "kernel.watchdog_cpumask, kernel.watchdog",
        ComparedBy.AUDIT,
        kinds=_CPUS,
        rules=("watchdog-on-dedicated",),
        remark="lockups of CPUs outside the mask are not detected",
    ),
    ChannelRow(
        Channel.PROCESSOR_INTERRUPTS,
        "interrupts from CPU to CPU: KSM, compaction, NUMA balancing",
        "/sys/kernel/mm, kernel.numa_balancing",
        ComparedBy.AUDIT,
        kinds=("memory", "sysctl"),
        rules=("ksm-with-pinned-guests", "numa-balancing-with-pinned-guests"),
        remark="they are kept off by what causes them",
    ),
    ChannelRow(
        Channel.SIBLING_THREAD,
        "the other hardware thread of a guest's core",
        "topology/core_cpus_list",
        ComparedBy.AUDIT,
        rules=("nova-cpu-sets", "isolated-half-cores"),
    ),
    ChannelRow(
        Channel.MACHINE_CHECKS,
        "polling for machine checks",
        "/sys/devices/system/machinecheck/*/check_interval",
        ComparedBy.AUDIT,
        rules=("machine-check-polling",),
        remark="it is an interval of the whole machine",
    ),
    ChannelRow(
        Channel.CPU_BANDWIDTH,
        "quotas of a guest's own cgroup",
        "cpu.max, cpu.stat of machine.slice",
        ComparedBy.AUDIT,
        rules=("guest-throttled",),
        remark="quota:cpu_quota of the flavor",
    ),
    ChannelRow(
        Channel.FREQUENCY_AND_IDLE,
        "frequency and idle states of a guest's CPU",
        "cpufreq, cpuidle",
        ComparedBy.AUDIT,
        kinds=("governor",),
        rules=("cpu-governor", "deep-idle-states"),
    ),
    ChannelRow(
        Channel.MAINTENANCE,
        "CPU hotplug, microcode, live patches",
        "the kernel's log",
        ComparedBy.NOTHING,
        remark="do it while the host is out of service",
    ),
)


class Gap(enum.StrEnum):
    """Why a channel was not looked at."""

    NO_DATA = "no_data"
    SOME_DEVICES = "some_devices"
    SOME_THREADS = "some_threads"
    OTHER_NAMESPACES = "other_namespaces"
    NAMESPACES_UNKNOWN = "namespaces_unknown"


#: The English of each reason, with :attr:`Unseen.number`.
_GAPS: Final = {
    Gap.NO_DATA: "no data",
    Gap.SOME_DEVICES: "no data of {number} devices",
    Gap.SOME_THREADS: "no data of {number} threads",
    Gap.OTHER_NAMESPACES: "devices of {number} other network namespaces",
    Gap.NAMESPACES_UNKNOWN: "devices of other network namespaces, if there are any",
}
#: Channels that each network device may use, also one of another namespace.
_BY_DEVICE: Final = (Channel.RPS, Channel.RFS, Channel.NAPI_THREADS)
#: Channels that a parameter of the kernel decides about.
_SYSCTLS: Final = {
    Channel.RFS: "net.core.rps_sock_flow_entries",
    Channel.TICK_AND_TIMERS: "kernel.timer_migration",
    Channel.WATCHDOGS: "kernel.watchdog_cpumask",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Unseen:
    """A channel that was not looked at here, or not everywhere.

    :ivar number: how many devices, threads or namespaces; 0 where that is not the reason.
    """

    channel: Channel
    gap: Gap
    number: int = 0

    @property
    def title(self) -> str:
        """The channel in words."""
        return self.channel.replace("_", " ")

    @property
    def why(self) -> str:
        """The reason in words."""
        gap = _GAPS[self.gap].format(number=self.number)
        if self.number == 1:
            gap = gap.removesuffix("s")
        return gap

    @property
    def text(self) -> str:
        """One clause for people."""
        return f"{self.title} ({self.why})"

    def as_json(self) -> dict[str, object]:
        """Return code, reason and text."""
        return {"channel": self.channel.value, "reason": self.gap.value, "text": self.text}


def not_looked_at(every: Iterable[Unseen]) -> str:
    """Return one line for people; channels with the same reason stand together."""
    titles: dict[str, list[str]] = {}
    for each in every:
        titles.setdefault(each.why, []).append(each.title)
    clauses = [f"{', '.join(of_one)} ({why})" for why, of_one in titles.items()]
    return f"not checked: {'; '.join(clauses)}"


def unseen(facts: host_model.HostFacts) -> Iterator[Unseen]:
    """Yield the channels of which these facts do not say, or not of all, where they reach.

    Every channel that the plan compares is judged here, and those of the audit that a parameter
    of the kernel decides about.
    """
    known = _known(facts)
    for channel in Channel:
        if not known.get(channel, True):
            yield Unseen(channel, Gap.NO_DATA)
    for each in _in_part(facts):
        if known[each.channel]:
            yield each


def _known(facts: host_model.HostFacts) -> dict[Channel, bool]:
    """Return channel -> whether anything is known of it."""
    # A record without any process, and a container, show neither guests nor the kernel's threads.
    kernel_threads = facts.kernel_threads is not None
    processes = kernel_threads or bool(facts.guests)
    known = {
        Channel.INTERRUPTS: any(irq.affinity or irq.effective for irq in facts.irqs.values()),
        Channel.NEW_INTERRUPTS: facts.new_irq_mask is not None,
        Channel.RPS: any(any(nic.rps) for nic in facts.nics),
        Channel.NAPI_THREADS: any(_says_who_polls(nic) for nic in facts.nics),
        Channel.VHOST_WORKERS: processes,
        Channel.QEMU_THREADS: processes,
        Channel.WORKQUEUES: facts.workqueue_mask is not None,
        Channel.KERNEL_THREADS: kernel_threads,
        Channel.RCU_CALLBACKS: kernel_threads,
    }
    for channel, sysctl in _SYSCTLS.items():
        known[channel] = sysctl in facts.sysctls
    return known


def _says_who_polls(nic: host_model.Nic) -> bool:
    """Whether it is known if threads poll a device, and where these may run."""
    threads = [napi.thread for napi in nic.napis if napi.thread is not None]
    if threads:
        return all(thread.affinity is not None for thread in threads)
    return nic.threaded is False or (nic.threaded is None and bool(nic.napis))


def _in_part(facts: host_model.HostFacts) -> Iterator[Unseen]:
    """Yield the channels of which some devices or threads are not known."""
    masks = threads = vhost = others = 0
    for nic in facts.nics:
        masks += not any(nic.rps)  # each device has a receive queue
        threads += not _says_who_polls(nic)
    for guest in facts.guests:
        for thread in guest.threads:
            if thread.affinity is not None or thread.kind == "vcpu":
                continue
            if thread.kind == "vhost":
                vhost += 1
            else:
                others += 1
    for channel, gap, number in (
        (Channel.RPS, Gap.SOME_DEVICES, masks),
        (Channel.NAPI_THREADS, Gap.SOME_DEVICES, threads),
        (Channel.VHOST_WORKERS, Gap.SOME_THREADS, vhost),
        (Channel.QEMU_THREADS, Gap.SOME_THREADS, others),
    ):
        if number:
            yield Unseen(channel, gap, number)
    for channel in _BY_DEVICE:
        if facts.namespaces is None:
            yield Unseen(channel, Gap.NAMESPACES_UNKNOWN)
        elif facts.namespaces:
            yield Unseen(channel, Gap.OTHER_NAMESPACES, facts.namespaces)
