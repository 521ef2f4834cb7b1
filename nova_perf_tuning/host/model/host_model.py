# SPDX-License-Identifier: Apache-2.0
"""What is known of a host: plain data, read by :mod:`nova_perf_tuning.host.input.facts`, used by the planner.

Nothing here touches a system. Texts that come from the kernel and are only compared or written back
(affinities, masks) stay as the kernel printed them; numbers and sets are parsed where they are used.
An unknown value is ``None``, never -1.
"""

import dataclasses
import enum
import functools
import re
from collections.abc import Mapping
from typing import ClassVar, Final, Self

from nova_perf_tuning import errors
from nova_perf_tuning.guest import domain
from nova_perf_tuning.host.model.notes import Note

#: arch/x86/events/intel/core.c: names of the PMUs of a hybrid machine, the strongest kind first.
KINDS: Final = ("core", "atom", "lowpower")


@dataclasses.dataclass(slots=True)
class Cpu:
    """One logical CPU.

    :ivar core: ``core_id`` of sysfs (unique within a package or die only), None when offline.
    :ivar package: ``physical_package_id``.
    :ivar node: NUMA node, None when the kernel gives no NUMA data for it.
    :ivar siblings: cpulist of the hardware threads of this CPU's core, itself included.
    :ivar capacity: ``cpu_capacity`` of hybrid machines (1024 = the strongest core), else None.
    :ivar l3: cpulist of the online CPUs that share its L3 cache, itself included; None where it has none.
    :ivar kind: on Intel's hybrid machines ``core`` (performance), ``atom`` (efficiency) or ``lowpower``.
    :ivar l2: cpulist of the online CPUs that share its L2 cache, as ``l3``.
    :ivar book, drawer: on s390 what holds its package, and what holds the book; None elsewhere.
    :ivar core_known: whether ``siblings`` is known; else this CPU is taken for a core of its own.
    """

    id: int
    core: int | None
    package: int | None
    node: int | None
    online: bool
    siblings: str
    capacity: int | None = None
    l3: str | None = None
    kind: str | None = None
    l2: str | None = None
    book: int | None = None
    drawer: int | None = None
    core_known: bool = True


@dataclasses.dataclass(slots=True)
class Node:
    """One NUMA node; it may have no CPUs (memory only) or no memory.

    :ivar cpus: cpulist of its online CPUs.
    :ivar memory_kib: MemTotal, None when unreadable.
    :ivar distances: SLIT distance to each node id; empty when the kernel gives none.
    """

    id: int
    cpus: str
    memory_kib: int | None
    distances: Mapping[int, int]


@dataclasses.dataclass(slots=True)
class Irq:
    """One interrupt: of /proc/irq, or of a record without it a line of /proc/interrupts.

    :ivar name: action name(s) as in its directory; None if no handler.
    :ivar device: PCI address or NIC that owns it, None if unknown.
    :ivar affinity: ``smp_affinity_list`` as read; None when unreadable.
    :ivar effective: ``effective_affinity_list`` as read; lags behind until the next interrupt on plain MSI.
    :ivar node: NUMA node that the kernel notes for it.
    :ivar fired: cpulist of the CPUs that have served it by ``/proc/interrupts``, of a recorded host without the
        two masks; None where they are known, or it never fired.
    """

    number: int
    name: str | None
    device: str | None
    affinity: str | None
    effective: str | None
    node: int | None
    fired: str | None = None

    @property
    def serving(self) -> str | None:
        """The CPUs that serve it, else those that may, else those that have; None where nothing says it."""
        if self.effective:
            return self.effective
        return self.fired if self.affinity is None else self.affinity


