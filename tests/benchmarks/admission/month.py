# SPDX-License-Identifier: Apache-2.0
"""A month of admission in a few minutes: the real passes, store and executor, on a simulated fleet.

The controller is killed at random changes, and now and then a second one comes; the one that died goes on afterwards
as if nothing had been.
"""

import collections
import dataclasses
import datetime
import resource
import time
from collections.abc import Collection, Mapping
from typing import Any
from unittest import mock

from nova_perf_tuning.nova import traits
from nova_perf_tuning.validation.fleet.admission import cloud as clouds
from nova_perf_tuning.validation.fleet.admission import executor, model, policy, service, store
from nova_perf_tuning.validation.store import engine, owner
from tests.benchmarks.admission import events, page
from tests.support import admission_cloud

STEP = 30  # minutes between two passes
BEGIN = datetime.datetime(2026, 11, 1)
LIMIT = 0.08  # loss that the budget allows
BAD = 0.10  # loss that must be found
ROUND_DAYS = 3
_TAKING = (model.Action.OPEN_TRIAL, model.Action.CLOSE)
KEEP = 0.9  # of the hosts that there are at first: they stay in service whatever happens


def month_policy(count: int, *, bounded: bool) -> policy.AdmissionPolicy:
    """Return the defaults but for the length of a round, of which a month must have several.

    :param bounded: hosts whose verdict no longer counts are closed as far as the share allows, and no further.
    """
    keep = int(KEEP * count)
    group = policy.HostGroup("all", keep=keep, close_beyond_share=not bounded)
    triggers = policy.Triggers(renew_after_days=ROUND_DAYS, max_age_days=ROUND_DAYS + 3)
    return policy.AdmissionPolicy([group], triggers=triggers)


@dataclasses.dataclass
class Figures:
    """What a month came to; the goals are in :mod:`tests.benchmarks.admission.__main__`."""

    bad: int = 0
    caught: int = 0
    quarantines: int = 0
    wrong: int = 0
    early: int = 0
    stale: int = 0
    trial_share: float = 0.0
    unproven: int = 0
    kills: int = 0
    takeovers: int = 0
    below_keep: int = 0
    most_out: float = 0.0
    admitted: int = 0
    left: int = 0
    lost: int = 0
    persons: int = 0
    faults: int = 0
    seconds: float = 0.0
    peak_mib: float = 0.0


class SimulatedStore(store.AdmissionStore):
    """A store whose time is that of the simulation; :cvar away: nobody can reach the database."""

    minute = 0.0
    away = False

    def now(self) -> datetime.datetime:
        return BEGIN + datetime.timedelta(minutes=type(self).minute)

    def confirm(self) -> None:
        if type(self).away:
            raise engine.DatabaseError("database: it cannot be reached")
        super().confirm()


class SimulatedValidator:
    """Measures as a judge with noise does: a loss has an interval that more blocks make narrower."""

    def __init__(self, fleet: events.Fleet) -> None:
        self._fleet = fleet
        self._runs: dict[str, tuple[float, clouds.TrialRun]] = {}
        self._judged: dict[str, dict[str, clouds.JudgedHost]] = {}
        self.now = 0.0
        self.trial_minutes = 0.0
        self.said: dict[str, tuple[str, str]] = {}  # host -> its last outcome, and fingerprint

    def begin(self, run: clouds.TrialRun) -> None:
        if run.key in self._runs:
            return
        length = self._fleet.random.uniform(40, 80) * run.attempt
        self._runs[run.key] = self.now + length, run
        self.trial_minutes += length * len(run.hosts)

    def runs(self, keys: Collection[str]) -> Mapping[str, Mapping[str, clouds.JudgedHost] | None]:
        found: dict[str, Mapping[str, clouds.JudgedHost] | None] = {}
        for key in list(self._runs):
            if key not in keys and key in self._judged:
                del self._runs[key], self._judged[key]
        for key in keys:
            if key not in self._runs:
                continue
            due, run = self._runs[key]
            if self.now < due:
                found[key] = None
                continue
            if key not in self._judged:
                self._judged[key] = {host: self._judge(host, run) for host in run.hosts}
            found[key] = self._judged[key]
        return found

    def _judge(self, host: str, run: clouds.TrialRun) -> clouds.JudgedHost:
        chance = self._fleet.random
        word = "INVALID"
        here = self._fleet.cloud.hosts[host]
        is_away = self.now < self._fleet.heat_away_until
        if here.up and here.enabled and not is_away and chance.random() > 0.02:
            half = 0.02 / run.attempt**0.5
            loss = self._fleet.truths[host].loss(self.now) + chance.gauss(0.01, half / 2)
            word = "INCONCLUSIVE"
            if loss + half <= LIMIT:
                word = "PASS"
            elif loss - half > LIMIT:
                word = "FAIL"
            if chance.random() < 0.002:  # a neighbour, a switch, a cable
                word = "FAIL"
        self.said[host] = word, here.fingerprint
        return clouds.JudgedHost(word)


