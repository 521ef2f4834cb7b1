# SPDX-License-Identifier: Apache-2.0
"""Cases of the ninth batch of field inputs: CPUs, findings and levels of their answers."""

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate, host
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.plan import vectors
from tests.support import audit_hosts, field_batches

_BATCH = field_batches.Batch("batch9", cpus={}, channels={})
#: Case -> the CPUs that run.
_ONLINE = {
    **{"229": "0-3", "230": "0-3", "231": "0-11", "232": "0-11", "233": "0-3", "234": "0-7"},
    **{"235": "0-1", "236": "0-19", "237": "0-63", "238": "0,8,16,24,32,40,48,56,64,72"},
    **{"239": "0-8", "240": "0-159", "241": "0-159", "242": "0-287", "243": "0-127"},
    **{"248": "0-3", "249": "0-39", "252": "0-63", "253": "0-143", "255": "0-55", "258": "0-3"},
}
#: Case -> each finding that the answer asks for: level, rule, and words of it.
_FOUND = {
    "230": [("warning", "device-irqs-one-cpu", "97% of their counts", "30 (mlx5_comp0@")],
    "231": [("warning", "device-irqs-one-cpu", "served by CPU 0", "63 (eth2)", "eth0-TxRx-7")],
    "232": [("info", "nic-irq-one-cpu", "2 interrupts of eth2", "4276756322 on CPU 0 (eth2-6)")],
    "243": [
        ("warning", "guest-topology", "parts of sockets 0-1", "cpus='0-31,64-95'", "<topology"),
        ("warning", "guest-topology", "parts of sockets 0-1", "cpus='32-63,96-127'"),
        ("info", "emulator-on-dedicated", "CPUs 0-127", "no <emulatorpin>"),
        ("info", "host-cpus-few", "0 CPUs of 128 for everything but guests"),
        ("info", "guest-pins", "owns CPU 0"),
    ],
    "244": [("warning", "windows-without-hyperv", "relaxed, vapic, spinlocks", "<hyperv> with")],
    "246": [("info", "guest-disk-cache", "vda", "QEMU's default", "<driver cache='none'/>")],
    "247": [
        (
            *("info", "emulator-on-dedicated", "CPUs 18,66", "<emulatorpin cpuset='18,66'>"),
            *("<iothreadpin cpuset='0-20,24-46,48-68,72-94'>, and 3 threads like it",),
        )
    ],
    "248": [
        ("error", "nova-cpu-sets", "names CPU 4", "only CPUs 0-3", "Nova refuses the set"),
        ("info", "nova-shared-set-missing", "1-4; no cpu_shared_set"),
    ],
    "250": [("info", "nova-vcpu-pin-set", "deprecated")],
    "251": [("warning", "nohz-full-mismatch", "CPUs 4-7,12-15")],
    "252": [("warning", "isolcpus-without-effect", "not a list of CPUs", "no CPU is isolated")],
    "256": [("info", "nova-vcpu-pin-set", "deprecated")],
    "257": [
        ("warning", "ovs-pmd-not-isolated", "4 PMD threads on CPUs 2-3,38-39"),
        ("info", "nova-vcpu-pin-set", "deprecated"),
    ],
    "258": [("warning", "nic-irq-one-cpu", "91% of their counts since boot on CPU 0", "eth1")],
}
#: Cases of which the answer says that nothing is wrong, or a hint at most.
_IN_ORDER = ("229", "233", "234", "235", "239", "240", "245", "249", "250", "253", "255", "256")
#: Case -> rules that may say nothing.
_SILENT = {
    "229": ("device-irqs-one-cpu", "nic-irq-one-cpu", "nic-irq-remote-node"),
    "230": ("nic-irq-remote-node", "nic-irq-one-cpu"),
    "232": ("ring-drops", "nic-irq-remote-node"),
    "233": ("device-irqs-one-cpu", "nic-irq-on-cpu0"),
    "234": ("device-irqs-one-cpu", "nic-irq-on-cpu0"),
    "244": ("guest-pins", "guest-emulated-nic", "guest-emulated-disk"),
    "245": ("guest-larger-than-node", "guest-floats-over-nodes", "guest-emulated-nic"),
    "246": ("guest-scsi-controller", "guest-emulated-disk", "guest-without-kvm"),
    "247": ("guest-references", "guest-pins", "guest-half-cores", "guest-small-pages"),
    "248": ("nova-power-management-overlap",),
    "249": ("nova-cpu-sets", "nova-shared-set-missing", "housekeeping-unset", "host-cpus-few"),
    "250": ("nova-cpu-sets", "isolated-not-dedicated", "isolcpus-without-effect"),
    "251": ("boot-parameter-misspelt", "isolcpus-without-effect", "isolated-half-cores"),
    "252": ("isolated-half-cores", "irqaffinity-on-dedicated"),
    "253": ("boot-parameter-misspelt", "isolcpus-without-effect", "managed-irq-on-dedicated"),
    "254": ("irqbalance-unaware", "isolcpus-without-effect", "boot-parameter-misspelt"),
    "256": ("isolated-not-dedicated", "ovs-pmd-not-isolated", "nohz-full-mismatch"),
    "257": ("isolated-not-dedicated",),
    "258": ("channels-vs-housekeeping", "ring-drops", "nic-irq-remote-node"),
}
#: Case -> rules that may not hold either: what they need is not in the input.
_UNKNOWN = {
    "229": (
        "nic-irq-on-cpu0",
        "nic-irq-remote-node",
        "clocksource-slow",
        "ksm-with-pinned-guests",
    ),
    "231": ("nic-irq-on-cpu0", "nic-irq-remote-node"),
    "232": ("ring-drops", "nic-irq-remote-node"),
    "235": ("device-irqs-one-cpu",),
    "243": ("numa-balancing-with-pinned-guests", "thp-never"),
    "255": ("nohz-full-mismatch", "isolcpus-without-effect"),
}
#: Case -> CPUs by their role.
_SETS = {
    "248": {"dedicated": "1-3", "housekeeping": "0"},
    "249": {"shared": "1-7,9-19,21-27,29-39", "dedicated": ""},
    "250": {"dedicated": "2-3,6-7", "housekeeping": "0-1,4-5"},
    "251": {"tickless": "4-7,12-15", "isolated": ""},
    "252": {"isolated": "", "tickless": "1-30,33-62"},
    "253": {"isolated": "1-71,73-143", "housekeeping": "0,72"},
    "254": {"isolated": "", "tickless": "3-31,35-63", "housekeeping": "0-2,32-34"},
    "255": {
        "housekeeping": "0-3,14-15,28-31,42-43",
        "excluded": "4-13,16-27,32-41,44-55",
        "isolated": "",
    },
    "256": {"programs": "2-3,26-27", "dedicated": "4-23,28-47", "housekeeping": "0-1,24-25"},
    "257": {"programs": "2-7,38-43", "housekeeping": "0-1,36-37"},
}


