# SPDX-License-Identifier: Apache-2.0
"""Devices on the expander bus of their cell: addresses and bus numbers of domains with and without addresses."""

import re

import hypothesis
from hypothesis import strategies
from lxml import etree

from nova_perf_tuning.guest import domain, parsing, pci_topology
from tests.support import corpus, testcase

_VIRTIO = "<interface type='bridge'><model type='virtio'/></interface>"
_DISK = "<disk type='file' device='disk'><target dev='vd{}' bus='virtio'/></disk>"
_NOVAS = (
    "<controller type='pci' model='pcie-root'/>"
    + "<controller type='pci' model='pcie-root-port'/>"
)


def hostdev(number: int, kind: str = "hostdev") -> str:
    """Return the device 0000:82:NUMBER.0, as Nova writes it."""
    address = f"<address domain='0x0000' bus='0x82' slot='0x{number:02x}' function='0x0'/>"
    if kind == "interface":
        address = address.replace("<address", "<address type='pci'")
        return f"<interface type='hostdev' managed='yes'><source>{address}</source></interface>"
    return (
        f"<hostdev mode='subsystem' type='pci' managed='yes'><source>{address}</source></hostdev>"
    )


def address(number: int) -> str:
    return f"0000:82:{number:02x}.0"


def guest(
    devices: str, nodes: tuple[str, ...] = ("0", "1"), machine: str = "q35"
) -> etree._Element:
    """Return a domain with a cell for each of the host nodes."""
    cells = "".join(f"<cell id='{cell}' cpus='{cell}'/>" for cell, _node in enumerate(nodes))
    memory = "".join(
        f"<memnode cellid='{cell}' mode='strict' nodeset='{node}'/>"
        for cell, node in enumerate(nodes)
    )
    return parsing.parse_xml(
        f"<domain type='kvm'><name>g</name><vcpu>{len(nodes)}</vcpu><numatune>{memory}</numatune>"
        f"<os><type machine='{machine}'>hvm</type></os><cpu><numa>{cells}</numa></cpu>"
        f"<devices>{devices}</devices></domain>"
    )


def controllers(root: etree._Element) -> dict[int, etree._Element]:
    """Return index -> PCI controller; those without one get the lowest free, as libvirt does it."""
    found = {}
    without = []
    for controller in root.iterfind("devices/controller[@type='pci']"):
        if controller.get("index") is None:
            without.append(controller)
        else:
            found[int(controller.get("index"))] = controller
    for controller in without:
        found[min(set(range(len(found) + 1)) - set(found))] = controller
    return found


def bus(device: etree._Element) -> int | None:
    place = device.find("address")
    return None if place is None else int(place.get("bus"), 16)


def cell_of(root: etree._Element, device: etree._Element) -> str | None:
    """Return the guest cell that a device's root bus names."""
    found = controllers(root)
    above = bus(device)
    while above:
        controller = found[above]
        if controller.get("model") == "pcie-expander-bus":
            return controller.findtext("target/node")
        above = bus(controller)
    return None


def devices_of(root: etree._Element) -> dict[str, etree._Element]:
    """Return host address -> device that is passed through."""
    return dict(
        zip(pci_topology.addresses(root), root.xpath("devices/*[source/address]"), strict=True)
    )


def written(root: etree._Element) -> str:
    return etree.tostring(root, encoding="unicode")