@dataclasses.dataclass(slots=True)
class Nic:
    """One network device.

    :ivar kind: ``physical``, ``vf``, ``tap``, ``bridge``, ``bond``, ``veth``, ``vlan``, ``loopback`` or ``other``.
    :ivar pci: address such as ``0000:82:00.0``, also where a virtio device lies between NIC and PCI.
    :ivar bridge: Linux bridge it is a port of; ``ovs-system`` for a port of a kernel Open vSwitch.
    :ivar bond: bond it is a member of.
    :ivar speed_mbps: None when the link is down or the driver does not know.
    :ivar irqs: numbers of its interrupts, of all its PCI functions, ascending; without PCI those of its name.
    :ivar rps: ``rps_cpus`` mask of each receive queue as read, index = queue; None: there is none.
    :ivar xps: ``xps_cpus`` mask of each transmit queue as read; None of devices without hardware
        and where the kernel has none (single queue).
    :ivar threaded: whether its NAPIs run in threads (busy polling, too), unless set one by one; None: unknown.
    :ivar napis: what the kernel says of its NAPIs; before Linux 6.8 only those with threads.
    :ivar quiet: its interrupts have hardly fired beside those of the busiest NIC; known of hosts with few CPUs.
    """

    name: str
    kind: str
    driver: str | None
    pci: str | None
    node: int | None
    bridge: str | None
    bond: str | None
    mtu: int | None
    speed_mbps: int | None
    operstate: str | None
    rx_queues: int
    tx_queues: int
    irqs: tuple[int, ...]
    rps: tuple[str | None, ...]
    xps: tuple[str | None, ...]
    threaded: bool | None = None
    napis: tuple["Napi", ...] = ()
    quiet: bool = False


@dataclasses.dataclass(slots=True)
class Thread:
    """One thread that runs a guest or a NAPI.

    :ivar kind: ``vcpu``, ``emulator``, ``iothread``, ``vhost``, ``worker`` (QEMU's pool threads) or ``napi``.
    :ivar index: number of the vCPU, I/O thread or NAPI; for vhost the queue pair in thread id order.
    :ivar affinity: allowed CPUs as a cpulist; None when it vanished while being read.
    :ivar start: start time in clock ticks after boot: with the id it names the thread for ever.
    :ivar kernel: True for a kernel thread, as NAPI's, or a vhost worker outside QEMU's process (Linux <= 6.3).
    """

    tid: int
    kind: str
    index: int | None
    affinity: str | None
    start: int
    kernel: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Napi:
    """What polls queues of a NIC (Documentation/networking/napi.rst).

    :ivar irq: number of its interrupt, None where the driver does not tell or there is none (veth).
    :ivar rx, tx: numbers of the queues that it polls; empty where the driver does not tell.
    :ivar thread: the kernel thread that polls in place of the softirq, None without threaded NAPI.
    """

    id: int
    irq: int | None
    rx: tuple[int, ...]
    tx: tuple[int, ...]
    thread: Thread | None = None


@dataclasses.dataclass(slots=True)
class GuestProcess:
    """A running QEMU process and its threads.

    :ivar domain: the domain as libvirt defined it, None when its XML cannot be read.
    :ivar slice: path of the one of :attr:`HostFacts.slices` that holds it, None where none of them does.
    """

    name: str
    pid: int
    threads: tuple[Thread, ...]
    domain: domain.Domain | None
    slice: str | None = None


@dataclasses.dataclass(slots=True)
class ProgramThread:
    """A thread of a program that is no guest: of Open vSwitch's workers, or bound to one isolated CPU.

    :ivar program: name of its process (``ovs-vswitchd``); :ivar name: its own (``pmd-c05/id:8``).
    :ivar affinity: allowed CPUs as a cpulist.
    :ivar is_bound: it polls on its one CPU for a program that may own CPUs, as a PMD thread does.
    :ivar said: where it is configured, of one that the record does not show: it has no number then.
    """

    program: str
    pid: int
    tid: int
    name: str
    affinity: str
    is_bound: bool
    said: str = ""

    @property
    def evidence(self) -> tuple[str, str]:
        """Where it is read what it may use, and what is there."""
        if self.said:
            return self.said, self.name
        return (
            f"/proc/{self.pid}/task/{self.tid}/status Cpus_allowed_list",
            f"{self.affinity} ({self.name})",
        )


@dataclasses.dataclass(slots=True)
class KernelThread:
    """A thread of the kernel that the kernel binds to no CPU, so that its affinity can be set.

    Left out: threads of interrupts, which follow these, and those that serve guests and NAPIs.

    :ivar affinity: allowed CPUs as a cpulist.
    :ivar start: start time in clock ticks after boot.
    """

    tid: int
    name: str
    affinity: str
    start: int


