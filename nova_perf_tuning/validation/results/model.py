# SPDX-License-Identifier: Apache-2.0
"""Measured data: trials and the environment they came from (JSON contract ``results``)."""

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypedDict

from nova_perf_tuning.validation.results.environment import Environment

#: Version of the JSON contract.
SCHEMA: Final = 2
#: The arm that is the host itself.
HOST: Final = "host"
#: Arms of an A/A run: the first, and the same again.
AA_ARMS: Final = ("untuned", "again")


class TrialFailure(enum.StrEnum):
    """Why a trial has no figure; results of others may have none of these."""

    #: The benchmark's server could not be started.
    SERVER = "server"
    #: The program was stopped, ended with an error, or its output could not be read.
    OUTPUT = "output"
    #: A machine was lost.
    MACHINE = "machine"
    #: A machine had been lost before.
    NOT_RUN = "not_run"
    NO_FIGURE = "no_figure"


#: A course has at most so many steps, and the busiest so many CPUs.
MAX_STEPS: Final = 120
MAX_CPUS: Final = 64


class Course(TypedDict):
    """What went on during a window, step by step; None where it is not known.

    :ivar step_s: length of each step, 1 s but for long windows.
    :ivar host_cpu: class of ``host_cpu_s`` -> CPUs busy; ``wait``: vCPUs that waited for one.
    :ivar moved: bytes per second: ``net`` that machines sent, ``disk`` that they read and wrote.
    :ivar busy: host CPU -> per cent that it was busy with whatever; :ivar hidden: how many less
        busy are left out.
    """

    step_s: float
    host_cpu: dict[str, list[float | None]]
    moved: dict[str, list[float | None]]
    busy: dict[str, list[int | None]]
    hidden: int


Better = Literal["higher", "lower"]


@dataclasses.dataclass(frozen=True, slots=True)
class Reading:
    """One figure out of one run; :ivar primary: it is judged, the others are shown beside it."""

    metric: str
    unit: str
    better: Better
    value: float
    primary: bool = False


@dataclasses.dataclass(slots=True)
class Trial:
    """One run of one benchmark in one arm, with the CPU it cost while it measured.

    :ivar arm: ``host``, ``untuned``, ``tuned`` … the name of what is compared.
    :ivar boot: every boot makes the guests anew; :ivar block: of trials that belong together.
    :ivar host_cpu_s: class -> CPU seconds on the host: ``vcpu``, ``emulator``, ``iothread``,
        ``vhost``, ``worker``, ``total`` (whole process and its vhost workers); beside them
        ``softirq``, interrupts and softirqs of the host's CPUs, less what an idle host has.
    :ivar guest_cpu_s: what the guest itself says it was busy (user+nice+system+irq+softirq); None
        if unknown.
    :ivar wait_s: time its vCPUs were runnable but waited for a host CPU; None if unknown.
    :ivar window_s: length of the window by the host's monotonic clock.
    :ivar window: of :class:`nova_perf_tuning.validation.measure.trial.Window`; empty: not known.
    :ivar exec_s: how long the whole execution took, from asking for it until its end was seen;
        None: not known.
    :ivar order: of the run within the validation, by time; the figures of one run share it, and
        its CPU times.
    :ivar primary: False for figures that are shown beside the one that is judged.
    :ivar error: why there is no value; then ``value`` is None. :ivar failure: a
        :class:`TrialFailure`.
    :ivar work: units of work (``Gbit``, ``1,000 IO`` …) done in the window; None if not counted.
    :ivar collectors: tools that watched it, see
        :mod:`nova_perf_tuning.validation.measure.collectors`.
    :ivar course: of a run's judged figure, None if unknown.
    :ivar conditions: what :mod:`.host_environment` could tell of the window's circumstances.

    CPU times cover the client and, for a benchmark with a peer, the server too.
    """

    benchmark: str
    metric: str
    unit: str
    better: Literal["higher", "lower"]
    arm: str
    boot: int
    block: int
    value: float | None
    host_cpu_s: Mapping[str, float]
    guest_cpu_s: float | None
    window_s: float
    wait_s: float | None = None
    order: int = 0
    primary: bool = True
    error: str | None = None
    failure: str = ""
    work: float | None = None
    work_unit: str = ""
    conditions: Mapping[str, float] = dataclasses.field(default_factory=dict)
    window: Literal["", "measuring", "program", "execution"] = ""
    exec_s: float | None = None
    collectors: list[str] = dataclasses.field(default_factory=list)
    course: Course | None = None


def figures(run: Trial, readings: Sequence[Reading], work_metric: str | None) -> list[Trial]:
    """Return a trial for each figure of a run, or the run itself, which is one without a figure.

    :param work_metric: the reading that is no figure but counts the work of all of them.
    """
    work = next((reading for reading in readings if reading.metric == work_metric), None)
    if work is not None:
        run = dataclasses.replace(run, work=work.value, work_unit=work.unit)
    trials = []
    for reading in readings:
        if reading is not work:
            fields = dataclasses.asdict(reading)
            trials.append(dataclasses.replace(run, **fields, error=None, failure=""))
    return trials or [run]


@dataclasses.dataclass(slots=True)
class Results:
    """All trials of one validation and where they were made."""

    environment: Environment
    trials: list[Trial]


def is_aa(environment: Environment) -> bool:
    """Return whether all arms of guests are the same: differences between them are noise."""
    return environment.launcher == "host" or set(environment.arms) == set(AA_ARMS)
