# SPDX-License-Identifier: Apache-2.0
"""NICs, interrupts, guests and the rest of the facts, on small hand-made hosts with the traps of real ones."""

import collections
import os
import pathlib
import re
from unittest import mock

from nova_perf_tuning.host.input.facts import devices, guests, reader
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from tests.support import sysroots, testcase, trees
from tests.support.trees import DIRECTORY, Tree, link

_PCI = "sys/devices/pci0000:80"
_NIC = f"{_PCI}/0000:80:01.0/0000:81:00.0"
_VIRTUAL = "sys/devices/virtual/net"


def _device(directory: str, node: int, vectors: str = "") -> dict[str, str | None]:
    address = directory.rpartition("/")[2]
    tree: dict[str, str | None] = {
        f"{directory}/numa_node": str(node),
        f"sys/bus/pci/devices/{address}": link(
            "../../../" + directory.removeprefix("sys/").replace("sys/", "")
        ),
    }
    for vector in vectors.split():
        tree[f"{directory}/msi_irqs/{vector}"] = "msix"
    return tree


def _netdev(directory: str, rx: int = 1, tx: int = 1, **values: str) -> dict[str, str | None]:
    name = directory.rpartition("/")[2]
    tree: dict[str, str | None] = {
        f"{directory}/{key}": value for key, value in {"mtu": "1500", **values}.items()
    }
    tree |= {f"{directory}/queues/rx-{queue}/rps_cpus": "00" for queue in range(rx)}
    tree |= {f"{directory}/queues/tx-{queue}": DIRECTORY for queue in range(tx)}
    tree[f"sys/class/net/{name}"] = link("../../" + directory.removeprefix("sys/"))
    return tree


class TestProcesses(testcase.TestCase):
    def test_a_process_without_vcpu_threads_is_no_guest(self) -> None:
        """Its number is another program's since, and its threads must not be moved."""
        root = pathlib.Path(sysroots.make_host(self))
        before = reader.read_host(str(root))
        names = {guest.name for guest in before.guests}
        gone = before.guests[0]
        for status in root.glob(f"proc/{gone.pid}/task/*/status"):
            text = status.read_text()
            status.write_text(text.replace("CPU ", "worker "))
        after = reader.read_host(str(root))
        self.assertEqual(names - {gone.name}, {guest.name for guest in after.guests})
        noted = [note.code for note in after.warnings]
        self.assertIn(NoteCode.PROCESS_NOT_QEMU, noted)


class TestSystemCalls(testcase.TestCase):
    def test_no_file_of_many_is_found_by_o_path(self) -> None:
        """To find, check and open a file takes three times as long as to look at it and open it."""
        root = sysroots.make_host(self)
        found: list[str] = []
        really = os.open

        def watched(path: str, flags: int, *arguments: int, **more: int) -> int:
            if flags & os.O_PATH:
                found.append(path.removeprefix(f"{root}/"))
            return really(path, flags, *arguments, **more)

        with mock.patch.object(os, "open", watched):
            facts = reader.read_host(root)
        self.assertIsNotNone(facts.cpus[1].l2)
        many = re.compile(r".*/cpu[1-9]\d*/.*|run/.*|proc/\d+/.*|proc/irq/[1-9]\d/.*")
        self.assertEqual([], [path for path in found if many.fullmatch(path)])

    def test_directory_of_many_is_opened_once(self) -> None:
        """A host has thousands of them: to open one takes as long as to read a file in it."""
        root = sysroots.make_host(self)
        opened: collections.Counter[str] = collections.Counter()
        really = os.open

        def counted(path: str, flags: int, *arguments: int, **more: int) -> int:
            descriptor = really(path, flags, *arguments, **more)
            opened[os.readlink(f"/proc/self/fd/{descriptor}").removeprefix(f"{root}/")] += 1
            return descriptor

        with mock.patch.object(os, "open", counted):
            facts = reader.read_host(root)
        many = re.compile(r"proc/irq/\d+|proc/\d+/task|.*/queues|.*/cpu[1-9]\d*/topology")
        times = {path: number for path, number in opened.items() if many.fullmatch(path)}
        self.assertLess(len(facts.irqs) + len(facts.guests) + len(facts.nics), len(times))
        self.assertEqual({}, {path: number for path, number in times.items() if number > 1})


