# SPDX-License-Identifier: Apache-2.0
"""No CPU gets more interrupts than it has vectors for."""

import collections
import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.plan import planner, room, spread
from nova_perf_tuning.host.plan.layout import CpuPool, CpuSets
from nova_perf_tuning.host.plan.refused import Refused
from tests.support import hosts, testcase

SETTINGS = hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
#: Two housekeeping CPUs on each of two nodes, as of a host whose guests own the rest.
CPUS = hosts.cpus_of([(0, 8), (1, 8)])
SETS = CpuSets(dedicated="2-7,10-15")
DEVICE = "0000:8e:03.0"


def device(count, first=300, address=DEVICE, node=1):
    """Return the interrupts of a device that is passed through."""
    return [
        hosts.irq(first + at, f"vfio-msix[{at}]({address})", address, "0-15", node)
        for at in range(count)
    ]


def placed(plan):
    """Return the CPU of each planned interrupt."""
    return {
        int(one.target[4:]): int(one.value)
        for one in plan.settings
        if one.kind == host_model.IrqTarget.kind
    }


def notes(plan, code):
    return [dict(note.params) for note in plan.warnings if note.code is code]


class RoomTest(testcase.TestCase):
    def facts(self, **more):
        irqs = [
            hosts.irq(1, "timer", affinity="0"),
            hosts.irq(2, "nvme0q1", "0000:01:00.0", "1"),
            hosts.irq(3, None, "0000:01:00.0", "1"),
            hosts.irq(4, "eth0-TxRx-0", "0000:10:00.0", "1"),
            hosts.irq(5, "acpi", affinity="0-3"),
        ]
        irqs[0].affinity = "0-1"  # the one that serves it counts
        return dataclasses.replace(hosts.facts(hosts.cpus_of([(0, 2)]), (), irqs), **more)

    def test_what_is_there_and_is_not_placed_takes_room(self):
        self.assertEqual({0: 199, 1: 199}, room.vector_room(self.facts(), {4}))
        self.assertEqual({0: 199, 1: 198}, room.vector_room(self.facts(), ()))

    def test_what_the_host_shows_comes_first(self):
        shown = self.facts(vectors={0: 10, 1: 0})
        self.assertEqual({0: 9, 1: 0}, room.vector_room(shown, ()))

    def test_no_bound_is_known_elsewhere(self):
        for more in (
            {"arch": "aarch64"},
            {"arch": "ppc64le"},
            {"arch": None},
            {"virtualization": "xen-pv"},
        ):
            with self.subTest(more):
                self.assertEqual({}, room.vector_room(self.facts(**more), ()))


