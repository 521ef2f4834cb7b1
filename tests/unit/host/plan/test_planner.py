# SPDX-License-Identifier: Apache-2.0
"""Worked examples of the plan: what an operator would expect on a host that fits on a page."""

import dataclasses

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.plan import guests, layout, nics, planner, steering, vectors
from nova_perf_tuning.host.plan.layout import CpuLayout, CpuSets
from tests.support import gen_host, hosts, testcase

#: Two nodes of four cores with two threads each: node 0 has 0-3 and 8-11, node 1 has 4-7 and 12-15.
TWO_NODES = hosts.cpus_of([(0, 4), (1, 4)], 2)


def by_target(plan, kind=None):
    return {setting.target: setting for setting in plan.settings if kind in (None, setting.kind)}


def values(plan, kind):
    return {target: setting.value for target, setting in by_target(plan, kind).items()}


class NicTest(testcase.TestCase):
    def plan(self, count=4, node=0, sets=None, cpus=TWO_NODES, affinity=None, **options):
        nic, irqs = hosts.nic_with_irqs("eth0", count, node=node, affinity=affinity)
        return planner.plan(hosts.facts(cpus, [nic], irqs, **options), sets or CpuSets())

    def test_physical_cores_before_siblings_and_cpu_0_last(self):
        plan = self.plan(8)
        placed = [
            int(setting.value) for setting in plan.settings if setting.kind == "irq_affinity"
        ]
        self.assertEqual([1, 2, 3, 8, 9, 10, 11, 0], placed)

    def test_reason_names_what_it_rests_on(self):
        setting = by_target(self.plan())["irq:24"]
        self.assertEqual(
            "eth0 (10000 Mbit/s, node 0) has 4 queues for 8 housekeeping CPUs of node 0: "
            "queue 0 on CPU 1, alone there",
            setting.reason,
        )
        self.assertEqual(
            ("nic-irq-local", "0000:10:00.0|eth0-TxRx-0"), (setting.rule, setting.identity)
        )

    def test_a_reason_counts_no_queues_that_are_not_seen(self):
        for queues, words in (
            (4, "has 4 queues for 8"),
            (6, "has 6 queues, 4 of them seen, for 8"),
            (0, "has at least 4 queues for 8"),
        ):
            nic, irqs = hosts.nic_with_irqs("eth0", 4)
            nic.rx_queues = nic.tx_queues = queues
            nic.rps = nic.xps = (None,) * queues
            reasons = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets()).settings
            with self.subTest(queues):
                self.assertIn(words, reasons[0].reason)

    def test_one_interrupt_of_all_queues(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 1)
        nic.rx_queues = nic.tx_queues = 4
        irqs[0].name = "eth0"
        (setting,) = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets()).settings[:1]
        self.assertIn("has 4 queues on 1 interrupt for 8", setting.reason)

    def test_nearest_node_with_a_warning(self):
        far = {0: {0: 10, 1: 21, 4: 40}, 1: {0: 21, 1: 10, 4: 15}, 4: {0: 40, 1: 15, 4: 10}}
        plan = self.plan(node=4, distances=far, nodes=[0, 1, 4])
        self.assertEqual({"4", "5", "6", "7"}, set(values(plan, "irq_affinity").values()))
        self.assertEqual(
            [
                Note.of(
                    NoteCode.NODE_WITHOUT_HOUSEKEEPING, nic="eth0", nodes="4", node=1, distance=15
                )
            ],
            plan.warnings,
        )
        self.assertEqual("nic-irq-nearest", plan.settings[0].rule)

    def test_of_two_equally_near_nodes_the_one_with_more_cpus(self):
        """Devices of nodes without CPUs would all crowd onto the small node else."""
        cpus = hosts.cpus_of([(0, 2), (1, 8)])
        same = {0: {0: 10, 1: 20, 2: 30}, 1: {0: 20, 1: 10, 2: 30}, 2: {0: 30, 1: 30, 2: 10}}
        plan = self.plan(node=2, cpus=cpus, distances=same, nodes=[0, 1, 2])
        placed = {int(value) for value in values(plan, "irq_affinity").values()}
        self.assertLessEqual(placed, set(range(2, 10)))

    def test_a_node_whose_distance_is_not_known_is_as_far_as_linux_says(self):
        """20 (REMOTE_DISTANCE): nearer than one at 21; of two at 20 the larger pool is taken."""
        cpus = hosts.cpus_of([(0, 4), (1, 2)])
        for known, taken in (
            (21, {"4", "5"}),
            (20, {"0", "1", "2", "3"}),
            (19, {"0", "1", "2", "3"}),
        ):
            with self.subTest(known):
                distances = {0: {0: 10, 2: known}, 1: {1: 10}, 2: {2: 10, 0: known}}
                plan = self.plan(6, node=2, cpus=cpus, distances=distances, nodes=[0, 1, 2])
                self.assertEqual(taken, set(values(plan, "irq_affinity").values()))

    def test_a_link_of_unknown_speed_weighs_as_much_as_one_of_a_gigabit(self):
        """So the one that comes first has the better CPU, whichever it is; between 999 and 1001 it would not."""
        for speeds in ((None, 1000), (1000, None)):
            with self.subTest(speeds):
                nics_of_host, irqs = [], []
                for number, speed in enumerate(speeds):
                    device, mine = hosts.nic_with_irqs(
                        f"eth{number}", 1, 24 + number, pci=f"0000:1{number}:00.0", speed=speed
                    )
                    nics_of_host.append(device)
                    irqs += mine
                plan = planner.plan(hosts.facts(TWO_NODES, nics_of_host, irqs), CpuSets())
                self.assertEqual({"irq:24": "1", "irq:25": "2"}, values(plan, "irq_affinity"))

    def test_one_queue_carries_the_whole_speed_of_its_nic(self):
        single, of_single = hosts.nic_with_irqs("eth0", 1, speed=40000)
        triple, of_triple = hosts.nic_with_irqs("eth1", 3, 44, pci="0000:11:00.0", speed=100000)
        facts = hosts.facts(hosts.cpus_of([(0, 2)]), [single, triple], of_single + of_triple)
        plan = planner.plan(facts, CpuSets())
        cpu_of = {one.target: one.value for one in plan.settings if one.kind == "irq_affinity"}
        expected = {"irq:24": "1", "irq:44": "1", "irq:45": "0", "irq:46": "0"}
        self.assertEqual(expected, cpu_of)

    def test_a_quiet_nic_shares_the_cpu_of_a_busy_one(self):
        """Not two busy ones; and what a CPU serves besides is said."""
        for quiet in range(3):
            nics_of_host, irqs = [], []
            for number in range(3):
                device, mine = hosts.nic_with_irqs(
                    f"eth{number}", 1, 24 + number, pci=f"0000:1{number}:00.0", speed=1000
                )
                device.quiet = number == quiet
                mine[0].affinity = "1"
                nics_of_host.append(device)
                irqs += mine
            facts = hosts.facts(hosts.cpus_of([(0, 2)]), nics_of_host, irqs)
            plan = planner.plan(facts, CpuSets())
            placed = values(plan, "irq_affinity")
            busy = [placed[f"irq:{24 + number}"] for number in range(3) if number != quiet]
            with self.subTest(quiet):
                self.assertEqual(["0", "1"], sorted(busy))
                texts = [setting.reason.rpartition(" on CPU ")[2] for setting in plan.settings]
                both = "1, beside 1 queue of other NICs"
                self.assertEqual(sorted(["0, alone there", both, both]), sorted(texts))

    def test_even_placement_is_kept_and_only_the_crowded_moves(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 4)
        for irq, affinity in zip(irqs, ("3", "2", "2", "1"), strict=True):
            irq.affinity = affinity
        plan = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets())
        self.assertEqual(
            [("irq:26", "8")],
            [
                (setting.target, setting.value)
                for setting in plan.changes()
                if setting.kind == "irq_affinity"
            ],
        )

    def test_a_nic_that_is_called_as_a_control_vector(self):
        """People choose names such as mgmt0: its queues are queues, and XPS goes through the one beside it."""
        for name in ("mgmt0", "control", "misc.7"):
            with self.subTest(name):
                for misc, queue in (
                    (name, f"{name}-TxRx-"),
                    (f"ice-{name}:misc", f"ice-{name}-TxRx-"),
                ):
                    irqs = [
                        hosts.irq(24 + at, at and f"{queue}{at - 1}" or misc, "0000:10:00.0")
                        for at in range(4)
                    ]
                    nic = hosts.nic(name, range(24, 28), queues=3)
                    found = vectors.classify(nic, irqs)
                    self.assertEqual(
                        {number: [irqs[number + 1]] for number in range(3)}, found.queues
                    )
                    self.assertEqual([irqs[0]], found.other)
                    plan = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets())
                    placed, masks = values(plan, "irq_affinity"), values(plan, "xps")
                    for number in range(3):
                        cpu = int(placed[f"irq:{25 + number}"])
                        self.assertTrue(
                            int(masks[f"{name}/tx-{number}"], 16) >> cpu & 1, (name, number)
                        )

    def test_passed_through_nic_and_vectors_without_handler_are_left_alone(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 3)
        irqs[2].name = None
        facts = hosts.facts(TWO_NODES, [nic], irqs)
        self.assertNotIn("irq:26", by_target(planner.plan(facts, CpuSets())))
        owner = hosts.guest("g", 1000, ["2"], hostdevs=["0000:10:00.0"])
        self.assertEqual(
            {},
            values(
                planner.plan(dataclasses.replace(facts, guests=(owner,)), CpuSets()),
                "irq_affinity",
            ),
        )