class TestNics(testcase.TestCase):
    def read(self, tree: Tree) -> dict[str, object]:
        root = Root(trees.grow(self, tree))
        return {nic.name: nic for nic in devices.read_nics(root, devices.read_devices(root))}

    def test_physical_nic_is_read_whole(self) -> None:
        tree = _device(_NIC, 1, "50 49 120") | _netdev(
            f"{_NIC}/net/eth1", 2, 2, speed="25000", operstate="up"
        )
        tree |= {
            f"{_NIC}/net/eth1/device": link("../../../0000:81:00.0"),
            f"{_NIC}/driver": link("../../ice"),
        }
        tree |= {
            f"{_NIC}/net/eth1/queues/tx-0/xps_cpus": "0f",
            f"{_NIC}/net/eth1/queues/tx-1/xps_cpus": "f0",
        }
        nic = self.read(tree)["eth1"]
        self.assertEqual(
            ("physical", "ice", "0000:81:00.0", 1), (nic.kind, nic.driver, nic.pci, nic.node)
        )
        self.assertEqual(
            (1500, 25000, "up", (49, 50, 120)), (nic.mtu, nic.speed_mbps, nic.operstate, nic.irqs)
        )
        self.assertEqual(
            (2, 2, ("00", "00"), ("0f", "f0")), (nic.rx_queues, nic.tx_queues, nic.rps, nic.xps)
        )

    def test_virtio_lies_below_its_pci_function(self) -> None:
        device = f"{_NIC}/virtio5"
        tree = _device(_NIC, 1, "30 31 32") | _netdev(f"{device}/net/eth0", speed="-1")
        tree |= {
            f"{device}/net/eth0/device": link("../../../virtio5"),
            f"{device}/driver": link("../virtio_net"),
        }
        nic = self.read(tree)["eth0"]
        self.assertEqual(("0000:81:00.0", 1, (30, 31, 32)), (nic.pci, nic.node, nic.irqs))
        self.assertEqual(("virtio_net", None, (None,)), (nic.driver, nic.speed_mbps, nic.xps))

    def test_unknown_node_and_legacy_interrupt(self) -> None:
        tree = (
            _device(_NIC, -1)
            | {f"{_NIC}/irq": "11"}
            | _netdev(f"{_NIC}/net/eth0", speed="4294967295")
        )
        tree[f"{_NIC}/net/eth0/device"] = link("../../../0000:81:00.0")
        nic = self.read(tree)["eth0"]
        self.assertEqual((None, (11,), None), (nic.node, nic.irqs, nic.speed_mbps))

    def test_function_of_the_bus_and_representor(self) -> None:
        tree = (
            _device(_NIC, 0)
            | {f"{_NIC}/physfn": link("../0000:81:00.1")}
            | _netdev(f"{_NIC}/net/eth0v0")
        )
        tree[f"{_NIC}/net/eth0v0/device"] = link("../../../0000:81:00.0")
        other = f"{_PCI}/0000:82:00.0"
        tree |= _device(other, 0) | _netdev(f"{other}/net/eth9_0", phys_port_name="pf0vf0")
        tree |= _netdev(f"{other}/net/eth9", phys_port_name="p0")
        for name in ("eth9", "eth9_0"):
            tree[f"{other}/net/{name}/device"] = link("../../../0000:82:00.0")
        by_name = self.read(tree)
        names = ("eth0v0", "eth9", "eth9_0")
        self.assertEqual(["vf", "physical", "other"], [by_name[name].kind for name in names])

    def test_kinds_and_memberships(self) -> None:
        tree: dict[str, str | None] = {
            f"{_VIRTUAL}/br0/bridge": DIRECTORY,
            f"{_VIRTUAL}/bond0/bonding": DIRECTORY,
        }
        for name in ("br0", "bond0", "ovs-system", "lo", "dummy0", "eth2"):
            tree |= _netdev(f"{_VIRTUAL}/{name}", ifindex="5", iflink="5", type="1")
        tree |= _netdev(f"{_VIRTUAL}/tun9", tun_flags="0x5102") | {
            f"{_VIRTUAL}/tun9/master": link("../br0")
        }
        tree |= _netdev(f"{_VIRTUAL}/tap0123abcd-ef", 4, 4) | {
            f"{_VIRTUAL}/tap0123abcd-ef/master": link("../ovs-system")
        }
        tree |= _netdev(f"{_VIRTUAL}/bond0.7", uevent="DEVTYPE=vlan\nINTERFACE=bond0.7")
        tree |= _netdev(f"{_VIRTUAL}/qvo1", ifindex="9", iflink="8", type="1")
        tree |= _netdev(f"{_VIRTUAL}/macvlan0", ifindex="9", iflink="2", type="1")
        tree |= {
            f"{_VIRTUAL}/macvlan0/lower_eth2": link("../eth2"),
            f"{_VIRTUAL}/eth2/master": link("../bond0"),
        }
        tree["sys/class/net/bonding_masters"] = "bond0"
        by_name = self.read(tree)
        kinds = {name: nic.kind for name, nic in by_name.items()}
        names = (
            "bond0 bond0.7 br0 dummy0 eth2 lo macvlan0 ovs-system qvo1 tap0123abcd-ef tun9".split()
        )
        expected = "bond vlan bridge other other loopback other other veth tap tap".split()
        self.assertEqual(dict(zip(names, expected, strict=True)), kinds)
        self.assertEqual("br0", by_name["tun9"].bridge)
        self.assertEqual("ovs-system", by_name["tap0123abcd-ef"].bridge)
        self.assertEqual(("bond0", None), (by_name["eth2"].bond, by_name["eth2"].bridge))
        tap, lo = by_name["tap0123abcd-ef"], by_name["lo"]
        self.assertEqual((4, 4, None, None), (tap.rx_queues, tap.tx_queues, lo.node, lo.pci))

    def test_names_that_a_shell_would_read_otherwise_are_left_out(self) -> None:
        """Names end in command lines that people copy."""
        there = link("../../devices/virtual/net/eth0")
        tree = {
            f"sys/class/net/{name}": there
            for name in ("eth0;reboot", "$(id)", "-a", "a b", "eth0")
        }
        self.assertEqual(["eth0"], list(self.read(_netdev(f"{_VIRTUAL}/eth0") | tree)))

    def test_names_in_numerical_order(self) -> None:
        tree: dict[str, str | None] = {}
        for name in ("eth10", "eth2", "eth1", "br0"):
            tree |= _netdev(f"{_VIRTUAL}/{name}")
        self.assertEqual(["br0", "eth1", "eth2", "eth10"], list(self.read(tree)))


