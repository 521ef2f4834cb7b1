# SPDX-License-Identifier: Apache-2.0
"""Interrupts out of /proc/irq/N (Documentation/core-api/irq/irq-affinity.rst), who owns them, and
network devices.

/proc/interrupts of a live host is not read: on a large host the kernel must format millions of counters
for it and takes every interrupt's lock while it does. (The audit reads it where the kernel does not say
which CPU serves a NIC, and where few CPUs serve all devices.) Of a recorded host without /proc/irq it says
which interrupts there are, and whose. One listing of a network device's directory
(Documentation/ABI/testing/sysfs-class-net*) shows its kind and memberships; only what is there is
then read.
"""

import dataclasses
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts.root import Directory, Place, Root, decimal, numbers
from nova_perf_tuning.host.input.sosreport.interrupts import Line, described
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode

#: Domain (16 or 32 bits), bus, device, function.
_ADDRESS: Final = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_BUS: Final = "sys/bus/pci/devices"
_MAX_IRQ: Final = 1 << 24  # far above any nr_irqs; a bound for hostile names

_DIRECTORY: Final = "proc/irq"
_LINES_LIMIT: Final = 32 << 20
#: What the kernel itself puts into an interrupt's directory; anything else is the name of a
#: handler.
FILES: Final = frozenset(
    "smp_affinity smp_affinity_list effective_affinity effective_affinity_list affinity_hint node spurious".split()
)
#: The kernel has each as a mask, too, which a recorded host may have alone.
_AFFINITIES: Final = ("smp_affinity_list", "effective_affinity_list")

_CLASS: Final = "sys/class/net"
_VIRTUAL: Final = "sys/devices/virtual/net"
_HARDWARE: Final = frozenset(("physical", "vf"))
_MAX_QUEUES: Final = 4096
#: dev_valid_name() of the kernel, less what a shell or a command's options would make something
#: else of.
_NAME: Final = re.compile(rf"(?!bonding_masters){host_model.DEVICE}", re.ASCII)
#: Names of guests' taps by Neutron and by libvirt.
_TAP: Final = re.compile(r"tap[0-9a-f]{8}(-[0-9a-f]{2})?|vnet[0-9]+")
#: ``phys_port_name`` of a VF's or subfunction's representor; an uplink is just ``p0``.
_REPRESENTOR: Final = re.compile(r"(c\d+)?pf\d+((vf|sf)\d+)?")
_MLX5_QUEUE: Final = re.compile(r"mlx5_comp\d+")
#: SPEED_UNKNOWN is -1, which some kernels print unsigned.
_SPEED_UNKNOWN: Final = 0xFFFFFFFF


@dataclasses.dataclass(slots=True)
class PciDevice:
    """A PCI device with interrupts.

    :ivar node: its NUMA node, None when the firmware gives none.
    :ivar irqs: MSI and MSI-X vectors that the kernel has allocated, ascending; else the legacy
        line.
    """

    address: str
    node: int | None
    irqs: tuple[int, ...]


def _node_of(root: Root, directory: Directory | None, file: str = "numa_node") -> int | None:
    """Return the node that ``file`` of a device's or interrupt's directory names.

    The kernel's -1 is None.
    """
    node = root.number(directory, file)
    if node is None or node < 0:
        return None
    return node


def read_lines(root: Root) -> list[Line]:
    """Return the interrupts of /proc/interrupts, of a recorded host without a directory of any in /proc/irq."""
    if root.live or numbers(root.directories(root.directory(_DIRECTORY)), 0, _MAX_IRQ):
        return []
    data = root.read(root.directory("proc"), "interrupts", _LINES_LIMIT)
    lines = described(iter((data or b"").decode("utf-8", "replace").splitlines()))
    if lines:
        root.notes.add(NoteCode.IRQS_WITHOUT_MASKS, directory=_DIRECTORY)
    return lines


def read_devices(root: Root, lines: Iterable[Line] = ()) -> dict[str, PciDevice]:
    """Return every PCI device that owns message-signalled interrupts, by address.

    These are the ones whose affinity can be set one by one; a legacy line may be shared by several
    devices.

    :param lines: what :func:`read_lines` has read; it says so of devices whose vectors are not recorded.
    """
    devices: dict[str, PciDevice] = {}
    bus = root.directory(_BUS)
    for address in sorted(root.names(bus)):
        if _ADDRESS.fullmatch(address):
            directory = root.child(bus, address)
            irqs = numbers(root.names(root.child(directory, "msi_irqs")), 0, _MAX_IRQ)
            if irqs:
                devices[address] = PciDevice(address, _node_of(root, directory), tuple(irqs))
    vectors: dict[str, list[int]] = {}
    for line in lines:
        if line.device is not None and line.device not in devices:
            vectors.setdefault(line.device, []).append(line.number)
    for address, irqs in vectors.items():
        node = _node_of(root, root.child(bus, address))
        devices[address] = PciDevice(address, node, tuple(sorted(irqs)))
    return devices


