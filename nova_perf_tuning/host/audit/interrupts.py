"""Where NICs' interrupts go, and who else moves them. What is to be written comes from the planner."""

from __future__ import annotations

import collections
from collections.abc import Iterator, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.plan import nics as plan_nics

_MOVE = "nova-perf apply --rule {id}  # 'nova-perf plan --all' shows where to"


def _cpus(irq: model.Irq) -> frozenset[int]:
    """Return the CPU that serves an interrupt; the CPUs that may, where the kernel does not tell."""
    return cpulist.parse(irq.effective or irq.affinity or "")


def _by_queue(host: Host, nic: model.Nic) -> list[list[model.Irq]]:
    """Return the interrupts of each queue of a NIC: one, or one for each direction."""
    queues, _control = plan_nics.vectors(nic, host.interrupts(nic))
    return list(queues.values())


def _queues(host: Host, nic: model.Nic) -> list[model.Irq]:
    """Return the interrupts of a NIC that carry packets."""
    return [irq for one in _by_queue(host, nic) for irq in one]


def _evidence(irqs: Sequence[model.Irq]) -> list[tuple[str, object]]:
    shown: list[tuple[str, object]] = []
    for irq in irqs[:3]:
        name = "effective_affinity_list" if irq.effective else "smp_affinity_list"
        shown.append(
            (f"/proc/irq/{irq.number}/{name}", f"{irq.effective or irq.affinity} ({irq.name or 'no handler'})")
        )
    if len(irqs) > 3:
        more = cpulist.format(irq.number for irq in irqs[3:])
        shown.append(("/proc/irq/*/smp_affinity_list", f"and {len(irqs) - 3} more: {more}"))
    return shown


class _InterruptRule(base.Rule):
    """A rule whose findings are mended by the planner's own settings."""

    appliable = True
    safe = True
    reads = "/proc/irq/*/effective_affinity_list, /sys/class/net/*/device"

    def nics(self, host: Host) -> list[tuple[model.Nic, list[model.Irq]]]:
        """Return the host's own NICs with the interrupts that carry packets."""
        found = [(nic, irqs) for nic in host.links if (irqs := _queues(host, nic))]
        if not found:
            raise NotApplicableError("no NIC with interrupts of its own")
        return found

    def planned(self, host: Host, irqs: Sequence[model.Irq]) -> list[setting_module.Setting]:
        """Return what the planner wants for ``irqs``, under the name of this rule."""
        found = (host.planned.get(("irq_affinity", f"irq:{irq.number}")) for irq in irqs)
        return [
            setting_module.Setting(
                one.kind, one.target, one.value, one.current, one.reason, f"audit-{self.id}", one.identity
            )
            for one in found
            if one is not None
        ]


class OnCpu0(_InterruptRule):
    """Queue interrupts on CPU 0."""

    id = "nic-irq-on-cpu0"
    title = "no NIC queue interrupts CPU 0"
    why = "CPU 0 serves timers and every device without an affinity; packets wait behind them."
    remedy = _MOVE.format(id=id)
    source = "Oracle, 10GbE network performance tuning (2013): move the port's interrupts off CPU 0"

    def check(self, host: Host) -> Iterator[Finding]:
        if len(host.online) < 2:
            raise NotApplicableError("one CPU")
        for nic, irqs in self.nics(host):
            there = [irq for irq in irqs if _cpus(irq) == {0}]
            # With more queues than CPUs one of them is there on purpose, the last to be put anywhere.
            settings = self.planned(host, there)
            if settings:
                yield self.finding(
                    _evidence(there),
                    f"{len(there)} of {base.plural(len(irqs), 'queue interrupt')} of {nic.name} "
                    f"({_speed(nic)}) are served by CPU 0 beside the timers of the whole host",
                    subject=nic.name,
                    settings=settings,
                )


