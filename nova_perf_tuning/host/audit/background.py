# SPDX-License-Identifier: Apache-2.0
"""The kernel's own work, and other work of the host, on CPUs that guests own.

Settings of masks and threads come from the planner. The other rules say what only a boot
argument, a flavor or an interval of the whole machine changes.
"""

from collections.abc import Iterator, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import managed_interrupts
from nova_perf_tuning.host.audit.base import (
    LEAVE,
    HostRule,
    devices_elsewhere,
    need_none_left,
    sysctl_path,
)
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import layout
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import GIVEN, Finding, Level, NoDataError, known, named, need

_SCALING: Final = "kernel documentation: networking/scaling.rst"
_PER_CPU: Final = "kernel documentation: admin-guide/kernel-per-CPU-kthreads.rst"
_WATCHDOGS: Final = "kernel.watchdog_cpumask"
_FLOWS: Final = "net.core.rps_sock_flow_entries"
_DEFAULT_RPS: Final = "net.core.rps_default_mask"
_MACHINE_CHECK: Final = "sys/devices/system/machinecheck"
_SOFTNET: Final = "proc/net/softnet_stat"
#: Columns of softnet_seq_show() in net/core/net-procfs.c: how often a CPU was woken for packets of
#: RPS, and since Linux 5.10 its number.
_SOFTNET_RECEIVED: Final = 9
_SOFTNET_CPU: Final = 12
#: Evidence that a finding shows.
_SHOWN: Final = 3


def _reserved(host: Host) -> frozenset[int]:
    """Return the CPUs that guests or programs own; NotApplicableError: there are none."""
    need(host.sets.reserved, "no dedicated CPUs")
    return host.sets.reserved


class BackgroundRule(HostRule):
    """A rule on a mask or on threads; the planner's own settings put them right."""

    appliable = True
    remedy = (
        "nova-perf apply --rule with the rule's name; 'nova-perf plan --all{given}' shows the CPUs"
    )

    def apply(self) -> str:
        """Return the command that brings the settings into force."""
        shown = f"'nova-perf plan --all{GIVEN}' shows the CPUs"
        return f"nova-perf apply --rule {self.id}{GIVEN}  # {shown}"

    def mask(
        self, host: Host, target: str, path: str, mask: str | None, what: str
    ) -> Iterator[Finding]:
        """Yield a finding about a mask of the host that names CPUs of guests."""
        reserved = _reserved(host)
        text = known(mask, f"{path} is not in this record", NoDataError)
        wrong = cpulist.parse_mask(text) & reserved
        if wrong:
            settings = host.planned_for("host_cpus", [target], f"audit-{self.id}")
            remedy = self.apply()
            if not settings:
                remedy = f"first leave the host a housekeeping CPU (rule nova-cpu-sets{GIVEN})"
            why = f"{what} {cpulist.named(wrong)}, which guests or programs own"
            yield self.finding([(path, text)], why, remedy, subject=target, settings=settings)


