# SPDX-License-Identifier: Apache-2.0
"""CPUs and nodes out of ``lscpu -ae`` and ``numactl --hardware``, where sysfs is not in the report.

sos copies the directories of 64 CPUs at most, unless it is given ``processor.max_cpu_dirs``.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.sosreport.report import SosReport

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_ROWS: Final = re.compile(r"node (\d{1,4}) (cpus|size):(.*)")
_DISTANCES: Final = re.compile(r"\s*(\d{1,4}):((?:\s+\d{1,3})+)\s*")
_MIB: Final = 1024

#: Column of ``lscpu -ae`` -> its word in the row of one CPU.
_Row = Mapping[str, str]


def add(report: SosReport) -> None:
    """Add CPUs and nodes."""
    rows = _rows(report.command("processor", "lscpu_-ae"))
    if rows:
        _add_cpus(report, rows)
    else:
        _add_sparse(report)
    _add_nodes(report, rows)


def _rows(text: str) -> dict[int, _Row]:
    """Return the rows of ``lscpu -ae`` by CPU."""
    head, *lines = text.splitlines() or [""]
    columns = head.split()
    rows: dict[int, _Row] = {}
    if columns[:1] != ["CPU"] or "CORE" not in columns:  # it may have run in another language
        return rows
    for line in lines:
        words = line.split()
        row = dict(zip(columns, words, strict=False))
        number = row.get("CPU", "")
        if number.isdecimal() and int(number) <= cpulist.MAX_CPU:
            rows[int(number)] = row
    return rows


def _together(rows: Mapping[int, _Row], columns: Sequence[str]) -> dict[int, str]:
    """Return CPU -> cpulist of the CPUs that have the same words in these columns.

    A CPU without a word in one of them is left out, as one that is offline is.
    """
    members: dict[tuple[str, ...], list[int]] = {}
    for cpu, row in rows.items():
        words = tuple(row.get(column, "-") for column in columns)
        if "-" not in words:
            members.setdefault(words, []).append(cpu)
    together: dict[int, str] = {}
    for cpus in members.values():
        together |= dict.fromkeys(cpus, cpulist.format(cpus))
    return together


def _add_cpus(report: SosReport, rows: Mapping[int, _Row]) -> None:
    """Add what sysfs has of each CPU, of those whose directory is not in the report."""
    online = [cpu for cpu, row in rows.items() if row.get("ONLINE", "yes") == "yes"]
    report.put(f"{_CPUS}/online", cpulist.format(online))
    report.put(f"{_CPUS}/present", cpulist.format(rows))
    sockets = [column for column in ("DRAWER", "BOOK", "SOCKET") if column in rows[min(rows)]]
    cores = _together(rows, [*sockets, "CORE"])
    packages = _together(rows, sockets)
    caches = {level: _caches(rows, level) for level in ("L2", "L3")}
    for cpu, row in rows.items():
        place = f"{_CPUS}/cpu{cpu}"
        if report.names(f"{place}/topology"):
            continue
        if cpu not in cores:
            report.put(f"{place}/online", "0")
            continue
        report.put(f"{place}/topology/core_cpus_list", cores[cpu])
        report.put(f"{place}/topology/core_id", row["CORE"])
        report.put(f"{place}/topology/physical_package_id", row.get("SOCKET", "-"))
        report.put(f"{place}/topology/package_cpus_list", packages[cpu])
        for column in sockets[:-1]:
            report.put(f"{place}/topology/{column.lower()}_id", row[column])
        for level, index in (("L2", 2), ("L3", 3)):
            if cpu in caches[level]:
                report.put(f"{place}/cache/index{index}/level", level[1:])
                shared = caches[level][cpu]
                report.put(f"{place}/cache/index{index}/shared_cpu_list", shared)


def _caches(rows: Mapping[int, _Row], level: str) -> dict[int, str]:
    """Return CPU -> cpulist of the CPUs with the same cache of a level, by a column such as
    ``L1d:L1i:L2:L3``, on s390 ``L1d:L1i:L2d:L2i``.
    """
    members: dict[str, list[int]] = {}
    for cpu, row in rows.items():
        for column, word in row.items():
            names, ids = column.split(":"), word.split(":")
            if len(names) < 2 or len(ids) != len(names):
                continue
            for name, number in zip(names, ids, strict=True):
                if name in (level, f"{level}d"):
                    members.setdefault(number, []).append(cpu)
    caches: dict[int, str] = {}
    for cache, cpus in members.items():
        if cache.isdecimal():
            caches |= dict.fromkeys(cpus, cpulist.format(cpus))
    return caches


def _add_sparse(report: SosReport) -> None:
    """Note CPUs of which the report has nothing, nor of their cores."""
    online = cpulist.find(report.text(f"{_CPUS}/online").strip()) or frozenset()
    for cpu in online:
        if not report.names(f"{_CPUS}/cpu{cpu}"):
            report.lacks.append("directories of all CPUs")
            return


def _add_nodes(report: SosReport, rows: Mapping[int, _Row]) -> None:
    """Add nodes, of those whose directory is not in the report."""
    cpus: dict[int, str] = {}
    for line in report.command("numa", "numactl_--hardware").splitlines():
        distance = _DISTANCES.fullmatch(line)
        if distance is not None:
            report.put(f"{_NODES}/node{distance[1]}/distance", " ".join(distance[2].split()))
        row = _ROWS.fullmatch(line)
        if row is None:
            continue
        words = row[3].split()
        if row[2] == "cpus":
            cpus[int(row[1])] = ",".join(words)
        elif len(words) == 2 and words[0].isdecimal() and words[1] == "MB":
            kib = int(words[0]) * _MIB
            report.put(f"{_NODES}/node{row[1]}/meminfo", f"Node {row[1]} MemTotal: {kib} kB")
    for node, listed in (cpus or _nodes_of(rows)).items():
        members = cpulist.find(listed)
        if members is not None:
            report.put(f"{_NODES}/node{node}/cpulist", cpulist.format(members))


def _nodes_of(rows: Mapping[int, _Row]) -> dict[int, str]:
    """Return node -> its CPUs by ``lscpu -ae``."""
    cpus: dict[int, list[int]] = {}
    for cpu, row in rows.items():
        node = row.get("NODE", "-")
        if node.isdecimal():
            cpus.setdefault(int(node), []).append(cpu)
    return {node: cpulist.format(members) for node, members in cpus.items()}
