# SPDX-License-Identifier: Apache-2.0
"""CPUs and nodes out of ``lscpu -ae``, ``numactl --hardware`` and ``lscpu``, where sysfs is not in the
report.

sos copies the directories of 64 CPUs at most, unless it is given ``processor.max_cpu_dirs``.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.sosreport.report import SosReport, fields

_CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_ROWS: Final = re.compile(r"node (\d{1,4}) (cpus|size):(.*)")
_DISTANCES: Final = re.compile(r"\s*(\d{1,4}):((?:\s+\d{1,3})+)\s*")
_MIB: Final = 1024

#: Columns of ``lscpu -ae`` that say where a CPU is; each may be missing.
_PLACES: Final = ("NODE", "DRAWER", "BOOK", "SOCKET", "CORE")
_NODE_OF: Final = re.compile(r"NUMA node(\d{1,4}) CPU\(s\)")
#: What cpu_capacity of the strongest core is (Documentation/scheduler/sched-capacity.rst).
_STRONGEST: Final = 1024
#: Maximum frequencies of cores of one kind differ by a few percent.
_ALIKE: Final = 0.8

#: Column of ``lscpu -ae`` -> its word in the row of one CPU.
_Row = Mapping[str, str]


def add(report: SosReport) -> None:
    """Add CPUs and nodes: what each of the outputs says, and nothing that none of them says."""
    rows = _rows(report.command("processor", "lscpu_-ae"))
    summary = fields(report.command("processor", "lscpu"))
    nodes = _add_nodes(report, rows, summary)
    if rows:
        _add_cpus(report, rows)
    else:
        _add_online(report, summary, nodes)
    if "CORE" not in _columns(rows):
        _add_single_threads(report, summary)
        _add_sparse(report)


def _columns(rows: Mapping[int, _Row]) -> Collection[str]:
    """Return the columns that every row has."""
    for row in rows.values():
        return row.keys()
    return ()


def _rows(text: str) -> dict[int, _Row]:
    """Return the rows of ``lscpu -ae`` by CPU."""
    head, *lines = text.splitlines() or [""]
    columns = head.split()
    rows: dict[int, _Row] = {}
    # It may have run in another language.
    if columns[:1] != ["CPU"] or not set(columns).intersection(_PLACES):
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


def _is_online(row: _Row) -> bool:
    """Whether a CPU runs; without the column ONLINE, one of which nothing else is said does not."""
    if "ONLINE" in row:
        return row["ONLINE"] == "yes"
    return any(row.get(column, "-") != "-" for column in _PLACES)


def _add_cpus(report: SosReport, rows: Mapping[int, _Row]) -> None:
    """Add what sysfs has of each CPU, of those whose directory is not in the report."""
    columns = _columns(rows)
    online = [cpu for cpu, row in rows.items() if _is_online(row)]
    report.put(f"{_CPUS}/online", cpulist.format(online))
    report.put(f"{_CPUS}/present", cpulist.format(rows))
    sockets = [column for column in ("DRAWER", "BOOK", "SOCKET") if column in columns]
    cores: Mapping[int, str] = {}
    packages: Mapping[int, str] = {}
    if "CORE" in columns:
        cores = _together(rows, [*sockets, "CORE"])
    if "SOCKET" in columns:
        packages = _together(rows, sockets)
    caches = {level: _caches(rows, level) for level in ("L2", "L3")}
    capacities = _capacities(rows)
    for cpu in rows:
        place = f"{_CPUS}/cpu{cpu}"
        if report.names(f"{place}/topology"):
            continue
        if cpu not in online:
            report.put(f"{place}/online", "0")
            continue
        _add_place(report, cpu, rows[cpu], cores, packages)
        if cpu in capacities:
            report.put(f"{place}/cpu_capacity", str(capacities[cpu]))
        for level, index in (("L2", 2), ("L3", 3)):
            if cpu in caches[level]:
                report.put(f"{place}/cache/index{index}/level", level[1:])
                shared = caches[level][cpu]
                report.put(f"{place}/cache/index{index}/shared_cpu_list", shared)


def _add_place(
    report: SosReport,
    cpu: int,
    row: _Row,
    cores: Mapping[int, str],
    packages: Mapping[int, str],
) -> None:
    """Add the core, the package, the book and the drawer of a CPU, as far as they are known."""
    place = f"{_CPUS}/cpu{cpu}/topology"
    if cpu in cores:
        report.put(f"{place}/core_cpus_list", cores[cpu])
        report.put(f"{place}/core_id", row["CORE"])
    if "SOCKET" in row:
        report.put(f"{place}/physical_package_id", row["SOCKET"])
    if cpu in packages:
        report.put(f"{place}/package_cpus_list", packages[cpu])
    for column in ("DRAWER", "BOOK"):
        if column in row:
            report.put(f"{place}/{column.lower()}_id", row[column])


def _capacities(rows: Mapping[int, _Row]) -> dict[int, int]:
    """Return how strong each CPU is, by MAXMHZ; none where they are of one kind, or it is not known.

    sos copies neither ``cpu_capacity`` nor the PMUs that name the kinds of a hybrid machine.
    """
    speeds: dict[int, float] = {}
    for cpu, row in rows.items():
        whole, _, rest = row.get("MAXMHZ", "").replace(",", ".").partition(".")
        if whole.isdecimal() and len(whole) < 7 and not rest.strip("0123456789"):
            speeds[cpu] = int(whole)
    most = max(speeds.values(), default=0)
    if not most or min(speeds.values()) >= _ALIKE * most:
        return {}
    return {cpu: round(_STRONGEST * speed / most) for cpu, speed in speeds.items()}


def _add_online(
    report: SosReport, summary: Mapping[str, str], nodes: Mapping[int, frozenset[int]]
) -> None:
    """Add the CPUs that run, by ``lscpu``, else by the nodes: numactl lists those that are online."""
    online = cpulist.find(summary.get("On-line CPU(s) list"))
    if not online:
        online = frozenset[int]().union(*nodes.values())
    if online:
        report.put(f"{_CPUS}/online", cpulist.format(online))


def _add_single_threads(report: SosReport, summary: Mapping[str, str]) -> None:
    """Add a core for each CPU where ``lscpu`` says that no core has two threads."""
    if summary.get("Thread(s) per core") != "1":
        return
    for cpu in cpulist.find(report.text(f"{_CPUS}/online").strip()) or ():
        if not report.names(f"{_CPUS}/cpu{cpu}/topology"):
            report.put(f"{_CPUS}/cpu{cpu}/topology/core_cpus_list", str(cpu))


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
    """Note CPUs of whose cores the report has nothing."""
    online = cpulist.find(report.text(f"{_CPUS}/online").strip()) or frozenset()
    for cpu in online:
        if not report.names(f"{_CPUS}/cpu{cpu}/topology"):
            report.lacks.append("directories of all CPUs")
            return


def _add_nodes(
    report: SosReport, rows: Mapping[int, _Row], summary: Mapping[str, str]
) -> dict[int, frozenset[int]]:
    """Add nodes, of those whose directory is not in the report; return the CPUs of each."""
    listed: dict[int, str] = {}
    for line in report.command("numa", "numactl_--hardware").splitlines():
        distance = _DISTANCES.fullmatch(line)
        if distance is not None:
            report.put(f"{_NODES}/node{distance[1]}/distance", " ".join(distance[2].split()))
        row = _ROWS.fullmatch(line)
        if row is None:
            continue
        words = row[3].split()
        if row[2] == "cpus":
            listed[int(row[1])] = ",".join(words)
        elif len(words) == 2 and words[0].isdecimal() and words[1] == "MB":
            kib = int(words[0]) * _MIB
            report.put(f"{_NODES}/node{row[1]}/meminfo", f"Node {row[1]} MemTotal: {kib} kB")
    nodes: dict[int, frozenset[int]] = {}
    for node, text in (listed or _nodes_of(rows) or _nodes_in(summary)).items():
        members = cpulist.find(text)
        if members is not None:
            nodes[node] = members
            report.put(f"{_NODES}/node{node}/cpulist", cpulist.format(members))
    return nodes


def _nodes_of(rows: Mapping[int, _Row]) -> dict[int, str]:
    """Return node -> its CPUs by ``lscpu -ae``."""
    cpus: dict[int, list[int]] = {}
    for cpu, row in rows.items():
        node = row.get("NODE", "-")
        if node.isdecimal():
            cpus.setdefault(int(node), []).append(cpu)
    return {node: cpulist.format(members) for node, members in cpus.items()}


def _nodes_in(summary: Mapping[str, str]) -> dict[int, str]:
    """Return node -> its CPUs by ``lscpu``."""
    cpus: dict[int, str] = {}
    for key, text in summary.items():
        match = _NODE_OF.fullmatch(key)
        if match is not None:
            cpus[int(match[1])] = text
    return cpus
