# SPDX-License-Identifier: Apache-2.0
"""CPUs, cores, packages and NUMA nodes out of /sys/devices/system
(Documentation/admin-guide/cputopology.rst).

Cores are read by their leaders: one CPU's sibling list gives the core of all of its hardware
threads. Cores and packages are sets of CPUs; ``core_id`` and ``physical_package_id`` are labels
(s390 repeats core ids and gives no package id at all), and a node's CPUs come from the node, not
from the CPU's directory.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts import irq_counts
from nova_perf_tuning.host.input.facts.root import Directory, Root, decimal, numbers
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode

CPUS: Final = "sys/devices/system/cpu"
_NODES: Final = "sys/devices/system/node"
_MEMORY: Final = re.compile(rb"MemTotal:\s*(\d{1,18})(?!\S)")
#: IBM POWER has 8 threads a core; a longer list is no core.
_MAX_THREADS: Final = 256
#: MAX_NUMNODES is 1024 at most (CONFIG_NODES_SHIFT).
_MAX_NODE: Final = 1023
#: The first line of /proc/interrupts has 11 characters for each CPU.
_HEAD_LIMIT: Final = 128 << 10
_MAX_DISTANCE: Final = 255  # a byte in the ACPI SLIT
#: Newest name first: Linux 5.3 (core_cpus_list), 2.6.29 (thread_siblings_list), before (a mask
#: only).
_CORE_SETS: Final = ("core_cpus_list", "thread_siblings_list", "thread_siblings")
_CORE_FILES: Final = (_CORE_SETS[0], "core_id", "physical_package_id")
_PACKAGE_SETS: Final = ("package_cpus_list", "core_siblings_list")
_NODE_SETS: Final = ("cpulist", "cpumap")
_CACHE_SETS: Final = ("shared_cpu_map", "shared_cpu_list")
#: AMD family 15h (2011 to 2016): two cores share fetch, decode and FPU. Linux calls them threads
#: of one core, with
#: core ids of their own.
_AMD_15H: Final = re.compile(rb"AuthenticAMD\ncpu family\s*: 21\n")
_MASKS: Final = frozenset(("thread_siblings", "cpumap", "shared_cpu_map"))


def read_topology(
    root: Root, cpuinfo: bytes
) -> tuple[tuple[host_model.Cpu, ...], tuple[host_model.Node, ...], str]:
    """Return CPUs, nodes and the cpulist of the CPUs that are online; ``cpuinfo`` is how
    /proc/cpuinfo begins.
    """
    base = root.directory(CPUS)
    directories = _places_of_cpus(root, base)
    if not directories:
        root.notes.add(NoteCode.NO_CPUS, directory=CPUS)
    online = _online(root, base, directories)
    nodes, node_of = _read_nodes(root, directories, online)
    cpus = _read_cpus(root, base, directories, online, node_of, bool(_AMD_15H.search(cpuinfo)))
    return cpus, nodes, cpulist.format(online)


def _places_of_cpus(root: Root, base: Directory | None) -> dict[int, Directory]:
    """Return the directories of the CPUs by their number, ascending.

    A record may lack directories of CPUs that run: sos copies those of 64 CPUs at most, and
    people hand over single files. The other CPUs are those that are online, and where no CPU has
    a directory those that are present, else those of the head of /proc/interrupts. On a live host
    each CPU has its directory, and ``present`` names CPUs that are yet to be added.
    """
    directories = _numbered(root, base, "cpu", cpulist.MAX_CPU)
    if root.live:
        return directories
    named = cpulist.find(root.text(base, "online")) or frozenset()
    if not directories:
        named |= cpulist.find(root.text(base, "present")) or frozenset()
    if not directories and not named:
        named = irq_counts.columns(root.head(root.directory("proc"), "interrupts", _HEAD_LIMIT))
    for cpu in named:
        directories.setdefault(cpu, Directory(f"{CPUS}/cpu{cpu}"))
    return {cpu: directories[cpu] for cpu in sorted(directories)}


def _numbered(root: Root, base: Directory | None, prefix: str, limit: int) -> dict[int, Directory]:
    """Return the directories ``prefixN`` in ``base`` by their number, ascending."""
    found: dict[int, Directory] = {}
    for number in numbers(root.directories(base), 0, limit, prefix):
        found[number] = Directory(f"{base}/{prefix}{number}")
    return found


def _online(
    root: Root, base: Directory | None, directories: Mapping[int, Directory]
) -> frozenset[int]:
    """CPUs that run: the kernel's list, on kernels before 2.6.26 each CPU's own file (CPU 0 has
    none).
    """
    online = _members(root, base, ("online",), directories)
    if online:
        return frozenset(online)
    if online is None and root.text(base, "online") is not None:
        root.notes.add(NoteCode.NO_ONLINE_LIST, file=f"{CPUS}/online")
    return frozenset(
        cpu for cpu, directory in directories.items() if root.text(directory, "online") != "0"
    )


def _members(
    root: Root, directory: Directory | None, names: Iterable[str], cpus: Collection[int]
) -> set[int] | None:
    """Return those of ``cpus`` that are in the first of the files ``names`` that there is, else
    None.
    """
    for name in names:
        if name in _MASKS:
            mask = root.cpu_mask(root.read(directory, name), directory or "", name)
            if mask:
                return set(cpulist.parse_mask(mask).intersection(cpus))
        else:
            members = cpulist.find(root.text(directory, name))
            if members is not None:
                return set(members.intersection(cpus))
    return None


def _read_cpus(
    root: Root,
    base: Directory | None,
    directories: Mapping[int, Directory],
    online: frozenset[int],
    node_of: Mapping[int, int],
    modules: bool,
) -> tuple[host_model.Cpu, ...]:
    """Return all CPUs by number; cores never overlap, whatever the kernel's lists say.

    :param modules: the kernel's lists of threads name modules of two cores.
    """
    cores = _read_cores(root, base, directories, online, modules)
    capacities = _read_capacities(root, base, directories, list(cores))
    caches = _read_caches(root, directories, cores, online)
    inner = _read_l2(root, base, directories, cores, online)
    kinds = _read_kinds(root)
    places = _read_places(root, base, directories, cores)
    cpus: dict[int, host_model.Cpu] = {}
    for core, rating, place in zip(cores.values(), capacities, places, strict=True):
        capacity = _natural(root, rating)
        text = cpulist.format(core.threads)
        for thread in core.threads:
            cpus[thread] = host_model.Cpu(
                thread,
                core.id,
                place.package,
                node_of.get(thread),
                True,
                text,
                capacity,
                caches.get(thread),
                kinds.get(thread),
                inner.get(thread),
                place.book,
                place.drawer,
                core.known,
            )
    for cpu, directory in directories.items():
        if cpu not in cpus:
            node = node_of.get(cpu)
            if node is None:
                # While it is offline the kernel keeps its link to the node, but the node's list
                # forgets it.
                links = numbers(root.names(directory), 0, _MAX_NODE, "node")
                node = links[0] if links else None
            cpus[cpu] = host_model.Cpu(cpu, None, None, node, False, str(cpu))
    return tuple([cpus[cpu] for cpu in sorted(cpus)])


def _read_capacities(
    root: Root,
    base: Directory | None,
    directories: Mapping[int, Directory],
    leaders: Sequence[int],
) -> list[bytes | None]:
    """Return the ``cpu_capacity`` of cores by their leaders; None each where all cores are alike."""
    unknown: list[bytes | None] = [None] * len(leaders)
    if not leaders or "cpu_capacity" not in root.names(directories[leaders[0]]):
        return unknown
    capacities = root.each(base, [f"cpu{leader}/cpu_capacity" for leader in leaders])
    if len(set(capacities)) < 2:  # x86 has the file since 6.12, hybrid or not
        return unknown
    return capacities


def _read_kinds(root: Root) -> dict[int, str]:
    """Return the kinds of the CPUs of a hybrid machine; Intel's has a PMU for each, and no
    ``cpu_capacity``.
    """
    kinds: dict[int, str] = {}
    for kind in host_model.KINDS:
        cpus = root.cpus(root.directory(f"sys/devices/cpu_{kind}"), "cpus")
        kinds |= dict.fromkeys(cpulist.parse(cpus), kind)
    if len(set(kinds.values())) < 2:
        return {}
    return kinds


def _natural(root: Root, data: bytes | None) -> int | None:
    """Return a number that is not negative; the kernel writes -1 for what it does not know."""
    if data is None:
        return None
    number = decimal(root.line(data, CPUS))
    if number is None or number < 0:
        return None
    return number


class _Core(NamedTuple):
    """Hardware threads of a core, its ``core_id`` and ``physical_package_id``.

    :ivar known: whether the threads are known.
    """

    threads: set[int]
    id: int | None
    package: int | None
    known: bool


def _read_cores(
    root: Root,
    base: Directory | None,
    directories: Mapping[int, Directory],
    online: frozenset[int],
    modules: bool,
) -> dict[int, _Core]:
    """Return the cores by the first CPU of each.

    Packages whose CPUs the kernel lists without an id (s390: -1) are numbered in the order of
    their first CPUs.
    """
    cores: dict[int, _Core] = {}
    claimed: set[int] = set()
    unnamed: dict[frozenset[int], int] = {}
    with root.opened(base) as above:
        for cpu in sorted(online):
            if cpu in claimed:
                continue
            with above.opened(f"cpu{cpu}/topology") as place:
                data, core_id, package_id = place.each(_CORE_FILES)
            if data is None:
                threads = _members(
                    root, root.child(directories[cpu], "topology"), _CORE_SETS[1:], online
                )
            else:
                listed = cpulist.find(root.line(data, directories[cpu]))
                threads = None if listed is None else set(listed & online)
            known = True
            if modules:
                threads = {cpu}
            elif threads is None:
                known = False
                root.notes.add(NoteCode.CORE_UNKNOWN, f"CPU {cpu}")
                threads = {cpu}
            elif cpu not in threads or len(threads) > _MAX_THREADS:
                root.notes.add(NoteCode.CORE_ABSURD, f"CPU {cpu}")
                threads = {cpu}
            elif not threads.isdisjoint(claimed):
                root.notes.add(NoteCode.CORES_OVERLAP, f"CPU {cpu}")
                threads -= claimed
            package = _natural(root, package_id)
            if package is None:
                members = (
                    _members(root, root.child(directories[cpu], "topology"), _PACKAGE_SETS, online)
                    or ()
                )
                if cpu in members:
                    package = unnamed.setdefault(frozenset(members), len(unnamed))
                else:
                    root.notes.add(NoteCode.PACKAGE_UNKNOWN, f"CPU {cpu}")
            cores[cpu] = _Core(threads, _natural(root, core_id), package, known)
            claimed |= threads
    return cores


class _Place(NamedTuple):
    """Where a core is: its package, and on s390 the book and the drawer of that."""

    package: int | None
    book: int | None
    drawer: int | None


def _read_places(
    root: Root,
    base: Directory | None,
    directories: Mapping[int, Directory],
    cores: Mapping[int, _Core],
) -> list[_Place]:
    """Return where each core is.

    s390 numbers packages within a book, and books within a drawer (arch/s390/kernel/topology.c,
    tl_to_masks): numbers that repeat are given anew.
    """
    leaders = list(cores)
    packages = [core.package for core in cores.values()]
    names: Collection[str] = ()
    if leaders:
        names = root.names(Directory(f"{directories[leaders[0]]}/topology"))
    if "book_id" not in names:
        return [_Place(package, None, None) for package in packages]
    ids: dict[str, list[int | None]] = {}
    for name in ("book_id", "drawer_id"):
        texts = root.each(base, [f"cpu{leader}/topology/{name}" for leader in leaders])
        ids[name] = [_natural(root, text) for text in texts]
    drawers = ids["drawer_id"]
    books = _apart([(drawer,) for drawer in drawers], ids["book_id"])
    packages = _apart(list(zip(drawers, ids["book_id"], strict=True)), packages)
    return [_Place(*place) for place in zip(packages, books, drawers, strict=True)]


def _apart(
    holders: Sequence[tuple[int | None, ...]], numbers_within: Sequence[int | None]
) -> list[int | None]:
    """Return numbers; in the order of their first CPUs where two holders have one of the same number."""
    order: dict[tuple[tuple[int | None, ...], int], int] = {}
    for holder, number in zip(holders, numbers_within, strict=True):
        if number is not None:
            order.setdefault((holder, number), len(order))
    if len({number for _holder, number in order}) == len(order):
        return list(numbers_within)
    unique: list[int | None] = []
    for holder, number in zip(holders, numbers_within, strict=True):
        unique.append(None if number is None else order[holder, number])
    return unique


def _read_l2(
    root: Root,
    base: Directory | None,
    directories: Mapping[int, Directory],
    leaders: Collection[int],
    online: frozenset[int],
) -> dict[int, str]:
    """Return the cpulist of the L2 cache of each CPU that has one.

    All CPUs of a machine have the same list of caches, ordered by level: the first CPU shows which
    is of level 2.
    """
    first = min(leaders, default=0)
    caches: dict[int, str] = {}
    indexes: list[str] = []
    for name in sorted(root.directories(Directory(f"{CPUS}/cpu{first}/cache"))):
        if root.text(Directory(f"{CPUS}/cpu{first}/cache/{name}"), "level") == "2":
            indexes.append(name)
    if not indexes:
        return caches
    with root.opened(base) as above:
        for cpu in leaders:
            if cpu in caches:
                continue
            with above.opened(f"cpu{cpu}/cache") as cache, cache.opened(indexes[0]) as place:
                data = place.each(_CACHE_SETS[:1])[0]
            directory = Directory(f"{directories[cpu]}/cache/{indexes[0]}")
            caches |= _shared(root, cpu, data, directory, online, caches)
    return caches


def _read_caches(
    root: Root,
    directories: Mapping[int, Directory],
    leaders: Iterable[int],
    online: frozenset[int],
) -> dict[int, str]:
    """Return the cpulist of the L3 cache of each CPU that has one; one CPU tells it for all that
    share it.
    """
    caches: dict[int, str] = {}
    for cpu in leaders:
        if cpu in caches:
            continue
        directory = Directory(f"{directories[cpu]}/cache")
        with root.opened(directory) as cache:
            indexes = [name for name in cache.directories() if name.startswith("index")]
            levels = cache.each([f"{index}/level" for index in indexes])
            for index, level in zip(indexes, levels, strict=True):
                if level == b"3\n":
                    data = cache.each([f"{index}/{_CACHE_SETS[0]}"])[0]
                    place = Directory(f"{directory}/{index}")
                    caches |= _shared(root, cpu, data, place, online, caches)
    return caches


def _shared(
    root: Root,
    cpu: int,
    data: bytes | None,
    directory: Directory,
    online: frozenset[int],
    known: Collection[int],
) -> dict[int, str]:
    """Return the cpulist of a cache of ``cpu`` for each CPU that shares it; empty: it is not known who does.

    :param data: the mask of the CPUs that share it. :param directory: of the cache.
    :param known: CPUs whose cache is known, which share no other.
    """
    mask = root.cpu_mask(data, directory, _CACHE_SETS[0])
    if mask:
        cpus: set[int] | None = set(cpulist.parse_mask(mask).intersection(online))
    else:
        cpus = _members(root, directory, _CACHE_SETS[1:], online)
    if cpus is None:
        return {}
    # The mask is zero on some ia64 machines, whose caches are not shared.
    sharers = frozenset(cpus.difference(known)) | {cpu}
    return dict.fromkeys(sharers, cpulist.format(sharers))


def _read_nodes(
    root: Root, directories: Mapping[int, Directory], online: frozenset[int]
) -> tuple[tuple[host_model.Node, ...], dict[int, int]]:
    """Return the nodes, and the node of each CPU that has one."""
    base = root.directory(_NODES)
    places = _numbered(root, base, "node", _MAX_NODE)
    if not places:
        root.notes.add(NoteCode.NO_NUMA_DATA, directory=_NODES)
        return (), {}
    members: dict[int, set[int]] = {}
    for node, directory in places.items():
        cpus = _members(root, directory, _NODE_SETS, directories) or set()
        if cpus and cpus in members.values():
            # Each CPU has one node in Linux: two nodes of the same CPUs are a fault of the
            # firmware's tables.
            root.notes.add(NoteCode.NODE_REPEATED, f"node {node}")
        else:
            members[node] = cpus
    node_of = _node_of_cpus(root, members)
    online_nodes = cpulist.find(root.text(base, "online")) or frozenset()
    # The columns of ``distance`` stand for all nodes that are online, in ascending order.
    ids = sorted(online_nodes if online_nodes >= set(places) else places)
    nodes: list[host_model.Node] = []
    for node, cpus in members.items():
        memory = _memory(root, places[node], node)
        distances = _distances(root, places[node], ids, members)
        nodes.append(host_model.Node(node, cpulist.format(cpus & online), memory, distances))
    return tuple(nodes), node_of


def _node_of_cpus(root: Root, members: Mapping[int, set[int]]) -> dict[int, int]:
    """Return CPU -> node, of nodes that overlap the smallest; a note says so."""
    node_of: dict[int, int] = {}
    for node in sorted(members, key=lambda node: (len(members[node]), node)):
        if not node_of.keys().isdisjoint(members[node]):
            root.notes.add(NoteCode.NODES_OVERLAP, f"node {node}")
        node_of = dict.fromkeys(members[node], node) | node_of
    return node_of


def _memory(root: Root, directory: Directory, node: int) -> int | None:
    total = _MEMORY.search(root.read(directory, "meminfo") or b"")
    if total is None:
        root.notes.add(NoteCode.NODE_MEMORY_UNKNOWN, f"node {node}")
        return None
    return int(total[1])


def _distances(
    root: Root, directory: Directory, ids: list[int], nodes: Collection[int]
) -> dict[int, int]:
    """Return the distances from a node to those of ``nodes``; none where they are not known."""
    text = root.text(directory, "distance")
    if text is None:
        return {}
    words = text.split()
    if len(words) != len(ids):
        root.notes.add(NoteCode.DISTANCE_COUNT, directory)
        return {}
    distances: dict[int, int] = {}
    for node, word in zip(ids, words, strict=True):
        distance = decimal(word) or 0
        if not 0 < distance <= _MAX_DISTANCE:
            root.notes.add(NoteCode.DISTANCE_RANGE, directory)
            return {}
        if node in nodes:
            distances[node] = distance
    return distances
