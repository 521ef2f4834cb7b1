"""Recording a host: the part of /proc, /sys and /run that its facts are made of, as one file for ``--sysroot``.

Only what is named here is recorded. Guests are not copied but written anew from their facts (class, number and
CPUs of each thread; pins, interfaces and request of each domain), so that nothing that libvirt, QEMU or a tenant
put beside them can slip in. What the audit's rules read is named in :mod:`nova_perf_tuning.host.audit.recording`;
of configuration files it keeps a few options.

Left out on purpose: command lines, environments, MAC and IP addresses, UUIDs, serial numbers, the boot id, host
name, display names of guests and where their disks lie. Kept, because plans are read by them: names of network
devices, PCI addresses, libvirt's names of the guests, process ids.
"""

from __future__ import annotations

import io
import itertools
import os
import tarfile
from collections.abc import Iterable, Mapping
from typing import Final
from xml.etree import ElementTree

from nova_perf_tuning import whole_file
from nova_perf_tuning.guest import domain, inventory, parsing
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import irqs, pci, reader, virtualization
from nova_perf_tuning.host.facts.root import FactsError, Folder, Root

_CPU_FILES: Final = tuple("online offline possible present isolated nohz_full kernel_max".split())
_TOPOLOGY_FILES: Final = tuple(
    "core_id physical_package_id die_id cluster_id core_cpus_list thread_siblings_list package_cpus_list"
    " core_siblings_list die_cpus_list cluster_cpus_list".split()
)
_OLD_TOPOLOGY_FILES: Final = ("thread_siblings", "core_siblings")
_CACHE_FILES: Final = ("level", "type", "size", "shared_cpu_list")
_NODE_FILES: Final = ("cpulist", "distance")
_NIC_FILES: Final = tuple("mtu speed operstate type flags ifindex iflink tun_flags phys_port_name".split())
_PCI_FILES: Final = tuple("class vendor device numa_node local_cpulist irq".split())
_CPUINFO_KEYS: Final = (
    "processor", "vendor_id", "vendor", "arch", "cpu family", "family", "model", "model name", "stepping", "flags",
    "physical id", "core id", "siblings", "cpu cores", "CPU implementer", "CPU architecture", "CPU variant",
    "CPU part", "Features", "cpu", "machine", "platform",
)  # fmt: skip
_UEVENT_KEYS: Final = ("INTERFACE=", "IFINDEX=", "DEVTYPE=")
_PLACES: Final = {
    "sys/hypervisor": ("type", "guest_type"),
    "sys/class/dmi/id": ("sys_vendor", "product_name"),
    "sys/devices/system/clocksource/clocksource0": ("available_clocksource", "current_clocksource"),
    "proc/xen": ("capabilities",),
    "proc/sys/kernel": ("osrelease", "arch"),
    "proc/irq": ("default_smp_affinity",),
    "sys/devices/system/node": ("online", "possible", "has_cpu", "has_memory"),
    "sys/devices/system/cpu": _CPU_FILES,
    "sys/devices/system/cpu/smt": ("active", "control"),
}


class Tree:
    """Files, links and folders of a recording by their path."""

    def __init__(self, root: Root) -> None:
        self.root = root
        self.files: dict[str, bytes] = {}
        self.links: dict[str, str] = {}
        self.folders: set[str] = set()

    def copy(self, folder: Folder | None, names: Iterable[str]) -> None:
        """Record the files ``names`` of ``folder`` as they are; those that cannot be read are left out."""
        for name in names:
            data = self.root.read(folder, name)
            if data is not None:
                self.files[f"{folder}/{name}"] = data

    def link(self, folder: Folder, name: str) -> Folder | None:
        """Record the link ``name`` of ``folder``, relative, and return the folder behind it."""
        target = self.root.canonical(folder, name)
        if target is not None and target != f"{folder}/{name}":
            self.links[f"{folder}/{name}"] = os.path.relpath(target, folder)
        return target

    def write(self, file: tarfile.TarFile) -> None:
        """Add everything to ``file`` in the order of the paths, without times and owners."""
        for path in sorted({*self.files, *self.links, *self.folders}):
            member = tarfile.TarInfo(path)
            if path in self.links:
                member.type, member.linkname, member.mode = tarfile.SYMTYPE, self.links[path], 0o777
                file.addfile(member)
            elif path in self.files:
                member.size = len(self.files[path])
                file.addfile(member, io.BytesIO(self.files[path]))
            else:
                member.type, member.mode = tarfile.DIRTYPE, 0o755
                file.addfile(member)


