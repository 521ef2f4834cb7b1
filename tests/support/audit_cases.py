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
    :ivar level: of the first finding; :ivar value: among its evidence.
    :ivar holds: changes to the good host on which the rule must be clean, where the good one itself is not judged.
    """

    changes: Mapping[str, str | None]
    level: str
    value: str
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
    return hosts.irq(40, "eth0-TxRx-0", first, hosts.ETH0) | hosts.irq(41, "eth0-TxRx-1", second, hosts.ETH0)


def _ovs(thread: str, cpus: str) -> dict[str, str | None]:
    return owners.program(900, "ovs-vswitchd", {"ovs-vswitchd": hosts.SHARED, thread: cpus})


_FAR = hosts.domain(pins=("6", "7"))
_POWER_OFF = {_NOVA: hosts.NOVA_CONF.replace("cpu_power_management = true", "cpu_power_management = false")}

CASES: dict[str, Case] = {
    # processors
    "housekeeping-unset": Case(
        {_NOVA: None, f"{_CPU}/isolated": "\n", f"{_CPU}/nohz_full": "\n"}, "warning", "no CPUAffinity"
    ),
    "shared-set-isolated": Case({f"{_CPU}/isolated": "0-3\n"}, "error", "0-1,4-5,8-9,12-13"),
    "isolated-not-dedicated": Case(
        {_NOVA: "[compute]\ncpu_dedicated_set = 2-3\ncpu_shared_set = 0-1\n"}, "warning", "2-3"
    ),
    "nohz-full-mismatch": Case({f"{_CPU}/nohz_full": "0-15\n"}, "warning", "2-3,6-7,10-11,14-15"),
    "irqaffinity-on-dedicated": Case(
        {"proc/cmdline": "isolcpus=managed_irq,2-3 irqaffinity=0-3\n"}, "warning", "isolcpus=managed_irq,2-3"
    ),
    # Open vSwitch, and the slice of guests
    "ovs-pmd-not-isolated": Case(
        _ovs("pmd-c12/id:1", "12"),
        "warning",
        "12 (pmd-c12/id:1)",
        holds={**_ovs("pmd-c12/id:1", "12"), f"{_CPU}/isolated": f"{hosts.DEDICATED},12\n"},
    ),
    "ovs-threads-on-dedicated": Case(
        {**_ovs("handler1", "0-15"), f"{_CPU}/isolated": "\n"},
        "warning",
        "0-15 (handler1)",
        holds=_ovs("handler1", "0-15"),
    ),
    "machine-slice-cpus": Case(
        owners.slice_of("machine.slice", "0-9"), "error", "0-9", holds=owners.slice_of("machine.slice", "0-15")
    ),
    # interrupts
    "nic-irq-on-cpu0": Case(_irqs(0, 9), "warning", "0 (eth0-TxRx-0)"),
    "nic-irq-remote-node": Case(_irqs(4, 9), "warning", "4 (eth0-TxRx-0)"),
    "nic-irq-on-dedicated": Case(_irqs(2, 9), "warning", "2 (eth0-TxRx-0)"),
    "nic-irq-one-cpu": Case(_irqs(9, 9), "warning", "9 (eth0-TxRx-1)"),
    "napi-thread-on-dedicated": Case(hosts.napi_thread("0-15"), "warning", "0-15"),
    "irqbalance-unaware": Case({"proc/300/comm": "irqbalance\n"}, "warning", "no bans"),
    # guests
    "guest-floats-over-nodes": Case(
        {**hosts.process(vcpus=("0-15", "0-15")), _GUEST: hosts.domain(pins=(), policy="shared")},
        "warning",
        "2 vCPUs on CPUs 0-15",
    ),
    "guest-far-from-nic": Case({**hosts.process(vcpus=("6", "7")), _GUEST: _FAR}, "warning", "vCPUs on CPUs 6-7"),
    "guest-larger-than-node": Case(
        {_GUEST: hosts.domain(memory_gib=100)}, "warning", "100 GiB (a node has 64 GiB)"
    ),
    "emulator-on-dedicated": Case(hosts.process(own="0-15"), "warning", "0-15"),
    "guest-pins": Case(
        {
            "etc/libvirt/qemu/windows.xml": hosts.domain(
                "windows", pins=("10", "99"), os_type="windows", device="tap9"
            )
        },
        "error",
        "<vcpupin cpuset='99'>",
    ),
    "vhost-on-dedicated": Case(hosts.process(vhost="0-15"), "warning", "0-15"),
    # TCP
    "tcp-buffers-too-small": Case({}, "warning", "4096\t131072\t6291456", {"rtt_ms": 100.0}),
    "tcp-autotuning-off": Case(_sysctl("net/ipv4/tcp_moderate_rcvbuf", "0"), "warning", "0"),
    "softnet-drops": Case({"proc/net/softnet_stat": "0049a1f0 00000400 00000002\n"}, "warning", "1000"),
    # network
    "mtu-mismatch": Case({"sys/devices/virtual/net/br0/mtu": "1500\n"}, "warning", "1500"),
    "mtu-small": Case({f"{hosts.ETH0}/net/eth0/mtu": "1500\n"}, "info", "25000"),
    "lro-on-forwarding": Case({_ETHTOOL: hosts.ethtool({"rx-lro": True})}, "error", "br0"),
    "offloads-off": Case(
        {_ETHTOOL: hosts.ethtool({"tx-tcp-segmentation": False})}, "warning", "tx-tcp-segmentation: off"
    ),
    "ring-drops": Case({f"{_STATS}/rx_missed_errors": "9000\n"}, "warning", "rx 1024 of 4096"),
    "tap-drops": Case(
        {"sys/devices/virtual/net/tap0/statistics/tx_dropped": "500\n"}, "warning", "rx_queue_size 256"
    ),
    "channels-vs-housekeeping": Case(
        {_ETHTOOL: hosts.ethtool(channels={"combined": 32, "combined_max": 32})}, "info", "combined 32 of 32"
    ),
    "bridge-netfilter-needless": Case(_sysctl("net/bridge/bridge-nf-call-iptables", "1"), "info", "1"),
    "bridge-netfilter-off": Case(
        {
            _NOVA: hosts.NOVA_CONF,
            "etc/neutron/plugins/ml2/ml2_conf.ini": "[securitygroup]\nfirewall_driver = iptables_hybrid\n",
        },
        "error",
        "0",
        holds={"etc/neutron/plugins/ml2/ml2_conf.ini": "[securitygroup]\nfirewall_driver = openvswitch\n"},
    ),
    # power
    "cpu-governor": Case(
        {**_POWER_OFF, f"{_CPU}/cpufreq/policy3/scaling_governor": "powersave\n"},
        "warning",
        "powersave",
        holds=_POWER_OFF,
    ),
    "deep-idle-states": Case({f"{_CPU}/cpu2/cpuidle/state2/latency": "133\n"}, "info", "133 us"),
    # memory
    "guest-small-pages": Case({_GUEST: hosts.domain(backing="")}, "info", "no <hugepages>"),
    "guest-free-page-reporting": Case(
        {_GUEST: hosts.domain(devices="<memballoon model='virtio' freePageReporting='on'/>")},
        "info",
        "<memballoon freePageReporting='on'>",
    ),
    "thp-never": Case(
        {
            _GUEST: hosts.domain(backing=""),
            "sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]\n",
        },
        "warning",
        "always madvise [never]",
    ),
    "ksm-with-pinned-guests": Case({"sys/kernel/mm/ksm/run": "1\n"}, "warning", "1"),
    "numa-balancing-with-pinned-guests": Case(_sysctl("kernel/numa_balancing", "1"), "warning", "1"),
    # machine
    "kvm-missing": Case({"sys/class/misc/kvm": None, "sys/class/misc/kvm-not": ""}, "error", "no kvm"),
    "xen-pv-guest": Case({"sys/hypervisor/type": "xen\n", "sys/hypervisor/guest_type": "PV\n"}, "error", "PV"),
    "guest-without-kvm": Case({_GUEST: hosts.domain(type="qemu")}, "error", "kvm"),
    "vhost-net-missing": Case(
        {"sys/class/misc/vhost-net": None, "sys/module/vhost_net": None}, "error", "no vhost-net"
    ),
    "clocksource-slow": Case(
        {"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"},
        "warning",
        "tsc hpet acpi_pm",
    ),
    # devices
    "guest-emulated-nic": Case(
        {_GUEST: hosts.domain(model="e1000", driver="")}, "warning", "<model type='e1000'>"
    ),
    "guest-emulated-disk": Case({_GUEST: hosts.domain(bus="ide")}, "warning", "vda: bus ide"),
    "guest-scsi-controller": Case(
        {
            _SCSI: hosts.domain(
                "scsi", pins=("6", "7"), bus="scsi", devices="<controller type='scsi' model='lsilogic'/>"
            )
        },
        "warning",
        "<controller type='scsi'>: model lsilogic",
    ),
    "windows-without-hyperv": Case(
        {_WINDOWS: hosts.domain("windows", pins=("10", "11"), os_type="windows", features="")},
        "warning",
        "hyperv: none",
    ),
    "guest-disk-cache": Case(
        {_GUEST: hosts.domain(disk="<driver type='qcow2' cache='writeback'/>")}, "warning", "vda: cache writeback"
    ),
    "guest-encrypted-io": Case(
        {
            _GUEST: hosts.domain(
                numa="</cpu><launchSecurity type='sev'><policy>0x0007</policy></launchSecurity><cpu>"
            )
        },
        "info",
        "<launchSecurity type='sev-es'>",
    ),
    "guest-queues": Case(
        {_GUEST: hosts.domain(vcpus=4, pins=("2", "3", "10", "11"), driver="<driver name='vhost'/>")},
        "info",
        "4 vCPUs, 1 queue",
    ),
    # nova.conf
    "nova-physnet-numa-nodes": Case(
        {_NOVA: hosts.NOVA_CONF.replace("numa_nodes = 0", "numa_nodes = 1")}, "warning", "0"
    ),
    "nova-cpu-sets": Case({_NOVA: "[compute]\ncpu_dedicated_set = 2-40\ncpu_shared_set = 0-3\n"}, "error", "2-40"),
    "nova-power-management-overlap": Case(_irqs(2, 9), "warning", "true"),
    "nova-vcpu-pin-set": Case(
        {_NOVA: "[DEFAULT]\nvcpu_pin_set = 2-7\n" + hosts.NOVA_CONF}, "error", "2-3,6-7,10-11,14-15"
    ),
    "nova-shared-set-missing": Case(
        {_NOVA: "[compute]\ncpu_dedicated_set = 2-7\n"}, "warning", "2-7; no cpu_shared_set"
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
        result: dict[str, object] = program.document(self, *arguments, "--sysroot", self.root, code=code)
        return result

    def text(self, path: str) -> str:
        return pathlib.Path(self.root, path).read_text()
