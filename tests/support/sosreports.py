# SPDX-License-Identifier: Apache-2.0
"""A generated host in the layout of a sosreport: what sos copies of it, and what its commands print.

    python -m tests.support.sosreports HOST OUT

Layouts are those of sos 4.0 to 4.10: outputs as ethtool 6.1, iproute2 6.1, util-linux 2.38 and procps 4.0 print them.
"""

import os
import pathlib
import shutil
import sys
import tarfile

from nova_perf_tuning.host.input.facts import ethtool, reader
from nova_perf_tuning.host.model import host_model

#: What plugins of sos copy, as add_copy_spec() has it: processor, hardware, networking, kernel, memory, system,
#: libvirt, openstack_nova, openstack_neutron, cgroups, systemd, tuned.
_COPIED = (
    "proc/net",
    "sys/devices/system/clocksource",
    "sys/devices/virtual/dmi",
    "sys/class/dmi",
    "sys/kernel/mm",
    "sys/module",
    "sys/fs/cgroup",
    "etc/default",
    "etc/sysconfig",
    "etc/neutron",
    "etc/openvswitch",
    "etc/systemd",
    "etc/tuned",
    "proc/cpuinfo",
    "proc/cmdline",
    "proc/interrupts",
    "proc/irq",
    "proc/sys",
    "sys/devices/system/cpu",
    "etc/libvirt/qemu",
    "run/libvirt/qemu",
    "etc/nova",
)
_NODES = "sys/devices/system/node"
_NODE_FILES = ("meminfo", "cpulist", "distance")
_DRIVER = """driver: {driver}
version: 6.12.0
firmware-version: 4.40
bus-info: {pci}
supports-statistics: yes
"""
#: What ``ip -d link`` says of a device.
_KINDS = {
    "tap": "tun type tap pi off vnet_hdr on ",
    "bridge": "bridge forward_delay 1500 hello_time 200 ",
    "bond": "bond mode 802.3ad miimon 100 ",
    "vlan": "vlan protocol 802.1Q id 5 ",
}
_FEATURES = """Features for {name}:
rx-checksumming: on
tx-checksumming: on
\ttx-checksum-ip-generic: on
generic-segmentation-offload: on
generic-receive-offload: on
large-receive-offload: off [fixed]
"""


def write(host: str, out: str, *, sysfs: bool = True, names: bool = True) -> str:
    """Write the report of the host below ``host`` to the new directory ``out``, and return it.

    :param sysfs: without it the directories of CPUs, nodes and interrupts are left out, as from a
        report that was cut.
    :param names: whether it has ``pidstat -tl`` and ``taskset``, as since sos 4.10.
    """
    facts = reader.read_host(host)
    report = pathlib.Path(out)
    report.mkdir(parents=True)
    for path in _COPIED:
        _copy(host, report, path, sysfs)
    if sysfs:
        for node in os.listdir(f"{host}/{_NODES}"):
            for name in _NODE_FILES:
                _copy(host, report, f"{_NODES}/{node}/{name}", sysfs)
    for nic in facts.nics:
        _add_nic(host, report, nic)
    _put(report, "processor", "lscpu_-ae", _lscpu(facts))
    xen = "Hypervisor vendor:  Xen\nVirtualization type:  para\n"
    machine = "Architecture:          x86_64\n"
    _put(report, "processor", "lscpu", machine + xen * (facts.virtualization == "xen-pv"))
    _put(report, "numa", "numactl_--hardware", _numactl(facts))
    _put(report, "networking", "ip_-s_-d_link", _ip(facts))
    _put(report, "pci", "lspci_-nnvv", _lspci(facts))
    interrupts = report / "proc/interrupts"
    if not interrupts.exists():
        interrupts.write_text(_interrupts(facts))
    _add_processes(host, report, facts, names)
    switch = pathlib.Path(host, "nova-perf/openvswitch/other_config")
    if switch.exists():
        name = "ovs-vsctl_-t_5_get_Open_vSwitch_._other_config"
        _put(report, "openvswitch", name, switch.read_text())
    return out


def pack(directory: str, out: str, mode: str = "w:xz", **options: int) -> str:
    """Pack a report as sos does: one directory, its members by name; ``options``: of the compression."""
    with tarfile.open(out, mode, **options) as file:
        file.add(directory, "sosreport-compute0-2026-11-29-abcdefg")
    return out


def _copy(host: str, report: pathlib.Path, path: str, sysfs: bool) -> None:
    source = pathlib.Path(host, path)
    if not source.exists() or (not sysfs and path.startswith(("sys", "proc/irq"))):
        return
    target = report / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copyfile(source, target)


def _put(report: pathlib.Path, plugin: str, name: str, text: str) -> None:
    place = report / "sos_commands" / plugin
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)


