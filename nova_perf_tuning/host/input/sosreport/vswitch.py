# SPDX-License-Identifier: Apache-2.0
"""PMD threads of Open vSwitch with DPDK, out of ``ovs-appctl dpif-netdev/pmd-*`` and
``other_config``.
"""

import re
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.sosreport.report import SosReport
from nova_perf_tuning.host.input.sosreport.tasks import OVS

_THREAD: Final = re.compile(r"^pmd thread numa_id \d{1,4} core_id (\d{1,5})", re.MULTILINE)
_MASK: Final = re.compile(r"pmd-cpu-mask=\"?(?:0x)?([0-9a-fA-F]{1,512})\"?")
_DPDK: Final = re.compile(r"dpdk-init=\"?(?:true|try)\"?")
_NAME: Final = re.compile(r"Name:\tpmd(?:-c)?(\d{1,5})")
#: Numbers for threads whose own are not known: from the last one that a kernel gives downwards.
_LAST: Final = (1 << 22) - 1


def add(report: SosReport) -> None:
    """Add a thread for each PMD thread, bound to its CPU; their process is among those of ``ps``."""
    cpus = _cpus(report)
    for number in report.names("proc"):
        if number.isdecimal() and report.text(f"proc/{number}/comm").strip() == OVS:
            _add_threads(report, f"proc/{number}/task", set(cpus))
            return


def _cpus(report: SosReport) -> frozenset[int]:
    """Return the CPUs of PMD threads: those that run, else those that are configured."""
    running: set[int] = set()
    for _label, text in report.outputs("openvswitch", "ovs-appctl_dpif-netdev.pmd-"):
        running.update(int(cpu) for cpu in _THREAD.findall(text))
    if running:
        return frozenset(running)
    for name in ("get_Open_vSwitch_._other_config", "list_Open_vSwitch"):
        text = report.command("openvswitch", f"ovs-vsctl_-t_5_{name}")
        mask = _MASK.search(text)
        if mask is not None and _DPDK.search(text):
            return _of_mask(int(mask[1], 16))
    return frozenset()


def _of_mask(mask: int) -> frozenset[int]:
    cpus: set[int] = set()
    for cpu in range(mask.bit_length()):
        if mask >> cpu & 1:
            cpus.add(cpu)
    return frozenset(cpus)


def _add_threads(report: SosReport, tasks: str, cpus: set[int]) -> None:
    """Add what is lacking: names that ``pidstat`` has printed have their CPU in them."""
    for tid in report.names(tasks):
        path = f"{tasks}/{tid}/status"
        text = report.text(path)
        named = _NAME.match(text)
        if named is not None and "Cpus_allowed_list" not in text and int(named[1]) in cpus:
            report.entries[path] = f"{text}Cpus_allowed_list:\t{named[1]}\n".encode()
        if named is not None:
            cpus.discard(int(named[1]))
    for index, cpu in enumerate(sorted(cpus)):
        if cpu <= cpulist.MAX_CPU:
            status = f"Name:\tpmd-c{cpu:02}\nCpus_allowed_list:\t{cpu}"
            report.put(f"{tasks}/{_LAST - index}/status", status)