@dataclasses.dataclass(slots=True)
class Slice:
    """A slice of systemd with CPUs of its own: ``AllowedCPUs=``, ``CPUSetPartition=`` (cgroup v2).

    :ivar path: below /sys/fs/cgroup: ``machine.slice/machine-rt.slice``.
    :ivar cpus: cpulist of ``cpuset.cpus``, empty where it is not set; :ivar effective: what it may use now.
    :ivar partition: ``member``, ``root``, ``isolated``, or what the kernel says of an invalid one.
    """

    path: str
    cpus: str
    effective: str
    partition: str


@dataclasses.dataclass(slots=True)
class HostFacts:
    """All facts of one host at one time.

    :ivar online, isolated, nohz_full: cpulists as the kernel prints them; ``isolated`` are those of the boot.
    :ivar isolated_from, nohz_full_from: what says so: the kernel's file, or the parameter of its command line;
        empty where nothing does.
    :ivar isolated_now: CPUs in isolated partitions of cgroup v2, as a cpulist; empty on kernels before 6.7.
    :ivar programs: threads of programs, some of which claim CPUs; :ivar slices: groups of processes that do.
    :ivar vhost_mode: what vhost workers are: ``task`` (threads of QEMU) or ``kthread`` (of the kernel).
    :ivar services: cpulist of the CPUs to which systemd or TuneD confines services, empty: nothing does.
    :ivar services_from: the file that says so, and its key.
    :ivar virtualization: ``none``, ``kvm``, ``tcg``, ``xen-pv`` ... what this host itself runs on.
    :ivar vectors: CPU -> how many interrupts it can have, without those that the kernel manages; empty where the
        kernel does not show it.
    :ivar boot_id: /proc/sys/kernel/random/boot_id; None in a recorded host that lacks it.
    :ivar new_irq_mask: CPUs of interrupts that come later; :ivar workqueue_mask: CPUs of unbound
        work, as it was asked for. Both are masks as read, None when unreadable.
    :ivar kernel_threads: None when the record has none: they were not looked at.
    :ivar namespaces: number of other network namespaces, whose devices are not in ``nics``;
        None when unknown.
    :ivar warnings: what could not be read and what it means.
    """

    cpus: tuple[Cpu, ...]
    nodes: tuple[Node, ...]
    nics: tuple[Nic, ...]
    irqs: Mapping[int, Irq]
    guests: tuple[GuestProcess, ...]
    domains: tuple[domain.Domain, ...]
    online: str
    isolated: str
    nohz_full: str
    arch: str | None
    kernel: str | None
    virtualization: str | None
    boot_id: str | None
    sysctls: Mapping[str, str]
    warnings: tuple[Note, ...] = ()
    isolated_now: str = ""
    programs: tuple[ProgramThread, ...] = ()
    slices: tuple[Slice, ...] = ()
    vhost_mode: str | None = None
    services: str = ""
    services_from: str = ""
    vectors: Mapping[int, int] = dataclasses.field(default_factory=dict)
    new_irq_mask: str | None = None
    workqueue_mask: str | None = None
    kernel_threads: tuple[KernelThread, ...] | None = None
    namespaces: int | None = None
    isolated_from: str = "/sys/devices/system/cpu/isolated"
    nohz_full_from: str = "/sys/devices/system/cpu/nohz_full"


class TargetError(errors.PerfTuningError):
    """A target or value is not of the form that its kind takes, or it is not on the allow-list."""


#: Stricter than the kernel's dev_valid_name(), which also takes quotes, blanks excepted, and control bytes.
DEVICE: Final = r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,14}"


def check_device(name: str) -> str:
    """Return ``name`` if it can be a network device's; raises TargetError where it cannot."""
    if not re.fullmatch(DEVICE, name, re.ASCII):
        raise TargetError(
            f"{name[:40]!r} is not a network device's name (letters, digits, '_.@+-', 15 at most)"
        )
    return name


