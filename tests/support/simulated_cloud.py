# SPDX-License-Identifier: Apache-2.0
"""A cloud that measures nothing: hosts, delays, faults and quota as a real one has them, in virtual or real time.

It takes the place of Heat behind the same interface, so that the controller (fleet run, pairing, database) is the
real one. In virtual time the clock jumps to the next event whenever every thread waits for it: hours of a fleet
pass in seconds, and what the controller itself computes takes no virtual time.
"""

import collections
import dataclasses
import heapq
import itertools
import os
import pathlib
import random
import threading
import time

import fixtures

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.fleet import fleet_run
from nova_perf_tuning.validation.heat import stacks
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import model as results


def fleet_plan(run_id, kinds, trials=2, **settings):
    """Return the plan of a run; ``settings`` as :class:`model.RunSettings` has them."""
    arms = (
        fleet_model.FleetArm("untuned"),
        fleet_model.FleetArm("tuned", extra_specs={"perf:profile": "balanced"}),
    )
    measure = fleet_model.MeasurePlan(
        run_id, arms, tuple(plugins.jobs(kinds)), trials, time_limit_s=900.0
    )
    return fleet_model.FleetPlan(
        measure, fleet_model.RunSettings(**settings), fleet_model.GuestSettings(), 0.15, "here"
    )


