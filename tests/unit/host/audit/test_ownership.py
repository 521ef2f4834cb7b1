# SPDX-License-Identifier: Apache-2.0
"""Advice on CPUs that somebody else owns, and on sets that Nova refuses, as operators have them."""

from nova_perf_tuning.host.audit import generate, runner
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts.root import FactsError
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.model.owners import Owner
from nova_perf_tuning.host.plan import planner
from tests.support import audit_hosts as hosts
from tests.support import owners, testcase

_NOVA = "etc/nova/nova.conf"
_CPU = "sys/devices/system/cpu"
PMD = owners.program(
    900, "ovs-vswitchd", {"ovs-vswitchd": "0-1", "pmd-c04/id:1": "4", "pmd-c12/id:2": "12"}
)


def found(tree, rule, **options):
    """Return level and subject of what one rule finds; None where it cannot judge."""
    view = hosts.view(hosts.changed(hosts.good(), tree), **options)
    report = runner.run(view, runner.chosen([rule]), strict=True)
    return (
        None
        if report.unknown
        else [(finding.level.value, finding.subject) for finding in report.findings]
    )


def conf(compute="", default="", libvirt=""):
    return {_NOVA: f"[DEFAULT]\n{default}\n[compute]\n{compute}\n[libvirt]\n{libvirt}\n"}


class ThirdOwnerTest(testcase.TestCase):
    """CPUs of PMD threads are isolated, and neither Nova's nor lost."""

    def test_what_programs_own_is_neither_lost_nor_shared(self):
        isolated = f"{hosts.DEDICATED},4,12"
        tree = {f"{_CPU}/{name}": isolated for name in ("isolated", "nohz_full")}
        tree |= conf(f"cpu_dedicated_set = {hosts.DEDICATED}")
        for rule in ("isolated-not-dedicated", "nohz-full-mismatch"):
            with self.subTest(rule):
                self.assertEqual([], found({**tree, **PMD}, rule))
        self.assertEqual([("info", "")], found(tree, "isolated-not-dedicated"))
        self.assertEqual([], found(tree, "nohz-full-mismatch"))  # nothing shares what is isolated

    def test_partitions_are_isolation(self):
        rest = {f"{_CPU}/isolated": "", f"{_CPU}/nohz_full": ""}
        tree = {**rest, "sys/fs/cgroup/cpuset.cpus.isolated": "0-1"}
        self.assertEqual([("error", "")], found(tree, "shared-set-isolated"))
        partition = owners.slice_of("machine.slice", hosts.DEDICATED, partition="isolated")
        self.assertEqual([], found({**rest, **partition}, "isolated-not-dedicated"))
        self.assertEqual([], found({**rest, **partition}, "housekeeping-unset"))

    def test_pmd_threads_on_guests_cpus(self):
        tree = owners.program(
            900, "ovs-vswitchd", {"main": "0-1", "pmd-c02/id:1": "2", "handler1": "0"}
        )
        self.assertEqual([("error", "pmd")], found(tree, "ovs-threads-on-dedicated"))

    def test_pmd_threads_on_cpus_of_floating_guests(self):
        for cpu, expected in ((4, [("warning", "pmd-shared")]), (0, [])):
            tree = owners.program(
                900, "ovs-vswitchd", {"main": "1", f"pmd-c0{cpu}/id:1": str(cpu)}
            )
            tree |= conf(f"cpu_dedicated_set = {hosts.DEDICATED}\ncpu_shared_set = 4-5,12-13")
            with self.subTest(cpu):
                self.assertEqual(expected, found(tree, "ovs-threads-on-dedicated"))

    def test_other_threads_of_the_switch_on_cpus_that_poll(self):
        """dpdk-lcore-mask is the same as pmd-cpu-mask: isolated or not, they are on one CPU."""
        polling = {"main": "0-1", "pmd-c04/id:1": "4", "pmd-c12/id:2": "12"}
        polled = {f"{_CPU}/isolated": f"{hosts.DEDICATED},4,12\n"}
        for name, others, changes, expected in (
            ("the same, isolated", "4,12", polled, [("warning", "handlers")]),
            ("the same", "4,12", {}, [("warning", "handlers")]),
            ("other isolated ones", "2-3", polled, [("warning", "handlers")]),
            ("these and others, isolated", "0,4,12", polled, []),
            ("apart", "0-1", polled, []),
        ):
            tree = owners.program(900, "ovs-vswitchd", {**polling, "handler1": others})
            tree |= conf(f"cpu_dedicated_set = {hosts.DEDICATED}")
            with self.subTest(name):
                self.assertEqual(expected, found({**tree, **changes}, "ovs-threads-on-dedicated"))

    def test_slices_of_guests(self):
        every = owners.slice_of("machine.slice", "0-15", partition="isolated")
        nested = owners.slice_of(
            "machine.slice/machine-rt.slice", "2-3", partition="isolated invalid (reason)"
        )
        unit = {"etc/systemd/system/machine.slice.d/10.conf": "[Slice]\nAllowedCPUs=0-3 6-7\n"}
        for name, tree, expected in (
            ("floating guests in an isolated partition", every, [("error", "")]),
            ("no partition", nested, [("warning", "machine.slice/machine-rt.slice")]),
            ("no guest runs", unit, [("error", "")]),
            ("another slice", owners.slice_of("system.slice", "0-1"), None),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found(tree, "machine-slice-cpus"))


class NovaSetsTest(testcase.TestCase):
    def test_the_legacy_option_is_dedicated_everywhere(self):
        tree = hosts.changed(
            hosts.good(), conf("cpu_shared_set = 0-3", 'vcpu_pin_set = "2-15,^12"')
        )
        view = hosts.view(tree)
        self.assertEqual({*range(2, 16)} - {12}, view.dedicated)
        [claim] = view.sets.owners.of_kind(Owner.DEDICATED)
        self.assertEqual("[DEFAULT] vcpu_pin_set", claim.name)
        self.assertEqual("/etc/nova/nova.conf [DEFAULT] vcpu_pin_set", claim.evidence[0].path)
        self.assertEqual({0, 1}, view.sets.shared)
        planned = novaconf.cpu_sets([("a", tree[_NOVA])])
        self.assertEqual(
            ("2-11,13-15", "0-3", True), (planned.dedicated, planned.shared, planned.legacy)
        )

    def test_what_nova_refuses(self):
        sets = f"cpu_dedicated_set = {hosts.DEDICATED}"
        legacy = f"vcpu_pin_set = {hosts.DEDICATED}"
        for name, tree, rule, expected in (
            (
                "reserved",
                conf(sets, "reserved_host_cpus = 2"),
                "nova-cpu-sets",
                [("error", "reserved_host_cpus")],
            ),
            ("reserved: none", conf(sets, "reserved_host_cpus = 0"), "nova-cpu-sets", []),
            (
                "reserved, legacy",
                conf("", f"reserved_host_cpus = 2\n{legacy}"),
                "nova-cpu-sets",
                [],
            ),
            (
                "all excluded",
                conf("cpu_dedicated_set = ^4"),
                "nova-cpu-sets",
                [("error", "cpu_dedicated_set")],
            ),
            (
                "a mask",
                conf("cpu_shared_set = 0xf"),
                "nova-cpu-sets",
                [("error", "cpu_shared_set")],
            ),
            ("not followed", conf("cpu_dedicated_set = $x"), "nova-cpu-sets", None),
            ("deprecated", conf("", "vcpu_pin_set = 2-3"), "nova-vcpu-pin-set", [("info", "")]),
            ("both", conf(sets, "vcpu_pin_set = 2-3"), "nova-vcpu-pin-set", [("error", "")]),
            (
                "split core",
                conf("cpu_shared_set = 1-4"),
                "nova-cpu-sets",
                [("warning", "cpu_shared_set")],
            ),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found(tree, rule))

    def test_power_management(self):
        on = "cpu_power_management = true"
        governor = f"{on}\ncpu_power_management_strategy = governor"
        rule = "nova-power-management-overlap"
        for name, tree, expected in (
            ("no set", conf("", "", on), [("warning", "")]),
            ("no set, governor", conf("", "", governor), [("warning", "")]),
            ("CPU 0", conf("cpu_dedicated_set = 0", "", on), [("info", "")]),
            ("governor", conf("cpu_dedicated_set = 0-15", "", governor), []),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found(tree, rule))
        view = hosts.view(hosts.changed(hosts.good(), conf("cpu_dedicated_set = 1-15", "", on)))
        [finding] = runner.run(view, runner.chosen([rule]), strict=True).findings
        self.assertIn(" 1,9,", finding.why)


