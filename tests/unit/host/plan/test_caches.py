# SPDX-License-Identifier: Apache-2.0
"""Work of the host by L3 groups: guests' threads near their vCPUs, a NIC's queues over the groups.

``python -m tests.unit.host.plan.test_caches`` writes the table of the reference anew from the planner.
"""

import collections
import csv
import dataclasses
import io
import pathlib

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model.host_model import PlanRule
from nova_perf_tuning.host.plan import caches, planner
from nova_perf_tuning.host.plan.layout import CpuSets
from tests.support import hosts, plan_checks, sysroots, testcase

SETTINGS = hypothesis.settings(
    max_examples=60, deadline=None, suppress_health_check=list(hypothesis.HealthCheck)
)
TABLE = pathlib.Path(__file__).parents[4] / "doc/source/reference/l3.csv"

NUMA = {"vhost_placement": "numa", "emulator_placement": "numa"}
SPREAD = {"vhost_placement": "spread"}

#: Four L3 groups of four CPUs each on one node: 0-3, 4-7, 8-11 and 12-15.
FOUR = hosts.with_l3(hosts.cpus_of([(0, 16)]), 4)
#: One shared CPU in each group.
ONE_EACH = CpuSets(dedicated="1-3,5-7,9-11,13-15", shared="0,4,8,12")


def without_l3(facts):
    """Return the host as the planner knew it before it knew of caches."""
    cpus = [dataclasses.replace(cpu, l3=None) for cpu in facts.cpus]
    return dataclasses.replace(facts, cpus=tuple(cpus))


def threads_of(plan, guest, kind):
    """Return the settings of a guest's threads of one kind."""
    tids = [f"tid:{thread.tid}" for thread in guest.threads if thread.kind == kind]
    return [setting for setting in plan.settings if setting.target in tids]


def cpus_of(plan, guest, kind="vhost"):
    return [setting.value for setting in threads_of(plan, guest, kind)]


