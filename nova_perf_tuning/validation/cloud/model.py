"""What is measured on a cloud: pairs of hosts, arms, the plan, what one pair gave. Nothing of OpenStack here."""

from __future__ import annotations

import dataclasses
import datetime
import enum
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from nova_perf_tuning import errors
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import model

#: Every stack and named resource of a run begins with this, then the run's id and a dash.
NAME_PREFIX = "nova-perf-"


class CloudError(errors.PerfTuningError):
    """Nothing can be measured on this cloud, whichever pair: wrong credentials, no image, no Heat, no rights."""


class ErrorClass(enum.StrEnum):
    """Why a pair gave no (or not all) results; the text is what reports and JSON hold."""

    #: Nova found no place for a guest: host full, disabled, or the traits and CPUs asked for are not there.
    NO_HOST = "no valid host"
    #: A project's quota is used up.
    QUOTA = "quota"
    #: A stack ended in CREATE_FAILED for another reason; the reason is the resource's own.
    STACK_FAILED = "stack failed"
    #: A guest runs but never told anything; the reason ends with the tail of its console.
    NO_SIGNAL = "no signal"
    #: What a guest told is rubbish, truncated, too long or told twice.
    BAD_RESULTS = "bad results"
    #: The guest told that a benchmark failed in it.
    BENCHMARK_FAILED = "benchmark failed"
    #: The API failed for longer than retries could bridge (500, 503, timeouts), or refused what every pair needs.
    API = "API failure"
    #: Something that was made for the pair is still there; it says nothing of the pair's results.
    NOT_REMOVED = "not removed"
    #: The pair's time limit passed.
    TIME_LIMIT = "time limit"
    #: Ctrl-C, or :meth:`PairLauncher.interrupt`.
    INTERRUPTED = "interrupted"


@dataclasses.dataclass(frozen=True, slots=True)
class HostPair:
    """Two compute hosts by the name that Nova gives them; the server is the client's peer.

    Benchmarks that need no peer measure both, one after the other.

    Both may be the same. Empty: the scheduler chooses (all that can be had without admin rights).
    """

    client: str = ""
    server: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison.

    :ivar name: ``untuned``, ``tuned`` … as it appears in the results.
    :ivar flavor: name or id of an existing flavor; empty: one is made for the stack.
    :ivar extra_specs: of the flavor that is made; must be empty when :attr:`flavor` is given.
    """

    name: str
    flavor: str = ""
    extra_specs: Mapping[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class MeasurePlan:
    """What to run on every pair.

    :ivar run_id: of the whole validation; part of the name of everything that is made. Lower-case letters,
        digits and dashes, at most 32.
    :ivar jobs: benchmarks with their parameters; each runs once in every slot of an arm.
    :ivar trials: how many slots each arm gets; block N of the results holds the N-th slot of every arm.
    :ivar time_limit_s: for one pair, from the first API call to the last result.
    """

    run_id: str
    jobs: tuple[plugins.Job, ...]
    trials: int
    time_limit_s: float


@dataclasses.dataclass(frozen=True, slots=True)
class PairError:
    """Why a pair has no results, or not all.

    :ivar reason: one line, printable, at most 2000 characters, console tail included where there is one.
    :ivar arm: the arm it concerns; empty when it concerns the pair.
    """

    kind: ErrorClass
    reason: str
    arm: str = ""


@dataclasses.dataclass(slots=True)
class PairOutcome:
    """What :meth:`PairLauncher.measure` returns.

    :ivar trials: as in :class:`model.Trial`; boot 0, or 1 for what ran on the server alone;
        ``order`` unique within the pair. Trials of arms that worked are there even when there are :attr:`errors`.
    :ivar errors: empty when every arm gave all its trials.
    :ivar hosts: where the guests of each arm really ran: arm -> pair.
    :ivar environment: JSON-able facts: image, flavors, what each guest saw (queues, clock source, kernel).
    :ivar host_cpu_source: where ``host_cpu_s`` of the trials comes from, "agent metrics" (all classes, ``total``);
        empty: there is none. ``host_cpu_faults`` of the environment says why a run has none.
    :ivar seconds: what it took: ``create``, ``measure``, ``delete``.
    """

    pair: HostPair
    trials: list[model.Trial] = dataclasses.field(default_factory=list)
    errors: list[PairError] = dataclasses.field(default_factory=list)
    hosts: dict[str, HostPair] = dataclasses.field(default_factory=dict)
    environment: dict[str, Any] = dataclasses.field(default_factory=dict)
    host_cpu_source: str = ""
    seconds: dict[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """What went wrong with a pair in one attempt."""

    attempt: int
    error: PairError


@dataclasses.dataclass(slots=True)
class Task:
    """A pair of a stored run.

    :ivar number: within the run, in the order in which pairs are begun.
    :ivar state: as :data:`nova_perf_tuning.validation.database.tables.pairs` has it.
    :ivar attempts: how often it was begun and not cut off. :ivar seconds: what the last one took.
    """

    number: int
    pair: HostPair
    state: str = "planned"
    attempts: int = 0
    seconds: float | None = None
    faults: list[Fault] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class StoredRun:
    """A run over many hosts as it is in the database.

    :ivar cloud: where it began, as :func:`nova_perf_tuning.validation.cloud.cloud_identity.of` says.
    """

    run_id: str
    state: str
    plan: dict[str, Any]
    environment: dict[str, Any]
    hosts: list[str]
    tasks: list[Task]
    created_at: datetime.datetime
    leftovers: bool = False

    @property
    def cloud(self) -> str:
        return str(self.plan.get("cloud", ""))


class PairLauncher(Protocol):
    """Launches the guests of a pair, measures and removes them. Calls may come from several threads at once."""

    def check(self, arms: Sequence[Arm], plan: MeasurePlan) -> None:
        """See, before any pair, that the cloud has what every pair needs; makes nothing.

        :raises CloudError: no credentials, no image, no network, no Heat, or no rights to choose hosts.
        """

    def expected_s(self, arms: Sequence[Arm], plan: MeasurePlan) -> float:
        """Return about how many seconds a pair takes by its plan, from its first stack to their removal."""

    def measure(self, pair: HostPair, arms: Sequence[Arm], plan: MeasurePlan) -> PairOutcome:
        """Measure all arms on one pair and remove everything that was made for it, whatever happens.

        Failures of this pair are in the outcome; it raises nothing but KeyboardInterrupt, SystemExit and
        :class:`CloudError`.
        """

    def interrupt(self) -> None:
        """Let every running :meth:`measure` end soon, its stacks removed; later ones return at once."""

    def cleanup(self, run_id: str) -> list[str]:
        """Remove what a run left and return the names of the stacks removed.

        :raises CloudError: the cloud cannot be reached, or something could not be removed; names it.
        """
