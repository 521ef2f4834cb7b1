# SPDX-License-Identifier: Apache-2.0
"""Hosts for the audit, as paths and texts: one on which every rule holds, and Oracle's before and after tuning.

They are kept in memory, where a change costs nothing, and grown into a directory where something is to be written.
"""

import functools
import json
import os
import pathlib
from collections.abc import Mapping

from nova_perf_tuning.host.audit import host as host_module
from nova_perf_tuning.host.input.facts import archive, reader
from tests.support import testcase, trees

#: Path -> text with its newlines; ``-> TARGET`` is a link, :data:`DIRECTORY` a directory; None in a change: gone.
Tree = Mapping[str, str | None]
DIRECTORY = "<directory>"

DEDICATED = "2-3,6-7,10-11,14-15"
SHARED = "0-1,4-5,8-9,12-13"
_NODES = ("0-3,8-11", "4-7,12-15")
_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
FEATURES = {
    "rx-checksum": True,
    "tx-checksum-ip-generic": True,
    "tx-scatter-gather": True,
    "tx-tcp-segmentation": True,
    "tx-tcp6-segmentation": True,
    "tx-generic-segmentation": True,
    "rx-gro": True,
    "rx-lro": False,
}


class TreeRoot(archive.ArchiveRoot):
    """A recorded host that was never a file."""

    def __init__(self, tree: Tree) -> None:
        self._hold({path: _entry(text) for path, text in tree.items()})
        self.entries = self._entries


def _entry(text: str | None) -> archive.Entry:
    if text is None or text == DIRECTORY:
        return set()
    return text[3:] if text.startswith("-> ") else text.encode()


def changed(tree: Tree, changes: Tree) -> dict[str, str | None]:
    """Return ``tree`` with ``changes``; None takes a path away, with all that is below it."""
    gone = tuple(path for path, text in changes.items() if text is None)
    kept = {path: text for path, text in tree.items() if not path.startswith(gone or ("\0",))}
    return {**kept, **{path: text for path, text in changes.items() if text is not None}}


def grow(test: testcase.TestCase, tree: Tree) -> str:
    """Write a host into a directory that is removed after ``test``, and return its root."""
    return trees.grow(test, _plain(tree), end="")


def write(directory: str, tree: Tree) -> None:
    """Write a host into a directory."""
    trees.write(directory, _plain(tree), end="")


def _plain(tree: Tree) -> Tree:
    return {path: None if text == DIRECTORY else text for path, text in tree.items()}


def content(root: str) -> dict[str, bytes | None]:
    """Return every file below ``root`` but the journal's, and every empty directory."""
    contents: dict[str, bytes | None] = {}
    for directory, directories, names in os.walk(root):
        where = os.path.relpath(directory, root)
        if where == "var/lib":
            directories.clear()
            continue
        if not directories and not names:
            contents[where] = None
        for name in names:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                contents[os.path.relpath(path, root)] = pathlib.Path(path).read_bytes()
    return contents


def view(tree: Tree, **options: object) -> host_module.Host:
    """Return the host of a tree, ready to be judged."""
    root = TreeRoot(tree)
    return host_module.Host(root, reader.read_root(root), host_module.Options(**options))  # type: ignore[arg-type]


