# SPDX-License-Identifier: Apache-2.0
"""Many random histories of a simulated host.

It always comes to the plan, nothing else is written, no write is tried without end, and every original comes back.
"""

import collections
import errno

import hypothesis
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.transaction import apply, restore
from tests.support import agent_bench, simulated, testcase

_NICS = st.sampled_from(("eth0", "eth1"))
_GUESTS = st.sampled_from(("guest1", "guest2", "guest3"))
_ASKS = st.sampled_from(
    (
        None,
        {"vhost_placement": "numa"},
        {"vhost_placement": "spread", "emulator_placement": "numa"},
        {"irq_placement": "numa", "emulator_placement": "numa"},
        {"irq_placement": "vcpu", "vhost_placement": "spread"},
    )
)
_PICK = st.integers(0, 30)
_VALUES = st.sampled_from(("0", "1", "0-7", "5", "2-3"))
_REFUSALS = st.sampled_from((errno.EIO, errno.EAGAIN, errno.EBUSY, errno.EINVAL))
#: Writes that the agent makes in a row.
LIMIT = 5


def _event(name, *arguments):
    return st.tuples(st.just(name), *arguments)


EVENTS = st.one_of(
    _event("bind", _NICS, st.integers(1, 6)),
    _event("unbind", _NICS),
    _event("set_channels", _NICS, st.integers(1, 6)),
    _event("link", _NICS, st.booleans(), st.booleans()),
    _event("reset", _NICS),
    _event("set_online", st.integers(1, 7), st.booleans()),
    _event("start", _GUESTS, _ASKS, st.integers(0, 4), st.booleans()),
    _event("ask", _GUESTS, _ASKS),
    _event("end", _GUESTS),
    _event("guest_driver", _GUESTS, st.booleans()),
    _event("compete", _PICK, _VALUES),
    _event("intrude", _PICK, _VALUES),
    _event("refuse", _PICK, _REFUSALS, st.booleans()),
    _event("refuse_all", _NICS, _REFUSALS),
    _event("accept"),
    _event("fill", st.integers(0, 7)),
    _event("reboot"),
    _event("passes", st.sampled_from((1, 40))),
    st.just(("event",)),
    st.just(("agent killed",)),
    st.just(("time",)),
)


#: Left alone, hypothesis draws five events on average.
HISTORIES = st.one_of(st.lists(EVENTS, max_size=8), st.lists(EVENTS, min_size=8, max_size=25))


#: Somebody writes right after an original was put back that nobody asks for any more.
INTRUDED = [
    ("bind", "eth0", 1),
    ("start", "guest1", None, 0, True),
    ("ask", "guest1", {"irq_placement": "numa", "emulator_placement": "numa"}),
    ("passes", 1),
    ("ask", "guest1", None),
    ("intrude", 5, "0"),
]