def _irq(
    number: int, affinity: str = "0-3", effective: str = "1", node: int = -1, *names: str
) -> dict[str, str | None]:
    directory = f"proc/irq/{number}"
    tree: dict[str, str | None] = {
        f"{directory}/smp_affinity_list": affinity,
        f"{directory}/node": str(node),
    }
    tree |= {f"{directory}/effective_affinity_list": effective, f"{directory}/spurious": "count 0"}
    return tree | {f"{directory}/{name}": DIRECTORY for name in names}


class TestNodes(testcase.TestCase):
    def test_nodes_of_devices_that_are_known(self) -> None:
        devices_here = {"0000:81:00.0": "1", "0000:82:00.0": "-1", "0000:83:00.0": "0"}
        tree = {
            f"sys/bus/pci/devices/{address}/numa_node": f"{node}\n"
            for address, node in devices_here.items()
        }
        root = Root(trees.grow(self, tree))
        asked = ["0000:81:00.0", "0000:82:00.0", "0000:ff:00.0"]
        self.assertEqual({"0000:81:00.0": 1}, devices.read_nodes(root, asked))


class TestQuietNics(testcase.TestCase):
    def read(self, counts: dict[str, int], cpus: int = 2) -> dict[str, bool]:
        tree: dict[str, str | None] = dict(trees.cpus(cpus))
        rows = [" ".join(f"CPU{cpu}" for cpu in range(cpus))]
        for number, (name, count) in enumerate(counts.items(), 30):
            device = f"{_PCI}/0000:80:01.0/0000:8{number - 29}:00.0"
            tree |= _device(device, 0, str(number)) | _netdev(f"{device}/net/{name}")
            tree |= {f"{device}/net/{name}/device": link(f"../../../{device[-12:]}")}
            tree |= {f"proc/irq/{number}/{name}": DIRECTORY}
            tree |= {f"proc/irq/{number}/smp_affinity_list": "0-1"}
            zeros = " 0" * (cpus - 1)
            rows.append(f" {number}: {count}{zeros}  PCI-MSI 5-edge  {name}")
        tree["proc/interrupts"] = "\n".join(rows) + "\n"
        facts = reader.read_root(Root(trees.grow(self, tree)))
        self.assertEqual(len(counts), sum(bool(nic.irqs) for nic in facts.nics))
        return {nic.name: nic.quiet for nic in facts.nics}

    def test_those_that_hardly_fire_beside_the_busiest(self) -> None:
        counts = {"a": 1_000_000, "b": 9_999, "c": 10_000}
        self.assertEqual({"a": False, "b": True, "c": False}, self.read(counts))

    def test_too_few_counts_say_nothing(self) -> None:
        self.assertEqual({"a": False, "b": False}, self.read({"a": 9_999, "b": 0}))
        self.assertEqual({"a": False, "b": True}, self.read({"a": 10_000, "b": 0}))

    def test_hosts_of_many_cpus_are_not_counted(self) -> None:
        counts = {"a": 1_000_000, "b": 0}
        self.assertTrue(self.read(counts, 8)["b"])
        self.assertFalse(self.read(counts, 9)["b"])