def nic(
    name: str,
    *,
    node: int,
    mtu: int = 9000,
    speed: int = 25000,
    master: str = "",
    address: str = "",
) -> dict[str, str | None]:
    """Return a physical NIC with counters and features."""
    address = address or f"0000:{0x41 + node:02x}:00.0"
    device = f"sys/devices/pci{address[:7]}/{address}"
    directory = f"{device}/net/{name}"
    tree: dict[str, str | None] = {
        f"{device}/numa_node": f"{node}\n",
        f"{device}/irq": "0\n",
        f"{directory}/mtu": f"{mtu}\n",
        f"{directory}/speed": f"{speed}\n",
        f"{directory}/operstate": "up\n",
        f"{directory}/type": "1\n",
        f"{directory}/device": "-> ../../../" + address,
        f"{directory}/queues/rx-0/rps_cpus": "0000\n",
        f"{directory}/queues/rx-1/rps_cpus": "0000\n",
        f"{directory}/queues/tx-0/xps_cpus": "0000\n",
        f"{directory}/queues/tx-1/xps_cpus": "0000\n",
        f"sys/class/net/{name}": f"-> ../../{directory[4:]}",
        f"sys/bus/pci/devices/{address}": f"-> ../../../{device[4:]}",
        f"nova-perf/ethtool/{name}.json": ethtool(),
    }
    counters = {
        "rx_packets": 5000000,
        "tx_packets": 5000000,
        "rx_missed_errors": 0,
        "rx_fifo_errors": 0,
    }
    tree |= {
        f"{directory}/statistics/{counter}": f"{count}\n" for counter, count in counters.items()
    }
    if master:
        tree[f"{directory}/master"] = "-> ../../../../virtual/net/" + master
    return tree


def ethtool(
    features: Mapping[str, bool] | None = None, rings: object = None, channels: object = None
) -> str:
    """Return the record of a NIC's features."""
    return json.dumps(
        {
            "features": {**FEATURES, **(features or {})},
            "fixed": [],
            "rings": rings or {"rx": 1024, "tx": 1024, "rx_max": 4096, "tx_max": 4096},
            "channels": channels or {"combined": 4, "combined_max": 32},
        }
    )


def irq(
    number: int, name: str, cpu: int, device: str, *, allowed: str = ""
) -> dict[str, str | None]:
    """Return an interrupt that fires on ``cpu``."""
    return {
        f"proc/irq/{number}/smp_affinity_list": f"{allowed or cpu}\n",
        f"proc/irq/{number}/effective_affinity_list": f"{cpu}\n",
        f"proc/irq/{number}/node": "0\n",
        f"proc/irq/{number}/{name}": DIRECTORY,
        f"{device}/msi_irqs/{number}": "msix\n",
    }


def virtual(
    name: str, kind: str, mtu: int, *, master: str = "", drops: int = 0
) -> dict[str, str | None]:
    """Return a bridge, bond or tap."""
    directory = f"sys/devices/virtual/net/{name}"
    mark = {"bridge": "bridge/bridge_id", "bond": "bonding/mode", "tap": "tun_flags"}[kind]
    tree: dict[str, str | None] = {
        f"{directory}/mtu": f"{mtu}\n",
        f"{directory}/operstate": "up\n",
        f"{directory}/type": "1\n",
        f"{directory}/{mark}": "1\n",
        f"{directory}/queues/rx-0/rps_cpus": "0000\n",
        f"{directory}/queues/tx-0/xps_cpus": "0000\n",
        f"{directory}/statistics/tx_packets": "1000000\n",
        f"{directory}/statistics/tx_dropped": f"{drops}\n",
        f"sys/class/net/{name}": f"-> ../../devices/virtual/net/{name}",
    }
    if master:
        tree[f"{directory}/master"] = f"-> ../{master}"
    return tree


