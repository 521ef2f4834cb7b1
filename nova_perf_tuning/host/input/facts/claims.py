# SPDX-License-Identifier: Apache-2.0
"""What claims CPUs besides Nova and the kernel's command line: threads of programs, and slices of
systemd; and threads of the kernel, which claim none, by the same look at all processes.
"""

import dataclasses
import re
from collections.abc import Container, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning.guest import domain
from nova_perf_tuning.host.input.facts import guests, whose
from nova_perf_tuning.host.input.facts.root import Directory, Root, numbers
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode

CGROUPS: Final = "sys/fs/cgroup"
#: CPUs of all isolated partitions, in the root (Linux 6.7).
ISOLATED: Final = "cpuset.cpus.isolated"
#: Of a slice: its files, as :class:`.host_model.Slice` has them.
SLICE_FILES: Final = ("cpuset.cpus", "cpuset.cpus.effective", "cpuset.cpus.partition")
#: Name of the process of Open vSwitch.
OVS: Final = "ovs-vswitchd"
#: lib/dpif-netdev.c and ofproto/ofproto-dpif-upcall.c; the kernel keeps 15 characters. Before Open
#: vSwitch 2.11
#: pmd5. EAL's lcore-worker5 and the like have one CPU, too, but sleep in Open vSwitch.
_OVS_THREAD: Final = re.compile(r"(pmd(?:-c)?|handler|revalidator)\d").match
_PMD: Final = re.compile(r"pmd(-c)?\d").match
#: Threads of one Open vSwitch that are kept, PMD threads first: a machine of 2,048 CPUs has less.
MAX_SWITCH_THREADS: Final = 4096
#: Threads of other programs on isolated CPUs: of one process, and of all. Nothing is decided by
#: them.
MAX_BOUND_THREADS: Final = 64
MAX_BOUND_IN_ALL: Final = 1024
#: ``PF_NO_SETAFFINITY`` of linux/sched.h: the kernel keeps such a thread where it is.
NO_SETAFFINITY: Final = 0x04000000
#: Threads of the kernel that follow an interrupt, a guest or a NAPI, which are facts of their own.
_PLACED_ELSEWHERE: Final = ("irq/", "vhost-", "napi/")
#: Threads of the kernel that are kept: a machine of 2,048 CPUs has three of RCU for each CPU.
MAX_KERNEL_THREADS: Final = 8192
#: Slices of one level; those of systemd itself and of guests come first.
MAX_SLICES: Final = 1000
_FIRST_SLICES: Final = ("machine.slice", "system.slice", "user.slice")


def read_slices(root: Root) -> tuple[host_model.Slice, ...]:
    """Return the slices, on two levels, that do not simply have the CPUs of what is above them."""
    paths: list[str] = []
    for name in _slices(root, root.directory(CGROUPS)):
        paths.append(name)
        for nested in _slices(root, root.directory(f"{CGROUPS}/{name}")):
            paths.append(f"{name}/{nested}")
    limited: list[host_model.Slice] = []
    for path in paths:
        directory = root.directory(f"{CGROUPS}/{path}")
        cpus = root.cpus(directory, SLICE_FILES[0])
        effective = root.cpus(directory, SLICE_FILES[1])
        partition = root.text(directory, SLICE_FILES[2]) or "member"
        if effective and (cpus or partition != "member"):
            # The kernel's word comes first, and of an invalid partition its reason, of which
            # nothing depends.
            limited.append(host_model.Slice(path, cpus, effective, partition[:200]))
    return tuple(sorted(limited, key=lambda group: group.path))


def _slices(root: Root, directory: Directory | None) -> list[str]:
    names = [
        name
        for name in root.directories(directory)
        if name.endswith(".slice") and name.isprintable()
    ]
    ordered = sorted(names, key=lambda name: (name not in _FIRST_SLICES, name))
    if len(ordered) > MAX_SLICES:
        root.notes.add(
            NoteCode.SLICES_LEFT_OUT,
            directory or "",
            most=MAX_SLICES,
            left=len(ordered) - MAX_SLICES,
        )
    return ordered[:MAX_SLICES]


