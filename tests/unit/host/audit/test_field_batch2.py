# SPDX-License-Identifier: Apache-2.0
"""Cases of the second batch of field inputs that are right: CPUs, findings and levels of their answers."""

import re

from nova_perf_tuning import cpulist, rules
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.audit import generate, runner
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.plan import planner
from tests.support import audit_hosts as hosts
from tests.support import field_trees, program, testcase
from tests.support.field_hosts import Case

_CORES = {"37": 72, "38": 15, "39": 3, "40": 248, "41": 112, "42": 4, "51": 80}
#: Case -> CPUs of each node.
_NODES = {
    "37": ["0-71", "", "", "", "", "", "", "", ""],
    "38": ["0-32,36,40-45,48-51,54-55,60-62"],
    "39": ["0-3,104-107,112-115"],
    "40": ["0-123,248-371", "124-247,372-495", ""],
    "41": [
        f"{14 * node}-{14 * node + 13},{112 + 14 * node}-{125 + 14 * node}" for node in range(8)
    ],
    "42": ["0-7"],
    "51": ["0-39", "40-79"],
}
#: Case -> what generate gives the host; guests get the other CPUs that are online.
_KEPT = {
    "37": "0",
    "38": "0-3",
    "39": "0-3",
    "40": "0,124,248,372",
    "41": "0,14,28,42,56,70,84,98,112,126,140,154,168,182,196,210",
    "42": "0-1",
    "51": "0,40",
}
#: Case -> CPUs by their role.
_SETS = {
    "33": {"housekeeping": "0-1", "dedicated": "2-3"},
    "43": {"housekeeping": "0-2,5-10,13-15", "dedicated": "3-4,11-12"},
    "49": {"housekeeping": "0-39", "shared": "1-7,9-27,29-39", "dedicated": ""},
    "50": {"housekeeping": "0-1,16-17", "shared": "0-1,16-17", "dedicated": "2-15,18-31"},
    "52": {"housekeeping": "0-2,19-47", "isolated": "3-18"},
    "53": {"housekeeping": "0-3,48-71", "isolated": "4-47"},
    "54": {"housekeeping": "0-7", "isolated": "8-127"},
    "55": {"housekeeping": "0,31-32,63", "isolated": "1-30,33-62"},
    "56": {"housekeeping": "4-7", "isolated": "0-3"},
    "57": {"housekeeping": "0-3,64-67", "isolated": "4-63,68-127"},
    "58": {"housekeeping": "0,6,12,18", "isolated": "1-5,7-11,13-17,19-23"},
}
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "33": [("warning", "nic-irq-on-dedicated", "on CPUs 2-3")],
    "43": [("warning", "guest-topology", "vCPUs 0-1")],
    "49": [("warning", "nova-cpu-sets", "(0,20)")],
    "52": [
        ("warning", "isolated-half-cores", "CPUs 27-42"),
        ("info", "irqaffinity-on-dedicated", "irqaffinity=0-2,19-47"),
    ],
    "54": [("warning", "isolated-half-cores", "CPUs 64-71")],
    "56": [("warning", "irqbalance-unaware", "leaves CPUs 0-3 open")],
    "57": [("info", "irqbalance-unaware", "bans CPUs 3,64-67 as well")],
    "58": [
        ("info", "irqaffinity-on-dedicated", "irqaffinity=0,6,12,18"),
        ("info", "nova-vcpu-pin-set", "deprecated"),
    ],
}
#: Cases of which the answer says that nothing is wrong.
_IN_ORDER = ("31", "32", "34", "35", "36", "37", "41", "42", "50", "51", "53", "55", "60")
#: Case -> interrupt -> where it may go; two never go to one CPU where there are as many.
_PLACED = {
    "31": {199: "1-23", 329: "1-23", 589: "48-71"},
    "32": {36: "0-11", 40: "0-11", 42: "0-11", 39: "12-23", 41: "12-23"},
    "34": dict.fromkeys(range(78, 82), "0-15"),
    "35": dict.fromkeys(range(200, 232), "1-63"),
    "60": {33: "0-1", 34: "0-1"},
}