class SteeringTest(testcase.TestCase):
    def plan(self, cpus=TWO_NODES, count=4, mask="0000", sets=None, rps=False):
        nic, irqs = hosts.nic_with_irqs("eth0", count)
        nic.xps = nic.rps = (mask,) * count
        return planner.plan(hosts.facts(cpus, [nic], irqs), sets or CpuSets(), rps=rps)

    def test_every_cpu_sends_through_one_queue_and_each_queue_has_its_core(self):
        plan = self.plan()
        masks = [cpulist.parse_mask(value) for value in values(plan, "xps").values()]
        self.assertEqual(list(range(16)), sorted(cpu for mask in masks for cpu in mask))
        for mask, irq in zip(masks, values(plan, "irq_affinity").values(), strict=True):
            self.assertLessEqual({int(irq) % 8, int(irq) % 8 + 8}, mask)

    def test_cpus_that_may_go_offline_send_nothing(self):
        plan = self.plan(sets=CpuSets(dedicated="4-7,12-15", power_managed=True))
        union = frozenset().union(*map(cpulist.parse_mask, values(plan, "xps").values()))
        self.assertEqual(frozenset({0, 1, 2, 3, 8, 9, 10, 11}), union)

    def test_same_meaning_in_other_spelling_is_no_change(self):
        plan = self.plan(hosts.cpus_of([(0, 4)]), mask="00000000,00000000")
        self.assertEqual(
            {17}, {len(setting.value) for setting in plan.settings if setting.kind == "xps"}
        )
        first = by_target(plan)["eth0/tx-0"]
        nic, irqs = hosts.nic_with_irqs("eth0", 4)
        nic.xps = tuple(
            by_target(plan)[f"eth0/tx-{queue}"].value.lstrip("0,") for queue in range(4)
        )
        again = planner.plan(hosts.facts(hosts.cpus_of([(0, 4)]), [nic], irqs), CpuSets())
        setting = by_target(again)["eth0/tx-0"]
        self.assertEqual(
            (setting.current, first.value.lstrip("0,")), (setting.value, setting.value)
        )

    def test_a_mask_of_several_digits_keeps_its_spelling_too(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 4)
        nic.xps = tuple(f"00000000,0000{value}" for value in values(self.plan(), "xps").values())
        again = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets())
        self.assertEqual([], [setting for setting in again.changes() if setting.kind == "xps"])
        self.assertEqual(4, len(values(again, "xps")))

    def test_masks_as_the_kernel_prints_them(self):
        for width in (1, 4, 5, 6, 7, 8, 28, 29, 32, 33, 36, 96, 1024):
            with self.subTest(width):
                cpus = hosts.cpus_of([(0, width)])
                digits = steering.mask_digits(hosts.facts(cpus))
                for chosen in ((), (0,), range(width), (width - 1,)):
                    bits = sum(1 << cpu for cpu in chosen)
                    self.assertEqual(
                        gen_host.cpumask(chosen, width), steering.write_mask(bits, digits)
                    )

    def test_rps_only_when_asked_and_with_fewer_queues_than_cpus(self):
        self.assertEqual({}, values(self.plan(count=2), "rps"))
        masks = values(self.plan(count=2, rps=True), "rps")
        self.assertEqual({"eth0/rx-0", "eth0/rx-1"}, set(masks))
        helpers = frozenset().union(*map(cpulist.parse_mask, masks.values()))
        self.assertEqual(frozenset({3, 8, 9, 10, 11, 0}), helpers)
        for count in (8, 12):
            self.assertEqual({}, values(self.plan(count=count, rps=True), "rps"))

    def test_rps_where_it_is_not_known_which_interrupt_serves_which_queue(self):
        """Every CPU of the node may help, since each may take an interrupt."""
        irqs = [hosts.irq(24 + at, f"nobody{at}", "0000:10:00.0") for at in range(2)]
        nic = hosts.nic("eth0", (24, 25), queues=2, driver="of-nobody", mask="0000")
        plan = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets(), rps=True)
        masks = {
            target: cpulist.parse_mask(value) for target, value in values(plan, "rps").items()
        }
        self.assertEqual({"eth0/rx-0", "eth0/rx-1"}, set(masks))
        self.assertEqual({0, 1, 2, 3, 8, 9, 10, 11}, frozenset().union(*masks.values()))

    def test_rps_of_a_nic_on_two_nodes_stays_on_each_ones(self):
        irqs = [
            hosts.irq(24 + at, f"mlx5_comp0@pci:0000:{10 + at}:00.0", f"0000:{10 + at}:00.0")
            for at in range(2)
        ]
        irqs = [dataclasses.replace(irq, node=node) for node, irq in enumerate(irqs)]
        nic = hosts.nic("eth0", (24, 25), queues=2, driver="mlx5_core", mask="0000")
        plan = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets(), rps=True)
        masks = {
            target: cpulist.parse_mask(value) for target, value in values(plan, "rps").items()
        }
        self.assertEqual(
            {"eth0/rx-0": {0, 2, 3, 8, 9, 10, 11}, "eth0/rx-1": {5, 6, 7, 12, 13, 14, 15}}, masks
        )

    def test_rps_of_a_nic_without_interrupts_of_its_own(self):
        """As hv_netvsc, which is on no PCI bus; a PCI function without interrupts has no driver that works."""
        for pci, helped in ((None, {"eth0/rx-0", "eth0/rx-1"}), ("0000:10:00.0", set())):
            with self.subTest(pci):
                nic = hosts.nic("eth0", (), pci=pci, queues=2, mask="0000", driver="hv_netvsc")
                plan = planner.plan(hosts.facts(TWO_NODES, [nic]), CpuSets(), rps=True)
                self.assertEqual(helped, set(values(plan, "rps")))

    def test_rps_where_more_queues_send_than_receive(self):
        """The queues that only send have vectors, too; those that receive stay on their node all the same."""
        irqs = [
            hosts.irq(
                24 + at,
                f"mlx5_comp{at // 2}@pci:0000:1{at % 2}:00.0",
                f"0000:1{at % 2}:00.0",
                node=at % 2,
            )
            for at in range(4)
        ]
        nic = hosts.nic("eth0", (24, 25, 26, 27), queues=4, driver="mlx5_core", mask="0000")
        nic.rps = ("0000",) * 2
        plan = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets(), rps=True)
        masks = {
            target: cpulist.parse_mask(value) for target, value in values(plan, "rps").items()
        }
        self.assertEqual(
            {"eth0/rx-0": {0, 3, 8, 9, 10, 11}, "eth0/rx-1": {6, 7, 12, 13, 14, 15}}, masks
        )

    def test_a_mask_with_other_cpus_in_it_is_replaced(self):
        plan = self.plan(mask="ffff")
        masks = [cpulist.parse_mask(value) for value in values(plan, "xps").values()]
        self.assertEqual(list(range(16)), sorted(cpu for mask in masks for cpu in mask))

    def test_a_nic_without_several_masks_has_no_xps(self):
        """One queue needs no choice; the masks of virtual devices cannot be read."""
        for masks, steered in (
            (("0000",), False),
            ((None, None), False),
            (("0000", "0000"), True),
        ):
            with self.subTest(masks):
                nic, irqs = hosts.nic_with_irqs("eth0", len(masks))
                nic.xps = masks
                plan = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets())
                self.assertEqual(steered, bool(values(plan, "xps")))

    def test_queues_that_cannot_be_paired_are_told_where_somebody_can_use_it(self):
        """Not of a NIC that is down, nor where there is no mask that could be written."""
        for masks, state, told in (
            (("0000",) * 3, "up", True),
            (("0000",) * 3, "unknown", True),
            (("0000",) * 3, "dormant", True),
            (("0000",) * 3, "down", False),
            ((None,) * 3, "up", False),
        ):
            with self.subTest(masks=masks, state=state):
                irqs = [
                    hosts.irq(24, "eth0-TxRx-0", "0000:10:00.0"),
                    hosts.irq(25, "eth0-TxRx-2", "0000:10:00.0"),
                ]
                nic = hosts.nic("eth0", (24, 25), queues=3)
                nic.xps, nic.operstate = masks, state
                plan = planner.plan(hosts.facts(TWO_NODES, [nic], irqs), CpuSets())
                codes = {note.code for note in plan.warnings}
                self.assertEqual(told, NoteCode.QUEUES_UNPAIRED in codes)

    def test_every_queue_gets_as_many_cores_as_the_others(self):
        plan = self.plan(count=4, cpus=hosts.cpus_of([(0, 8)]))
        masks = [int(value, 16) for value in values(plan, "xps").values()]
        self.assertEqual([2, 2, 2, 2], [mask.bit_count() for mask in masks])