def read_nodes(root: Root, addresses: Iterable[str]) -> dict[str, int]:
    """Return address -> NUMA node of the PCI devices of these addresses whose node is known."""
    nodes: dict[str, int] = {}
    bus = root.directory(_BUS)
    for address in addresses:
        node = _node_of(root, root.child(bus, address))
        if node is not None:
            nodes[address] = node
    return nodes


def read_irqs(
    root: Root, devices: Mapping[str, PciDevice], lines: Iterable[Line] = ()
) -> dict[int, host_model.Irq]:
    """Return every interrupt by its number; ``devices`` are their owners.

    The node of a device's interrupt is the device's own: the kernel allocates its descriptor
    there.

    :param lines: what :func:`read_lines` has read, in the place of directories.
    """
    owners: dict[int, PciDevice] = {}
    for device in devices.values():
        for number in device.irqs:
            owners[number] = device
    base = root.directory(_DIRECTORY)
    there = numbers(root.directories(base), 0, _MAX_IRQ)
    irqs: dict[int, host_model.Irq] = {}
    for line in lines:
        name = ",".join(sorted(line.handlers)) or None
        irqs[line.number] = _owned(
            owners, host_model.Irq(line.number, name, None, None, None, None)
        )
    if not there and not irqs:
        root.notes.add(NoteCode.NO_INTERRUPTS, directory=_DIRECTORY)
    places = root.opened_each(base, [str(number) for number in there])
    for number, place in zip(there, places, strict=True):
        directory = Directory(f"{base}/{number}")
        files = place.names()
        affinity, effective = place.each(_AFFINITIES)
        allowed = _affinity(root, directory, affinity, _AFFINITIES[0], files)
        if affinity is None and allowed is None:
            root.notes.add(NoteCode.IRQ_AFFINITY_UNKNOWN, directory)
        serving = _affinity(root, directory, effective, _AFFINITIES[1], files)
        irq = host_model.Irq(number, _handlers(files), None, allowed, serving, None)
        irqs[number] = _owned(owners, irq)
        if irq.node is None:
            irq.node = _node_of(root, directory, "node")
    return irqs


def _owned(owners: Mapping[int, PciDevice], irq: host_model.Irq) -> host_model.Irq:
    """Return an interrupt with its device and node, where it is one of these devices'."""
    owner = owners.get(irq.number)
    if owner is not None:
        irq.device = owner.address
        irq.node = owner.node
    return irq


def _affinity(
    root: Root, directory: Directory, data: bytes | None, name: str, files: Collection[str]
) -> str | None:
    """Return the CPUs of an interrupt, out of the mask where the file ``name`` has no list."""
    if data is not None:
        return root.cpu_list(data, directory)
    mask_name = name.removesuffix("_list")
    if mask_name not in files:
        return None
    mask = root.cpu_mask(root.read(directory, mask_name), directory, mask_name)
    if mask is None:
        return None
    return cpulist.format(cpulist.parse_mask(mask))


def _handlers(names: Iterable[str]) -> str | None:
    """Return the names of an interrupt's handlers, of all in its directory; None where it has none."""
    handlers: list[str] = []
    for name in sorted(frozenset(names).difference(FILES)):
        if name.isprintable():
            handlers.append(name)
    return ",".join(handlers) or None


def read_nics(root: Root, devices: Mapping[str, PciDevice]) -> tuple[host_model.Nic, ...]:
    """Return the network devices in the order of their names, numbers in names by value.

    RPS masks are read of every device: any of them can send packets to a guest's CPU. XPS masks
    are read for hardware and are None for the queues of all other devices. Of guests' taps, of
    which a host can have thousands, the operational state is not read either.
    """
    classes = root.directory(_CLASS)
    virtual = root.directory(_VIRTUAL)
    without_device = frozenset(root.directories(virtual))
    names = _names(root, classes)
    taps = [name for name in names if name in without_device and _TAP.fullmatch(name)]
    found = _read_taps(root, virtual, taps)
    for name in frozenset(names).difference(taps):
        if name in without_device:
            directory: Directory | None = Directory(f"{virtual}/{name}")
        else:
            directory = root.canonical(classes, name)
        if directory is not None:
            found.append(_read_nic(root, name, directory, devices))
    if not found:
        root.notes.add(NoteCode.NO_NICS, directory=_CLASS)
    kinds = {nic.name: nic.kind for nic, _master in found}
    nics: list[host_model.Nic] = []
    for nic, master in found:
        kind = kinds.get(master or "")
        if kind == "bond":
            nic.bond = master
        elif kind == "bridge" or master == "ovs-system":  # of all ports of kernel Open vSwitch
            nic.bridge = master
        nics.append(nic)
    return tuple(sorted(nics, key=lambda nic: _natural(nic.name)))


