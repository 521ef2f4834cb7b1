# SPDX-License-Identifier: Apache-2.0
"""Where guests, the threads that serve them and NICs' interrupts are, against nodes, NICs and each other.

What is to be written of interrupts comes from the planner.
"""

import abc
import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import ClassVar, Final, TypeAlias

from nova_perf_tuning import cpulist
from nova_perf_tuning.host import model
from nova_perf_tuning.host.audit.base import GuestRule, Rule
from nova_perf_tuning.host.audit.host import Guest, Host
from nova_perf_tuning.host.facts import guests
from nova_perf_tuning.host.kinds import irqbalance
from nova_perf_tuning.host.plan import napi, vectors
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, NoDataError, named, need

_ORACLE = "Oracle, 10GbE network performance tuning (2013): pin the guest's vCPUs to the socket of dom0"
_CERN = "CERN (2016): one guest of 32 vCPUs lost 20.4 %, two of 16 lost 16 %, four of 8 lost 7.8 %"


def _largest_node(host: Host) -> tuple[int, int]:
    """Return the CPUs and the memory in KiB (0: unknown) of the largest node."""
    cpus = max(len(host.sets.online & cpulist.parse(node.cpus)) for node in host.facts.nodes)
    return cpus, max(node.memory_kib or 0 for node in host.facts.nodes)


def _vcpus(guest: Guest) -> str:
    return counted(guest.domain.vcpus, "vCPU")


def _too_much(host: Host, guest: Guest) -> list[str]:
    """Return what of a guest no node of the host can hold."""
    cpus, memory = _largest_node(host)
    much = [f"{_vcpus(guest)} (a node has {counted(cpus, 'CPU')})"] if guest.domain.vcpus > cpus else []
    if memory and guest.inventory.memory_kib > memory:
        much.append(f"{guest.inventory.memory_kib >> 20} GiB (a node has {memory >> 20} GiB)")
    return much


class _OnNodes(GuestRule):
    """A rule on guests of a host with several nodes."""

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        host.need_nodes()
        return host.guests


class FloatsOverNodes(_OnNodes):
    """A guest that fits into one node stays there."""

    id = "guest-floats-over-nodes"
    why = "The scheduler moves vCPUs away from their memory, their vhost workers and their NIC."
    remedy = "resize to a flavor with hw:numa_nodes=1 (and hw:cpu_policy=dedicated for those that matter most)"
    plain = "<vcpu cpuset='CPUs of a node'> and <numatune> of that node"
    source = f"{_ORACLE}; {_CERN}"

    def check(self, host: Host) -> Iterator[Finding]:
        floating = list(super().check(host))
        more = f"; so may {counted(len(floating) - 3, 'more guest')}" if len(floating) > 3 else ""
        yield from (dataclasses.replace(finding, why=finding.why + more) for finding in floating[:3])

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        cpus = host.cpus_of(guest)
        nodes = len(host.nodes_of(cpus))
        if nodes > 1 and guest.inventory.cells <= 1 and not _too_much(host, guest):
            yield self.of(
                guest,
                [f"{_vcpus(guest)} on {cpulist.named(cpus)}"],
                f"{guest.name} with {_vcpus(guest)} fits into a node of {_largest_node(host)[0]} CPUs, but may "
                f"run on {nodes} nodes",
            )


class FarFromNic(_OnNodes):
    """A guest is on the node of the NIC that carries its traffic."""

    id = "guest-far-from-nic"
    why = "Every packet is copied over the interconnect; Nova's specification counts up to 50 %."
    remedy = (
        "[neutron_physnet_NAME] numa_nodes in nova.conf, for Nova to choose the node; then migrate the guest, a "
        "large one with [libvirt] live_migration_parallel_connections (Nova 33)"
    )
    plain = "<vcpu cpuset='CPUs of the NIC's node'> and <numatune> of that node"
    source = "Nova: NUMA-aware vSwitches; " + _ORACLE

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        ways = [nic for guest in host.guests for nic in host.uplinks(guest)]
        need(ways, "no NIC is known that carries guests' traffic")
        need(any(nic.node is not None for nic in ways), "the nodes of NICs are unknown", NoDataError)

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        cpus = host.cpus_of(guest)
        nodes = host.nodes_of(cpus)
        uplinks = [nic for nic in host.uplinks(guest) if nic.node is not None]
        if len(nodes) == 1 and uplinks and not any(nic.node in nodes for nic in uplinks):
            names = ", ".join(f"{nic.name} (node {nic.node})" for nic in uplinks)
            yield self.finding(
                [*map(host.node_file, uplinks), (guest.path, f"vCPUs on {cpulist.named(cpus)}")],
                f"{guest.name} runs on node {min(nodes)}, its traffic leaves through {names}",
                subject=guest.name,
            )