class TestIrqs(testcase.TestCase):
    def read(self, tree: Tree) -> dict[int, object]:
        root = Root(trees.grow(self, tree))
        self.root = root
        return dict(devices.read_irqs(root, devices.read_devices(root)))

    def test_owner_name_and_node(self) -> None:
        tree = _device(_NIC, 1, "30 31 33") | {"proc/irq/default_smp_affinity": "f"}
        for number, affinity, effective, node, *names in (
            (30, "0-3", "2", 1, "eth0"),
            (31, "1", "1", 1, "eth0-TxRx-0"),
            (33, "3", "3", 1, "eth0-fdir"),
            (9, "0-3", "0", -1, "acpi"),
            (16, "0-3", "0", 0, "b", "a"),
        ):
            tree |= _irq(number, affinity, effective, node, *names)
        by_number = self.read(tree)
        names_of = {number: irq.name for number, irq in by_number.items()}
        expected = {9: "acpi", 16: "a,b", 30: "eth0", 31: "eth0-TxRx-0", 33: "eth0-fdir"}
        self.assertEqual(list(expected.items()), list(names_of.items()))
        irq = by_number[31]
        self.assertEqual(
            ("0000:81:00.0", "1", "1", 1), (irq.device, irq.affinity, irq.effective, irq.node)
        )
        self.assertEqual(
            (None, None, 0), (by_number[9].device, by_number[9].node, by_number[16].node)
        )

    def test_garbage_is_unknown(self) -> None:
        by_number = self.read(
            _irq(5, "0-x", "")
            | {"proc/irq/6/node": "0", "proc/irq/07/node": "0", "proc/irq/x": DIRECTORY}
        )
        self.assertEqual([5, 6, 7], list(by_number))
        self.assertEqual((None, ""), (by_number[5].affinity, by_number[5].effective))
        self.assertEqual((None, None), (by_number[6].affinity, by_number[6].effective))
        self.assertIn(
            Note.of(NoteCode.NOT_CPU_LIST, places=("proc/irq/5",)), self.root.notes.all()
        )


class TestOneOfTwoForms(testcase.TestCase):
    """What the kernel has as a mask and as a list, a recorded host may have as either."""

    def test_affinity(self) -> None:
        wide = "08000000," + "00000000," * 7 + "08000000"
        tree = {
            "proc/irq/4/smp_affinity": wide,
            "proc/irq/4/effective_affinity": "00000000,08000000",
            "proc/irq/5/smp_affinity": "f",
            "proc/irq/6/smp_affinity": "0-3",
            "proc/irq/7/node": "0",
        }
        root = Root(trees.grow(self, tree))
        irqs = devices.read_irqs(root, {})
        found = {number: (irq.affinity, irq.effective) for number, irq in irqs.items()}
        expected = {4: ("27,283", "27"), 5: ("0-3", None), 6: (None, None), 7: (None, None)}
        self.assertEqual(expected, found)
        codes = {note.code: note.params["places"] for note in root.notes.all()}
        self.assertEqual(("proc/irq/6", "proc/irq/7"), codes[NoteCode.IRQ_AFFINITY_UNKNOWN])
        self.assertEqual(("proc/irq/6/smp_affinity",), codes[NoteCode.NOT_CPU_MASK])

    def test_l3_groups(self) -> None:
        """Who shares a cache may be unknown: then the CPU has no group, not one of its own."""
        forms: dict[str, tuple[Tree, list[str]]] = {
            "list": ({"shared_cpu_list": "0-1"}, ["0-1", "0-1", "", ""]),
            "mask": ({"shared_cpu_map": "3"}, ["0-1", "0-1", "", ""]),
            "neither": ({}, ["", "", "", ""]),
        }
        for name, (files, expected) in forms.items():
            with self.subTest(name):
                tree = trees.cpus(4)
                for cpu in (0, 1):
                    cache = f"sys/devices/system/cpu/cpu{cpu}/cache/index3"
                    tree[f"{cache}/level"] = "3"
                    for file, text in files.items():
                        tree[f"{cache}/{file}"] = text
                facts = reader.read_root(Root(trees.grow(self, tree)))
                self.assertEqual(expected, [cpu.l3 or "" for cpu in facts.cpus])