def record(path: str, sysroot: str = "/", overwrite: bool = False) -> int:
    """Write a recording of the host at ``sysroot`` to ``path`` (tar, compressed by xz); return its size in bytes.

    The file appears whole or not at all.

    :raises whole_file.OutputError: something else than a file is there, or the folder is missing.
    :raises FactsError: it is there already and may not be overwritten, cannot be written, or the host not read.
    """
    whole_file.check(path)
    if not overwrite and os.path.lexists(path):
        raise FactsError(f"{path}: exists already; choose another name or add --force")
    tree = collect(reader.open_root(sysroot))
    try:
        with whole_file.writing(path, overwrite) as raw:
            with tarfile.open(fileobj=raw, mode="w:xz") as file:
                tree.write(file)
            size = raw.tell()
    except OSError as error:
        raise FactsError(f"{path}: cannot be written: {error.strerror or error}") from None
    return size


def collect(root: Root) -> Tree:
    """Return everything that a recording of the host at ``root`` holds."""
    from nova_perf_tuning.host.audit import host, recording  # the rules say what they read

    tree = Tree(root)
    facts = reader.read_root(root)
    view = host.Host(root, facts)
    _record_files(tree)
    _record_guests(tree, facts, recording.inventories(view.guests))
    recording.add(tree, view)
    return tree


def _record_files(tree: Tree) -> None:
    root = tree.root
    for place, names in _PLACES.items():
        tree.copy(root.folder(place), names)
    if root.live:  # the kernel has had this file since Linux 6.1
        tree.files.setdefault("proc/sys/kernel/arch", f"{os.uname().machine}\n".encode())
    for key in reader.SYSCTLS:
        folder, _, name = key.rpartition(".")
        tree.copy(root.folder("proc/sys/" + folder.replace(".", "/")), (name,))
    _record_cpuinfo(tree)
    _record_cpus(tree)
    _record_nodes(tree)
    for address in root.names(root.folder("sys/bus/pci/devices")):
        if pci.ADDRESS.fullmatch(address):
            _record_pci(tree, tree.link(Folder("sys/bus/pci/devices"), address))
    for name in root.names(root.folder("sys/class/net")):
        _record_nic(tree, tree.link(Folder("sys/class/net"), name))
    base = root.folder("proc/irq")
    for name in root.folders(base):
        if name.isdigit():
            folder = Folder(f"{base}/{name}")
            files = ("smp_affinity_list", "effective_affinity_list", "affinity_hint", "node")
            tree.copy(folder, files)
            tree.folders.update(f"{folder}/{action}" for action in set(root.names(folder)) - irqs.FILES)


def _record_cpuinfo(tree: Tree) -> None:
    """Record the first CPU's part, of it only what tells kind and model of the CPU (ARM boards add a serial)."""
    head = virtualization.cpuinfo_head(tree.root).decode("utf-8", "replace").split("\n\n")[0]
    lines = [line for line in head.splitlines() if line.partition(":")[0].strip() in _CPUINFO_KEYS]
    if lines:
        tree.files["proc/cpuinfo"] = "".join(f"{line}\n" for line in lines).encode()


def _record_cpus(tree: Tree) -> None:
    root = tree.root
    base = root.folder("sys/devices/system/cpu")
    for name in root.folders(base):
        if not (name.startswith("cpu") and name[3:].isdigit()):
            continue
        folder = Folder(f"{base}/{name}")
        tree.folders.add(folder)
        tree.copy(folder, ("online", "cpu_capacity"))
        topology = root.child(folder, "topology")
        tree.copy(topology, _TOPOLOGY_FILES)
        if f"{topology}/thread_siblings_list" not in tree.files:
            tree.copy(topology, _OLD_TOPOLOGY_FILES)
        cache = root.child(folder, "cache")
        for index in root.folders(cache):
            if index.startswith("index"):
                tree.copy(Folder(f"{cache}/{index}"), _CACHE_FILES)
        for node in root.names(folder):
            if node.startswith("node") and node[4:].isdigit():
                tree.link(folder, node)


