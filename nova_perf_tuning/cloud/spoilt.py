"""Which trials of a fleet count, and which host is to blame where they do not.

A *cell* is what one boot of a pair gave of one benchmark in one arm. A trial in it is lost when it failed, is
missing, or a guard rejects it by the limits of the budget file. More than 20 % lost, and the cell is *spoilt*:
what is left of it is a selection, and no comparison with other hosts takes it. In a cell the guests of both hosts
work together, and what was recorded of it seldom tells which of them was sick. As with figures, the pattern over
pairs tells (:mod:`nova_perf_tuning.cloud.attribution`), for each benchmark and arm on its own:

1. A host is *sick* when two thirds of its cells or more are spoilt, and more than 20 % of all its trials are lost.
2. A sick host with a spoilt cell whose peer is not sick is *to blame*: the peer does better with others. So is a
   sick host in what it runs without a peer.
3. Of a host that is not to blame the cells that are spoilt and have a peer that is are left out, and with them
   their benchmark in that pair. With nothing left it cannot be judged by this run: INCONCLUSIVE.
4. A host of whose other trials more than 20 % are lost is INVALID. Where it is not sick, pairs in which the arm
   gave nothing at all are no part of them: pairs that failed as a whole are not either.

Where all hosts are sick nobody is to blame, and all are INVALID.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.budget import fleet_diagnosis, guards, reasons, text, trial_filter
from nova_perf_tuning.budget import model as results
from nova_perf_tuning.cloud import model

#: A benchmark of a boot, by the number of the boot.
Part = tuple[str, int]

#: Share of a host's cells from which on they are the rule with it.
_SICK: Final = 2 / 3
#: So many peers are named.
_NAMED: Final = 5
#: What marks results as those of many hosts.
_MANY: Final[Mapping[str, Any]] = {"fleet": {}}


@dataclasses.dataclass(frozen=True, slots=True)
class Examined:
    """What was found.

    :ivar counting: the trials that count in the comparison of hosts, with their pairs.
    :ivar invalid, undecided: host -> why it cannot be judged; :ivar remarks: host -> what was left out.
    :ivar told: host -> benchmarks that ``invalid`` is about.
    :ivar left_out: host -> what its peers have spoilt, which is not held against it.
    """

    counting: Sequence[tuple[model.HostPair, results.Trial]]
    invalid: Mapping[str, Sequence[str]]
    undecided: Mapping[str, Sequence[str]]
    remarks: Mapping[str, Sequence[str]]
    told: Mapping[str, set[str]]
    left_out: Mapping[str, set[Part]]


@dataclasses.dataclass(frozen=True, slots=True)
class _Cell:
    """See the module.

    :ivar hosts: that it is of, one or two. :ivar whole: all trials that there ought to be.
    :ivar failed, missing: of them; :ivar faults: why others do not count, one for each.
    """

    benchmark: str
    arm: str
    group: int
    hosts: frozenset[str]
    whole: int
    failed: int
    missing: int
    faults: Sequence[reasons.Reason]

    @property
    def lost(self) -> int:
        return self.failed + self.missing + len(self.faults)

    @property
    def empty(self) -> bool:
        """Whether it gave nothing, as pairs that failed as a whole do: that is only told of who is sick."""
        return self.missing == self.whole

    @property
    def spoilt(self) -> bool:
        return self.lost > trial_filter.MAX_LOST * self.whole


def examine(
    measured: Iterable[tuple[model.HostPair, results.Trial]],
    paired: Mapping[str, bool],
    environment: Mapping[str, Any],
    limits: guards.Limits,
) -> Examined:
    """Return which trials of a run count and what the others say of its hosts.

    :param measured: trials with their pairs, the host that they ran on as the client; a boot has a group.
    :param paired: benchmark -> whether its server takes part; one that is missing is taken for paired.
    """
    pairs: dict[int, model.HostPair] = {}
    trials = []
    for pair, one in measured:
        if one.primary:
            pairs[one.group] = pair
            trials.append(one)
    trials = numbered(trials)
    many = {**environment, **_MANY}
    rejected = trial_filter.alone(results.Results(many, trials), limits)
    cells = list(_cells(trials, pairs, paired, rejected))
    spoilt = {(one.benchmark, one.group, one.arm) for one in cells if one.spoilt}
    counting = [
        (pairs[one.group], one)
        for one in trials
        if (one.benchmark, one.group, one.arm) not in spoilt and guards.run(one) not in rejected
    ]
    return _Judge(cells).found(counting)


def numbered(trials: Iterable[results.Trial]) -> list[results.Trial]:
    """Return trials numbered through: every pair numbers its runs from the same number on, and guards go by it."""
    runs: dict[tuple[int, int], int] = {}
    return [
        dataclasses.replace(one, order=runs.setdefault((one.group, one.order), len(runs)))
        for one in sorted(trials, key=lambda one: (one.group, one.order))
    ]


def _cells(
    trials: Sequence[results.Trial],
    pairs: Mapping[int, model.HostPair],
    paired: Mapping[str, bool],
    rejected: Mapping[guards.Run, reasons.Reason],
) -> Iterator[_Cell]:
    parts: dict[Part, list[results.Trial]] = {}
    arms: dict[str, dict[str, None]] = {}
    for one in trials:
        parts.setdefault((one.benchmark, one.group), []).append(one)
        arms.setdefault(one.benchmark, {})[one.arm] = None
    for (benchmark, group), some in parts.items():
        pair = pairs[group]
        hosts = frozenset((pair.client, pair.server) if paired.get(benchmark, True) else (pair.client,))
        for arm in arms[benchmark]:
            mine = [one for one in some if one.arm == arm]
            missing = trial_filter.missing(some, _MANY, arm)
            failed = sum(one.value is None for one in mine)
            runs = [guards.run(one) for one in mine if one.value is not None]
            faults = [rejected[run] for run in runs if run in rejected]
            if mine or missing:
                yield _Cell(benchmark, arm, group, hosts, len(mine) + missing, failed, missing, faults)


@dataclasses.dataclass(frozen=True, slots=True)
class _Lost:
    """Cells of one host in one benchmark and arm of whose trials too many are lost.

    :ivar blamed: its peers do better with others.
    """

    cells: Sequence[_Cell]
    blamed: bool

    @property
    def count(self) -> str:
        return f"{sum(one.lost for one in self.cells)} of {sum(one.whole for one in self.cells)}"


def _told(lost: Sequence[_Lost]) -> str:
    """Return in words what is lost of the arms of a host, the worst first, as budgets say it."""
    ordered = sorted(lost, key=lambda one: -_share(one.cells))
    cells = [cell for one in ordered for cell in one.cells]
    failed, missing = (any(getattr(one, name) for one in cells) for name in ("failed", "missing"))
    faults = [fault for one in cells for fault in one.faults]
    what = ["failed"] * (failed or missing) + ["are missing"] * missing + ["do not count"] * bool(faults)
    arms = [f"'{one.cells[0].arm}'" for one in ordered]
    head = f"{ordered[0].count} trials of {arms[0]}"
    head += "".join(f" and {one.count} of {arm}" for one, arm in zip(ordered[1:], arms[1:], strict=True))
    why = f": {text.of(faults[0])}" if faults else ""
    return f"{head} {' or '.join(what)} (limit {trial_filter.MAX_LOST:.0%}){why}"


class _Judge:
    """Finds who is to blame, figure by figure, and says it."""

    def __init__(self, cells: Iterable[_Cell]) -> None:
        self._figures: dict[tuple[str, str], dict[str, list[_Cell]]] = {}
        for one in cells:
            of = self._figures.setdefault((one.benchmark, one.arm), {})
            for host in sorted(one.hosts):
                of.setdefault(host, []).append(one)
        #: (host, benchmark) -> what is lost of its arms, and which of them it is to blame for
        self._lost: dict[tuple[str, str], list[_Lost]] = {}
        #: (host, benchmark) -> peers that have spoilt some of it, and whether nothing is left of an arm
        self._peers: dict[tuple[str, str], set[str]] = {}
        self._bare: set[tuple[str, str]] = set()
        self._left_out: dict[str, set[Part]] = collections.defaultdict(set)

    def found(self, counting: Sequence[tuple[model.HostPair, results.Trial]]) -> Examined:
        """Return what is said of the hosts."""
        for of in self._figures.values():
            sick = _sick(of)
            blamed = {
                host for host in sick if any(one.spoilt and not (one.hosts - {host}) & sick for one in of[host])
            }
            for host, cells in of.items():
                self._look(host, cells, sick, blamed)
        invalid, undecided, remarks = (collections.defaultdict[str, list[str]](list) for _ in range(3))
        told: dict[str, set[str]] = collections.defaultdict(set)
        for (host, benchmark), lost in self._lost.items():
            own = f"; {fleet_diagnosis.OWN_FAULT}" if any(one.blamed for one in lost) else ""
            invalid[host].append(f"{benchmark}: {_told(lost)}{own}")
            told[host].add(benchmark)
        for key, peers in self._peers.items():
            host, benchmark = key
            names = listed(peers)
            first = min(peers)
            why = f"of {first or 'any'} {_told(self._lost[first, benchmark])}"
            if key in self._bare:
                more = "measure it with others (--peers)"
                undecided[host].append(f"{benchmark}: only measured with {names}: {why}; {more}")
            else:
                remarks[host].append(f"{benchmark}: left out what {names} spoilt: {why}")
        return Examined(counting, invalid, undecided, remarks, told, self._left_out)

    def _look(self, host: str, cells: Sequence[_Cell], sick: set[str], blamed: set[str]) -> None:
        """Note what one benchmark in one arm says of a host."""
        key = host, cells[0].benchmark
        mine = list(cells)
        if host not in blamed:
            theirs = [one for one in cells if one.spoilt and one.hosts & blamed]
            for one in theirs:
                self._left_out[host].add((one.benchmark, one.group))
                self._peers.setdefault(key, set()).update(one.hosts & blamed)
            mine = [one for one in cells if not (one.spoilt and one.hosts & blamed)]
            if not mine:
                self._bare.add(key)
        if host not in sick:
            mine = [one for one in mine if not one.empty]
        if _share(mine) > trial_filter.MAX_LOST:
            with_peer = any(len(one.hosts) > 1 for one in mine)
            self._lost.setdefault(key, []).append(_Lost(mine, host in blamed and with_peer))


def _sick(of: Mapping[str, Sequence[_Cell]]) -> set[str]:
    """Return the hosts that are sick in one benchmark and arm, whose cells host by host are given."""
    return {
        host
        for host, cells in of.items()
        if sum(one.spoilt for one in cells) >= _SICK * len(cells) and _share(cells) > trial_filter.MAX_LOST
    }


def _share(cells: Sequence[_Cell]) -> float:
    return sum(one.lost for one in cells) / max(1, sum(one.whole for one in cells))


def listed(hosts: Iterable[str]) -> str:
    """Return the names of hosts for people, the first few of many."""
    names = [name or "any" for name in sorted(hosts)]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
