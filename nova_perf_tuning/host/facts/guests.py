# SPDX-License-Identifier: Apache-2.0
"""Guests: QEMU processes that libvirt runs, their threads by class, and their domain XML.

Processes are found by libvirt's own status files, since QEMU can write its pid file. Domain XML is the running one
of /run/libvirt/qemu where it can be read (it has the pins in force and the names of the taps), else the definition
in /etc/libvirt, or in the volume that containers of kolla-ansible have there.
"""

import collections
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.grouping import grouped
from nova_perf_tuning.guest import domain, parsing
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts.root import Directory, Root, numbers
from nova_perf_tuning.host.notes import NoteCode

RUNNING: Final = "run/libvirt/qemu"
#: Parent of all threads of the kernel.
KTHREADD: Final = 2
_DEFINED: Final = "etc/libvirt/qemu"
#: ``nova_libvirt_qemu`` of kolla-ansible's role nova-cell, with Docker and with Podman; /run is the host's own.
_VOLUMES: Final = tuple(
    f"var/lib/{engine}/volumes/nova_libvirt_qemu/_data" for engine in ("docker", "containers/storage")
)
#: Where a guest's XML is looked for: as it runs, then as it is defined.
XML_DIRECTORIES: Final = (RUNNING, _DEFINED, *_VOLUMES)
_VCPU: Final = re.compile(rb"CPU (\d{1,4})/")
_VHOST: Final = re.compile(rb"vhost-(\d{1,10})")
_IOTHREAD: Final = re.compile(rb"IO iothread(\d{1,4})")
_NUMBER: Final = re.compile(rb"\d{1,18}").fullmatch
_ALLOWED: Final = b"\nCpus_allowed_list:\t"
_NAME: Final = b"Name:\t"
_NAME_AT: Final = len(_NAME)


def read_guests(root: Root) -> tuple[tuple[model.GuestProcess, ...], tuple[domain.Domain, ...]]:
    """Return the running guests by name, and all domains that libvirt knows here, running or not, by name."""
    directory = root.directory(RUNNING)
    domains = _read_domains(root, directory, {})
    pids = {name: running.pid for name, running in domains.items() if running.pid is not None}
    if not root.live:  # recorded hosts of earlier versions have no <domstatus>, but QEMU's pid files
        files = [name for name in root.names(directory) if name.endswith(".pid") and name.isprintable()]
        beside = {file[:-4]: root.number(directory, file) for file in files if file[:-4] not in pids}
        pids |= {name: pid for name, pid in beside.items() if pid is not None and 0 < pid <= domain.MAX_PID}
    # Others than root may not look into a volume, which is worth a warning only where there can be one.
    for place in (_DEFINED, *(_VOLUMES if root.has(root.directory("etc"), "kolla") else ())):
        domains |= _read_domains(root, root.directory(place), domains)
    owners = collections.Counter(pids.values())
    for name in [name for name, pid in pids.items() if owners[pid] > 1]:
        root.notes.add(NoteCode.PROCESS_SHARED, name)
        del pids[name]
    threads = _read_processes(root, dict(sorted(pids.items())))
    for name in threads:
        if name not in domains:
            root.notes.add(NoteCode.DOMAIN_UNKNOWN, name)
    lacking = {pids[name] for name, own in threads.items() if _lacks_workers(domains.get(name), own)}
    workers = _kernel_workers(root, lacking) if lacking else {}
    guests = (
        model.GuestProcess(name, pids[name], own + workers.get(pids[name], ()), domains.get(name))
        for name, own in threads.items()
    )
    return tuple(guests), tuple(domains[name] for name in sorted(domains))