def _record_nodes(tree: Tree) -> None:
    root = tree.root
    base = root.folder("sys/devices/system/node")
    for name in root.folders(base):
        if not (name.startswith("node") and name[4:].isdigit()):
            continue
        folder = Folder(f"{base}/{name}")
        tree.folders.add(folder)
        tree.copy(folder, _NODE_FILES)
        if f"{folder}/cpulist" not in tree.files:
            tree.copy(folder, ("cpumap",))
        lines = (root.read(folder, "meminfo") or b"").splitlines(keepends=True)
        kept = [line for line in lines if b"MemTotal:" in line or b"MemFree:" in line]
        if kept:
            tree.files[f"{folder}/meminfo"] = b"".join(kept)
        pages = root.child(folder, "hugepages")
        for size in root.folders(pages):
            tree.copy(Folder(f"{pages}/{size}"), ("nr_hugepages", "free_hugepages"))


def _record_pci(tree: Tree, folder: Folder | None) -> None:
    if folder is None:
        return
    tree.folders.add(folder)
    tree.copy(folder, _PCI_FILES)
    there = tree.root.names(folder)
    for name in there:
        if name in ("driver", "physfn") or name.startswith("virtfn"):
            tree.link(folder, name)
    if "msi_irqs" in there:
        vectors = tree.root.child(folder, "msi_irqs")
        tree.copy(vectors, tree.root.names(vectors))


def _record_nic(tree: Tree, folder: Folder | None) -> None:
    root = tree.root
    if folder is None:
        return
    tree.folders.add(folder)
    tree.copy(folder, _NIC_FILES)
    for name in root.names(folder):
        if name == "device":
            device = tree.link(folder, name)
            if device is not None:
                tree.folders.add(device)
                tree.copy(device, ("numa_node",))
                tree.link(device, "driver")
        elif name == "master" or name.startswith(("lower_", "upper_")):
            tree.link(folder, name)
        elif name in ("bridge", "bonding"):
            tree.folders.add(f"{folder}/{name}")
    lines = (root.read(folder, "uevent") or b"").decode("ascii", "replace").splitlines()
    tree.files[f"{folder}/uevent"] = "".join(
        f"{line}\n" for line in lines if line.startswith(_UEVENT_KEYS)
    ).encode()
    queues = root.child(folder, "queues")
    for queue in root.folders(queues):
        tree.folders.add(f"{queues}/{queue}")
        tree.copy(Folder(f"{queues}/{queue}"), ("rps_cpus", "xps_cpus"))


def _record_guests(tree: Tree, facts: model.HostFacts, inventories: Mapping[str, inventory.Inventory]) -> None:
    running = {guest.name for guest in facts.guests}
    for guest in facts.guests:
        tree.files[f"run/libvirt/qemu/{guest.name}.pid"] = f"{guest.pid}\n".encode()
        if guest.domain is not None:
            tree.files[f"run/libvirt/qemu/{guest.name}.xml"] = domain_xml(
                guest.domain, inventories.get(guest.domain.name)
            )
        for thread in guest.threads:
            own = f"proc/{guest.pid}/task/{thread.tid}" if not thread.kernel else f"proc/{thread.tid}"
            for folder in {own, f"proc/{guest.pid}" if thread.tid == guest.pid else own}:
                _record_thread(tree, folder, guest.pid, thread)
    for one in facts.domains:
        if one.name not in running:
            tree.files[f"etc/libvirt/qemu/{one.name}.xml"] = domain_xml(one, inventories.get(one.name))


def _record_thread(tree: Tree, folder: str, pid: int, thread: model.Thread) -> None:
    """Write ``stat`` and ``status`` of a thread with what its facts say; all other fields are 0."""
    names = {
        "vcpu": "ALL CPUs/TCG" if thread.index is None else f"CPU {thread.index}/KVM",
        "emulator": "qemu-system",
        "iothread": f"IO iothread{'' if thread.index is None else thread.index}",
        "vhost": f"vhost-{pid}",
        "worker": "worker",
    }
    name = names[thread.kind]
    group, parent = (thread.tid, 2) if thread.kernel else (pid, 1)
    fields = [thread.tid, f"({name})", "S", parent, group, *([0] * 16), thread.start, *([0] * 30)]
    tree.files[f"{folder}/stat"] = f"{' '.join(map(str, fields))}\n".encode()
    status = f"Name:\t{name}\nTgid:\t{group}\nPid:\t{thread.tid}\nPPid:\t{parent}\n"
    if thread.affinity is not None:
        status += f"Cpus_allowed_list:\t{thread.affinity}\n"
    tree.files[f"{folder}/status"] = status.encode()