class TestOtherInterrupts(testcase.TestCase):
    """Interrupts that the NIC's own PCI function does not have, and what polls in threads."""

    def read(self, tree: Tree) -> dict[str, host_model.Nic]:
        self.root = Root(trees.grow(self, tree))
        return {nic.name: nic for nic in reader.read_root(self.root).nics}

    def mlx5(self, queues: int, *functions: str) -> dict[str, str | None]:
        tree = _device(_NIC, 0, "30 31 32") | _netdev(f"{_NIC}/net/eth0", queues, queues)
        tree[f"{_NIC}/net/eth0/device"] = link("../../../0000:81:00.0")
        tree |= _irq(30, "0", "0", 0, "mlx5_async0@pci:0000:81:00.0")
        for vector in (31, 32):
            tree |= _irq(vector, "0", "0", 0, f"mlx5_comp{vector - 31}@pci:0000:81:00.0")
        for number, address in enumerate(functions, 40):
            tree |= _device(f"{_PCI}/{address}", 1, str(number))
            tree |= _irq(number, "4", "4", 1, f"mlx5_comp0@pci:{address}")
        return tree

    def test_queues_on_functions_without_a_netdev(self) -> None:
        for tree, irqs in (
            (self.mlx5(3, "0000:c1:00.0"), (30, 31, 32, 40)),
            (self.mlx5(2, "0000:c1:00.0"), (30, 31, 32)),  # it lacks none
            (self.mlx5(3, "0000:c1:00.1"), (30, 31, 32)),  # of another port
            (self.mlx5(3, "0000:c1:00.0", "0000:c2:00.0"), (30, 31, 32)),  # in two ways
        ):
            with self.subTest(irqs):
                self.assertEqual(irqs, self.read(tree)["eth0"].irqs)

    def test_a_nic_without_pci_has_those_of_its_name(self) -> None:
        device = "sys/devices/vif-0"
        tree = _netdev(f"{device}/net/eth1") | {
            f"{device}/net/eth1/device": link("../../../vif-0")
        }
        for number, name in enumerate(
            ("eth10-q0-rx", "eth1", "eth1-q0-rx", "vif-0:x", "blkif", "xen-eth1"), 70
        ):
            tree |= _irq(number, "0-3", "0", -1, name)
        nic = self.read(tree)["eth1"]
        self.assertEqual(("physical", None, (71, 72, 73)), (nic.kind, nic.pci, nic.irqs))

    def test_threads_of_napis(self) -> None:
        """Anybody may take the name: it is a child of kthreadd. A record is a stranger's."""
        tree = _netdev(f"{_VIRTUAL}/veth0", iflink="9", ifindex="8", type="1", threaded="1")
        tree |= _thread(0, 60, "napi/veth0-8193", "0-3", 60) | _thread(
            0, 61, "napi/veth9-8194", "0-3", 61
        )
        tree |= {"proc/62/stat": _stat(62, "napi/veth0-8195", 62)}
        nic = self.read(tree)["veth0"]
        thread = host_model.Thread(60, "napi", 8193, "0-3", 60, True)
        self.assertEqual(
            (True, (host_model.Napi(8193, None, (), (), thread),)), (nic.threaded, nic.napis)
        )
        for text, threaded in (("0", False), ("2", True), ("-1", None), ("yes", None), ("", None)):
            nic = self.read(tree | {f"{_VIRTUAL}/veth0/threaded": text})["veth0"]
            noted = NoteCode.VALUE_UNKNOWN in {note.code for note in self.root.notes.all()}
            self.assertEqual((threaded, threaded is None), (nic.threaded, noted))
        record = "veth0 8193 irq=30 thread=60 rx=0 tx="
        nic = self.read(tree | {"nova-perf/napis": record})["veth0"]
        self.assertEqual((host_model.Napi(8193, 30, (0,), (), thread),), nic.napis)
        many = "\n".join([f"{record}0-8191"] * 9)
        for text in (
            "[]",
            record.replace("30", "-30"),
            record.replace("rx=0", "rx=0-999999"),
            many,
        ):
            self.read(tree | {"nova-perf/napis": text})
            self.assertIn(NoteCode.NAPI_UNKNOWN, {note.code for note in self.root.notes.all()})


