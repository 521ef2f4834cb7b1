# SPDX-License-Identifier: Apache-2.0
"""Every recorded host of the hwloc project's test suite against what hwloc found on it.

``nova-perf topology -f json --sysroot HOST.tar.bz2`` is compared in online CPUs, packages, cores, nodes (ids, CPUs
and memory) and distances. Where hwloc's answer is something else than the host's topology, the table below says
what and why, and the test checks that the difference is just that.
"""

import dataclasses
import json
import sys
from typing import Any

import testtools

from nova_perf_tuning import cpulist
from tests.support import hwloc, program, testcase


@dataclasses.dataclass(frozen=True)
class Difference:
    """Where hwloc shows something else than the host's topology.

    :ivar cpus: only these CPUs are shown; :ivar nodes: only these nodes.
    :ivar homeless: nodes without CPUs, which hwloc hangs where it thinks they are nearest.
    :ivar invented_node: the kernel has no NUMA data; hwloc always makes up node 0 of all memory.
    :ivar no_cores: the kernel has no data on cores; hwloc shows none, we take each CPU for one.
    :ivar numbered: the kernel gives no package ids; we number them in the order of their first CPUs.
    """

    reason: str
    cpus: str | None = None
    nodes: str | None = None
    homeless: str = ""
    invented_node: bool = False
    no_cores: bool = False
    numbered: bool = False


NONE = Difference("")
DIFFERENCES = {
    "128ia64-17n4s2c": Difference("memory-only node 16", homeless="16"),
    "16amd64-8n2c-cpusets": Difference(
        "hwloc shows what its own cpuset /dummy allows", cpus="0-6,12-15", nodes="1-4"
    ),
    "16em64t-4s2ca2c-cpusetreorder": Difference(
        "hwloc shows what its own cpuset /prout allows", cpus="2-11,13"
    ),
    "20s390-2g6s4c": Difference(
        "no NUMA in that kernel; package id -1", invented_node=True, numbered=True
    ),
    "2arm-2c": Difference("no NUMA in that kernel", invented_node=True),
    "32amd64-4s2n4c-cgroup2": Difference(
        "hwloc shows what its own cgroup step_0 allows", cpus="0-5", nodes="0-5"
    ),
    "4fake-4gr1nu1pu": Difference(
        "hwloc shows what its own cpuset /dummy allows; no core data",
        cpus="0-1",
        nodes="0,2",
        no_cores=True,
    ),
    "fakeheterocpunuma": Difference("node 2 has no CPUs of its own", homeless="2"),
    "nvidiagpunumanodes": Difference(
        "hwloc hides the memory of GPUs (/proc/driver/nvidia), the kernel does not", nodes="0,8"
    ),
}