class GuestTest(testcase.TestCase):
    NUMA = {"vhost_placement": "numa", "emulator_placement": "numa"}

    def plan(self, *guests_of_host, sets=None, irqs=(), cpus=TWO_NODES, **options):
        return planner.plan(
            hosts.facts(cpus, (), irqs, guests_of_host, **options), sets or CpuSets()
        )

    def test_what_users_can_repeat_comes_after_what_the_plan_breaks(self):
        """Lists of warnings are cut: nobody may push the others out."""
        of_users = [Note.of(NoteCode.THREADS_LEFT_OUT, most=64, left=left) for left in range(60)]
        unreadable = Note.of(NoteCode.NO_PERMISSION, places=("proc/irq/24/smp_affinity_list",))
        guest = hosts.guest(
            "g", 1000, ["5", "6"], workers=1, affinity="5-6", asks=self.NUMA, emulator_pin="5-6"
        )
        facts = hosts.facts(TWO_NODES, (), (), [guest])
        facts = dataclasses.replace(facts, warnings=(*of_users, unreadable))
        codes = [note.code for note in planner.plan(facts, CpuSets()).warnings]
        self.assertEqual([NoteCode.OVERLAP] * 3, codes[:3])
        self.assertEqual([NoteCode.NO_PERMISSION, NoteCode.EMULATOR_CONFINED], codes[3:5])
        self.assertEqual([NoteCode.THREADS_LEFT_OUT] * 60, codes[5:])

    def test_a_guest_that_asks_nothing_is_left_alone(self):
        quiet = hosts.guest("quiet", 1000, ["2", "3"], workers=2)
        other = hosts.guest("other", 2000, ["4"], workers=2, asks={"vhost_placement": "none"})
        self.assertEqual([], self.plan(quiet, other).settings)

    def test_numa_uses_the_shared_cpus_of_the_guests_node(self):
        guest = hosts.guest("g", 1000, ["5", "6"], workers=2, asks=self.NUMA)
        plan = self.plan(guest, sets=CpuSets(shared="0-1,4,12"))
        self.assertEqual(
            {"tid:1000": "4,12", "tid:1001": "4,12", "tid:1002": "4,12", "tid:1040": "4,12"},
            values(plan, "thread_affinity"),
        )
        worker = by_target(plan)["tid:1001"]
        self.assertEqual(("vhost-numa", "1000:2000"), (worker.rule, worker.identity))
        self.assertEqual(
            "g requests vhost_placement=numa: worker 0 may use the shared CPUs 4,12 of node 1",
            worker.reason,
        )

    def test_spread_gives_each_worker_a_cpu_of_its_own(self):
        """Whole cores first, then their siblings (12, 15), then those that share a core with a guest's CPU."""
        guest = hosts.guest(
            "g", 1000, ["5"], workers=3, asks={"vhost_placement": "spread"}, number=1
        )
        second = hosts.guest(
            "h", 2000, ["6"], workers=3, asks={"vhost_placement": "spread"}, number=2
        )
        plan = self.plan(second, guest, sets=CpuSets(dedicated="5-6"))
        placed = values(plan, "thread_affinity")
        self.assertEqual(["4", "7", "12"], [placed[f"tid:{tid}"] for tid in (1001, 1002, 1003)])
        self.assertEqual(["15", "13", "14"], [placed[f"tid:{tid}"] for tid in (2001, 2002, 2003)])

    def test_workers_are_cut_to_their_cgroup(self):
        guest = hosts.guest("g", 1000, ["5"], workers=1, asks=self.NUMA, emulator_pin="0-3,4,7")
        self.assertEqual("4,7", by_target(self.plan(guest))["tid:1001"].value)

    def test_a_cgroup_on_dedicated_cpus_alone_is_named_and_left(self):
        """What Nova does for a dedicated guest without hw:emulator_threads_policy."""
        guest = hosts.guest(
            "g", 1000, ["5", "6"], workers=1, affinity="5-6", asks=self.NUMA, emulator_pin="5-6"
        )
        plan = self.plan(guest)
        self.assertEqual([], plan.settings)
        self.assertIn(Note.of(NoteCode.EMULATOR_CONFINED, guest="g", cpus="5-6"), plan.warnings)
        self.assertEqual("5-6", plan.sets["overlap_vhost"])
        self.assertIn(
            Note.of(NoteCode.OVERLAP, work="vhost", cpus="5-6", guests=("g",)), plan.warnings
        )

    def test_io_threads_have_a_cgroup_of_their_own(self):
        guest = hosts.guest(
            "g", 1000, ["5"], asks=self.NUMA, emulator_pin="4-7", iothread_pin="7,12"
        )
        plan = self.plan(guest)
        self.assertEqual({"tid:1000": "4,6-7", "tid:1040": "7"}, values(plan, "thread_affinity"))

    def test_vcpu_interrupts_on_three_and_more_cpus_of_the_devices_node(self):
        """StarlingX's agent fails with three CPUs and takes all nodes for the device's."""
        address = "0000:82:10.0"
        irqs = [
            hosts.irq(60 + index, f"vfio-msix[{index}]({address})", address, "0-15", 1)
            for index in range(4)
        ]
        asked = {"asks": {"irq_placement": "vcpu"}, "hostdevs": [address.upper()]}
        guest = hosts.guest("g", 1000, ["1", "2", "5", "6", "7"], affinity="8", **asked)
        plan = self.plan(guest, irqs=irqs)
        self.assertEqual(
            {"irq:60": "5", "irq:61": "6", "irq:62": "7", "irq:63": "5"},
            values(plan, "irq_affinity"),
        )
        self.assertEqual("5-7", plan.sets["irq_vcpu"])
        self.assertEqual("", plan.sets["overlap"])

    def test_numa_interrupts_outside_of_the_vcpus(self):
        address = "0000:82:10.0"
        irqs = [
            hosts.irq(60 + index, f"vfio-msix[{index}]({address})", address) for index in range(3)
        ]
        guest = hosts.guest(
            "g", 1000, ["4", "5"], asks={"irq_placement": "numa"}, hostdevs=[address]
        )
        self.assertEqual(
            {"irq:60": "6", "irq:61": "7", "irq:62": "14"},
            values(self.plan(guest, irqs=irqs), "irq_affinity"),
        )

    def numa_values(self, node, memory, distances=None, housekeeping=None):
        """Return where the interrupts of a device on ``node`` go, given where its guest's memory lies."""
        address = "0000:82:10.0"
        irqs = [
            hosts.irq(60 + index, f"vfio-msix[{index}]({address})", address, node=node)
            for index in range(2)
        ]
        guest = hosts.guest(
            "g",
            1000,
            ["1", "5"],
            asks={"irq_placement": "numa"},
            memory_nodes=memory,
            hostdevs=[address],
        )
        facts = hosts.facts(hosts.cpus_of([(0, 4), (1, 4), (2, 4)]), (), irqs, [guest], distances)
        plan = planner.plan(facts, CpuSets(housekeeping=housekeeping))
        return values(plan, "irq_affinity"), {note.code for note in plan.warnings}

    def test_numa_interrupts_of_a_device_beside_none_of_its_guests_nodes(self):
        far = {0: {0: 10, 1: 15, 2: 31}, 1: {0: 15, 1: 10, 2: 21}, 2: {0: 31, 1: 21, 2: 10}}
        self.assertEqual({"irq:60": "4", "irq:61": "6"}, self.numa_values(2, "0-1", far)[0])
        self.assertEqual({"irq:60": "2", "irq:61": "3"}, self.numa_values(2, "0-1")[0])
        self.assertEqual({"irq:60": "2", "irq:61": "3"}, self.numa_values(None, "0-1", far)[0])

    def test_numa_interrupts_stay_on_the_guests_nodes_while_one_has_a_cpu_for_them(self):
        placed, codes = self.numa_values(1, "0-1", housekeeping="2-3,8-11")
        self.assertEqual({"irq:60": "2", "irq:61": "3"}, placed)
        self.assertNotIn(NoteCode.NODE_WITHOUT_HOUSEKEEPING, codes)

    def test_interrupts_that_nobody_asked_to_place_are_in_the_proof(self):
        """They stay where they are, on whoever's CPU that is; those of CPUs that nobody owns are no overlap."""
        address, other = "0000:82:10.0", "0000:82:10.1"
        irqs = [
            hosts.irq(60 + index, f"vfio-msix[{index}]({address})", address) for index in range(3)
        ]
        for irq, cpu in zip(irqs, ("5", "6", "0-15"), strict=True):
            irq.affinity = irq.effective = cpu
        irqs[2].effective = "7"
        irqs.append(hosts.irq(70, f"vfio-msix[0]({other})", other))
        irqs[3].affinity = irqs[3].effective = "4"
        silent = hosts.guest("silent", 1000, ["4", "5"], affinity="8", hostdevs=[address.upper()])
        asking = hosts.guest(
            "asking", 2000, ["6"], affinity="8", asks={"irq_placement": "numa"}, hostdevs=[other]
        )
        plan = self.plan(silent, asking, irqs=irqs)
        self.assertEqual({"irq:70": "7"}, values(plan, "irq_affinity"))
        self.assertEqual(("5-6", "5-6"), (plan.sets["overlap_irq"], plan.sets["overlap"]))
        self.assertEqual({5, 6, 7}, cpulist.parse(plan.sets["irq"]))
        devices = (f"device {address} of guest silent",)
        self.assertEqual(
            [Note.of(NoteCode.OVERLAP, work="irq", cpus="5-6", devices=devices)], plan.warnings
        )
        for irq in irqs:
            irq.affinity = irq.effective = "1"
        self.assertEqual("", self.plan(silent, irqs=irqs).sets["overlap"])

    def test_mixed_guests_own_only_what_one_vcpu_has_alone(self):
        guest = hosts.guest("g", 1000, ["4", "5", "0-3", "0-3", "6", "6"], dedicated=True)
        self.assertEqual("4-5", self.plan(guest).sets["dedicated"])

    def test_a_domain_from_a_file_belongs_to_the_process_of_its_name(self):
        running = hosts.guest("g", 1000, ["0-15"], workers=1)
        absent = hosts.guest("absent", 9000, ["7"])
        given = dataclasses.replace(hosts.guest("g", 1, ["5"], asks=self.NUMA).domain, name="g")
        facts = guests.with_domains(
            hosts.facts(TWO_NODES, (), (), [running]), [given, absent.domain]
        )
        plan = planner.plan(facts, CpuSets())
        self.assertEqual("5,7", plan.sets["dedicated"])
        self.assertEqual("4,6,12-15", by_target(plan)["tid:1001"].value)

    def test_a_request_that_cannot_be_read_is_named(self):
        guest = hosts.guest("g", 1000, ["5"], workers=1)
        wrong = dataclasses.replace(guest.domain, request_error="what is wrong")
        plan = self.plan(dataclasses.replace(guest, domain=wrong))
        self.assertEqual([], plan.settings)
        self.assertIn(
            Note.of(NoteCode.REQUEST_UNUSABLE, guest="g", reason="what is wrong"), plan.warnings
        )


