# SPDX-License-Identifier: Apache-2.0
"""Cases of the third batch of field inputs: CPUs, findings and levels of their answers."""

import functools

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.audit import generate, runner
from nova_perf_tuning.host.plan import planner, vectors
from tests.support import audit_hosts as hosts
from tests.support import field_hosts, field_trees, testcase
from tests.support.field_hosts import Case

#: Case -> what the commands refuse a host without: as many CPUs as it names.
_CPUS = {"76": "0-63", "78": "0-7", "80": "0-15"}
#: Case -> CPUs of each node; none: the kernel gives no nodes.
_NODES = {
    "71": [
        "0,8,16,24,32",
        "40,48,56,64,72",
        "80,88,96,104,112",
        "120,128,136,144,152",
    ],
    "72": ["0-63", "64-127"],
    "73": [],
    "74": [
        "0-17,68-85,136-153,204-221",
        "18-35,86-103,154-171,222-239",
        "36-51,104-119,172-187,240-255",
        "52-67,120-135,188-203,256-271",
        "",
        "",
        "",
        "",
    ],
    "75": ["0-19"],
    "82": ["0-11", "12-23", "24-35", "36-47"],
}
_CORES = {"71": 20, "72": 32, "73": 2, "74": 68, "75": 20, "82": 48}
#: Case -> what generate gives the host.
_KEPT = {
    "71": "0,40,48,56,64,72,80,120,128,136,144,152",
    "72": "0-3,64-67",
    "75": "0-4,10-14",
    "82": "0,12,24,36",
    "85": "0-3,14-15,28-31,42-43",
}
#: Case -> CPUs by their role.
_SETS = {
    "77": {"housekeeping": "8-15,24-31", "dedicated": "0-7,16-23", "emulator": "8,24"},
    "81": {"housekeeping": "0-3", "shared": "0-3", "dedicated": "4-79"},
    "84": {"isolated": "3-18", "housekeeping": "0-2,19-47"},
    "85": {
        "housekeeping": "0-3,14-15,28-31,42-43",
        "excluded": "4-13,16-27,32-41,44-55",
        "isolated": "",
    },
}
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "61": [
        ("warning", "nic-irq-remote-node", "served on node 1, but the NIC is on node 0", "160-172")
    ],
    "67": [
        ("info", "nic-irq-one-cpu", "share CPU 3, while CPU 2 serves none", "irq/128/", "irq/130/")
    ],
    "70": [
        ("warning", "nic-irq-one-cpu", "all 2 queues served by CPU 0", "46 housekeeping CPUs"),
        ("warning", "nic-irq-one-cpu", "/proc/interrupts", "56: 271490338 on CPU 0"),
    ],
    "71": [("warning", "nova-cpu-sets", "nodes 1,3, without memory", "40,48,56")],
    "76": [
        ("warning", "guest-pins", f"vCPUs {vcpus} on CPU {cpu}")
        for vcpus, cpu in (("4,8", 37), ("5,9", 38), ("6,10", 39), ("7,11", 40))
    ],
    "78": [("error", "guest-disk-options", "sda: queues='4', bus sata", "does not start")],
    "79": [
        ("info", "guest-idle-iothreads", "1, 2"),
        ("warning", "guest-emulated-disk", "sdf: bus sata"),
    ],
    "80": [("error", "nova-vcpu-pin-set", "refuses to start", "remove vcpu_pin_set")],
    "81": [("warning", "host-cpus-few", "node 1", "the host has none there")],
    "83": [
        ("warning", "boot-parameter-misspelt", "no parameter isolcpu", "isolcpus=1-30,33-62"),
        ("warning", "boot-parameter-misspelt", "isolated now: no CPU"),
    ],
    "84": [
        ("warning", "guest-floats-on-isolated", "CPUs 3-18", "CPU 3", "<vcpu cpuset='3-18'>"),
        ("warning", "isolated-half-cores", "CPUs 27-42"),
    ],
    "87": [
        ("warning", "irqbalance-unaware", "leaves CPUs 0-3 open", "CPULIST=0-4", "leave"),
    ],
    "88": [("info", "channels-vs-housekeeping", "1 combined queue of 63", "combined N")],
}
#: Cases of which the answer says that nothing is wrong, or a hint at most.
_IN_ORDER = (
    *(
        "62",
        "63",
        "64",
        "66",
        "68",
        "69",
        "72",
        "73",
        "74",
        "75",
        "77",
        "82",
        "85",
        "86",
        "89",
        "90",
    ),
)
#: Case -> rules that may say nothing, and those that may give a hint at most.
_SILENT = {
    "61": ("nic-irq-on-cpu0",),
    "63": ("nic-irq-on-cpu0", "nic-irq-one-cpu"),
    "64": ("nic-irq-on-cpu0", "nic-irq-one-cpu"),
    "76": ("emulator-on-dedicated",),
    "77": ("housekeeping-unset", "guest-topology", "emulator-on-dedicated"),
    "78": ("guest-queues",),
    "79": ("housekeeping-unset", "guest-topology", "emulator-on-dedicated"),
    "80": ("nova-shared-set-missing",),
    "81": ("nova-cpu-sets",),
    "83": ("irqaffinity-on-dedicated", "isolated-half-cores"),
    "85": ("housekeeping-unset", "isolated-half-cores", "nohz-full-mismatch"),
    "90": ("nic-irq-one-cpu",),
}


