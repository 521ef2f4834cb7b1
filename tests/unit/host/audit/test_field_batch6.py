# SPDX-License-Identifier: Apache-2.0
"""Cases of the sixth batch of field inputs: CPUs, findings and levels of their answers."""

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate
from tests.support.field_batches import Batch, BatchCase

_NO_MORE = {"rx": 0, "rx_max": 0, "tx": 0, "tx_max": 0}
_BATCH = Batch(
    "batch6",
    cpus={},
    channels={"178": ("eth0", {"combined": 8, "combined_max": 64, **_NO_MORE})},
)
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "151": [
        (
            "warning",
            "device-irqs-one-cpu",
            "served by CPU 0, while CPUs 1-3 serve no device",
            "72 (vif0-q1-tx), 77 (vif0-q3-rx)",
        )
    ],
    "154": [
        (
            "info",
            "device-irqs-one-cpu",
            "3 interrupts of one device are served by CPU 0",
            "1072 (vfio-msix[1](0000:01:00.1))",
        )
    ],
    "156": [
        (
            "warning",
            "device-irqs-one-cpu",
            "served by CPU 0, while CPUs 1-7 serve no device",
            "26 (eth0), 38 (eth2-0), 27 (eth1)",
        )
    ],
    "165": [
        (
            "info",
            "emulator-on-dedicated",
            "guest-1 may run on CPUs 4-7,20-23",
            "no <emulatorpin>",
        )
    ],
    "168": [
        ("error", "nova-cpu-sets", "reserved_host_cpus and CPU sets", "refuses to start"),
        ("warning", "nova-cpu-sets", "2 cores and not the other (0,8, 1,9)"),
    ],
    "171": [("info", "irqaffinity-on-dedicated", "on CPUs 1-3", "keeps off only those")],
    "173": [("warning", "irqbalance-unaware", "no option --hintpolicy", "does not start")],
    "175": [
        ("warning", "tuned-isolated-cores", "no_balance_cores names CPUs 11-20"),
        ("info", "nohz-full-mismatch", "CPUs 11-20: isolated by isolcpus= and not in nohz_full="),
    ],
}
#: Cases of which the answer says that nothing is wrong, or a hint at most.
_IN_ORDER = (
    *("152", "153", "155", "157", "158", "159", "160", "161", "162", "163", "164", "166", "167"),
    *("169", "170", "172", "174", "176", "177", "178"),
)
#: Case -> rules that may say nothing.
_SILENT = {
    "165": ("guest-topology", "guest-pins"),
    "171": ("nohz-full-mismatch", "isolcpus-without-effect"),
    "170": ("ovs-pmd-configuration", "nova-cpu-sets"),
    "173": ("irqaffinity-on-dedicated",),
    "177": ("ovs-pmd-configuration", "isolated-half-cores"),
}
#: Case -> rule -> what is shown where it holds, or cannot judge.
_SHOWN = {
    "152": ("nic-irq-one-cpu", "/proc/irq/64-87: enp5s0f4d1, on CPUs 0-23"),
    "153": ("nic-irq-remote-node", "eth3, on CPUs 0-3"),
    "155": ("device-irqs-one-cpu", "106,131,136,140,158 (eth0, xhci-hcd:usb1 and 3 more) may be"),
    "157": ("nic-irq-remote-node", "eth2, on CPU 261"),
    "164": ("guest-pins", "vcpu on CPUs 1-3, emulator on CPU 0"),
    "166": ("guest-pins", "vcpu on CPUs 8-15, emulator on CPUs 0-7"),
    "167": ("guest-pins", "vcpu on CPUs 40,48,56,64,72"),
    "169": ("nova-cpu-sets", "cpu_dedicated_set: 4-23,52-71,26-47,74-95"),
    "170": ("ovs-pmd-configuration", "pmd-cpu-mask: 1"),
    "172": ("irqaffinity-on-dedicated", "irqaffinity=0,1"),
    "174": ("nic-irq-one-cpu", "/proc/irq/304-307: eth0, on CPUs 0-15"),
    "176": ("tuned-isolated-cores", "no profile of TuneD that isolates CPUs is active"),
    "177": ("ovs-pmd-configuration", "pmd-cpu-mask: 26-27,66-67"),
    "178": ("channels-vs-housekeeping", "combined 8 of 64"),
}
#: Case -> CPUs by their role.
_SETS = {
    "169": {"shared": "0-1,24-25,48-49,72-73", "dedicated": "4-23,26-47,52-71,74-95"},
    "170": {"housekeeping": "0", "programs": "1", "dedicated": "2-3", "isolated": "1-3"},
    "171": {"isolated": "1-3", "tickless": "1-3", "new_irq": "0-3"},
    "172": {"isolated": "2-3", "tickless": "2-3", "new_irq": "0-1"},
    "175": {"isolated": "2-20", "tickless": "2-10"},
    "176": {"isolated": ""},
}
#: Case -> what generate gives the host.
_KEPT = {
    "158": cpulist.format({*range(0, 128, 4), *range(128, 255, 4)}),
    "159": "0",
    "160": "0",
    "162": cpulist.format(range(0, 16, 2)),
    "163": "0",
}


