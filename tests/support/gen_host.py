# SPDX-License-Identifier: Apache-2.0
"""Write a synthetic sysroot of an OpenStack compute host (text files and links only).

The tree has the parts of /sys, /proc, /etc and /run that our readers and irqbalance read: CPU and NUMA topology,
PCI network cards with MSI-X vectors and queues, interrupts with affinities, and running libvirt guests with their
QEMU threads. Formats follow Linux 6.x on x86-64: bit masks are groups of 32 bits as wide as the CPU count, the
columns of /proc/interrupts are those of show_interrupts(), vhost workers are tasks of QEMU (6.4 and later). The
same preset always gives the same tree, byte for byte.

    python -m tests.support.gen_host OUT [PRESET [GUESTS]]

A static tree cannot refuse a write, keep two views of one affinity in step or count interrupts: use it for
topology, parsing, planning and timing, not for kernel behaviour.
"""

import functools
import math
import os
import random
import sys
import types
import uuid

from nova_perf_tuning.cpulist import format as cpulist

#: CPUs, nodes, packages, NICs, queues of each and guests.
SIZES = ("cpus", "nodes", "packages", "nics", "queues", "guests")
PRESETS = {
    "tiny": (8, 2, 2, 1, 4, 2),
    "small": (64, 2, 2, 2, 16, 16),
    "huge": (1024, 8, 2, 16, 128, 512),
}
LLC_CORES = 8
CACHES = (
    ("1", "Data", 48),
    ("1", "Instruction", 32),
    ("2", "Unified", 2048),
    ("3", "Unified", 32768),
)
SYSCTL = {
    "net/core": {
        "busy_poll": 0,
        "netdev_max_backlog": 1000,
        "rmem_max": 212992,
        "wmem_max": 212992,
    },
    "net/ipv4": {"tcp_rmem": "4096\t131072\t6291456", "tcp_wmem": "4096\t16384\t4194304"},
    "net/bridge": {"bridge-nf-call-iptables": 0, "bridge-nf-call-ip6tables": 0},
    "kernel": {"numa_balancing": 1, "osrelease": "6.12.0-synthetic"},
}
FLAGS = "fpu vme de pse tsc msr pae cx8 apic sep lm constant_tsc nonstop_tsc x2apic aes avx avx2"


def cpumask(cpus, width):
    """Kernel mask format (%*pb): groups of 32 bits, as many digits as `width` CPUs need."""
    bits = sum(1 << cpu for cpu in set(cpus))
    return ",".join(
        f"{(bits >> low) & 0xFFFFFFFF:0{(min(32, width - low) + 3) // 4}x}"
        for low in reversed(range(0, width, 32))
    )


class Tree:
    """Writes files below a root with as few system calls as it can."""

    def __init__(self, root):
        self.root, self.made = root, set()

    def mkdir(self, path):
        if path not in self.made:
            os.makedirs(f"{self.root}/{path}", exist_ok=True)
            self.made.add(path)

    def put(self, directory, values):
        """Write {name: value} into `directory`; each value gets one newline at its end."""
        self.mkdir(directory)
        for name, value in values.items():
            data = f"{value}\n".encode()
            fd = os.open(
                f"{self.root}/{directory}/{name}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644
            )
            os.write(fd, data)
            os.close(fd)

    def link(self, path, target):
        """Symbolic link at `path` to `target`, both relative to the root."""
        directory = os.path.dirname(path)
        self.mkdir(directory)
        os.symlink(os.path.relpath(target, directory), f"{self.root}/{path}")