class PassthroughTest(testcase.TestCase):
    def plan(self, count, devices=1, asks="numa", arch="x86_64", pins=("10", "11"), **refused):
        addresses = [f"0000:8e:03.{number}" for number in range(devices)]
        irqs = []
        for number, address in enumerate(addresses):
            irqs += device(count, 300 + 1000 * number, address)
        about = {"hostdevs": addresses, "memory_nodes": "1", "asks": {"irq_placement": asks}}
        about["number"] = 1
        guest = hosts.guest("g", 1000, pins, affinity="0-1,8-9", **about)
        self.host = hosts.facts(CPUS, (), irqs, [guest])
        self.host = dataclasses.replace(self.host, arch=arch)
        return planner.plan(self.host, SETS, refused=Refused(**refused))

    def counts(self, plan):
        return dict(collections.Counter(placed(plan).values()))

    def test_it_fits(self):
        plan = self.plan(257)
        self.assertEqual({8: 129, 9: 128}, self.counts(plan))
        self.assertEqual([], plan.warnings)

    def test_the_rest_goes_to_the_nearest_cpus_that_have_room(self):
        plan = self.plan(257, devices=2)
        self.assertEqual({8: 200, 9: 200, 0: 57, 1: 57}, self.counts(plan))
        (note,) = notes(plan, NoteCode.VECTORS_SHORT)
        expected = {"guest": "g", "device": "0000:8e:03.1", "where": "node 1", "cpus": "0-1"}
        self.assertEqual({**expected, "irqs": "1443-1556"}, note)
        moved = next(one for one in plan.settings if one.target == "irq:1443")
        self.assertEqual(
            "g requests irq_placement=numa: vector 143 of its device 0000:8e:03.1 goes to CPU 1: "
            "the housekeeping CPUs of node 1 have no vector left",
            moved.reason,
        )
        self.assertEqual([], notes(plan, NoteCode.OVERLAP))

    def test_what_fits_nowhere_is_named_and_in_the_proof(self):
        plan = self.plan(257, devices=4)
        self.assertEqual(dict.fromkeys((0, 1, 8, 9), 200), self.counts(plan))
        (note,) = notes(plan, NoteCode.NO_VECTOR)
        self.assertEqual(4 * 257 - 800, len(cpulist.parse(note["irqs"])))
        (overlap,) = notes(plan, NoteCode.OVERLAP)
        self.assertEqual(("irq", "2-7,10-15"), (overlap["work"], overlap["cpus"]))

    def test_other_architectures_have_no_such_bound(self):
        plan = self.plan(257, devices=2, arch="aarch64")
        self.assertEqual({8: 257, 9: 257}, self.counts(plan))

    def test_a_guests_own_cpus_are_not_left(self):
        plan = self.plan(257, asks="vcpu", pins=("10",))
        self.assertEqual({10: 200}, self.counts(plan))
        (note,) = notes(plan, NoteCode.NO_VECTOR)
        self.assertEqual(57, len(cpulist.parse(note["irqs"])))

    def test_a_cpu_that_is_full_gets_nothing_of_the_rest(self):
        plan = self.plan(257, devices=2, full=frozenset({0}))
        self.assertEqual({8: 200, 9: 200, 1: 114}, self.counts(plan))

    def test_devices_take_turns_on_the_cpus_that_have_room(self):
        """Else the first CPU would have the odd interrupt of each device."""
        self.plan(3, devices=2, pins=("11", "12"))
        vectors = {8: 9, 9: 9, 10: 0}
        host = dataclasses.replace(self.host, vectors=vectors)
        plan = planner.plan(host, CpuSets(dedicated="2-7,11-15"))
        self.assertEqual({8: 3, 9: 3}, self.counts(plan))

    def test_what_lies_well_stays(self):
        irqs = device(5)
        for irq, cpu in zip(irqs, ("9", "9", "8", "8", "9"), strict=True):
            irq.affinity = cpu
        about = {"hostdevs": [DEVICE], "memory_nodes": "1", "asks": {"irq_placement": "numa"}}
        guest = hosts.guest("g", 1000, ("10",), affinity="0", **about)
        facts = hosts.facts(CPUS, (), irqs, [guest])
        facts = dataclasses.replace(facts, vectors={8: 2, 9: 3, 0: 9, 1: 9})
        plan = planner.plan(facts, SETS)
        self.assertEqual([9, 9, 8, 8, 9], list(placed(plan).values()))

    def test_what_fits_stays_where_one_cpu_has_less_room_than_another(self):
        group = spread.Group(
            CpuPool((1, 2), frozenset((1, 2)), "the host", "housekeeping"), 1, [2]
        )
        left = spread.Room({1: 1, 2: 3}, lambda _pool: ())
        self.assertEqual({group: [2]}, spread.balance([group], {}, room=left))

    def test_the_nearer_node_comes_first(self):
        cpus = hosts.cpus_of([(0, 2), (1, 2), (2, 2)])
        far = {0: {0: 10, 1: 30, 2: 20}, 1: {0: 30, 1: 10, 2: 12}, 2: {0: 20, 1: 12, 2: 10}}
        nic, irqs = hosts.nic_with_irqs("eth0", 4, node=1)
        facts = hosts.facts(cpus, [nic], irqs, distances=far)
        facts = dataclasses.replace(facts, vectors={0: 9, 1: 9, 2: 1, 3: 1, 4: 1, 5: 0})
        plan = planner.plan(facts, CpuSets())
        self.assertEqual([1, 2, 3, 4], sorted(placed(plan).values()))

    def test_a_newcomer_moves_nothing(self):
        plan = self.plan(257, devices=1)
        before = hosts.applied(self.host, plan)
        more = device(257, 2000, "0000:8e:04.0")
        about = {"hostdevs": ["0000:8e:04.0"], "memory_nodes": "1", "number": 9}
        second = hosts.guest(
            "h", 5000, ("12",), affinity="0", asks={"irq_placement": "numa"}, **about
        )
        facts = dataclasses.replace(
            before,
            irqs={**before.irqs, **{irq.number: irq for irq in more}},
            guests=(*before.guests, second),
            domains=(*before.domains, second.domain),
        )
        after = placed(planner.plan(facts, SETS))
        self.assertEqual(placed(plan), {number: after[number] for number in placed(plan)})


class NicTest(testcase.TestCase):
    def test_queues_and_others_go_on_where_there_is_room(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 6, node=1, pci="0000:10:00.0")
        irqs.append(hosts.irq(30, "eth0-event-0", "0000:10:00.0", node=1))
        nic.irqs = tuple(irq.number for irq in irqs)
        facts = hosts.facts(CPUS, [nic], irqs)
        facts = dataclasses.replace(facts, vectors=dict.fromkeys(range(16), 2))
        plan = planner.plan(facts, SETS)
        counts = collections.Counter(placed(plan).values())
        self.assertEqual({8: 2, 9: 2, 1: 2, 0: 1}, {**counts})
        rules = collections.Counter(
            one.rule for one in plan.settings if one.kind == "irq_affinity"
        )
        self.assertEqual({"nic-irq-local": 4, "nic-irq-nearest": 3}, {**rules})
        (note,) = notes(plan, NoteCode.VECTORS_SHORT)
        self.assertEqual(("eth0", "28-30"), (note["nic"], note["irqs"]))

    def test_both_interrupts_of_a_queue_take_room(self):
        names = ("virtio7-input.0", "virtio7-output.0", "virtio7-config", "virtio7-more")
        irqs = [hosts.irq(24 + at, name, "0000:10:00.0") for at, name in enumerate(names)]
        nic = hosts.nic("eth0", range(24, 28), node=1, driver="virtio_net", queues=1)
        facts = dataclasses.replace(hosts.facts(CPUS, [nic], irqs), vectors={8: 2, 9: 2})
        self.assertEqual({24: 8, 25: 8, 26: 9, 27: 9}, placed(planner.plan(facts, SETS)))

    def test_both_interrupts_of_a_queue_need_room(self):
        names = ("virtio7-input.0", "virtio7-output.0", "virtio7-input.1", "virtio7-output.1")
        irqs = [hosts.irq(24 + at, name, "0000:10:00.0") for at, name in enumerate(names)]
        nic = hosts.nic("eth0", range(24, 28), node=1, driver="virtio_net", queues=2)
        facts = hosts.facts(CPUS, [nic], irqs)
        room_of = {8: 3, 9: 1, 0: 9, 1: 9}
        plan = planner.plan(dataclasses.replace(facts, vectors=room_of), SETS)
        self.assertEqual({24: 8, 25: 8, 26: 1, 27: 1}, placed(plan))


@st.composite
def short_hosts(draw):
    """A host with its sets, whose CPUs can have few interrupts."""
    host = draw(hosts.hosts())
    most = draw(st.integers(1, 6))
    vectors = {cpu.id: draw(st.integers(0, most)) for cpu in host.cpus if cpu.online}
    return dataclasses.replace(host, vectors=vectors), draw(hosts.sets_for(host))


class PropertiesTest(testcase.TestCase):
    @SETTINGS
    @hypothesis.given(short_hosts())
    def test_no_cpu_gets_more_than_it_has_room_for(self, drawn):
        host, sets = drawn
        plan = planner.plan(host, sets)
        cpu_of = placed(plan)
        counts = collections.Counter(cpu_of.values())
        unplaced = set()
        for note in notes(plan, NoteCode.NO_VECTOR):
            unplaced |= cpulist.parse(note["irqs"])
        others = collections.Counter()
        for irq in host.irqs.values():
            now = irq.effective or ""
            if irq.name and irq.number not in cpu_of.keys() | unplaced and now.isdigit():
                others[int(now)] += 1
        for cpu, number in counts.items():
            self.assertLessEqual(number + others[cpu], max(host.vectors[cpu], others[cpu]))
        bare = planner.plan(dataclasses.replace(host, vectors={}, arch="aarch64"), sets)
        self.assertEqual(placed(bare).keys(), cpu_of.keys() | unplaced)

    @SETTINGS
    @hypothesis.given(short_hosts())
    def test_rounds_are_stable(self, drawn):
        host, sets = drawn
        after = hosts.applied(host, planner.plan(host, sets))
        for _round in range(2):
            plan = planner.plan(after, sets)
            self.assertEqual([], [one for one in plan.changes() if one.kind != "xps"])
            after = hosts.applied(after, plan)