class LargerThanNode(_OnNodes):
    """A guest larger than a node has guest NUMA nodes."""

    id = "guest-larger-than-node"
    why = "Its kernel takes all memory for equally near and spreads its work over the interconnect."
    remedy = "hw:numa_nodes in the flavor, so many that each fits into a node, or a smaller flavor"
    plain = "<cpu><numa> with cells that fit, each with its <memnode>"
    source = _CERN

    def check(self, host: Host) -> Iterator[Finding]:
        yield from super().check(host)
        need(_largest_node(host)[1], "the memory of nodes is unknown", NoDataError)

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        much = _too_much(host, guest)
        if guest.inventory.cells > 1 or not much:
            return
        cpus, memory = _largest_node(host)
        vcpus, remedy = guest.domain.vcpus, "resize to a smaller flavor: however it is split, it does not fit here"
        for count in range(len(host.nodes_of(host.sets.online)), 1, -1):  # Nova splits vCPUs evenly, or not at all
            fits = not memory or guest.inventory.memory_kib <= memory * count
            if fits and vcpus % count == 0 and vcpus <= cpus * count:
                remedy = f"resize to a flavor with hw:numa_nodes={count}, or to a smaller one"
        why = f"{guest.name} has {' and '.join(much)} and no NUMA nodes of its own"
        yield self.of(guest, ["; ".join(much)], why, remedy)


class GuestPins(GuestRule):
    """A guest's pins name CPUs of this host, and its vCPUs lie beside their memory."""

    id = "guest-pins"
    level = Level.ERROR
    why = "libvirt refuses to start it (Invalid argument), or its vCPUs fetch every byte over the interconnect."
    remedy = "migrate it: Nova pins it anew"
    plain = "<cputune> and <numatune> that fit this host"
    source = "libvirt: CPU tuning and NUMA node tuning; kubevirt/kubevirt #16992"

    def guests(self, host: Host) -> Sequence[Guest]:
        need(host.guests, "no guests")
        return [guest for guest in host.guests if any(texts for _kind, _element, texts in guest.domain.pins())]

    def about(self, host: Host, guest: Guest) -> Iterator[Finding]:
        present = frozenset(cpu.id for cpu in host.facts.cpus)
        for _kind, element, texts in guest.domain.pins():
            absent = cpulist.union(texts) - present
            if absent and present:
                lost = any(not cpulist.parse(text) & present for text in texts)
                why = f"{element} of {guest.name} names {cpulist.named(absent)}, which this host lacks"
                evidence = [f"<{element} cpuset='{text}'>" for text in texts if cpulist.parse(text) - present]
                yield self.of(guest, evidence, why, level=None if lost else Level.WARNING)
        for vcpus, nodes in guest.inventory.memory or (("", guest.domain.memory_nodes or ""),):
            cell = cpulist.parse(vcpus) or frozenset(guest.domain.vcpu_pins)
            near = {vcpu: host.nodes_of(cpulist.parse(guest.domain.vcpu_pins.get(vcpu, ""))) for vcpu in cell}
            far = [vcpu for vcpu in sorted(near) if near[vcpu] and not near[vcpu] & cpulist.parse(nodes)]
            if nodes and far:
                pins = {guest.domain.vcpu_pins[vcpu] for vcpu in far}
                yield self.of(
                    guest,
                    [
                        f"memory on node {nodes}",
                        f"{cpulist.named(far, 'vCPU')} on {cpulist.named(cpulist.union(pins))}",
                    ],
                    f"{cpulist.named(far, 'vCPU')} of {guest.name} cannot run beside the memory on node {nodes}",
                    level=Level.WARNING,
                )


