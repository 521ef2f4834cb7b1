# SPDX-License-Identifier: Apache-2.0
"""Cases of the fourth batch of field inputs: CPUs, findings and levels of their answers."""

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate
from tests.support.field_batches import Batch, BatchCase

_BATCH = Batch(
    "batch4",
    cpus={"107": "0-15", "108": "0-7", "119": "0-7"},
    channels={"120": ("eno1", {"rx": 4, "rx_max": 4, "tx": 1, "tx_max": 4})},
)
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "91": [
        ("warning", "nic-irq-one-cpu", "all 3 queues served by CPU 0", "356671665 on CPU 0"),
        ("warning", "nic-irq-on-dedicated", "on CPU 0", "isolated"),
    ],
    "97": [
        (
            "warning",
            "device-irqs-one-cpu",
            "served by CPU 1, while CPU 0 serves no device",
            "29 (eth1), 28 (eth0)",
            "19 (ahci[0000:00:11.0])",
            "echo 0 > /proc/irq/28/",
        )
    ],
    "108": [("error", "guest-references", "no attribute iothread", "libvirt refuses")],
    "109": [("error", "nova-cpu-sets", "names CPU 4", "only CPUs 0-3", "Nova refuses the set")],
    "110": [
        ("warning", "nova-cpu-sets", "(0-1)", "half of the core"),
        ("info", "nova-vcpu-pin-set", "deprecated"),
    ],
    "112": [("warning", "isolcpus-without-effect", "asks for CPU 0", "isolates no CPU", "1-3")],
    "113": [("info", "irqaffinity-on-dedicated", "CPUs 17-22")],
    "118": [
        ("warning", "ovs-pmd-not-isolated", "4 PMD threads on CPUs 2-3,38-39", "0xfc0000000fc")
    ],
    "120": [("info", "channels-vs-housekeeping", "tx queue of 4", "that it sends", "rx 4 of 4")],
}
#: Cases of which the answer says that nothing is wrong, or a hint at most.
_IN_ORDER = (
    *("92", "93", "94", "95", "96", "98", "99", "100", "101", "102", "103", "104", "105", "106"),
    *("107", "113", "114", "115", "116", "117", "119", "120"),
)
#: Case -> rules that may say nothing.
_SILENT = {
    "91": ("nic-irq-remote-node",),
    "94": ("nic-irq-one-cpu", "nic-irq-on-cpu0"),
    "97": ("channels-vs-housekeeping",),
    "105": ("guest-topology", "guest-half-cores", "guest-pins"),
    "108": ("guest-pins", "guest-topology"),
    "112": ("irqaffinity-on-dedicated", "isolated-half-cores"),
    "113": ("nohz-full-mismatch", "isolcpus-without-effect"),
    "114": ("cpu-governor", "deep-idle-states"),
    "116": ("tuned-isolated-cores", "isolcpus-without-effect"),
    "118": ("isolated-half-cores", "nova-cpu-sets"),
}
#: Case -> rule -> what is shown where it holds, or cannot judge.
_SHOWN = {
    "95": ("device-irqs-one-cpu", "/proc/irq/18: virtio0,virtio2,virtio3, on CPU 1"),
    "96": ("device-irqs-one-cpu", "/proc/irq/56,58,62-63: mlx4-2@"),
    "98": ("device-irqs-one-cpu", "dwc_otg_hcd:usb1, MESON TIMER-I, on CPU 3"),
    "105": ("guest-topology", "7 cores, 2 L3 caches"),
    "107": ("guest-pins", "vcpu on CPUs 1-2, emulator on CPU 3, iothread on CPU 10"),
    "108": ("guest-pins", "vcpu on CPUs 2-3, emulator on CPUs 0-1"),
    "115": ("irqbalance-unaware", "bans no CPU, and leaves interrupts 14,27-28,30 alone"),
    "117": ("isolated-half-cores", "no isolated CPUs"),
    "118": ("ovs-pmd-configuration", "other_config pmd-cpu-mask: 2-7,38-43"),
    "119": ("ovs-pmd-configuration", "dpdk-lcore-mask: 1"),
}
#: Case -> CPUs by their role.
_SETS = {
    "105": {"dedicated": "1-7,9-15", "emulator": "0,8", "iothread": "0,8"},
    "106": {"dedicated": "1-3,5-7", "emulator": "0,4", "iothread": "0,4"},
    "110": {"housekeeping": "0", "dedicated": "1-31"},
    "113": {"isolated": "17-22", "tickless": "17-22"},
    "114": {"isolated": "6-11", "housekeeping": "0-5,12-21"},
    "116": {"isolated": "1-27,29,55,57-83,85-111", "housekeeping": "0,28,30-54,56,84"},
    "118": {"dedicated": "8-35,44-71", "isolated": "4-35,40-71", "programs": "2-7,38-43"},
    "119": {"programs": "2"},
}


