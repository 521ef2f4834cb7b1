# SPDX-License-Identifier: Apache-2.0
"""Cases of the seventh batch of field inputs: CPUs, findings and levels of their answers."""

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate
from tests.support.field_batches import Batch, BatchCase

_NO_MORE = {"rx": 0, "rx_max": 0, "tx": 0, "tx_max": 0}
_BATCH = Batch(
    "batch7",
    cpus={},
    channels={"208": ("ens3f0", {"combined": 1, "combined_max": 64, **_NO_MORE})},
)
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "180": [
        ("info", "device-irqs-one-cpu", "CPU 0, while CPUs 1-3 serve no", "130 (15100000", "131 (")
    ],
    "182": [("warning", "nic-irq-one-cpu", "all 4 queues served by CPU 6")],
    "192": [("info", "guest-topology", "vCPUs 0-1", "4 more cores")],
    "194": [("info", "emulator-on-dedicated", "emulator or I/O threads", "on CPUs 8-15")],
    "195": [
        ("info", "guest-pins", "pinned to node 1, its vCPUs on node 0", "cpuset='8-9'", "'10'"),
        ("info", "guest-idle-iothreads", "2, 3, 4"),
    ],
    "196": [("error", "guest-pins", "iothreadpin of guest-1 names CPU 10")],
    "197": [("warning", "nova-cpu-sets", "cpu_dedicated_set has one thread of 16 cores", "2,26")],
    "198": [("info", "nova-vcpu-pin-set", "vcpu_pin_set is deprecated")],
    "202": [("info", "boot-parameter-misspelt", "isolcpus= and nohz_full= name no CPU")],
    "203": [("warning", "irqbalance-unaware", "is not a mask of CPUs", "it bans no CPU")],
    "205": [("warning", "tuned-isolated-cores", "isolates CPUs 10-15, and the kernel does not")],
    "206": [("warning", "ovs-pmd-configuration", "share CPUs 1-4,45-48")],
    "208": [("info", "channels-vs-housekeeping", "ens3f0 has 1 queue", "combined 1 of 64")],
}
#: Case -> ports with queues on isolated CPUs.
_ISOLATED_QUEUES = {"181": ["ens1f1v3", "ens1f1v8"]}
#: Cases of which the answer says that nothing is wrong, or a hint at most.
#: 193 has a warning for its NIC, which is not virtio.
_IN_ORDER = (
    *("179", "183", "184", "185", "186", "187", "188", "189", "190", "191", "198", "199", "200"),
    *("201", "204", "207"),
)
#: Case -> rules that may say nothing.
_SILENT = {
    "181": ("nic-irq-one-cpu", "nic-irq-remote-node"),
    "192": ("emulator-on-dedicated", "guest-pins"),
    "193": ("guest-topology", "guest-pins", "emulator-on-dedicated"),
    "195": ("emulator-on-dedicated",),
    "199": ("shared-set-isolated",),
    "206": ("isolated-half-cores",),
}
#: Case -> rule -> what is shown where it holds.
_SHOWN = {
    "179": ("nic-irq-one-cpu", "/proc/irq/100-101: eth0, on CPUs 0-1"),
    "184": ("nic-irq-one-cpu", "/proc/irq/168-171: eno2, on CPUs 0-3"),
    "185": ("nic-irq-one-cpu", "/proc/irq/34-39: enP1s1, on CPUs 1-2,4-7"),
    "193": ("guest-pins", "vcpu on CPUs 2-7,10-15, emulator on CPUs 0-1,8-9"),
    "200": ("irqaffinity-on-dedicated", "irqaffinity=0-2,4-7"),
    "201": ("isolcpus-without-effect", "1-71,73-143"),
    "204": ("irqbalance-unaware", "robot-rt.conf: IRQBALANCE_BANNED_CPULIST bans CPUs 6-7"),
}
#: Case -> CPUs by their role.
_SETS = {
    "181": {"housekeeping": "0-1,40-43", "isolated": "2-39,44-79"},
    "197": {"dedicated": "2-17", "shared": "18-47"},
    "198": {"dedicated": "1-3,5-7", "housekeeping": "0,4"},
    "199": {"dedicated": "0-11", "housekeeping": "12-13"},
    "200": {"isolated": "3", "tickless": "3"},
    "201": {"isolated": "1-71,73-143", "housekeeping": "0,72"},
    "202": {"isolated": "", "tickless": ""},
    "205": {"isolated": ""},
}
_THREADS_OF_NODES = [f"{first}-{first + 79}" for first in range(0, 640, 80)]


class HostsTest(BatchCase):
    batch = _BATCH

    def test_topologies(self) -> None:
        self.assert_topology("183", ["0-3", "4-7"], 8)
        self.assert_topology("186", _THREADS_OF_NODES, 320, 8)
        self.assert_topology("187", ["0-1,8-9", "2-3,10-11", "4-5,12-13", "6-7,14-15"], 8, 8)
        firsts = (0, 2, 4, 6, 1, 3, 5, 7)
        nodes = [cpulist.format(range(first, 64, 8)) for first in firsts]
        self.assert_topology("188", nodes, 32)
        self.assert_topology("189", ["0-79"], 10)
        self.assert_topology("190", ["0-1"], 1)
        offline = [cpu.id for cpu in self.view("190").facts.cpus if not cpu.online]
        self.assertEqual([2, 3], offline)
        self.assert_topology("191", [f"{at}-{at + 63}" for at in range(0, 1024, 64)], 128)

    def test_generated_sets_are_whole_cores(self) -> None:
        for number in ("186", "187", "188", "189", "191"):
            with self.subTest(number):
                view = self.view(number)
                shared, dedicated, _reasons = generate.split(view)
                self.assertEqual(view.sets.online, shared | dedicated)
                for cpu in view.facts.cpus:
                    siblings = cpulist.parse(cpu.siblings)
                    self.assertTrue(siblings <= shared or siblings <= dedicated, cpu)

    def test_roles_of_cpus(self) -> None:
        for number, roles in _SETS.items():
            sets = self.plan(number).sets
            for role, cpus in roles.items():
                self.assertEqual(cpus, sets.get(role, ""), f"{number}: {role}")

    def test_no_interrupt_is_planned_on_an_isolated_cpu(self) -> None:
        for setting in self.plan("181").settings:
            if setting.kind == "irq_affinity":
                self.assertLessEqual(
                    cpulist.parse(setting.value), cpulist.parse("0-1,40-43"), setting
                )
        self.assertEqual([], self.plan("183").settings)


class FindingsTest(BatchCase):
    batch = _BATCH

    def test_what_the_answers_ask_for(self) -> None:
        for number, every in _FOUND.items():
            for expected in every:
                with self.subTest(number, rule=expected[1]):
                    self.assert_found(number, expected)

    def test_queues_on_isolated_cpus(self) -> None:
        for number, ports in _ISOLATED_QUEUES.items():
            found = [
                one.subject
                for one in self.report(number).findings
                if one.rule == "nic-irq-on-dedicated"
            ]
            self.assertEqual(ports, found)
            levels = [
                one.level.value
                for one in self.report(number).findings
                if one.rule == "nic-irq-on-cpu0"
            ]
            self.assertEqual(["info"], levels)

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