class ConvergenceTest(testcase.TestCase):
    @hypothesis.settings(
        max_examples=100,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(events=HISTORIES)
    @hypothesis.example(events=INTRUDED)
    def test_every_history_ends_as_planned(self, events):
        self.patch(apply, "PAUSES", (0.0,) * (agent_bench.TRIES - 1))
        bench = agent_bench.Bench()
        try:
            for event in events:
                bench.happen(event)
            bench.settle()
            self.assertEqual([], bench.wrong())
            written = len(bench.host.writes)
            bench.agent.reconcile()
            self.assertEqual(
                written, len(bench.host.writes), "a host that is as planned was written to"
            )
            self._check_faults(bench)
            self._check_bound(bench)
            self._check_places(bench)
            self._check_withdrawn(bench)
            self._check_originals(bench)
            self.assertEqual([], bench.host.illegal)
        finally:
            bench.close()

    def _check_faults(self, bench):
        """What does not hold in the end, and nothing else, is said to be not in force."""
        kinds = bench.host.kinds()
        wrong = {
            (setting.kind, setting.target)
            for setting in bench.agent.wanted
            if not kinds[setting.kind].holds(
                setting.target, setting.value, kinds[setting.kind].read(setting.target)
            )
        }
        wanted, output = self._wanted_and_told(bench)
        kept = {
            (entry.kind, entry.target) for entry in bench.journal.entries()
        } - wanted  # it may not be put back
        self.assertEqual(wrong, output - kept)

    @staticmethod
    def _wanted_and_told(bench):
        output = {
            (outcome.setting.kind, outcome.setting.target)
            for outcome in bench.agent.not_in_force()
        }
        return {(setting.kind, setting.target) for setting in bench.agent.wanted}, output

    def _check_bound(self, bench):
        """No object is written more often than something happened, and then once more.

        What is refused may be tried as often as a value that others change, and once after each pause.
        """
        counts = collections.Counter(write[:3] for write in bench.host.writes)
        self.assertEqual(
            {}, {key: number for key, number in counts.items() if number > bench.changes + 1}
        )
        most = agent_bench.TRIES * (bench.changes + bench.waits + LIMIT + 1)
        self.assertEqual(
            {}, {key: number for key, number in bench.host.attempts.items() if number > most}
        )

    def _check_withdrawn(self, bench):
        """What nobody asks for any more has no value of the agent, or it is told why it cannot be put back."""
        wanted, output = self._wanted_and_told(bench)
        # While a NIC is down its vectors have no handler, and are kept for its return.
        irqs = bench.host.kinds()["irq_affinity"]
        kept = {key: held for key, held in bench.host.lost().items() if key not in wanted | output}
        self.assertEqual(
            {},
            {
                (kind, target): held
                for (kind, target), held in kept.items()
                if kind != "irq_affinity" or not irqs.identity(target).endswith("|")
            },
        )

    def _check_originals(self, bench):
        """After a restore nothing has a value of the agent but what the kernel does not let be put back."""
        done = bench.agent.restore()
        kept = {
            (restored.entry.kind, restored.entry.target)
            for restored in done
            if restored.result is restore.RestoreResult.FAILED
        }
        self.assertEqual(
            {}, {key: held for key, held in bench.host.lost().items() if key not in kept}
        )

    def _check_places(self, bench):
        """Whatever was written last lies on CPUs that are nobody's own, but for what asked to be there."""
        dedicated = cpulist.parse(simulated.DEDICATED)
        for setting in bench.agent.wanted:
            if setting.kind != "xps" and setting.rule != "passthrough-vcpu":
                self.assertFalse(cpulist.parse(setting.value) & dedicated, setting)


class CompetingWriterTest(agent_bench.BenchCase):
    """Somebody who writes all the time is not fought without end."""

    def setUp(self):
        super().setUp()
        self.bench.agent.reconcile()
        self.number = min(self.bench.host.numbers("eth0"))
        self.ours = self.bench.host.vectors[self.number].affinity

    def _conflict(self, seconds, excused=False, every=1.0):
        begin, self.told = len(self.bench.host.writes), False
        for _ in range(int(seconds / every)):
            self.bench.now += every
            self.bench.host.vectors[self.number].affinity = "0-7"
            self.bench.agent.reconcile(excused=excused)
            self.told = self.told or bool(self.bench.agent.conflicts())
        return len(self.bench.host.writes) - begin

    def test_who_writes_by_the_clock_is_held_back(self):
        """A daemon, a cron job, irqbalance with a long interval: answered a few times, then ever more rarely."""
        for interval, event, hours, allowed in (
            (5.0, False, 1, 20),
            (5.0, True, 1, 60),  # nor does a storm of events excuse everything
            # five, those that time has earned, and both the end of each long pause and an event within it
            (60.0, False, 2, 15 + 24 * 2),
            (110.0, False, 2, 15 + 24 * 2),
            (20.0, True, 2, 15 + 24 * 6),
        ):
            with self.subTest(interval, event=event):
                self.open()
                self.bench.agent.reconcile()
                self.assertLess(self._conflict(hours * 3600, event, interval), allowed)
                self.assertTrue(self.told)

    def test_once_in_ten_minutes_is_answered_for_ever(self):
        for _ in range(200):
            self.bench.now += 600.0
            self.bench.host.vectors[self.number].affinity = "0-7"
            self.bench.agent.reconcile()
            self.assertEqual(self.ours, self.bench.host.vectors[self.number].affinity)
        self.assertEqual({}, self.bench.agent.conflicts())

    def test_what_is_held_back_is_told_and_not_taken_for_new_drift(self):
        self._conflict(30)
        held = self.bench.agent.limit.held_back(self.bench.now)
        self.assertEqual(
            [("irq_affinity", f"irq:{self.number}", "0000:10:00.0|eth0-TxRx-0")], list(held)
        )
        self.assertEqual(held, self.bench.agent.conflicts())
        self.assertEqual([], self.bench.agent.drifting())

    def test_what_is_held_back_is_counted_once(self):
        self._conflict(30)
        counted = [len(self.bench.agent.reconcile().drifted) for _ in range(5)]
        self.assertEqual([0] * 5, counted)
        self.bench.host.vectors[self.number].affinity = "0-3"
        self.assertEqual([1, 0], [len(self.bench.agent.reconcile().drifted) for _ in range(2)])

    def test_another_device_with_the_number_has_no_part_in_it(self):
        host = self.bench.host
        self._conflict(100)
        host.unbind("eth0")
        host.start("guest1", {"irq_placement": "numa"}, 0, True)
        self.bench.agent.reconcile()
        self.assertEqual("0000:a1:10.0", host.vectors[self.number].device)
        host.vectors[self.number].give("0-3")
        self.bench.agent.reconcile()
        self.assertNotEqual("0-3", host.vectors[self.number].affinity)

    def test_a_guest_that_reboots_within_the_pause_is_placed_once_more(self):
        host = self.bench.host
        host.start("guest1", {"irq_placement": "numa"}, 0, True)
        self.bench.agent.reconcile()
        self.number = max(host.vectors)
        self._conflict(100)
        host.guest_driver("guest1", False)
        self.bench.agent.reconcile(excused=True)
        host.guest_driver("guest1", True)
        host.vectors[self.number].give("0-7")
        self.bench.agent.reconcile(excused=True)
        self.assertNotEqual("0-7", host.vectors[self.number].affinity)
        self.assertLess(self._conflict(5, excused=True), 2)

    def test_links_that_go_down_and_up_give_no_new_budget(self):
        begin = len(self.bench.host.writes)
        for _ in range(300):
            for up in (False, True):
                self.bench.now += 1.0
                self.bench.host.link("eth0", up)
                self.bench.host.vectors[self.number].give("0-7")
                self.bench.agent.reconcile(excused=True)
        self.assertLess(len(self.bench.host.writes) - begin, 70)

    def test_others_are_repaired_meanwhile(self):
        self._conflict(100)
        other = max(self.bench.host.vectors)
        right = self.bench.host.vectors[other].affinity
        self.bench.host.vectors[other].affinity = "0-7"
        self.bench.agent.reconcile()
        self.assertEqual(right, self.bench.host.vectors[other].affinity)


class RestoreTest(agent_bench.BenchCase):
    """After a stop with restore every object that nobody else touched is as it was."""

    def _content(self):
        host = self.bench.host
        affinities = {number: vector.affinity for number, vector in host.vectors.items()}
        affinities |= {
            tid: cpus
            for guest in host.guests.values()
            for tid, (_kind, cpus) in guest.threads.items()
        }
        return affinities, {name: list(queues.masks) for name, queues in host.xps.items()}

    def test_all_originals(self):
        host = self.bench.host
        host.start("guest1", {"vhost_placement": "spread", "emulator_placement": "numa"}, 4, True)
        before = self._content()
        self.bench.agent.reconcile()
        self.assertNotEqual(before, self._content())
        self.bench.agent.restore()
        self.assertEqual(before, self._content())

    def test_originals_survive_a_link_that_is_down_for_long(self):
        before = self._content()
        for anew in (False, True):
            with self.subTest(anew):
                self.bench.agent.reconcile()
                placed = self._content()
                self.bench.host.link("eth0", False)
                for _ in range(10):
                    self.bench.now += 400.0
                    self.bench.agent.reconcile()
                self.assertEqual(placed, self._content())
                self.bench.host.link("eth0", True, anew)
                self.bench.agent.reconcile()
                self.assertEqual(placed, self._content())
                self.bench.agent.restore()
                self.assertEqual(before, self._content())

    def test_originals_are_put_back_while_all_links_are_down(self):
        before = self._content()
        self.bench.agent.reconcile()
        for name in ("eth0", "eth1"):
            self.bench.host.link(name, False)
        self.bench.agent.reconcile()
        self.bench.agent.restore()
        for name in ("eth0", "eth1"):
            self.bench.host.link(name, True)
        self.assertEqual(before, self._content())
        self.assertEqual([], self.bench.journal.entries())

    def test_links_that_are_down_at_the_start_are_not_touched(self):
        before = self._content()
        for name in ("eth0", "eth1"):
            self.bench.host.link(name, False)
        self.bench.agent.reconcile()
        self.assertEqual(
            [], [write for write in self.bench.host.writes if write[0] == "irq_affinity"]
        )
        for name in ("eth0", "eth1"):
            self.bench.host.link(name, True)
        self.bench.agent.reconcile()
        self.bench.agent.restore()
        self.assertEqual(before, self._content())

    def test_a_vector_that_is_gone_is_forgotten(self):
        self.bench.agent.reconcile()
        self.bench.host.unbind("eth0")
        for _ in range(3):
            self.bench.now += 400.0
            self.bench.agent.reconcile()
        self.assertEqual(
            [],
            [
                entry
                for entry in self.bench.journal.entries()
                if entry.identity.startswith("0000:10")
            ],
        )

    def test_what_a_guest_does_not_ask_any_more_is_put_back(self):
        host = self.bench.host
        host.start("guest1", {"vhost_placement": "spread"}, 2, False)
        worker = host.guests["guest1"].pid + 1
        self.bench.agent.reconcile()
        self.assertNotEqual(simulated.EVERY, host.thread(worker)[2])
        host.guests["guest1"].asks = None
        done = self.bench.agent.reconcile()
        self.assertEqual(simulated.EVERY, host.thread(worker)[2])
        self.assertEqual(2, len(done.withdrawn))

    def test_the_journal_does_not_grow_with_guests_that_come_and_go(self):
        for _ in range(5):
            self.bench.host.start("guest1", {"vhost_placement": "spread"}, 4, True)
            self.bench.agent.reconcile()
            self.bench.host.end("guest1")
            self.bench.agent.reconcile()
        threads = [
            entry for entry in self.bench.journal.entries() if entry.kind == "thread_affinity"
        ]
        self.assertEqual([], threads)
