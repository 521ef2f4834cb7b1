# SPDX-License-Identifier: Apache-2.0
"""Hosts of ``tests/field``: the inputs of a case, with the least that a host needs beside them."""

import functools
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning import cpulist
from tests.support import answers
from tests.support import audit_hosts as hosts

FIELD = pathlib.Path(__file__).parents[1] / "field"
_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
#: Node -> its CPUs and its memory in MiB.
Nodes = Mapping[int, tuple[str, int]]


class Case:
    """One case of a batch: its inputs and the answer that was written before any run."""

    def __init__(self, batch: str, number: str) -> None:
        (self.directory,) = (FIELD / batch).glob(f"{number}-*")

    def text(self, name: str) -> str:
        """Return an input."""
        return (self.directory / f"input-{name}").read_text(encoding="utf-8")

    def has(self, name: str) -> bool:
        """Whether there is such an input."""
        return (self.directory / f"input-{name}").exists()

    @functools.cached_property
    def answer(self) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = answers.load(self.directory / "answer.yaml")
        return answer

    def right(self, fact: str) -> Mapping[str, str]:
        """Return the one right answer whose fact is or begins so: ``value``, perhaps ``severity`` and ``remedy``."""
        every = self.answer["right"]
        exact = [right for right in every if right["fact"] == fact]
        (found,) = exact or [right for right in every if right["fact"].startswith(fact)]
        return found  # type: ignore[no-any-return]


def machine(
    online: str,
    *,
    offline: str = "",
    nodes: Nodes | None = None,
    cmdline: str = "quiet",
    isolated: str = "",
    nohz_full: str | None = "",
    arch: str = "x86_64",
) -> dict[str, str | None]:
    """Return a host of CPUs with one thread each; ``nohz_full`` None: the kernel has no such file."""
    running = cpulist.parse(online)
    tree: dict[str, str | None] = {
        f"{_CPU}/online": f"{online}\n",
        f"{_CPU}/isolated": f"{isolated}\n",
        "proc/cmdline": f"{cmdline.strip()}\n",
        "proc/sys/kernel/arch": f"{arch}\n",
        "proc/1/comm": "systemd\n",
        "sys/class/misc/kvm": hosts.DIRECTORY,
        "sys/class/misc/vhost-net": hosts.DIRECTORY,
    }
    if nohz_full is not None:
        tree[f"{_CPU}/nohz_full"] = f"{nohz_full}\n"
    for cpu in running | cpulist.parse(offline):
        tree[f"{_CPU}/cpu{cpu}/online"] = f"{int(cpu in running)}\n"
        if cpu in running:
            topology = f"{_CPU}/cpu{cpu}/topology"
            tree[f"{topology}/core_cpus_list"] = f"{cpu}\n"
            tree[f"{topology}/core_id"] = f"{cpu}\n"
            tree[f"{topology}/physical_package_id"] = "0\n"
    if nodes:
        tree[f"{_NODE}/online"] = f"{cpulist.format(nodes)}\n"
        for node, (cpus, memory_mib) in nodes.items():
            meminfo = f"Node {node} MemTotal: {memory_mib << 10} kB\n"
            tree[f"{_NODE}/node{node}/cpulist"] = f"{cpus}\n"
            tree[f"{_NODE}/node{node}/meminfo"] = meminfo
            distances = ("10" if other == node else "20" for other in nodes)
            tree[f"{_NODE}/node{node}/distance"] = " ".join(distances) + "\n"
    return tree


def of_numactl(text: str) -> Nodes:
    """Return the nodes of ``numactl -H``."""
    memory = dict(re.findall(r"^node (\d+) size: (\d+) MB$", text, re.MULTILINE))
    nodes: dict[int, tuple[str, int]] = {}
    for node, cpus in re.findall(r"^node (\d+) cpus:([ \d]*)$", text, re.MULTILINE):
        listed = cpulist.format(int(cpu) for cpu in cpus.split())
        nodes[int(node)] = (listed, int(memory[node]))
    return nodes


def of_lscpu(text: str) -> tuple[str, str, str]:
    """Return the CPUs of ``lscpu -e`` that are online, offline, and deconfigured."""
    head, *rows = (line.split() for line in text.splitlines())
    online: set[int] = set()
    offline: set[int] = set()
    deconfigured: set[int] = set()
    for row in rows:
        values = dict(zip(head, row, strict=True))
        cpu = int(values["CPU"])
        if values["ONLINE"] == "yes":
            online.add(cpu)
        else:
            offline.add(cpu)
        if values.get("CONFIGURED") == "no":
            deconfigured.add(cpu)
    return cpulist.format(online), cpulist.format(offline), cpulist.format(deconfigured)


def interrupts(text: str, device: str, affinity: str) -> dict[str, str | None]:
    """Return the vectors of ``/proc/interrupts``, each served where it was counted most."""
    tree: dict[str, str | None] = {}
    head, *rows = text.splitlines()
    width = len(head.split())
    for row in rows:
        match = re.match(r"\s*(\d+):", row)
        if match is None:
            continue
        words: Sequence[str] = row.split()
        counts = [int(word) for word in words[1 : width + 1]]
        cpu = counts.index(max(counts))
        folder = f"proc/irq/{match[1]}"
        tree[f"{folder}/smp_affinity_list"] = f"{affinity}\n"
        tree[f"{folder}/effective_affinity_list"] = f"{cpu}\n"
        tree[f"{folder}/node"] = "0\n"
        tree[f"{device}/msi_irqs/{match[1]}"] = "msix\n"
        if not re.fullmatch(r"\d+-edge", words[-1]):
            tree[f"{folder}/{words[-1]}"] = hosts.DIRECTORY
    return tree
