# SPDX-License-Identifier: Apache-2.0
"""Cases of the fifth batch of field inputs: CPUs, findings and levels of their answers."""

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate
from tests.support.field_batches import Batch, BatchCase

_BATCH = Batch(
    "batch5",
    cpus={"139": "0-15", "141": "0-23", "148": "0-7", "149": "0-7"},
    channels={
        "150": (
            "eth0",
            {"combined": 1, "combined_max": 1, "rx": 1, "rx_max": 1, "tx": 1, "tx_max": 1},
        )
    },
)
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "122": [
        (
            "warning",
            "device-irqs-one-cpu",
            "served by CPU 0, while CPUs 1-3 serve no device",
            "102 (em2-1), 101 (em2-0), 91 (megasas)",
            "echo 1 > /proc/irq/101/",
        )
    ],
    "124": [
        (
            "warning",
            "device-irqs-one-cpu",
            "CPU 1 serves no device",
            "88 (mwlwifi), 27 (mvneta)",
            "echo 1 > /proc/irq/27/",
        )
    ],
    "125": [("warning", "nic-irq-one-cpu", "2 queues that are seen served by CPU 0")],
    "135": [
        ("info", "guest-topology", "vCPUs 0,10", "5 more cores", "10 cores, 2 L3 caches"),
        ("info", "guest-half-cores", "CPUs 8-11", "CPUs 20-23"),
    ],
    "137": [
        (
            "info",
            "emulator-on-dedicated",
            "CPUs 80-119",
            "CPUs 144-159 of node 1 are nobody's",
        )
    ],
    "139": [
        ("warning", "nova-option-without-effect", "reserved_host_memory_mb in [DEFAULT] alone"),
        ("info", "nova-option-without-effect", "no option hugepages in [libvirt]"),
    ],
    "141": [
        ("error", "nova-cpu-sets", "comment behind a value", "cpu_dedicated_set", "4-23    #"),
        ("error", "nova-cpu-sets", "comment behind a value", "cpu_shared_set", "0-3        #"),
    ],
    "149": [("warning", "ovs-pmd-configuration", "share CPUs 0-1", "dpdk-lcore-mask=0x03")],
    "146": [("error", "tuned-isolated-cores", "names CPUs 2-3", "only CPUs 0-1")],
}
#: Cases of which the answer says that nothing is wrong, or a hint at most.
_IN_ORDER = (
    *("121", "123", "126", "127", "128", "129", "130", "131", "132", "133", "134", "135", "136"),
    *("142", "143", "144", "145", "147", "148", "150"),
)
#: Case -> rules that may say nothing.
_SILENT = {
    "123": ("device-irqs-one-cpu",),
    "134": ("guest-topology", "guest-half-cores"),
    "136": ("guest-topology", "guest-half-cores"),
    "137": ("guest-topology", "guest-pins"),
    "138": ("nova-cpu-sets", "nova-option-without-effect"),
    "147": ("tuned-isolated-cores",),
    "150": ("channels-vs-housekeeping",),
}
#: Case -> rule -> what is shown where it holds, or cannot judge.
_SHOWN = {
    "121": ("device-irqs-one-cpu", "mpt3sas0-msix3, xhci_hcd, ahci, eth0, on CPUs 0-3"),
    "123": ("device-irqs-one-cpu", "one device fires: 79 (megasas), on CPU 0"),
    "126": ("device-irqs-one-cpu", "39-40 (megasas, lpfc:sp) may be on CPUs 0-5,12-17"),
    "135": ("guest-pins", "emulator on CPUs 0-1,12-13, iothread on CPUs 0-1,12-13"),
    "136": ("guest-pins", "vcpu on CPUs 2-7,10-15, emulator on CPUs 0-1"),
    "142": ("irqaffinity-on-dedicated", "irqaffinity=0-1"),
    "145": ("irqbalance-unaware", "bans CPUs 3-31,35-63 and leaves CPUs 0-2,32-34"),
    "147": ("tuned-isolated-cores", "${f:calc_isolated_cores:2}"),
    "148": ("ovs-pmd-configuration", "pmd-cpu-mask: 1-3"),
    "150": ("channels-vs-housekeeping", "combined 1 of 1"),
}
#: Case -> CPUs by their role.
_SETS = {
    "134": {"dedicated": "0-7", "emulator": "8"},
    "138": {"shared": "0-3,24-27", "dedicated": "8-23,32-47"},
    "142": {"isolated": "2-5", "tickless": "2-5"},
    "143": {"isolated": "4-7", "housekeeping": "0-3"},
    "144": {"isolated": "1-3", "housekeeping": "0", "tickless": ""},
    "147": {"isolated": "2-3,6-7", "housekeeping": "0-1,4-5"},
}
#: Case -> what generate gives the host.
_KEPT = {
    "128": cpulist.format(range(0, 608, 38)),
    "130": cpulist.format(range(0, 224, 14)),
    "131": "0-7",
    "132": "0",
    "133": cpulist.format(range(0, 96, 6)),
    "140": "0-1",
}


def _pairs(first: int, size: int, other: int) -> str:
    """Return a node of ``size`` CPUs and of their siblings ``other`` CPUs on."""
    return f"{first}-{first + size - 1},{first + other}-{first + other + size - 1}"


class HostsTest(BatchCase):
    batch = _BATCH

    def test_topologies(self) -> None:
        unequal = [f"{first}-{first + 31}" for first in range(0, 128, 32)]
        unequal += [f"{first}-{first + 23}" for first in range(128, 224, 24)]
        self.assert_topology("127", unequal, 28)
        arm = [f"{38 * node}-{38 * node + 37}" for node in range(16)]
        self.assert_topology("128", arm + [""] * 16, 608)
        self.assert_topology("129", [_pairs(8 * node, 8, 192) for node in range(24)], 192, 24)
        clusters = [_pairs(14 * node, 14, 112) for node in range(8)]
        self.assert_topology("130", clusters + [""] * 8, 112, 2)
        self.assert_topology("131", ["0-79"], 10)
        self.assertEqual([2], [node.id for node in self.view("131").facts.nodes])
        self.assert_topology("132", ["0-3"], 4)
        self.assert_topology("133", [f"{6 * node}-{6 * node + 5}" for node in range(16)], 96, 16)
        self.assert_topology("140", ["0-11"], 6, 2)

    def test_a_cpu_that_is_there_and_offline(self) -> None:
        facts = self.view("132").facts
        self.assertEqual([4], [cpu.id for cpu in facts.cpus if not cpu.online])
        self.assertEqual([0, 0, 1, 2], [cpu.package for cpu in facts.cpus if cpu.online])
        self.assertEqual([0, 0, 0, 1, None], [cpu.book for cpu in facts.cpus])
        self.assertEqual([0, 0, 0, 1, None], [cpu.drawer for cpu in facts.cpus])

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

    def test_two_queues_go_to_different_cores(self) -> None:
        values = {setting.target: int(setting.value) for setting in self.plan("125").settings}
        self.assertEqual(2, len({cpu % 32 for cpu in values.values()}))
        for setting in self.plan("125").settings:
            self.assertIn("has at least 2 queues", setting.reason)


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

    def test_the_timer_and_acpi_are_left_alone(self) -> None:
        for finding in self.report("122").findings:
            self.assertNotRegex(finding.remedy, "irq/(0|9)/")