class LeftAloneTest(testcase.TestCase):
    def test_interrupts_of_nics_that_are_not_placed(self):
        """Those of a guest's device are its guest's affair; of a NIC that has one placed the rest is, too."""
        nics_of_host, irqs = [], []
        for number in range(3):
            device, mine = hosts.nic_with_irqs(
                f"eth{number}", 2, 24 + 2 * number, pci=f"0000:1{number}:00.0"
            )
            nics_of_host.append(device)
            irqs += mine
        nics_of_host.append(hosts.nic("veth0", (), pci=None, queues=1, kind="veth"))
        owner = hosts.guest("g", 1000, ["2"], hostdevs=["0000:10:00.0"])
        facts = hosts.facts(TWO_NODES, nics_of_host, irqs, [owner])
        alone = [(name, irq.number) for name, irq in nics.left_alone(facts, [26])]
        self.assertEqual([("eth2", 28), ("eth2", 29)], alone)


class FaultsTest(testcase.TestCase):
    def test_sets_that_cannot_be_used_name_their_option(self):
        for sets, words in (
            (CpuSets(shared="0-x"), "[compute] cpu_shared_set: "),
            (
                CpuSets(shared="0-99"),
                "[compute] cpu_shared_set names CPUs that this host lacks: 16-99; it has",
            ),
            (CpuSets(dedicated="1-3", shared="3"), "overlap in CPU 3;"),
            (CpuSets(dedicated="1-3", shared="2-4"), "overlap in CPUs 2-3;"),
        ):
            with self.subTest(words):
                error = self.assertRaises(
                    layout.PlanError, planner.plan, hosts.facts(TWO_NODES), sets
                )
                self.assertIn(words, str(error))


