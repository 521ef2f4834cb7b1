# SPDX-License-Identifier: Apache-2.0
"""Each code of a note has a host on which it is said, and is said on no good host."""

import dataclasses

import fixtures

from nova_perf_tuning.host.audit import host as audit_host
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import ethtool, reader
from nova_perf_tuning.host.input.facts import root as roots
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.model.owners import CpuSets
from nova_perf_tuning.host.plan import planner
from tests.support import audit_cases, audit_hosts, hosts, owners, program, testcase

_CPU = "sys/devices/system/cpu"
_NODE = "sys/devices/system/node"
_RUN = "run/libvirt/qemu/instance-1"
_NOVA = "etc/nova/nova.conf"
_TASK = "proc/5000/task/5003"
_TOO_MANY_SLICES = {
    f"sys/fs/cgroup/{number}.slice": audit_hosts.DIRECTORY for number in range(1001)
}

#: What differs from the good host.
FACTS = {
    NoteCode.TOO_LONG: {"proc/sys/kernel/osrelease": "6" * 100_000 + "\n"},
    NoteCode.LINK_CIRCLE: {"sys/class/net/eth9": "-> eth8", "sys/class/net/eth8": "-> eth9"},
    NoteCode.NOT_TEXT: {f"{_CPU}/isolated": "\x07\n"},
    NoteCode.NOT_CPU_LIST: {f"{_CPU}/isolated": "2-x\n"},
    NoteCode.NOT_CPU_MASK: {f"{_NODE}/node0/cpulist": None, f"{_NODE}/node0/cpumap": "xyz\n"},
    NoteCode.VALUE_UNKNOWN: {"sys/module/vhost/parameters/fork_from_owner_default": "2\n"},
    NoteCode.NO_CPUS: {_CPU: None, _NOVA: None},
    NoteCode.NO_ONLINE_LIST: {f"{_CPU}/online": "all\n"},
    NoteCode.FROM_COMMAND_LINE: {f"{_CPU}/isolated": None, "proc/cmdline": "isolcpus=2-3\n"},
    NoteCode.CORE_UNKNOWN: {f"{_CPU}/cpu0/topology/core_cpus_list": None},
    NoteCode.CORE_ABSURD: {f"{_CPU}/cpu0/topology/core_cpus_list": "1\n"},
    NoteCode.CORES_OVERLAP: {f"{_CPU}/cpu1/topology/core_cpus_list": "1,8\n"},
    NoteCode.PACKAGE_UNKNOWN: {f"{_CPU}/cpu0/topology/physical_package_id": "-1\n"},
    NoteCode.NO_NUMA_DATA: {_NODE: None},
    NoteCode.NODE_REPEATED: {f"{_NODE}/node1/cpulist": "0-3,8-11\n"},
    NoteCode.NODES_OVERLAP: {f"{_NODE}/node1/cpulist": "3-7,12-15\n"},
    NoteCode.NODE_MEMORY_UNKNOWN: {f"{_NODE}/node0/meminfo": None},
    NoteCode.DISTANCE_COUNT: {f"{_NODE}/node0/distance": "10\n"},
    NoteCode.DISTANCE_RANGE: {f"{_NODE}/node0/distance": "10 256\n"},
    NoteCode.NO_INTERRUPTS: {"proc/irq": None},
    NoteCode.IRQS_WITHOUT_MASKS: {
        "proc/irq": None,
        "proc/interrupts": "  CPU0 CPU1\n 40:  5 0 IO-APIC 40-edge eth0\n",
    },
    NoteCode.IRQ_AFFINITY_UNKNOWN: {"proc/irq/40/smp_affinity_list": None},
    NoteCode.NO_NICS: {"sys/class/net": None, "sys/devices/virtual/net": None},
    NoteCode.NIC_NAME: {"sys/class/net/a b": "-> ../../devices/virtual/net/br0"},
    NoteCode.NIC_FEATURES_UNKNOWN: {"nova-perf/ethtool/eth0.json": "[]\n"},
    NoteCode.NAPI_UNKNOWN: {"nova-perf/napis": "eth0\n"},
    NoteCode.PROCESS_SHARED: {"run/libvirt/qemu/second.pid": "5000\n"},
    NoteCode.PROCESS_GONE: {"proc/5000": None},
    NoteCode.PROCESS_NOT_QEMU: {f"proc/5000/task/{tid}": None for tid in (5003, 5004)},
    NoteCode.DOMAIN_UNKNOWN: {f"{_RUN}.xml": None},
    NoteCode.DOMAIN_UNUSABLE: {f"{_RUN}.xml": "<domain>"},
    NoteCode.THREAD_UNKNOWN: {f"{_TASK}/status": "nothing\n"},
    NoteCode.THREAD_ABSURD: {"proc/5000/stat": "5000\n"},
    NoteCode.THREAD_AFFINITY_UNKNOWN: {f"{_TASK}/status": "Name:\tCPU 0/KVM\n"},
    NoteCode.PROGRAM_OF_ANOTHER_USER: {
        **owners.program(900, "ovs-vswitchd", {"ovs-vswitchd": "0-7"}, ids="1000 1000 1000 1000"),
        "etc/passwd": "root:x:0:0::/root:/bin/sh\n",
    },
    NoteCode.BOUND_TO_ISOLATED: owners.program(900, "app", {"app": "0-7", "worker": "2"}),
    NoteCode.THREADS_LEFT_OUT: owners.program(
        900, "app", {f"worker{number}": "2" for number in range(65)}
    ),
    NoteCode.SLICES_LEFT_OUT: _TOO_MANY_SLICES,
    NoteCode.FILES_LEFT_OUT: {
        f"etc/nova/nova.conf.d/{number:03}.conf": "[DEFAULT]\n" for number in range(101)
    },
    NoteCode.NOVA_CONF_PASSED_OVER: {"etc/kolla/nova-compute/nova.conf": "[compute]\n"},
}

