"""A thousand random histories of a simulated host: it always comes to the plan, and nothing else is written."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile

import hypothesis
import testtools
from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.agent import arbiter, reconcile
from nova_perf_tuning.host.transaction import journal
from tests.hosts import sysroots
from tests.unit.agent import simulated

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


def _event(name, *arguments):
    return st.tuples(st.just(name), *arguments)


EVENTS = st.one_of(
    _event("bind", _NICS, st.integers(1, 6)),
    _event("unbind", _NICS),
    _event("set_channels", _NICS, st.integers(1, 6)),
    _event("link", _NICS, st.booleans()),
    _event("reset", _NICS),
    _event("set_online", st.integers(1, 7), st.booleans()),
    _event("start", _GUESTS, _ASKS, st.integers(0, 4), st.booleans()),
    _event("end", _GUESTS),
    _event("guest_driver", _GUESTS, st.booleans()),
    _event("rival", _PICK, st.sampled_from(("0", "1", "0-7", "5", "2-3"))),
    _event("refuse", _PICK, st.sampled_from((errno.EIO, errno.EAGAIN, errno.EBUSY, errno.ENOSPC))),
    _event("reboot"),
    st.just(("pass",)),
    st.just(("agent killed",)),
    st.just(("time",)),
)


class OneJournal:
    """A journal that stays open between the passes: a thousand histories take long enough."""

    def __init__(self, journal):
        self._journal = journal

    def check_free(self):
        pass

    def writing(self):
        return contextlib.nullcontext(self._journal)

    ending = writing


class Bench:
    """A simulated host with an agent and its journal."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="nova-perf-agent-", dir=sysroots.workplace())
        self.host = simulated.Simulated()
        self.now = 0.0
        self.changes = 1
        self._open()

    def _open(self):
        self.journal = journal.Journal(os.path.join(self.folder, "state"), self.folder, writer=True)
        book = OneJournal(self.journal)
        self.agent = reconcile.Reconciler(self.host, book, arbiter.Arbiter(), clock=lambda: self.now)

    def close(self):
        self.journal.close()
        shutil.rmtree(self.folder)

    def happen(self, event):
        name, *arguments = event
        if name == "pass":
            self.agent.reconcile()
        elif name == "time":
            self.now += 30.0
        elif name == "agent killed":
            self.journal.close()
            self._open()
        else:
            self.changes += 1
            getattr(self.host, name)(*arguments)

    def settle(self):
        """Give the agent the time that its longest pause takes."""
        for _ in range(3):
            self.now += 2000.0
            self.agent.retry_refused()
            self.agent.reconcile()

    def wrong(self):
        """Return what the plan wants and the host does not hold, but for what the kernel refuses for good."""
        kinds = self.host.kinds()
        refused = {f"irq:{number}" for number in self.host.refuses}
        return [
            f"{one.kind} {one.target} is {one.current}, planned {one.value}"
            for one in self.host.plan(self.host.facts()).settings
            if one.target not in refused
            and not one.identity.endswith("|")
            and not kinds[one.kind].holds(one.target, one.value, one.current)
        ]