def in_slices(
    root: Root,
    processes: tuple[host_model.GuestProcess, ...],
    slices: tuple[host_model.Slice, ...],
) -> tuple[host_model.GuestProcess, ...]:
    """Return the guests, each with the slice of these that holds its process."""
    if not slices:
        return processes
    held: list[host_model.GuestProcess] = []
    for guest in processes:
        data = root.read(root.directory(f"proc/{guest.pid}"), "cgroup") or b""
        # The line of cgroup v2:
        # 0::/machine.slice/machine-qemu\x2d1\x2dinstance.scope/libvirt/emulator
        path = f"\n{data.decode('utf-8', 'replace')}".partition("\n0::/")[2].partition("\n")[0]
        holding = [group.path for group in slices if path.startswith(f"{group.path}/")]
        held.append(dataclasses.replace(guest, slice=max(holding, key=len, default=None)))
    return tuple(held)


class Process(NamedTuple):
    """A process that is no guest, by its ``stat``.

    :ivar parent: number of its parent; :ivar start: start time in clock ticks after boot.
    :ivar flags: ``PF_*`` of linux/sched.h.
    """

    pid: int
    name: str
    parent: int
    start: int
    flags: int


def read_processes(root: Root, guest_pids: Container[int]) -> list[Process]:
    """Return the processes of a host with printable names, those ``guest_pids`` left out."""
    base = root.directory("proc")
    pids: list[int] = []
    for pid in numbers(root.directories(base), 1, domain.MAX_PID):
        if pid not in guest_pids:
            pids.append(pid)
    processes: list[Process] = []
    for pid, data in zip(pids, root.each(base, [f"{pid}/stat" for pid in pids]), strict=True):
        stat = guests.parse_stat(root, data, base)
        if stat is None or data is None:
            continue
        comm, parent, start = stat
        name = comm.decode("utf-8", "replace")
        if not name.isprintable():
            continue
        flags = 0
        if parent == guests.KTHREADD:
            flags = _flags(data)
        processes.append(Process(pid, name, parent, start, flags))
    return processes


def _flags(stat: bytes) -> int:
    """Return field 9 of a ``stat`` that :func:`guests.parse_stat` takes; 0: it is no number."""
    field = stat.rpartition(b") ")[2].split(b" ", 7)[6]
    if field.isdigit() and len(field) < 11:
        return int(field)
    return 0


def read_kernel_threads(
    root: Root, processes: Sequence[Process], all_online: bool
) -> tuple[host_model.KernelThread, ...] | None:
    """Return the kernel's threads whose affinity can be set; None where the record has none.

    :param all_online: every CPU is online. Else an affinity is read from ``status``, which names
        offline CPUs too: they may come back with a guest.
    """
    found: list[host_model.KernelThread] = []
    base = root.directory("proc")
    for process in processes:
        if process.parent != guests.KTHREADD or process.flags & NO_SETAFFINITY:
            continue
        if process.name.startswith(_PLACED_ELSEWHERE):
            continue
        affinity = None
        if root.live and all_online:
            affinity = guests.may_use(process.pid)
        else:
            status = root.read(root.child(base, str(process.pid)), "status")
            if status is not None:
                affinity = guests.allowed(root, status, base)
        if affinity:
            thread = host_model.KernelThread(process.pid, process.name, affinity, process.start)
            found.append(thread)
    if len(found) > MAX_KERNEL_THREADS:
        left = len(found) - MAX_KERNEL_THREADS
        root.notes.add(
            NoteCode.THREADS_LEFT_OUT, "kernel threads", most=MAX_KERNEL_THREADS, left=left
        )
    return tuple(found[:MAX_KERNEL_THREADS]) or None


def read_programs(
    root: Root, processes: Sequence[Process], isolated: frozenset[int]
) -> tuple[host_model.ProgramThread, ...]:
    """Return the workers of Open vSwitch, and threads of other programs that are bound to one
    isolated CPU.

    An Open vSwitch that neither root nor its configured user runs is passed over, which is noted:
    any user may start a process of that name. Other programs own nothing, for any user may bind a
    thread to an isolated CPU; a note names them.
    """
    switches: list[int] = []
    others: list[tuple[int, str]] = []
    for process in processes:
        if guests.KTHREADD in (process.pid, process.parent):
            continue
        if process.name == OVS:
            switches.append(process.pid)
        else:
            others.append((process.pid, process.name))
    found: list[host_model.ProgramThread] = []
    for pid in switches:
        if whose.is_switchs(root, pid):
            found += _of_switch(root, pid)
        else:
            root.notes.add(NoteCode.PROGRAM_OF_ANOTHER_USER, f"process {pid}", program=OVS)
    if isolated:
        found += _on_isolated(root, others, isolated)
    return tuple(found)


