"""What flavors get wrong beyond the vocabulary: specs that Nova refuses when a server is made, and wasted ones."""

from __future__ import annotations

import abc
import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning import rules
from nova_perf_tuning.rules import Finding, Level
from nova_perf_tuning.specs import crosscheck, vocabulary

MULTIQUEUE: Final = "hw:vif_multiqueue_enabled"
POLICY: Final = "hw:cpu_policy"
EMULATOR: Final = "hw:emulator_threads_policy"
THREADS: Final = "hw:cpu_thread_policy"
NODES: Final = "hw:numa_nodes"

#: Beyond this many queue pairs a host pays more than a guest gains (published: 1 to 8 took 2 to 13 Gb/s).
MANY_QUEUES: Final = 8

_OURS: Final = re.compile(r"(hw:)?perf[_:]?\w|hw_perf_", re.IGNORECASE)
_REFUSED: Final = "Nova refuses every server of this flavor."


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorFacts:
    """A flavor as the rules see it: its extra specs as Nova has them, nothing expanded."""

    vcpus: int
    ram_mib: int
    specs: Mapping[str, str]

    @property
    def multiqueue(self) -> bool:
        """Whether it asks Nova for several queues."""
        return self.specs.get(MULTIQUEUE, "").strip().lower() in vocabulary.TRUE_STRINGS

    @property
    def pinned(self) -> bool:
        """Whether its vCPUs, or some of them, have host CPUs of their own."""
        return self.specs.get(POLICY) in ("dedicated", "mixed") or crosscheck.has_pcpus(self.specs)

    def shown(self, key: str) -> str:
        """Return ``key=value`` for a message."""
        return f"{vocabulary.shown(key)}={vocabulary.shown(self.specs[key])}"


class FlavorRule(rules.Rule[FlavorFacts]):
    """Judges one thing of a flavor."""

    @abc.abstractmethod
    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        """Yield the evidence for each place where the rule is broken."""

    def check(self, facts: FlavorFacts) -> Iterator[Finding]:
        return (self.finding([("flavor", text)]) for text in self.broken(facts))


class MultiqueueOfOneVcpu(FlavorRule):
    """A guest with one vCPU is not asked to have several queues."""

    id = "multiqueue-of-one-vcpu"
    why = "Nova ignores it for a guest with one vCPU, which has one queue pair whatever the flavor says."
    remedy = f"remove {MULTIQUEUE}, or give the flavor more vCPUs"
    source = "nova/virt/libvirt/vif.py"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        if facts.multiqueue and facts.vcpus == 1:
            yield f"{facts.shown(MULTIQUEUE)} with 1 vCPU"


class QueueForEachVcpu(FlavorRule):
    """A guest with many vCPUs says how many queues it needs."""

    id = "queue-for-each-vcpu"
    why = f"Each queue pair is a vhost thread; beyond {MANY_QUEUES} the host burns CPU for little."
    remedy = "set perf:vif_queues=auto"
    source = "Nova makes as many queue pairs as vCPUs; 2 to 13 Gb/s were published for 1 to 8"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        limited = facts.specs.keys() & {"perf:vif_queues", "perf:profile"}
        if facts.multiqueue and facts.vcpus > MANY_QUEUES and not limited:
            yield f"{facts.shown(MULTIQUEUE)} with {facts.vcpus} vCPUs and no perf:vif_queues"


class EmulatorOnOwnCpus(FlavorRule):
    """The emulator threads of a pinned guest have CPUs of their own."""

    id = "emulator-on-the-guests-cpus"
    why = "QEMU's own threads then run on the guest's dedicated CPUs and preempt its vCPUs."
    remedy = f"set {EMULATOR}=share ([compute] cpu_shared_set on the hosts) or isolate"
    source = "Nova's documentation of CPU topologies; vendors strongly recommend it for NFV"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        if facts.pinned and EMULATOR not in facts.specs:
            yield f"{POLICY}={facts.specs.get(POLICY, 'dedicated')} without {EMULATOR}"