class RemoteNode(_InterruptRule):
    """Interrupts on another node than the NIC."""

    id = "nic-irq-remote-node"
    title = "a NIC's interrupts are on CPUs of its own node"
    why = "Descriptors and packets are then read over the interconnect: up to twice as slow (ESnet)."
    remedy = _MOVE.format(id=id)
    source = "ESnet fasterdata; bloomberg/chef-bcpc #2115: 10-20 % of application performance"

    def check(self, host: Host) -> Iterator[Finding]:
        if len(host.nodes_of(host.online)) < 2:
            raise NotApplicableError("one NUMA node, or none known")
        for nic, irqs in self.nics(host):
            if nic.node is None or nic.node not in host.nodes_of(host.sets.housekeeping):
                continue
            far = [irq for irq in irqs if (nodes := host.nodes_of(_cpus(irq))) and nic.node not in nodes]
            if far:
                others = cpulist.format({node for irq in far for node in host.nodes_of(_cpus(irq))})
                yield self.finding(
                    [(f"/sys/class/net/{nic.name}/device/numa_node", nic.node), *_evidence(far)],
                    f"{len(far)} of {base.plural(len(irqs), 'queue interrupt')} of {nic.name} ({_speed(nic)}) are "
                    f"served on node {others}, the NIC is on node {nic.node}",
                    _way(settings := self.planned(host, far)),
                    subject=nic.name,
                    settings=settings,
                )


class OnDedicated(_InterruptRule):
    """Interrupts on guests' CPUs."""

    id = "nic-irq-on-dedicated"
    title = "no NIC interrupts a CPU that belongs to a guest"
    why = "Each interrupt throws a vCPU out of the CPU that it has for itself."
    remedy = _MOVE.format(id=id)
    source = "containers/nri-plugins #669, TuneD cpu-partitioning, the design of this project"

    def check(self, host: Host) -> Iterator[Finding]:
        taken = host.sets.dedicated | host.isolated
        if not taken:
            raise NotApplicableError("no dedicated or isolated CPUs")
        for nic, _irqs in self.nics(host):
            there = [irq for irq in host.interrupts(nic) if _cpus(irq) and _cpus(irq) <= taken]
            if there:
                cpus = cpulist.format({cpu for irq in there for cpu in _cpus(irq)})
                yield self.finding(
                    _evidence(there),
                    f"{base.plural(len(there), 'interrupt')} of {nic.name} ({_speed(nic)}) fire on CPUs "
                    f"{cpus}, which "
                    "belong to guests or are isolated for them",
                    _way(settings := self.planned(host, there)),
                    subject=nic.name,
                    settings=settings,
                )


class OneCpu(_InterruptRule):
    """All queues on one CPU."""

    id = "nic-irq-one-cpu"
    title = "the queues of a NIC are spread over CPUs"
    why = "One CPU in softirq is the limit of the whole NIC, whatever its number of queues."
    remedy = _MOVE.format(id=id)
    source = "scylladb #10600: CPU 0 at 100 % softirq, the NIC dropping"

    def check(self, host: Host) -> Iterator[Finding]:
        for nic, irqs in self.nics(host):
            room = host.sets.interrupts(nic.node)
            queues = len(_by_queue(host, nic))
            if queues < 2 or room is None or len(room.cpus) < 2:
                continue
            used = collections.Counter(cpus for irq in irqs if (cpus := _cpus(irq)))
            if len(used) == 1 and len(next(iter(used))) == 1:
                (cpu,) = next(iter(used))
                yield self.finding(
                    _evidence(irqs),
                    f"all {queues} queues of {nic.name} ({_speed(nic)}) are served by CPU {cpu}; "
                    f"{room.where} has {base.plural(len(room.cpus), 'housekeeping CPU')}",
                    _way(settings := self.planned(host, irqs)),
                    subject=nic.name,
                    settings=settings,
                )


def _way(settings: Sequence[setting_module.Setting]) -> str:
    """Return the remedy where the planner places nothing; empty where the rule's own holds."""
    return (
        ""
        if settings
        else "first leave it a housekeeping CPU (rule nova-cpu-sets); 'nova-perf plan' says what stops it"
    )


def _speed(nic: model.Nic) -> str:
    return f"{nic.speed_mbps} Mbit/s" if nic.speed_mbps else "speed unknown"


