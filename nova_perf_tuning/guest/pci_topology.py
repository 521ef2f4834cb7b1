# SPDX-License-Identifier: Apache-2.0
"""Guests that see the NUMA node of their passed-through devices: an expander bus for each guest cell.

A guest takes the node of a PCI device from the root bus above it, and pcie.0 has none. So each cell
gets a ``pcie-expander-bus`` with root ports, and each device the address of a port of its cell.

libvirt gives a device without an address the first free port, by the index of the controllers. So
root ports on pcie.0 for all other devices come before the expanders, and a device that is plugged
in carries an address.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Set
from typing import Final

from lxml import etree

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import network, parsing
from nova_perf_tuning.guest.domain import LeftOut, Omission
from nova_perf_tuning.specs import vocabulary

#: Bus numbers of pcie.0, and of each expander where there are enough; each port takes one. libvirt's
#: own choice (254, 252 ...) leaves one port to an expander.
_BUS_NUMBERS: Final = 64
_ALL_BUS_NUMBERS: Final = 256
#: Slots of an expander bus: virDomainPCIAddressBusSetModel() of libvirt.
_SLOTS: Final = 32
#: Free ports of each cell, for devices that are plugged in.
_SPARE: Final = 2
#: Free ports on pcie.0: four for what libvirt adds itself (USB, virtio-serial, balloon, a bridge to
#: conventional PCI), two for devices that are plugged in.
_FLAT_SPARE: Final = 6
#: Elements of devices each of which may need a port.
_WITH_PORT: Final = frozenset(
    "interface controller filesystem sound video watchdog memballoon rng shmem vsock crypto".split()
)
_HOSTDEVS: Final = frozenset({"pci", "mdev", "scsi_host"})
_REQUEST: Final = "perf:pci_topology=numa"


@dataclasses.dataclass(slots=True)
class _Buses:
    """The PCI buses of a domain, by the indexes of their controllers.

    :ivar flat: root ports on pcie.0; :ivar ports: guest cell -> root ports on its expander bus.
    :ivar taken: buses with a device on them; :ivar highest: the last index.
    :ivar expander: the first expander bus, None where there is none.
    """

    flat: list[int] = dataclasses.field(default_factory=list)
    ports: dict[int, list[int]] = dataclasses.field(default_factory=dict)
    taken: set[int] = dataclasses.field(default_factory=set)
    highest: int = 0
    expander: int | None = None

    def free_flat(self) -> list[int]:
        """Return the free ports that libvirt takes before those of an expander."""
        free = [bus for bus in self.flat if bus not in self.taken]
        if self.expander is not None:
            free = [bus for bus in free if bus < self.expander]
        return free

    def take(self, cell: int | None) -> int:
        """Take a free port of a guest cell, None: of pcie.0.

        :raises DomainError: there is none.
        """
        where, free = "pcie.0", self.free_flat()
        if cell is not None:
            where = f"guest cell {cell}"
            free = [bus for bus in self.ports.get(cell, ()) if bus not in self.taken]
        if not free:
            raise parsing.DomainError(
                f"{_REQUEST}: no PCI port of {where} is free; a hard reboot of the guest makes new ones"
            )
        self.taken.add(free[0])
        return free[0]


def addresses(domain: etree._Element) -> list[str]:
    """Return the host addresses (``0000:82:10.0``) of the devices that are passed through to a ``<domain>``.

    :raises DomainError: one is no PCI address.
    """
    return [host_address(device) for device in _passed_through(domain)]


def host_address(device: etree._Element) -> str:
    """Return the host address of a device that is passed through; raises as :func:`addresses`."""
    address = device.find("source/address")
    if address is None:
        raise parsing.DomainError(f"<{device.tag}> of a PCI device has no source address")
    return parsing.pci_address(address.attrib)


def is_passed_through(device: etree._Element) -> bool:
    """Return whether an element is a PCI device that is passed through."""
    kinds = {"hostdev": "pci", "interface": "hostdev"}
    return bool(device.get("type") == kinds.get(device.tag, ""))


def write(domain: etree._Element, device_nodes: Mapping[str, int]) -> list[LeftOut]:
    """Put the devices that are passed through to a ``<domain>`` on expander buses of their guest cells.

    Expander buses that it has already are used as they are.

    :param device_nodes: host address -> host node of the devices whose node is known.
    :returns: devices that stay on pcie.0, or why all do.
    :raises DomainError: too few ports or bus numbers, or an impossible value.
    """
    machine = ""
    system = parsing.first(domain, "os")
    if system is not None:
        machine = parsing.attribute(system, "type", "machine")
    if not vocabulary.PCI_EXPRESS.fullmatch(machine):
        return [LeftOut(Omission.NOT_PCI_EXPRESS, detail=vocabulary.shown(machine or "unknown"))]
    cells = _cells(domain)
    if not cells:
        return [LeftOut(Omission.NO_CELLS)]
    buses = _read(domain)
    left_out: list[LeftOut] = []
    near: dict[int, list[etree._Element]] = {cell: [] for cell in sorted(set(cells.values()))}
    for device in _passed_through(domain):
        cell, objection = _cell_of(device, device_nodes, cells)
        if objection is not None:
            left_out.append(objection)
        elif cell is not None and _bus_of(device) not in buses.ports.get(cell, ()):
            near[cell].append(device)
    placed = frozenset(device for devices in near.values() for device in devices)
    lacking = _others(domain, placed) - len(buses.free_flat())
    if buses.expander is None:
        _add_flat_ports(domain, lacking + _FLAT_SPARE)
        buses = _read(domain)
        _add_expanders(domain, buses, {cell: len(devices) for cell, devices in near.items()})
    elif lacking > 0:
        raise parsing.DomainError(
            f"{_REQUEST}: devices without an address would get ports of the expander buses that the domain has; "
            "remove these controllers, or give the devices addresses"
        )
    for cell, devices in near.items():
        for device in devices:
            _place(device, buses.take(cell))
    return left_out


def write_plugged(
    device: etree._Element, domain_xml: str, device_nodes: Mapping[str, int]
) -> list[LeftOut]:
    """Give a device its address before it is plugged into a guest that has expander buses.

    A guest without them was booted without the request, and stays as it is.

    :param device_nodes: as of :func:`write`; :returns: why the device goes to pcie.0.
    :raises DomainError: no port is free where it belongs.
    """
    domain = parsing.parse_tree(domain_xml)
    buses = _read(domain)
    if buses.expander is None or not _may_need_port(device):
        return []
    if not is_passed_through(device):
        _place(device, buses.take(None))
        return []
    cell, objection = _cell_of(device, device_nodes, _cells(domain))
    _place(device, buses.take(cell))
    return [] if objection is None else [objection]


def _passed_through(domain: etree._Element) -> Iterator[etree._Element]:
    for device in parsing.grandchildren(domain, "devices", "hostdev", "interface"):
        if is_passed_through(device):
            yield device


def _may_need_port(device: etree._Element) -> bool:
    kind = str(device.get("type", ""))
    match device.tag:
        case "disk":
            return parsing.attribute(device, "target", "bus") == "virtio"
        case "input":
            return str(device.get("bus")) == "virtio"
        case "hostdev":
            return kind in _HOSTDEVS
        case "controller":
            return kind != "pci"
    return device.tag in _WITH_PORT


def _cells(domain: etree._Element) -> dict[int, int]:
    """Return host node -> the guest cell whose memory is there."""
    known: set[int] = set()
    for order, cell in enumerate(domain.iterfind("cpu/numa/cell")):
        known.add(parsing.number(cell.get("id", str(order)), 0, parsing.MAX_VCPUS, "<cell id>"))
    cells: dict[int, int] = {}
    for memory in parsing.grandchildren(domain, "numatune", "memnode"):
        cell_id = parsing.number(memory.get("cellid", ""), 0, parsing.MAX_VCPUS, "memnode cellid")
        if cell_id in known:
            for node in cpulist.parse(parsing.cpuset(memory.get("nodeset", ""), "memnode")):
                cells.setdefault(node, cell_id)
    return cells


def _cell_of(
    device: etree._Element, device_nodes: Mapping[str, int], cells: Mapping[int, int]
) -> tuple[int | None, LeftOut | None]:
    """Return the guest cell of a device, or why it has none."""
    address = host_address(device)
    node = device_nodes.get(address)
    if node is None:
        return None, LeftOut(Omission.NODE_UNKNOWN, f"PCI device {address}")
    if node not in cells:
        return None, LeftOut(Omission.NODE_WITHOUT_CELL, f"PCI device {address}", str(node))
    return cells[node], None


def _bus_of(device: etree._Element) -> int | None:
    """Return the bus of a device's address, None where libvirt chooses."""
    address = parsing.first(device, "address")
    if address is None or address.get("type") != "pci" or address.get("bus") is None:
        return None
    try:
        return int(address.get("bus"), 0)
    except ValueError:
        shown = vocabulary.shown(address.get("bus"), 40)
        raise parsing.DomainError(
            f"<{device.tag}> has bus {shown!r} in its address; write it as 0x01"
        ) from None


