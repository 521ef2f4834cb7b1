# SPDX-License-Identifier: Apache-2.0
"""The kernel's command line, and which CPUs it isolates: by the kernel's own lists, else by its parameters."""

import shlex
from collections.abc import Set
from typing import Final, NamedTuple

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.model.owners import ISOLATED_AT_BOOT, NOHZ_FULL

#: What those of the kernel's parameters do that place work or memory, in case they are misspelt.
PARAMETERS: Final = {
    "isolcpus": "keeps CPUs from the scheduler",
    "nohz_full": "stops the timer tick",
    "irqaffinity": "says where new interrupts start",
    "rcu_nocbs": "moves RCU callbacks away",
    "rcu_nocb_poll": "lets threads poll for RCU callbacks",
    "hugepages": "reserves huge pages",
    "hugepagesz": "says the size of huge pages",
    "default_hugepagesz": "says the default size of huge pages",
    "transparent_hugepage": "says when pages are merged into huge ones",
    "intel_iommu": "switches the IOMMU on",
    "amd_iommu": "switches the IOMMU on",
    "systemd.cpu_affinity": "says where services run",
}
_LIMIT: Final = 4 << 20
_FLAGS: Final = ("domain", "managed_irq", "nohz")


class AtBoot(NamedTuple):
    """CPUs that the kernel isolates or keeps without a tick since it started, as cpulists.

    :ivar isolated_from, nohz_full_from: where that is said: a file of the kernel, or ``/proc/cmdline`` and
        the parameter; empty where nothing says it.
    """

    isolated: str
    isolated_from: str
    nohz_full: str
    nohz_full_from: str


def read_isolation(root: Root, present: Set[int]) -> AtBoot:
    """Return the CPUs that were isolated at boot.

    A record may lack the kernel's lists: then they follow from the parameters. Of these the kernel takes
    the CPU that starts it out of nohz_full=, and out of isolcpus= with all CPUs
    (kernel/time/tick-sched.c, tick_nohz_init(); kernel/sched/isolation.c, housekeeping_setup()).
    """
    place, _, isolated_name = ISOLATED_AT_BOOT[1:].rpartition("/")
    nohz_name = NOHZ_FULL.rpartition("/")[2]
    directory = root.directory(place)
    isolated = root.cpus(directory, isolated_name)
    nohz_full = root.cpus(directory, nohz_name)
    if root.has(directory, isolated_name):
        # The kernel has the other file only with CONFIG_NO_HZ_FULL.
        return AtBoot(isolated, ISOLATED_AT_BOOT, nohz_full, NOHZ_FULL)
    line = root.read(root.directory("proc"), "cmdline", _LIMIT)
    tickless_from = NOHZ_FULL if root.has(directory, nohz_name) else ""
    if line is None:
        return AtBoot("", "", nohz_full, tickless_from)
    given = parameters(line.decode("utf-8", "replace"))
    value = given.get("isolcpus", "")
    if isolates(value):
        asked = cpus_of(value, present) or frozenset()
        if present and asked >= present:
            asked -= {min(present)}
        isolated = cpulist.format(asked)
        root.notes.add(NoteCode.FROM_COMMAND_LINE, parameter="isolcpus", file=ISOLATED_AT_BOOT)
    if not tickless_from:
        tickless_from = "/proc/cmdline nohz_full"
        asked = cpus_of(given.get("nohz_full", ""), present) or frozenset()
        nohz_full = cpulist.format(asked - {min(present, default=0)})
        if asked:
            root.notes.add(NoteCode.FROM_COMMAND_LINE, parameter="nohz_full", file=NOHZ_FULL)
    return AtBoot(isolated, "/proc/cmdline isolcpus", nohz_full, tickless_from)


def isolates(value: str) -> bool:
    """Whether isolcpus= with this text keeps CPUs from the scheduler.

    With flags it does so only with ``domain`` among them: housekeeping_isolcpus_setup() in
    kernel/sched/isolation.c.
    """
    flags = set(value.split(","))
    return bool(value) and ("domain" in flags or not flags & {"managed_irq", "nohz"})


def parameters(line: str) -> dict[str, str]:
    """Return parameter -> value of a command line, of a repeated one the last; empty for a flag."""
    found: dict[str, str] = {}
    for word in words(line):
        if word.isprintable():
            key, _, value = word.partition("=")
            found[as_the_kernel(key)] = value
    return found


def cpus_of(value: str, present: Set[int]) -> frozenset[int] | None:
    """Return the CPUs of ``isolcpus=managed_irq,domain,2-N`` and the like, None for what is no list.

    Flags are passed over. ``N`` is the last CPU, ``all`` all of them: bitmap_parselist() in
    lib/bitmap-str.c.
    """
    last = max(present, default=0)
    parts = [part for part in value.split(",") if part and part not in _FLAGS]
    return cpulist.find(",".join(parts).replace("all", "0-N").replace("N", str(last)))


def words(line: str) -> list[str]:
    """Return the words of a command line; a value may be quoted."""
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def as_the_kernel(parameter: str) -> str:
    """Return a known parameter's name as the kernel writes it, which takes dashes for underscores.

    parameqn() in kernel/params.c.
    """
    name = parameter.replace("-", "_")
    return name if name in PARAMETERS else parameter