class RpsOnDedicated(BackgroundRule):
    """RPS hands no packet to a CPU that belongs to a guest."""

    id = "rps-on-dedicated"
    why = "The work on each packet preempts a vCPU, and an interrupt from CPU to CPU announces it."
    source = f"{_SCALING}; measured on two CPUs: documentation, What placement is worth"

    def check(self, host: Host) -> Iterator[Finding]:
        reserved = _reserved(host)
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        wrong: dict[str, str] = {}  # a queue -> its mask
        devices: dict[str, None] = {}
        unknown: list[str] = []
        cpus: frozenset[int] = frozenset()
        left: list[str] = []
        for nic in host.facts.nics:
            if nic.name in host.left_devices:
                if any(cpulist.parse_mask(mask or "0") & reserved for mask in nic.rps):
                    left.append(nic.name)
                continue
            if not any(nic.rps):  # each device has a receive queue
                unknown.append(nic.name)
            for queue, mask in enumerate(nic.rps):
                both = cpulist.parse_mask(mask or "0") & reserved
                if both:
                    wrong[f"{nic.name}/rx-{queue}"] = mask or ""
                    devices[nic.name] = None
                    cpus |= both
        if wrong:
            evidence = []
            for target, mask in list(wrong.items())[:_SHOWN]:
                device, _, queue_name = target.partition("/")
                path = f"/sys/class/net/{device}/queues/{queue_name}/rps_cpus"
                evidence.append((path, mask))
            yield self.finding(
                evidence,
                f"RPS of {counted(len(devices), 'device')} hands packets to "
                f"{cpulist.named(cpus)}, which guests or programs own: {named(devices)}",
                self.apply(),
                subject=next(iter(devices)),
                settings=host.planned_for("rps", wrong, f"audit-{self.id}"),
            )
        later = host.facts.sysctls.get(_DEFAULT_RPS)
        if later is not None and cpulist.is_mask(later):
            path = sysctl_path(_DEFAULT_RPS)
            what = "RPS of devices that come later hands packets to"
            yield from self.mask(host, host_model.NEW_DEVICES, path, later, what)
        if not unknown:
            need(not left, f"{LEAVE} names {named(left)}: their masks are left alone")
            return
        # That nothing was handed over yet does not say that nothing will be.
        received = _received(host)
        served = {cpu: received[cpu] for cpu in sorted(reserved) if received.get(cpu)}
        lacking = f"RPS masks of {named(unknown)} are not in this record"
        need(served, lacking, NoDataError)
        counts = [f"CPU {cpu}: {count}" for cpu, count in served.items()]
        yield self.finding(
            [(f"/{_SOFTNET}", f"woken for packets of RPS since boot: {named(counts)}")],
            f"RPS has handed packets to {cpulist.named(served)}, which guests or programs own; {lacking}",
            self.apply(),
        )

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        yield from devices_elsewhere(host)


def _received(host: Host) -> dict[int, int]:
    """Return CPU -> how often it was woken for packets of RPS since boot; empty where that is unknown."""
    online = sorted(host.sets.online)
    received: dict[int, int] = {}
    for index, line in enumerate((host.content(_SOFTNET) or "").splitlines()):
        try:
            row = [int(field, 16) for field in line.split()]
        except ValueError:
            return {}
        if len(row) > _SOFTNET_CPU:
            received[row[_SOFTNET_CPU]] = row[_SOFTNET_RECEIVED]
        elif len(row) > _SOFTNET_RECEIVED and index < len(online):
            received[online[index]] = row[_SOFTNET_RECEIVED]
    return received


class RfsWithPinnedGuests(HostRule):
    """RFS is off on a host whose guests own CPUs."""

    id = "rfs-with-pinned-guests"
    level = Level.INFO
    why = (
        "RFS hands packets to the CPU on which their reader ran last, whatever the RPS masks say."
    )
    remedy = "sysctl -w 'net.core.rps_sock_flow_entries=0'"
    source = _SCALING
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        _reserved(host)
        lacking = f"{_FLOWS} is not in this record, or this kernel has no RFS"
        entries = known(host.facts.sysctls.get(_FLOWS), lacking, NoDataError)
        if entries == "0":
            return
        unknown: list[str] = []
        for nic in host.facts.nics:
            for queue in range(nic.rx_queues):
                path = f"sys/class/net/{nic.name}/queues/rx-{queue}/rps_flow_cnt"
                flows = host.number(path)
                if flows is None:
                    unknown.append(nic.name)
                    break
                if flows > 0:
                    finding = self.sysctl(
                        host, _FLOWS, "0", f"RFS steers flows of {nic.name}. {self.why}"
                    )
                    yield finding
                    return
        need(not unknown, f"flows of {named(unknown)} are not in this record", NoDataError)

    def seen(self, host: Host) -> Iterator[tuple[str, object]]:
        yield from devices_elsewhere(host)