def find_interrupts(
    root: Root,
    nics: Sequence[host_model.Nic],
    irqs: Mapping[int, host_model.Irq],
    *,
    by_name: bool = False,
) -> None:
    """Give NICs the interrupts that their own PCI function does not have.

    These are the ones of their NAPIs, those of the other functions of an mlx5 NIC that spans
    several (multi-PF, Socket Direct), and without PCI those that bear the name of the NIC or of
    its device.

    :param by_name: the vectors of PCI devices may lack in this record: names tell of any NIC.
    """
    functions: dict[str, list[int]] = {}
    for irq in irqs.values():
        if irq.device is not None and _MLX5_QUEUE.match(irq.name or ""):
            functions.setdefault(irq.device, []).append(irq.number)
    spare = dict(functions)
    for nic in nics:
        if nic.pci is not None:
            spare.pop(nic.pci, None)
    classes = root.directory(_CLASS)
    for nic in nics:
        more: set[int] = set()
        for napi in nic.napis:
            if napi.irq is not None and napi.irq in irqs:
                more.add(napi.irq)
        if not more and nic.pci in functions:
            more.update(_of_other_functions(nic, len(functions[nic.pci]), spare))
        elif nic.kind in _HARDWARE and (nic.pci is None or (by_name and not nic.irqs)):
            device = root.link(root.child(classes, nic.name), "device") or nic.name
            more.update(_of_name(irqs, nic.name, device, nic.pci if by_name else None))
        more.discard(0)
        nic.irqs = tuple(sorted(more.union(nic.irqs)))


def _of_name(
    irqs: Mapping[int, host_model.Irq], nic: str, device: str, address: str | None
) -> list[int]:
    """Return the interrupts without PCI that bear the name of a NIC or of its device.

    :param address: of a NIC whose vectors are not recorded: names may have its driver before it.
    """
    driver, ending = "(ibmvnic-)?", "([-:@].*)?"
    pattern = f"{driver}({re.escape(nic)}|{re.escape(device)}){ending}"
    if address is not None:
        pattern = (
            rf"(\w+-)?({re.escape(nic)}|{re.escape(device)}){ending}|.*@pci:{re.escape(address)}"
        )
    own = re.compile(pattern)
    found: list[int] = []
    for irq in irqs.values():
        if irq.device is None and own.fullmatch(irq.name or ""):
            found.append(irq.number)
    return found