def _add_nic(host: str, report: pathlib.Path, nic: host_model.Nic) -> None:
    """Add what sos has of a network device: a link, flags, the node of its device; and ethtool's outputs."""
    link = pathlib.Path(host, "sys/class/net", nic.name)
    place = report / "sys/class/net" / nic.name
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(os.readlink(link))
    directory = report / os.path.relpath(os.path.realpath(link), os.path.realpath(host))
    directory.mkdir(parents=True)
    (directory / "flags").write_text("0x1003\n")
    counters = link / "statistics"
    if counters.is_dir():
        shutil.copytree(counters, directory / "statistics")
    if nic.pci is None:
        _put(report, "networking", f"ethtool_-i_{nic.name}", _DRIVER.format(driver="tun", pci=""))
        _put(report, "networking", f"ethtool_-l_{nic.name}", "netlink error: not supported\n")
        return
    (directory.parents[1] / "numa_node").write_text(f"{nic.node}\n")
    driver = _DRIVER.format(driver=nic.driver, pci=nic.pci)
    _put(report, "networking", f"ethtool_-i_{nic.name}", driver)
    _put(report, "networking", f"ethtool_{nic.name}", f"\tSpeed: {nic.speed_mbps}Mb/s\n")
    known = ethtool.read(reader.open_root(host), nic.name)
    features = _FEATURES.format(name=nic.name)
    channels = {"RX": "n/a", "TX": "n/a", "Other": "1", "Combined": str(nic.rx_queues)}
    most = channels
    if known is not None:
        features = f"Features for {nic.name}:\n"
        for feature, on in known.features.items():
            fixed = " [fixed]" if feature in known.fixed else ""
            features += f"{feature}: {'on' if on else 'off'}{fixed}\n"
        keys = ("rx", "tx", "combined")
        channels = {key.capitalize(): str(known.channels.get(key, 0)) for key in keys}
        most = {key.capitalize(): str(known.channels.get(f"{key}_max", 0)) for key in keys}
    _put(report, "networking", f"ethtool_-k_{nic.name}", features)
    table = _table("Channel", nic.name, channels, most)
    _put(report, "networking", f"ethtool_-l_{nic.name}", table)
    table = _table("Ring", nic.name, {"RX": "2048"}, {"RX": "8160"})
    _put(report, "networking", f"ethtool_-g_{nic.name}", table)


class _Printed:
    """What ``ps -elfL`` and ``pidstat -tl`` print."""

    def __init__(self) -> None:
        self.ps = ["F S UID PID PPID LWP C NLWP PRI NI ADDR SZ WCHAN STIME TTY TIME CMD"]
        self.stat = ["Linux 6.12.0 (compute0)  11/29/26  _x86_64_  (64 CPU)", ""]
        self.stat.append("15:32:01 UID TGID TID %usr %system %guest %wait %CPU CPU Command")
        self.add(1, 1, "/sbin/init")
        self.add(2, 2, "[kthreadd]")

    def add(self, pid: int, tid: int, command: str, name: str = "", parent: int = 1) -> None:
        """Add a thread; ``name``: what pidstat calls it."""
        self.ps.append(
            f"1 S root {pid} {parent} {tid} 0 1 80 0 - 0 poll_s 16:18 ? 00:00:00 {command}"
        )
        if name:
            self.stat.append(f"15:32:01 0 - {tid} 0.00 0.00 0.00 0.00 0.00 1 |__{name}")


def _add_processes(
    host: str, report: pathlib.Path, facts: host_model.HostFacts, names: bool
) -> None:
    """Add libvirt's status files, the outputs of ``ps``, and with ``names`` those of ``pidstat`` and ``taskset``."""
    printed = _Printed()
    for guest in facts.guests:
        _copy(host, report, f"proc/{guest.pid}/cgroup", True)
        _add_guest(report, guest, printed, names)
    for path in sorted(pathlib.Path(host, "proc").glob("[0-9]*/comm")):
        number = int(path.parent.name)
        if number != 1:
            printed.add(number, number, f"/usr/sbin/{path.read_text().strip()}")
    pmd = ""
    for pid in sorted({thread.pid for thread in facts.programs}):
        printed.add(pid, pid, "ovs-vswitchd unix:db")
    for thread in facts.programs:
        printed.add(thread.pid, thread.tid, "ovs-vswitchd unix:db", thread.name)
        if thread.is_bound:
            pmd += f"pmd thread numa_id 0 core_id {thread.affinity}:\n  isolated : false\n"
    if pmd:
        _put(report, "openvswitch", "ovs-appctl_dpif-netdev.pmd-rxq-show", pmd)
    _put(report, "process", "ps_-elfL", "\n".join(printed.ps) + "\n")
    if names:
        _put(report, "process", "pidstat_-tl", "\n".join(printed.stat) + "\n")