class ThreadsTest(testcase.TestCase):
    def plan(self, *guests, cpus=FOUR, sets=ONE_EACH):
        return planner.plan(hosts.facts(cpus, guests=guests), sets)

    def test_numa_takes_the_group_of_most_vcpus(self):
        guest = hosts.guest("g", 1000, ["5", "9", "10"], workers=1, affinity="0-15", asks=NUMA)
        plan = self.plan(guest)
        for kind, rule in (
            ("vhost", PlanRule.VHOST_NUMA_L3),
            ("emulator", PlanRule.EMULATOR_NUMA_L3),
            ("iothread", PlanRule.IOTHREAD_NUMA_L3),
        ):
            with self.subTest(kind):
                (setting,) = threads_of(plan, guest, kind)
                self.assertEqual(("8", rule), (setting.value, setting.rule))
        (worker,) = threads_of(plan, guest, "vhost")
        self.assertEqual(
            "g requests vhost_placement=numa: worker 0 may use the shared CPUs 8 of node 0, "
            "in the L3 group of its vCPUs",
            worker.reason,
        )

    def test_groups_with_equally_many_vcpus_are_equally_near(self):
        guest = hosts.guest("g", 1000, ["5", "9"], workers=1, affinity="0-15", asks=NUMA)
        self.assertEqual(["4,8"], cpus_of(self.plan(guest), guest))

    def test_farther_groups_are_added_until_each_thread_has_a_cpu(self):
        for workers, expected in ((1, "8"), (2, "4,8"), (3, "0,4,8,12"), (9, "0,4,8,12")):
            with self.subTest(workers):
                pins = ["5", "9", "10"]
                guest = hosts.guest("g", 1000, pins, workers, affinity="0-15", asks=NUMA)
                plan = self.plan(guest)
                self.assertEqual({expected}, set(cpus_of(plan, guest)))
                self.assertEqual(["8"], cpus_of(plan, guest, "emulator"))
                is_near = expected != "0,4,8,12"
                rules = {setting.rule for setting in threads_of(plan, guest, "vhost")}
                wanted = PlanRule.VHOST_NUMA_L3 if is_near else PlanRule.VHOST_NUMA
                self.assertEqual({wanted}, rules)

    def test_the_node_where_the_group_has_no_shared_cpu(self):
        sets = CpuSets(dedicated="4-15", shared="0-3")
        guest = hosts.guest("g", 1000, ["9", "10"], workers=1, affinity="0-15", asks=NUMA)
        plan = self.plan(guest, sets=sets)
        self.assertEqual(["0-3"], cpus_of(plan, guest))
        self.assertEqual(
            {PlanRule.VHOST_NUMA}, {one.rule for one in threads_of(plan, guest, "vhost")}
        )

    def test_the_reason_says_why_a_thread_may_leave_its_l3_group(self):
        nothing = CpuSets(dedicated="4-15", shared="0-3")
        none = "since no shared CPU is in an L3 group of its vCPUs"
        few = "since the L3 groups of its vCPUs have 1 shared CPU for 2 threads"
        more = "since a nearer one would carry more workers"
        for asks, workers, sets, expected in (
            (NUMA, 1, nothing, {"vhost": [none], "emulator": [none], "iothread": [none]}),
            (SPREAD, 1, nothing, {"vhost": [none]}),
            (NUMA, 2, ONE_EACH, {"vhost": [few, few], "emulator": [""], "iothread": [""]}),
            (SPREAD, 2, ONE_EACH, {"vhost": ["", more]}),
            (NUMA, 1, CpuSets(dedicated="8-15", shared="4-7"), {"vhost": [none]}),
            (NUMA, 9, CpuSets(dedicated="9-10", shared="8,11"), {"vhost": [""] * 9}),
        ):
            guest = hosts.guest("g", 1000, ["9", "10"], workers, affinity="0-15", asks=asks)
            plan = self.plan(guest, sets=sets)
            for kind, reasons in expected.items():
                with self.subTest(asks=asks, workers=workers, kind=kind):
                    said = [one.reason for one in threads_of(plan, guest, kind)]
                    found = [
                        text[text.find("since") :] if "since" in text else "" for text in said
                    ]
                    self.assertEqual(reasons, found)

    def test_vcpus_that_float_are_in_no_group(self):
        guest = hosts.guest("g", 1000, ["0-15", "0-15"], workers=1, affinity="0-15", asks=NUMA)
        plan = self.plan(guest)
        self.assertEqual(["0,4,8,12"], cpus_of(plan, guest))
        self.assertNotIn("L3", threads_of(plan, guest, "vhost")[0].reason)

    def test_an_io_thread_keeps_to_its_pin(self):
        about = {"emulator_pin": "0,4,8,12", "iothread_pin": "4"}
        guest = hosts.guest("g", 1000, ["9"], affinity="0-15", asks=NUMA, **about)
        plan = self.plan(guest)
        (setting,) = threads_of(plan, guest, "iothread")
        self.assertEqual(("4", PlanRule.IOTHREAD_NUMA), (setting.value, setting.rule))
        self.assertEqual(
            "g requests emulator_placement=numa: its I/O threads may use the shared CPUs 4 of "
            "node 0, away from vCPUs, since their pin has no CPU in the L3 group of its vCPUs",
            setting.reason,
        )
        self.assertNotIn("since", threads_of(plan, guest, "emulator")[0].reason)
        self.assertEqual(["8"], cpus_of(plan, guest, "emulator"))

    def test_spread_takes_near_cpus_while_they_carry_no_more(self):
        guest = hosts.guest("g", 1000, ["9", "10"], workers=1, affinity="0-15", asks=SPREAD)
        (setting,) = threads_of(self.plan(guest), guest, "vhost")
        self.assertEqual(("8", PlanRule.VHOST_SPREAD_L3), (setting.value, setting.rule))
        self.assertEqual(
            "g requests vhost_placement=spread: worker 0 has CPU 8, one of the 4 shared CPUs of "
            "node 0, in the L3 group of its vCPUs",
            setting.reason,
        )
        more = hosts.guest("h", 2000, ["9", "10"], workers=3, affinity="0-15", asks=SPREAD)
        settings = threads_of(self.plan(more), more, "vhost")
        self.assertEqual(["8", "4", "12"], [one.value for one in settings])
        self.assertEqual(
            [PlanRule.VHOST_SPREAD_L3, PlanRule.VHOST_SPREAD, PlanRule.VHOST_SPREAD],
            [one.rule for one in settings],
        )

    def test_spread_leaves_near_cpus_to_whom_they_are_near(self):
        """Without that the second guest of a group would take the CPU of the next group."""
        guests = []
        for number, cpu in enumerate((1, 2, 5, 6, 9, 10, 13, 14)):
            pins = [str(cpu)]
            pid = 1000 * (number + 1)
            guests.append(hosts.guest(f"g{number}", pid, pins, 1, "0-15", SPREAD, number=number))
        plan = self.plan(*guests)
        placed = [cpus_of(plan, guest) for guest in guests]
        self.assertEqual([["0"], ["0"], ["4"], ["4"], ["8"], ["8"], ["12"], ["12"]], placed)

    def test_who_is_near_to_no_cpu_chooses_last(self):
        """A guest that floats has started first, and could take any CPU."""
        floats = hosts.guest("f", 1000, ["0-15"], 1, "0-15", SPREAD, number=1)
        near = hosts.guest("n", 2000, ["5"], 1, "0-15", SPREAD, number=2)
        plan = self.plan(floats, near)
        self.assertEqual([["8"], ["4"]], [cpus_of(plan, floats), cpus_of(plan, near)])

    def test_a_worker_comes_back_when_its_near_cpu_is_free(self):
        guests = []
        for number, cpu in enumerate((1, 2)):
            pid = 1000 * (number + 1)
            guests.append(
                hosts.guest(f"g{number}", pid, [str(cpu)], 1, "0-15", SPREAD, number=number)
            )
        facts = hosts.facts(FOUR, guests=guests)
        after = hosts.applied(facts, planner.plan(facts, ONE_EACH))
        self.assertEqual(["0", "4"], [guest.threads[1].affinity for guest in after.guests])
        left = dataclasses.replace(after, guests=after.guests[1:])
        plan = planner.plan(left, ONE_EACH)
        self.assertEqual(["0"], cpus_of(plan, left.guests[0]))
        again = planner.plan(hosts.applied(left, plan), ONE_EACH)
        self.assertEqual([], again.changes())