def _controllers(domain: etree._Element) -> list[tuple[int, etree._Element]]:
    """Return PCI controllers with their indexes; those without one get the lowest free, as libvirt does it."""
    indexed: list[tuple[int, etree._Element]] = []
    others: list[etree._Element] = []
    for controller in parsing.grandchildren(domain, "devices", "controller"):
        if controller.get("type") == "pci":
            text = controller.get("index")
            if text is None:
                others.append(controller)
            else:
                index = parsing.number(text, 0, _ALL_BUS_NUMBERS - 1, "pci controller index")
                indexed.append((index, controller))
    used = {index for index, _controller in indexed}
    index = 0
    for controller in others:
        while index in used:
            index += 1
        used.add(index)
        indexed.append((index, controller))
    return indexed


def _read(domain: etree._Element) -> _Buses:
    buses = _Buses()
    for device in domain.iterfind("devices/*"):
        bus = _bus_of(device)
        if bus is not None:
            buses.taken.add(bus)
    controllers = _controllers(domain)
    cell_of: dict[int, int] = {}
    for index, controller in controllers:
        buses.highest = max(buses.highest, index)
        if controller.get("model") == "pcie-expander-bus":
            text = controller.findtext("target/node", "").strip()
            if text:  # one without belongs to no cell
                cell_of[index] = parsing.number(text, 0, parsing.MAX_VCPUS, "expander bus node")
    buses.expander = min(cell_of, default=None)
    for index, controller in controllers:
        if controller.get("model") == "pcie-root-port":
            parent = _bus_of(controller) or 0
            if parent == 0:
                buses.flat.append(index)
            elif parent in cell_of:
                buses.ports.setdefault(cell_of[parent], []).append(index)
    return buses


