# SPDX-License-Identifier: Apache-2.0
"""Every way in which work of the host reaches a guest's CPU.

One table for the plan's proof, ``topology`` and the documentation.
"""

import dataclasses
import enum
from collections.abc import Iterator
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
        remark="devices of other network namespaces are not looked at",
    ),
    ChannelRow(
        Channel.RFS,
        "packets that RFS hands to the CPU of their reader",
        "net.core.rps_sock_flow_entries, queues/rx-*/rps_flow_cnt",
        ComparedBy.AUDIT,
        kinds=("sysctl",),
        rules=("rfs-with-pinned-guests",),
        remark="no mask bounds it, the reader's affinity alone does",
    ),
    ChannelRow(
        Channel.NAPI_THREADS,
        "threads that poll NICs",
        "threads napi/*, netlink",
        ComparedBy.PLAN,
        work=("napi",),
        kinds=_THREAD,
        rules=("napi-thread-on-dedicated",),
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
        "unbound work of the kernel, as writeback",
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
    OTHER_NAMESPACES = "other_namespaces"


#: The English of each reason, with :attr:`Unseen.number`.
_GAPS: Final = {
    Gap.NO_DATA: "no data",
    Gap.OTHER_NAMESPACES: "devices of {number} other network namespaces",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Unseen:
    """A channel that a plan proves elsewhere, and that was not looked at here, or not everywhere.

    :ivar number: how many namespaces; 0 where that is not the reason.
    """

    channel: Channel
    gap: Gap
    number: int = 0

    @property
    def text(self) -> str:
        """One clause for people."""
        gap = _GAPS[self.gap].format(number=self.number)
        if self.number == 1:
            gap = gap.removesuffix("s")
        return f"{self.channel.replace('_', ' ')} ({gap})"

    def as_json(self) -> dict[str, object]:
        """Return code, reason and text."""
        return {"channel": self.channel.value, "reason": self.gap.value, "text": self.text}


def unseen(facts: host_model.HostFacts) -> Iterator[Unseen]:
    """Yield the channels of which these facts do not say, or not of all, where they reach."""
    masks = False
    for nic in facts.nics:
        if any(nic.rps):
            masks = True
    known = {
        Channel.INTERRUPTS: bool(facts.irqs),
        Channel.NEW_INTERRUPTS: facts.new_irq_mask is not None,
        Channel.RPS: masks,
        Channel.WORKQUEUES: facts.workqueue_mask is not None,
        Channel.KERNEL_THREADS: facts.kernel_threads is not None,
    }
    for channel, seen in known.items():
        if not seen:
            yield Unseen(channel, Gap.NO_DATA)
    if masks and facts.namespaces:
        yield Unseen(Channel.RPS, Gap.OTHER_NAMESPACES, facts.namespaces)