class QueuesTest(testcase.TestCase):
    def plan(self, *counts, cpus=FOUR, sets=None, affinity=None):
        nics, irqs = [], []
        for index, count in enumerate(counts):
            first = 24 + len(irqs)
            pci = f"0000:1{index}:00.0"
            nic, mine = hosts.nic_with_irqs(f"eth{index}", count, first, 0, pci, affinity=affinity)
            nics.append(nic)
            irqs += mine
        self.nics = nics
        return planner.plan(hosts.facts(cpus, nics, irqs), sets or CpuSets())

    def placed(self, plan, index):
        numbers = {f"irq:{number}" for number in self.nics[index].irqs}
        return [int(one.value) for one in plan.settings if one.target in numbers]

    def test_queues_have_groups_of_their_own_before_they_share_one(self):
        plan = self.plan(4)
        self.assertEqual({0, 1, 2, 3}, {cpu // 4 for cpu in self.placed(plan, 0)})
        setting = next(one for one in plan.settings if one.kind == "irq_affinity")
        self.assertEqual(PlanRule.NIC_IRQ_LOCAL_L3, setting.rule)
        self.assertEqual(
            "eth0 (10000 Mbit/s, node 0) has 4 queues for 16 housekeeping CPUs of node 0 "
            "in 4 L3 groups: queue 0 on CPU 1, alone there",
            setting.reason,
        )

    def test_of_several_nics(self):
        cpus = hosts.with_l3(hosts.cpus_of([(1, 4), (0, 16)]), 4)  # CPU 0 is elsewhere
        plan = self.plan(3, 4, 2, 6, cpus=cpus)
        for index, count in enumerate((3, 4, 2, 6)):
            groups = collections.Counter(cpu // 4 for cpu in self.placed(plan, index))
            with self.subTest(count):
                self.assertEqual(min(count, 4), len(groups))

    def test_crowded_queues_move_to_free_groups(self):
        facts = hosts.facts(FOUR, *_nic(["4", "5", "6", "9"]))
        plan = planner.plan(facts, CpuSets())
        placed = [int(one.value) // 4 for one in plan.settings if one.kind == "irq_affinity"]
        self.assertEqual({0, 1, 2, 3}, set(placed))
        self.assertEqual(2, len([one for one in plan.changes() if one.kind == "irq_affinity"]))

    def test_no_group_of_its_own_on_a_cpu_that_carries_more(self):
        """The other group is busy with two faster NICs."""
        nics, irqs = [], []
        for index, (speed, affinities) in enumerate(
            ((100000, ["8"]), (100000, ["9"]), (1000, ["4", "5"]))
        ):
            first, pci = 24 + len(irqs), f"0000:1{index}:00.0"
            count = len(affinities)
            nic, mine = hosts.nic_with_irqs(f"eth{index}", count, first, 0, pci, speed)
            for irq, affinity in zip(mine, affinities, strict=True):
                irq.affinity = affinity
            nics.append(nic)
            irqs += mine
        sets = CpuSets(housekeeping="4,5,8,9")
        plan = planner.plan(hosts.facts(FOUR, nics, irqs), sets)
        self.assertEqual([], [one for one in plan.changes() if one.kind == "irq_affinity"])

    def test_a_better_core_comes_before_a_group_of_its_own(self):
        """CPU 0 has the first group to itself, and comes last."""
        plan = self.plan(3, sets=CpuSets(housekeeping="0,4-7,8-11"))
        self.assertNotIn(0, self.placed(plan, 0))


def _nic(affinities):
    """Return a NIC with a queue on each of these CPUs, and its interrupts."""
    nic, irqs = hosts.nic_with_irqs("eth0", len(affinities))
    for irq, affinity in zip(irqs, affinities, strict=True):
        irq.affinity = affinity
    return [nic], irqs


class FactsTest(testcase.TestCase):
    def test_groups_are_those_of_nodes_that_have_several(self):
        cpus = hosts.cpus_of([(0, 4), (1, 4)])
        for cores, expected in ((4, {}), (2, {0: "0-1", 4: "4-5", 7: "6-7"})):
            with self.subTest(cores):
                found = caches.groups(hosts.facts(hosts.with_l3(cpus, cores)))
                self.assertLessEqual(expected.items(), found.items())
                self.assertEqual(bool(expected), bool(found))

    def test_caches_that_no_two_cores_share_are_no_groups(self):
        """As of a virtual machine with a socket for each CPU, and of EPYC 7F52."""
        for smt in (1, 2):
            cpus = hosts.with_l3(hosts.cpus_of([(0, 4)], smt), 1)
            self.assertEqual({}, caches.groups(hosts.facts(cpus)))

    def test_hybrid_cores(self):
        """Both kinds share one cache; low-power cores have none (Intel), or clusters have one each (ARM)."""
        plain = hosts.cpus_of([(0, 8)], capacity=lambda core: 1024 if core < 4 else 512)
        self.assertEqual({}, caches.groups(hosts.facts(hosts.with_l3(plain, 8, hidden={6, 7}))))
        clusters = hosts.facts(hosts.with_l3(plain, 4))
        self.assertEqual({"0-3", "4-7"}, set(caches.groups(clusters).values()))

    def test_unknown_caches_silence_themselves_alone(self):
        cpus = hosts.with_l3(hosts.cpus_of([(0, 8)]), 4, hidden={1, 2})
        found = caches.groups(hosts.facts(cpus))
        self.assertEqual({0, 3, 4, 5, 6, 7}, found.keys())
        self.assertEqual({}, caches.groups(without_l3(hosts.facts(cpus))))

    def test_generated_host(self):
        """Through the reader: two groups of eight cores a node."""
        facts = reader.read_host(sysroots.make_host(self, "small"))
        found = caches.groups(facts)
        self.assertEqual(
            {"0-7,32-39", "8-15,40-47", "16-23,48-55", "24-31,56-63"}, set(found.values())
        )


@st.composite
def guests_and_sets(draw):
    """Draw a host of EPYC's kind with guests that own CPUs, and sets with some shared CPUs."""
    nodes = draw(st.integers(1, 2))
    groups, cores = draw(st.sampled_from(((4, 4), (8, 2), (16, 1), (1, 8), (3, 3))))
    plain = hosts.cpus_of([(node, groups * cores) for node in range(nodes)], smt=2)
    cpus = hosts.with_l3(plain, cores)
    shared = draw(st.sets(st.sampled_from([cpu.id for cpu in cpus]), min_size=1, max_size=12))
    free = [cpu.id for cpu in cpus if cpu.id not in shared]
    guests = []
    for number in range(draw(st.integers(1, 6))):
        size = draw(st.integers(1, 4))
        mine, free = free[:size], free[size:]
        if not mine:
            break
        node = cpus[mine[0]].node
        asks = draw(st.sampled_from((NUMA, SPREAD)))
        workers = draw(st.integers(1, 4))
        pid = 1000 * (number + 1)
        now = draw(st.sampled_from((None, *sorted(shared))))
        affinity = f"0-{len(cpus) - 1}" if now is None else str(now)
        pins = [str(cpu) for cpu in mine]
        about = {"memory_nodes": str(node), "number": number}
        guests.append(hosts.guest(f"g{number}", pid, pins, workers, affinity, asks, **about))
    sets = CpuSets(
        dedicated=cpulist.format(cpu.id for cpu in cpus if cpu.id not in shared),
        shared=cpulist.format(shared),
    )
    return hosts.facts(cpus, guests=guests), sets


def too_far(facts, sets, plan):
    """Return threads that are in a farther L3 group although a nearer one has room.

    For ``spread`` a CPU has room that carries at least one worker less; for ``numa`` a group has
    room that has a CPU for each worker of the guest.
    """
    node_of = {cpu.id: cpu.node for cpu in facts.cpus}
    shared = cpulist.parse(sets.shared)
    load = collections.Counter(
        int(one.value) for one in plan.settings if one.rule.startswith("vhost-spread")
    )
    wrong = []
    for guest in facts.guests:
        far = plan_checks.distances(facts, guest)
        node = int(guest.domain.memory_nodes)
        pool = {cpu for cpu in shared if node_of[cpu] == node}
        workers = threads_of(plan, guest, "vhost")
        own = collections.Counter(one.value for one in workers)
        for setting in workers:
            cpus = cpulist.parse(setting.value)
            if not cpus <= pool:
                continue  # the node has no shared CPU
            nearer = {cpu for cpu in pool if far[cpu] < max(far[cpu] for cpu in cpus)}
            if setting.rule.startswith("vhost-spread"):
                here = load[int(setting.value)]
                nearer = {
                    cpu
                    for cpu in nearer
                    if load[cpu] < here and own[str(cpu)] < own[setting.value]
                }
                if nearer:
                    wrong.append((setting.target, setting.value, nearer))
            elif len(nearer) >= len(workers):
                wrong.append((setting.target, setting.value, nearer))
    return wrong


class PropertiesTest(testcase.TestCase):
    @SETTINGS
    @hypothesis.given(guests_and_sets())
    def test_never_a_farther_group_while_a_nearer_one_has_room(self, drawn):
        facts, sets = drawn
        plan = planner.plan(facts, sets)
        self.assertEqual([], too_far(facts, sets, plan))
        self.assertEqual([], plan_checks.problems(facts, sets, plan))

    @SETTINGS
    @hypothesis.given(guests_and_sets())
    def test_rounds_are_stable(self, drawn):
        facts, sets = drawn
        after = hosts.applied(facts, planner.plan(facts, sets))
        for _round in range(2):
            plan = planner.plan(after, sets)
            self.assertEqual([], plan.changes())
            after = hosts.applied(after, plan)

    @SETTINGS
    @hypothesis.given(hosts.hosts(), st.data())
    def test_one_group_a_node_changes_nothing(self, host, data):
        sets = data.draw(hosts.sets_for(host))
        of_node = collections.defaultdict(list)
        for cpu in host.cpus:
            if cpu.online:
                of_node[cpu.node].append(cpu.id)
        cpus = []
        for cpu in host.cpus:
            shared = cpulist.format(of_node[cpu.node]) if cpu.online else None
            cpus.append(dataclasses.replace(cpu, l3=shared))
        one = dataclasses.replace(host, cpus=tuple(cpus))
        known, unknown = planner.plan(one, sets), planner.plan(without_l3(host), sets)
        self.assertEqual(unknown.settings, known.settings)


#: Name -> L3 groups of a node, cores of each, cores of each group that are shared.
HOSTS = {
    "EPYC, 4 groups of 8 cores": (4, 8, 1),
    "EPYC, 8 groups of 8 cores": (8, 8, 1),
    "EPYC, 16 groups of 4 cores": (16, 4, 1),
    "8 groups of 8 cores, shared in one group only": (8, 8, 0),
    "one group of 32 cores": (1, 32, 4),
}
HEAD = ["node", "placement", "workers", "in their guest's group before", "now"]


def made(groups, cores, shared_cores, asks, workers):
    """Return a node full of guests of four vCPUs on two cores of one L3 group, and its sets."""
    number = groups * cores
    cpus = hosts.with_l3(hosts.cpus_of([(0, number)], smt=2), cores)
    if shared_cores:
        shared = [core for core in range(number) if core % cores < shared_cores]
    else:
        shared = list(range(cores))
    both = {cpu for core in shared for cpu in (core, core + number)}
    guests = []
    rest = [core for core in range(number) if core not in shared]
    for start in range(0, len(rest) - 1, 2):
        first, second = rest[start : start + 2]
        if first // cores != second // cores:
            continue
        pins = [str(cpu) for cpu in (first, first + number, second, second + number)]
        pid = 1000 * (len(guests) + 1)
        name = f"g{len(guests)}"
        guests.append(hosts.guest(name, pid, pins, workers, "0-1", asks, number=len(guests)))
    sets = CpuSets(
        dedicated=cpulist.format(cpu.id for cpu in cpus if cpu.id not in both),
        shared=cpulist.format(both),
    )
    return hosts.facts(cpus, guests=guests), sets


def near_workers(facts, plan):
    """Return how many workers may only run in the L3 group of their guest's vCPUs."""
    l3_of = {cpu.id: cpu.l3 for cpu in facts.cpus}
    near = 0
    for guest in facts.guests:
        own = l3_of[int(guest.domain.vcpu_pins[0])]
        for value in cpus_of(plan, guest):
            near += {l3_of[cpu] for cpu in cpulist.parse(value)} == {own}
    return near


def table():
    """Return the table as text."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(HEAD)
    for name, shape in HOSTS.items():
        for asks, workers in ((NUMA, 2), (SPREAD, 1), (SPREAD, 2)):
            facts, sets = made(*shape, asks, workers)
            before = near_workers(facts, planner.plan(without_l3(facts), sets))
            now = near_workers(facts, planner.plan(facts, sets))
            placement = f"{asks['vhost_placement']}, {workers} a guest"
            writer.writerow([name, placement, workers * len(facts.guests), before, now])
    return text.getvalue()


class TableTest(testcase.TestCase):
    def test_the_reference_shows_what_the_planner_does(self):
        self.assertEqual(
            TABLE.read_text(encoding="utf-8"),
            table(),
            "the planner has changed; python -m tests.unit.host.plan.test_caches writes the table anew",
        )


if __name__ == "__main__":
    TABLE.write_text(table(), encoding="utf-8")