class _ThreadsOnDedicated(Rule):
    """A rule on threads of one kind that may run on dedicated CPUs."""

    kinds: ClassVar[tuple[str, ...]]
    threads: ClassVar[str]

    def check(self, host: Host) -> Iterator[Finding]:
        placed = [item for guest in host.guests for item in self._placed(guest)]
        need(placed, "no running guests, and no pins of others")
        need(host.sets.reserved, "no dedicated CPUs")
        disturbing: dict[str, tuple[tuple[str, str], frozenset[int]]] = {}
        for name, evidence, text in placed:
            if both := cpulist.parse(text or "") & host.sets.reserved:
                disturbing.setdefault(name, (evidence, both))
        unknown = {name for name, _evidence, text in placed if text is None}
        need(disturbing or not unknown, f"threads unknown: {named(sorted(unknown))}", NoDataError)
        more = f"; so may those of {counted(len(disturbing) - 3, 'more guest')}" if len(disturbing) > 3 else ""
        for name, (evidence, both) in list(disturbing.items())[:3]:
            yield self.finding(
                [evidence],
                f"{self.threads} of {name} may run on {cpulist.named(both)}, which vCPUs or polling programs "
                f"own{more}",
                subject=name,
            )

    def _placed(self, guest: Guest) -> Iterator[tuple[str, tuple[str, str], str | None]]:
        """Yield name, evidence and cpulist (None: unknown) of a guest's threads, of its pins while it is off."""
        if guest.process is not None:
            for thread in guest.process.threads:
                if thread.kind in self.kinds:
                    path = f"/proc/{thread.tid}/status Cpus_allowed_list"
                    yield guest.name, (path, thread.affinity or "unknown"), thread.affinity
        elif guest.path.startswith(f"/{guests.RUNNING}/"):
            yield guest.name, (guest.path, "it runs, its process is not known"), None
        else:
            for kind, element, texts in guest.domain.pins():
                for text in texts if kind in self.kinds else ():
                    yield guest.name, (guest.path, f"<{element} cpuset='{text}'>"), text


class EmulatorOnDedicated(_ThreadsOnDedicated):
    """Emulator and I/O threads are off the CPUs that guests own."""

    id = "emulator-on-dedicated"
    kinds = ("emulator", "iothread")
    threads = "emulator or I/O threads"
    why = "QEMU's own threads preempt vCPUs: packets are lost and latency has a tail."
    remedy = "hw:emulator_threads_policy=share with [compute] cpu_shared_set, or perf:emulator_placement=numa"
    plain = "<emulatorpin> and <iothreadpin> on CPUs that no guest owns"
    source = "Red Hat: strongly recommended in almost all NFV cases; Nova's documentation of emulator threads"


class VhostOnDedicated(_ThreadsOnDedicated):
    """vhost workers are off the CPUs that guests own."""

    id = "vhost-on-dedicated"
    kinds = ("vhost",)
    threads = "vhost workers"
    why = "The worker that carries a guest's packets competes with a vCPU, its own or a neighbour's."
    remedy = "perf:vhost_placement=numa or spread in the flavor, then nova-perf apply{given}"
    plain = "<emulatorpin> on CPUs that no guest owns: vhost workers have it, too"
    source = "KubeVirt VEP 374; Cloudpods: vhost threads without binding interfere with other guests"


class NapiOnDedicated(Rule):
    """Threads of threaded NAPI are off the CPUs that guests own."""

    id = "napi-thread-on-dedicated"
    why = "Such a thread does a NIC's receive work wherever the scheduler likes, on a vCPU's CPU, too."
    remedy = "nova-perf apply --rule napi-thread-on-dedicated{given}  # to the CPUs that take interrupts"
    source = "kernel documentation of NAPI, threaded mode: pin each thread to the CPU that services its interrupt"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        known = [nic for nic in host.facts.nics if nic.threaded is not None or nic.napis]
        threads = {nic.name: [thread for _napi, thread in napi.threads(nic)] for nic in known}
        need(known, "nothing tells whether the NAPI of NICs is threaded (since Linux 5.12)", NoDataError)
        lost = [nic.name for nic in known if nic.threaded and not threads[nic.name]]
        need(not lost, f"NAPI threads of {named(lost)} are not in this record", NoDataError)
        need(any(threads.values()), "no threaded NAPI")
        taken = host.sets.reserved | host.sets.isolated
        need(taken, "no dedicated or isolated CPUs")
        for name, there in threads.items():
            wrong = [thread for thread in there if cpulist.parse(thread.affinity or "") & taken]
            if wrong:
                planned = filter(None, (host.planned.get(("thread_affinity", f"tid:{one.tid}")) for one in wrong))
                both = cpulist.named(cpulist.union(one.affinity or "" for one in wrong) & taken)
                yield self.finding(
                    [(f"/proc/{one.tid}/status Cpus_allowed_list", one.affinity) for one in wrong[:3]],
                    f"{counted(len(wrong), 'NAPI thread')} of {name} may run on {both}: guests' or isolated",
                    subject=name,
                    settings=[dataclasses.replace(setting, rule=f"audit-{self.id}") for setting in planned],
                )