class HostsTest(BatchCase):
    batch = _BATCH

    def test_topologies(self) -> None:
        nodes = [f"{4 * node}-{4 * node + 3}" for node in range(31)]
        nodes = [f"{cpus},{4 * at + 128}-{4 * at + 131}" for at, cpus in enumerate(nodes)]
        self.assert_topology("158", [*nodes, "124-127,252-254"], 128)
        self.assert_topology("159", ["0,2,4,6"], 4)
        self.assert_topology("160", ["0-7"], 8, 0)
        self.assert_topology("161", ["0-49"], 25)
        self.assert_topology("162", [f"{cpu}-{cpu + 1}" for cpu in range(0, 16, 2)], 16)
        self.assert_topology("163", ["0-95"], 96, 0)
        self.assert_topology("176", ["0-119,240-359", "120-239,360-479"], 240)
        power = ["0,8,16,24,32", "80,88,96,104,112", "40,48,56,64,72", "120,128,136,144,152"]
        self.assert_topology("167", power, 20)
        self.assertEqual([0, 1, 16, 17], [node.id for node in self.view("167").facts.nodes])

    def test_generated_sets(self) -> None:
        for number, kept in _KEPT.items():
            with self.subTest(number):
                view = self.view(number)
                shared, dedicated, _reasons = generate.split(view)
                self.assertEqual(kept, cpulist.format(shared))
                self.assertEqual(view.sets.online - shared, dedicated)

    def test_roles_of_cpus(self) -> None:
        for number, roles in _SETS.items():
            sets = self.plan(number).sets
            for role, cpus in roles.items():
                self.assertEqual(cpus, sets.get(role, ""), f"{number}: {role}")

    def test_queues_stay_on_their_node(self) -> None:
        values = [int(setting.value) for setting in self.plan("153").settings]
        self.assertEqual([0, 0, 1, 1, 2, 2, 3, 3], sorted(values))


class FindingsTest(BatchCase):
    batch = _BATCH

    def test_what_the_answers_ask_for(self) -> None:
        for number, every in _FOUND.items():
            for expected in every:
                with self.subTest(number, rule=expected[1]):
                    self.assert_found(number, expected)

    def test_nothing_is_wrong(self) -> None:
        for number in _IN_ORDER:
            self.assert_in_order(number)

    def test_what_may_not_be_said(self) -> None:
        for number, without in _SILENT.items():
            names = {finding.rule for finding in self.report(number).findings}
            self.assertEqual(set(), names.intersection(without), number)

    def test_what_is_shown(self) -> None:
        for number, (rule, words) in _SHOWN.items():
            with self.subTest(number):
                self.assert_held(number, rule, words)
        self.assert_held("174", "irqbalance-unaware", "no CPU, and leaves interrupts of ibmvnic")