class NinthCase(field_batches.BatchCase):
    batch = _BATCH

    def view(self, number: str) -> host.Host:
        """Return the host of a case; some are sosreports, with outputs of commands."""
        root = reader.open_root(audit_hosts.grow(self, self.batch.tree(number)))
        return host.Host(root, reader.read_root(root))


class HostsTest(NinthCase):
    def test_cpus(self) -> None:
        for number, cpus in _ONLINE.items():
            facts = self.view(number).facts
            self.assertEqual(cpus, facts.online, number)
            self.assertEqual(
                cpus, cpulist.format(cpu.id for cpu in facts.cpus if cpu.online), number
            )

    def test_nodes(self) -> None:
        self.assert_topology("231", ["0-5", "6-11"], 12)
        self.assert_topology("237", ["0-31", "32-63"], 64)
        self.assert_topology("238", ["0,8,16,24,32", "40,48,56,64,72"], 10)
        self.assert_topology("239", ["0-8"], 9)
        self.assert_topology("240", ["0-79", "80-159"], 160)
        nodes = [node.cpus for node in self.view("241").facts.nodes]
        self.assertEqual(("1-10,41-50", "0,81-89,120-129"), (nodes[0], nodes[4]))
        self.assertEqual("18-35,162-179", self.view("242").facts.nodes[1].cpus)
        self.assertEqual(2048 << 10, self.view("242").facts.nodes[1].memory_kib)
        self.assertEqual([9], [cpu.id for cpu in self.view("239").facts.cpus if not cpu.online])

    def test_threads_are_known_or_not(self) -> None:
        for number, known in (("237", False), ("241", False), ("236", True), ("240", True)):
            self.assertEqual(known, self.view(number).knows_threads, number)

    def test_generated_sets(self) -> None:
        for number in ("237", "241", "242"):
            view = self.view(number)
            shared, dedicated, _reasons = generate.split(view)
            self.assertEqual(view.sets.online, shared | dedicated, number)
            self.assertEqual(view.nodes_of(view.sets.online), view.nodes_of(shared), number)
            self.assertEqual(view.nodes_of(view.sets.online), view.nodes_of(dedicated), number)
            self.assertNotIn(0, dedicated, number)
        for number, cpus in (("236", "2-11"), ("238", "8,16,24,32"), ("248", "1-3")):
            _shared, dedicated, reasons = generate.split(self.view(number))
            self.assertEqual(cpus, cpulist.format(dedicated), number)
            self.assertTrue(reasons, number)
        shared, dedicated, _reasons = generate.split(self.view("239"))
        self.assertNotIn(9, shared | dedicated)
        shared, dedicated, _reasons = generate.split(self.view("253"))
        self.assertEqual({0, 72}, shared)

    def test_parameters_for_the_command_line(self) -> None:
        for number, isolated in (("250", "2-3,6-7"), ("256", "2-23,26-47"), ("257", "2-35,38-71")):
            text = generate.grub_args(self.view(number))
            self.assertIn(f"isolcpus=managed_irq,domain,{isolated} ", text, number)
        text = generate.grub_args(self.view("252"))
        self.assertIn("# not as running: nohz_full=1-30,33-62\n", text)
        self.assertIn("# not as running: irqaffinity=0,31,32,63\n", text)

    def test_vectors_of_nics(self) -> None:
        for number, name, first in (("232", "eth2", 64), ("258", "eth1", 44)):
            view = self.view(number)
            nic = view.nics[name]
            queues = vectors.classify(nic, view.interrupts(nic)).queues
            self.assertEqual(first, queues[0][0].number)
            self.assertEqual({"eth2": 8, "eth1": 4}[name], len(queues))

    def test_roles_of_cpus(self) -> None:
        for number, roles in _SETS.items():
            view = self.view(number)
            sets = {
                "dedicated": view.sets.dedicated,
                "shared": view.sets.shared,
                "housekeeping": view.sets.housekeeping,
                "isolated": view.sets.isolated,
                "tickless": view.sets.tickless,
                "excluded": view.sets.excluded,
                "programs": view.sets.programs,
            }
            for role, cpus in roles.items():
                self.assertEqual(cpus, cpulist.format(sets[role]), f"{number}: {role}")

    def test_no_interrupt_is_moved_without_one(self) -> None:
        self.assertEqual([], self.plan("235").settings)

    def test_queues_of_one_number_are_planned_together(self) -> None:
        values = {setting.target: setting.value for setting in self.plan("258").settings}
        for queue in range(4):
            self.assertEqual(values[f"irq:{44 + queue}"], values[f"irq:{48 + queue}"])
        self.assertEqual(4, len({values[f"irq:{44 + queue}"] for queue in range(4)}))
        self.assertEqual(set(), {"irq:31", "irq:32", "irq:33"} & values.keys())


class FindingsTest(NinthCase):
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

    def test_what_is_unknown_does_not_hold(self) -> None:
        for number, rules in _UNKNOWN.items():
            self.assertEqual(set(), set(rules).intersection(self.report(number).clean), number)

    def test_inter_processor_interrupts_are_no_devices(self) -> None:
        for number in ("233", "234"):
            shown = self.report(number).held.get("device-irqs-one-cpu", ())
            self.assertNotIn("IPI", str(shown))
            self.assertNotIn("arch_timer", str(shown))
