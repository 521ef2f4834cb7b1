# SPDX-License-Identifier: Apache-2.0
"""What results rest on: the host, its guests, what was run, and what went wrong.

It is the ``environment`` of results. JSON keys are the names of the fields. What is not known has
its default here and no key there; what is only shown is in :attr:`Environment.shown`.
"""

import dataclasses
import datetime
import enum
import functools
import typing
from collections.abc import Mapping
from typing import Any, Final

#: Loss against other hosts from which a host is slow, where results do not say it.
MAX_LOSS: Final = 0.15

#: What outputs say beside the work, and what differs in each run.
MEASURED: Final = frozenset({"seconds", "cycles", "loops", "reads", "writes"})
#: An arm has at most so many workloads: two that differ are judged no more than twenty.
MAX_WORKLOADS: Final = 20

_UNKNOWN: Final[tuple[object, ...]] = (None, "", [], {})


@dataclasses.dataclass(frozen=True, slots=True)
class RecordedFinding:
    """How guests differ from what was asked for.

    :ivar code: of :class:`nova_perf_tuning.guest.probe.GuestFindingCode`.
    """

    code: str
    text: str


@dataclasses.dataclass(slots=True)
class RecordedSetting:
    """A host setting that was in force, and what became of it."""

    kind: str
    target: str
    value: str
    previous: str | None = None
    result: str | None = None
    reason: str = ""


@dataclasses.dataclass(slots=True)
class RecordedArm:
    """What guests of one arm asked for and what they got.

    :ivar request, native_specs_not_applied: extra specs; :ivar reasons: extra spec -> why it has
        its value.
    :ivar notes, note_codes: what guests did not get of the request, and the code of each.
    :ivar virtualization: what a guest says that it runs on; empty: not read.
    :ivar picture: SVG of where everything could run while it was measured; empty: not read.
    :ivar host_state: what the host did in this arm, where arms differ in that; empty: as always.
    :ivar shown: what is only shown.
    """

    request: Mapping[str, str] = dataclasses.field(default_factory=dict)
    reasons: Mapping[str, str] = dataclasses.field(default_factory=dict)
    notes: list[str] = dataclasses.field(default_factory=list)
    note_codes: list[str] = dataclasses.field(default_factory=list)
    native_specs_not_applied: Mapping[str, str] = dataclasses.field(default_factory=dict)
    settings: list[RecordedSetting] = dataclasses.field(default_factory=list)
    findings: list[RecordedFinding] = dataclasses.field(default_factory=list)
    virtualization: str = ""
    xml: str = ""
    picture: str = ""
    host_state: str = ""
    shown: Mapping[str, object] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(slots=True)
class RecordedBenchmark:
    """How a benchmark was run.

    :ivar asked: what outputs must say of the work, as far as they say it: name -> text.
    :ivar workloads: arm -> what its outputs say of the work (pattern, protocol, version of the
        program ...), each different one once.
    """

    kind: str = ""
    summary: str = ""
    parameters: Mapping[str, str] = dataclasses.field(default_factory=dict)
    commands: list[list[str]] = dataclasses.field(default_factory=list)
    asked: Mapping[str, str] = dataclasses.field(default_factory=dict)
    workloads: dict[str, list[Mapping[str, str]]] = dataclasses.field(default_factory=dict)

    def ran(self, arm: str, workload: Mapping[str, str]) -> None:
        """Note what an output of an arm says of the work, without what was measured of it."""
        work: dict[str, str] = {}
        for name, value in workload.items():
            if name not in MEASURED:
                work[name] = value
        known = self.workloads.setdefault(arm, [])
        if work and work not in known and len(known) < MAX_WORKLOADS:
            known.append(work)


class IncidentCode(enum.StrEnum):
    """The time limit cut the blocks of a boot, guests did not boot, a warm-up or a pair failed."""

    TIME_LIMIT = "time_limit"
    BOOT = "boot"
    WARM_UP = "warm_up"
    PAIR = "pair"


class Ended(enum.StrEnum):
    """How a run came to its end."""

    COMPLETE = "complete"
    TIME_LIMIT = "time limit"
    INTERRUPTED = "interrupted"
    ERROR = "error"


@dataclasses.dataclass(slots=True)
class Incident:
    """What went wrong apart from trials.

    :ivar code: an :class:`IncidentCode`; :ivar kind: of a pair's error, in lower case; empty: of
        no pair.
    """

    error: str
    boot: int | None = None
    arm: str = ""
    benchmark: str = ""
    block: int | None = None
    code: str = ""
    kind: str = ""


@dataclasses.dataclass(slots=True)
class AblatedSpec:
    """The extra spec that guests of an arm of an ablation lack."""

    spec: str
    value: str


@dataclasses.dataclass(slots=True)
class NoiseFloor:
    """The noise floor of a host.

    :ivar losses: benchmark -> metric -> smallest loss that its noise does not explain.
    """

    created: str
    losses: dict[str, dict[str, float]]


@dataclasses.dataclass(slots=True)
class HostDetail:
    """A reason of a verdict on a host, as codes."""

    verdict: str | None
    codes: list[str]
    benchmark: str
    figure: str


@dataclasses.dataclass(slots=True)
class FleetHost:
    """The verdict on one host; :ivar reasons: in English, :ivar details: the same as codes."""

    host: str
    verdict: str | None
    reasons: list[str]
    peers: int
    measured: int
    details: list[HostDetail] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class PairFigure:
    """The median of a pair; :ivar against_median: its share of that of the median host."""

    benchmark: str
    arm: str
    unit: str
    median: float
    host: str = ""
    against_median: float | None = None


@dataclasses.dataclass(slots=True)
class FleetPair:
    """A pair of hosts that were measured with each other."""

    number: int
    client: str
    server: str
    state: str
    attempts: int
    seconds: float | None
    errors: list[str]
    figures: list[PairFigure]
    error_codes: list[str] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(slots=True)
class Fleet:
    """A run over many hosts."""

    run: str = ""
    verdict: str | None = None
    hosts: list[FleetHost] = dataclasses.field(default_factory=list)
    pairs: list[FleetPair] = dataclasses.field(default_factory=list)
    max_loss: float = MAX_LOSS


@dataclasses.dataclass(slots=True)
class Environment:
    """What results rest on.

    :ivar accelerator: what guests ran on: ``kvm``, ``tcg`` …; None: not known.
    :ivar tags: what the operator calls the run, for filters.
    :ivar vhost_mode: ``task`` or ``kthread``: whether the CPU of vhost workers is QEMU's.
    :ivar memory_encryption: of guests, such as ``amd-sev``: budgets of plain guests are not for
        them.
    :ivar boots, blocks: as planned; :ivar boots_run: those that gave a trial; :ivar looks: at each
        interim look.
    :ivar host_cpu_faults: where host CPU is not known from, and why; how many more there are.
    :ivar trials_left_out: figures that are not judged, and courses, for which results would be too
        large.
    :ivar ended: ``complete`` or why it ended before; empty: not known.
    :ivar ablation: arm -> what it lacks; :ivar fleet: of a run over many hosts.
    :ivar unpaired: trials are of outputs that nothing pairs, so that arms are compared as samples.
    """

    created: str = ""
    host: str = ""
    cpu_model: str = ""
    cpus: int | None = None
    memory_mib: int | None = None
    kernel: str = ""
    load_at_start: float | None = None
    python: str = ""
    nova_perf_tuning: str = ""
    host_group: str = ""
    flavor: str = ""
    tags: Mapping[str, str] = dataclasses.field(default_factory=dict)
    seed: int | None = None
    boots: int | None = None
    blocks: int | None = None
    time_limit_s: float | None = None
    launcher: str = ""
    accelerator: str | None = None
    libvirt: str = ""
    qemu: str = ""
    guest: Mapping[str, int | str] = dataclasses.field(default_factory=dict)
    vhost_net: bool | None = None
    vhost_mode: str = ""
    memory_encryption: str = ""
    scratch_filesystem: str = ""
    ended: str = ""
    boots_run: int | None = None
    elapsed_s: float | None = None
    looks: list[int] = dataclasses.field(default_factory=list)
    noise_floor: NoiseFloor | None = None
    host_cpu_source: str = ""
    host_cpu_faults: Mapping[str, str] = dataclasses.field(default_factory=dict)
    host_cpu_faults_left_out: int | None = None
    trials_left_out: int | None = None
    courses_left_out: int | None = None
    arms: dict[str, RecordedArm] = dataclasses.field(default_factory=dict)
    ablation: Mapping[str, AblatedSpec] = dataclasses.field(default_factory=dict)
    benchmarks: Mapping[str, RecordedBenchmark] = dataclasses.field(default_factory=dict)
    errors: list[Incident] = dataclasses.field(default_factory=list)
    fleet: Fleet | None = None
    unpaired: bool | None = None
    shown: Mapping[str, object] = dataclasses.field(default_factory=dict)

    @property
    def places(self) -> dict[str, str]:
        """Return what budgets are chosen by."""
        places = {"host_group": self.host_group, "flavor": self.flavor}
        if self.memory_encryption:
            places["memory_encryption"] = self.memory_encryption
        return places

    def placed(self, host_group: str | None, flavor: str | None) -> "Environment":
        """Return it with what an operator says of the host, if anything."""
        return dataclasses.replace(
            self,
            host_group=host_group or self.host_group,
            flavor=flavor or self.flavor,
        )

    @property
    def stopped(self) -> bool:
        """Return whether the run ended before its plan and its time limit let it end.

        Whoever stops a run may have seen its figures, so that they do not keep the error
        probability of a verdict. Results that do not say how the run ended are not stopped.
        """
        return self.ended not in ("", Ended.COMPLETE, Ended.TIME_LIMIT)

    @property
    def began(self) -> datetime.datetime:
        """Return when the run began, in UTC without a zone as the database has it.

        It is the epoch if that is not known.
        """
        try:
            at = datetime.datetime.fromisoformat(self.created)
            if at.tzinfo is None:
                return at
            return at.astimezone(datetime.UTC).replace(tzinfo=None)
        except (ValueError, OverflowError):
            return datetime.datetime(1970, 1, 1)

    def updated(self, other: "Environment") -> "Environment":
        """Return it with all that the other one knows in place of its own."""
        known: dict[str, Any] = {}
        for name in _types(Environment):
            value = getattr(other, name)
            if value not in _UNKNOWN:
                known[name] = value
        shown = {**self.shown, **other.shown}
        return dataclasses.replace(self, **known, shown=shown)

    def to_dict(self) -> dict[str, Any]:
        """Return it as the JSON contract has it."""
        whole = _plain(self)
        if self.looks:
            whole["looks"] = [{"boots": boots} for boots in self.looks]
        whole["arms"] = {}
        for name, arm in self.arms.items():
            # The request has its key even where nothing was asked for.
            whole["arms"][name] = {"request": dict(arm.request)} | _plain(arm)
        whole["benchmarks"] = {}
        for label, run in self.benchmarks.items():
            whole["benchmarks"][label] = _plain(run)
        whole["errors"] = [_plain(incident) for incident in self.errors]
        return whole

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Environment":
        """Return an environment from the JSON contract, as its schema has it."""
        environment: Environment = _build(cls, data)
        environment.looks = [look["boots"] for look in data.get("looks", ())]
        return environment


@functools.cache
def _types(kind: object) -> Mapping[str, Any]:
    """Return the fields of a dataclass that have keys of their own, with their types."""
    return {name: hint for name, hint in typing.get_type_hints(kind).items() if name != "shown"}


def _build(kind: Any, data: Mapping[str, Any]) -> Any:
    """Return a dataclass, and all that are in it; what it has no field for is only shown."""
    types = _types(kind)
    values: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    for name, value in data.items():
        if name in types:
            values[name] = _value(types[name], value)
        else:
            shown[name] = value
    if kind in (Environment, RecordedArm):
        values["shown"] = shown
    return kind(**values)


def _value(hint: Any, value: Any) -> Any:
    """Return a value of the JSON contract as the type of its field."""
    if dataclasses.is_dataclass(hint):
        return _build(hint, value)
    parts = typing.get_args(hint)
    optional = type(None) in parts
    if isinstance(value, list):
        return [_value(parts[0], item) for item in value]
    if isinstance(value, Mapping) and len(parts) == 2 and parts[1] is not type(None):
        return {key: _value(parts[1], item) for key, item in value.items()}
    if optional and value is not None:
        return _value(parts[0], value)
    return value


def _plain(data: Any) -> dict[str, Any]:
    """Return a dataclass as JSON: what is known, and what is only shown as further keys."""
    whole = dataclasses.asdict(data)
    shown: dict[str, Any] = whole.pop("shown", {})
    known: dict[str, Any] = {}
    for name, value in whole.items():
        if value not in _UNKNOWN:
            known[name] = value
    return known | shown