def domain(
    name: str = "instance-1",
    *,
    type: str = "kvm",
    vcpus: int = 2,
    pins: tuple[str, ...] = ("2", "3"),
    memory_gib: int = 4,
    model: str = "virtio",
    driver: str = "<driver name='vhost' queues='2'/>",
    bus: str = "virtio",
    disk: str = "<driver type='qcow2' cache='none' io='native'/>",
    source: str = "block",
    backing: str = "<memoryBacking><hugepages/></memoryBacking>",
    features: str = "<features><hyperv mode='custom'><relaxed state='on'/><vapic state='on'/>"
    "<spinlocks state='on'/><vpindex state='on'/><synic state='on'/></hyperv></features>"
    "<clock><timer name='hypervclock' present='yes'/></clock>",
    os_type: str = "linux",
    devices: str = "",
    numa: str = "",
    policy: str = "dedicated",
    device: str = "tap0",
) -> str:
    """Return domain XML of the shape Nova gives to libvirt."""
    near = {int(cpus) // 4 % 2 for cpus in pins if cpus.isdecimal()}
    tune = f"<numatune><memory mode='strict' nodeset='{min(near)}'/></numatune>" if near else ""
    emulator = "4-5,12-13" if near == {1} else "0-1,8-9"
    pinned = "".join(
        f"<vcpupin vcpu='{index}' cpuset='{cpus}'/>" for index, cpus in enumerate(pins)
    )
    return (
        f"<domain type='{type}'><name>{name}</name><uuid>7cf42b4b-0000-4000-8000-000000000001</uuid>"
        "<metadata><nova:instance xmlns:nova='http://openstack.org/xmlns/libvirt/nova/1.1'><nova:flavor><nova:extraSpecs>"
        f"<nova:extraSpec name='hw:cpu_policy'>{policy}</nova:extraSpec></nova:extraSpecs></nova:flavor>"
        f"<nova:image><nova:properties><nova:property name='os_type'>{os_type}</nova:property></nova:properties>"
        f"</nova:image></nova:instance></metadata><memory unit='KiB'>{memory_gib << 20}</memory>{backing}"
        f"<vcpu>{vcpus}</vcpu><cputune>{pinned}<emulatorpin cpuset='{emulator}'/></cputune>{tune}"
        f"<os><type machine='pc-q35-9.0'>hvm</type></os>{features}<cpu mode='host-model'>{numa}</cpu><devices>"
        f"<disk type='{source}' device='disk'>{disk}<target dev='vda' bus='{bus}'/></disk>{devices}"
        f"<interface type='bridge'><target dev='{device}'/><model type='{model}'/>{driver}</interface>"
        "</devices></domain>"
    )


def process(
    name: str = "instance-1",
    pid: int = 5000,
    vcpus: tuple[str, ...] = ("2", "3"),
    own: str = "0-1,8-9",
    vhost: str = "1,9",
) -> dict[str, str | None]:
    """Return the running QEMU of a guest."""
    threads = [("qemu-system-x86", own), ("IO iothread1", own), (f"vhost-{pid}", vhost)]
    threads += [(f"CPU {index}/KVM", cpus) for index, cpus in enumerate(vcpus)]
    tree: dict[str, str | None] = {f"run/libvirt/qemu/{name}.pid": f"{pid}\n"}
    fields = " ".join(["0"] * 17)
    for tid, (comm, cpus) in enumerate(threads, pid):
        directory = f"proc/{pid}/task/{tid}"
        tree[f"{directory}/stat"] = f"{tid} ({comm}) S 1 {fields} 777 {fields} 0 0\n"
        ids = f"Name:\t{comm}\nTgid:\t{pid}\nPid:\t{tid}\n"
        tree[f"{directory}/status"] = f"{ids}Cpus_allowed_list:\t{cpus}\nMems_allowed_list:\t0\n"
    leader = f"proc/{pid}/task/{pid}"
    tree |= {f"proc/{pid}/{file}": tree[f"{leader}/{file}"] for file in ("stat", "status")}
    tree[f"proc/{pid}/comm"] = "qemu-system-x86\n"
    return tree


def napi_thread(
    cpus: str, name: str = "napi/eth0-8193", parent: int = 2, tid: int = 600
) -> dict[str, str | None]:
    """Return a thread that polls a NIC."""
    fields, ids = (
        " ".join(["0"] * 17),
        f"Name:\t{name}\nTgid:\t{tid}\nPid:\t{tid}\nPPid:\t{parent}\n",
    )
    return {
        f"proc/{tid}/stat": f"{tid} ({name}) S {parent} {fields} 55 {fields} 0 0\n",
        f"proc/{tid}/status": f"{ids}Cpus_allowed_list:\t{cpus}\n",
    }


def kernel_thread(
    name: str, cpus: str, tid: int = 36, flags: int = 0x208040
) -> dict[str, str | None]:
    """Return a thread of the kernel; by its flags the kernel binds it or not."""
    fields = " ".join(["0"] * 12)
    ids = f"Name:\t{name}\nTgid:\t{tid}\nPid:\t{tid}\nPPid:\t2\n"
    rest = " ".join(["0"] * 19)
    return {
        f"proc/{tid}/stat": f"{tid} ({name}) S 2 0 0 0 -1 {flags} {fields} 55 {rest} 0 0\n",
        f"proc/{tid}/status": f"{ids}Cpus_allowed_list:\t{cpus}\n",
    }


def cpus(
    count: int, packages: int, *, online: str, smt: bool = True, per_core: int = 2
) -> dict[str, str | None]:
    """Return CPUs; with ``smt`` the second threads are the upper half, else neighbours."""
    tree: dict[str, str | None] = {
        f"{_CPU}/online": f"{online}\n",
        f"{_CPU}/isolated": "\n",
        f"{_CPU}/nohz_full": "\n",
    }
    half = count // 2
    for cpu in range(count):
        core = cpu % half if smt else cpu // per_core
        package = core // (half // packages) if smt else cpu // (count // packages)
        siblings = (
            f"{core},{core + half}"
            if smt
            else f"{core * per_core}-{core * per_core + per_core - 1}"
        )
        directory = f"{_CPU}/cpu{cpu}/topology"
        tree |= {
            f"{directory}/core_cpus_list": f"{siblings}\n",
            f"{directory}/core_id": f"{core}\n",
            f"{directory}/physical_package_id": f"{package}\n",
        }
    return tree


def nodes(lists: tuple[str, ...], memory_gib: int = 64) -> dict[str, str | None]:
    """Return NUMA nodes."""
    tree: dict[str, str | None] = {
        f"{_NODE}/online": f"0-{len(lists) - 1}\n" if len(lists) > 1 else "0\n"
    }
    for node, text in enumerate(lists):
        distances = ("10" if other == node else "21" for other in range(len(lists)))
        tree |= {
            f"{_NODE}/node{node}/cpulist": f"{text}\n",
            f"{_NODE}/node{node}/distance": " ".join(distances) + "\n",
            f"{_NODE}/node{node}/meminfo": f"Node {node} MemTotal:       {memory_gib << 20} kB\n",
        }
    return tree


SYSCTLS = {
    "kernel/numa_balancing": "0",
    "kernel/timer_migration": "1",
    "kernel/watchdog": "1",
    "kernel/watchdog_cpumask": "0-1,4-5,8-9,12-13",
    "kernel/osrelease": "6.12.0-1-amd64",
    "kernel/random/boot_id": "11111111-2222-3333-4444-555555555555",
    "net/bridge/bridge-nf-call-arptables": "0",
    "net/bridge/bridge-nf-call-ip6tables": "0",
    "net/bridge/bridge-nf-call-iptables": "0",
    "net/core/netdev_max_backlog": "1000",
    "net/core/rmem_max": "4194304",
    "net/core/rps_default_mask": "0000",
    "net/core/rps_sock_flow_entries": "0",
    "net/core/wmem_max": "4194304",
    "net/ipv4/tcp_moderate_rcvbuf": "1",
    "net/ipv4/tcp_rmem": "4096\t131072\t6291456",
    "net/ipv4/tcp_wmem": "4096\t16384\t4194304",
    "net/ipv4/tcp_sack": "1",
    "net/ipv4/tcp_window_scaling": "1",
}
NOVA_CONF = f"""[compute]
cpu_dedicated_set = {DEDICATED}
cpu_shared_set = {SHARED}
[libvirt]
virt_type = kvm
cpu_power_management = true
cpu_power_management_strategy = cpu_state
[neutron_physnet_physnet1]
numa_nodes = 0
"""
ETH0 = "sys/devices/pci0000:41/0000:41:00.0"


NVME = "sys/devices/pci0000:42/0000:42:00.0"
#: The cgroup of the guest that runs.
SCOPE = "sys/fs/cgroup/machine.slice/machine-qemu-1-instance-1.scope"


def good() -> dict[str, str | None]:
    """Return a compute host of 2 nodes and 16 CPUs on which every rule holds."""
    tree: dict[str, str | None] = {}
    tree |= cpus(16, 2, online="0-15") | nodes(_NODES)
    tree |= {f"{_CPU}/isolated": f"{DEDICATED}\n", f"{_CPU}/nohz_full": f"{DEDICATED}\n"}
    tree |= nic("eth0", node=0, master="br0", address="0000:41:00.0")
    tree |= irq(40, "eth0-TxRx-0", 1, ETH0) | irq(41, "eth0-TxRx-1", 9, ETH0)
    tree |= {f"{ETH0}/net/eth0/threaded": "1\n"} | napi_thread("1")
    tree |= virtual("br0", "bridge", 9000) | virtual("tap0", "tap", 9000, master="br0")
    tree |= process() | {"run/libvirt/qemu/instance-1.xml": domain()}
    tree |= {
        "etc/libvirt/qemu/windows.xml": domain("windows", pins=("10", "11"), os_type="windows", device="tap9"),
        "etc/libvirt/qemu/scsi.xml": domain(
            "scsi", pins=("6", "7"), bus="scsi", device="tap8",
            devices="<controller type='scsi' model='virtio-scsi'><driver queues='2'/></controller>",
        ),
    }  # fmt: skip
    tree |= {f"proc/sys/{key}": f"{value}\n" for key, value in SYSCTLS.items()}
    tree |= {
        "proc/cmdline": f"isolcpus=managed_irq,domain,{DEDICATED} nohz_full={DEDICATED} irqaffinity={SHARED}\n",
        "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu vmx lm tsc\n\n",
        "proc/net/softnet_stat": "0049a1f0 00000000 00000002 0 0 0 0 0 0 0 0 0 0\n" * 16,
        "etc/nova/nova.conf": NOVA_CONF,
        "etc/neutron/plugins/ml2/linuxbridge_agent.ini": "[linux_bridge]\n"
        "physical_interface_mappings = physnet1:eth0\n",
        "var/cache/libvirt/qemu/capabilities/a.xml": "<qemuCaps><selfvers>10000000</selfvers>"
        "<version>9000000</version></qemuCaps>\n",
        "sys/class/misc/kvm": DIRECTORY,
        "sys/class/misc/vhost-net": DIRECTORY,
        "sys/kernel/mm/ksm/run": "0\n",
        "sys/kernel/mm/ksm/merge_across_nodes": "1\n",
        "sys/kernel/mm/transparent_hugepage/enabled": "always [madvise] never\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
        "sys/devices/system/clocksource/clocksource0/available_clocksource": "tsc hpet acpi_pm\n",
        f"{_CPU}/cpu2/cpuidle/state0/latency": "0\n",
        f"{_CPU}/cpu2/cpuidle/state1/latency": "2\n",
        "etc/sysctl.d/99-sysctl.conf": "# nothing\n",
        "etc/tmpfiles.d/README": "nothing\n",
        "etc/udev/rules.d": DIRECTORY,
        "proc/1/comm": "systemd\n",
    }  # fmt: skip
    tree |= kernel_thread("kcompactd0", "0-1,8-9")
    tree |= irq(50, "nvme0q1", 0, NVME) | {
        f"{NVME}/numa_node": "0\n",
        "sys/bus/pci/devices/0000:42:00.0": f"-> ../../../{NVME[4:]}",
        "sys/devices/virtual/workqueue/cpumask": "3333\n",
        "sys/devices/system/machinecheck/machinecheck0/check_interval": "0\n",
        "proc/5000/cgroup": f"0::/{SCOPE.removeprefix('sys/fs/cgroup/')}/libvirt/emulator\n",
        f"{SCOPE}/libvirt/cpu.max": "max 100000\n",
        f"{SCOPE}/libvirt/cpu.stat": "usage_usec 10\nnr_throttled 0\n",
        f"{SCOPE}/libvirt/vcpu0/cpu.max": "max 100000\n",
        f"{SCOPE}/libvirt/vcpu0/cpu.stat": "usage_usec 10\nnr_throttled 0\n",
    }
    for policy in range(16):
        governor = f"{_CPU}/cpufreq/policy{policy}/scaling"
        tree[f"{governor}_governor"] = "performance\n"
        tree[f"{governor}_available_governors"] = "performance powersave\n"
    return tree


#: What the path of Oracle's paper is: 10 Gb/s, and the 100 ms that it assumes.
ORACLE_PATH = {"bandwidth_mbps": 10000, "rtt_ms": 100.0}
_ORACLE_ETH = "sys/devices/pci0000:10/0000:10:00.0"


def oracle(*, tuned: bool) -> dict[str, str | None]:
    """Return the large server of Oracle's paper as a recorded host, before or after its steps.

    8 sockets of 10 cores of 2 threads, 256 GB; 160 CPUs before, the 20 of the first socket after; a 10 Gb/s port
    on a bridge; a guest of 2 vCPUs, and one too large for a socket before.
    """
    online = "0-19" if tuned else "0-159"
    tree = cpus(160, 8, online=online, smt=False)
    tree |= nodes(
        ("0-19",) if tuned else tuple(f"{start}-{start + 19}" for start in range(0, 160, 20)), 32
    )
    mtu = 9000 if tuned else 1500
    tree |= nic("eth4", node=0, mtu=mtu, speed=10000, master="br0", address="0000:10:00.0")
    off = (
        {}
        if tuned
        else {"tx-tcp-segmentation": False, "tx-checksum-ip-generic": False, "rx-gro": False}
    )
    channels = {"combined": 4, "combined_max": 4}
    tree["nova-perf/ethtool/eth4.json"] = ethtool(off | {"rx-lro": not tuned}, channels=channels)
    for queue in range(4):
        cpu = queue + 2 if tuned else (0, 45, 0, 121)[queue]
        tree |= irq(
            320 + queue, f"eth4-TxRx-{queue}", cpu, _ORACLE_ETH, allowed="" if tuned else "0-159"
        )
    tree |= virtual("br0", "bridge", mtu) | virtual("vif1.0", "tap", mtu, master="br0")
    nf = "0" if tuned else "1"
    tree |= {
        "proc/1/comm": "init\n",
        "proc/cpuinfo": "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: fpu lm vmx\n\n",
        "proc/sys/kernel/osrelease": "2.6.39-300.22.2.el5uek\n",
        "proc/sys/net/core/rmem_max": "134217728\n" if tuned else "131071\n",
        "proc/sys/net/core/wmem_max": "134217728\n" if tuned else "131071\n",
        "proc/sys/net/core/netdev_max_backlog": "300000\n" if tuned else "1000\n",
        "proc/sys/net/ipv4/tcp_rmem": "4096\t87380\t134217728\n"
        if tuned
        else "4096\t87380\t4194304\n",
        "proc/sys/net/ipv4/tcp_wmem": "4096\t65536\t134217728\n"
        if tuned
        else "4096\t16384\t4194304\n",
        "proc/sys/net/ipv4/tcp_moderate_rcvbuf": "1\n" if tuned else "0\n",
        "proc/net/softnet_stat": (
            "0f49a1f0 00000000 00000000\n" if tuned else "0f49a1f0 00013a5e 00000300\n"
        )
        * 4,
    }
    tree |= {
        f"proc/sys/net/bridge/bridge-nf-call-{name}": f"{nf}\n"
        for name in ("iptables", "ip6tables", "arptables")
    }
    pins = ("0-19", "0-19") if tuned else ()
    plain = functools.partial(domain, policy="shared", driver="", features="", backing="")
    tree["etc/libvirt/qemu/myvm.xml"] = plain("myvm", pins=pins, memory_gib=2, device="vif1.0")
    if not tuned:
        tree["proc/812/comm"] = "irqbalance\n"
        large = plain("large", vcpus=40, pins=(), memory_gib=8, device="vif2.0")
        tree["etc/libvirt/qemu/large.xml"] = large
    return tree