#: Nova's sets on the good host in place of its own, and what else differs.
SETS = {
    NoteCode.OFFLINE_IN_SET: (
        "cpu_dedicated_set = 2-3\ncpu_shared_set = 0,12",
        {f"{_CPU}/online": "0-11\n"},
    ),
    NoteCode.ISOLATED_SHARED: ("cpu_dedicated_set = 6\ncpu_shared_set = 0-1,14", {}),
    NoteCode.ONLY_ISOLATED_SHARED: ("cpu_dedicated_set = 6\ncpu_shared_set = 14", {}),
    NoteCode.NO_HOUSEKEEPING: (
        "cpu_dedicated_set = 6\ncpu_shared_set = 14",
        {f"{_CPU}/isolated": "0-15\n"},
    ),
    NoteCode.EVERY_CPU_DEDICATED: ("cpu_dedicated_set = 0-15", {}),
    NoteCode.EVERY_CPU_TAKEN: ("cpu_dedicated_set = 0-7", {f"{_CPU}/isolated": "8-15\n"}),
    NoteCode.GUEST_IN_SET: ("cpu_dedicated_set = 6-7\ncpu_shared_set = 0-3", {}),
    NoteCode.GUEST_OUTSIDE_DEDICATED: ("cpu_dedicated_set = 6-7\ncpu_shared_set = 0-1", {}),
    NoteCode.PROGRAM_IN_SET: (
        "cpu_dedicated_set = 2-3\ncpu_shared_set = 0-1,12",
        owners.program(900, "ovs-vswitchd", {"ovs-vswitchd": "0-1", "pmd-c12/id:1": "12"}),
    ),
    NoteCode.CPU_OF_TWO_GUESTS: (
        "cpu_dedicated_set = 2-3\ncpu_shared_set = 0-1",
        {"etc/libvirt/qemu/twin.xml": audit_hosts.domain("twin", pins=("2", "3"), device="tap5")},
    ),
    NoteCode.NODE_WITHOUT_HOUSEKEEPING: ("cpu_dedicated_set = 0-3,8-11\ncpu_shared_set = 4-7", {}),
    NoteCode.OVERLAP: ("cpu_dedicated_set = 0-15", {}),
}