class Irqbalance(base.Rule):
    """irqbalance without a word about guests' CPUs or placed interrupts."""

    id = "irqbalance-unaware"
    level = Level.WARNING
    title = "irqbalance leaves placed interrupts and guests' CPUs alone"
    reads = "/proc/*/comm, /etc/default/irqbalance, /etc/sysconfig/irqbalance, irqbalance's socket"
    why = "It knows nothing of guests and moves interrupts every ten seconds, also those that somebody placed."
    remedy = (
        "ban exactly the placed interrupts (irqbalance --banirq=N, or a --policyscript that prints ban=true) "
        "and the "
        "guests' CPUs (IRQBALANCE_BANNED_CPULIST); systemctl disable --now irqbalance where all are placed by hand"
    )
    source = "irqbalance #199, #297; Oracle's step stops it; perftune.py bans exactly its own"

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.sees_programs:
            raise NotApplicableError("running programs are not in this record")
        if "irqbalance" not in host.programs:
            return
        path, options = _irqbalance_options(host)
        evidence: list[tuple[str, object]] = [(f"/proc/{host.programs['irqbalance']}/comm", "irqbalance")]
        taken = host.sets.dedicated | host.isolated
        if "IRQBALANCE_BANNED_CPULIST" in options and not options["IRQBALANCE_BANNED_CPULIST"] and host.isolated:
            yield self.finding(
                [*evidence, (path, "IRQBALANCE_BANNED_CPULIST=")],
                "an empty IRQBALANCE_BANNED_CPULIST cancels the automatic ban of isolcpus and nohz_full: "
                "interrupts "
                f"are moved onto CPUs {cpulist.format(host.isolated)}",
                f"remove the empty IRQBALANCE_BANNED_CPULIST from {path}",
                level=Level.ERROR,
            )
            return
        text = " ".join(options.values())
        banned = cpulist.find(options.get("IRQBALANCE_BANNED_CPULIST"))
        aware = any(word in text for word in ("--ban", "--policyscript", "-l ", "-i ")) or (
            banned is not None and taken and taken <= banned
        )
        placed = {irq.number for nic in host.links for irq in _queues(host, nic)}
        if aware or not host.runs_guests or placed <= host.banned_interrupts:
            return
        owned = f"; guests own CPUs {cpulist.format(taken)}" if taken - host.isolated else ""
        yield self.finding(
            [*evidence, (path, text or "no bans")],
            f"irqbalance runs without a ban: whatever is placed by hand is moved again within ten seconds{owned}",
        )


def _irqbalance_options(host: Host) -> tuple[str, dict[str, str]]:
    """Return the file that was read, and the variables in it."""
    for path in ("etc/default/irqbalance", "etc/sysconfig/irqbalance"):
        text = host.content(path, 65536)
        if text is not None:
            found = {}
            for line in text.splitlines():
                key, equals, value = line.strip().partition("=")
                if equals and key.isidentifier() and value.isprintable():
                    found[key] = value.strip().strip("\"'")
            return f"/{path}", found
    return "/etc/default/irqbalance", {}


class Rivals(base.Rule):
    """Programs that write the same objects."""

    id = "rival-writers"
    level = Level.INFO
    title = "programs that write the same settings are known"
    reads = "/proc/*/comm, /etc/systemd/network/*.link, /etc/tuned/active_profile"
    why = "Two writers of one value undo each other, without an error anywhere."
    remedy = (
        "exclude these objects in their configuration; 'nova-perf status' names rivals for each value that drifts"
    )
    source = "TuneD #580, #595; oracle/bpftune; seapath #984, #985"
    _WRITES = {
        "numad": "it moves guests' threads between nodes, also those that libvirt pinned",
        "bpftune": "it resizes TCP buffers",
        "ksmtuned": "it switches KSM on when memory is short, also with pinned guests",
    }

    def check(self, host: Host) -> Iterator[Finding]:
        if not host.sees_programs:
            raise NotApplicableError("running programs are not in this record")
        for name, what in self._WRITES.items():
            if name in host.programs:
                yield self.finding(
                    [(f"/proc/{host.programs[name]}/comm", name)], f"{name} runs: {what}", subject=name
                )
        yield from self._link_files(host)
        profile = host.text("etc/tuned/active_profile") or ""
        if "tuned" in host.programs and "realtime" in profile and host.facts.guests:
            yield self.finding(
                [("/etc/tuned/active_profile", profile)],
                "TuneD's realtime profiles move running threads when they are applied, pinned vCPUs "
                "included: applying "
                "it on a host with running guests has crashed them",
                "apply it before guests run; leave scheduler process moves off (ps_blacklist)",
                subject="tuned",
            )

    def _link_files(self, host: Host) -> Iterator[Finding]:
        folder = "etc/systemd/network"
        for name in [name for name in host.names(folder) if name.endswith(".link")][:64]:
            lines = [line.strip() for line in (host.content(f"{folder}/{name}", 65536) or "").splitlines()]
            placing = [line for line in lines if line.startswith("IRQAffinity") and line.isprintable()]
            if placing:
                yield self.finding(
                    [(f"/{folder}/{name}", line) for line in placing],
                    "systemd-udevd places the interrupts of these NICs whenever they appear",
                    "let one of the two place them: remove these lines, or leave the NICs out of nova-perf's plan",
                    subject=name,
                )
