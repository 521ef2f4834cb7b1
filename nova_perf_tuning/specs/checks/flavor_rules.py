"""What flavors get wrong beyond the vocabulary: specs that Nova refuses when a server is made, and wasted ones."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning.specs import crosscheck, vocabulary
from nova_perf_tuning.specs.checks.rules import Level, Rule

MULTIQUEUE: Final = "hw:vif_multiqueue_enabled"
POLICY: Final = "hw:cpu_policy"
EMULATOR: Final = "hw:emulator_threads_policy"
THREADS: Final = "hw:cpu_thread_policy"
NODES: Final = "hw:numa_nodes"

#: Beyond this many queue pairs a host pays more than a guest gains (published: 1 to 8 took 2 to 13 Gb/s).
MANY_QUEUES: Final = 8

_OURS: Final = re.compile(r"(hw:)?perf[_:]?\w|hw_perf_", re.IGNORECASE)


@dataclasses.dataclass(frozen=True, slots=True)
class FlavorFacts:
    """A flavor as the rules see it: its extra specs as Nova has them, nothing expanded."""

    vcpus: int
    ram_mib: int
    specs: Mapping[str, str]

    def flag(self, key: str) -> bool:
        """Return whether a boolean is stated and true, as Nova reads it."""
        return self.specs.get(key, "").strip().lower() in vocabulary.TRUE_STRINGS

    @property
    def pinned(self) -> bool:
        """Whether its vCPUs, or some of them, have host CPUs of their own."""
        return self.specs.get(POLICY) in ("dedicated", "mixed") or crosscheck.has_pcpus(self.specs)

    def shown(self, key: str) -> str:
        """Return ``key=value`` for a message."""
        return f"{vocabulary.shown(key)}={vocabulary.shown(self.specs[key])}"


def _multiqueue_of_one(facts: FlavorFacts) -> Iterator[str]:
    if facts.flag(MULTIQUEUE) and facts.vcpus == 1:
        yield f"{facts.shown(MULTIQUEUE)} with 1 vCPU"


def _queue_for_each_vcpu(facts: FlavorFacts) -> Iterator[str]:
    if facts.flag(MULTIQUEUE) and facts.vcpus > MANY_QUEUES:
        if not facts.specs.keys() & {"perf:vif_queues", "perf:profile"}:
            yield f"{facts.shown(MULTIQUEUE)} with {facts.vcpus} vCPUs and no perf:vif_queues"


def _emulator_on_own_cpus(facts: FlavorFacts) -> Iterator[str]:
    if facts.pinned and EMULATOR not in facts.specs:
        yield f"{POLICY}={facts.specs.get(POLICY, 'dedicated')} without {EMULATOR}"


def _isolate_unpinned(facts: FlavorFacts) -> Iterator[str]:
    if facts.specs.get(EMULATOR) == "isolate" and not facts.pinned:
        yield f"{facts.shown(EMULATOR)} without {POLICY}=dedicated"


def _share_without_topology(facts: FlavorFacts) -> Iterator[str]:
    topology = facts.pinned or facts.specs.keys() & {NODES, "hw:mem_page_size", "hw:pmem"}
    if facts.specs.get(EMULATOR) == "share" and not topology:
        yield f"{facts.shown(EMULATOR)} of a guest without a NUMA topology"


def _threads_unpinned(facts: FlavorFacts) -> Iterator[str]:
    if THREADS in facts.specs and not facts.pinned:
        yield f"{facts.shown(THREADS)} without {POLICY}=dedicated"


def _mixed_without_mask(facts: FlavorFacts) -> Iterator[str]:
    masks = facts.specs.keys() & {"hw:cpu_dedicated_mask", "hw:cpu_realtime_mask"}
    if facts.specs.get(POLICY) == "mixed" and not masks:
        yield f"{facts.shown(POLICY)} without hw:cpu_dedicated_mask"


def _uneven_nodes(facts: FlavorFacts) -> Iterator[str]:
    text = facts.specs.get(NODES, "")
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text) or "hw:numa_cpus.0" in facts.specs:
        return
    nodes = int(text)
    for name, value in (("vCPUs", facts.vcpus), ("MiB of memory", facts.ram_mib)):
        if value % nodes:
            yield f"{facts.shown(NODES)} with {value} {name}"


def _quota_of_pinned(facts: FlavorFacts) -> Iterator[str]:
    if facts.pinned and facts.specs.get("quota:cpu_quota", "-1") not in ("-1", "0"):
        yield f"{facts.shown('quota:cpu_quota')} with {POLICY}={facts.specs.get(POLICY, 'dedicated')}"


def _mistyped_scope(facts: FlavorFacts) -> Iterator[str]:
    for key in facts.specs:
        if _OURS.match(key) and not key.startswith(vocabulary.PREFIX):
            near = vocabulary.suggestion(vocabulary.PREFIX + re.sub(r"(?i)^(hw)?[:_]?perf[_:]?", "", key))
            yield f"{facts.shown(key)}{near}"


RULES: Final[tuple[Rule[FlavorFacts], ...]] = (
    Rule(
        "multiqueue-of-one-vcpu",
        Level.WARNING,
        _multiqueue_of_one,
        "Nova ignores it for a guest with one vCPU, which has one queue pair whatever the flavor says.",
        f"remove {MULTIQUEUE}, or give the flavor more vCPUs",
        "nova/virt/libvirt/vif.py",
    ),
    Rule(
        "queue-for-each-vcpu",
        Level.WARNING,
        _queue_for_each_vcpu,
        f"Each queue pair is a vhost thread; beyond {MANY_QUEUES} the host burns CPU for little.",
        "set perf:vif_queues=auto",
        "Nova makes as many queue pairs as vCPUs; 2 to 13 Gb/s were published for 1 to 8",
    ),
    Rule(
        "emulator-on-the-guests-cpus",
        Level.WARNING,
        _emulator_on_own_cpus,
        "QEMU's own threads then run on the guest's dedicated CPUs and preempt its vCPUs.",
        f"set {EMULATOR}=share ([compute] cpu_shared_set on the hosts) or isolate",
        "Nova's documentation of CPU topologies; vendors strongly recommend it for NFV",
    ),
    Rule(
        "isolate-without-dedicated",
        Level.ERROR,
        _isolate_unpinned,
        "Nova refuses every server of this flavor.",
        f"set {POLICY}=dedicated or remove {EMULATOR}",
        "nova/virt/hardware.py, BadRequirementEmulatorThreadsPolicy",
    ),
    Rule(
        "emulator-share-without-topology",
        Level.WARNING,
        _share_without_topology,
        "Nova places the emulator of guests with a NUMA topology only; it has no effect here.",
        f"set {NODES}=1 or {POLICY}=dedicated, or remove {EMULATOR}",
        "nova/virt/libvirt/driver.py",
    ),
    Rule(
        "thread-policy-without-dedicated",
        Level.ERROR,
        _threads_unpinned,
        "Nova refuses every server of this flavor.",
        f"set {POLICY}=dedicated or remove {THREADS}",
        "nova/virt/hardware.py, CPUThreadPolicyConfigurationInvalid",
    ),
    Rule(
        "mixed-without-mask",
        Level.ERROR,
        _mixed_without_mask,
        "Nova refuses every server of this flavor.",
        "set hw:cpu_dedicated_mask to the vCPUs that are to have CPUs of their own",
        "nova/virt/hardware.py, RequiredMixedOrRealtimeCPUMask",
    ),
    Rule(
        "uneven-numa-nodes",
        Level.ERROR,
        _uneven_nodes,
        "Nova refuses every server of this flavor: each node must get the same share.",
        f"choose vCPUs and memory that {NODES} divides, or set hw:numa_cpus.N and hw:numa_mem.N",
        "nova/virt/hardware.py, ImageNUMATopologyAsymmetric",
    ),
    Rule(
        "quota-of-dedicated-cpus",
        Level.WARNING,
        _quota_of_pinned,
        "The kernel stops a vCPU that has used its quota, on a CPU that nobody else may use meanwhile.",
        "remove quota:cpu_quota",
        "kernel documentation, CFS bandwidth control",
    ),
    Rule(
        "mistyped-scope",
        Level.WARNING,
        _mistyped_scope,
        "Nova and this package take no notice of it.",
        "write it as perf:NAME",
        "vocabulary of the perf: extra specs",
    ),
)