def _of_other_functions(
    nic: host_model.Nic, own: int, spare: Mapping[str, Sequence[int]]
) -> list[int]:
    """Return the queue vectors of functions that make up just the channels that a NIC lacks.

    mlx5 deals channels round robin to functions of the same digit, which have no netdev; where
    that fits in two ways it is not known.

    :param own: how many queue vectors the NIC's own function has. :param spare: vectors by
        function.
    """
    found: list[int] = []
    shares = [own]
    for address, vectors in sorted(spare.items()):
        if address[-1] == (nic.pci or "")[-1]:
            found += vectors
            shares.append(len(vectors))
    functions = len(shares)
    dealt = [(nic.rx_queues + functions - 1 - index) // functions for index in range(functions)]
    if shares != dealt:
        return []
    return found


def _read_taps(
    root: Root, virtual: Directory | None, names: list[str]
) -> list[tuple[host_model.Nic, str | None]]:
    """Return guests' taps and the names of their masters: what few reads show of them."""
    taps: list[tuple[host_model.Nic, str | None]] = []
    mtus = root.each(virtual, [f"{name}/mtu" for name in names])
    places = root.opened_each(virtual, [f"{name}/queues" for name in names])
    for name, data, place in zip(names, mtus, places, strict=True):
        directory = Directory(f"{virtual}/{name}")
        mtu = None
        if data is not None:
            mtu = decimal(root.line(data, directory))
        rx, tx, rps, xps = _queues(root, directory, place, False)
        nic = host_model.Nic(
            name, "tap", None, None, None, None, None, mtu, None, None, rx, tx, (), rps, xps
        )
        taps.append((nic, root.link(directory, "master")))
    return taps


def _names(root: Root, directory: Directory | None) -> list[str]:
    """Return the names of network devices that follow the kernel's rule and that a shell takes as
    they are.
    """
    names = []
    for name in root.names(directory):
        if _NAME.fullmatch(name):
            names.append(name)
        elif name != "bonding_masters":
            root.notes.add(NoteCode.NIC_NAME, ascii(name[:40]))
    return names


def _natural(name: str) -> tuple[str, int, str]:
    """Sort eth2 before eth10."""
    return name.rstrip("0123456789"), len(name), name


def _read_nic(
    root: Root, name: str, directory: Directory, devices: Mapping[str, PciDevice]
) -> tuple[host_model.Nic, str | None]:
    """Return the device and the name of its master, if any."""
    there = frozenset(root.names(directory))
    device = None
    if "device" in there:
        device = root.canonical(directory, "device")
    address, pci_directory = _pci_function(root, device)
    kind = _kind(root, name, directory, there, device, pci_directory)
    with root.opened(Directory(f"{directory}/queues")) as place:
        rx, tx, rps, xps = _queues(root, directory, place, kind in _HARDWARE)
    node, irqs = _node_and_irqs(root, address, pci_directory or device, devices)
    driver, mtu = root.link(device, "driver"), root.number(directory, "mtu")
    speed = None
    if kind in _HARDWARE or kind == "bond":
        speed = root.number(directory, "speed")
        if speed is not None and not 0 < speed < _SPEED_UNKNOWN:
            speed = None
    state = root.text(directory, "operstate")
    nic = host_model.Nic(
        name, kind, driver, address, node, None, None, mtu, speed, state, rx, tx, irqs, rps, xps
    )
    if "threaded" in there:
        threaded = root.one_of(directory, "threaded", ("0", "1", "2"))
        if threaded is not None:
            nic.threaded = threaded != "0"
    master = None
    if "master" in there:
        master = root.link(directory, "master")
    return nic, master


def _node_and_irqs(
    root: Root, address: str | None, directory: Directory | None, devices: Mapping[str, PciDevice]
) -> tuple[int | None, tuple[int, ...]]:
    """Return node and interrupts of a NIC's PCI function, or the node of another device.

    :param directory: of the function or device.
    """
    known = devices.get(address or "")
    if known is not None:
        return known.node, known.irqs
    irqs: tuple[int, ...] = ()
    if address is not None:
        line = root.number(directory, "irq")  # of a device without MSI
        if line and 0 < line <= _MAX_IRQ:
            irqs = (line,)
    return _node_of(root, directory), irqs


def _pci_function(root: Root, device: Directory | None) -> tuple[str | None, Directory | None]:
    """Return address and directory of the PCI function behind a device, virtio and auxiliary ones
    included.
    """
    if device is None:
        return None, None
    parts = device.split("/")
    for length in range(len(parts), 0, -1):
        if _ADDRESS.fullmatch(parts[length - 1]):
            return parts[length - 1], root.directory("/".join(parts[:length]))
    return None, None


def _kind(
    root: Root,
    name: str,
    directory: Directory,
    there: frozenset[str],
    device: Directory | None,
    pci_directory: Directory | None,
) -> str:
    if device is not None:
        if pci_directory is not None and "physfn" in root.names(pci_directory):
            return "vf"
        if "phys_port_name" in there and _REPRESENTOR.fullmatch(
            root.text(directory, "phys_port_name") or ""
        ):
            return "other"
        return "physical"
    for file, kind in (("tun_flags", "tap"), ("bridge", "bridge"), ("bonding", "bond")):
        if file in there:
            return kind
    if name == "lo":
        return "loopback"
    if (
        "DEVTYPE=vlan"
        in (root.read(directory, "uevent") or b"").decode("ascii", "replace").split()
    ):
        return "vlan"
    # The other end of a veth pair is its iflink; a device on top of another one also has a lower_*
    # link to it.
    if not any(file.startswith("lower_") for file in there):
        peer = root.number(directory, "iflink")
        if (
            peer
            and root.number(directory, "type") == 1
            and peer != root.number(directory, "ifindex")
        ):
            return "veth"
    return "other"


def _queues(
    root: Root, device: Directory, place: Place, with_xps: bool
) -> tuple[int, int, tuple[str | None, ...], tuple[str | None, ...]]:
    """Return receive and transmit queues: their numbers, ``rps_cpus`` and ``xps_cpus`` in their
    order.

    :param place: the directory ``queues`` of a device.
    """
    names = place.directories()
    # The kernel numbers the queues of each direction from 0 without holes.
    rx = tx = 0
    for name in names:
        if name.startswith("rx-"):
            rx += 1
        elif name.startswith("tx-"):
            tx += 1
    rx, tx = min(rx, _MAX_QUEUES), min(tx, _MAX_QUEUES)
    rps = _masks(root, device, place, "rx", rx, "rps_cpus")
    if not with_xps:
        return rx, tx, rps, (None,) * tx
    return rx, tx, rps, _masks(root, device, place, "tx", tx, "xps_cpus")


def _masks(
    root: Root, device: Directory, place: Place, direction: str, number: int, file: str
) -> tuple[str | None, ...]:
    """Return the masks of the queues of one direction, in their order."""
    masks: list[str | None] = []
    for data in place.each([f"{direction}-{index}/{file}" for index in range(number)]):
        masks.append(root.cpu_mask(data, device, "queues", file))
    return tuple(masks)