@functools.cache
def host_of(number: str) -> hosts.Tree:
    """Return the host of a case, with its guest as one that is defined."""
    case = Case("batch3", number)
    tree: dict[str, str | None] = {}
    if number in _CPUS:
        tree = {f"{path}": text for path, text in field_hosts.machine(_CPUS[number]).items()}
        del tree["sys/devices/system/cpu/isolated"], tree["proc/cmdline"], tree["proc/1/comm"]
    tree |= field_trees.tree(case)
    if number == "68":  # what a kernel has beside it
        tree |= {
            f"sys/devices/system/cpu/cpu{cpu}/topology/core_id": f"{cpu}\n" for cpu in range(128)
        }
        tree["sys/devices/pci0000:00/0000:3b:00.0/msi_irqs/1056"] = "msix\n"
    if number == "88":  # ethtool -l in the form of a recorded host
        channels = {"combined": 1, "combined_max": 63, "rx": 0, "rx_max": 0}
        tree["nova-perf/ethtool/p2p1.json"] = hosts.ethtool(channels=channels)
    if case.has("domain.xml"):
        xml = case.text("domain.xml")
        tree[f"etc/libvirt/qemu/{parsing.parse_domain(xml).name}.xml"] = xml
    return tree


def plan_of(number: str) -> planner.Plan:
    view = hosts.view(host_of(number))
    return planner.plan(view.facts, view.cpu_sets)


@functools.cache
def report_of(number: str) -> rules.Report:
    return runner.run(hosts.view(host_of(number)), strict=True)


class HostsTest(testcase.TestCase):
    def test_topologies(self) -> None:
        for number, nodes in _NODES.items():
            with self.subTest(number):
                facts = hosts.view(host_of(number)).facts
                self.assertEqual(nodes, [node.cpus for node in facts.nodes])
                cores = {cpu.siblings for cpu in facts.cpus if cpu.online}
                self.assertEqual(_CORES[number], len(cores))

    def test_generated_sets(self) -> None:
        for number, kept in _KEPT.items():
            with self.subTest(number):
                view = hosts.view(host_of(number))
                shared, dedicated, _reasons = generate.split(view)
                self.assertEqual(kept, cpulist.format(shared))
                self.assertEqual(view.sets.online - shared, dedicated)

    def test_roles_of_cpus(self) -> None:
        for number, roles in _SETS.items():
            sets = plan_of(number).sets
            for role, cpus in roles.items():
                self.assertEqual(cpus, sets.get(role, ""), f"{number}: {role}")

    def test_l3_groups(self) -> None:
        for number, expected in (
            ("62", {"0-5", "6-11"}),
            ("77", {"0-7,16-23", "8-15,24-31"}),
            ("74", {None}),
            ("82", {None}),
        ):
            groups = {cpu.l3 for cpu in hosts.view(host_of(number)).facts.cpus}
            self.assertEqual(expected, groups, number)