class GenerateTest(testcase.TestCase):
    """What is generated starts from what is configured and running; differences are told."""

    def made(self, tree):
        """Return shared, dedicated, isolcpus= and how many differences are told."""
        view = hosts.view(hosts.changed(hosts.good(), tree))
        text = generate.nova_conf(view)
        values = dict(
            line.split(" = ") for line in text.splitlines() if "_set = " in line and line[0] != "#"
        )
        args = [line for line in generate.grub_args(view).splitlines() if line[0] != "#"]
        isolcpus = (
            args[0].split()[0].removeprefix("isolcpus=managed_irq,domain,") if args else None
        )
        told = text.count("# not as in nova.conf")
        return values.get("cpu_shared_set"), values.get("cpu_dedicated_set"), isolcpus, told

    def test_sets(self):
        none = {f"{_CPU}/isolated": "", f"{_CPU}/nohz_full": ""}
        left, half = "0-1,4-5,8-9,12-13", "0-1,5,8-9,13"
        pmd = {**PMD, f"{_CPU}/isolated": f"{hosts.DEDICATED},4,12", f"{_CPU}/nohz_full": ""}
        pmd["proc/cmdline"] = f"isolcpus={hosts.DEDICATED},4,12\n"
        for name, tree, expected in (
            (
                "shared alone",
                {**none, **conf("cpu_shared_set = 1-7,9-15")},
                ("1-7,9-15", None, None, 0),
            ),
            (
                "a torn core",
                {**none, **conf("cpu_shared_set = 1-15")},
                ("1-7,9-15", None, None, 1),
            ),
            (
                "legacy",
                conf("", f"vcpu_pin_set = {hosts.DEDICATED}"),
                (left, hosts.DEDICATED, hosts.DEDICATED, 2),
            ),
            ("isolated alone", {_NOVA: None}, (left, hosts.DEDICATED, hosts.DEDICATED, 0)),
            (
                "a torn core 0",
                {_NOVA: None, f"{_CPU}/isolated": "1-15", "proc/cmdline": "isolcpus=1-N\n"},
                ("0,8", *["1-7,9-15"] * 2, 0),
            ),
            (
                "CPU 0 to guests",
                {**none, **conf("cpu_dedicated_set = 0-1")},
                ("0,2-8,10-15", "1,9", "1,9", 3),
            ),
            (
                "PMD threads",
                {**pmd, **conf(f"cpu_dedicated_set = {hosts.DEDICATED}")},
                (half, hosts.DEDICATED, "2-4,6-7,10-12,14-15", 1),
            ),
            (
                "a program on CPU 0",
                {
                    **none,
                    **owners.program(
                        900,
                        "ovs-vswitchd",
                        {"main": "0-15", "pmd1": "0", "pmd2": "4", "pmd3": "12"},
                    ),
                },
                ("1,5,8-9,13", hosts.DEDICATED, "2-4,6-7,10-12,14-15", 0),
            ),
            (
                "a partition",
                {**none, "sys/fs/cgroup/cpuset.cpus.isolated": hosts.DEDICATED},
                (left, hosts.DEDICATED, None, 0),
            ),
        ):
            with self.subTest(name):
                self.assertEqual(expected, self.made(tree))

    def test_weak_cores_and_nodes_without_memory_are_the_hosts(self):
        gone = (
            _NOVA,
            "etc/libvirt",
            "run/libvirt",
            "proc/5000",
            "proc/cmdline",
            f"{_CPU}/isolated",
            f"{_CPU}/nohz_full",
        )
        bare = dict.fromkeys(gone)
        hybrid = {"sys/devices/cpu_core/cpus": "2-7,10-15", "sys/devices/cpu_atom/cpus": "0-1,8-9"}
        rated = {
            f"{_CPU}/cpu{cpu}/cpu_capacity": "446" if cpu % 8 < 2 else "1024" for cpu in range(16)
        }
        empty = {"sys/devices/system/node/node1/meminfo": "Node 1 MemTotal: 0 kB\n"}
        self.assertEqual(
            ("0-1,4,8-9,12", "2-3,5-7,10-11,13-15"), self.made({**bare, **hybrid})[:2]
        )
        self.assertEqual(("0-1,4,8-9,12", "2-3,5-7,10-11,13-15"), self.made({**bare, **rated})[:2])
        first = {"sys/devices/cpu_core/cpus": "0-5,8-13", "sys/devices/cpu_atom/cpus": "6-7,14-15"}
        self.assertEqual(("0,6-8,14-15", "1-5,9-13"), self.made({**bare, **first})[:2])
        for tree, notes_of_kind in (
            ({**bare, **first}, 1),
            ({**bare, **rated}, 1),
            ({**bare, **first, **conf("cpu_shared_set = 0")}, 0),
        ):
            notes = hosts.view(hosts.changed(hosts.good(), tree)).sets.warnings
            self.assertEqual(
                notes_of_kind, sum(note.code is NoteCode.UNLIKE_CORES for note in notes)
            )
        shared, dedicated = self.made({**bare, **empty})[:2]
        self.assertEqual(("0,4-8,12-15", "1-3,9-11"), (shared, dedicated))

    def test_an_empty_host_has_no_sets(self):
        view = hosts.view({"proc/x": "", "sys/x": ""})
        self.assertRaises(FactsError, generate.nova_conf, view)
        self.assertRaises(FactsError, generate.grub_args, view)