class WriteTest(testcase.TestCase):
    def test_each_device_is_on_the_bus_of_its_cell(self) -> None:
        root = guest(hostdev(0) + hostdev(1, "interface") + hostdev(2), nodes=("3", "1"))
        nodes = {address(0): 1, address(1): 3, address(2): 1}
        self.assertEqual([], pci_topology.write(root, nodes))
        cells = {where: cell_of(root, device) for where, device in devices_of(root).items()}
        self.assertEqual({address(0): "1", address(1): "0", address(2): "1"}, cells)
        places = {bus(device) for device in devices_of(root).values()}
        self.assertEqual(3, len(places), "each has a port of its own")

    def test_devices_that_stay_flat(self) -> None:
        root = guest(hostdev(0) + hostdev(1) + hostdev(2))
        left_out = pci_topology.write(root, {address(0): 0, address(2): 5})
        self.assertEqual(
            [
                domain.LeftOut(domain.Omission.NODE_UNKNOWN, f"PCI device {address(1)}"),
                domain.LeftOut(domain.Omission.NODE_WITHOUT_CELL, f"PCI device {address(2)}", "5"),
            ],
            left_out,
        )
        places = [bus(device) for device in devices_of(root).values()]
        self.assertEqual([None, None], places[1:])

    def test_machines(self) -> None:
        for machine, has in (
            ("q35", True),
            ("pc-q35-7.2", True),
            ("virt", True),
            ("virt-9.2", True),
            ("pc", False),
            ("pc-i440fx-7.2", False),
            ("virtual", False),
        ):
            with self.subTest(machine):
                root = guest(hostdev(0), machine=machine)
                left_out = pci_topology.write(root, {address(0): 0})
                self.assertEqual(has, "pcie-expander-bus" in written(root))
                self.assertEqual(not has, bool(left_out))

    def test_a_guest_without_bound_cells_is_left_alone(self) -> None:
        root = guest(hostdev(0), nodes=())
        before = written(root)
        (left_out,) = pci_topology.write(root, {address(0): 0})
        self.assertEqual((domain.Omission.NO_CELLS, before), (left_out.omission, written(root)))

    def test_bus_numbers_leave_room_for_each_port(self) -> None:
        for cells, numbers in (
            (1, [64]),
            (2, [64, 128]),
            (3, [64, 128, 192]),
            (4, [51, 102, 153, 204]),
        ):
            with self.subTest(cells):
                root = guest("", nodes=tuple(map(str, range(cells))))
                pci_topology.write(root, {})
                targets = root.xpath("devices/controller/target/@busNr")
                self.assertEqual(numbers, [int(number) for number in targets])

    def test_too_many_devices_for_the_bus_numbers(self) -> None:
        many = "".join(hostdev(number % 32, "hostdev") for number in range(33))
        nodes = {address(number): 0 for number in range(32)}
        for devices, words in ((many, "guest cell 0 needs 33"), (_VIRTIO * 60, "pcie.0 needs 66")):
            with self.subTest(words):
                error = self.assertRaises(
                    parsing.DomainError, pci_topology.write, guest(devices), nodes
                )
                self.assertIn(words, str(error))
                self.assertIn("perf:pci_topology=flat", str(error))

    def test_ports_that_nova_made_count(self) -> None:
        """[libvirt] num_pcie_ports: controllers without an index."""
        novas = _NOVAS + "<controller type='pci' model='pcie-root-port'/>" * 19
        root = guest(novas + _VIRTIO + hostdev(0))
        pci_topology.write(root, {address(0): 1})
        self.assertEqual(
            20, len(root.xpath("devices/controller[@model='pcie-root-port'][not(@index)]"))
        )
        self.assertEqual("1", cell_of(root, devices_of(root)[address(0)]))
        self.assertEqual(21, min(map(int, root.xpath("devices/controller[target]/@index"))))

    def test_indexes_that_are_not_in_a_row(self) -> None:
        """libvirt gives those without an index the free ones, and makes a bus of its own for each that is left."""
        numbered = "".join(
            f"<controller type='pci' index='{index}' model='{model}'/>"
            for index, model in ((0, "pcie-root"), (3, "pcie-root-port"), (6, "pcie-root-port"))
        )
        root = guest(numbered + hostdev(0))
        pci_topology.write(root, {address(0): 1})
        found = controllers(root)
        self.assertEqual(list(range(len(found))), sorted(found))
        self.assertEqual("1", cell_of(root, devices_of(root)[address(0)]))

    def test_a_domain_without_devices(self) -> None:
        root = guest("")
        root.remove(root.find("devices"))
        self.assertEqual([], pci_topology.write(root, {}))
        self.assertEqual(2, written(root).count("pcie-expander-bus"))

    def test_valid_for_libvirt(self) -> None:
        root = parsing.parse_xml(corpus.text("hostdev.xml"))
        pci_topology.write(root, {"0000:82:10.1": 0, "0000:84:00.0": 0})
        self.assertEqual([], corpus.schema_errors(written(root)))
        self.assertEqual(
            ["0", "0"], [cell_of(root, device) for device in devices_of(root).values()]
        )


def assigned(root: etree._Element) -> etree._Element:
    """Return a domain as libvirt returns it: devices without an address have the first free port."""
    root = parsing.parse_xml(written(root))
    found = controllers(root)
    for index, controller in found.items():
        controller.set("index", str(index))
        if controller.get("model") != "pcie-root" and bus(controller) is None:
            etree.SubElement(controller, "address", type="pci", bus="0x00", slot=f"0x{index:02x}")
    taken = {bus(device) for device in root.iterfind("devices/*")}
    ports = [at for at in sorted(found) if found[at].get("model") == "pcie-root-port"]
    free = [port for port in ports if port not in taken]
    for device in root.xpath("devices/*[not(self::controller)]"):
        if bus(device) is None:
            etree.SubElement(device, "address", type="pci", bus=f"0x{free.pop(0):02x}")
    return root


@strategies.composite
def guests(draw: strategies.DrawFn) -> tuple[etree._Element, dict[str, int]]:
    """Return a guest, and the known nodes of its devices."""
    count = draw(strategies.integers(0, 6))
    nodes = draw(
        strategies.dictionaries(strategies.integers(0, 5).map(address), strategies.integers(0, 3))
    )
    parts = [
        hostdev(number, draw(strategies.sampled_from(("hostdev", "interface"))))
        for number in range(count)
    ]
    parts += [_VIRTIO] * draw(strategies.integers(0, 8))
    parts += [
        _DISK.format(name) for name in draw(strategies.sets(strategies.sampled_from("abcdef")))
    ]
    ports = draw(strategies.integers(0, 28))
    if ports:
        parts = [
            _NOVAS,
            *["<controller type='pci' model='pcie-root-port'/>"] * (ports - 1),
            *parts,
        ]
    cells = draw(
        strategies.lists(strategies.integers(0, 3).map(str), min_size=1, max_size=3, unique=True)
    )
    return guest("".join(parts), tuple(cells)), nodes


