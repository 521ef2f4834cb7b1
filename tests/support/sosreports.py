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

from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model import host_model

#: What plugins of sos copy, as add_copy_spec() has it: processor, numa, hardware, networking, kernel, system, libvirt.
_COPIED = (
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
_ROWS = ("RX", "TX", "Other", "Combined")
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
    _put(report, "processor", "lscpu", "Architecture:          x86_64\n")
    _put(report, "numa", "numactl_--hardware", _numactl(facts))
    _put(report, "networking", "ip_-s_-d_link", _ip(facts))
    _put(report, "pci", "lspci_-nnvv", _lspci(facts))
    _add_guests(report, facts, names)
    return out


def pack(directory: str, out: str, mode: str = "w:xz") -> str:
    """Pack a report as sos does: one directory, its members by name."""
    with tarfile.open(out, mode) as file:
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
    if nic.pci is None:
        _put(report, "networking", f"ethtool_-i_{nic.name}", _DRIVER.format(driver="tun", pci=""))
        _put(report, "networking", f"ethtool_-l_{nic.name}", "netlink error: not supported\n")
        return
    (directory.parents[1] / "numa_node").write_text(f"{nic.node}\n")
    driver = _DRIVER.format(driver=nic.driver, pci=nic.pci)
    _put(report, "networking", f"ethtool_-i_{nic.name}", driver)
    _put(report, "networking", f"ethtool_{nic.name}", f"\tSpeed: {nic.speed_mbps}Mb/s\n")
    _put(report, "networking", f"ethtool_-k_{nic.name}", _FEATURES.format(name=nic.name))
    channels = {"RX": "n/a", "TX": "n/a", "Other": "1", "Combined": str(nic.rx_queues)}
    rings = {"RX": "2048", "TX": "2048"}
    _put(report, "networking", f"ethtool_-l_{nic.name}", _table("Channel", nic.name, channels))
    _put(report, "networking", f"ethtool_-g_{nic.name}", _table("Ring", nic.name, rings))


def _add_guests(report: pathlib.Path, facts: host_model.HostFacts, names: bool) -> None:
    """Add libvirt's status files, the rows of ``ps``, and with ``names`` those of ``pidstat``; the file that says
    where threads may run is of sos 4.9.
    """
    ps = [
        "F S UID          PID    PPID     LWP  C NLWP PRI  NI ADDR SZ WCHAN  STIME TTY          TIME CMD"
    ]
    ps.append(
        "4 S root           1       0       1  0    1  80   0 - 43796 ep_pol Feb09 ?        00:00:38 /sbin/init"
    )
    ps.append(
        "1 S root           2       0       2  0    1  80   0 -     0 kthrea Feb09 ?        00:00:00 [kthreadd]"
    )
    stat = ["Linux 6.12.0 (compute0) \t11/29/26 \t_x86_64_\t(64 CPU)", ""]
    stat.append(
        "15:32:01      UID      TGID       TID    %usr %system  %guest   %wait    %CPU   CPU  Command"
    )
    for guest in facts.guests:
        vcpus: list[str] = []
        allowed: list[str] = []
        command = f"/usr/bin/qemu-system-x86_64 -name guest={guest.name},debug-threads=on -S"
        for thread in guest.threads:
            number, own = thread.tid, str(thread.index)
            ps.append(
                f"3 S libvirt+ {guest.pid}       1 {number}  0   {len(guest.threads)}  80   0 - 855933 poll_s 16:18 ?  "
                f"     00:00:00 {command}"
            )
            name = {"vcpu": f"CPU {own}/KVM", "iothread": f"IO iothread{own}"}.get(thread.kind)
            name = name or {"vhost": f"vhost-{guest.pid}"}.get(thread.kind, "qemu-system-x86")
            stat.append(
                f"15:32:01    64055         - {number:9}    0.00    0.00    0.00    0.00    0.00     1  |__{name}"
            )
            allowed.append(f"pid {number}'s current affinity list: {thread.affinity}")
            if thread.kind == "vcpu":
                vcpus.append(f"<vcpu id='{own}' pid='{number}'/>")
        defined = report / "etc/libvirt/qemu" / f"{guest.name}.xml"
        status = (
            f"<domstatus state='running' reason='booted' pid='{guest.pid}'><vcpus>{''.join(vcpus)}</vcpus>"
            f"{defined.read_text()}</domstatus>"
        )
        (report / "run/libvirt/qemu" / f"{guest.name}.xml").write_text(status)
        if names:
            _put(report, "virsh", f"taskset_{guest.name}", "\n".join(allowed) + "\n")
    _put(report, "process", "ps_-elfL", "\n".join(ps) + "\n")
    if names:
        _put(report, "process", "pidstat_-tl", "\n".join(stat) + "\n")


def _table(what: str, name: str, values: dict[str, str]) -> str:
    rows = "".join(f"{key}:\t\t{value}\n" for key, value in values.items())
    maxima = rows.replace("2048", "8160")
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
        lines.append(
            f"{index}: {nic.name}: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu {nic.mtu} qdisc mq "
            f"state {(nic.operstate or 'up').upper()} mode DEFAULT group default qlen 1000"
        )
        queues = f"numtxqueues {nic.tx_queues} numrxqueues {nic.rx_queues}"
        lines.append("    link/ether 52:54:00:e2:28:a3 brd ff:ff:ff:ff:ff:ff promiscuity 0")
        kind = "tun type tap pi off vnet_hdr on " if nic.kind == "tap" else ""
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