@dataclasses.dataclass(frozen=True, slots=True)
class IrqTarget:
    """An interrupt: ``irq:47``; its identity is ``DEVICE|ACTION``.

    :ivar device: PCI address or NIC that owns it; empty for a legacy interrupt.
    :ivar action: names of its handlers; empty while it has none, as while its NIC is down. It is the name
        of one directory below ``/proc/irq/47``, never a path.
    """

    number: int
    device: str = ""
    action: str = ""

    kind: ClassVar = "irq_affinity"

    def __str__(self) -> str:
        return f"irq:{self.number}"

    @property
    def identity(self) -> str:
        return f"{self.device}|{self.action}"

    @classmethod
    @functools.lru_cache(maxsize=1 << 13)  # an agent reads the same ones every minute
    def parse(cls, text: str, identity: str = "") -> Self:
        """Read a target and its identity, if any.

        :raises TargetError: they are not of this form.
        """
        match = _IRQ(text)
        device, bar, action = identity.partition("|")
        if not match or (identity and not bar):
            raise TargetError(f"irq_affinity target {text[:60]!r}: write it as in irq:47")
        if "/" in action or "\0" in action or action in (".", ".."):
            raise TargetError(
                f"irq_affinity identity {identity[:60]!r}: it names no handler; 'nova-perf plan -f json' prints it"
            )
        return cls(int(match[1]), device, action)

    def is_asleep(self, now: Self) -> bool:
        """Whether ``now`` is this vector without its handler, as while a NIC is down.

        free_irq() keeps an affinity that was written, and request_irq() brings it into force again
        (IRQD_AFFINITY_SET, irq_setup_affinity), so what was written is still to be undone.
        """
        return bool(self.device and self.action) and now == dataclasses.replace(self, action="")

    def is_renamed(self, now: Self) -> bool:
        """Whether ``now`` may be this vector with other names of handlers.

        They change when a NIC is renamed whose driver names its vectors as it comes up, and when
        another driver joins a shared line. A new vector of the same device may have the number as
        well: only what it holds tells them apart.
        """
        return bool(self.action and now.action) and now == dataclasses.replace(
            self, action=now.action
        )


@dataclasses.dataclass(frozen=True, slots=True)
class ThreadTarget:
    """A thread of a guest or of a NAPI: ``tid:123``; its identity is ``PID:START``.

    :ivar pid: process of the guest, of a NAPI the thread; :ivar start: start time in ticks after boot. 0 where no
        identity was given.
    """

    tid: int
    pid: int = 0
    start: int = 0

    kind: ClassVar = "thread_affinity"

    def __str__(self) -> str:
        return f"tid:{self.tid}"

    @property
    def identity(self) -> str:
        return f"{self.pid}:{self.start}"

    @classmethod
    def parse(cls, text: str, identity: str = "") -> Self:
        """Read a target and its identity, if any.

        :raises TargetError: they are not of this form.
        """
        match, owner = _THREAD(text), _OWNER(identity or "0:0")
        if not match or not owner:
            raise TargetError(
                f"thread_affinity target {text[:40]!r}: write tid:NUMBER as in tid:123"
            )
        return cls(int(match[1]), int(owner[1]), int(owner[2]))


#: Targets of settings of kind ``host_cpus``: CPUs of interrupts and of RPS of network devices that
#: come later, of work that is bound to no CPU, and of the watchdogs for lockups.
NEW_IRQS: Final = "new_irqs"
NEW_DEVICES: Final = "new_devices"
WORKQUEUE: Final = "workqueue"
WATCHDOG: Final = "watchdog"


@dataclasses.dataclass(frozen=True, slots=True)
class KernelThreadTarget:
    """A thread of the kernel: ``tid:36``; its identity is ``START:NAME``.

    :ivar start: start time in ticks after boot; 0 where no identity was given.
    """

    tid: int
    start: int = 0
    name: str = ""

    kind: ClassVar = "kernel_thread_affinity"

    def __str__(self) -> str:
        return f"tid:{self.tid}"

    @property
    def identity(self) -> str:
        return f"{self.start}:{self.name}"

    @classmethod
    def parse(cls, text: str, identity: str = "") -> Self:
        """Read a target and its identity, if any.

        :raises TargetError: they are not of this form.
        """
        match, owner = _THREAD(text), _STARTED(identity or "0:")
        if not match or not owner:
            raise TargetError(
                f"kernel_thread_affinity target {text[:40]!r}: write tid:NUMBER as in tid:36"
            )
        return cls(int(match[1]), int(owner[1]), owner[2])