class HostsTest(BatchCase):
    batch = _BATCH

    def test_topologies(self) -> None:
        interleaved = [
            cpulist.format(cpu for cpu in range(1024) if cpu // 8 % 8 == node) for node in range(8)
        ]
        thirds = [
            f"{40 * node}-{40 * node + 39},{40 * node + 240}-{40 * node + 279}"
            for node in range(6)
        ]
        self.assert_topology("99", [f"{6 * node}-{6 * node + 5}" for node in range(8)], 48, 16)
        self.assert_topology("100", interleaved, 128)
        self.assert_topology("101", thirds, 240, 2)
        self.assert_topology("102", ["0-8"], 9)
        self.assert_topology("103", ["0-3"], 2)
        self.assert_topology("104", [f"{8 * node}-{8 * node + 7}" for node in range(16)], 128, 2)

    def test_books_and_l2_caches(self) -> None:
        of_s390 = [cpu for cpu in self.view("102").facts.cpus if cpu.online]
        self.assertEqual({(0, 0)}, {(cpu.drawer, cpu.book) for cpu in of_s390})
        self.assertEqual([str(cpu) for cpu in range(9)], [cpu.l2 for cpu in of_s390])
        of_arm = {cpu.l2 for cpu in self.view("104").facts.cpus}
        self.assertEqual({f"{cpu}-{cpu + 3}" for cpu in range(0, 128, 4)}, of_arm)

    def test_cpus_that_are_offline(self) -> None:
        for number, offline in (("96", {6, 7}), ("102", {9})):
            facts = self.view(number).facts
            self.assertEqual(offline, {cpu.id for cpu in facts.cpus if not cpu.online})

    def test_distances_and_nodes_of_nics(self) -> None:
        view = self.view("104")
        nearest = view.facts.nodes[0].distances
        self.assertEqual([1, 4], [node for node, far in nearest.items() if far == 20])
        self.assertEqual(set(range(8, 16)), {node for node, far in nearest.items() if far == 100})
        nodes = {name: nic.node for name, nic in view.nics.items()}
        self.assertEqual({"eth0": 0, "eth1": 0, "eth2": 8, "eth3": 8}, nodes)

    def test_proposed_sets_have_whole_cores(self) -> None:
        view = self.view("111")
        shared, dedicated, _reasons = generate.split(view)
        self.assertEqual(view.sets.online - shared, dedicated)
        self.assertEqual(frozenset(range(8)), view.nodes_of(dedicated))
        for cpu in shared:
            self.assertIn((cpu + 64) % 128, shared)
        self.assertLessEqual(len(shared), 32)  # at most a core of each L3 cache

    def test_roles_of_cpus(self) -> None:
        for number, roles in _SETS.items():
            sets = self.plan(number).sets
            for role, cpus in roles.items():
                self.assertEqual(cpus, sets.get(role, ""), f"{number}: {role}")

    def test_two_busy_nics_get_a_cpu_each(self) -> None:
        settings = self.plan("97").settings
        placed = {one.target: one.value for one in settings if one.kind == "irq_affinity"}
        self.assertEqual({"irq:28": "1", "irq:29": "0", "irq:30": "1"}, placed)

    def test_queues_that_are_not_seen_are_not_counted(self) -> None:
        reasons = "\n".join(one.reason for one in self.plan("92").settings)
        self.assertIn("eth2 (10000 Mbit/s, node unknown) has 8 queues, 4 of them seen", reasons)
        self.assertNotIn("eth2 (10000 Mbit/s, node unknown) has 4 queues", reasons)

    def test_places_of_interrupts(self) -> None:
        values = {setting.target: setting.value for setting in self.plan("91").settings}
        placed = {values[f"irq:{irq}"] for irq in (27, 28, 29)}
        self.assertEqual(3, len(placed))
        self.assertNotIn("0", placed)
        changed = [setting.target for setting in self.plan("93").changes()]
        self.assertEqual([], [target for target in changed if target.startswith("irq:")])


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

    def test_no_combined_channels_are_proposed(self) -> None:
        for finding in self.report("120").findings:
            self.assertNotIn("combined", finding.remedy)