def _of_switch(root: Root, pid: int) -> list[host_model.ProgramThread]:
    """Return the workers of one Open vSwitch, PMD threads first."""
    tasks = Directory(f"proc/{pid}/task")
    affinities, names = _threads(root, tasks)
    polling: list[host_model.ProgramThread] = []
    sleeping: list[host_model.ProgramThread] = []
    for tid, affinity in affinities.items():
        own = names.get(tid) or root.text(Directory(f"{tasks}/{tid}"), "comm") or ""
        if not _OVS_THREAD(own):
            continue
        if _PMD(own) and affinity.isdecimal():
            polling.append(host_model.ProgramThread(OVS, pid, tid, own, affinity, True))
        else:
            sleeping.append(host_model.ProgramThread(OVS, pid, tid, own, affinity, False))
    workers = polling + sleeping
    if len(workers) > MAX_SWITCH_THREADS:
        left = len(workers) - MAX_SWITCH_THREADS
        root.notes.add(
            NoteCode.THREADS_LEFT_OUT, f"{OVS} ({pid})", most=MAX_SWITCH_THREADS, left=left
        )
    return workers[:MAX_SWITCH_THREADS]


def _on_isolated(
    root: Root, processes: Sequence[tuple[int, str]], isolated: frozenset[int]
) -> list[host_model.ProgramThread]:
    """Return threads that are bound to one isolated CPU, and note whose they are.

    Any user may start such processes: however many there are, they make one note of each kind.
    """
    found: list[host_model.ProgramThread] = []
    crowded: list[str] = []
    left_of_crowded = 0
    for pid, name in processes:
        tasks = Directory(f"proc/{pid}/task")
        affinities, names = _threads(root, tasks)
        bound: list[host_model.ProgramThread] = []
        for tid, affinity in affinities.items():
            if affinity.isdecimal() and int(affinity) in isolated:
                own = names.get(tid) or root.text(Directory(f"{tasks}/{tid}"), "comm") or ""
                bound.append(host_model.ProgramThread(name, pid, tid, own, affinity, False))
        if bound:
            root.notes.add(NoteCode.BOUND_TO_ISOLATED, f"{name} ({pid})")
            found += bound[:MAX_BOUND_THREADS]
        if len(bound) > MAX_BOUND_THREADS:
            crowded.append(f"{name} ({pid})")
            left_of_crowded += len(bound) - MAX_BOUND_THREADS
    for program in crowded:
        root.notes.add(
            NoteCode.THREADS_LEFT_OUT, program, most=MAX_BOUND_THREADS, left=left_of_crowded
        )
    if len(found) > MAX_BOUND_IN_ALL:
        left = len(found) - MAX_BOUND_IN_ALL
        whose_threads = "programs bound to isolated CPUs"
        root.notes.add(NoteCode.THREADS_LEFT_OUT, whose_threads, most=MAX_BOUND_IN_ALL, left=left)
    return found[:MAX_BOUND_IN_ALL]


def _threads(root: Root, tasks: Directory) -> tuple[dict[int, str], dict[int, str]]:
    """Return the affinities of a process's threads by id, and of a recorded one their names."""
    affinities: dict[int, str] = {}
    names: dict[int, str] = {}
    if root.live:
        for tid in numbers(root.names(tasks), 1, domain.MAX_PID):
            affinity = guests.may_use(tid)
            if affinity:
                affinities[tid] = affinity
        return affinities, names
    for tid, comm, _start, affinity in guests.recorded(root, tasks, 0):
        if affinity:
            affinities[tid] = affinity
        name = comm.decode("ascii", "replace")[:15]
        if name.isprintable():
            names[tid] = name
    return affinities, names