class TestRecordedHosts(testcase.TestCase):
    """One test method for each recorded host is added below."""

    def check(self, name: str) -> None:
        root = str(hwloc.DIRECTORY / f"{name}.tar.bz2")
        host = json.loads(program.nova_perf("topology", "-f", "json", "--sysroot", root).stdout)
        expected = hwloc.read(
            next(
                path
                for path in hwloc.DIRECTORY.glob(f"{name}.*")
                if path.suffix in (".console", ".xml")
            )
        )
        known = DIFFERENCES.get(name, NONE)
        online = {cpu["id"] for cpu in host["cpus"] if cpu["online"]}
        shown = online if known.cpus is None else online & cpulist.parse(known.cpus)
        self.assertEqual(expected.cpus, shown)
        self.assertEqual(expected.hidden, {cpu["id"] for cpu in host["cpus"]} - shown)
        self.assertEqual(set(cpulist.parse(host["online"])), online)
        self.check_cores(host, expected, known, shown)
        self.check_packages(host, expected, known, shown)
        self.check_nodes(host, expected, known, shown)
        caches = {
            frozenset(cpulist.parse(cpu["l3"]) & shown) for cpu in host["cpus"] if cpu["l3"]
        } - {frozenset()}
        self.assertEqual(
            {frozenset(cache.cpus) for cache in expected.of("L3Cache") if cache.cpus}, caches
        )
        inner = {
            frozenset(cpulist.parse(cpu["l2"]) & shown) for cpu in host["cpus"] if cpu["l2"]
        } - {frozenset()}
        listed = expected.of("L2Cache") or expected.of("L2dCache")
        if listed:  # some of hwloc's files leave caches out
            self.assertEqual({frozenset(cache.cpus) for cache in listed if cache.cpus}, inner)

    def check_cores(
        self, host: dict[str, Any], expected: hwloc.Expected, known: Difference, shown: set[int]
    ) -> None:
        cores = {
            frozenset(cpulist.parse(cpu["siblings"]) & shown)
            for cpu in host["cpus"]
            if cpu["id"] in shown
        }
        if known.no_cores:
            self.assertEqual([], expected.of("Core"))
            self.assertEqual({frozenset({cpu}) for cpu in shown}, cores)
            self.assertEqual({None}, {cpu["core"] for cpu in host["cpus"]})
            return
        self.assertEqual(
            {frozenset(core.cpus) for core in expected.of("Core") if core.cpus}, cores
        )
        numbers = {cpu["id"]: cpu["core"] for cpu in host["cpus"]}
        for core in expected.of("Core"):
            self.assertEqual({core.number}, {numbers[cpu] for cpu in core.cpus} or {core.number})

    def check_packages(
        self, host: dict[str, Any], expected: hwloc.Expected, known: Difference, shown: set[int]
    ) -> None:
        packages: dict[int | None, set[int]] = {}
        for cpu in host["cpus"]:
            if cpu["id"] in shown:
                packages.setdefault(cpu["package"], set()).add(cpu["id"])
        wanted = {
            package.logical if known.numbered else package.number: package.cpus
            for package in expected.of("Package")
            if package.cpus
        }
        if known.numbered:
            self.assertEqual({None}, {package.number for package in expected.of("Package")})
            self.assertEqual(
                sorted(map(sorted, wanted.values())), sorted(map(sorted, packages.values()))
            )
        else:
            self.assertEqual(wanted, packages)

    def check_nodes(
        self, host: dict[str, Any], expected: hwloc.Expected, known: Difference, shown: set[int]
    ) -> None:
        nodes = {node["id"]: node for node in host["nodes"]}
        if known.invented_node:
            self.assertEqual([0], [node.number for node in expected.of("NUMANode")])
            self.assertEqual({}, nodes)
            self.assertEqual({None}, {cpu["node"] for cpu in host["cpus"]})
            return
        listed = {node.number for node in expected.of("NUMANode")}
        self.assertEqual(
            listed, set(nodes) if known.nodes is None else set(nodes) & cpulist.parse(known.nodes)
        )
        for node in expected.of("NUMANode"):
            ours = nodes[node.number]
            cpus = cpulist.parse(ours["cpus"])
            if node.number in cpulist.parse(known.homeless):
                self.assertEqual(frozenset(), cpus)
            else:
                self.assertEqual(node.cpus, cpus & shown, f"node {node.number}")
            assert node.memory is not None
            number, unit = node.memory
            self.assertEqual(
                number, int(ours["memory_kib"] / unit + 0.5), f"memory of node {node.number}"
            )
        for (here, there), distance in expected.distances.items():
            self.assertEqual(
                distance, nodes[here]["distances"][str(there)], f"distance {here} to {there}"
            )
        members = {
            cpu: node["id"] for node in host["nodes"] for cpu in cpulist.parse(node["cpus"])
        }
        self.assertEqual(
            members.keys() >= shown,
            all(cpu["node"] is not None for cpu in host["cpus"] if cpu["online"]),
        )

    def test_number_of_hosts(self) -> None:
        hint = "" if hwloc.DIRECTORY.is_dir() else " is not there; name it in NOVA_PERF_TOPOLOGIES"
        print(
            f"recorded hosts of hwloc used: {len(hwloc.HOSTS)} ({hwloc.DIRECTORY}{hint})",
            file=sys.stderr,
        )
        self.addDetail(
            "hosts", testtools.content.text_content(f"{len(hwloc.HOSTS)}: {' '.join(hwloc.HOSTS)}")
        )
        if hwloc.DIRECTORY.is_dir():
            self.assertGreater(len(hwloc.HOSTS), 0)
            self.assertLessEqual(
                DIFFERENCES.keys(), set(hwloc.HOSTS), "a difference for a host that is not there"
            )


def _add(name: str) -> None:
    method = "test_" + name.replace("-", "_").replace("+", "_")
    setattr(TestRecordedHosts, method, lambda self: self.check(name))


for _name in hwloc.HOSTS:
    _add(_name)