#: The interrupts that carry packets: of each queue one, or one for each direction.
_Queues: TypeAlias = Sequence[Sequence[model.Irq]]
_NOWHERE: Final = (
    "first leave it a housekeeping CPU (rule nova-cpu-sets); 'nova-perf plan{given}' says what stops it"
)
_IRQBALANCE: Final = ("etc/default/irqbalance", "etc/sysconfig/irqbalance")
#: irqbalance looks at the mask first, as long as it knows it (before 1.8 it knows no list).
_BANNED_CPUS: Final = ("IRQBALANCE_BANNED_CPUS", "IRQBALANCE_BANNED_CPULIST")


class NicInterruptRule(Rule):
    """A rule on the interrupts of one NIC; the planner's own settings put them right."""

    appliable = True
    safe = True
    remedy = "nova-perf apply --rule with the rule's name; 'nova-perf plan --all{given}' shows where to"

    @abc.abstractmethod
    def wrong(self, host: Host, nic: model.Nic, queues: _Queues) -> tuple[list[model.Irq], str]:
        """Return those of a NIC's interrupts that are wrong, and in words where they are.

        :raises NotApplicableError: the rule cannot judge the host.
        """

    @staticmethod
    def _is_refused(host: Host, nic: model.Nic, irq: model.Irq) -> bool:
        """Whether the kernel does not take the interrupt elsewhere: nobody can put it right."""
        refused = host.options.refused
        if not refused or ("irq_affinity", f"irq:{irq.number}") in host.planned:
            return False
        pool = host.sets.interrupts(nic.node)
        return refused.is_managed(irq) or (pool is not None and pool.members <= refused.full)

    def evidence(self, host: Host, nic: model.Nic, irqs: Sequence[model.Irq]) -> list[tuple[str, object]]:
        """Return where ``irqs`` are."""
        shown: list[tuple[str, object]] = []
        for irq in irqs[:3]:
            name, cpus = ("effective", irq.effective) if irq.effective else ("smp", irq.affinity)
            shown.append((f"/proc/irq/{irq.number}/{name}_affinity_list", f"{cpus} ({irq.name or 'no handler'})"))
        if len(irqs) > 3:
            more = cpulist.format(irq.number for irq in irqs[3:])
            shown.append(("/proc/irq/*/smp_affinity_list", f"and {len(irqs) - 3} more: {more}"))
        return shown

    def check(self, host: Host) -> Iterator[Finding]:
        by_queue = [(nic, vectors.classify(nic, host.interrupts(nic)).queues.values()) for nic in host.links]
        unknown = [nic.name for nic, queues in by_queue if not queues]
        need(host.facts.nics, "network devices are not in this record", NoDataError)
        need(by_queue, "no NIC that is up")
        for nic, queues in by_queue:
            irqs, where = self.wrong(host, nic, list(queues)) if queues else ([], "")
            irqs = [irq for irq in irqs if not self._is_refused(host, nic, irq)]
            if irqs:
                planned = filter(None, (host.planned.get(("irq_affinity", f"irq:{irq.number}")) for irq in irqs))
                settings = [dataclasses.replace(setting, rule=f"audit-{self.id}") for setting in planned]
                speed = f"{nic.speed_mbps} Mbit/s" if nic.speed_mbps else "speed unknown"
                apply = (
                    f"nova-perf apply --rule {self.id}{{given}}  # 'nova-perf plan --all{{given}}' shows where to"
                )
                yield self.finding(
                    self.evidence(host, nic, irqs),
                    f"{counted(len(irqs), 'interrupt')} of {nic.name} ({speed}) {where}",
                    apply if settings else _NOWHERE,
                    subject=nic.name,
                    settings=settings,
                )
        need(not unknown, f"which interrupts carry packets of {named(unknown)} is not known", NoDataError)