def _read_domains(root: Root, directory: Directory | None, known: Container[str]) -> dict[str, domain.Domain]:
    """Return the domains in ``*.xml`` of a directory but those ``known``; what cannot be used is noted."""
    names = (name for name in root.names(directory) if name.endswith(".xml") and name.isprintable())
    files = [name for name in names if name[:-4] not in known]
    domains = {}
    for file, data in zip(files, root.each(directory, files, parsing.MAX_BYTES), strict=True):
        if data is not None:
            try:
                domains[file[:-4]] = parsing.parse_domain(data)
            except parsing.DomainError as error:
                root.notes.add(NoteCode.DOMAIN_UNUSABLE, f"{directory}/{file}", reason=str(error))
    return domains


def _read_processes(root: Root, pids: Mapping[str, int]) -> dict[str, tuple[model.Thread, ...]]:
    """Return the threads of each guest whose process runs and is QEMU."""
    base = root.directory("proc")
    there = frozenset(root.directories(base))
    alive = {name: pid for name, pid in pids.items() if str(pid) in there}
    # Nobody can act on a recorded thread, so its process's start time, one file for all, does.
    stats = root.each(base, [f"{pid}/stat" for pid in ([] if root.live else alive.values())])
    known = zip(alive, (parse_stat(root, stat, base) for stat in stats), strict=False)
    started = {name: stat[2] for name, stat in known if stat is not None}
    processes = {}
    for name, pid in pids.items():
        tasks = Directory(f"{base}/{pid}/task") if name in alive else None
        threads = _threads(_live(root, tasks) if root.live else recorded(root, tasks, started.get(name, 0)), pid)
        if not threads:
            root.notes.add(NoteCode.PROCESS_GONE, name)
        elif not any(thread.kind == "vcpu" for thread in threads):
            root.notes.add(NoteCode.PROCESS_NOT_QEMU, name)
        else:
            processes[name] = threads
    return processes


_Task = tuple[int, bytes, int, str | None]  # id, name, start time, affinity


def _files(root: Root, tasks: Directory | None, file: str) -> list[tuple[int, bytes | None]]:
    tids = numbers(root.directories(tasks), 1, domain.MAX_PID)
    return list(zip(tids, root.each(tasks, [f"{tid}/{file}" for tid in tids]), strict=True))


def _live(root: Root, tasks: Directory | None) -> list[_Task]:
    """Read one file a thread, ``stat``; the affinity comes by system call, a fiftieth of reading ``status``."""
    stats = ((tid, parse_stat(root, data, tasks)) for tid, data in _files(root, tasks, "stat"))
    return [(tid, stat[0], stat[2], may_use(tid)) for tid, stat in stats if stat is not None]


def recorded(root: Root, tasks: Directory | None, start: int) -> list[_Task]:
    """Return the threads of a recorded process, all with its ``start``."""
    known: list[_Task] = []
    for tid, data in _files(root, tasks, "status"):
        if data is None or not data.startswith(_NAME):
            root.notes.add(NoteCode.THREAD_UNKNOWN, tasks or "")
        else:
            known.append((tid, data[_NAME_AT : data.find(b"\n")], start, _allowed(root, data, tasks)))
    return known


def _threads(tasks: Sequence[_Task], pid: int) -> tuple[model.Thread, ...]:
    """Return the threads of QEMU's process ``pid`` in the order of their ids."""
    # As they were made, which is the order of the queue pairs: ids may have begun again at low ones in between.
    made = sorted((start, tid) for tid, comm, start, _ in tasks if _VHOST.fullmatch(comm))
    order = {tid: index for index, (_, tid) in enumerate(made)}
    threads = []
    for tid, comm, start, affinity in tasks:
        if tid in order:
            threads.append(model.Thread(tid, "vhost", order[tid], affinity, start))
            continue
        kind, index = ("emulator", None) if tid == pid else _classify(comm)
        if kind is not None:
            threads.append(model.Thread(tid, kind, index, affinity, start))
    return tuple(threads)