_NUMA = {"vhost_placement": "numa", "emulator_placement": "numa"}
_ADDRESS = "0000:82:10.0"
_DEVICE = {"asks": {"irq_placement": "vcpu"}, "hostdevs": [_ADDRESS]}
_IRQ = hosts.irq(60, f"vfio-msix[0]({_ADDRESS})", _ADDRESS)
_EIGHT = hosts.cpus_of([(0, 8)])
_ASKING = hosts.guest("g", 1000, ["4", "5"], workers=1, asks=_NUMA)
_CONFUSED = dataclasses.replace(
    _ASKING, domain=dataclasses.replace(_ASKING.domain, request_error="perf:x is unknown")
)

#: What is planned: a host of eight CPUs with these sets.
PLANS = {
    NoteCode.ISOLATED_HOUSEKEEPING: (hosts.facts(_EIGHT, isolated="2"), {"housekeeping": "1-2"}),
    NoteCode.UNLIKE_CORES: (
        hosts.facts(hosts.cpus_of([(0, 8)], capacity=lambda core: 1024 if core < 4 else 400)),
        {},
    ),
    NoteCode.QUEUES_UNPAIRED: (
        hosts.facts(_EIGHT, [hosts.nic("eth0", (24,), queues=2)], [hosts.irq(24, "eth0-TxRx-0")]),
        {},
    ),
    NoteCode.SURPLUS_VECTORS: (
        hosts.facts(
            _EIGHT,
            [hosts.nic("eth0", (24, 25), queues=1)],
            [hosts.irq(24, "eth0-TxRx-0"), hosts.irq(25, "eth0-TxRx-1")],
        ),
        {},
    ),
    NoteCode.REQUEST_UNUSABLE: (hosts.facts(_EIGHT, guests=[_CONFUSED]), {}),
    NoteCode.NO_OWN_CPU: (
        hosts.facts(_EIGHT, irqs=[_IRQ], guests=[hosts.guest("g", 1000, ["0-7"], **_DEVICE)]),
        {},
    ),
    NoteCode.NO_DEVICE_INTERRUPT: (
        hosts.facts(_EIGHT, guests=[hosts.guest("g", 1000, ["2"], **_DEVICE)]),
        {},
    ),
    NoteCode.EMULATOR_CONFINED: (
        hosts.facts(_EIGHT, guests=[hosts.guest("g", 1000, ["5"], asks=_NUMA, emulator_pin="5")]),
        {},
    ),
    NoteCode.SLICE_CONFINED: (
        hosts.facts(
            _EIGHT,
            guests=[dataclasses.replace(_ASKING, slice="machine.slice")],
            slices=[host_model.Slice("machine.slice", "4-5", "4-5", "member")],
        ),
        {},
    ),
    NoteCode.IOTHREAD_CONFINED: (
        hosts.facts(
            _EIGHT,
            guests=[
                hosts.guest("g", 1000, ["5"], asks=_NUMA, emulator_pin="1-4", iothread_pin="5")
            ],
        ),
        {},
    ),
    NoteCode.NO_VHOST_WORKER: (
        hosts.facts(_EIGHT, guests=[hosts.guest("g", 1000, ["5"], asks=_NUMA, tap="tap0")]),
        {},
    ),
}


def noted(changes):
    """Return the codes that are said of the good host with changes, by its facts and by its plan."""
    root = audit_hosts.TreeRoot(audit_hosts.changed(audit_hosts.good(), changes))
    facts = reader.read_root(root)
    plan = planner.plan(facts, novaconf.cpu_sets(novaconf.found(root)))
    for nic in facts.nics:
        ethtool.read(root, nic.name)
    return {note.code for note in (*facts.warnings, *root.notes.all(), *plan.warnings)}