class ConvergenceTest(testtools.TestCase):
    @hypothesis.settings(
        max_examples=1000, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    @hypothesis.given(events=st.lists(EVENTS, max_size=25))
    def test_every_history_ends_as_planned(self, events):
        bench = Bench()
        try:
            for event in events:
                bench.happen(event)
            bench.settle()
            self.assertEqual([], bench.wrong())
            written = len(bench.host.writes)
            bench.agent.reconcile()
            self.assertEqual(written, len(bench.host.writes), "a host that is as planned was written to")
            self.assertEqual([], bench.host.illegal)
            self._check_bound(bench)
            self._check_places(bench)
        finally:
            bench.close()

    def _check_bound(self, bench):
        """No object is written more often than something happened, and then once more."""
        counts: dict[tuple[str, str, str], int] = {}
        for kind, target, identity, _value in bench.host.writes:
            key = (kind, target, identity)
            counts[key] = counts.get(key, 0) + 1
        self.assertEqual({}, {key: number for key, number in counts.items() if number > bench.changes + 1})

    def _check_places(self, bench):
        """Whatever was written last lies on CPUs that are nobody's own, but for what asked to be there."""
        dedicated = cpulist.parse(simulated.DEDICATED)
        for one in bench.agent.wanted:
            if one.kind != "xps" and one.rule != "passthrough-vcpu":
                self.assertFalse(cpulist.parse(one.value) & dedicated, one)


class RivalTest(testtools.TestCase):
    """Somebody who writes all the time is not fought without end."""

    def setUp(self):
        super().setUp()
        self.bench = Bench()
        self.addCleanup(self.bench.close)
        self.bench.agent.reconcile()
        self.number = min(self.bench.host.vectors)
        self.ours = self.bench.host.vectors[self.number].affinity

    def _contest(self, seconds, excused=False):
        begin = len(self.bench.host.writes)
        for _ in range(seconds):
            self.bench.now += 1.0
            self.bench.host.vectors[self.number].affinity = "0-7"
            self.bench.agent.reconcile(excused=excused)
        return len(self.bench.host.writes) - begin

    def test_an_hour_of_war_costs_few_writes(self):
        self.assertLess(self._contest(3600), 20)

    def test_nor_does_a_storm_of_events_excuse_everything(self):
        self.assertLess(self._contest(3600, excused=True), 60)

    def test_what_is_held_back_is_told_and_not_taken_for_new_drift(self):
        self._contest(30)
        held = self.bench.agent.arbiter.held_back(self.bench.now)
        self.assertEqual([("irq_affinity", f"irq:{self.number}")], list(held))
        self.assertEqual([], self.bench.agent.drifting())

    def test_when_the_rival_leaves_the_value_comes_back(self):
        self._contest(100)
        self.bench.now += 1300.0
        self.bench.agent.reconcile()
        self.assertEqual(self.ours, self.bench.host.vectors[self.number].affinity)

    def test_others_are_repaired_meanwhile(self):
        self._contest(100)
        other = max(self.bench.host.vectors)
        right = self.bench.host.vectors[other].affinity
        self.bench.host.vectors[other].affinity = "0-7"
        self.bench.agent.reconcile()
        self.assertEqual(right, self.bench.host.vectors[other].affinity)


class RestoreTest(testtools.TestCase):
    """After a stop with restore every object that nobody else touched is as it was."""

    def setUp(self):
        super().setUp()
        self.bench = Bench()
        self.addCleanup(self.bench.close)

    def _content(self):
        host = self.bench.host
        found = {number: one.affinity for number, one in host.vectors.items()}
        found |= {tid: cpus for guest in host.guests.values() for tid, (_kind, cpus) in guest.threads.items()}
        return found, {name: list(masks) for name, masks in host.xps.items()}

    def test_all_originals(self):
        host = self.bench.host
        host.start("guest1", {"vhost_placement": "spread", "emulator_placement": "numa"}, 4, True)
        before = self._content()
        self.bench.agent.reconcile()
        self.assertNotEqual(before, self._content())
        self.bench.agent.restore()
        self.assertEqual(before, self._content())

    def test_originals_survive_a_link_that_goes_down_and_up(self):
        before = self._content()
        self.bench.agent.reconcile()
        for up in (False, True):
            self.bench.host.link("eth0", up)
            self.bench.agent.reconcile()
        self.bench.agent.restore()
        self.assertEqual(before, self._content())

    def test_originals_survive_the_agents_death(self):
        before = self._content()
        self.bench.agent.reconcile()
        self.bench.happen(("agent killed",))
        self.bench.host.reset("eth0")
        self.bench.agent.reconcile()
        self.bench.agent.restore()
        self.assertEqual(before, self._content())

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
        threads = [one for one in self.bench.journal.entries() if one.kind == "thread_affinity"]
        self.assertEqual([], threads)
