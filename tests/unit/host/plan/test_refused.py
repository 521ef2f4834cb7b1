# SPDX-License-Identifier: Apache-2.0
"""The plan works around what the kernel refuses to do with interrupts."""

import dataclasses

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model, messages
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.host.plan.layout import CpuSets
from nova_perf_tuning.host.plan.refused import NOTHING, Refused
from nova_perf_tuning.host.transaction import apply, refusals
from tests.support import hosts, testcase

SETTINGS = hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)


class Kernel:
    """Takes the settings of a plan but for interrupts that it manages and CPUs without a free vector."""

    def __init__(self, facts, full, managed):
        self.facts, self.full, self.managed = facts, full, managed
        self.refused = 0
        self.written = 0

    def take(self, plan):
        """Write what does not hold, and return what became of it."""
        outcomes, taken = [], []
        for setting in plan.changes():
            failure = self._failure(setting)
            result = apply.Result.WRITTEN if failure is None else apply.Result.FAILED
            outcomes.append(apply.Outcome(setting, result, setting.current, failure))
            if failure is None:
                taken.append(setting)
        self.refused += len(outcomes) - len(taken)
        self.written += len(taken)
        self.facts = hosts.applied(self.facts, dataclasses.replace(plan, settings=taken))
        return outcomes

    def _failure(self, setting):
        if setting.kind != host_model.IrqTarget.kind:
            return None
        if host_model.IrqTarget.parse(setting.target).number in self.managed:
            return base.FailureClass.MANAGED
        return base.FailureClass.NO_ROOM if int(setting.value) in self.full else None


@st.composite
def refusing_hosts(draw):
    """A host with its sets, and what its kernel refuses."""
    host = draw(hosts.hosts())
    cpus, irqs = sorted(cpu.id for cpu in host.cpus), sorted(host.irqs)
    full = frozenset(draw(st.sets(st.sampled_from(cpus), max_size=12)))
    managed = frozenset(draw(st.sets(st.sampled_from(irqs), max_size=4))) if irqs else frozenset()
    return host, draw(hosts.sets_for(host)), full, managed


def by_number(plan):
    """Return the planned CPU of each interrupt."""
    return {
        int(one.target[4:]): int(one.value)
        for one in plan.settings
        if one.kind == host_model.IrqTarget.kind
    }


class ConvergenceTest(testcase.TestCase):
    @SETTINGS
    @hypothesis.given(refusing_hosts())
    def test_it_ends_with_every_interrupt_where_the_kernel_takes_it(self, drawn):
        host, sets, full, managed = drawn
        kernel, refused = Kernel(host, full, managed), NOTHING
        asked = planner.plan(host, sets).settings
        movable = {
            int(one.target[4:]): one for one in asked if one.kind == host_model.IrqTarget.kind
        }
        for _round in range(refusals.ROUNDS):
            plan = planner.plan(kernel.facts, sets, refused=refused)
            found = refusals.found(kernel.take(plan))
            if refused | found == refused:
                break
            refused |= found
        else:
            self.fail(f"{refusals.ROUNDS} rounds did not do")
        before = kernel.refused, kernel.written
        for _round in range(2):
            plan = planner.plan(kernel.facts, sets, refused=refused)
            kernel.take(plan)
        self.assertEqual(before, (kernel.refused, kernel.written), "it is not at rest")
        planned = by_number(plan)
        self.assertEqual(set(), planned.keys() & {target.number for target in refused.managed})
        housekeeping = cpulist.parse(plan.sets["housekeeping"])
        for number, setting in movable.items():
            if number in managed or setting.rule == host_model.PlanRule.PASSTHROUGH_VCPU:
                continue
            now = kernel.facts.irqs[number].affinity
            if now == host.irqs[number].affinity:
                stays = now is not None and now.isdigit() and int(now) in housekeeping
                self.assertTrue(stays or housekeeping <= full, (number, now))
            else:
                self.assertIn(int(now), housekeeping - full)