class PropertyTest(testcase.TestCase):
    @hypothesis.given(guests(), strategies.integers(0, 6))
    def test_a_domain_as_libvirt_returns_it(
        self, case: tuple[etree._Element, dict[str, int]], added: int
    ) -> None:
        """Only devices of a cell are on its expander, also of those that libvirt places; it stays as it is."""
        root, nodes = case
        left_out = pci_topology.write(root, nodes)
        once = written(root)
        self.assertEqual(left_out, pci_topology.write(root, nodes))
        self.assertEqual(once, written(root))
        for _number in range(added):  # devices that libvirt adds itself
            etree.SubElement(root.find("devices"), "rng", model="virtio")
        root = assigned(root)
        flat = {part.device.removeprefix("PCI device ") for part in left_out}
        host_node = {
            str(cell): node for cell, node in enumerate(root.xpath("numatune/memnode/@nodeset"))
        }
        placed = devices_of(root)
        for where, device in placed.items():
            cell = cell_of(root, device)
            self.assertEqual(where in flat, cell is None)
            if cell is not None:
                self.assertEqual(str(nodes[where]), host_node[cell])
        for device in root.xpath("devices/*[not(self::controller) and not(source/address)]"):
            self.assertIsNone(cell_of(root, device))
        returned = written(root)
        self.assertEqual(left_out, pci_topology.write(root, nodes))
        self.assertEqual(returned, written(root))

    @hypothesis.given(
        guests(), strategies.lists(strategies.sampled_from(("flat", "0", "1")), max_size=12)
    )
    def test_devices_that_are_plugged_in(
        self, case: tuple[etree._Element, dict[str, int]], kinds: list[str]
    ) -> None:
        """Each gets a free port where it belongs, or one line says that there is none."""
        root, nodes = case
        pci_topology.write(root, nodes)
        root = assigned(root)
        cells = {node: cell for cell, node in enumerate(root.xpath("numatune/memnode/@nodeset"))}
        for number, kind in enumerate(kinds, 6):
            device = parsing.parse_xml(_VIRTIO if kind == "flat" else hostdev(number))
            taken = {bus(other) for other in root.iterfind("devices/*")}
            try:
                pci_topology.write_plugged(
                    device, written(root), {address(number): int(kind == "1")}
                )
            except parsing.DomainError as error:
                self.assertTrue(
                    re.search("no PCI port of (pcie.0|guest cell [0-9]) is free", str(error))
                )
                continue
            self.assertNotIn(bus(device), taken)
            root.find("devices").append(device)
            expected = None
            if kind in cells:
                expected = str(cells[kind])
            self.assertEqual(expected, cell_of(root, device))


class PluggedTest(testcase.TestCase):
    def running(self, devices: str = "") -> etree._Element:
        root = guest(devices)
        pci_topology.write(root, {address(0): 1})
        return assigned(root)

    def test_a_device_without_address_beside_expanders(self) -> None:
        """It would get a port of an expander, once those before it are taken."""
        root = self.running()
        devices = root.find("devices")
        for number in range(1, 8):
            device = etree.SubElement(devices, "rng", model="virtio")
            if number < 7:
                etree.SubElement(device, "address", type="pci", bus=f"0x{number:02x}")
        error = self.assertRaises(parsing.DomainError, pci_topology.write, root, {})
        self.assertIn("remove these controllers", str(error))
        devices.remove(device)
        self.assertEqual([], pci_topology.write(root, {}))

    def test_ports_used_up(self) -> None:
        root = self.running(hostdev(0))
        for number in (1, 2, 3):
            device = parsing.parse_xml(hostdev(number))
            if number < 3:
                pci_topology.write_plugged(device, written(root), {address(number): 1})
                root.find("devices").append(device)
        error = self.assertRaises(
            parsing.DomainError,
            pci_topology.write_plugged,
            device,
            written(root),
            {address(3): 1},
        )
        self.assertIn("no PCI port of guest cell 1 is free", str(error))

    def test_a_guest_without_expanders_keeps_what_it_has(self) -> None:
        device = parsing.parse_xml(hostdev(1))
        before = written(device)
        pci_topology.write_plugged(device, written(guest("")), {address(1): 1})
        self.assertEqual(before, written(device))

    def test_devices_that_need_no_port(self) -> None:
        disk = parsing.parse_xml(_DISK.format("a").replace("virtio", "scsi"))
        before = written(disk)
        self.assertEqual([], pci_topology.write_plugged(disk, written(self.running()), {}))
        self.assertEqual(before, written(disk))

    def test_a_device_of_another_node_stays_flat(self) -> None:
        root = self.running()
        device = parsing.parse_xml(hostdev(1))
        (left_out,) = pci_topology.write_plugged(device, written(root), {address(1): 7})
        self.assertEqual(domain.Omission.NODE_WITHOUT_CELL, left_out.omission)
        self.assertIn(bus(device), controllers(root))
        self.assertIsNone(cell_of(root, device))
