# SPDX-License-Identifier: Apache-2.0
"""What claims CPUs besides Nova and the kernel's command line: threads of programs, and slices of systemd."""

import collections
import dataclasses
import re
from collections.abc import Container, Mapping
from typing import Final

from nova_perf_tuning.guest import domain
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import guests as guests_module
from nova_perf_tuning.host.facts.root import Directory, Root, numbers

CGROUPS: Final = "sys/fs/cgroup"
#: CPUs of all isolated partitions, in the root (Linux 6.7).
ISOLATED: Final = "cpuset.cpus.isolated"
#: Of a slice: its files, as :class:`model.Slice` has them.
SLICE_FILES: Final = ("cpuset.cpus", "cpuset.cpus.effective", "cpuset.cpus.partition")
#: Name of the process of Open vSwitch.
OVS: Final = "ovs-vswitchd"
#: lib/dpif-netdev.c and ofproto/ofproto-dpif-upcall.c; the kernel keeps 15 characters.
_OVS_THREAD: Final = re.compile(r"(pmd-c|handler|revalidator)\d").match
_PMD: Final = "pmd-c"
_MAX_THREADS: Final = 4096
_MAX_SLICES: Final = 100


def read_slices(root: Root) -> tuple[model.Slice, ...]:
    """Return the slices, on two levels, that do not simply have the CPUs of what is above them."""
    slices = []
    for name in _slices(root, root.directory(CGROUPS)):
        slices += [name, *(f"{name}/{nested}" for nested in _slices(root, root.directory(f"{CGROUPS}/{name}")))]
    limited = []
    for path in slices:
        directory = root.directory(f"{CGROUPS}/{path}")
        cpus, effective = (root.cpus(directory, name) for name in SLICE_FILES[:2])
        partition = root.text(directory, SLICE_FILES[2]) or "member"
        if effective and (cpus or partition != "member"):
            limited.append(model.Slice(path, cpus, effective, partition[:200]))
    return tuple(limited)


def _slices(root: Root, directory: Directory | None) -> list[str]:
    names = [name for name in root.directories(directory) if name.endswith(".slice") and name.isprintable()]
    return sorted(names)[:_MAX_SLICES]


def in_slices(
    root: Root, guests: tuple[model.GuestProcess, ...], slices: tuple[model.Slice, ...]
) -> tuple[model.GuestProcess, ...]:
    """Return the guests, each with the slice of these that holds its process."""
    held = []
    for guest in guests if slices else ():
        data = root.read(root.directory(f"proc/{guest.pid}"), "cgroup") or b""
        # The line of cgroup v2: 0::/machine.slice/machine-qemu\x2d1\x2dinstance.scope/libvirt/emulator
        path = f"\n{data.decode('utf-8', 'replace')}".partition("\n0::/")[2].partition("\n")[0]
        holding = [group.path for group in slices if path.startswith(f"{group.path}/")]
        held.append(dataclasses.replace(guest, slice=max(holding, key=len, default=None)))
    return tuple(held) or guests


def read_programs(root: Root, guests: Container[int], isolated: frozenset[int]) -> tuple[model.ProgramThread, ...]:
    """Return the threads of Open vSwitch's workers, and those of any program that have a CPU for themselves.

    A thread has its CPU for itself if it may use no other, while the rest of its process is elsewhere, or if the
    kernel isolates that CPU. A process that is confined as a whole, as by ``taskset``, owns nothing else.

    :param guests: processes that are left out.
    """
    base = root.directory("proc")
    pids = [pid for pid in numbers(root.directories(base), 1, domain.MAX_PID) if pid not in guests]
    found: list[model.ProgramThread] = []
    for pid, data in zip(pids, root.each(base, [f"{pid}/stat" for pid in pids]), strict=True):
        stat = guests_module.parse_stat(root, data, base)
        name = stat[0].decode("utf-8", "replace") if stat else ""
        if not stat or guests_module.KTHREADD in (pid, stat[1]) or not name.isprintable():
            continue
        tasks = Directory(f"{base}/{pid}/task")
        affinities, names = _threads(root, tasks)
        bound = _bound(affinities, isolated)
        for tid in affinities if name == OVS else bound:
            own = names.get(tid) or root.text(Directory(f"{tasks}/{tid}"), "comm") or ""
            ovs = _OVS_THREAD(own) if name == OVS else None
            if ovs or tid in bound:
                alone = ovs[1] == _PMD if ovs else True
                found.append(model.ProgramThread(name, pid, tid, own, affinities[tid], alone and tid in bound))
    return tuple(found[:_MAX_THREADS])


def _threads(root: Root, tasks: Directory) -> tuple[dict[int, str], dict[int, str]]:
    """Return the affinities of a process's threads by id, and of a recorded one their names."""
    known: list[tuple[int, str, str | None]]
    if root.live:
        tids = numbers(root.names(tasks), 1, domain.MAX_PID)
        known = [(tid, "", guests_module.may_use(tid)) for tid in tids]
    else:
        recorded = guests_module.recorded(root, tasks, 0)
        known = [(tid, name.decode("ascii", "replace")[:15], affinity) for tid, name, _start, affinity in recorded]
    affinities = {tid: affinity for tid, _name, affinity in known if affinity}
    return affinities, {tid: name for tid, name, _affinity in known if name.isprintable()}


def _bound(affinities: Mapping[int, str], isolated: frozenset[int]) -> set[int]:
    """Return the threads that have one CPU, for themselves."""
    count = collections.Counter(affinities.values())
    single = {tid: int(text) for tid, text in affinities.items() if text.isdigit()}
    return {
        tid for tid, cpu in single.items() if cpu in isolated or (count[affinities[tid]] == 1 and len(count) > 1)
    }
