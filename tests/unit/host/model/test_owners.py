# SPDX-License-Identifier: Apache-2.0
"""Whose CPUs are whose: claims of guests, programs, partitions and Nova, as read, as recorded and as planned."""

import dataclasses
import json

from nova_perf_tuning import cpulist
from nova_perf_tuning.cli import topology
from nova_perf_tuning.host.input import novaconf, record
from nova_perf_tuning.host.input.facts import claims, reader
from nova_perf_tuning.host.model import host_model, owners
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.model.owners import CpuOwners, CpuSets, Owner
from nova_perf_tuning.host.plan import nics, planner
from tests.support import audit_hosts, hosts, testcase, trees
from tests.support.owners import program, slice_of


def facts(tree):
    return reader.read_root(audit_hosts.TreeRoot({**trees.cpus(8), **tree}))


def owned(owners, owner):
    return cpulist.format(owners.cpus(owner))


_OVS_IDS = "70 70 70 70"
_NOTED = (NoteCode.BOUND_TO_ISOLATED, NoteCode.PROGRAM_OF_ANOTHER_USER, NoteCode.THREADS_LEFT_OUT)


def isolated_now(cpus):
    return {"sys/devices/system/cpu/isolated": cpus}


class ProgramsTest(testcase.TestCase):
    def claims(self, tree, isolated=""):
        known = facts({**tree, **isolated_now(isolated)})
        made = CpuOwners.of(known, CpuSets()).of_kind(Owner.PROGRAM)
        return {claim.name: cpulist.format(claim.cpus) for claim in made}

    def test_pmd_threads_own_their_cpus(self):
        for threads, isolated, expected in (
            ({"ovs-vswitchd": "0-7", "pmd-c04/id:1": "4", "pmd-c05/id:2": "5"}, "", "4-5"),
            # dpdk-lcore-mask: what is no PMD is confined to one CPU as a whole.
            (
                {"ovs-vswitchd": "0", "handler1": "0", "revalidator2": "0", "pmd-c05/id:2": "5"},
                "",
                "5",
            ),
            # Its main thread may have the CPU of a PMD thread.
            ({"ovs-vswitchd": "5", "pmd-c05/id:2": "5"}, "", "5"),
            ({"ovs-vswitchd": "0-7", "pmd30": "3", "pmd31": "4"}, "", "3-4"),
            # Threads that EAL started for dpdk-lcore-mask sleep, and so does all the rest.
            (
                {
                    "ovs-vswitchd": "0",
                    "lcore-slave-6": "6",
                    "lcore-worker-7": "7",
                    "pmd-c05/id:2": "5",
                },
                "6",
                "5",
            ),
            ({"ovs-vswitchd": "0-7", "handler1": "3", "urcu3": "4"}, "3-4", None),
            ({"ovs-vswitchd": "0-7", "pmd-c04/id:1": "4-5"}, "", None),
            (
                {"ovs-vswitchd": "0-7"}
                | {f"pmd-c{cpu:02}/id:{cpu}": str(cpu) for cpu in range(8)},
                "",
                None,
            ),
        ):
            with self.subTest(threads=threads, isolated=isolated):
                tree = program(900, "ovs-vswitchd", threads)
                found = self.claims(tree, isolated)
                self.assertEqual({} if expected is None else {"ovs-vswitchd": expected}, found)

    def test_other_programs_own_nothing(self):
        for name, threads, isolated in (
            (
                "beam.smp",
                {"beam.smp": "0-7"} | {f"{cpu}_scheduler": str(cpu) for cpu in range(1, 8)},
                "",
            ),
            ("app(1) x", {"main": "0-3", "pmd-c03) 2": "3"}, ""),
            ("spdk_tgt", {"app": "0-3", "reactor_6": "6", "reactor_7": "7"}, "6-7"),
            ("daemon", {"daemon": "3"}, "3"),
        ):
            with self.subTest(name=name, isolated=isolated):
                tree = program(900, name, threads, ids="1000 1000 1000 1000")
                self.assertEqual({}, self.claims(tree, isolated))
                noted = [
                    note
                    for note in facts({**tree, **isolated_now(isolated)}).warnings
                    if note.code in _NOTED
                ]
                self.assertEqual(
                    [NoteCode.BOUND_TO_ISOLATED] if isolated else [], [note.code for note in noted]
                )
                self.assertEqual(
                    [(f"{name} (900)",)] if isolated else [],
                    [note.params["places"] for note in noted],
                )

    def test_the_user_of_a_switch_decides_and_not_its_name(self):
        threads = {"ovs-vswitchd": "0-7", "pmd-c04/id:1": "4"}
        users = {
            "etc/passwd": "root:x:0:0::/root:/bin/sh\nopenvswitch:x:985:\ndpdk:x:70:\nme:x:1000:\nbad\n"
        }
        users["usr/lib/passwd"] = "ovs:x:801:\n"
        setting = {"etc/sysconfig/openvswitch": '#OVS_USER_ID=me\nOVS_USER_ID="dpdk:hugetlbfs"\n'}
        option = {"etc/default/openvswitch-switch": "OVS_CTL_OPTS='--ovs-user=ovs:ovs'\n"}
        number = {"etc/openvswitch/default.conf": "OVS_USER_ID=70:70\n"}
        for ids, tree, owns in (
            ("0 0 0 0", users, True),
            ("985 985 985 985", users, True),
            ("70 70 70 70", users, False),
            ("70 70 70 70", {**users, **setting}, True),
            ("70 70 70 70", {**users, **number}, True),
            ("801 801 801 801", {**users, **option}, True),
            ("1000 1000 1000 1000", {**users, **setting}, False),
            # A set-user-ID program that a user has started.
            ("1000 0 0 0", users, False),
            # Not known: the record is root's. Without passwd nobody knows who 985 is.
            ("", users, True),
            ("985 985 985 985", {}, True),
        ):
            with self.subTest(ids=ids, tree=list(tree)):
                known = facts({**program(900, "ovs-vswitchd", threads, ids=ids), **tree})
                made = CpuOwners.of(known, CpuSets()).of_kind(Owner.PROGRAM)
                self.assertEqual([{4}] if owns else [], [claim.cpus for claim in made])
                noted = [note.code for note in known.warnings if note.code in _NOTED]
                self.assertEqual([] if owns else [NoteCode.PROGRAM_OF_ANOTHER_USER], noted)

    def test_small_processes_push_no_switch_out(self):
        """1,400 processes before Open vSwitch have more bound threads than are kept."""
        tree = program(90000, "ovs-vswitchd", {"ovs-vswitchd": "0-7", "pmd-c04/id:1": "4"})
        for pid in range(1000, 71000, 1000 // 20):
            tree |= program(pid, "x", {"x": "0-7", "a": "5", "b": "5", "c": "5"})
        known = facts({**tree, **isolated_now("5")})
        self.assertEqual("4", owned(CpuOwners.of(known, CpuSets()), Owner.PROGRAM))
        noted = {
            note.code: note.params["places"] for note in known.warnings if note.code in _NOTED
        }
        self.assertEqual({NoteCode.BOUND_TO_ISOLATED, NoteCode.THREADS_LEFT_OUT}, set(noted))
        self.assertEqual(1400, len(noted[NoteCode.BOUND_TO_ISOLATED]))

    def test_a_bound_for_each_process_is_noted(self):
        tree = program(
            900,
            "x",
            {"x": "0-7"} | {f"t{number}": "5" for number in range(claims.MAX_BOUND_THREADS + 1)},
        )
        known = facts({**tree, **isolated_now("5")})
        self.assertEqual(claims.MAX_BOUND_THREADS, len(known.programs))
        [note] = [note for note in known.warnings if note.code is NoteCode.THREADS_LEFT_OUT]
        self.assertEqual((("x (900)",), 1), (note.params["places"], note.params["left"]))
        many = {f"handler{number}": "0-7" for number in range(claims.MAX_SWITCH_THREADS)}
        known = facts(
            program(900, "ovs-vswitchd", {"ovs-vswitchd": "0-7", **many, "pmd-c04/id:1": "4"})
        )
        self.assertEqual("4", owned(CpuOwners.of(known, CpuSets()), Owner.PROGRAM))
        [note] = [note for note in known.warnings if note.code is NoteCode.THREADS_LEFT_OUT]
        self.assertEqual(
            (("ovs-vswitchd (900)",), 1), (note.params["places"], note.params["left"])
        )

    def test_many_crowded_processes_are_one_note(self):
        """Each has another number of threads too many: that made a note for each of them."""
        tree = isolated_now("5")
        crowded = range(1, 4)
        for more in crowded:
            threads = {f"t{number}": "5" for number in range(claims.MAX_BOUND_THREADS + more)}
            tree |= program(1000 * more, "x", {"x": "0-7"} | threads, ids="1000 1000 1000 1000")
        known = facts(tree)
        [note] = [note for note in known.warnings if note.code is NoteCode.THREADS_LEFT_OUT]
        self.assertEqual(
            (("x (1000)", "x (2000)", "x (3000)"), 6), (note.params["places"], note.params["left"])
        )
        self.assertEqual(len(crowded) * claims.MAX_BOUND_THREADS, len(known.programs))

    def test_kernel_threads_own_nothing(self):
        tree = program(900, "rcu", {"rcu": "0-7", "rcuop/3": "3"}, parent=2)
        self.assertEqual({}, self.claims(tree))

    def test_neither_the_kernel_nor_what_has_no_name_is_noted(self):
        for name, parent in (("rcuc", 2), ("\x1b[31m", 1)):
            with self.subTest(name):
                tree = program(900, name, {"x": "0-7", "y": "5"}, parent=parent)
                known = facts({**tree, **isolated_now("5")})
                self.assertEqual([], [note for note in known.warnings if note.code in _NOTED])

    def test_as_many_threads_as_are_kept_are_not_too_many(self):
        each = {"x": "0-7"} | {f"t{number}": "5" for number in range(claims.MAX_BOUND_THREADS)}
        full = claims.MAX_BOUND_IN_ALL // claims.MAX_BOUND_THREADS
        for processes, noted in ((full, False), (full + 1, True)):
            with self.subTest(processes):
                tree = isolated_now("5")
                for pid in range(1000, 1000 + 100 * processes, 100):
                    tree |= program(pid, "x", each)
                known = facts(tree)
                self.assertEqual(claims.MAX_BOUND_IN_ALL, len(known.programs))
                self.assertEqual(
                    noted, NoteCode.THREADS_LEFT_OUT in {note.code for note in known.warnings}
                )

    def test_a_recorded_name_is_as_long_as_the_kernel_keeps_it(self):
        known = facts(
            program(900, "ovs-vswitchd", {"ovs-vswitchd": "0-7", "pmd-c04/id:1234567": "4"})
        )
        self.assertEqual(["pmd-c04/id:1234"], [thread.name for thread in known.programs])

    def test_workers_of_ovs_are_facts_wherever_they_run(self):
        threads = {"ovs-vswitchd": "0-7", "handler1": "0-3", "revalidator2": "2", "urcu3": "1"}
        threads["pmd-c04/id:9"] = "4"
        known = facts(program(900, "ovs-vswitchd", threads)).programs
        self.assertEqual(
            {"handler1": False, "revalidator2": False, "pmd-c04/id:9": True},
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
                **slice_of(
                    "bad.slice",
                    "3",
                    partition="isolated invalid (Cpu list in cpuset.cpus not exclusive)",
                ),
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
            {
                "/sys/fs/cgroup/cpuset.cpus.isolated",
                "/sys/fs/cgroup/machine.slice/cpuset.cpus.partition",
            },
            paths,
        )

    def test_many_slices_are_cut_with_a_note_and_those_of_guests_come_first(self):
        tree = slice_of("machine.slice", "4-5", partition="isolated")
        for number in range(1000):
            tree |= slice_of(f"a{number}.slice", "0")
        known = facts(tree)
        self.assertEqual("4-5", owned(CpuOwners.of(known, CpuSets()), Owner.ISOLATED))
        self.assertEqual(1000, len(known.slices))
        [note] = [note for note in known.warnings if note.code is NoteCode.SLICES_LEFT_OUT]
        expected = (1000, 1, ("sys/fs/cgroup",))
        self.assertEqual(
            expected, (note.params["most"], note.params["left"], note.params["places"])
        )

    def test_a_guest_is_in_the_innermost_slice_that_holds_its_process(self):
        inner = "machine.slice/machine-rt.slice"
        for path, held in (
            (f"/{inner}/machine-qemu.scope/libvirt/emulator", inner),
            ("/machine.slice/machine-qemu.scope", "machine.slice"),
            ("/machine.slice2/x.scope", None),
            ("/user.slice", None),
        ):
            with self.subTest(path):
                tree = audit_hosts.changed(
                    audit_hosts.good(),
                    {
                        **slice_of("machine.slice", "0-9"),
                        **slice_of(inner, "2-3"),
                        "proc/5000/cgroup": f"1:name=x:/machine.slice/{inner}\n0:{path}\n".replace(
                            "0:/", "0::/"
                        ),
                    },
                )
                [guest] = reader.read_root(audit_hosts.TreeRoot(tree)).guests
                self.assertEqual(held, guest.slice)

    def test_garbage_is_unknown(self):
        known = facts(
            {
                "sys/fs/cgroup/cpuset.cpus.isolated": "4-x",
                **slice_of("machine.slice", "4", effective="z"),
            }
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
        host = hosts.facts(
            hosts.cpus_of([(0, 8)]), guests=[guest], isolated="4-6", programs=[thread]
        )
        owners = CpuOwners.of(host, CpuSets("4-6", "2-3"))
        self.assertEqual(
            [*["host"] * 2, *["shared"] * 2, "guest", "guest", "dedicated", "host"],
            [claims[0].owner.value for claims in owners.by_cpu.values()],
        )
        self.assertEqual(
            ["guest", "dedicated", "isolated"], [claim.owner.value for claim in owners.by_cpu[5]]
        )
        self.assertEqual(
            [("ovs-vswitchd", {5})], [(claim.name, claim.cpus) for claim in owners.overruled]
        )
        self.assertTrue(
            all(
                claim.evidence
                for claims in owners.by_cpu.values()
                for claim in claims
                if claim.owner != "host"
            )
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
        plan = planner.plan(host, CpuSets(None, "6"))
        names = ("housekeeping", "shared", "programs")
        self.assertEqual(("0-1,6-7", "6", "2-3"), tuple(plan.sets[name] for name in names))
        used = {
            cpu
            for setting in plan.settings
            if setting.kind == "irq_affinity"
            for cpu in cpulist.parse(setting.value)
        }
        self.assertEqual({0, 1, 6, 7}, used)

    def test_guests_without_cpus_of_their_own_float_where_services_may_not_run(self):
        host = dataclasses.replace(hosts.facts(hosts.cpus_of([(0, 8)])), services="0-1")
        for sets, housekeeping, shared in (
            (CpuSets(), "0-1", "0-7"),
            (CpuSets(dedicated="4-7"), "0-1", "0-1"),
            (CpuSets(shared="2-3"), "0-3", "2-3"),
            (CpuSets(housekeeping="0"), "0", "0,2-7"),
        ):
            with self.subTest(sets):
                planned = planner.plan(host, sets).sets
                self.assertEqual(
                    (housekeeping, shared), (planned["housekeeping"], planned["shared"])
                )

    def test_the_operators_sets_hold_and_a_note_says_who_polls_there(self):
        threads = [hosts.bound("ovs-vswitchd", 900, cpu) for cpu in (2, 3)]
        host = hosts.facts(hosts.cpus_of([(0, 8)]), programs=threads)
        for sets, name, expected in (
            # What is not given keeps off every CPU that is polled.
            (
                CpuSets(None, "2,6"),
                "shared",
                {"housekeeping": "0-1,4-7", "shared": "2,6", "programs": "3"},
            ),
            (CpuSets(None, None, "0,2"), "housekeeping", {"housekeeping": "0,2", "programs": "3"}),
            (
                CpuSets("2,7"),
                "dedicated",
                {"dedicated": "2,7", "housekeeping": "0-1,4-6", "programs": "3"},
            ),
        ):
            with self.subTest(name):
                plan = planner.plan(host, sets)
                self.assertEqual(expected, {key: plan.sets[key] for key in expected})
                [note] = [note for note in plan.warnings if note.code is NoteCode.PROGRAM_IN_SET]
                self.assertEqual(
                    ("ovs-vswitchd", "2"), (note.params["program"], note.params["cpus"])
                )
                self.assertEqual(sets.option(name), note.params["option"])

    def test_what_a_slice_refuses_is_foreseen(self):
        """sched_setaffinity() to CPUs outside of a guest's cgroup is EINVAL: nothing is planned there."""
        for effective, placed, code in (
            ("4-7", "6-7", None),
            ("4-5", None, NoteCode.SLICE_CONFINED),
        ):
            with self.subTest(effective):
                guest = hosts.guest(
                    "vm", 100, pins=("4", "5"), workers=1, asks={"vhost_placement": "numa"}
                )
                guest = dataclasses.replace(guest, slice="machine.slice")
                group = host_model.Slice("machine.slice", effective, effective, "member")
                host = hosts.facts(hosts.cpus_of([(0, 8)]), guests=[guest], slices=[group])
                plan = planner.plan(host, CpuSets("4-5", "2-3,6-7"))
                self.assertEqual(
                    [placed] if placed else [], [setting.value for setting in plan.settings]
                )
                confined = [
                    note.code for note in plan.warnings if note.code is NoteCode.SLICE_CONFINED
                ]
                self.assertEqual([code] if code else [], confined)


class FilesTest(testcase.TestCase):
    def test_configuration_files_that_are_left_out_are_noted(self):
        for count, expected in ((100, []), (101, [(("/etc/nova/nova.conf.d",), 1)])):
            tree = {
                f"etc/nova/nova.conf.d/{number:03}.conf": "[DEFAULT]\n" for number in range(count)
            }
            root = audit_hosts.TreeRoot({**tree, "etc/nova/nova.conf": "[DEFAULT]\n"})
            novaconf.found(root)
            noted = [note for note in root.notes.all() if note.code is NoteCode.FILES_LEFT_OUT]
            self.assertEqual(
                expected, [(note.params["places"], note.params["left"]) for note in noted]
            )


class RecordTest(testcase.TestCase):
    def test_every_claim_is_recorded(self):
        tree = {
            **trees.cpus(8),
            **program(
                900,
                "ovs-vswitchd",
                {"ovs-vswitchd": "0-7", "handler1": "0-7", "pmd-c06/id:1": "6"},
                ids=_OVS_IDS,
            ),
            **program(901, "spdk_tgt", {"app": "0-3", "reactor_4": "4"}, ids="0 0 0 0"),
            "etc/passwd": "root:x:0:0::/root:/bin/sh\nme:x:1000:\novs:x:70:70:Switch:/:/bin/false\n",
            "etc/sysconfig/openvswitch": 'OPTIONS="--x"\nOVS_USER_ID="ovs:hugetlbfs"\n',
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
        self.assertEqual(3, len(first["programs"]))
        self.assertIn("Uid:\t70\t70\t70\t70\n", kept["proc/900/task/900/status"])
        self.assertEqual("ovs:x:70:\n", kept["etc/passwd"])
        self.assertEqual("OVS_USER_ID=ovs\n", kept["etc/sysconfig/openvswitch"])
        for key in ("slices", "isolated_now", "cpus"):
            with self.subTest(key):
                self.assertTrue(first[key])
                self.assertEqual(first[key], second[key])
        self.assertEqual(
            ["core", "atom"], list(dict.fromkeys(cpu["kind"] for cpu in first["cpus"]))
        )


class NumbersTest(testcase.TestCase):
    def test_what_only_looks_like_a_number_is_no_cpu(self):
        self.assertEqual(frozenset([3]), owners._alone(["\N{SUPERSCRIPT TWO}", "3", None, "4-5"]))
        self.assertIsNone(nics.single("\N{SUPERSCRIPT TWO}"))
        self.assertEqual(3, nics.single("3"))