def parse_stat(root: Root, data: bytes | None, place: Directory | None) -> tuple[bytes, int, int] | None:
    """Return name, parent and start time (field 22, clock ticks after boot) out of a task's ``stat``.

    The name may hold spaces and parentheses, so it ends at the last one.
    """
    if not data:  # it has ended
        return None
    front, _, rest = data.rpartition(b") ")
    begin = front.find(b"(")
    fields = rest.split(b" ", 20)
    if begin < 0 or len(fields) < 20 or not all(map(_NUMBER, (fields[1], fields[19]))):
        root.notes.add(NoteCode.THREAD_ABSURD, place or "")
        return None
    return front[begin + 1 :], int(fields[1]), int(fields[19])


def may_use(tid: int) -> str | None:
    """Return the affinity of a thread of this host; None when it has ended."""
    try:
        return cpulist.format(frozenset(os.sched_getaffinity(tid)))
    except OSError:
        return None


def _allowed(root: Root, status: bytes, place: Directory | None) -> str | None:
    # From the end: it is one of the last lines, and the line before may be a mask of thousands of digits.
    start = status.rfind(_ALLOWED) + len(_ALLOWED)
    end = status.find(b"\n", start)
    if start < len(_ALLOWED) or end < 0:
        root.notes.add(NoteCode.THREAD_AFFINITY_UNKNOWN, place or "")
        return None
    return root.cpu_list(status[start:end], place or "")


def _classify(comm: bytes) -> tuple[str | None, int | None]:
    """Return class and number of a thread of QEMU by its name; class None for one that is not QEMU's own.

    Names: QEMU's ``-name debug-threads=on``, which libvirt always gives.
    """
    if comm.startswith(b"CPU "):
        match = _VCPU.match(comm)
        if match:
            return "vcpu", int(match[1])
    elif comm.startswith(b"ALL CPUs/"):  # TCG with thread=single
        return "vcpu", None
    elif comm.startswith(b"IO iothread"):
        match = _IOTHREAD.match(comm)
        return "iothread", int(match[1]) if match else None
    elif comm == b"worker":
        return "worker", None
    elif comm.startswith(b"kvm-"):  # KVM's own helpers in QEMU's process (kvm-nx-lpage-recovery, since 6.4)
        return None, None
    return "emulator", None


def kernel_threads(
    root: Root, pattern: re.Pattern[bytes], tids: Sequence[int] | None = None
) -> Iterator[tuple[re.Match[bytes], _Task]]:
    """Yield the children of kthreadd whose names match; anybody else may take such a name.

    :param tids: where to look; None: at every process.
    """
    base = root.directory("proc")
    tids = numbers(root.directories(base), 1, domain.MAX_PID) if tids is None else tids
    for tid, data in zip(tids, root.each(base, [f"{tid}/stat" for tid in tids]), strict=True):
        name, parent, start = parse_stat(root, data, base) or (b"", 0, 0)
        match = pattern.fullmatch(name)
        if match and parent == KTHREADD:
            place = root.child(base, str(tid))
            affinity = may_use(tid) if root.live else _allowed(root, root.read(place, "status") or b"", place)
            yield match, (tid, name, start, affinity)


def _kernel_workers(root: Root, pids: Container[int]) -> dict[int, tuple[model.Thread, ...]]:
    """Return vhost workers that are kernel threads (to Linux 6.3, later by fork_from_owner), by QEMU's process.

    They are named vhost-<QEMU's pid> and can only be found by looking at every process, so this is done once, and
    only when a guest that should have workers shows none in its own process.
    """
    tasks = grouped((int(match[1]), task) for match, task in kernel_threads(root, _VHOST) if int(match[1]) in pids)
    workers = {}
    for pid, own in tasks.items():
        own.sort(key=lambda task: (task[2], task[0]))  # as they were made
        workers[pid] = tuple(
            model.Thread(tid, "vhost", index, affinity, start, True)
            for index, (tid, _, start, affinity) in enumerate(own)
        )
    return workers


def _lacks_workers(known: domain.Domain | None, threads: Iterable[model.Thread]) -> bool:
    if any(thread.kind == "vhost" for thread in threads):
        return False
    return known is None or any(interface.has_vhost_worker for interface in known.interfaces)