class Month:
    """One run; :ivar columns: hour -> state of each host, for the page."""

    def __init__(self, count: int, seed: int, url: str, *, bounded: bool = False) -> None:
        self._policy = month_policy(count, bounded=bounded)
        self.fleet = events.Fleet(count, seed)
        self.cloud = self.fleet.cloud
        self.validator = SimulatedValidator(self.fleet)
        self.figures = Figures()
        self.columns: list[dict[str, str]] = []
        self._url = url
        self._first = set(self.fleet.names)
        self._changed: collections.deque[str] = collections.deque(maxlen=1)
        self._caught: dict[str, float] = {}
        self._bad: dict[str, float] = {}
        self._living: set[str] = set()
        self.cloud.watch = self._watch
        self._repairs: dict[str, float] = {}

    def run(self) -> Figures:
        """Let the month pass."""
        begun = time.monotonic()
        with mock.patch.object(
            owner.RunOwner, "is_alive", lambda name, _silent: name.token in self._living
        ):
            self._begin()
            for minute in range(STEP, events.MONTH + STEP, STEP):
                self._step(float(minute))
            self._end()
        self.figures.seconds = time.monotonic() - begun
        self.figures.peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return self.figures

    # -- the controller

    def _begin(self) -> None:
        self._store, self._service = self._controller()

    def _controller(self) -> tuple[SimulatedStore, service.AdmissionService]:
        kept = SimulatedStore(self._url)
        kept.take()
        name = kept._name
        assert name is not None
        self._living.add(name.token)
        acting = executor.Executor(
            self.cloud, self.validator, self._check(kept), lambda: 60 * self.validator.now
        )
        made = service.AdmissionService(kept, self.cloud, self.validator, self._policy, acting)
        return kept, made

    def _check(self, kept: SimulatedStore) -> Any:
        """Return a check that asks the database at each tenth change, to save time."""
        count = 0

        def check() -> None:
            nonlocal count
            count += 1
            if count % 10 == 1:
                kept.confirm()

        return check

    def _step(self, now: float) -> None:
        SimulatedStore.minute = self.validator.now = now
        SimulatedStore.away = now < self.fleet.away_until
        self.fleet.happen(now - STEP, now)
        chance = self.fleet.random.random()
        self.cloud.kill_at = None
        if chance < 0.03:
            self.cloud.kill_at = self.cloud.changes + self.fleet.random.randrange(1, 60)
            self.cloud.kill_after = chance < 0.015
        elif chance < 0.04:
            self._second()
        try:
            done = self._service.run()
        except admission_cloud.Killed:
            self._killed()
            return
        except engine.DatabaseError:
            self.figures.faults += 1
            return
        finally:
            self.cloud.kill_at = None
        self._look(done, now)

    def _killed(self) -> None:
        self.figures.kills += 1
        self._living.clear()
        before = self._service
        self._store, self._service = self._controller()
        try:
            before.run()  # it was only asleep
        except store.OwnedError:
            self.figures.takeovers += 1

    def _second(self) -> None:
        other = SimulatedStore(self._url)
        try:
            other.take()
            raise AssertionError("two controllers at once")
        except store.OwnedError:
            self.figures.takeovers += 1
        finally:
            other.close()

    # -- what is looked at

    def _watch(self) -> None:
        """Look behind each change whether a guest could land on the host that was changed."""
        what, about = self.cloud.log[-1]
        del self.cloud.log[:-1]
        host = about[0] if isinstance(about, tuple) else about
        if what in ("join", "leave", "enable", "mirror") and host in self.cloud.hosts:
            self._check_closed(host)

    def _check_closed(self, name: str) -> None:
        """Count a guest that could land where admission alone has opened the door without a verdict."""
        if name in self._first and name not in self._caught or name in self.fleet.person:
            return
        word, fingerprint = self.validator.said.get(name, ("", ""))
        here = self.cloud.hosts[name]
        is_valid = word == "PASS" and fingerprint == here.fingerprint
        if self.cloud.lands(name) and not is_valid:
            self.figures.early += 1

    def _look(self, done: service.PassReport, now: float) -> None:
        records = done.records
        out, size = 0, 0
        for name, host in self.cloud.hosts.items():
            record = records.get(name)
            truth = self.fleet.truths[name]
            self._note_bad(name, truth, now)
            if record is None:
                continue
            self._note_quarantine(name, record, truth, now)
            is_valid = record.is_valid(host.fingerprint, SimulatedStore.now(self._store), 3650)
            if traits.VALIDATED in host.traits and not is_valid:
                if self.cloud.lands(name, {traits.VALIDATED}) and not done.faults:
                    self.figures.stale += 1
            if self.cloud.lands(name) and not is_valid and record.verdict is not None:
                self.figures.unproven += name not in self.fleet.person
            size += record.served
            out += record.served and (record.state == "validating" or not self.cloud.lands(name))
        taken = sum(move.action in _TAKING for move in done.decision.moves)
        if taken and size - out < self._policy.groups[0].keep:
            self.figures.below_keep += 1
        self.figures.most_out = max(self.figures.most_out, out / max(1, size))
        if now % 60 == 0:
            self.columns.append({name: record.state for name, record in records.items()})
        for name in [name for name, due in self._repairs.items() if due <= now]:
            del self._repairs[name]
            self.fleet.repair(name, now)
            self._bad.pop(name, None)

    def _note_bad(self, name: str, truth: events.Truth, now: float) -> None:
        moment = truth.bad_from(BAD)
        is_known = name in self._bad or name in self._caught
        if moment is not None and moment <= now and not is_known:
            self._bad[name] = moment
            if moment + 2 * ROUND_DAYS * events.DAY + 12 * events.HOUR <= events.MONTH:
                self.figures.bad += 1

    def _note_quarantine(self, name: str, record: Any, truth: events.Truth, now: float) -> None:
        if record.state != "quarantined":
            if record.state == "admitted":
                self._caught.pop(name, None)
                self.fleet.person.discard(name)
            return
        if name in self._caught:
            return
        self._caught[name] = now
        self.figures.quarantines += 1
        self._repairs[name] = now + 2 * events.DAY
        self.figures.persons += record.cause == "undecided"
        if truth.loss(now) < 0.05:
            self.figures.wrong += 1
        moment = truth.bad_from(BAD)
        last = events.MONTH - 2 * ROUND_DAYS * events.DAY - 12 * events.HOUR
        if moment is None or moment > last:
            return
        is_counted = name in self._bad
        if not is_counted:  # caught before it was that bad
            self.figures.bad += 1
        if now <= max(moment, 0) + 2 * ROUND_DAYS * events.DAY + 12 * events.HOUR:
            self.figures.caught += 1

    def _end(self) -> None:
        figures = self.figures
        for _ in range(
            2
        ):  # the last pass may have been cut off; what one has ended the next one sweeps
            self._service.run()
        total = len(self.cloud.hosts) * events.MONTH
        figures.trial_share = self.validator.trial_minutes / total
        states = collections.Counter(record.state for record in self._store.records().values())
        figures.admitted = states["admitted"] + states["expired"]
        live = {record.token for record in self._store.records().values() if record.token}
        figures.left = len([trial for trial in self.cloud.aggregates() if trial.token not in live])
        figures.lost = self._lost()
        self._store.close()

    def _lost(self) -> int:
        """Return how many transitions do not follow from the one before, and hosts without their last state."""
        last: dict[str, str] = {}
        lost = 0
        for move in self._store.transitions(most=10_000_000):
            lost += last.get(move.host, "") != move.before
            last[move.host] = move.after
        records = self._store.records()
        for name, host in self.cloud.hosts.items():
            if host.mapped:
                lost += name not in records or records[name].state != last.get(name)
        return lost


def simulate(
    hosts: int, seed: int, url: str, title: str, *, bounded: bool = False
) -> tuple[dict[str, float], str]:
    """Let a month pass; return its figures and its page."""
    simulated = Month(hosts, seed, url, bounded=bounded)
    figures = dataclasses.asdict(simulated.run())
    names = sorted(simulated.cloud.hosts)
    drawn = page.render(simulated.columns, names, simulated.fleet.marks, figures, title)
    return figures, drawn