_XML = """<domain type='kvm' id='7'><name>{name}</name><uuid>11111111-1111-1111-1111-111111111111</uuid>
<vcpu>2</vcpu><cputune><vcpupin vcpu='0' cpuset='4'/></cputune><devices><interface type='bridge'>
<target dev='vnet0'/><model type='virtio'/>{driver}</interface></devices></domain>"""


def _stat(pid: int, name: str, start: int, parent: int = 1) -> str:
    return f"{pid} ({name}) S {parent} {pid}" + " 0" * 16 + f" {start}" + " 0" * 30


def _thread(
    pid: int, tid: int, name: str, cpus: str = "0-3", start: int = 100
) -> dict[str, str | None]:
    directory = f"proc/{pid}/task/{tid}" if pid else f"proc/{tid}"
    status = f"Name:\t{name}\nPid:\t{tid}\nCpus_allowed:\tf\nCpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0"
    # A process of its own is the kernel's here: a child of kthreadd.
    stat = _stat(tid, name, start, 1 if pid else 2)
    return {f"{directory}/stat": stat, f"{directory}/status": status}


def _guest(
    name: str, pid: int, *threads: tuple[str, str], driver: str = ""
) -> dict[str, str | None]:
    tree: dict[str, str | None] = {
        f"run/libvirt/qemu/{name}.pid": str(pid),
        f"proc/{pid}/stat": _stat(pid, "qemu-kvm", 90),
    }
    tree[f"run/libvirt/qemu/{name}.xml"] = (
        f"<domstatus pid='{pid}'>{_XML.format(name=name, driver=driver)}</domstatus>"
    )
    for number, (comm, cpus) in enumerate(threads):
        tree |= _thread(pid, pid + number, comm, cpus)
    return tree


