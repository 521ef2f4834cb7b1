# SPDX-License-Identifier: Apache-2.0
"""Why a verdict is what it is, and why a trial does not count, as codes with parameters.

Decisions look at codes alone; :mod:`nova_perf_tuning.validation.report.text` makes the English of them, last.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from nova_perf_tuning import errors


class ReasonCode(enum.StrEnum):
    """What is said; the comment names the parameters."""

    # -- a figure against its limit: figure (loss, cpu, value), value, low, high, confidence, limit,
    # unit, boots; of a value also metric, written (the limit), bound (max, min)
    WITHIN = "within"
    BEYOND = "beyond"
    UNDECIDED = "undecided"
    TOO_FEW_BOOTS = "too_few_boots"  # and needed
    NO_PAIRS = "no_pairs"
    # the worst run against its limit: metric, value, unit, limit, written, bound, runs, broken,
    # boot, file
    NO_RUN_BEYOND = "no_run_beyond"
    RUN_BEYOND = "run_beyond"

    # -- notes on such a figure
    INTERIM = "interim"  # confidence, promised
    HOLM = "holm"  # figures: FAIL taken back by the correction for so many
    FAILED = "failed"  # arm, count, of, failed, zeros, missing, what (trials, files)
    EXCLUDED = "excluded"  # count, of, what (pairs, trials), why (reasons of guards)
    WORST = "worst"  # arm, count, what (blocks, files): those that failed count as the worst
    TWO_SPEEDS = (
        "two_speeds"  # arm, low, high, unit, count (of the low one), of, what (trials, boots)
    )

    # -- why a budget cannot be judged
    NO_BENCHMARK = "no_benchmark"  # benchmark, known
    NO_METRIC = "no_metric"  # benchmark, metric, known, named
    NO_ARM = "no_arm"  # arm, known
    NO_BASELINE = "no_baseline"  # arm, known
    OTHER_ACCELERATOR = "other_accelerator"  # accelerator, wanted
    ACCELERATOR_CONTRADICTED = "accelerator_contradicted"  # arm, accelerator, found
    VIRTUALIZATION_UNREAD = "virtualization_unread"  # arm, wanted
    OTHER_GUESTS = "other_guests"  # arm, finding, more
    TOO_MANY_LOST = "too_many_lost"  # arm, count, of, failed, zeros, missing, excluded, limit, why
    BELOW_NOISE_FLOOR = "below_noise_floor"  # limit, floor, created
    NO_SERVICE_CPU = "no_service_cpu"  # arm
    LITTLE_SERVICE_CPU = "little_service_cpu"  # arm, count, of, limit
    OTHER_UNIT = "other_unit"  # metric, unit, written: a limit of another dimension
    NO_DURATION = "no_duration"  # metric: a maximum whose limit names no length of runs
    SHORT_RUNS = "short_runs"  # count, of, seconds (the shortest), needed
    DURATION_UNKNOWN = "duration_unknown"  # count, of, needed
    MIXED_WORKLOADS = "mixed_workloads"  # name, by_file (value -> file), others
    OTHER_WORKLOAD = "other_workload"  # arm, name, found, asked
    WORKLOADS_DIFFER = "workloads_differ"  # name, values (what it is -> first arm with it)

    # -- why budgets were left out, or none is left
    NO_BUDGET_APPLIES = "no_budget_applies"  # arms, benchmarks, accelerator, host_group, flavor
    PLACE_UNKNOWN = "place_unknown"  # unknown (host_group, flavor), budgets
    NOT_MEASURED = "not_measured"  # budgets
    ONLY_COMPARED = "only_compared"
    LOSSES_LEFT_OUT = "losses_left_out"  # count (of those that stay), of

    # -- CPU counters of a trial
    COUNTERS_STILL = "counters_still"
    COUNTERS_VCPU = "counters_vcpu"  # vcpu, total
    COUNTERS_GUEST = "counters_guest"  # guest, total, wait
    GUEST_BUSY_UNKNOWN = "guest_busy_unknown"
    WAIT_UNKNOWN = "wait_unknown"
    VCPUS_WAITED = "vcpus_waited"  # share, limit

    # -- CPU counters of an arm
    CONTRADICTED = "contradicted"  # why, count, of
    FEW_COUNTERS = "few_counters"  # count, of, limit
    OFTEN_WAITED = "often_waited"  # count, of, most

    # -- what to know before reading the figures
    EMULATED = "emulated"
    HOST_ALONE = "host_alone"
    SAME_GUESTS = "same_guests"
    ENDED_EARLY = "ended_early"  # ended
    TRIALS_FAILED = "trials_failed"  # count, of
    WIDE_WINDOWS = "wide_windows"  # count
    WATCHED = "watched"  # count, of, collectors
    NO_RATIO = "no_ratio"  # benchmark, arm, baseline, why
    OTHER_WORK = "other_work"  # load, cpus
    NO_VHOST_NET = "no_vhost_net"
    FILES_IN_MEMORY = "files_in_memory"  # benchmarks, filesystem
    UNPAIRED = "unpaired"
    FILES_AS_BOOTS = "files_as_boots"  # arms
    NO_CONDITIONS = "no_conditions"
    NOT_SAID = "not_said"  # names, files: what other files say of the work
    UNREAD_FILE = "unread_file"  # files, error: the output of a run that failed

    # -- guards: why a trial does not count
    STEAL = "steal"  # share, limit
    WAITING_VCPUS = "waiting_vcpus"  # share, limit
    THROTTLING = "throttling"  # count
    FREQUENCY_LIMIT = "frequency_limit"  # first, now
    FREQUENCY_GAP = "frequency_gap"  # mhz (arm -> MHz), limit
    DROPS = "drops"  # share, limit
    CLOCK_STEP = "clock_step"  # seconds, limit

    # -- what an A/A run gives: benchmark, and
    NO_FLOOR = "no_floor"  # why: too many trials do not count
    NO_FLOOR_OF_SO_FEW = "no_floor_of_so_few"  # boots, needed

    # -- what a host carries: benchmark and arm, and
    NO_SHARED_WORK = "no_shared_work"  # nothing
    NO_SAMPLE = "no_sample"  # why: what counts is no sample
    NO_WORK = "no_work"  # known: benchmarks that counted their work
    NO_GUEST = "no_guest"  # nothing
    TOO_FEW_WITH_WORK = "too_few_with_work"  # count, of, limit
    UNCOUNTED = "uncounted"  # count, of
    NO_SOFTIRQ = "no_softirq"  # nothing
    OTHER_RATE = "other_rate"  # measured, rate, unit
    SOME_WAITED = "some_waited"  # count, of
    ONE_BOOT = "one_boot"  # nothing

    # -- hosts of a fleet: benchmark and arm, and
    NO_RESULT = "no_result"  # nothing
    HOST_LOST_TRIALS = "host_lost_trials"  # as TOO_MANY_LOST
    SLOW = "slow"  # low, high (losses), spread
    MAYBE_SLOW = "maybe_slow"  # the same
    HOST_BEYOND = "host_beyond"  # baseline, figure, low, high, limit, unit, spread: a budget
    HOST_MAYBE_BEYOND = "host_maybe_beyond"  # the same
    BUDGET = "budget"  # figure, why: of a budget over all pairs, without arm

    # -- headlines
    NOTHING_MEASURED = "nothing_measured"
    COMPARED = "compared"  # arm, baseline, outcomes (each benchmark, outcome, ratio)
    JUDGED = "judged"  # verdict, benchmark, arm, baseline, why, more, of, culprit
    ALL_MET = "all_met"  # count
    HOSTS_JUDGED = "hosts_judged"  # verdict, hosts, of, example

    # -- what to do
    CHECK_CPU = "check_cpu"
    CHECK_SCHEDULING = "check_scheduling"
    CHECK_MEMORY = "check_memory"
    CHECK_NETWORK = "check_network"
    CHECK_DISK = "check_disk"
    CHECK_HOST_CPU = "check_host_cpu"
    CHECK_HOST = "check_host"  # arm: the host itself
    CHECK_WHERE_FILES_COME_FROM = "check_where_files_come_from"  # arm
    MEASURE_PARTS = "measure_parts"
    ABLATE = "ablate"  # arm, baseline
    MORE_BOOTS = "more_boots"
    MORE_FILES = "more_files"
    PUBLISH = "publish"
    DISABLE_HOSTS = "disable_hosts"
    MORE_PEERS = "more_peers"
    JUDGE_UNDER_KVM = "judge_under_kvm"
    SEE_TRIALS = "see_trials"
    SEE_FILES = "see_files"
    JUDGE_ONE_WORKLOAD = "judge_one_workload"
    MEASURE_SAME_WORK = "measure_same_work"
    CORRECT_BUDGET = "correct_budget"
    WRITE_BUDGET = "write_budget"  # fields: of an example

    # -- changes of a history: ratio, at, versions (name -> before and after)
    IMPROVED = "improved"
    WORSENED = "worsened"


class ComparisonOutcome(enum.StrEnum):
    """What a comparison of guests shows, in the order of the headline."""

    GAIN = "gain"
    LOSS = "loss"
    NOISE = "noise"
    NO_DIFFERENCE = "no_difference"
    TOO_FEW = "too_few"
    NO_PAIR = "no_pair"
    INVALID = "invalid"


#: CPU counters that cannot all be true.
CONTRADICTIONS = frozenset({ReasonCode.COUNTERS_VCPU, ReasonCode.COUNTERS_GUEST})


@dataclasses.dataclass(frozen=True, slots=True)
class Reason:
    """One thing that is said.

    :ivar params: as the comment of its code names them.
    :ivar notes: what is said beside it, in the same line.
    """

    code: ReasonCode
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict, hash=False)
    notes: tuple["Reason", ...] = ()

    @property
    def codes(self) -> frozenset[ReasonCode]:
        """Return its code and those of what it rests on (``why``) and of its notes."""
        beside = (*self.params.get("why", ()), *self.notes)
        return frozenset({self.code}).union(*(why.codes for why in beside))

    def noting(self, *notes: "Reason") -> "Reason":
        return dataclasses.replace(self, notes=(*self.notes, *notes))


class ReasonError(errors.PerfTuningError):
    """Something cannot be worked out; who shows it makes the text of :attr:`reason`."""

    def __init__(self, code: ReasonCode, **params: Any) -> None:
        super().__init__(code.value)
        self.reason = Reason(code, params)


def reason(code: ReasonCode, **params: Any) -> Reason:
    return Reason(code, params)


def distinct(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    first: dict[ReasonCode, Reason] = {}
    for why in reasons:
        first.setdefault(why.code, why)
    return tuple(first.values())
