# SPDX-License-Identifier: Apache-2.0
"""Whose CPUs are whose: claims of guests, programs, partitions and Nova, as read, as recorded and as planned."""

import dataclasses
import json

from nova_perf_tuning import cpulist
from nova_perf_tuning.cli import topology
from nova_perf_tuning.host import model, record
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.notes import NoteCode
from nova_perf_tuning.host.owners import CpuOwners, CpuSets, Owner
from nova_perf_tuning.host.plan import planner
from tests.support import audit_hosts, hosts, testcase, trees
from tests.support.owners import program, slice_of


def facts(tree):
    return reader.read_root(audit_hosts.TreeRoot({**trees.cpus(8), **tree}))


def owned(owners, owner):
    return cpulist.format(owners.cpus(owner))


class ProgramsTest(testcase.TestCase):
    def claims(self, tree, isolated=""):
        known = facts({**tree, "sys/devices/system/cpu/isolated": isolated})
        claims = CpuOwners.of(known, CpuSets()).of_kind(Owner.PROGRAM)
        return {claim.name: cpulist.format(claim.cpus) for claim in claims}

    def test_threads_with_a_cpu_for_themselves_own_it(self):
        for name, threads, isolated, expected in (
            ("ovs-vswitchd", {"ovs-vswitchd": "0-7", "pmd-c04/id:1": "4", "pmd-c05/id:2": "5"}, "", "4-5"),
            # dpdk-lcore-mask: what is no PMD is confined to one CPU as a whole.
            (
                "ovs-vswitchd",
                {"ovs-vswitchd": "0", "handler1": "0", "revalidator2": "0", "pmd-c05/id:2": "5"},
                "",
                "5",
            ),
            ("spdk_tgt", {"reactor_6": "6", "reactor_7": "7", "app": "0-3"}, "", "6-7"),
            ("app(1) x", {"main": "0-3", "poll) 2": "3"}, "", "3"),
            # Confined as a whole; on an isolated CPU nothing else can be meant.
            ("daemon", {"daemon": "3", "helper": "3"}, "", None),
            ("daemon", {"daemon": "3"}, "", None),
            ("daemon", {"daemon": "3"}, "3", "3"),
            # A worker on each CPU shares them with all others.
            ("nginx", {"main": "0-7"} | {f"worker{cpu}": str(cpu) for cpu in range(8)}, "", None),
            ("idle", {"idle": "0-7", "handler1": "0-7"}, "", None),
        ):
            with self.subTest(name=name, threads=threads, isolated=isolated):
                tree = program(900, name, threads)
                self.assertEqual({} if expected is None else {name: expected}, self.claims(tree, isolated))

    def test_kernel_threads_own_nothing(self):
        tree = program(900, "rcu", {"rcu": "0-7", "rcuop/3": "3"}, parent=2)
        self.assertEqual({}, self.claims(tree))

    def test_workers_of_ovs_are_facts_wherever_they_run(self):
        threads = {"ovs-vswitchd": "0-7", "handler1": "0-3", "revalidator2": "2", "urcu3": "1"}
        threads["pmd-c04/id:9"] = "4"
        known = facts(program(900, "ovs-vswitchd", threads)).programs
        self.assertEqual(
            {"handler1": False, "revalidator2": False, "urcu3": True, "pmd-c04/id:9": True},
            {thread.name: thread.is_bound for thread in known},
        )

    def test_what_is_no_text_or_no_list_is_passed_over(self):
        tree = program(900, "ovs-vswitchd", {"ovs-vswitchd": "0-7", "pmd-c04": "4"})
        for change in (
            {"proc/900/stat": "900 (x"},
            {"proc/900/task/901/status": "Name:\tx\nCpus_allowed_list:\t4-x\n"},
        ):
            with self.subTest(change):
                self.assertEqual({}, self.claims(tree | change))


class PartitionsTest(testcase.TestCase):
    def test_both_sources_of_isolation_count(self):
        known = facts(
            {
                "sys/devices/system/cpu/isolated": "2",
                "sys/fs/cgroup/cpuset.cpus.isolated": "4-5",
                **slice_of("machine.slice", "4-5", partition="isolated"),
                **slice_of("a.slice/a-b.slice", "6", partition="root"),
                **slice_of("user.slice", "", effective="0-3"),
                **slice_of("system.slice", "0-1", partition="root"),
                **slice_of("bad.slice", "3", partition="isolated invalid (Cpu list in cpuset.cpus not exclusive)"),
            }
        )
        self.assertEqual("4-5", known.isolated_now)
        self.assertEqual(
            ["a.slice/a-b.slice", "bad.slice", "machine.slice", "system.slice"],
            [group.path for group in known.slices],
        )
        owners = CpuOwners.of(known, CpuSets())
        self.assertEqual("2,4-5", owned(owners, Owner.ISOLATED))
        self.assertEqual("6", owned(owners, Owner.SLICE))
        self.assertEqual("0-1,3,7", owned(owners, Owner.HOST))
        paths = {evidence.path for claim in owners.by_cpu[4] for evidence in claim.evidence}
        self.assertEqual(
            {"/sys/fs/cgroup/cpuset.cpus.isolated", "/sys/fs/cgroup/machine.slice/cpuset.cpus.partition"}, paths
        )

    def test_garbage_is_unknown(self):
        known = facts(
            {"sys/fs/cgroup/cpuset.cpus.isolated": "4-x", **slice_of("machine.slice", "4", effective="z")}
        )
        self.assertEqual(("", ()), (known.isolated_now, known.slices))
        self.assertIn(NoteCode.NOT_CPU_LIST, {note.code for note in known.warnings})
        for kinds in ("x", "0-99999999"):
            known = facts({"sys/devices/cpu_core/cpus": "0-3", "sys/devices/cpu_atom/cpus": kinds})
            self.assertEqual({None}, {cpu.kind for cpu in known.cpus})
            self.assertIn(NoteCode.NOT_CPU_LIST, {note.code for note in known.warnings})