_IRQS_ON_GUESTS = audit_cases.CASES["nic-irq-on-dedicated"].changes
_BALANCING = audit_cases.CASES["numa-balancing-with-pinned-guests"].changes
_FLOATING = {
    "etc/libvirt/qemu/floating.xml": audit_hosts.domain(
        "floating", pins=(), policy="shared", device="tap7"
    )
}

#: What differs from the good host, and the options of nova-perf apply.
APPLIED = {
    NoteCode.RULE_UNKNOWN: ({}, "--rule cpu-governor"),
    NoteCode.RULE_MANUAL: (
        {_NOVA: "[compute]\ncpu_dedicated_set = 0-15\n"},
        "--rule nic-irq-on-dedicated",
    ),
    NoteCode.RULE_UNSAFE: ({**_BALANCING, **_FLOATING}, "--all-safe"),
    NoteCode.NOT_PERSISTENT: (_IRQS_ON_GUESTS, "--rule nic-irq-on-dedicated --persist"),
    NoteCode.NO_DIRECTORY: (
        {**_BALANCING, "etc/sysctl.d": None},
        "--rule numa-balancing-with-pinned-guests --persist",
    ),
}


#: What tests of its own module assert by code.
ELSEWHERE = {
    NoteCode.NOT_A_FILE,  # host/input/facts/test_root
    NoteCode.VECTORS_SHORT,  # host/plan/test_room
    NoteCode.REPORT_LACKS,  # host/input/sosreport/test_report
    NoteCode.VECTORS_FULL,  # host/plan/test_refused, as those that follow
    NoteCode.NODE_WITHOUT_VECTORS,
    NoteCode.NO_VECTOR,
    NoteCode.INTERRUPTS_MANAGED,
    NoteCode.INTERRUPTS_LEFT,
    NoteCode.LEAVE_UNMATCHED,
}


class EveryNoteTest(testcase.TestCase):
    def test_no_code_is_without_a_host(self):
        alone = {NoteCode.NO_PERMISSION, NoteCode.RULE_BROKEN}
        self.assertEqual(set(NoteCode), {*FACTS, *SETS, *PLANS, *APPLIED, *alone, *ELSEWHERE})

    def test_the_good_host_has_none(self):
        self.assertEqual(set(), noted({}))

    def test_facts(self):
        for code, changes in FACTS.items():
            with self.subTest(code.name):
                self.assertIn(code, noted(changes))

    def test_sets(self):
        for code, (sets, changes) in SETS.items():
            with self.subTest(code.name):
                self.assertIn(code, noted({_NOVA: f"[compute]\n{sets}\n", **changes}))

    def test_plans(self):
        for code, (facts, sets) in PLANS.items():
            with self.subTest(code.name):
                plan = planner.plan(facts, CpuSets(**sets))
                self.assertIn(code, {note.code for note in plan.warnings})

    def applied(self, changes, arguments):
        root = audit_hosts.grow(self, audit_hosts.changed(audit_hosts.good(), changes))
        document = program.document(
            self, "apply", "--sysroot", root, "--dry-run", *arguments.split()
        )
        return {note["code"] for note in document["notes"]}

    def test_apply(self):
        for code, (changes, arguments) in APPLIED.items():
            with self.subTest(code.name):
                self.assertIn(code.name.lower(), self.applied(changes, arguments))

    def test_a_rule_that_is_broken(self):
        def broken(*_arguments):
            raise RuntimeError("this rule is broken")

        self.useFixture(fixtures.MonkeyPatch(f"{audit_host.__name__}.Host.text", broken))
        self.assertIn("rule_broken", self.applied({}, "--all-safe"))

    def test_a_file_that_nobody_may_read(self):
        """The kernel lets no reader in, not even root."""
        root = roots.Root()
        self.assertIsNone(root.read(root.directory("proc/sys/net/ipv4/route"), "flush"))
        self.assertEqual([NoteCode.NO_PERMISSION], [note.code for note in root.notes.all()])