class IsolateUnpinned(FlavorRule):
    """Isolated emulator threads need a pinned guest."""

    id = "isolate-without-dedicated"
    level = Level.ERROR
    why = _REFUSED
    remedy = f"set {POLICY}=dedicated or remove {EMULATOR}"
    source = "nova/virt/hardware.py, BadRequirementEmulatorThreadsPolicy"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        if facts.specs.get(EMULATOR) == "isolate" and not facts.pinned:
            yield f"{facts.shown(EMULATOR)} without {POLICY}=dedicated"


class ShareWithoutTopology(FlavorRule):
    """Shared emulator threads need a guest with a NUMA topology."""

    id = "emulator-share-without-topology"
    why = "Nova places the emulator of guests with a NUMA topology only; it has no effect here."
    remedy = f"set {NODES}=1 or {POLICY}=dedicated, or remove {EMULATOR}"
    source = "nova/virt/libvirt/driver.py"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        topology = facts.pinned or facts.specs.keys() & {NODES, "hw:mem_page_size", "hw:pmem"}
        if facts.specs.get(EMULATOR) == "share" and not topology:
            yield f"{facts.shown(EMULATOR)} of a guest without a NUMA topology"


class ThreadPolicyUnpinned(FlavorRule):
    """A thread policy needs a pinned guest."""

    id = "thread-policy-without-dedicated"
    level = Level.ERROR
    why = _REFUSED
    remedy = f"set {POLICY}=dedicated or remove {THREADS}"
    source = "nova/virt/hardware.py, CPUThreadPolicyConfigurationInvalid"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        if THREADS in facts.specs and not facts.pinned:
            yield f"{facts.shown(THREADS)} without {POLICY}=dedicated"


class MixedWithoutMask(FlavorRule):
    """A mixed guest says which vCPUs are pinned."""

    id = "mixed-without-mask"
    level = Level.ERROR
    why = _REFUSED
    remedy = "set hw:cpu_dedicated_mask to the vCPUs that are to have CPUs of their own"
    source = "nova/virt/hardware.py, RequiredMixedOrRealtimeCPUMask"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        masks = facts.specs.keys() & {"hw:cpu_dedicated_mask", "hw:cpu_realtime_mask"}
        if facts.specs.get(POLICY) == "mixed" and not masks:
            yield f"{facts.shown(POLICY)} without hw:cpu_dedicated_mask"


class UnevenNodes(FlavorRule):
    """Guest NUMA nodes divide vCPUs and memory evenly."""

    id = "uneven-numa-nodes"
    level = Level.ERROR
    why = f"{_REFUSED} Each node must get the same share."
    remedy = f"choose vCPUs and memory that {NODES} divides, or set hw:numa_cpus.N and hw:numa_mem.N"
    source = "nova/virt/hardware.py, ImageNUMATopologyAsymmetric"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        text = facts.specs.get(NODES, "")
        if re.fullmatch(r"[1-9][0-9]{0,3}", text) and "hw:numa_cpus.0" not in facts.specs:
            for name, value in (("vCPUs", facts.vcpus), ("MiB of memory", facts.ram_mib)):
                if value % int(text):
                    yield f"{facts.shown(NODES)} with {value} {name}"


class QuotaOfPinned(FlavorRule):
    """Dedicated CPUs have no quota."""

    id = "quota-of-dedicated-cpus"
    why = "The kernel stops a vCPU that has used its quota, on a CPU that nobody else may use meanwhile."
    remedy = "remove quota:cpu_quota"
    source = "kernel documentation, CFS bandwidth control"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        if facts.pinned and facts.specs.get("quota:cpu_quota", "-1") not in ("-1", "0"):
            yield f"{facts.shown('quota:cpu_quota')} with {POLICY}={facts.specs.get(POLICY, 'dedicated')}"


class MistypedScope(FlavorRule):
    """Specs of this package begin with perf:."""

    id = "mistyped-scope"
    why = "Nova and this package take no notice of it."
    remedy = "write it as perf:NAME"
    source = "vocabulary of the perf: extra specs"

    def broken(self, facts: FlavorFacts) -> Iterator[str]:
        for key in facts.specs:
            if _OURS.match(key) and not key.startswith(vocabulary.PREFIX):
                name = re.sub(r"(?i)^(hw)?[:_]?perf[_:]?", "", key)
                yield f"{facts.shown(key)}{vocabulary.suggestion(vocabulary.PREFIX + name)}"


RULES: Final[list[FlavorRule]] = rules.defined_in(globals())