class TestGuests(testcase.TestCase):
    def read(self, tree: Tree) -> tuple[list[object], list[object]]:
        self.root = Root(trees.grow(self, tree))
        running, domains = guests.read_guests(self.root)
        return list(running), list(domains)

    def test_threads_by_class(self) -> None:
        table = (
            ("qemu-system-x86", "0-1", "emulator", None),
            ("call_rcu", "0-1", "emulator", None),
            ("IO iothread12", "1", "iothread", 12),
            ("IO mon_iothread", "0", "emulator", None),
            ("CPU 1/KVM", "5", "vcpu", 1),
            ("CPU 0/KVM", "4", "vcpu", 0),
            ("vhost-100", "0-1", "vhost", 0),
            ("vhost-100", "2", "vhost", 1),
            ("worker", "0-1", "worker", None),
        )
        names = [(name, cpus) for name, cpus, _kind, _index in table]
        ((guest,), (domain,)) = self.read(_guest("a", 100, *names, ("kvm-nx-lpage-re", "0-7")))
        expected = [
            (100 + number, kind, index, cpus)
            for number, (_, cpus, kind, index) in enumerate(table)
        ]
        threads = [
            (thread.tid, thread.kind, thread.index, thread.affinity) for thread in guest.threads
        ]
        self.assertEqual(expected, threads)
        self.assertEqual(
            ({90}, {False}), ({t.start for t in guest.threads}, {t.kernel for t in guest.threads})
        )
        self.assertEqual(("a", 7, {0: "4"}), (domain.name, domain.domain_id, domain.vcpu_pins))
        self.assertIs(domain, guest.domain)
        self.assertEqual((), self.root.notes.all())

    def test_vhost_workers_that_are_kernel_threads(self) -> None:
        tree = _guest("a", 100, ("qemu-kvm", "0"), ("CPU 0/KVM", "4")) | _guest(
            "b", 200, ("qemu-kvm", "0"), ("CPU 0/KVM", "4"), driver="<driver name='qemu'/>"
        )
        for tid, name in (
            (301, "vhost-100"),
            (300, "vhost-100"),
            (302, "vhost-200"),
            (303, "kworker/0:1 (odd) name"),
        ):
            tree |= _thread(0, tid, name, "0-3", tid)
        # Anybody may call a process so, and numbers begin again at low ones.
        tree["proc/299/stat"] = _stat(299, "vhost-100", 299)
        tree |= _thread(0, 298, "vhost-100", "0-3", 400)
        (first, second), _ = self.read(tree)
        workers = [
            (thread.tid, thread.index, thread.affinity, thread.start)
            for thread in first.threads
            if thread.kernel
        ]
        self.assertEqual(
            [(300, 0, "0-3", 300), (301, 1, "0-3", 301), (298, 2, "0-3", 400)], workers
        )
        self.assertEqual([], [thread for thread in second.threads if thread.kind == "vhost"])

    def test_a_domain_is_read_anew_only_when_its_xml_has_changed(self) -> None:
        tree = _guest("a", 100, ("qemu-kvm", "0"), ("CPU 0/KVM", "4"))
        _, (first,) = self.read(tree)
        _, (again,) = self.read(tree)
        path = "run/libvirt/qemu/a.xml"
        moved = tree | {path: (tree[path] or "").replace("cpuset='4'", "cpuset='5'")}
        _, (other,) = self.read(moved)
        self.assertIs(first, again)
        self.assertEqual(({0: "4"}, {0: "5"}), (first.vcpu_pins, other.vcpu_pins))
        _, (back,) = self.read(tree)
        self.assertEqual(first, back)
        self.assertIsNot(first, back)  # what the reading before did not meet is forgotten

    def test_a_process_that_two_guests_claim_is_nobodys(self):
        """QEMU may write its pid file: only libvirt's own <domstatus> says whose a process is."""
        threads = (("qemu-kvm", "0"), ("CPU 0/KVM", "4"))
        tree = (
            _guest("a", 100, *threads)
            | _guest("b", 200, *threads)
            | {"run/libvirt/qemu/b.pid": "100"}
        )
        running, _ = self.read(tree)
        self.assertEqual([("a", 100), ("b", 200)], [(guest.name, guest.pid) for guest in running])
        path = "run/libvirt/qemu/b.xml"
        running, _ = self.read(tree | {path: (tree[path] or "").replace("pid='200'", "pid='100'")})
        self.assertEqual([], running)
        note = self.root.notes.all()[0]
        self.assertEqual(
            (NoteCode.PROCESS_SHARED, {"a", "b"}), (note.code, set(note.params["places"]))
        )


class TestTopologyTraps(testcase.TestCase):
    def read(self, tree: Tree) -> host_model.HostFacts:
        self.root = Root(trees.grow(self, tree))
        return reader.read_root(self.root)

    def test_lists_that_make_no_sense(self) -> None:
        base = "sys/devices/system/cpu"
        tree = trees.cpus(4) | {
            f"{base}/cpu0/topology/core_cpus_list": "1",
            f"{base}/cpu1/topology/core_cpus_list": "1-2",
            f"{base}/cpu2/topology/core_cpus_list": "2-3",
            f"{base}/cpu3/topology/core_cpus_list": "2-3",
        }
        host = self.read(tree)
        self.assertEqual(["0", "1-2", "1-2", "3"], [cpu.siblings for cpu in host.cpus])
        for code, cpu in ((NoteCode.CORE_ABSURD, 0), (NoteCode.CORES_OVERLAP, 3)):
            self.assertIn(Note.of(code, places=(f"CPU {cpu}",)), self.root.notes.all())

    def test_no_numa_data(self) -> None:
        host = self.read(trees.cpus(2))
        self.assertEqual(((), {None}), (host.nodes, {cpu.node for cpu in host.cpus}))

    def test_offline_cpu_keeps_its_link_to_the_node(self) -> None:
        base = "sys/devices/system"
        tree = trees.cpus(2) | {f"{base}/cpu/online": "0", f"{base}/cpu/cpu1/node3": DIRECTORY}
        tree |= {
            f"{base}/node/node3/cpulist": "0",
            f"{base}/node/node3/meminfo": "Node 3 MemTotal: 1024 kB",
        }
        host = self.read(tree)
        self.assertEqual(
            [(True, 3, 0), (False, 3, None)],
            [(cpu.online, cpu.node, cpu.core) for cpu in host.cpus],
        )
        self.assertEqual(
            (3, "0", 1024, {}),
            (
                host.nodes[0].id,
                host.nodes[0].cpus,
                host.nodes[0].memory_kib,
                host.nodes[0].distances,
            ),
        )

    def test_capacity_only_where_cores_differ(self) -> None:
        base = "sys/devices/system/cpu"
        rated = {f"{base}/cpu{cpu}/cpu_capacity": "1024" for cpu in range(2)}
        self.assertEqual(
            [None, None], [cpu.capacity for cpu in self.read(trees.cpus(2) | rated).cpus]
        )
        rated[f"{base}/cpu1/cpu_capacity"] = "446"
        self.assertEqual(
            [1024, 446], [cpu.capacity for cpu in self.read(trees.cpus(2) | rated).cpus]
        )

    def test_isolated_and_nohz(self) -> None:
        base = "sys/devices/system/cpu"
        host = self.read(
            trees.cpus(8) | {f"{base}/isolated": "2-3", f"{base}/nohz_full": "(null)"}
        )
        self.assertEqual(("0-7", "2-3", ""), (host.online, host.isolated, host.nohz_full))


