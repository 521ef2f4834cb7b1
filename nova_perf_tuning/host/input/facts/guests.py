# SPDX-License-Identifier: Apache-2.0
"""Guests: QEMU processes that libvirt runs, their threads by class, and their domain XML.

Processes are found by libvirt's own status files, since QEMU can write its pid file. Domain XML is
the running one of /run/libvirt/qemu where it can be read (it has the pins in force and the names
of the taps), else the definition in /etc/libvirt, or in the volume that containers of
kolla-ansible have there.
"""

import collections
import hashlib
import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import domain, parsing
from nova_perf_tuning.host.input.facts.root import Directory, Place, Root, decimal, numbers
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode

RUNNING: Final = "run/libvirt/qemu"
#: Parent of all threads of the kernel.
KTHREADD: Final = 2
_DEFINED: Final = "etc/libvirt/qemu"
#: ``nova_libvirt_qemu`` of kolla-ansible's role nova-cell, with Docker and with Podman; /run is
#: the host's own.
_VOLUMES: Final = tuple(
    f"var/lib/{engine}/volumes/nova_libvirt_qemu/_data"
    for engine in ("docker", "containers/storage")
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


class _ParsedDomains:
    """Domains of the reading before and of this one, by the digest of their XML.

    An agent reads a host every minute, and the XML of a guest seldom changes: to parse it takes
    longer than to read it.
    """

    def __init__(self) -> None:
        self._before: dict[bytes, domain.Domain] = {}
        self._now: dict[bytes, domain.Domain] = {}

    def begin(self) -> None:
        """Forget what the reading before did not meet."""
        self._before, self._now = self._now, {}

    def parse(self, xml: bytes) -> domain.Domain:
        """Return the domain.

        :raises parsing.DomainError: see :func:`parsing.parse_domain`.
        """
        digest = hashlib.blake2b(xml, digest_size=32).digest()
        known = self._before.get(digest)
        if known is None:
            known = parsing.parse_domain(xml)
        self._now[digest] = known
        return known


_parsed: Final = _ParsedDomains()


def read_guests(
    root: Root,
) -> tuple[tuple[host_model.GuestProcess, ...], tuple[domain.Domain, ...]]:
    """Return the running guests by name, and all domains that libvirt knows here, running or not,
    by name.
    """
    _parsed.begin()
    directory = root.directory(RUNNING)
    domains = _read_domains(root, directory, {})
    pids = {name: running.pid for name, running in domains.items() if running.pid is not None}
    if not root.live:
        _add_pid_files(root, directory, pids)
    domains |= _read_domains(root, root.directory(_DEFINED), domains)
    # Others than root may not look into a volume, which is worth a warning only where there can be
    # one.
    if root.has(root.directory("etc"), "kolla"):
        for place in _VOLUMES:
            domains |= _read_domains(root, root.directory(place), domains)
    owners = collections.Counter(pids.values())
    for name, pid in list(pids.items()):
        if owners[pid] > 1:
            root.notes.add(NoteCode.PROCESS_SHARED, name)
            del pids[name]
    threads = _read_processes(root, dict(sorted(pids.items())))
    lacking: set[int] = set()
    for name, own in threads.items():
        if name not in domains:
            root.notes.add(NoteCode.DOMAIN_UNKNOWN, name)
        if _lacks_workers(domains.get(name), own):
            lacking.add(pids[name])
    workers: dict[int, tuple[host_model.Thread, ...]] = {}
    if lacking:
        workers = _kernel_workers(root, lacking)
    guests: list[host_model.GuestProcess] = []
    for name, own in threads.items():
        every = own + workers.get(pids[name], ())
        guests.append(host_model.GuestProcess(name, pids[name], every, domains.get(name)))
    return tuple(guests), tuple(domains[name] for name in sorted(domains))


def _add_pid_files(root: Root, directory: Directory | None, pids: dict[str, int]) -> None:
    """Add what QEMU's pid files say: recorded hosts of earlier versions have no ``<domstatus>``."""
    with root.opened(directory) as place:
        names: list[str] = []
        for file in place.names():
            name = file.removesuffix(".pid")
            if name != file and name not in pids and file.isprintable():
                names.append(name)
        values = place.each([f"{name}.pid" for name in names])
    for name, data in zip(names, values, strict=True):
        pid = None
        if data is not None:
            pid = decimal(root.line(data, directory or "", f"{name}.pid"))
        if pid is not None and 0 < pid <= domain.MAX_PID:
            pids[name] = pid


def _read_domains(
    root: Root, directory: Directory | None, known: Container[str]
) -> dict[str, domain.Domain]:
    """Return the domains in ``*.xml`` of a directory but those ``known``; what cannot be used is
    noted.
    """
    with root.opened(directory) as place:
        names: list[str] = []
        for file in place.names():
            name = file.removesuffix(".xml")
            if name != file and file.isprintable() and name not in known:
                names.append(name)
        files = place.each([f"{name}.xml" for name in names], parsing.MAX_BYTES)
    domains: dict[str, domain.Domain] = {}
    for name, data in zip(names, files, strict=True):
        if data is not None:
            try:
                domains[name] = _parsed.parse(data)
            except parsing.DomainError as error:
                root.notes.add(
                    NoteCode.DOMAIN_UNUSABLE, f"{directory}/{name}.xml", reason=str(error)
                )
    return domains


def _read_processes(
    root: Root, pids: Mapping[str, int]
) -> dict[str, tuple[host_model.Thread, ...]]:
    """Return the threads of each guest whose process runs and is QEMU."""
    base = root.directory("proc")
    there = frozenset(root.directories(base))
    alive = {name: pid for name, pid in pids.items() if str(pid) in there}
    started: dict[str, int] = {}
    if not root.live:
        started = _started(root, base, alive)
    processes: dict[str, tuple[host_model.Thread, ...]] = {}
    with root.opened(base) as above:
        for name, pid in pids.items():
            tasks: list[_Task] = []
            if name in alive:
                directory = Directory(f"{base}/{pid}/task")
                with above.opened(f"{pid}/task") as place:
                    if root.live:
                        tasks = _live(root, place, directory)
                    else:
                        tasks = _recorded(root, place, directory, started.get(name, 0))
            threads = _threads(tasks, pid)
            if not threads:
                root.notes.add(NoteCode.PROCESS_GONE, name)
            elif not any(thread.kind == "vcpu" for thread in threads):
                root.notes.add(NoteCode.PROCESS_NOT_QEMU, name)
            else:
                processes[name] = threads
    return processes


def _started(root: Root, base: Directory | None, pids: Mapping[str, int]) -> dict[str, int]:
    """Return the start times of processes, by guest.

    A recorded thread is never changed, so the start time of its process (one file) is enough.
    """
    started: dict[str, int] = {}
    stats = root.each(base, [f"{pid}/stat" for pid in pids.values()])
    for name, data in zip(pids, stats, strict=True):
        stat = parse_stat(root, data, base)
        if stat is not None:
            started[name] = stat[2]
    return started


_Task = tuple[int, bytes, int, str | None]  # id, name, start time, affinity


def _files(place: Place, file: str) -> list[tuple[int, bytes | None]]:
    """Return that file of each thread; ``place`` is the directory ``task`` of a process."""
    tids = numbers(place.directories(), 1, domain.MAX_PID)
    return list(zip(tids, place.each([f"{tid}/{file}" for tid in tids]), strict=True))


def _live(root: Root, place: Place, tasks: Directory) -> list[_Task]:
    """Read one file a thread, ``stat``; the affinity comes by system call, a fiftieth of reading
    ``status``.
    """
    threads: list[_Task] = []
    for tid, data in _files(place, "stat"):
        stat = parse_stat(root, data, tasks)
        if stat is not None:
            name, _parent, start = stat
            threads.append((tid, name, start, may_use(tid)))
    return threads


def recorded(root: Root, tasks: Directory, start: int) -> list[_Task]:
    """Return the threads of a recorded process, all with its ``start``."""
    with root.opened(tasks) as place:
        return _recorded(root, place, tasks, start)


def _recorded(root: Root, place: Place, tasks: Directory, start: int) -> list[_Task]:
    known: list[_Task] = []
    for tid, data in _files(place, "status"):
        if data is None or not data.startswith(_NAME):
            root.notes.add(NoteCode.THREAD_UNKNOWN, tasks)
        else:
            name = data[_NAME_AT : data.find(b"\n")]
            known.append((tid, name, start, allowed(root, data, tasks)))
    return known


def _threads(tasks: Sequence[_Task], pid: int) -> tuple[host_model.Thread, ...]:
    """Return the threads of QEMU's process ``pid`` in the order of their ids."""
    # As they were made, which is the order of the queue pairs: ids may have begun again at low
    # ones in between.
    workers: list[tuple[int, int]] = []
    for tid, comm, start, _affinity in tasks:
        if comm.startswith(b"vhost-") and _VHOST.fullmatch(comm):
            workers.append((start, tid))
    order = {tid: index for index, (_start, tid) in enumerate(sorted(workers))}
    threads: list[host_model.Thread] = []
    for tid, comm, start, affinity in tasks:
        kind: str | None
        if tid in order:
            kind, index = "vhost", order[tid]
        elif tid == pid:
            kind, index = "emulator", None
        else:
            kind, index = _classify(comm)
        if kind is not None:
            threads.append(host_model.Thread(tid, kind, index, affinity, start))
    return tuple(threads)


def parse_stat(
    root: Root, data: bytes | None, place: Directory | None
) -> tuple[bytes, int, int] | None:
    """Return name, parent and start time (field 22, clock ticks after boot) out of a task's
    ``stat``.

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


def allowed(root: Root, status: bytes, place: Directory | None) -> str | None:
    """Return the affinity in a thread's ``status``, offline CPUs included; None: it has none."""
    # From the end: it is one of the last lines, and the line before may be a mask of thousands of
    # digits.
    start = status.rfind(_ALLOWED) + len(_ALLOWED)
    end = status.find(b"\n", start)
    if start < len(_ALLOWED) or end < 0:
        root.notes.add(NoteCode.THREAD_AFFINITY_UNKNOWN, place or "")
        return None
    return root.cpu_list(status[start:end], place or "")


def _classify(comm: bytes) -> tuple[str | None, int | None]:
    """Return class and number of a thread of QEMU by its name; class None for one that is not
    QEMU's own.

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
        if match:
            return "iothread", int(match[1])
        return "iothread", None
    elif comm == b"worker":
        return "worker", None
    elif comm.startswith(
        b"kvm-"
    ):  # KVM's own helpers in QEMU's process (kvm-nx-lpage-recovery, since 6.4)
        return None, None
    return "emulator", None


def kernel_threads(
    root: Root, pattern: re.Pattern[bytes], tids: Sequence[int] | None = None
) -> Iterator[tuple[re.Match[bytes], _Task]]:
    """Yield the children of kthreadd whose names match; any other process may have such a name.

    :param tids: where to look; None: at every process.
    """
    base = root.directory("proc")
    if tids is None:
        tids = numbers(root.directories(base), 1, domain.MAX_PID)
    for tid, data in zip(tids, root.each(base, [f"{tid}/stat" for tid in tids]), strict=True):
        stat = parse_stat(root, data, base)
        if stat is None:
            continue
        name, parent, start = stat
        match = pattern.fullmatch(name)
        if match is None or parent != KTHREADD:
            continue
        place = root.child(base, str(tid))
        if root.live:
            affinity = may_use(tid)
        else:
            affinity = allowed(root, root.read(place, "status") or b"", place)
        yield match, (tid, name, start, affinity)


def _kernel_workers(root: Root, pids: Container[int]) -> dict[int, tuple[host_model.Thread, ...]]:
    """Return vhost workers that are kernel threads (to Linux 6.3, later by fork_from_owner), by
    QEMU's process.

    They are named vhost-<QEMU's pid> and can only be found by looking at every process, so this is
    done once, and only when a guest that should have workers shows none in its own process.
    """
    tasks: dict[int, list[_Task]] = {}
    for match, task in kernel_threads(root, _VHOST):
        pid = int(match[1])
        if pid in pids:
            tasks.setdefault(pid, []).append(task)
    workers: dict[int, tuple[host_model.Thread, ...]] = {}
    for pid, own in tasks.items():
        own.sort(key=lambda task: (task[2], task[0]))  # as they were made
        threads: list[host_model.Thread] = []
        for index, (tid, _name, start, affinity) in enumerate(own):
            threads.append(host_model.Thread(tid, "vhost", index, affinity, start, True))
        workers[pid] = tuple(threads)
    return workers


def _lacks_workers(known: domain.Domain | None, threads: Iterable[host_model.Thread]) -> bool:
    if any(thread.kind == "vhost" for thread in threads):
        return False
    return known is None or any(interface.has_vhost_worker for interface in known.interfaces)