class PinsTest(testcase.TestCase):
    """Pins of a guest that does not run are judged like those of one that does."""

    def domain(self, memory="", emulator="0", iothread="0", pins=("2", "3")):
        return {
            "etc/libvirt/qemu/idle.xml": f"""<domain type='kvm'><name>idle</name><uuid>u</uuid>
            <vcpu current='2'>4</vcpu><iothreads>1</iothreads><cputune><vcpupin vcpu='0' cpuset='{pins[0]}'/>
            <vcpupin vcpu='1' cpuset='{pins[1]}'/><vcpupin vcpu='3' cpuset='98'/><emulatorpin cpuset='{emulator}'/>
            <iothreadpin iothread='1' cpuset='{iothread}'/></cputune>{memory}</domain>"""
        }

    def test_pins(self):
        near = "<numatune><memory mode='strict' nodeset='0'/></numatune>"
        cells = """<numatune><memnode cellid='0' mode='strict' nodeset='0'/><memnode cellid='1' mode='strict'
            nodeset='1'/></numatune><cpu><numa><cell id='0' cpus='0'/><cell id='1' cpus='1,3'/></numa></cpu>"""
        far = [("warning", "idle")]
        for name, rule, tree, expected in (
            ("quiet", "emulator-on-dedicated", self.domain(), []),
            ("emulator on a vCPU", "emulator-on-dedicated", self.domain(emulator="1-2"), far),
            ("I/O thread on a vCPU", "emulator-on-dedicated", self.domain(iothread="0-3"), far),
            ("all there", "guest-pins", self.domain(memory=near), []),
            ("no CPU left", "guest-pins", self.domain(near, iothread="99"), [("error", "idle")]),
            ("some CPUs left", "guest-pins", self.domain(near, emulator="0,99"), far),
            (
                "vCPUs far from memory",
                "guest-pins",
                self.domain(memory=near, pins=("2", "6")),
                far,
            ),
            ("a cell far from its memory", "guest-pins", self.domain(memory=cells), far),
            (
                "cells beside their memory",
                "guest-pins",
                self.domain(memory=cells, pins=("2", "6")),
                [],
            ),
        ):
            with self.subTest(name):
                self.assertEqual(expected, found(tree, rule))

    def test_the_plan_says_no_more_than_it_has_looked_at(self):
        view = hosts.view(hosts.changed(hosts.good(), self.domain(emulator="0-3")))
        plan = planner.plan(view.facts, view.cpu_sets)
        self.assertEqual("2-3", plan.sets["overlap_emulator"])