def _cpus(irq: model.Irq) -> frozenset[int]:
    """Return the CPU that serves an interrupt; the CPUs that may, where the kernel does not tell."""
    return cpulist.parse(irq.effective or irq.affinity or "")


class OnCpu0(NicInterruptRule):
    """No NIC queue interrupts CPU 0."""

    id = "nic-irq-on-cpu0"
    why = "CPU 0 serves timers and every device without an affinity; packets wait behind them."
    source = "Oracle, 10GbE network performance tuning (2013): move the port's interrupts off CPU 0"

    def wrong(self, host: Host, nic: model.Nic, queues: _Queues) -> tuple[list[model.Irq], str]:
        need(len(host.sets.online) > 1, "one CPU")
        there = [irq for queue in queues for irq in queue if _cpus(irq) == {0}]
        # With more queues than CPUs one of them is there on purpose, and the planner leaves it.
        moved = any(("irq_affinity", f"irq:{irq.number}") in host.planned for irq in there)
        return there if moved else [], "served by CPU 0 beside the timers of the whole host"


class RemoteNode(NicInterruptRule):
    """A NIC's interrupts are on CPUs of its own node."""

    id = "nic-irq-remote-node"
    why = "Descriptors and packets are then read over the interconnect: up to twice as slow (ESnet)."
    source = "ESnet fasterdata; bloomberg/chef-bcpc #2115: 10-20 % of application performance"

    def wrong(self, host: Host, nic: model.Nic, queues: _Queues) -> tuple[list[model.Irq], str]:
        host.need_nodes()
        need(any(link.node is not None for link in host.links), "the nodes of NICs are unknown", NoDataError)
        if nic.node not in host.nodes_of(host.sets.housekeeping):
            return [], ""
        nodes = {irq.number: host.nodes_of(_cpus(irq)) for queue in queues for irq in queue}
        every = [irq for queue in queues for irq in queue]
        far = [irq for irq in every if nodes[irq.number] and vectors.node_of(nic, irq) not in nodes[irq.number]]
        others = cpulist.format({node for irq in far for node in nodes[irq.number]})
        return far, f"served on node {others}, the NIC is on node {nic.node}"

    def evidence(self, host: Host, nic: model.Nic, irqs: Sequence[model.Irq]) -> list[tuple[str, object]]:
        return [host.node_file(nic), *super().evidence(host, nic, irqs)]


class OnDedicated(NicInterruptRule):
    """No NIC interrupts a CPU that belongs to a guest."""

    id = "nic-irq-on-dedicated"
    why = "Each interrupt throws a vCPU out of the CPU that it has for itself."
    source = "containers/nri-plugins #669, TuneD cpu-partitioning, the design of this project"

    def wrong(self, host: Host, nic: model.Nic, queues: _Queues) -> tuple[list[model.Irq], str]:
        taken = host.sets.reserved | host.sets.isolated
        need(taken, "no dedicated or isolated CPUs")
        there = [irq for irq in host.interrupts(nic) if _cpus(irq) and _cpus(irq) <= taken]
        cpus = cpulist.named({cpu for irq in there for cpu in _cpus(irq)})
        return there, f"on {cpus}, owned by guests or programs, or isolated for them"


class OneCpu(NicInterruptRule):
    """The queues of a NIC are spread over CPUs."""

    id = "nic-irq-one-cpu"
    why = "One CPU in softirq is the limit of the whole NIC, whatever its number of queues."
    source = "scylladb #10600: CPU 0 at 100 % softirq, the NIC dropping"

    def wrong(self, host: Host, nic: model.Nic, queues: _Queues) -> tuple[list[model.Irq], str]:
        pool = host.sets.interrupts(nic.node)
        irqs = [irq for queue in queues for irq in queue]
        used = {cpus for irq in irqs if (cpus := _cpus(irq))}
        if len(queues) < 2 or pool is None or len(pool.cpus) < 2 or len(used) != 1 or len(min(used)) != 1:
            return [], ""
        spare = f"{pool.where} has {counted(len(pool.cpus), 'housekeeping CPU')}"
        return irqs, f"of all {len(queues)} queues served by CPU {min(min(used))}; {spare}"