def domain_xml(one: domain.Domain, devices_of: inventory.Inventory | None = None) -> bytes:
    """Return domain XML that says what ``one`` and its devices say, less UUID, title, MAC addresses and files."""
    root = ElementTree.Element("domain", type=one.type)
    if one.domain_id is not None:
        root.set("id", str(one.domain_id))
    ElementTree.SubElement(root, "name").text = one.name
    metadata = ElementTree.SubElement(root, "metadata")
    instance = ElementTree.SubElement(metadata, f"{{{parsing.NOVA_NAMESPACE}}}instance")
    policy = ElementTree.SubElement(instance, f"{{{parsing.NOVA_NAMESPACE}}}extraSpec", name="hw:cpu_policy")
    policy.text = "dedicated" if one.dedicated else "shared"
    if one.request is not None:
        request = ElementTree.SubElement(metadata, f"{{{parsing.PERF_NAMESPACE}}}request")
        for key, value in one.request.extra_specs().items():
            ElementTree.SubElement(request, f"{{{parsing.PERF_NAMESPACE}}}spec", name=key).text = value
    ElementTree.SubElement(root, "vcpu").text = str(one.vcpus)
    ElementTree.SubElement(root, "iothreads").text = str(one.iothreads)
    tune = ElementTree.SubElement(root, "cputune")
    for vcpu, cpus in one.vcpu_pins.items():
        ElementTree.SubElement(tune, "vcpupin", vcpu=str(vcpu), cpuset=cpus)
    if one.emulator_pin is not None:
        ElementTree.SubElement(tune, "emulatorpin", cpuset=one.emulator_pin)
    for iothread, cpus in one.iothread_pins.items():
        ElementTree.SubElement(tune, "iothreadpin", iothread=str(iothread), cpuset=cpus)
    if one.memory_nodes is not None:
        numa = ElementTree.SubElement(root, "numatune")
        ElementTree.SubElement(numa, "memory", mode="strict", nodeset=one.memory_nodes)
    devices = ElementTree.SubElement(root, "devices")
    sizes = devices_of.rx_queue_sizes if devices_of is not None else ()
    mtus = devices_of.mtus if devices_of is not None else ()
    for interface, size, mtu in itertools.zip_longest(one.interfaces, sizes, mtus):
        if interface is not None:
            _interface_xml(devices, interface, size or "", mtu)
    for address in one.hostdevs:
        _hostdev_xml(devices, address)
    if devices_of is not None:
        inventory.add_to(root, devices_of)
    return ElementTree.tostring(root)


def _interface_xml(
    devices: ElementTree.Element, interface: domain.Interface, rx_queue_size: str, mtu: int | None
) -> None:
    element = ElementTree.SubElement(devices, "interface", type=interface.kind)
    if interface.device is not None:
        ElementTree.SubElement(element, "target", dev=interface.device)
    if interface.model is not None:
        ElementTree.SubElement(element, "model", type=interface.model)
    if mtu is not None:
        ElementTree.SubElement(element, "mtu", size=str(mtu))
    driver = ElementTree.SubElement(element, "driver", queues=str(interface.queues))
    if interface.driver is not None:
        driver.set("name", interface.driver)
    if rx_queue_size:
        driver.set("rx_queue_size", rx_queue_size)


def _hostdev_xml(devices: ElementTree.Element, address: str) -> None:
    number, bus, last = address.split(":")
    slot, _, function = last.partition(".")
    element = ElementTree.SubElement(devices, "hostdev", mode="subsystem", type="pci")
    source = ElementTree.SubElement(element, "source")
    parts = {"domain": number, "bus": bus, "slot": slot, "function": function}
    ElementTree.SubElement(source, "address", {key: f"0x{value}" for key, value in parts.items()})