def _add_guest(
    report: pathlib.Path, guest: host_model.GuestProcess, printed: _Printed, names: bool
) -> None:
    vcpus: list[str] = []
    allowed: list[str] = []
    command = f"/usr/bin/qemu-system-x86_64 -name guest={guest.name},debug-threads=on -S"
    for thread in guest.threads:
        number, own = thread.tid, str(thread.index)
        if thread.kernel:
            printed.add(number, number, f"[vhost-{guest.pid}]", parent=2)
            continue
        named = {"vcpu": f"CPU {own}/KVM", "iothread": f"IO iothread{own}"}
        named["vhost"] = f"vhost-{guest.pid}"
        printed.add(guest.pid, number, command, named.get(thread.kind, "qemu-system-x86"))
        allowed.append(f"pid {number}'s current affinity list: {thread.affinity}")
        if thread.kind == "vcpu":
            vcpus.append(f"<vcpu id='{own}' pid='{number}'/>")
    status = report / "run/libvirt/qemu" / f"{guest.name}.xml"
    defined = status
    if not status.exists():
        defined = report / "etc/libvirt/qemu" / f"{guest.name}.xml"
    xml = defined.read_text()
    domain = xml[xml.index("<domain ") : xml.rindex("</domain>") + len("</domain>")]
    status.write_text(
        f"<domstatus state='running' reason='booted' pid='{guest.pid}'><vcpus>{''.join(vcpus)}</vcpus>"
        f"{domain}</domstatus>"
    )
    if names:
        _put(report, "virsh", f"taskset_{guest.name}", "\n".join(allowed) + "\n")


def _interrupts(facts: host_model.HostFacts) -> str:
    """Return /proc/interrupts of a host that has none."""
    lines = ["  CPU0"]
    for index, irq in enumerate(facts.irqs.values()):
        lines.append(f"{irq.number}: 1 PCI-MSIX-{irq.device} {index}-edge {irq.name or ''}")
    return "\n".join(lines) + "\n"


def _table(what: str, name: str, values: dict[str, str], most: dict[str, str]) -> str:
    rows = "".join(f"{key}:\t\t{value}\n" for key, value in values.items())
    maxima = "".join(f"{key}:\t\t{value}\n" for key, value in most.items())
    return (
        f"{what} parameters for {name}:\nPre-set maximums:\n{maxima}"
        f"Current hardware settings:\n{rows}"
    )


def _lscpu(facts: host_model.HostFacts) -> str:
    """Return ``lscpu -ae``; cores and caches are numbered over the whole machine."""
    cores: dict[str, int] = {}
    caches: dict[str, int] = {}
    lines = ["CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE"]
    for cpu in facts.cpus:
        if not cpu.online:
            lines.append(f"{cpu.id:3} {'-':>4} {'-':>6} {'-':>4} -                  no")
            continue
        core = cores.setdefault(cpu.siblings, len(cores))
        cache = caches.setdefault(cpu.l3 or "", len(caches))
        ids = f"{core}:{core}:{core}:{cache}"
        lines.append(f"{cpu.id:3} {cpu.node:4} {cpu.package:6} {core:4} {ids:16} yes")
    return "\n".join(lines) + "\n"


def _numactl(facts: host_model.HostFacts) -> str:
    lines = [f"available: {len(facts.nodes)} nodes (0-{len(facts.nodes) - 1})"]
    for node in facts.nodes:
        listed = [str(cpu.id) for cpu in facts.cpus if cpu.node == node.id]
        lines.append(f"node {node.id} cpus: {' '.join(listed)}")
        lines.append(f"node {node.id} size: {(node.memory_kib or 0) // 1024} MB")
        lines.append(f"node {node.id} free: 165 MB")
    lines.append("node distances:")
    lines.append("node " + " ".join(f"{node.id:3}" for node in facts.nodes))
    for node in facts.nodes:
        row = " ".join(f"{distance:3}" for distance in node.distances.values())
        lines.append(f"{node.id:3}: {row} ")
    return "\n".join(lines) + "\n"


def _ip(facts: host_model.HostFacts) -> str:
    lines: list[str] = []
    for index, nic in enumerate(facts.nics, 1):
        above = nic.bond or nic.bridge
        master = f"master {above} " if above else ""
        lines.append(
            f"{index}: {nic.name}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {nic.mtu} qdisc mq "
            f"{master}state {(nic.operstate or 'up').upper()} mode DEFAULT group default qlen 1000"
        )
        queues = f"numtxqueues {nic.tx_queues} numrxqueues {nic.rx_queues}"
        lines.append("    link/ether 52:54:00:e2:28:a3 brd ff:ff:ff:ff:ff:ff promiscuity 0")
        kind = _KINDS.get(nic.kind, "")
        lines.append(f"    {kind}addrgenmode eui64 {queues} gso_max_size 65536")
        lines.append("    RX: bytes  packets  errors  dropped overrun mcast   ")
        lines.append("    100        10       0       0       0       0       ")
    return "\n".join(lines) + "\n"


def _lspci(facts: host_model.HostFacts) -> str:
    blocks: list[str] = []
    for nic in facts.nics:
        if nic.pci is None:
            continue
        address = nic.pci.removeprefix("0000:")
        blocks.append(
            f"{address} Ethernet controller [0200]: Intel Corporation Ethernet Controller E810-C for QSFP [8086:1592] "
            f"(rev 02)\n\tSubsystem: Intel Corporation E810 [8086:0002]\n\tNUMA node: {nic.node}\n"
            f"\tCapabilities: [70] MSI-X: Enable+ Count=2048 Masked-\n\tKernel driver in use: {nic.driver}\n"
        )
    return "\n".join(blocks)


if __name__ == "__main__":
    write(*sys.argv[1:])