class OwnersTest(testcase.TestCase):
    def test_the_strongest_claim_is_first_and_every_cpu_has_one(self):
        guest = hosts.guest("vm", 100, pins=("4", "5"))
        thread = hosts.bound("ovs-vswitchd", 900, 5)
        host = hosts.facts(hosts.cpus_of([(0, 8)]), guests=[guest], isolated="4-6", programs=[thread])
        owners = CpuOwners.of(host, CpuSets("4-6", "2-3"))
        self.assertEqual(
            [*["host"] * 2, *["shared"] * 2, "guest", "guest", "dedicated", "host"],
            [claims[0].owner.value for claims in owners.by_cpu.values()],
        )
        self.assertEqual(
            ["guest", "program", "dedicated", "isolated"], [claim.owner.value for claim in owners.by_cpu[5]]
        )
        self.assertTrue(
            all(claim.evidence for claims in owners.by_cpu.values() for claim in claims if claim.owner != "host")
        )

    def test_a_guest_without_xml_owns_what_its_vcpus_are_bound_to(self):
        guest = dataclasses.replace(hosts.guest("vm", 100, pins=("4", "5")), domain=None)
        host = hosts.facts(hosts.cpus_of([(0, 8)]), guests=[guest])
        self.assertEqual("4-5", owned(CpuOwners.of(host, CpuSets()), Owner.GUEST))

    def test_the_plan_keeps_off_programs_and_partitions(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 8)
        threads = [hosts.bound("ovs-vswitchd", 900, cpu) for cpu in (2, 3)]
        host = hosts.facts(hosts.cpus_of([(0, 8)]), [nic], irqs, programs=threads)
        host = dataclasses.replace(host, isolated_now="4-5")
        plan = planner.plan(host, CpuSets(None, "2,6"))
        self.assertEqual(
            ("0-1,6-7", "6", "2-3"), tuple(plan.sets[name] for name in ("housekeeping", "shared", "programs"))
        )
        used = {
            cpu
            for setting in plan.settings
            if setting.kind == "irq_affinity"
            for cpu in cpulist.parse(setting.value)
        }
        self.assertEqual({0, 1, 6, 7}, used)
        [note] = [note for note in plan.warnings if note.code is NoteCode.PROGRAM_IN_SET]
        self.assertEqual(("ovs-vswitchd", "2"), (note.params["program"], note.params["cpus"]))

    def test_what_a_slice_refuses_is_foreseen(self):
        """sched_setaffinity() to CPUs outside of a guest's cgroup is EINVAL: nothing is planned there."""
        for effective, placed, code in (("4-7", "6-7", None), ("4-5", None, NoteCode.SLICE_CONFINED)):
            with self.subTest(effective):
                guest = hosts.guest("vm", 100, pins=("4", "5"), workers=1, asks={"vhost_placement": "numa"})
                guest = dataclasses.replace(guest, slice="machine.slice")
                group = model.Slice("machine.slice", effective, effective, "member")
                host = hosts.facts(hosts.cpus_of([(0, 8)]), guests=[guest], slices=[group])
                plan = planner.plan(host, CpuSets("4-5", "2-3,6-7"))
                self.assertEqual([placed] if placed else [], [setting.value for setting in plan.settings])
                confined = [note.code for note in plan.warnings if note.code is NoteCode.SLICE_CONFINED]
                self.assertEqual([code] if code else [], confined)


class RecordTest(testcase.TestCase):
    def test_every_claim_is_recorded(self):
        tree = {
            **trees.cpus(8),
            **program(900, "ovs-vswitchd", {"ovs-vswitchd": "0-7", "handler1": "0-7", "pmd-c04/id:1": "4"}),
            **slice_of("machine.slice/machine-rt.slice", "4-5", partition="isolated"),
            "sys/fs/cgroup/cpuset.cpus.isolated": "4-5",
            "sys/devices/cpu_core/cpus": "0-5",
            "sys/devices/cpu_atom/cpus": "6-7",
        }
        root = audit_hosts.TreeRoot(tree)
        first = topology.as_json(reader.read_root(root))
        kept = {
            path: entry.decode()
            for path, entry in record.collect(root).entries.items()
            if isinstance(entry, bytes)
        }
        second = topology.as_json(reader.read_root(audit_hosts.TreeRoot(kept)))
        self.assertEqual(json.dumps(first["programs"]), json.dumps(second["programs"]))
        self.assertEqual(2, len(first["programs"]))
        for key in ("slices", "isolated_now", "cpus"):
            with self.subTest(key):
                self.assertTrue(first[key])
                self.assertEqual(first[key], second[key])
        self.assertEqual(["core", "atom"], list(dict.fromkeys(cpu["kind"] for cpu in first["cpus"])))