class Irqbalance(Rule):
    """irqbalance leaves placed interrupts and guests' CPUs alone."""

    id = "irqbalance-unaware"
    why = "It knows nothing of guests and moves interrupts every ten seconds, also those that somebody placed."
    remedy = (
        "ban exactly the placed interrupts (--banirq=N, or a --policyscript that prints ban=true) and the guests' "
        "CPUs (IRQBALANCE_BANNED_CPULIST); systemctl disable --now irqbalance where all are placed by hand"
    )
    source = "irqbalance #199, #297; Oracle's step stops it; perftune.py bans exactly its own"

    def check(self, host: Host) -> Iterator[Finding]:
        need(host.programs or host.has("proc/1/comm"), "running programs are not in this record", NoDataError)
        if "irqbalance" not in host.programs:
            return
        file = next((path for path in _IRQBALANCE if host.content(path) is not None), _IRQBALANCE[0])
        lines = [line.strip() for line in (host.content(file) or "").splitlines()]
        options = {
            key: value.strip().strip("\"'")
            for key, equals, value in (line.partition("=") for line in lines)
            if equals and key.isidentifier()
        }
        taken = host.sets.reserved | host.sets.isolated
        name = next((name for name in _BANNED_CPUS if name in options), None)
        banned = _banned_cpus(name, options[name]) if name else frozenset()
        exported = next((line for line in lines if re.match(r"export\s+IRQBALANCE_BANNED_CPU", line)), None)
        level = None
        if name and not banned and (host.sets.isolated or (options[name] and host.runs_guests)):
            why = f"{name} is empty or no list of CPUs: it bans none"
            if host.sets.isolated:
                cancelled = f"the automatic ban of {cpulist.named(host.sets.isolated)}, isolated"
                why, level = f"{why}, and cancels {cancelled}", Level.ERROR
        else:
            words = " ".join(value for key, value in options.items() if key not in _BANNED_CPUS)
            ours = host.root.live and irqbalance.uses_our_script(host.programs["irqbalance"])
            if not host.runs_guests or ours or _bans_interrupts(host, words) or (taken and taken <= banned):
                return
            why = "irqbalance runs without a ban: what is placed by hand is moved again within ten seconds"
            if banned:
                why = f"{name} leaves {cpulist.named(taken - banned)} open, owned by guests or isolated"
            elif exported:
                why = f"systemd passes over lines with export: {why}"
        read = exported or " ".join(f"{key}={value}" for key, value in options.items()) or "no bans"
        evidence = [(f"/proc/{host.programs['irqbalance']}/comm", "irqbalance"), (f"/{file}", read)]
        yield self.finding(evidence, why, level=level)


def _banned_cpus(name: str, value: str) -> frozenset[int]:
    """Return the CPUs that a variable bans; none where it is not of its form: cputree.c, setup_banned_cpus()."""
    if name == "IRQBALANCE_BANNED_CPUS":
        return frozenset(cpulist.parse_mask(value)) if cpulist.is_mask(value) else frozenset()
    return cpulist.find(value) or frozenset()


def _bans_interrupts(host: Host, words: str) -> bool:
    """Whether irqbalance's options leave all queues' interrupts alone: by a script, by modules or one by one."""
    given = re.findall(r"(?:^|\s)(--\w+|-[ilm])[=\s]*([^\s-]\S*)", words)
    if any(option in ("--policyscript", "--banscript", "-l") for option, _value in given):
        return True
    modules = {value for option, value in given if option in ("--banmod", "-m")}
    numbers = {value for option, value in given if option in ("--banirq", "-i")}
    queues = [
        (nic.driver, str(irq.number))
        for nic in host.links
        for serving in vectors.classify(nic, host.interrupts(nic)).queues.values()
        for irq in serving
    ]
    return bool(queues) and all(driver in modules or number in numbers for driver, number in queues)