class FindingsTest(testcase.TestCase):
    def test_what_the_answers_ask_for(self) -> None:
        for number, expected in _FOUND.items():
            for level, rule, *words in expected:
                texts: list[str] = []
                for finding in report_of(number).findings:
                    if (finding.level.value, finding.rule) == (level, rule):
                        texts.append(
                            "\n".join(map(str, (finding.why, finding.remedy, finding.evidence)))
                        )
                with self.subTest(number, rule=rule):
                    matching = [text for text in texts if all(word in text for word in words)]
                    self.assertEqual(1, len(matching), texts or report_of(number).findings)

    def test_nothing_is_wrong(self) -> None:
        for number in _IN_ORDER:
            found = [(one.rule, one.why) for one in report_of(number).findings if one.level.rank]
            self.assertEqual([], found, number)

    def test_what_may_not_be_said(self) -> None:
        for number, without in _SILENT.items():
            names = {finding.rule for finding in report_of(number).findings}
            self.assertEqual(set(), names.intersection(without), number)

    def test_cpu_0_of_a_guest_is_a_hint(self) -> None:
        for number in ("77", "79", "80"):
            levels = {one.level.value for one in report_of(number).findings if "CPU 0" in one.why}
            self.assertLessEqual(levels, {"info"}, number)

    def test_what_is_in_order_is_said(self) -> None:
        unknown = {unjudged.rule: unjudged.text for unjudged in report_of("86").unknown}
        self.assertIn("bans CPUs 8-63 and leaves CPUs 0-7", unknown["irqbalance-unaware"])
        held = dict(report_of("90").held["nic-irq-one-cpu"])
        self.assertEqual("eth1, on CPUs 0-3", held["/proc/irq/199-202"])

    def test_only_the_far_channels_move(self) -> None:
        (finding,) = [one for one in report_of("61").findings if one.rule == "nic-irq-remote-node"]
        targets = [setting.target for setting in finding.settings]
        self.assertEqual([f"irq:{number}" for number in range(157, 173)], targets)
        near = cpulist.parse("0-7,16-23")
        for setting in finding.settings:
            self.assertLessEqual(cpulist.parse(setting.value), near)
            self.assertIn("XDP interrupt of ens1f0np0", setting.reason)


class InterruptsTest(testcase.TestCase):
    def queues(self, number: str, name: str) -> dict[int, list[int]]:
        """Return queue -> its interrupts."""
        view = hosts.view(host_of(number))
        nic = view.nics[name]
        found = vectors.classify(nic, view.interrupts(nic)).queues
        return {queue: [irq.number for irq in irqs] for queue, irqs in found.items()}

    def test_which_queue(self) -> None:
        for number, name, expected in (
            ("61", "ens1f0np0", {queue: [141 + queue] for queue in range(16)}),
            ("63", "ens4", {queue: [25 + queue, 33 + queue] for queue in range(8)}),
            ("64", "enp39s0", {0: [66]}),
            ("67", "enp1s0", {}),
            ("68", "em3", {126: [1056]}),
            ("70", "ens192", {0: [56], 1: [57]}),
            ("90", "eth1", {queue: [199 + queue] for queue in range(4)}),
        ):
            with self.subTest(number):
                self.assertEqual(expected, self.queues(number, name))

    def test_nothing_is_claimed_of_equal_names(self) -> None:
        plan = plan_of("67")
        self.assertEqual(7, len(plan.settings))
        for setting in plan.settings:
            self.assertNotRegex(setting.reason, r"queues? \d|other interrupt")

    def test_vectors_without_a_handler_are_left_alone(self) -> None:
        targets = {setting.target for setting in plan_of("64").settings}
        self.assertEqual(set(), targets & {"irq:67", "irq:68", "irq:69"})

    def test_masks_of_several_words(self) -> None:
        for number, irq, cpus in (
            ("68", 1056, "100"),
            *(("69", legacy, "26-51,78-103") for legacy in (4, 8, 9)),
            ("89", 100, "0,4"),
            ("89", 101, "1,5"),
            ("89", 102, "2-3,6-7"),
        ):
            facts = hosts.view(host_of(number)).facts
            self.assertEqual(cpus, facts.irqs[irq].affinity, f"{number}: {irq}")

    def test_legacy_interrupts_are_no_nics(self) -> None:
        self.assertEqual([], plan_of("69").settings)