class NewIrqsOnDedicated(BackgroundRule):
    """New interrupts do not start on a CPU that belongs to a guest."""

    id = "new-irqs-on-dedicated"
    level = Level.INFO
    why = (
        "When a driver is loaded or a NIC comes up, its interrupts preempt a vCPU until they are "
        "moved."
    )
    source = "kernel documentation: core-api/irq/irq-affinity.rst"

    def check(self, host: Host) -> Iterator[Finding]:
        path, mask = "/proc/irq/default_smp_affinity", host.facts.new_irq_mask
        what = "interrupts that come later may start on"
        yield from self.mask(host, host_model.NEW_IRQS, path, mask, what)


class WorkqueuesOnDedicated(BackgroundRule):
    """Unbound work of the kernel runs on no CPU that belongs to a guest."""

    id = "workqueues-on-dedicated"
    level = Level.INFO
    why = "Writeback, encryption and the like preempt a vCPU."
    source = "kernel documentation: core-api/workqueue.rst"

    def check(self, host: Host) -> Iterator[Finding]:
        path = f"/{reader.WORKQUEUES}/cpumask"
        mask = host.facts.workqueue_mask
        yield from self.mask(
            host, host_model.WORKQUEUE, path, mask, "unbound work of the kernel may run on"
        )


class KernelThreadsOnDedicated(BackgroundRule):
    """Unbound kernel threads stay off CPUs that belong to guests."""

    id = "kernel-threads-on-dedicated"
    level = Level.INFO
    why = "Compaction, RCU callbacks and the like preempt a vCPU."
    source = f"{_PER_CPU}; TuneD cpu-partitioning"

    def check(self, host: Host) -> Iterator[Finding]:
        reserved = _reserved(host)
        lacking = "threads of the kernel are not in this record"
        threads = known(host.facts.kernel_threads, lacking, NoDataError)
        wrong: list[host_model.KernelThread] = []
        cpus: frozenset[int] = frozenset()
        callbacks = 0
        for thread in threads:
            both = cpulist.parse(thread.affinity) & reserved
            if both:
                wrong.append(thread)
                cpus |= both
                callbacks += thread.name.startswith("rcuo")
        if not wrong:
            return
        of_rcu = ""
        if callbacks:
            of_rcu = f", {callbacks} of them for RCU callbacks"
        targets = [f"tid:{thread.tid}" for thread in wrong]
        kind = host_model.KernelThreadTarget.kind
        settings = host.planned_for(kind, targets, f"audit-{self.id}")
        remedy = self.apply()
        if not settings:
            remedy = "kthread_cpus= or isolcpus=domain on the kernel's command line "
            remedy += "(nova-perf generate grub-args{given})"
        names = named(thread.name for thread in wrong)
        yield self.finding(
            _of_threads(wrong),
            f"{counted(len(wrong), 'thread')} of the kernel may run on {cpulist.named(cpus)}, "
            f"which guests or programs own{of_rcu}: {names}",
            remedy,
            settings=settings,
        )


def _of_threads(threads: Sequence[host_model.KernelThread]) -> list[tuple[str, str]]:
    evidence = []
    for thread in threads[:_SHOWN]:
        path = f"/proc/{thread.tid}/status Cpus_allowed_list"
        evidence.append((path, f"{thread.affinity} ({thread.name})"))
    return evidence


class WatchdogOnDedicated(BackgroundRule):
    """The kernel's watchdogs run on no CPU that belongs to a guest."""

    id = "watchdog-on-dedicated"
    level = Level.INFO
    why = "A timer and a top-priority thread check such a CPU for lockups every few seconds."
    remedy = (
        "nova-perf apply --rule watchdog-on-dedicated  # lockups on guests' CPUs are then not "
        "detected"
    )
    source = "kernel documentation: admin-guide/lockup-watchdogs.rst"

    def check(self, host: Host) -> Iterator[Finding]:
        reserved = _reserved(host)
        sysctls = host.facts.sysctls
        lacking = f"{_WATCHDOGS} is not in this record, or this kernel has no watchdogs"
        now = known(sysctls.get(_WATCHDOGS), lacking, NoDataError)
        running = known(sysctls.get("kernel.watchdog"), "kernel.watchdog is unknown", NoDataError)
        need(running != "0", "the watchdogs are off")
        cpus = known(cpulist.find(now), f"{_WATCHDOGS} is not a list of CPUs", NoDataError)
        wrong = cpus & reserved
        kept = cpus & host.sets.housekeeping or host.sets.housekeeping
        if not wrong:
            return
        settings = []
        if kept:
            target, value = host_model.WATCHDOG, cpulist.format(kept)
            settings.append(self.setting("host_cpus", target, value, now))
        yield self.finding(
            [(sysctl_path(_WATCHDOGS), now)],
            f"watchdogs for lockups run on {cpulist.named(wrong)}, which guests or programs own",
            f"nova-perf apply --rule {self.id}{GIVEN}  # lockups of guests' CPUs are then not "
            "detected",
            settings=settings,
        )