def host_of(number: str) -> hosts.Tree:
    """Return the host of a case, with its guest as one that is defined."""
    case = Case("batch2", number)
    tree = dict(field_trees.tree(case))
    if case.has("domain.xml"):
        xml = case.text("domain.xml")
        tree[f"etc/libvirt/qemu/{parsing.parse_domain(xml).name}.xml"] = xml
    return tree


def plan_of(number: str) -> planner.Plan:
    view = hosts.view(host_of(number))
    return planner.plan(view.facts, view.cpu_sets)


class HostsTest(testcase.TestCase):
    def test_topologies(self) -> None:
        for number, nodes in _NODES.items():
            with self.subTest(number):
                facts = hosts.view(host_of(number)).facts
                self.assertEqual(nodes, [node.cpus for node in facts.nodes])
                cores = {cpu.siblings for cpu in facts.cpus if cpu.online}
                self.assertEqual(_CORES[number], len(cores))
                self.assertEqual(cpulist.union(nodes), cpulist.parse(facts.online))

    def test_generated_sets(self) -> None:
        for number, kept in _KEPT.items():
            with self.subTest(number):
                view = hosts.view(host_of(number))
                shared, dedicated, _reasons = generate.split(view)
                self.assertEqual(kept, cpulist.format(shared))
                self.assertEqual(view.sets.online - shared, dedicated)

    def test_sets_of_nova_are_repeated(self) -> None:
        shared, dedicated, _reasons = generate.split(hosts.view(host_of("50")))
        found = cpulist.format(shared), cpulist.format(dedicated)
        self.assertEqual(("0-1,16-17", "2-15,18-31"), found)

    def test_l3_groups(self) -> None:
        for number, expected in (("41", {"0-55,112-167", "56-111,168-223"}), ("40", {None})):
            groups = {cpu.l3 for cpu in hosts.view(host_of(number)).facts.cpus}
            self.assertEqual(expected, groups, number)

    def test_roles_of_cpus(self) -> None:
        for number, roles in _SETS.items():
            sets = plan_of(number).sets
            for role, cpus in roles.items():
                self.assertEqual(cpus, sets.get(role, ""), f"{number}: {role}")

    def test_an_affinity_that_is_a_mask(self) -> None:
        facts = hosts.view(host_of("36")).facts
        irq = facts.irqs[4284]
        self.assertEqual(("27", "27", None), (irq.affinity, irq.effective, irq.device))
        self.assertEqual([], plan_of("36").settings)


class FindingsTest(testcase.TestCase):
    def found(self, number: str) -> list[rules.Finding]:
        return runner.run(hosts.view(host_of(number)), runner.load(), strict=True).findings

    def test_what_is_wrong(self) -> None:
        for number, expected in _FOUND.items():
            findings = self.found(number)
            for level, rule, words in expected:
                with self.subTest(number, rule=rule):
                    (finding,) = [one for one in findings if one.rule == rule]
                    self.assertEqual(level, finding.level.value)
                    self.assertIn(words, f"{finding.why}\n{finding.remedy}")

    def test_nothing_is_wrong(self) -> None:
        for number in _IN_ORDER:
            with self.subTest(number):
                self.assertEqual([], [(one.level.value, one.rule) for one in self.found(number)])

    def test_sets_without_a_fault(self) -> None:
        """What else is found is not about the sets, the isolation or irqbalance."""
        silent = {
            "33": ("nic-irq-on-cpu0", "nic-irq-one-cpu"),
            "49": ("nic-irq-on-dedicated", "housekeeping-unset"),
            "54": ("irqaffinity-on-dedicated", "nohz-full-mismatch"),
            "57": ("isolated-half-cores",),
            "58": (
                "nova-cpu-sets",
                "isolated-half-cores",
                "host-cpus-few",
                "ovs-pmd-not-isolated",
                "nova-shared-set-missing",
            ),
        }
        for number, without in silent.items():
            names = {finding.rule for finding in self.found(number)}
            self.assertEqual(set(), names.intersection(without), number)


class InterruptsTest(testcase.TestCase):
    def placed(self, number: str) -> dict[int, str]:
        """Return the CPUs of the interrupts that the plan places."""
        cpus: dict[int, str] = {}
        for setting in plan_of(number).settings:
            if setting.kind == "irq_affinity":
                cpus[int(setting.target.removeprefix("irq:"))] = setting.value
        return cpus

    def test_each_queue_on_a_cpu_of_its_own(self) -> None:
        for number, allowed in _PLACED.items():
            with self.subTest(number):
                cpus = self.placed(number)
                used = [cpus[irq] for irq in allowed]
                self.assertEqual(len(used), len(set(used)))
                for irq, where in allowed.items():
                    self.assertIn(int(cpus[irq]), cpulist.parse(where), irq)

    def test_names_without_a_number(self) -> None:
        self.assertEqual(["0", "0", "1", "1"], sorted(self.placed("33").values()))
        plan = plan_of("33")
        self.assertEqual({"irq_affinity"}, {setting.kind for setting in plan.settings})
        for setting in plan.settings:
            self.assertNotIn("other interrupt", setting.reason)
        self.assertIn(NoteCode.QUEUES_UNPAIRED, [note.code for note in plan.warnings])

    def test_transmit_queues_follow_their_interrupts(self) -> None:
        """Of a NIC with two functions, and of vectors with two queues."""
        servers = {
            "32": ("eth2", [36, 39, 40, 41, 42]),
            "35": ("ens2f1", [200 + queue // 2 for queue in range(64)]),
        }
        for number, (nic, serving) in servers.items():
            cpus = self.placed(number)
            masks: dict[str, str] = {}
            for setting in plan_of(number).settings:
                if setting.kind == "xps":
                    masks[setting.target] = setting.value
            for queue, irq in enumerate(serving):
                mask = cpulist.parse_mask(masks[f"{nic}/tx-{queue}"])
                self.assertIn(int(cpus[irq]), mask, f"{number}: queue {queue}")

    def test_interrupts_of_no_queue(self) -> None:
        for number, others in (("34", (66, 77)), ("60", (30, 32))):
            for setting in plan_of(number).settings:
                if setting.target in [f"irq:{irq}" for irq in others]:
                    self.assertIn("other interrupt of", setting.reason, number)
                elif setting.kind == "irq_affinity":
                    self.assertRegex(setting.reason, r"queue \d+ on CPU", number)


class DomainsTest(testcase.TestCase):
    def changed(self, number: str, *specs: str) -> tuple[set[str], set[str], str]:
        """Return the lines taken away and added outside of the metadata, and all that is printed."""
        path = str(Case("batch2", number).directory / "input-domain.xml")
        options: list[str] = []
        for spec in specs:
            options += ["--spec", spec]
        code, out, err = program.run("xml", "--diff", *options, path)
        self.assertEqual(0, code, err)
        lines = re.sub(r"(?s)\+ *<metadata>.*?</metadata>\n", "", out)
        gone = set(re.findall(r"^-(?!--) *(\S.*)$", lines, re.MULTILINE))
        new = set(re.findall(r"^\+(?!\+\+) *(\S.*)$", lines, re.MULTILINE))
        return gone, new, out + err

    def test_pins_stay(self) -> None:
        self.assertEqual((set(), set()), self.changed("43")[:2])
        gone, new, _text = self.changed("44", "perf:iothreads=1")
        self.assertEqual({'<driver name="qemu" type="raw" cache="none"/>'}, gone)
        driver = '<driver name="qemu" type="raw" cache="none" iothread="1"/>'
        self.assertEqual({"<iothreads>1</iothreads>", driver}, new)

    def test_user_network_has_one_queue(self) -> None:
        gone, new, text = self.changed(
            "45",
            "hw:vif_multiqueue_enabled=true",
            "perf:vif_queues=2",
            "perf:vhost_placement=numa",
        )
        self.assertEqual((set(), set()), (gone, new))
        self.assertIn("of type user cannot have several queues", text)

    def test_virtio_on_ccw(self) -> None:
        specs = ("hw:vif_multiqueue_enabled=true", "perf:vif_queues=2", "perf:iothreads=1")
        gone, new, _text = self.changed("46", *specs)
        self.assertEqual({'<driver name="qemu" type="qcow2"/>'}, gone)
        disk = '<driver name="qemu" type="qcow2" iothread="1"/>'
        nic = '<driver name="vhost" queues="2"/>'
        self.assertEqual({"<iothreads>1</iothreads>", disk, nic}, new)
