# SPDX-License-Identifier: Apache-2.0
"""What a host must have so that it can run the guests of a flavor, from the flavor's extra specs."""

import dataclasses
import enum
import re
from collections.abc import Iterator, Mapping
from typing import Final

from nova_perf_tuning.specs import crosscheck, vocabulary

_PAGE_SIZE: Final = re.compile(r"([0-9]+)([KMG]?)i?(?:b|bit|B)?")
_KIB: Final = {"": 1, "K": 1, "M": 1024, "G": 1024 * 1024}
#: The page size of every host; larger ones are reserved at boot.
_SMALL_KIB: Final = 4


class NeedCode(enum.Enum):
    """Kinds of what a host must have."""

    DRIVER = "driver"
    AGENT = "agent"
    MACHINE = "machine_type"
    DEDICATED_SET = "cpu_dedicated_set"
    SHARED_SET = "cpu_shared_set"
    HUGE_PAGES = "huge_pages"
    NUMA_NODES = "numa_nodes"
    THREADS = "cpu_threads"
    PCI_DEVICES = "pci_devices"
    TRAIT = "trait"


TEXTS: Final = {
    NeedCode.DRIVER: (
        "nova.conf of nova-compute: [DEFAULT] compute_driver = perf_tuning.PerfTuningLibvirtDriver"
    ),
    NeedCode.AGENT: "nova-perf-agent, or nova-perf apply after each boot of a guest: for {value}",
    NeedCode.MACHINE: (
        "nova.conf: [libvirt] hw_machine_type = x86_64=q35, or hw_machine_type=q35 on the image: for {value}"
    ),
    NeedCode.DEDICATED_SET: "nova.conf: [compute] cpu_dedicated_set, the CPUs that guests own",
    NeedCode.SHARED_SET: (
        "nova.conf: [compute] cpu_shared_set, the CPUs of emulator threads and unpinned vCPUs, some on each node"
    ),
    NeedCode.HUGE_PAGES: (
        "kernel command line: hugepagesz={value} hugepages=N, N pages for the memory of all guests"
    ),
    NeedCode.NUMA_NODES: "at least {value} NUMA nodes",
    NeedCode.THREADS: "hyper-threading (SMT) switched on",
    NeedCode.PCI_DEVICES: "nova.conf: [pci] device_spec and alias for {value}",
    NeedCode.TRAIT: "the trait {value}",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Need:
    """One thing that a host must have.

    :ivar value: what the text names: a page size, an alias, a trait, the specs.
    """

    code: NeedCode
    value: str = ""

    @property
    def text(self) -> str:
        return TEXTS[self.code].format(value=self.value)

    def as_data(self) -> dict[str, str]:
        return {"code": self.code.value, "value": self.value, "text": self.text}


def needs(specs: Mapping[str, str]) -> list[Need]:
    """Return what a host needs for guests of a flavor whose extra specs are all in ``specs``."""
    return [*_of_ours(specs), *_of_novas(specs)]


def is_placed(spec: vocabulary.Spec, value: str) -> bool:
    """Return whether the agent, or ``nova-perf apply``, places something for this value of a spec."""
    if vocabulary.Effect.HOST not in spec.effects or spec.name in ("profile", "iothreads"):
        return False
    return value not in ("none", "default")


def _of_ours(specs: Mapping[str, str]) -> Iterator[Need]:
    placed: list[str] = []
    written = False
    for key, value in specs.items():
        if key not in vocabulary.BY_KEY:
            continue
        spec, _feature = vocabulary.BY_KEY[key]
        if vocabulary.Effect.XML in spec.effects and spec.name != "profile":
            written = True
        if is_placed(spec, value):
            placed.append(key)
    if written:
        yield Need(NeedCode.DRIVER)
    if specs.get("perf:pci_topology") == "numa":
        yield Need(NeedCode.MACHINE, "perf:pci_topology")
    if placed:
        yield Need(NeedCode.AGENT, ", ".join(placed))


def _of_novas(specs: Mapping[str, str]) -> Iterator[Need]:
    policy = specs.get("hw:cpu_policy")
    if policy in ("dedicated", "mixed") or crosscheck.has_pcpus(specs):
        yield Need(NeedCode.DEDICATED_SET)
    if policy == "mixed" or specs.get(crosscheck.EMULATOR) == "share":
        yield Need(NeedCode.SHARED_SET)
    pages = _huge_pages(specs.get("hw:mem_page_size", ""))
    if pages:
        yield Need(NeedCode.HUGE_PAGES, pages)
    nodes = specs.get("hw:numa_nodes", "")
    if nodes.isdecimal() and int(nodes) > 1:
        yield Need(NeedCode.NUMA_NODES, nodes)
    if specs.get("hw:cpu_thread_policy") == "require":
        yield Need(NeedCode.THREADS)
    for key, value in specs.items():
        if key == "pci_passthrough:alias":
            yield Need(NeedCode.PCI_DEVICES, value)
        elif key.startswith("trait:") and value == "required":
            yield Need(NeedCode.TRAIT, key.removeprefix("trait:"))


def _huge_pages(size: str) -> str:
    """Return the size of huge pages as the kernel's command line has it; empty: none are asked for.

    Nova takes a number without a unit for KiB, and for ``large`` any size but the smallest.
    """
    if size == "large":
        return "1G"
    match = _PAGE_SIZE.fullmatch(size)
    if match is None:
        return ""
    kib = int(match[1]) * _KIB[match[2]]
    if kib <= _SMALL_KIB:
        return ""
    for unit in ("G", "M"):
        if kib % _KIB[unit] == 0:
            return f"{kib // _KIB[unit]}{unit}"
    return f"{kib}K"