class DeviceIrqOnDedicated(HostRule):
    """Interrupts of disks and other devices are off CPUs that belong to guests.

    Those that the kernel is known to place itself have a rule of their own.
    """

    id = "device-irq-on-dedicated"
    why = "Each of them preempts a vCPU."
    remedy = (
        "echo CPUS > /proc/irq/N/smp_affinity_list; where the kernel refuses this (some adapters): "
        "isolcpus=managed_irq,domain,LIST on its command line, or fewer queues"
    )
    source = "kernel documentation: isolcpus=managed_irq in admin-guide/kernel-parameters.txt"

    def check(self, host: Host) -> Iterator[Finding]:
        reserved = _reserved(host)
        need(host.facts.irqs, "interrupts are not in this record", NoDataError)
        others = self._others(host)
        need(others, "no interrupt of a device that is neither a NIC nor a guest's")
        wrong: list[host_model.Irq] = []
        cpus: frozenset[int] = frozenset()
        left: list[int] = []
        unknown: list[str] = []
        for irq in others:
            serving = cpulist.find(irq.effective or irq.fired)
            if serving is None:
                unknown.append(irq.name or str(irq.number))
            elif managed_interrupts.managed_device(host, irq) is not None:
                continue
            elif not serving or not serving <= reserved:
                continue
            elif irq.number in host.left:
                left.append(irq.number)
            else:
                wrong.append(irq)
                cpus |= serving
        if wrong:
            evidence = []
            for irq in wrong[:_SHOWN]:
                if irq.effective is None:
                    path = "/proc/interrupts"
                    evidence.append((path, f"{irq.number}: on CPUs {irq.fired} ({irq.name})"))
                    continue
                path = f"/proc/irq/{irq.number}/effective_affinity_list"
                evidence.append((path, f"{irq.effective} ({irq.name})"))
            own = cpulist.format(host.sets.dedicated)
            free = cpulist.format(host.sets.housekeeping)
            numbers = " ".join(str(irq.number) for irq in wrong)
            yield self.finding(
                evidence,
                f"{counted(len(wrong), 'interrupt')} on {cpulist.named(cpus)}, which guests or "
                f"programs own: {named(irq.name or '' for irq in wrong)}",
                f"for irq in {numbers}; do echo {free} > /proc/irq/$irq/smp_affinity_list; done\n"
                f"Where the kernel refuses this: isolcpus=managed_irq,domain,{own} on its command "
                f"line (nova-perf generate grub-args{GIVEN}), or fewer queues of the device",
            )
        need(not unknown, f"the CPUs that serve {named(unknown)} are not known", NoDataError)
        need_none_left(left)

    @staticmethod
    def _others(host: Host) -> list[host_model.Irq]:
        """Return the interrupts with a handler of devices that are neither NICs nor guests'."""
        of_nics: set[int] = set()
        for nic in host.facts.nics:
            of_nics.update(nic.irqs)
        passed = layout.passed_through(host.facts)
        others: list[host_model.Irq] = []
        for irq in host.facts.irqs.values():
            of_device = irq.device is not None and irq.device.lower() not in passed
            if of_device and irq.name and irq.number not in of_nics:
                others.append(irq)
        return others


class TimerMigrationOff(HostRule):
    """Timers may migrate away from tickless CPUs."""

    id = "timer-migration-off"
    why = "Timers that a tickless CPU arms stay on it; housekeeping CPUs could take them."
    remedy = "sysctl -w 'kernel.timer_migration=1'"
    source = "TuneD cpu-partitioning; get_nohz_timer_target() in kernel/sched/core.c"
    appliable = True
    key: ClassVar[str] = "kernel.timer_migration"

    def check(self, host: Host) -> Iterator[Finding]:
        _reserved(host)
        lacking = f"{self.key} is not in this record, or this kernel has no such parameter"
        if known(host.facts.sysctls.get(self.key), lacking, NoDataError) == "0":
            yield self.sysctl(host, self.key, "1", self.why)


class MachineCheckPolling(HostRule):
    """The kernel does not poll for corrected machine checks on tickless CPUs of guests."""

    id = "machine-check-polling"
    level = Level.INFO
    why = "A timer on each CPU reads its error banks."
    remedy = f"echo 0 > /{_MACHINE_CHECK}/machinecheck0/check_interval  # for the whole machine: "
    remedy += "corrected errors are then seen by interrupts alone"
    source = "kernel documentation: ABI/testing/sysfs-mce"

    def check(self, host: Host) -> Iterator[Finding]:
        quiet = _reserved(host) & host.sets.tickless
        need(quiet, "no dedicated CPU without a tick")
        path = f"{_MACHINE_CHECK}/machinecheck0/check_interval"
        interval = known(host.number(path), f"/{path} is not in this record", NoDataError)
        if interval:
            where = f"{cpulist.named(quiet)}, dedicated and tickless"
            why = f"every {interval} s a timer looks for machine checks on {where}"
            yield self.finding([(f"/{path}", interval)], why)


class GuestThrottled(HostRule):
    """No guest is throttled by a quota of CPU time."""

    id = "guest-throttled"
    why = (
        "A vCPU that has used up its quota stops until the next period, and keeps the locks that "
        "it holds."
    )
    remedy = "resize to a flavor without quota:cpu_quota, or with a larger one"
    plain = "<cputune> without <quota> and <global_quota>"
    source = "kernel documentation: admin-guide/cgroup-v2.rst, cpu.max; Nova: quota:cpu_quota"

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.facts.guests:
            host.need_programs()
        need(host.facts.guests, "no guest runs")
        unknown: list[str] = []
        for guest in host.facts.guests:
            base = _scope(host, guest.pid)
            if not base or host.text(f"{base}/libvirt/cpu.max") is None:
                unknown.append(guest.name)
                continue
            yield from self._about(host, guest.name, f"{base}/libvirt")
        need(not unknown, f"the cgroups of {named(unknown)} are not in this record", NoDataError)

    def _about(self, host: Host, name: str, base: str) -> Iterator[Finding]:
        for group in ("", *host.names(base)):
            directory = f"{base}/{group}".rstrip("/")
            quota = host.text(f"{directory}/cpu.max")
            if quota is None or quota.startswith("max"):
                continue
            stat = host.content(f"{directory}/cpu.stat")
            lacking = f"/{directory}/cpu.stat is not in this record"
            stopped = _throttled(known(stat, lacking, NoDataError))
            if stopped:
                yield self.finding(
                    [
                        (f"/{directory}/cpu.max", quota),
                        (f"/{directory}/cpu.stat", f"nr_throttled {stopped}"),
                    ],
                    f"{name} was stopped {stopped} times by its quota of CPU time",
                    subject=name,
                )
                return


def _scope(host: Host, pid: int) -> str:
    """Return the cgroup of a guest's process, from the root; empty where it is not known."""
    text = f"\n{host.content(f'proc/{pid}/cgroup') or ''}"
    path = text.partition("\n0::/")[2].partition("\n")[0]
    scope, found, _rest = path.partition(".scope")
    if not found or ".." in scope.split("/"):
        return ""
    return f"sys/fs/cgroup/{scope}.scope"


def _throttled(stat: str) -> int:
    """Return how often a cgroup was stopped, by its cpu.stat."""
    for line in stat.splitlines():
        key, _, value = line.partition(" ")
        if key == "nr_throttled" and value.isascii() and value.isdigit() and len(value) < 19:
            return int(value)
    return 0