class OrderTest(testcase.TestCase):
    def test_guests_come_in_the_order_in_which_libvirt_started_them(self):
        """Process ids begin again at low ones; guests whose number is not known come last."""
        guests_of_host = [
            hosts.guest("late", 100, number=10),
            hosts.guest("unknown", 50),
            hosts.guest("early", 900, number=2),
            hosts.guest("unknown too", 60),
        ]
        ordered = layout.in_start_order(hosts.facts(TWO_NODES, guests=guests_of_host))
        self.assertEqual(
            ["early", "late", "unknown", "unknown too"], [guest.name for guest in ordered]
        )


class SetsTest(testcase.TestCase):
    def plan(self, *guests_of_host, **sets):
        nic, irqs = hosts.nic_with_irqs("eth0", 2)
        return planner.plan(hosts.facts(TWO_NODES, [nic], irqs, guests_of_host), CpuSets(**sets))

    def test_interrupts_that_stay_count_where_they_are(self):
        """No CPU for them means that they go on disturbing guests, not that they are gone."""
        irqs = [hosts.irq(50, "eth7-0", "eth7", "0-15"), hosts.irq(51, "eth7-1", "eth7", "3")]
        irqs[0].effective = "6"
        nic = hosts.nic("eth7", (50, 51))
        facts = hosts.facts(TWO_NODES, [nic], irqs)
        plan = planner.plan(facts, CpuSets(dedicated="0-15"))
        self.assertEqual([], plan.settings)
        self.assertEqual(("3,6", "3,6"), (plan.sets["irq"], plan.sets["overlap"]))
        overlap = Note.of(NoteCode.OVERLAP, work="irq", cpus="3,6", nics=("eth7",))
        self.assertEqual([Note(NoteCode.EVERY_CPU_DEDICATED), overlap], plan.warnings)

    def test_cpus_to_avoid_come_last_whatever_was_asked_before(self):
        layout = CpuLayout.of(hosts.facts(TWO_NODES), CpuSets())
        first = layout.threads(frozenset({0}), None, frozenset())
        again = layout.threads(frozenset({0}), None, frozenset(first.cpus[:1]))
        self.assertEqual((1, 2), (first.cpus[0], again.cpus[0]))

    def test_offline_cpus_in_a_set_are_named_unless_power_managed(self):
        facts = hosts.facts(hosts.cpus_of([(0, 4)], offline={3}))
        offline = Note.of(NoteCode.OFFLINE_IN_SET, option="[compute] cpu_dedicated_set", cpus="3")
        self.assertEqual([offline], planner.plan(facts, CpuSets(dedicated="2-3")).warnings)
        self.assertEqual(
            [], planner.plan(facts, CpuSets(dedicated="2-3", power_managed=True)).warnings
        )

    def test_isolated_shared_cpus_are_left_out(self):
        guest = hosts.guest("g", 1000, ["5"], workers=1, asks=GuestTest.NUMA)
        facts = hosts.facts(TWO_NODES, (), (), [guest], isolated="4")
        plan = planner.plan(facts, CpuSets(shared="4,6"))
        self.assertEqual("6", by_target(plan)["tid:1001"].value)
        isolated = Note.of(NoteCode.ISOLATED_SHARED, option="[compute] cpu_shared_set", cpus="4")
        self.assertEqual([isolated], plan.warnings)