class PlacementTest(testcase.TestCase):
    def plan(self, count=4, affinity=None, sets=None, layout=((0, 4), (1, 4)), **refused):
        nic, irqs = hosts.nic_with_irqs("eth0", count, affinity=affinity)
        self.facts = hosts.facts(hosts.cpus_of(list(layout)), [nic], irqs)
        return planner.plan(self.facts, sets or CpuSets(), refused=Refused(**refused))

    def codes(self, plan):
        return {note.code: dict(note.params) for note in plan.warnings}

    def test_another_cpu_of_the_node(self):
        plan = self.plan(full=frozenset({1}))
        self.assertEqual({0, 2, 3}, set(by_number(plan).values()))
        self.assertEqual({"cpus": "1"}, self.codes(plan)[NoteCode.VECTORS_FULL])

    def test_the_nearest_node_with_free_vectors(self):
        plan = self.plan(full=frozenset(range(4)))
        self.assertEqual({4, 5, 6, 7}, set(by_number(plan).values()))
        about = {"nic": "eth0", "where": "node 0", "other": "node 1"}
        self.assertEqual(about, self.codes(plan)[NoteCode.NODE_WITHOUT_VECTORS])
        self.assertEqual(
            {"nic-irq-nearest"}, {one.rule for one in plan.settings if one.kind == "irq_affinity"}
        )

    def test_reasons_say_how_many_queues_a_cpu_serves(self):
        reasons = {one.reason for one in self.plan(6).settings if one.kind == "irq_affinity"}
        tails = sorted(reason.partition(" on CPU ")[2] for reason in reasons)
        self.assertEqual(
            [
                "0, alone there",
                "1, which serves 2 of them",
                "1, which serves 2 of them",
                "2, which serves 2 of them",
                "2, which serves 2 of them",
                "3, alone there",
            ],
            tails,
        )

    def test_what_lies_on_a_full_cpu_stays_up_to_an_even_share(self):
        for count, full, share in (
            (4, frozenset({1}), 1),
            (4, frozenset(range(8)), 1),
            (6, frozenset({1}), 2),
            (9, frozenset({1}), 3),
        ):
            with self.subTest(count=count, full=full):
                placed = by_number(self.plan(count, "1", full=full))
                self.assertEqual(share, list(placed.values()).count(1))

    def test_the_interrupts_of_a_queue_stay_together(self):
        names = ("virtio7-input.0", "virtio7-output.0", "virtio7-input.1", "virtio7-output.1")
        cpus = ("1", "0-3", "2", "0-3")
        pairs = zip(range(24, 28), names, cpus, strict=True)
        irqs = [hosts.irq(number, name, "0000:10:00.0", cpu) for number, name, cpu in pairs]
        nic = dataclasses.replace(
            hosts.nic("eth0", range(24, 28), driver="virtio_net", queues=2), node=0
        )
        facts = hosts.facts(hosts.cpus_of([(0, 4)]), [nic], irqs)
        for full in ({1}, {1, 3}, {1, 2, 3}):
            with self.subTest(full):
                places = by_number(
                    planner.plan(facts, CpuSets(), refused=Refused(frozenset(full)))
                )
                self.assertEqual((places[24], places[26]), (places[25], places[27]))
                self.assertEqual(set(), full & set(places.values()))

    def test_nowhere(self):
        plan = self.plan(full=frozenset(range(8)))
        self.assertEqual({}, by_number(plan))
        self.assertEqual({"nic": "eth0", "irqs": "24-27"}, self.codes(plan)[NoteCode.NO_VECTOR])

    def test_a_managed_interrupt_is_left_alone_and_sends_from_where_it_is(self):
        nic, irqs = hosts.nic_with_irqs("eth0", 4, affinity="0-3")
        irqs[0] = dataclasses.replace(irqs[0], affinity="3", effective="3")
        nic = dataclasses.replace(nic, xps=("0",) * 4)
        facts = hosts.facts(hosts.cpus_of([(0, 4)]), [nic], irqs)
        managed = frozenset(
            {host_model.IrqTarget(irqs[0].number, irqs[0].device or "", irqs[0].name or "")}
        )
        plan = planner.plan(facts, CpuSets(), refused=Refused(managed=managed))
        self.assertEqual({irq.number for irq in irqs[1:]}, by_number(plan).keys())
        self.assertEqual(
            {"nic": "eth0", "irqs": "24"}, self.codes(plan)[NoteCode.INTERRUPTS_MANAGED]
        )
        mask = next(one.value for one in plan.settings if one.target == "eth0/tx-0")
        self.assertIn(3, cpulist.parse_mask(mask))

    def test_another_interrupt_with_the_number_is_not_managed(self):
        managed = frozenset({host_model.IrqTarget(24, "0000:10:00.0", "another-0")})
        self.assertIn(24, by_number(self.plan(managed=managed)))