class Host:
    """Topology arithmetic: SMT siblings are c and c+cores, as on most x86-64 servers."""

    def __init__(self, opt):
        self.opt, self.n = opt, opt.cpus
        self.cores = opt.cpus // 2
        self.per_node = self.cores // opt.nodes
        self.llc_cores = math.gcd(
            LLC_CORES, self.per_node
        )  # a last-level cache never spans two nodes
        self.rng = random.Random(1)

    def mask(self, cpus):
        return cpumask(cpus, self.n)

    def threads(self, cores):
        return [c for core in cores for c in (core, core + self.cores)]

    def node_of(self, cpu):
        return cpu % self.cores // self.per_node

    def node_cpus(self, node):
        return self.threads(range(node * self.per_node, (node + 1) * self.per_node))

    def package_of(self, cpu):
        return self.node_of(cpu) * self.opt.packages // self.opt.nodes

    def llc_cpus(self, cpu):
        first = cpu % self.cores // self.llc_cores * self.llc_cores
        return self.threads(range(first, first + self.llc_cores))

    def pools(self, node):
        """(housekeeping, dedicated, shared) CPUs of a node: 1/8, 5/8 and 1/4 of its cores."""
        cores = list(range(node * self.per_node, (node + 1) * self.per_node))
        keep = max(1, len(cores) // 8)
        split = keep + max(1, len(cores) * 5 // 8)
        return [
            self.threads(part)
            for part in (cores[:keep], cores[keep:split], cores[split:] or cores[:keep])
        ]


def write_cpus(tree, host):
    opt, base, every = host.opt, "sys/devices/system", f"0-{host.n - 1}"
    values = {"online": every, "possible": every, "present": every, "offline": "", "isolated": ""}
    tree.put(f"{base}/cpu", {**values, "nohz_full": "(null)"})
    packages = [
        tuple(c for c in range(host.n) if host.package_of(c) == pkg) for pkg in range(opt.packages)
    ]
    view = functools.lru_cache(None)(
        lambda cpus: (host.mask(cpus), cpulist(cpus))
    )  # many CPUs share a mask
    for cpu in range(host.n):
        core, node, pkg = cpu % host.cores, host.node_of(cpu), host.package_of(cpu)
        smt, llc, whole = (
            view(tuple(cpus)) for cpus in (host.threads([core]), host.llc_cpus(cpu), packages[pkg])
        )
        path = f"{base}/cpu/cpu{cpu}"
        if cpu:
            tree.put(path, {"online": 1})
        topology = {
            "physical_package_id": pkg,
            "core_id": core,
            "core_cpus": smt[0],
            "core_cpus_list": smt[1],
        }
        topology |= {"package_cpus_list": whole[1], "core_siblings": whole[0]}
        tree.put(f"{path}/topology", topology)
        for index, (level, kind, kib) in enumerate(CACHES):
            shared = llc if level == "3" else smt
            cache = {"level": level, "type": kind, "size": f"{kib}K"}
            cache |= {"shared_cpu_map": shared[0], "shared_cpu_list": shared[1]}
            tree.put(f"{path}/cache/index{index}", cache)
        tree.link(f"{path}/node{node}", f"{base}/node/node{node}")
    nodes = f"0-{opt.nodes - 1}" if opt.nodes > 1 else "0"
    tree.put(f"{base}/node", {"online": nodes, "possible": nodes})
    mem = 4 << 20  # KiB of memory for each core
    for node in range(opt.nodes):
        cpus, path = host.node_cpus(node), f"{base}/node/node{node}"
        same = [
            opt.packages * other // opt.nodes == opt.packages * node // opt.nodes
            for other in range(opt.nodes)
        ]
        far = " ".join(
            "10" if other == node else "12" if near else "32" for other, near in enumerate(same)
        )
        total = mem * host.per_node
        values = {"cpumap": host.mask(cpus), "cpulist": cpulist(cpus), "distance": far}
        tree.put(path, {**values, "meminfo": f"Node {node} MemTotal:       {total} kB"})
        tree.put(f"{path}/hugepages/hugepages-2048kB", {"nr_hugepages": total // 8192})
        for cpu in cpus:
            tree.link(f"{path}/cpu{cpu}", f"{base}/cpu/cpu{cpu}")
    cpuinfo = f"processor\t: 0\nvendor_id\t: AuthenticAMD\nmodel name\t: Synthetic CPU\nflags\t\t: {FLAGS}\n"
    meminfo = f"MemTotal:       {mem * host.cores} kB"
    tree.put(
        "proc", {"cpuinfo": cpuinfo, "cmdline": "root=/dev/vda1 ro quiet", "meminfo": meminfo}
    )
    for directory, values in SYSCTL.items():
        tree.put(f"proc/sys/{directory}", values)


def write_netdev(tree, host, path, index, speed, queues):
    """One network device: attributes and its queues (RPS off, XPS off)."""
    name, none = path.rsplit("/", 1)[1], host.mask(())
    values = {"ifindex": index, "operstate": "up", "carrier": 1, "speed": speed, "mtu": 1500}
    tree.put(
        path,
        {**values, "flags": "0x1003", "type": 1, "uevent": f"INTERFACE={name}\nIFINDEX={index}"},
    )
    for q in range(queues):
        tree.put(f"{path}/queues/rx-{q}", {"rps_cpus": none})
        tree.put(f"{path}/queues/tx-{q}", {"xps_cpus": none})
    tree.link(f"sys/class/net/{name}", path)


def write_nics(tree, host):
    """PCI cards; returns the interrupts as (number, name, chip, PCI vector, node, hint CPU)."""
    opt, number = host.opt, 24
    irqs = [
        (0, "timer", "IO-APIC", 2, -1, None),
        (8, "rtc0", "IO-APIC", 8, -1, None),
        (9, "acpi", "IO-APIC", 9, -1, None),
    ]
    for nic in range(opt.nics):
        node, bus = nic % opt.nodes, 0x10 + nic * 4
        addr = f"0000:{bus + 1:02x}:00.0"
        dev, cpus = (
            f"sys/devices/pci0000:{bus:02x}/0000:{bus:02x}:01.0/{addr}",
            host.node_cpus(node),
        )
        local = {
            "numa_node": node,
            "local_cpulist": cpulist(cpus),
            "local_cpus": host.mask(cpus),
            "irq": 0,
        }
        tree.put(dev, {**local, "class": "0x020000", "vendor": "0x8086", "device": "0x1592"})
        tree.mkdir("sys/bus/pci/drivers/ice")
        tree.link(f"{dev}/driver", "sys/bus/pci/drivers/ice")
        tree.link(f"sys/bus/pci/devices/{addr}", dev)
        name = f"eth{nic}"
        write_netdev(tree, host, f"{dev}/net/{name}", 2 + nic, 100000, opt.queues)
        tree.link(f"{dev}/net/{name}/device", dev)
        tree.put(f"{dev}/msi_irqs", {number + q: "msix" for q in range(opt.queues)})
        for q in range(opt.queues):
            irqs.append(
                (number, f"{name}-TxRx-{q}", f"PCI-MSIX-{addr}", q, node, cpus[q % len(cpus)])
            )
            number += 1
    return irqs


def write_irqs(tree, host, irqs):
    """/proc/irq/*, /proc/interrupts and /proc/stat; every vector may run anywhere, one CPU does."""
    prec = max(3, len(str(irqs[-1][0])))
    every, none, zero, totals = host.mask(range(host.n)), host.mask(()), f" {0:10d}", {}
    out = [" " * (prec + 8) + "".join(f"CPU{cpu:<8d}" for cpu in range(host.n))]
    for number, name, chip, vector, node, hint in irqs:
        cpu = host.rng.randrange(host.n)
        totals[number] = count = host.rng.randrange(1, 1 << 30)
        values = {"smp_affinity": every, "smp_affinity_list": f"0-{host.n - 1}", "node": node}
        values |= {"effective_affinity": host.mask([cpu]), "effective_affinity_list": cpu}
        values["affinity_hint"] = none if hint is None else host.mask([hint])
        tree.put(f"proc/irq/{number}", values)
        tree.mkdir(f"proc/irq/{number}/{name}")
        row = [zero] * host.n
        row[cpu] = f" {count:10d}"
        out.append(f"{number:{prec}d}:{''.join(row)} {chip:>8s} {vector:{prec}d}-edge      {name}")
    tree.put("proc/irq", {"default_smp_affinity": every})
    rows = [
        [host.rng.randrange(1 << 22) for _ in range(4)] + [100, 0, 50, 0, 0, 0]
        for _ in range(host.n)
    ]
    intr = [totals.get(number, 0) for number in range(irqs[-1][0] + 1)]
    lines = ["cpu  " + " ".join(str(sum(col)) for col in zip(*rows, strict=True))]
    lines += [f"cpu{cpu} " + " ".join(map(str, row)) for cpu, row in enumerate(rows)]
    lines += [f"intr {sum(intr)} " + " ".join(map(str, intr)), "btime 1700000000"]
    tree.put("proc", {"interrupts": "\n".join(out), "stat": "\n".join(lines)})


def write_task(tree, host, directory, tid, tgid, comm, cpus, threads):
    """comm, stat (52 fields) and status of one task."""
    ticks, start = host.rng.randrange(1 << 20), 10000 + tgid
    stat = (
        [tid, f"({comm})", "S", 1, tgid, tgid, 0, -1, 138412416]
        + [0] * 4
        + [ticks, ticks // 4, 0, 0, 20, 0, threads, 0, start, 4 << 30, 1 << 18]
        + [0] * 13
        + [17, cpus[0]]
        + [0] * 13
    )
    status = (
        f"Name:\t{comm}\nUmask:\t0002\nState:\tS (sleeping)\nTgid:\t{tgid}\nPid:\t{tid}\nPPid:\t1\n"
        f"Threads:\t{threads}\nCpus_allowed:\t{host.mask(cpus)}\nCpus_allowed_list:\t{cpulist(cpus)}\n"
        f"Mems_allowed_list:\t0-{host.opt.nodes - 1}\nvoluntary_ctxt_switches:\t{ticks}"
    )
    tree.put(directory, {"comm": comm, "stat": " ".join(map(str, stat)), "status": status})


def domain_xml(name, ident, vcpus, pins, emulator, node, queues, tap, specs):
    """Domain definition of the shape Nova gives to libvirt."""
    extra = "".join(f'<nova:extraSpec name="{k}">{v}</nova:extraSpec>' for k, v in specs.items())
    pin = "".join(
        f"\n    <vcpupin vcpu='{i}' cpuset='{cpulist(cpus)}'/>" for i, cpus in enumerate(pins)
    )
    multi = f" queues='{queues}'" if queues > 1 else ""
    return f"""<domain type='kvm'>
  <name>{name}</name>
  <uuid>{ident}</uuid>
  <metadata>
    <nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">
      <nova:flavor name="m{vcpus}" id="{vcpus}">
        <nova:memory>2048</nova:memory><nova:vcpus>{vcpus}</nova:vcpus>
        <nova:extraSpecs>{extra}</nova:extraSpecs>
      </nova:flavor>
    </nova:instance>
  </metadata>
  <memory unit='KiB'>2097152</memory>
  <vcpu placement='static'>{vcpus}</vcpu>
  <iothreads>1</iothreads>
  <cputune>{pin}
    <emulatorpin cpuset='{cpulist(emulator)}'/>
    <iothreadpin iothread='1' cpuset='{cpulist(emulator)}'/>
  </cputune>
  <numatune><memory mode='strict' nodeset='{node}'/></numatune>
  <devices>
    <interface type='ethernet'>
      <mac address='fa:16:3e:{ident[0:2]}:{ident[2:4]}:{ident[4:6]}'/><target dev='{tap}'/><mtu size='1500'/>
      <model type='virtio'/><driver name='vhost'{multi} rx_queue_size='512'/>
    </interface>
  </devices>
</domain>"""


def write_guests(tree, host):
    opt, used, pid = host.opt, [0] * host.opt.nodes, 10000
    for guest in range(opt.guests):
        node = guest % opt.nodes
        keep, dedicated, shared = host.pools(node)
        vcpus = (2, 4, 2, 8)[(guest // opt.nodes) % 4]
        name, tap = f"instance-{guest + 1:08x}", f"tap{guest + 1:08x}"[:15]
        ident = str(uuid.UUID(int=host.rng.getrandbits(128), version=4))
        queues, specs = min(vcpus, 8), {"hw:vif_multiqueue_enabled": "true"}
        pins = [shared] * vcpus
        if used[node] + vcpus <= len(dedicated):
            pins = [[cpu] for cpu in dedicated[used[node] : used[node] + vcpus]]
            used[node] += vcpus
            specs.update({"hw:cpu_policy": "dedicated", "hw:emulator_threads_policy": "share"})
        emulator = sorted(set(keep) | set(shared))
        xml = domain_xml(name, ident, vcpus, pins, emulator, node, queues, tap, specs)
        tree.put("etc/libvirt/qemu", {f"{name}.xml": xml})
        threads = [("qemu-system-x86", emulator), ("IO iothread1", emulator)] + [
            (f"vhost-{pid}", emulator)
        ] * queues
        threads += [(f"CPU {i}/KVM", cpus) for i, cpus in enumerate(pins)]
        tree.put("run/libvirt/qemu", {f"{name}.pid": pid})
        write_task(tree, host, f"proc/{pid}", pid, pid, threads[0][0], threads[0][1], len(threads))
        for i, (comm, cpus) in enumerate(threads):
            write_task(
                tree, host, f"proc/{pid}/task/{pid + i}", pid + i, pid, comm, cpus, len(threads)
            )
        write_netdev(tree, host, f"sys/devices/virtual/net/{tap}", 100 + guest, 10000, queues)
        pid += len(threads) + 1


def write(out: str, preset: str = "small", guests: int | None = None) -> str:
    """Write a host into a directory that does not exist yet, and return the directory."""
    os.makedirs(out)
    opt = types.SimpleNamespace(**dict(zip(SIZES, PRESETS[preset], strict=True)))
    opt.guests = opt.guests if guests is None else guests
    tree, host = Tree(out), Host(opt)
    write_cpus(tree, host)
    write_irqs(tree, host, write_nics(tree, host))
    write_guests(tree, host)
    return out


if __name__ == "__main__":
    write(*sys.argv[1:3], *map(int, sys.argv[3:]))