class TestVhostMode(testcase.TestCase):
    def test_workers_are_what_the_module_says_or_the_kernel_does(self) -> None:
        chosen, release = (
            "sys/module/vhost/parameters/fork_from_owner_default",
            "proc/sys/kernel/osrelease",
        )
        for wanted, tree in (
            ("task", {release: "6.12.0-1-amd64"}),
            ("kthread", {release: "6.1.0"}),
            ("kthread", {release: "6.18.2", chosen: "N"}),
            ("task", {release: "5.14.0-570.el9", chosen: "Y"}),
            (None, {release: "6.18.2", chosen: "2"}),
            (None, {release: "next"}),
            (None, {}),
        ):
            with self.subTest(tree):
                host = reader.read_host(trees.grow(self, {"sys": DIRECTORY, **tree}))
                noted = NoteCode.VALUE_UNKNOWN in {note.code for note in host.warnings}
                self.assertEqual(
                    (wanted, wanted is None and chosen in tree), (host.vhost_mode, noted)
                )


class TestVirtualization(testcase.TestCase):
    def test_hypervisor_is_told_by_cpu_clock_and_dmi(self) -> None:
        bare = "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu lm sse"
        guest = f"{bare} hypervisor"
        clock = "sys/devices/system/clocksource/clocksource0/available_clocksource"
        dmi = "sys/class/dmi/id"
        for wanted, tree in (
            ("none", {"proc/cpuinfo": bare, f"{dmi}/sys_vendor": "Dell Inc."}),
            ("kvm", {"proc/cpuinfo": guest, clock: "kvm-clock tsc"}),
            ("tcg", {"proc/cpuinfo": guest, clock: "tsc hpet", f"{dmi}/sys_vendor": "QEMU"}),
            ("vm", {"proc/cpuinfo": guest}),
            ("hyperv", {"proc/cpuinfo": guest, clock: "hyperv_clocksource_tsc_page"}),
            (
                "hyperv",
                {
                    f"{dmi}/sys_vendor": "Microsoft Corporation",
                    f"{dmi}/product_name": "Virtual Machine",
                },
            ),
            ("xen-pv", {"sys/hypervisor/type": "xen", "sys/hypervisor/guest_type": "PV"}),
            ("xen-hvm", {"sys/hypervisor/type": "xen", "sys/hypervisor/guest_type": "HVM"}),
            ("xen-hvm", {"sys/hypervisor/type": "xen", f"{dmi}/sys_vendor": "Xen"}),
            ("xen", {"sys/hypervisor/type": "xen"}),
            ("xen", {"proc/cpuinfo": bare, "sys/devices/vif-0/nodename": "device/vif/0"}),
            ("none", {"proc/cpuinfo": bare, "sys/devices/vif-1-0/nodename": "backend/vif/1/0"}),
            ("xen-dom0", {"sys/hypervisor/type": "xen", "proc/xen/capabilities": "control_d"}),
            (None, {"proc/cpuinfo": "CPU implementer\t: 0x41\nCPU architecture: 8"}),
        ):
            with self.subTest(wanted):
                host = reader.read_host(trees.grow(self, {"sys": DIRECTORY, **tree}))
                self.assertEqual(wanted, host.virtualization, tree)