_IRQ: Final = re.compile(r"irq:(0|[1-9]\d{0,6})", re.ASCII).fullmatch
_THREAD: Final = re.compile(r"tid:([1-9]\d{0,9})", re.ASCII).fullmatch
_OWNER: Final = re.compile(r"(\d{1,10}):(\d{1,20})", re.ASCII).fullmatch
_STARTED: Final = re.compile(r"(\d{1,20}):([^\0\n]{0,64})", re.ASCII).fullmatch


class PlanRule(enum.StrEnum):
    """Rules of the planner and of the agent.

    Those that end with ``-l3`` also went by the L3 groups of a node that has several.
    """

    NIC_IRQ_LOCAL = "nic-irq-local"
    NIC_IRQ_LOCAL_L3 = "nic-irq-local-l3"
    NIC_IRQ_NEAREST = "nic-irq-nearest"
    NIC_XPS = "nic-xps"
    NIC_RPS = "nic-rps"
    NAPI_LOCAL = "napi-local"
    VHOST_NUMA = "vhost-numa"
    VHOST_NUMA_L3 = "vhost-numa-l3"
    VHOST_SPREAD = "vhost-spread"
    VHOST_SPREAD_L3 = "vhost-spread-l3"
    EMULATOR_NUMA = "emulator-numa"
    EMULATOR_NUMA_L3 = "emulator-numa-l3"
    IOTHREAD_NUMA = "iothread-numa"
    IOTHREAD_NUMA_L3 = "iothread-numa-l3"
    PASSTHROUGH_NUMA = "passthrough-numa"
    PASSTHROUGH_VCPU = "passthrough-vcpu"
    IRQBALANCE_BAN = "irqbalance-ban"
    RPS_HOUSEKEEPING = "rps-housekeeping"
    NEW_IRQ_HOUSEKEEPING = "new-irq-housekeeping"
    WORKQUEUE_HOUSEKEEPING = "workqueue-housekeeping"
    KERNEL_THREAD_HOUSEKEEPING = "kernel-thread-housekeeping"


#: Rules of plans that people apply. The agent leaves these values alone until their effect is
#: measured.
NOT_OF_AGENT: Final = frozenset(
    {
        PlanRule.RPS_HOUSEKEEPING,
        PlanRule.NEW_IRQ_HOUSEKEEPING,
        PlanRule.WORKQUEUE_HOUSEKEEPING,
        PlanRule.KERNEL_THREAD_HOUSEKEEPING,
    }
)


@dataclasses.dataclass(slots=True)
class Setting:
    """The one type for everything that is tuned: planned, shown, diffed, applied, verified, audited, undone.

    :ivar kind: the name of the class of :mod:`nova_perf_tuning.host.kinds`, or of another package, that
        reads and writes it, such as ``irq_affinity``.
    :ivar target: what it belongs to, in that kind's form: ``irq:47``, ``tid:123``, ``eth0/tx-3``,
        ``net.core.rmem_max``.
    :ivar value: the value wanted, in the kernel's own text form.
    :ivar current: the value when the facts were read; None when it could not be read.
    :ivar reason: why, in words an operator understands, with the names and numbers it rests on.
    :ivar rule: short name of the planner rule or audit rule that asked for it.
    :ivar identity: what tells this very object from a later one under the same number (an interrupt's
        device and action name; a thread's owner and start time); empty where the target says it all.
    :ivar persistent: a configuration file brings it back after a reboot, so the original is kept over one too.
    """

    kind: str
    target: str
    value: str
    current: str | None
    reason: str
    rule: str
    identity: str = ""
    persistent: bool = False

    @classmethod
    def on(
        cls,
        target: IrqTarget | ThreadTarget | KernelThreadTarget,
        value: str,
        current: str | None,
        reason: str,
        rule: str,
    ) -> Self:
        """Return the setting of an object that has an identity."""
        return cls(target.kind, str(target), value, current, reason, rule, target.identity)
