# SPDX-License-Identifier: Apache-2.0
"""Cases of the eighth batch of field inputs: CPUs, findings and levels of their answers."""

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate
from tests.support.field_batches import Batch, BatchCase

_ONE_TO_SEND = {"combined": 0, "combined_max": 0, "rx": 4, "rx_max": 4, "tx": 1, "tx_max": 4}
_BATCH = Batch("batch8", cpus={}, channels={"228": ("eno1", _ONE_TO_SEND)})
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "211": [("info", "nic-irq-one-cpu", "share CPUs 5,7")],
    "213": [("warning", "nic-irq-on-dedicated", "4 interrupts of enp16s0f1", "on CPUs 3-4")],
    "218": [("info", "emulator-on-dedicated", "may run on CPUs 6-7")],
    "226": [("warning", "nohz-full-mismatch", "nohz_full= asks for CPU 0")],
    "227": [
        ("warning", "ovs-pmd-not-isolated", "on CPUs 32-39", "/proc/cmdline isolcpus"),
        ("info", "ovs-pmd-configuration", "on node 1, for which dpdk-socket-mem", "FF00000000"),
    ],
    "228": [("info", "channels-vs-housekeeping", "tx 1 of 4")],
}
#: Cases of which the answer says that nothing is wrong, or a hint at most.
_IN_ORDER = (
    *("209", "210", "211", "212", "214", "215", "216", "217", "219", "220", "222", "223"),
    *("224", "225", "228"),
)
#: Case -> rule -> what is shown where it holds.
_SHOWN = {
    "209": ("nic-irq-one-cpu", "/proc/irq/26: eno1, on CPU 2"),
    "210": ("device-irqs-one-cpu", "/proc/irq/34: xhci_hcd, on CPU 1"),
    "212": ("nic-irq-one-cpu", "/proc/irq/260: eth0, on CPU 0"),
    "220": ("guest-pins", "vcpu on CPUs 1-3, emulator on CPU 0"),
    "223": ("irqaffinity-on-dedicated", "irqaffinity=0,6"),
    "225": ("irqbalance-unaware", "IRQBALANCE_BANNED_CPUS bans CPUs 12-23 and leaves CPUs 0-11"),
}
#: Case -> CPUs by their role.
_SETS = {
    "213": {"housekeeping": "0-1,5-15", "isolated": "2-4"},
    "222": {"dedicated": "2-15", "shared": "0-1"},
    "223": {"isolated": "2,4", "tickless": "2,4", "new_irq": "0,6"},
    "224": {"isolated": "6-19,26-39", "housekeeping": "0-5,20-25"},
    "226": {"isolated": "0", "tickless": ""},
    "227": {"programs": "32-39"},
}


class HostsTest(BatchCase):
    batch = _BATCH

    def test_topologies(self) -> None:
        for number, nodes, each, caches in (
            ("214", 8, 24, 8),
            ("215", 8, 16, 8),
            ("216", 8, 16, 32),
        ):
            cpus = [f"{each * node}-{each * node + each - 1}" for node in range(nodes)]
            self.assert_topology(number, cpus, nodes * each, caches)
            shared, dedicated, _reasons = generate.split(self.view(number))
            self.assertEqual(self.view(number).sets.online, shared | dedicated)
        self.assert_topology("217", ["0-7"], 8, 1)
        self.assertEqual({"4-7"}, {cpu.l2 for cpu in self.view("217").facts.cpus if cpu.id > 3})
        self.assert_topology("223", ["0,2,4,6"], 4)

    def test_roles_of_cpus(self) -> None:
        for number, roles in _SETS.items():
            sets = self.plan(number).sets
            for role, cpus in roles.items():
                self.assertEqual(cpus, sets.get(role, ""), f"{number}: {role}")

    def test_no_interrupt_is_planned_on_an_isolated_cpu(self) -> None:
        for setting in self.plan("213").settings:
            if setting.kind == "irq_affinity":
                self.assertFalse(cpulist.parse(setting.value) & {2, 3, 4}, setting)
        self.assertEqual([], self.plan("210").settings)


class FindingsTest(BatchCase):
    batch = _BATCH

    def test_what_the_answers_ask_for(self) -> None:
        for number, every in _FOUND.items():
            for expected in every:
                with self.subTest(number, rule=expected[1]):
                    self.assert_found(number, expected)

    def test_an_overlap_is_an_error(self) -> None:
        levels = {one.why: one.level.value for one in self.report("221").findings}
        self.assertEqual("error", levels["both sets name CPU 13"])

    def test_nothing_is_wrong(self) -> None:
        for number in _IN_ORDER:
            self.assert_in_order(number)

    def test_what_is_shown(self) -> None:
        for number, (rule, words) in _SHOWN.items():
            with self.subTest(number):
                self.assert_held(number, rule, words)