class VirtualWorkers(fleet_run.Workers):
    """Real threads on a clock that moves only when all of them, the controller included, wait for it."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._now = 0.0
        self._awake = 1  # the controller
        self._waiting = False
        self._messages: collections.deque[tuple[int, fleet_run.Outcome] | None] = (
            collections.deque()
        )
        self._alarms: list[tuple[float, int, threading.Event | None]] = []
        self._numbers = itertools.count()
        self._timer = -1

    def now(self):
        return self._now

    def start(self, number, job):
        with self._lock:
            self._awake += 1
        super().start(number, job)

    def wait(self, limit_s):
        with self._lock:
            if not self._messages:
                self._timer = self._set_alarm(limit_s, None)
                self._waiting = True
                self._asleep()
                while self._waiting:
                    self._lock.wait(
                        0.1
                    )  # a signal may have come just before: its handler woke nobody
            return self._messages.popleft() if self._messages else None

    def wake(self):
        with self._lock:
            self._post(None)

    def sleep(self, seconds):
        event = threading.Event()
        with self._lock:
            self._set_alarm(seconds, event)
            self._asleep()
        event.wait()

    def wake_sleepers(self):
        """End every :meth:`sleep` now."""
        with self._lock:
            for alarm in [alarm for alarm in self._alarms if alarm[2] is not None]:
                self._alarms.remove(alarm)
                self._awake += 1
                alarm[2].set()
            heapq.heapify(self._alarms)

    def _hand_over(self, number, outcome):
        with self._lock:
            self._post((number, outcome))
            self._asleep()  # for good

    def _post(self, message):
        self._messages.append(message)
        self._wake_controller()

    def _wake_controller(self):
        if self._waiting:
            self._waiting = False
            self._awake += 1
            self._lock.notify_all()

    def _set_alarm(self, seconds, event):
        number = next(self._numbers)
        heapq.heappush(self._alarms, (self._now + seconds, number, event))
        return number

    def _asleep(self):
        self._awake -= 1
        while not self._awake and self._alarms:
            at, number, event = heapq.heappop(self._alarms)
            if event is None and (number != self._timer or not self._waiting):
                continue  # the controller has long been woken by something else
            self._now = at
            if event is None:
                self._wake_controller()
            else:
                self._awake += 1
                event.set()


class RealTime:
    """Sleeps as long as a scale makes of seconds, and no longer than until an interrupt."""

    def __init__(self, scale=1.0):
        self._scale = scale
        self._interrupted = threading.Event()

    def sleep(self, seconds):
        self._interrupted.wait(seconds * self._scale)

    def wake_sleepers(self):
        self._interrupted.set()


@dataclasses.dataclass
class Cloud:
    """What a simulated cloud is like.

    :ivar faults: share of attempts that fail. :ivar bad: host -> share of its throughput that is left.
    :ivar dead: hosts on which no guest ever answers.
    :ivar quota: pairs at a time that the project may have; None: as many as one likes.
    :ivar directory: a file per stack is kept there, which outlives the process; None: in memory.
    """

    faults: float = 0.0
    bad: dict[str, float] = dataclasses.field(default_factory=dict)
    dead: set[str] = dataclasses.field(default_factory=set)
    quota: int | None = None
    directory: str | None = None
    seed: int = 0
    noise: float = 0.01


_FAULTS = (
    fleet_model.ErrorClass.NO_SIGNAL,
    fleet_model.ErrorClass.STACK_FAILED,
    fleet_model.ErrorClass.API,
    fleet_model.ErrorClass.BAD_RESULTS,
    fleet_model.ErrorClass.NO_HOST,
)


class SimulatedLauncher:
    """A :class:`nova_perf_tuning.validation.heat.heat_pair.HeatPairLauncher` on a simulated cloud.

    :ivar log: (what, pair, attempt) in the order of time. :ivar overlaps: pairs that shared a host.
    :ivar most: pairs at a time, at most.
    """

    def __init__(self, cloud: Cloud, clock):
        self.cloud = cloud
        self.log: list[tuple[str, fleet_model.HostPair, int]] = []
        self.overlaps: list[fleet_model.HostPair] = []
        self.most = 0
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.attempts: collections.Counter[fleet_model.HostPair] = collections.Counter()
        self._at_work: list[fleet_model.HostPair] = []
        self._stacks: set[str] = set()
        self._lease = None

    # -- the interface

    def own(self, lease):
        self._lease = lease

    def check(self, plan):
        pass

    def expected_s(self, plan):
        return 45.0 + 100.0 + 15.0

    def measure(self, pair, plan):
        with self._lock:
            self.attempts[pair] += 1
            attempt = self.attempts[pair]
            self.log.append(("begin", pair, attempt))
            over = self.cloud.quota is not None and len(self._at_work) >= self.cloud.quota
            self._at_work.append(pair)
            names = collections.Counter(
                name for other in self._at_work for name in {other.client, other.server}
            )
            if any(names[name] > 1 for name in (pair.client, pair.server)):
                self.overlaps.append(pair)
            self.most = max(self.most, len(self._at_work))
        stack = f"{fleet_model.NAME_PREFIX}{plan.run_id}-{pair.client}-{pair.server}"
        try:
            self._check()
            self.make(stack)
            try:
                return self.measured(pair, attempt, plan, over)
            finally:
                self._check()
                self._remove(stack)
        finally:
            with self._lock:
                self._at_work.remove(pair)
                self.log.append(("end", pair, attempt))

    def interrupt(self):
        self._stop.set()
        self._clock.wake_sleepers()

    def cleanup(self, run_id=""):
        self._check()
        names = [
            name for name in self.stacks() if name.startswith(f"{fleet_model.NAME_PREFIX}{run_id}")
        ]
        for name in names:
            self._remove(name)
        return names

    def stacks(self):
        """Return the names of all stacks there are."""
        return sorted(os.listdir(self.cloud.directory) if self.cloud.directory else self._stacks)

    # -- below

    def measured(self, pair, attempt, plan, over):
        rng = random.Random(f"{self.cloud.seed}:{pair}:{attempt}")
        outcome = fleet_model.PairOutcome(pair)

        def spend(low, high):
            self._clock.sleep(rng.uniform(low, high) * (5.0 if rng.random() < 0.01 else 1.0))

        def fail(kind, reason):
            outcome.trials.clear()
            outcome.errors.append(fleet_model.PairError(kind, reason))
            return outcome

        if over:
            return fail(
                fleet_model.ErrorClass.QUOTA,
                "Quota exceeded for cores: Requested 2, but already used all",
            )
        spend(30, 60)
        if self._stop.is_set():
            return fail(fleet_model.ErrorClass.INTERRUPTED, "interrupted")
        if {pair.client, pair.server} & self.cloud.dead:
            self._clock.sleep(plan.time_limit_s)
            return fail(
                fleet_model.ErrorClass.NO_SIGNAL,
                "client: no signal; console: Kernel panic - not syncing",
            )
        if rng.random() < self.cloud.faults:
            spend(5, 15)
            return fail(rng.choice(_FAULTS), "simulated fault")
        spend(80, 120)
        if self._stop.is_set():
            return fail(fleet_model.ErrorClass.INTERRUPTED, "interrupted")
        outcome.trials.extend(self.trials(pair, plan, rng))
        outcome.hosts = {arm.name: pair for arm in plan.arms}
        outcome.guests = {arm.name: {"client": {"kernel": "6.1"}} for arm in plan.arms}
        outcome.host_cpu_source = "simulated"
        spend(10, 20)
        return outcome

    def trials(self, pair, plan, rng):
        order = itertools.count()
        for block, arm, job in itertools.product(range(plan.trials), plan.arms, plan.jobs):
            ran_on = [(pair.client, pair.server)]
            if not job.benchmark.paired:
                ran_on = [(pair.client,), (pair.server,)]
            for boot, hosts in enumerate(ran_on):
                gain = 1.1 if arm.name == "tuned" else 1.0
                share = min(self.cloud.bad.get(name, 1.0) for name in hosts)
                metric, unit, better = job.benchmark.primary
                common = {"benchmark": job.label, "arm": arm.name, "boot": boot, "block": block}
                cpu = {
                    "host_cpu_s": {"vcpu": 4.0},
                    "guest_cpu_s": 3.5,
                    "window_s": 5.0,
                    "order": next(order),
                }
                value = 1000.0 * gain * share * rng.lognormvariate(0, self.cloud.noise)
                yield results.Trial(
                    metric=metric, unit=unit, better=better, value=value, **common, **cpu
                )
                yield results.Trial(
                    metric="beside",
                    unit="1",
                    better="lower",
                    value=1.0,
                    primary=False,
                    **common,
                    **cpu,
                )

    def _check(self):
        """See whether the run is still that of the controller, as before calls to Heat that change something."""
        if self._lease is not None:
            self._lease.check(True)

    def make(self, stack):
        if self.cloud.directory:
            pathlib.Path(self.cloud.directory, stack).touch()
        else:
            self._stacks.add(stack)

    def _remove(self, stack):
        if self.cloud.directory:
            pathlib.Path(self.cloud.directory, stack).unlink(missing_ok=True)
        else:
            self._stacks.discard(stack)


class RemovalClock(fixtures.Fixture):
    """The clock by which stacks are removed: only their pauses take time, not the machine."""

    def _setUp(self):
        self.now = time.monotonic()
        self.useFixture(fixtures.MockPatchObject(stacks, "time", self))

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds
