# SPDX-License-Identifier: Apache-2.0
"""What is measured on a cloud: pairs of hosts, arms, time slots, the plan, what a pair gave."""

import dataclasses
import datetime
import enum
import math
import random
from collections.abc import Iterable, Mapping
from typing import Final

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.results import model
from nova_perf_tuning.validation.results.environment import Environment, RecordedBenchmark

#: Every stack and named resource of a run begins with this, then the run's id and a dash.
NAME_PREFIX: Final = "nova-perf-"
#: Of every slot, in seconds: the runner begins this late and ends this early, since clocks differ
#: a little.
_MARGIN_S: Final = 2.0
#: What a benchmark takes beyond its own run: start under emulation, connection, counters, its
#: server's restart.
_START_S: Final = 5.0
#: Of a run whose options say nothing: blocks of each pair, and the greatest loss of a host against
#: the others.
BLOCKS: Final = 3
MAX_LOSS: Final = 0.15


class ErrorClass(enum.StrEnum):
    """Why a pair gave no (or not all) results; the text is what reports and JSON hold."""

    #: Nova found no place for a guest: host full, disabled, or the traits and CPUs asked for are
    #: not there.
    NO_HOST = "no valid host"
    QUOTA = "quota"
    #: A stack ended in CREATE_FAILED for another reason; the reason is the resource's own.
    STACK_FAILED = "stack failed"
    #: A guest runs and is silent; the reason ends with the tail of its console.
    NO_SIGNAL = "no signal"
    #: A guest's document is rubbish, truncated, too long or there twice.
    BAD_RESULTS = "bad results"
    BENCHMARK_FAILED = "benchmark failed"
    #: The API failed for longer than retries could bridge (500, 503, timeouts), or refused what
    #: every pair needs.
    API = "API failure"
    #: Something that was made for the pair is still there; it says nothing of the pair's results.
    NOT_REMOVED = "not removed"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"


@dataclasses.dataclass(frozen=True, slots=True)
class HostPair:
    """Two compute hosts by their names in Nova, or one twice; the server is the client's peer.

    Benchmarks that need no peer measure both, one after the other. Empty names: the scheduler
    chooses.
    """

    client: str = ""
    server: str = ""

    @property
    def hosts(self) -> frozenset[str]:
        return frozenset((self.client, self.server))


def schedule(hosts: Iterable[str], peers: int, seed: int = 0) -> list[HostPair]:
    """Return the pairs in which every host meets ``min(peers, n - 1)`` different peers.

    Hosts stand in a circle, in an order that the seed sets; each meets those at distance 1, 2 ...
    on both sides, as often as client as as server, and with an odd number of peers the one
    opposite. Two hosts meet twice, once in each role; a host that is alone, or has no peers, is
    its own. Neighbours in the list have no host in common as far as possible, so that several can
    be measured at a time.

    :raises ValueError: no host, or ``peers`` below 0.
    """
    names = sorted(set(hosts))
    count = len(names)
    if not names or peers < 0:
        raise ValueError("a schedule needs at least one host, and no less than no peers")
    if count == 1 or not peers:
        return [HostPair(name, name) for name in names]
    random.Random(seed).shuffle(names)  # noqa: S311  an order that can be repeated, no secret
    wanted = min(peers, count - 1)
    distances = wanted // 2
    if count == 2:
        distances = 1
    pairs = []
    for distance in range(1, distances + 1):
        # Blocks of this length alternate, so that those that begin together end with hosts of
        # others.
        first = [index for index in range(count) if index // distance % 2 == 0]
        second = [index for index in range(count) if index // distance % 2 == 1]
        for index in first + second:
            pairs.append(HostPair(names[index], names[(index + distance) % count]))
    if wanted % 2 and count > 2:
        for index in range((count + 1) // 2):
            one, opposite = names[index], names[(index + count // 2) % count]
            if index % 2:
                pairs.append(HostPair(one, opposite))
            else:
                pairs.append(HostPair(opposite, one))
    return pairs


@dataclasses.dataclass(frozen=True, slots=True)
class Grid:
    """The wall-clock slots of ``length_s`` seconds in which arms take turns, as in heat/runner.sh.

    A block is a slot of each arm; their order is reversed in odd blocks (A B, B A, ...), so that a
    drift falls on all arms alike. Every arm works this out alone from its number and the clock: no
    two measure at the same time.
    """

    arms: int
    length_s: int

    def begin(self, index: int) -> int:
        return index * self.length_s

    def arm(self, index: int) -> int:
        block, position = divmod(index, self.arms)
        if block % 2:
            return self.arms - 1 - position
        return position


def slot_s(jobs: Iterable[plugins.Job]) -> int:
    """Return a slot length that one run of every job fits into, two of those that need no peer."""
    length = _MARGIN_S
    for job in jobs:
        run = float(job.parameters.get("seconds", "0")) + _START_S
        if not job.benchmark.paired:  # each of the two guests runs it alone
            run *= 2
        length += run
    return math.ceil(length)


@dataclasses.dataclass(frozen=True, slots=True)
class FleetArm:
    """One side of a comparison, by its name in the results.

    :ivar flavor: name or id of one that exists; empty: one with :attr:`extra_specs` is made for
        the stack.
    """

    name: str
    flavor: str = ""
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class MeasurePlan:
    """What to run on every pair.

    :ivar run_id: part of the name of everything that is made: at most 32 lower-case letters,
        digits and dashes.
    :ivar trials: how many slots each arm gets, each with all jobs; block N holds the N-th slot of
        every arm.
    :ivar time_limit_s: for one pair, from the first API call to the last result.
    """

    run_id: str
    arms: tuple[FleetArm, ...]
    jobs: tuple[plugins.Job, ...]
    trials: int
    time_limit_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class RunSettings:
    """How a fleet is gone through.

    :ivar peers: different ones of every host; :ivar max_parallel: pairs at a time.
    :ivar retries: further attempts for a pair that gave nothing, for errors that may pass.
    :ivar time_limit_s: no pair is begun that would not end by then; None: no limit.
    """

    peers: int = 2
    seed: int = 0
    max_parallel: int = 4
    retries: int = 1
    time_limit_s: float | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class GuestSettings:
    """How the guests of every pair are made; the parameters of heat/benchmark_pair.yaml.

    :ivar network: that the guests are on; empty: each pair has one of its own.
    :ivar external_network: through which the guests reach Heat; empty: the only one that the cloud
        has.
    :ivar guest_tx_offload: False where the hosts' Open vSwitch runs in user space on tap devices.
    :ivar slot_s: length of a turn; 0: worked out from the benchmarks.
    :ivar boot_s: time, in seconds, that guests get from the first stack until they are ready and
        turns begin.
    :ivar agent_metrics: where agents tell the host CPU of guests, see :func:`.host_cpu.check_url`,
        or empty.
    """

    image: str = "perf-guest"
    network: str = ""
    external_network: str = ""
    vcpus: int = 2
    ram_mib: int = 256
    disk_gib: int = 1
    guest_tx_offload: bool = True
    slot_s: float = 0
    boot_s: float = 60.0
    agent_metrics: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class FleetPlan:
    """Everything that a run needs beside its hosts, so that it can go on later.

    :ivar max_loss: against the other hosts, from which a host is slow.
    :ivar cloud: where the run began, as :func:`.cloud_check.identity` says.
    """

    measure: MeasurePlan
    settings: RunSettings
    guests: GuestSettings
    max_loss: float
    cloud: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class PairError:
    """Why a pair has no results, or not all.

    :ivar reason: one printable line of at most 2000 characters.
    :ivar arm: empty when it concerns the pair. :ivar attempt: at the pair, from 1 on, once it is
        stored.
    """

    kind: ErrorClass
    reason: str
    arm: str = ""
    attempt: int = 0

    def __str__(self) -> str:
        return f"{self.kind}: {self.reason}"


@dataclasses.dataclass(slots=True)
class PairOutcome:
    """What measuring a pair gave; errors are empty when every arm gave all its trials.

    :ivar trials: boot 0, or 1 for what ran on the server alone; ``order`` unique within the pair.
    :ivar hosts: where the guests of each arm really ran: arm -> pair.
    :ivar guests: what each guest saw (queues, clock source, kernel): arm -> role -> facts.
    :ivar host_cpu_source: where ``host_cpu_s`` of the trials comes from, or empty;
        ``host_cpu_faults``: why not.
    :ivar workloads: label of a benchmark -> arm -> as in :class:`.RecordedBenchmark`.
    """

    pair: HostPair
    trials: list[model.Trial] = dataclasses.field(default_factory=list)
    errors: list[PairError] = dataclasses.field(default_factory=list)
    hosts: dict[str, HostPair] = dataclasses.field(default_factory=dict)
    guests: dict[str, Mapping[str, object]] = dataclasses.field(default_factory=dict)
    host_cpu_source: str = ""
    host_cpu_faults: dict[str, str] = dataclasses.field(default_factory=dict)
    workloads: dict[str, dict[str, list[Mapping[str, str]]]] = dataclasses.field(
        default_factory=dict
    )

    def ran(self, label: str, arm: str, workload: Mapping[str, str]) -> None:
        """Note what an output says of the work of a benchmark in an arm."""
        known = RecordedBenchmark(workloads=self.workloads.setdefault(label, {}))
        known.ran(arm, workload)


@dataclasses.dataclass(slots=True)
class Task:
    """A pair of a stored run, see :data:`nova_perf_tuning.validation.store.engine.pairs`."""

    number: int
    pair: HostPair
    state: str = "planned"
    attempts: int = 0
    seconds: float | None = None
    faults: list[PairError] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class StoredRun:
    """A run over many hosts, see :data:`nova_perf_tuning.validation.store.engine.runs`."""

    run_id: str
    state: str
    plan: FleetPlan
    environment: Environment
    hosts: list[str]
    tasks: list[Task]  # by number
    created_at: datetime.datetime
    leftovers: bool = False