class LeftTest(testcase.TestCase):
    """[agent] leave_interrupts: what another program places."""

    def facts(self):
        first, irqs = hosts.nic_with_irqs("eth0", 2, affinity="0-7")
        second, more = hosts.nic_with_irqs("eth1", 2, 26, pci="0000:11:00.0", affinity="0-7")
        device = hosts.irq(60, "vfio-msix[0](0000:82:10.0)", "0000:82:10.0", "0-7")
        guest = hosts.guest(
            "g", 1000, ["5"], asks={"irq_placement": "numa"}, hostdevs=["0000:82:10.0"]
        )
        cpus = hosts.cpus_of([(0, 8)])
        return hosts.facts(cpus, [first, second], [*irqs, *more, device], [guest])

    def left(self, *patterns):
        """Return the interrupts that are planned, and those that notes say are left alone."""
        plan = planner.plan(self.facts(), CpuSets(), refused=Refused(left=patterns))
        said = [
            cpulist.parse(str(note.params["irqs"]))
            for note in plan.warnings
            if note.code is NoteCode.INTERRUPTS_LEFT
        ]
        return set(by_number(plan)), set().union(*said)

    def test_names_of_nics_handlers_and_addresses(self):
        for patterns, left in (
            ((), set()),
            (("eth1",), {26, 27}),
            (("eth0-TxRx-1",), {25}),
            (("eth?-TxRx-0",), {24, 26}),
            (("0000:11:00.*",), {26, 27}),
            (("0000:82:*",), {60}),
            (("eth0", "vfio-msix*"), {24, 25, 60}),
            (("ETH0", "eth", "TxRx"), set()),
        ):
            with self.subTest(patterns=patterns):
                planned, said = self.left(*patterns)
                self.assertEqual(left, said)
                self.assertEqual({24, 25, 26, 27, 60} - left, planned)

    def test_patterns_that_name_nothing(self):
        """A note, never an error: the device may come later."""
        lost = ("eht0", "0000:11:00.9", "nvme*")
        plan = planner.plan(
            self.facts(), CpuSets(), refused=Refused(left=("eth1", *lost, "eth0-Tx*", "nvme*"))
        )
        said = [note for note in plan.warnings if note.code is NoteCode.LEAVE_UNMATCHED]
        self.assertEqual([lost], [note.params["patterns"] for note in said])
        self.assertIn("is called eht0, 0000:11:00.9, nvme*: check", messages.of(said[0]))
        nothing = hosts.facts(hosts.cpus_of([(0, 8)]))
        plan = planner.plan(nothing, CpuSets(), refused=Refused(left=lost))
        self.assertNotIn(NoteCode.LEAVE_UNMATCHED, {note.code for note in plan.warnings})

    def test_the_proof_still_says_where_they_are(self):
        plan = planner.plan(self.facts(), CpuSets(), refused=Refused(left=("eth0-TxRx-0",)))
        self.assertEqual("5", plan.sets["overlap_irq"])
        overlaps = [note.params for note in plan.warnings if note.code is NoteCode.OVERLAP]
        (of_irqs,) = [params for params in overlaps if params["work"] == "irq"]
        self.assertEqual(("eth0",), of_irqs["left"])
        self.assertIn(
            "[agent] leave_interrupts names them",
            messages.of(Note.of(NoteCode.OVERLAP, **of_irqs)),
        )

    def test_masks_and_napi_threads_of_a_device_are_left_with_it(self):
        """A handler's name leaves that interrupt alone, not the device's masks."""
        thread = host_model.Thread(70, "napi", 1, "0-7", 5, True)
        facts = self.facts()
        for nic in facts.nics:
            nic.rps = ("ff",) * 2
        facts.nics[0].napis = (
            host_model.Napi(1, 24, (0,), (0,), thread),
            host_model.Napi(2, 25, (1,), (1,)),
        )
        for pattern, of_first in (
            ("eth0", set()),
            ("0000:10:*", set()),
            ("eth0-TxRx-0", {"rps", "thread_affinity", "xps"}),
        ):
            refused = Refused(left=(pattern,))
            plan = planner.plan(facts, CpuSets(), rps=True, refused=refused)
            kinds = {"eth0": set(), "eth1": set()}
            for setting in plan.settings:
                name = setting.target.partition("/")[0]
                if setting.target == "tid:70":
                    name = "eth0"
                if name in kinds:
                    kinds[name].add(setting.kind)
            with self.subTest(pattern):
                self.assertEqual(of_first, kinds["eth0"])
                self.assertEqual({"rps", "xps"}, kinds["eth1"])
                overlaps = [note.params for note in plan.warnings if note.code is NoteCode.OVERLAP]
                alone = {of["work"] for of in overlaps if "eth0" in of.get("left", ())}
                expected = {"irq"} if of_first else {"irq", "rps", "napi"}
                self.assertEqual(expected, alone)

    def test_what_the_kernel_manages_has_its_own_reason(self):
        managed = frozenset({host_model.IrqTarget(24, "0000:10:00.0", "eth0-TxRx-0")})
        plan = planner.plan(self.facts(), CpuSets(), refused=Refused(managed=managed))
        (of_irqs,) = [
            note.params
            for note in plan.warnings
            if note.code is NoteCode.OVERLAP and note.params["work"] == "irq"
        ]
        self.assertEqual(
            {"managed": ("eth0",)}, {k: v for k, v in of_irqs.items() if k not in ("work", "cpus")}
        )