def _others(domain: etree._Element, placed: Set[etree._Element]) -> int:
    """Return the number of devices that may need a port and have no address, but for those that get one."""
    number = 0
    for device in domain.iterfind("devices/*"):
        if _may_need_port(device) and _bus_of(device) is None and device not in placed:
            number += 1
    return number


def _add_flat_ports(domain: etree._Element, number: int) -> None:
    """Add root ports on pcie.0; without an index, they have the lowest free ones."""
    devices = network.child(domain, "devices")
    if not _controllers(domain):
        etree.SubElement(devices, "controller", type="pci", index="0", model="pcie-root")
    for _number in range(number):
        etree.SubElement(devices, "controller", type="pci", model="pcie-root-port")


def _add_expanders(domain: etree._Element, buses: _Buses, wanted: Mapping[int, int]) -> None:
    """Add an expander bus for each guest cell.

    :param wanted: guest cell -> devices that get a port of it.
    """
    devices = network.child(domain, "devices")
    numbers = min(_BUS_NUMBERS, _ALL_BUS_NUMBERS // (len(wanted) + 1))
    _check("pcie.0", len(buses.flat), numbers - 1)
    buses.expander = buses.highest + 1
    for order, (cell, count) in enumerate(wanted.items(), 1):
        most = min(numbers - 1, _SLOTS)
        _check(f"guest cell {cell}", count, most)
        buses.highest += 1
        expander = buses.highest
        controller = _controller(devices, expander, "pcie-expander-bus")
        target = etree.SubElement(controller, "target", busNr=str(order * numbers))
        etree.SubElement(target, "node").text = str(cell)
        ports: list[int] = []
        for slot in range(min(count + _SPARE, most)):
            buses.highest += 1
            ports.append(buses.highest)
            port = _controller(devices, buses.highest, "pcie-root-port")
            port.append(_address(expander, slot))
        buses.ports[cell] = ports


def _check(where: str, ports: int, most: int) -> None:
    if ports > most:
        raise parsing.DomainError(
            f"{_REQUEST}: {where} needs {ports} PCI ports, and there are bus numbers for {most}; "
            "use fewer devices or perf:pci_topology=flat"
        )


def _controller(devices: etree._Element, index: int, model: str) -> etree._Element:
    if index >= _ALL_BUS_NUMBERS:
        _check("the guest", index, _ALL_BUS_NUMBERS - 1)
    return etree.SubElement(devices, "controller", type="pci", index=str(index), model=model)


def _address(bus: int, slot: int = 0) -> etree._Element:
    return etree.Element(
        "address",
        type="pci",
        domain="0x0000",
        bus=f"0x{bus:02x}",
        slot=f"0x{slot:02x}",
        function="0x0",
    )


def _place(device: etree._Element, bus: int) -> None:
    for address in list(device.iterchildren("address")):
        device.remove(address)
    device.append(_address(bus))
