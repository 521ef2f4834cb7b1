# SPDX-License-Identifier: Apache-2.0
"""For each rule a host on which it fires: what differs from the host on which all hold; how it is judged."""

import dataclasses
import pathlib
from collections.abc import Mapping

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import runner
from tests.support import audit_hosts as hosts
from tests.support import owners, program, testcase

PATH: Mapping[str, object] = {"rtt_ms": 0.2}
_CPU = "sys/devices/system/cpu"
_GUEST = "run/libvirt/qemu/instance-1.xml"
_WINDOWS = "etc/libvirt/qemu/windows.xml"
_SCSI = "etc/libvirt/qemu/scsi.xml"
_STATS = f"{hosts.ETH0}/net/eth0/statistics"
_ETHTOOL = "nova-perf/ethtool/eth0.json"
_NOVA = "etc/nova/nova.conf"


@dataclasses.dataclass(frozen=True)
class Case:
    """What makes a rule fire.

    :ivar changes: to the good host; :ivar options: beyond :data:`PATH`.
    :ivar level: of the first finding; :ivar value: among its evidence; :ivar message: what operators read of it.
    :ivar holds: changes to the good host on which the rule must be clean, where the good one itself is not judged.
    """

    changes: Mapping[str, str | None]
    level: str
    value: str
    message: str
    options: Mapping[str, object] = dataclasses.field(default_factory=dict)
    holds: Mapping[str, str | None] = dataclasses.field(default_factory=dict)

    def tree(self) -> dict[str, str | None]:
        """Return the host on which it fires."""
        return hosts.changed(hosts.good(), self.changes)

    def clean(self) -> dict[str, str | None]:
        """Return the host on which it must not."""
        return hosts.changed(hosts.good(), self.holds)


def _sysctl(key: str, value: str) -> dict[str, str | None]:
    return {f"proc/sys/{key}": f"{value}\n"}


def _irqs(first: int, second: int) -> dict[str, str | None]:
    return hosts.irq(40, "eth0-TxRx-0", first, hosts.ETH0) | hosts.irq(
        41, "eth0-TxRx-1", second, hosts.ETH0
    )


def _nvme(cpu: int, queue: str) -> dict[str, str | None]:
    """Return the vectors of an NVMe controller: the administrator's and one of a queue."""
    device = "sys/devices/pci0000:02/0000:02:00.0"
    tree = {"sys/bus/pci/devices/0000:02:00.0": f"-> ../../../{device[4:]}"}
    tree |= hosts.irq(50, "nvme0q0", 2, device, allowed="0-15")
    return tree | hosts.irq(51, "nvme0q1", cpu, device, allowed=queue)


def _ovs(thread: str, cpus: str) -> dict[str, str | None]:
    return owners.program(900, "ovs-vswitchd", {"ovs-vswitchd": hosts.SHARED, thread: cpus})


_PARALLEL = {
    _NOVA: hosts.NOVA_CONF.replace(
        "[libvirt]", "[libvirt]\nlive_migration_parallel_connections = 4"
    )
}
_FAR = hosts.domain(pins=("6", "7"))
_POWER_OFF = {
    _NOVA: hosts.NOVA_CONF.replace("cpu_power_management = true", "cpu_power_management = false")
}

CASES: dict[str, Case] = {
    # processors
    "housekeeping-unset": Case(
        {_NOVA: None, f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"},
        "warning",
        "no CPUAffinity",
        message=(
            "guests own CPUs 2-3,6-7,10-11, and everything else on this host may run there as "
            "well as on the other 10 CPUs (2 nodes)"
        ),
    ),
    "shared-set-isolated": Case(
        {f"{_CPU}/isolated": "0-3\n"},
        "error",
        "0-1,4-5,8-9,12-13",
        message="CPUs 0-1: shared and isolated, so every thread put there stays on CPU 0",
    ),
    "isolated-not-dedicated": Case(
        {_NOVA: "[compute]\ncpu_dedicated_set = 2-3\ncpu_shared_set = 0-1\n"},
        "info",
        "2-3",
        message="CPUs 14-15: isolated and not assigned, so lost to this host",
    ),
    "isolated-half-cores": Case(
        {f"{_CPU}/isolated": "2-3,6-7\n"},
        "warning",
        "2-3,6-7",
        message=(
            "CPUs 2-3,6-7 are isolated, and the other threads of their 4 cores are not: CPUs 10-11,14-15"
        ),
    ),
    "nohz-full-mismatch": Case(
        {f"{_CPU}/nohz_full": "0-15\n"},
        "warning",
        "2-3,6-7,10-11,14-15",
        message=(
            "CPUs 0-1,4-5,8-9,12-13: without a tick, but in the scheduler's domains: several "
            "threads share them. Without the tick every entry into the kernel costs more; it pays "
            "off only where one thread has the CPU."
        ),
    ),
    "boot-parameter-misspelt": Case(
        {"proc/cmdline": "isolcpu=2-3 irqaffinity=0-1\n"},
        "warning",
        "isolcpu=2-3",
        message=(
            "the kernel knows no parameter isolcpu: it has no effect. Perhaps you meant isolcpus, which keeps CPUs "
            "from the scheduler; isolated now: CPUs 2-3,6-7,10-11,14-15"
        ),
    ),
    "device-irqs-one-cpu": Case(
        {
            **_irqs(1, 1),
            **hosts.irq(50, "nvme0q1", 1, "sys/devices/pci0000:00/0000:05:00.0"),
            "proc/interrupts": "CPU0 CPU1\n40: 0 90000 eth0\n41: 0 9000 eth0\n50: 0 8000000 nvme0q1\n",
        },
        "warning",
        "1 (nvme0q1)",
        message=(
            "3 interrupts of several devices are served by CPU 1, while CPUs 0,4-5,8,12-13 serve no device: "
            "50 (nvme0q1), 40 (eth0-TxRx-0), 41 (eth0-TxRx-1)"
        ),
    ),
    "nova-option-without-effect": Case(
        {
            _NOVA: f"[compute]\ncpu_dedicated_set = {hosts.DEDICATED}\ncpu_shared_set = {hosts.SHARED}\n"
            "reserved_host_memory_mb = 2048\n"
        },
        "warning",
        "2048",
        message=(
            "Nova reads reserved_host_memory_mb in [DEFAULT] alone: here it has no effect, and the default holds"
        ),
    ),
    "tuned-isolated-cores": Case(
        {
            "etc/tuned/active_profile": "cpu-partitioning\n",
            "etc/tuned/cpu-partitioning-variables.conf": "isolated_cores=14-17\n",
        },
        "error",
        "14-17",
        message=(
            "isolated_cores names CPUs 16-17; this host has only CPUs 0-15. TuneD refuses the whole profile: nothing "
            "is isolated or tuned by it."
        ),
        holds={
            "etc/tuned/active_profile": "realtime\n",
            "etc/tuned/realtime-variables.conf": f'isolated_cores="{hosts.DEDICATED}"\n',
        },
    ),
    "isolcpus-without-effect": Case(
        {"proc/cmdline": "isolcpus=0,2-3 irqaffinity=0-1\n"},
        "warning",
        "isolcpus=0,2-3",
        message=(
            "isolcpus= asks for CPU 0, and the kernel isolates CPUs 2-3,6-7,10-11,14-15 only. The host's own work "
            "and guests run on these CPUs as on any other."
        ),
    ),
    "irqaffinity-on-dedicated": Case(
        {"proc/cmdline": "isolcpus=managed_irq,2-3 irqaffinity=0-3\n"},
        "warning",
        "isolcpus=managed_irq,2-3",
        message=(
            "new interrupts may start on CPUs 2-3, dedicated or isolated; isolcpus=managed_irq "
            "keeps off only those that the kernel itself places"
        ),
    ),
    # the kernel's own work
    "rps-on-dedicated": Case(
        {"sys/devices/virtual/net/br0/queues/rx-0/rps_cpus": "ffff\n"},
        "warning",
        "ffff",
        message=(
            "RPS of 1 device hands packets to CPUs 2-3,6-7,10-11,14-15, which guests or programs own: br0"
        ),
    ),
    "rfs-with-pinned-guests": Case(
        {
            **_sysctl("net/core/rps_sock_flow_entries", "32768"),
            f"{hosts.ETH0}/net/eth0/queues/rx-0/rps_flow_cnt": "4096\n",
        },
        "info",
        "32768",
        message=(
            "RFS steers flows of eth0. RFS hands packets to the CPU on which their reader ran last, "
            "whatever the RPS masks say."
        ),
    ),
    "new-irqs-on-dedicated": Case(
        {"proc/irq/default_smp_affinity": "000f\n"},
        "info",
        "000f",
        holds={"proc/irq/default_smp_affinity": "3333\n"},
        message="interrupts that come later may start on CPUs 2-3, which guests or programs own",
    ),
    "workqueues-on-dedicated": Case(
        {"sys/devices/virtual/workqueue/cpumask": "ffff\n"},
        "info",
        "ffff",
        message=(
            "unbound work of the kernel may run on CPUs 2-3,6-7,10-11,14-15, which guests or programs own"
        ),
    ),
    "kernel-threads-on-dedicated": Case(
        {
            **hosts.kernel_thread("kcompactd0", "0-3"),
            **hosts.kernel_thread("rcuog/0", "0-1", tid=40),
            **hosts.kernel_thread("rcuop/2", "0-3", tid=41),
        },
        "info",
        "0-3 (kcompactd0)",
        message=(
            "2 threads of the kernel may run on CPUs 2-3, which guests or programs own, 1 of them "
            "for RCU callbacks: kcompactd0, rcuop/2"
        ),
    ),
    "watchdog-on-dedicated": Case(
        _sysctl("kernel/watchdog_cpumask", "0-15"),
        "info",
        "0-15",
        message=(
            "watchdogs for lockups run on CPUs 2-3,6-7,10-11,14-15, which guests or programs own"
        ),
    ),
    "device-irq-on-dedicated": Case(
        hosts.irq(50, "nvme0q3", 2, hosts.NVME),
        "warning",
        "2 (nvme0q1,nvme0q3)",
        message="1 interrupt on CPU 2, which guests or programs own: nvme0q1,nvme0q3",
    ),
    "timer-migration-off": Case(
        _sysctl("kernel/timer_migration", "0"),
        "warning",
        "0",
        message=("Timers that a tickless CPU arms stay on it; housekeeping CPUs could take them."),
    ),
    "machine-check-polling": Case(
        {"sys/devices/system/machinecheck/machinecheck0/check_interval": "300\n"},
        "info",
        "300",
        message=(
            "every 300 s a timer looks for machine checks on CPUs 2-3,6-7,10-11,14-15, dedicated and tickless"
        ),
    ),
    "guest-throttled": Case(
        {
            f"{hosts.SCOPE}/libvirt/vcpu0/cpu.max": "50000 100000\n",
            f"{hosts.SCOPE}/libvirt/vcpu0/cpu.stat": "usage_usec 10\nnr_throttled 712\n",
        },
        "warning",
        "50000 100000",
        message="instance-1 was stopped 712 times by its quota of CPU time",
    ),
    "competing-irq-writers": Case(
        {
            "etc/systemd/network/10-nic.link": (
                "[Match]\nOriginalName=eth*\n[Link]\nIRQAffinityPolicy=spread\n"
            )
        },
        "info",
        "IRQAffinityPolicy=spread",
        message="systemd-udevd places irq_affinity by /etc/systemd/network/10-nic.link",
    ),
    # Open vSwitch, and the slice of guests
    "ovs-pmd-not-isolated": Case(
        _ovs("pmd-c12/id:1", "12"),
        "warning",
        "12 (pmd-c12/id:1)",
        holds={**_ovs("pmd-c12/id:1", "12"), f"{_CPU}/isolated": f"{hosts.DEDICATED},12\n"},
        message="1 PMD thread on CPU 12, which the scheduler also gives to other threads",
    ),
    "ovs-pmd-configuration": Case(
        {
            "nova-perf/openvswitch/other_config": (
                '{dpdk-init="true", dpdk-lcore-mask="0x1001", pmd-cpu-mask="0x1000"}\n'
            )
        },
        "warning",
        "dpdk-lcore-mask=0x1001",
        holds={
            "nova-perf/openvswitch/other_config": (
                '{dpdk-init="true", dpdk-lcore-mask="0x1", pmd-cpu-mask="0x1000"}\n'
            )
        },
        message="PMD threads and the other threads of Open vSwitch share CPU 12",
    ),
    "ovs-threads-on-dedicated": Case(
        {**_ovs("handler1", "0-15"), f"{_CPU}/isolated": "\n"},
        "warning",
        "0-15 (handler1)",
        holds=_ovs("handler1", "0-15"),
        message=(
            "1 handler and revalidator thread may run on CPUs 2-3,6-7,10-11,14-15, which guests or PMD threads own"
        ),
    ),
    "machine-slice-cpus": Case(
        owners.slice_of("machine.slice", "0-9"),
        "error",
        "0-9",
        holds=owners.slice_of("machine.slice", "0-15"),
        message="Nova gives guests CPUs 10-15, and machine.slice may not use them",
    ),
    # interrupts
    "managed-irq-on-dedicated": Case(
        {"proc/cmdline": "isolcpus=domain,2-3\n", **_nvme(2, "0-3")},
        "warning",
        "2 of 0-3 (nvme0q1)",
        holds=_nvme(2, "0-3"),
        message=(
            "1 interrupt of nvme0 on CPU 2, which guests or programs own: I/O of CPUs 0-1 interrupts them"
        ),
    ),
    "nic-irq-on-cpu0": Case(
        _irqs(0, 9),
        "warning",
        "0 (eth0-TxRx-0)",
        message=(
            "1 interrupt of eth0 (25000 Mbit/s) served by CPU 0, which also serves the timers of the whole host"
        ),
    ),
    "nic-irq-remote-node": Case(
        _irqs(4, 9),
        "warning",
        "4 (eth0-TxRx-0)",
        message="1 interrupt of eth0 (25000 Mbit/s) served on node 1, but the NIC is on node 0",
    ),
    "nic-irq-on-dedicated": Case(
        _irqs(2, 9),
        "warning",
        "2 (eth0-TxRx-0)",
        message=(
            "1 interrupt of eth0 (25000 Mbit/s) on CPU 2, which are owned by guests or programs, or isolated for them"
        ),
    ),
    "nic-irq-one-cpu": Case(
        _irqs(9, 9),
        "warning",
        "9 (eth0-TxRx-1)",
        message=(
            "2 interrupts of eth0 (25000 Mbit/s) of all 2 queues served by CPU 9; node 0 has 4 housekeeping CPUs"
        ),
    ),
    "napi-thread-on-dedicated": Case(
        hosts.napi_thread("0-15"),
        "warning",
        "0-15",
        message="1 NAPI thread of eth0 may run on CPUs 2-3,6-7,10-11,14-15: guests' or isolated",
    ),
    "irqbalance-unaware": Case(
        {"proc/300/comm": "irqbalance\n"},
        "warning",
        "no bans",
        message=(
            "irqbalance runs without a ban: what is placed by hand is moved again within ten seconds"
        ),
    ),
    # guests
    "guest-floats-over-nodes": Case(
        {**hosts.process(vcpus=("0-15", "0-15")), _GUEST: hosts.domain(pins=(), policy="shared")},
        "warning",
        "2 vCPUs on CPUs 0-15",
        message="instance-1 with 2 vCPUs fits into a node of 8 CPUs, but may run on 2 nodes",
    ),
    "guest-far-from-nic": Case(
        {**hosts.process(vcpus=("6", "7")), _GUEST: _FAR},
        "warning",
        "vCPUs on CPUs 6-7",
        message="instance-1 runs on node 1, its traffic leaves through eth0 (node 0)",
    ),
    "guest-larger-than-node": Case(
        {_GUEST: hosts.domain(memory_gib=100)},
        "warning",
        "100 GiB (a node has 64 GiB)",
        message="instance-1 has 100 GiB (a node has 64 GiB) and no NUMA nodes of its own",
    ),
    "emulator-on-dedicated": Case(
        hosts.process(own="0-15"),
        "warning",
        "0-15",
        message=(
            "emulator or I/O threads of instance-1 may run on CPUs 2-3,6-7,10-11,14-15, which "
            "vCPUs or polling programs own"
        ),
    ),
    "guest-pins": Case(
        {
            "etc/libvirt/qemu/windows.xml": hosts.domain(
                "windows", pins=("10", "99"), os_type="windows", device="tap9"
            )
        },
        "error",
        "<vcpupin cpuset='99'>",
        message="vcpupin of windows names CPU 99, which this host lacks",
    ),
    "vhost-on-dedicated": Case(
        hosts.process(vhost="0-15"),
        "warning",
        "0-15",
        message=(
            "vhost workers of instance-1 may run on CPUs 2-3,6-7,10-11,14-15, which vCPUs or polling programs own"
        ),
    ),
    "guest-floats-on-isolated": Case(
        {
            **hosts.process(vcpus=("2-3,10-11", "2-3,10-11")),
            _GUEST: hosts.domain(pins=("2-3,10-11", "2-3,10-11"), policy="shared"),
        },
        "warning",
        "2-3,10-11",
        message="2 vCPUs of instance-1 may float over CPUs 2-3,10-11, isolated: all pile up on CPU 2",
    ),
    "numa-balancing-beyond-node": Case(
        {
            **_sysctl("kernel/numa_balancing", "1"),
            **hosts.process(vcpus=("0-15", "0-15")),
            _GUEST: hosts.domain(pins=(), policy="shared", memory_gib=100),
        },
        "warning",
        "100 GiB (a node has 64 GiB)",
        holds=_sysctl("kernel/numa_balancing", "1"),
        message=(
            "instance-1 has 100 GiB (a node has 64 GiB) and floats over 2 nodes, which balancing follows"
        ),
    ),
    "migration-threads-on-dedicated": Case(
        {**hosts.process(own="2-3"), **_PARALLEL},
        "warning",
        "4",
        holds=_PARALLEL,
        message="a migration of instance-1 has 4 threads on CPUs 2-3, which vCPUs own",
    ),
    "host-cpus-few": Case(
        {
            _NOVA: f"[compute]\ncpu_dedicated_set = {hosts.DEDICATED},4-5,12-13\ncpu_shared_set = 0-1,8-9\n",
        },
        "warning",
        "0-15",
        message=(
            "CPUs of node 1 are for guests, and the host has none there: what serves them runs elsewhere"
        ),
    ),
    # guests' own XML
    "guest-references": Case(
        {
            _GUEST: hosts.domain().replace(
                "<emulatorpin", "<iothreadpin iothread='1' cpuset='0'/><emulatorpin"
            )
        },
        "error",
        "<iothreadpin iothread='1'>: no such I/O thread",
        message=(
            "<iothreadpin iothread='1'> of instance-1: no such I/O thread. libvirt refuses to "
            "define or start such a domain."
        ),
    ),
    "guest-topology": Case(
        {_GUEST: hosts.domain(numa="<topology sockets='1' cores='1' threads='2'/>")},
        "warning",
        "<topology sockets='1' cores='1' threads='2'>",
        message=(
            "vCPUs 0-1 of instance-1 are threads of one core to the guest, but pinned to CPUs 2-3 of different cores"
        ),
    ),
    "guest-half-cores": Case(
        {
            **hosts.process(vcpus=("2", "10", "3", "7")),
            _GUEST: hosts.domain(vcpus=4, pins=("2", "10", "3", "7")),
            _SCSI: None,
            _WINDOWS: None,
        },
        "info",
        "vCPUs on CPUs 2-3,7,10",
        message=(
            "instance-1 has 1 whole core, and of further cores CPUs 3,7 without the other threads, CPUs 11,15: "
            "whatever runs there takes half of a core"
        ),
    ),
    "guest-on-both-threads": Case(
        {
            **hosts.process(vcpus=("2", "10", "3", "11")),
            _GUEST: hosts.domain(vcpus=4, pins=("2", "10", "3", "11")),
            _SCSI: None,
            _WINDOWS: None,
        },
        "info",
        "vCPUs on CPUs 2-3,10-11",
        message=(
            "instance-1 has both threads of 2 cores of node 0, which has 4; no guest owns a CPU of node 1"
        ),
    ),
    "windows-queues-beyond-cores": Case(
        {
            _WINDOWS: hosts.domain(
                "windows",
                pins=("2", "10"),
                os_type="windows",
                numa="<topology sockets='1' cores='1' threads='2'/>",
            )
        },
        "info",
        "<driver queues='2'>",
        message="windows runs Windows on 1 core and has a NIC of 2 queues",
    ),
    # TCP
    "tcp-buffers-too-small": Case(
        {},
        "warning",
        "4096\t131072\t6291456",
        options={"rtt_ms": 100.0},
        message=(
            "BDP = 25000 Mbit/s (speed of eth0) x 100 ms (given) / 8 = 312500000 bytes; "
            "net.ipv4.tcp_rmem ends at 6291456, 2 % of it"
        ),
    ),
    "tcp-autotuning-off": Case(
        _sysctl("net/ipv4/tcp_moderate_rcvbuf", "0"),
        "warning",
        "0",
        message="net.ipv4.tcp_moderate_rcvbuf is off: receive buffers stay at their initial size",
    ),
    "softnet-drops": Case(
        {"proc/net/softnet_stat": "0049a1f0 00000400 00000002\n"},
        "warning",
        "1000",
        message="1024 of 4825584 packets since boot (0.0212 %) found their CPU's input queue full",
    ),
    # network
    "mtu-mismatch": Case(
        {"sys/devices/virtual/net/br0/mtu": "1500\n"},
        "warning",
        "1500",
        message="tap0 has MTU 9000, br0 that it belongs to 1500",
    ),
    "mtu-small": Case(
        {f"{hosts.ETH0}/net/eth0/mtu": "1500\n"},
        "info",
        "25000",
        message="eth0 with 25000 Mbit/s sends packets of 1500 bytes",
    ),
    "lro-on-forwarding": Case(
        {_ETHTOOL: hosts.ethtool({"rx-lro": True})},
        "error",
        "br0",
        message="eth0 merges packets by LRO and br0 passes them on to guests",
    ),
    "offloads-off": Case(
        {_ETHTOOL: hosts.ethtool({"tx-tcp-segmentation": False})},
        "warning",
        "tx-tcp-segmentation: off",
        message="eth0 supports these offloads, but they are off: tx-tcp-segmentation",
    ),
    "ring-drops": Case(
        {f"{_STATS}/rx_missed_errors": "9000\n"},
        "warning",
        "rx 1024 of 4096",
        message="eth0 lost 9000 of 5000000 packets since it was set up",
    ),
    "tap-drops": Case(
        {"sys/devices/virtual/net/tap0/statistics/tx_dropped": "500\n"},
        "warning",
        "rx_queue_size 256",
        message="instance-1 did not take 500 of 1000500 packets for tap0, whose ring has 256 slots",
    ),
    "channels-vs-housekeeping": Case(
        {_ETHTOOL: hosts.ethtool(channels={"combined": 32, "combined_max": 32})},
        "info",
        "combined 32 of 32",
        message="eth0 has 32 queues, node 0 4 CPUs to serve them",
    ),
    "bridge-netfilter-needless": Case(
        _sysctl("net/bridge/bridge-nf-call-iptables", "1"),
        "info",
        "1",
        message=(
            "packets of eth0, tap0 go through iptables, and nothing shows that security groups filter there"
        ),
    ),
    "bridge-netfilter-off": Case(
        {
            _NOVA: hosts.NOVA_CONF,
            "etc/neutron/plugins/ml2/ml2_conf.ini": "[securitygroup]\nfirewall_driver = iptables_hybrid\n",
        },
        "error",
        "0",
        holds={
            "etc/neutron/plugins/ml2/ml2_conf.ini": "[securitygroup]\nfirewall_driver = openvswitch\n"
        },
        message=(
            "/etc/neutron/plugins/ml2/ml2_conf.ini [securitygroup] firewall_driver = "
            "iptables_hybrid: with net.bridge.bridge-nf-call-iptables, "
            "net.bridge.bridge-nf-call-ip6tables off these rules never see a packet"
        ),
    ),
    # power
    "cpu-governor": Case(
        {**_POWER_OFF, f"{_CPU}/cpufreq/policy3/scaling_governor": "powersave\n"},
        "warning",
        "powersave",
        holds=_POWER_OFF,
        message="governor powersave in 1 of 16 frequency domains",
    ),
    "deep-idle-states": Case(
        {f"{_CPU}/cpu2/cpuidle/state2/latency": "133\n"},
        "info",
        "133 us",
        message="CPUs 2-3,6-7,10-11,14-15, dedicated, may sleep so deep that waking takes 133 us",
    ),
    # memory
    "guest-small-pages": Case(
        {_GUEST: hosts.domain(backing="")},
        "info",
        "no <hugepages>",
        message="1 guest with dedicated CPUs on pages of 4 KiB (or what THP finds): instance-1",
    ),
    "guest-free-page-reporting": Case(
        {_GUEST: hosts.domain(devices="<memballoon model='virtio' freePageReporting='on'/>")},
        "info",
        "<memballoon freePageReporting='on'>",
        message="1 guest with dedicated CPUs or huge pages: instance-1",
    ),
    "thp-never": Case(
        {
            _GUEST: hosts.domain(backing=""),
            "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        },
        "warning",
        "always madvise [never]",
        message="4 KiB pages for 1 guest without huge pages: instance-1",
    ),
    "ksm-with-pinned-guests": Case(
        {"sys/kernel/mm/ksm/run": "1\n"},
        "warning",
        "1",
        message="KSM merges pages under guests with dedicated CPUs: instance-1, scsi, windows",
    ),
    "numa-balancing-with-pinned-guests": Case(
        _sysctl("kernel/numa_balancing", "1"),
        "warning",
        "1",
        message="its page faults slow 3 guests pinned to 2 nodes: instance-1, scsi, windows",
    ),
    # machine
    "kvm-missing": Case(
        {"sys/class/misc/kvm": None, "sys/class/misc/kvm-not": ""},
        "error",
        "no kvm",
        message="there is no /dev/kvm",
    ),
    "xen-pv-guest": Case(
        {"sys/hypervisor/type": "xen\n", "sys/hypervisor/guest_type": "PV\n"},
        "error",
        "PV",
        message=(
            "This is a Xen PV guest: every system call, page fault and context switch goes "
            "through the hypervisor. HVM runs the same system 1.6 to 2.8 times as fast in "
            "UnixBench's index."
        ),
    ),
    "guest-without-kvm": Case(
        {_GUEST: hosts.domain(type="qemu")},
        "error",
        "kvm",
        message="1 guest without KVM: instance-1",
    ),
    "vhost-net-missing": Case(
        {"sys/class/misc/vhost-net": None, "sys/module/vhost_net": None},
        "error",
        "no vhost-net",
        message=(
            "there is no /dev/vhost-net: Without it QEMU copies every packet in its single main "
            "loop: 20 to 30 % less throughput, or worse with several queues."
        ),
    ),
    "clocksource-slow": Case(
        {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"},
        "warning",
        "tsc hpet acpi_pm",
        message="the clock is hpet; tsc is available and not used",
    ),
    # devices
    "guest-emulated-nic": Case(
        {_GUEST: hosts.domain(model="e1000", driver="")},
        "warning",
        "<model type='e1000'>",
        message="1 NIC of instance-1: e1000",
    ),
    "guest-emulated-disk": Case(
        {_GUEST: hosts.domain(bus="ide")},
        "warning",
        "vda: bus ide",
        message="1 disk of instance-1 on ide",
    ),
    "guest-disk-options": Case(
        {_GUEST: hosts.domain(bus="sata", disk="<driver queues='4'/>")},
        "error",
        "vda: queues='4', bus sata",
        message=(
            "1 disk of instance-1 with options that only virtio-blk takes: libvirt does not start the guest"
        ),
    ),
    "guest-scsi-controller": Case(
        {
            _SCSI: hosts.domain(
                "scsi",
                pins=("6", "7"),
                bus="scsi",
                devices="<controller type='scsi' model='lsilogic'/>",
            )
        },
        "warning",
        "<controller type='scsi'>: model lsilogic",
        message="scsi with 2 vCPUs has its disks on a SCSI controller: model lsilogic",
    ),
    "guest-idle-iothreads": Case(
        {
            _GUEST: hosts.domain().replace("<vcpu>", "<iothreads>2</iothreads><vcpu>"),
        },
        "info",
        "<iothreads>2</iothreads>, disks on virtio",
        message="2 I/O threads of instance-1 without a disk: 1, 2",
    ),
    "windows-without-hyperv": Case(
        {_WINDOWS: hosts.domain("windows", pins=("10", "11"), os_type="windows", features="")},
        "warning",
        "hyperv: none",
        message="windows runs Windows without relaxed, vapic, spinlocks, vpindex, synic, hypervclock",
    ),
    "guest-disk-cache": Case(
        {_GUEST: hosts.domain(disk="<driver type='qcow2' cache='writeback'/>")},
        "warning",
        "vda: cache writeback",
        message="1 disk of instance-1 cached by the host",
    ),
    "guest-encrypted-io": Case(
        {
            _GUEST: hosts.domain(
                numa="</cpu><launchSecurity type='sev'><policy>0x0007</policy></launchSecurity><cpu>"
            )
        },
        "info",
        "<launchSecurity type='sev-es'>",
        message="instance-1 has memory encrypted by sev-es: all its I/O is copied through bounce buffers",
    ),
    "guest-queues": Case(
        {
            _GUEST: hosts.domain(
                vcpus=4, pins=("2", "3", "10", "11"), driver="<driver name='vhost'/>"
            )
        },
        "info",
        "4 vCPUs, 1 queue",
        message="1 guest of four or more vCPUs with one queue: instance-1",
    ),
    # nova.conf
    "nova-physnet-numa-nodes": Case(
        {_NOVA: hosts.NOVA_CONF.replace("numa_nodes = 0", "numa_nodes = 1")},
        "warning",
        "0",
        message="nova.conf says node 1; physnet1 leaves through eth0 on node 0",
    ),
    "nova-cpu-sets": Case(
        {_NOVA: "[compute]\ncpu_dedicated_set = 2-40\ncpu_shared_set = 0-3\n"},
        "error",
        "2-40",
        message="it names CPUs 16-40; this host has only CPUs 0-15: Nova refuses the set, and the host offers no CPU",
    ),
    "nova-power-management-overlap": Case(
        _irqs(2, 9),
        "warning",
        "true",
        message="interrupts of eth0 are on CPU 2, which Nova powers down",
    ),
    "nova-vcpu-pin-set": Case(
        {_NOVA: "[DEFAULT]\nvcpu_pin_set = 2-7\n" + hosts.NOVA_CONF},
        "error",
        "2-3,6-7,10-11,14-15",
        message=(
            "vcpu_pin_set and cpu_dedicated_set exclude each other: nova-compute refuses to start"
        ),
    ),
    "nova-shared-set-missing": Case(
        {_NOVA: "[compute]\ncpu_dedicated_set = 2-7\n"},
        "info",
        "2-7; no cpu_shared_set",
        message=(
            "hw:emulator_threads_policy=share then has no effect: emulator threads stay on the guests' own CPUs."
        ),
    ),
}


def judge(rule: str, changes: hosts.Tree, **options: object) -> rules.Report:
    """Return what a rule says of the good host with ``changes``, on the path of the cases."""
    view = hosts.view(hosts.changed(hosts.good(), changes), **{**PATH, **options})
    return runner.run(view, runner.chosen([rule]), strict=True)


class ApplyCase(testcase.TestCase):
    """Applies what rules propose on a host of its own."""

    def grow(self, tree: hosts.Tree) -> None:
        self.root = hosts.grow(self, tree)
        self.before = hosts.content(self.root)

    def command(self, *arguments: str, code: int = 0) -> dict[str, object]:
        result: dict[str, object] = program.document(
            self, *arguments, "--sysroot", self.root, code=code
        )
        return result

    def text(self, path: str) -> str:
        return pathlib.Path(self.root, path).read_text()
