# SPDX-License-Identifier: Apache-2.0
"""Why a verdict is what it is, and why a trial does not count, as codes with parameters.

Decisions look at codes alone; :mod:`nova_perf_tuning.validation.report.text` puts the parameters into their texts,
last.
"""

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from typing import Any

from nova_perf_tuning import errors


@enum.unique
class ReasonCode(enum.Enum):
    """What is said; the value is for people and names the parameters.

    Where it is ``auto``, :mod:`.report.text` makes the text, and the comment names the parameters.
    """

    @staticmethod
    def _generate_next_value_(name: str, _start: int, _count: int, _last_values: list[str]) -> str:
        return name

    @property
    def key(self) -> str:
        """What programs tell reasons apart by: ``no_result``."""
        return self.name.lower()

    # -- a figure against its limit: figure (loss, cpu), value, low, high, confidence, limit, unit, boots
    WITHIN = enum.auto()
    BEYOND = enum.auto()
    UNDECIDED = enum.auto()
    TOO_FEW_BOOTS = enum.auto()  # and needed
    NO_PAIRS = enum.auto()

    # -- notes on such a figure
    INTERIM = enum.auto()  # confidence, promised
    HOLM = "but {figures} figures are judged together, and after Holm's correction for them it is not certain"
    FAILED = enum.auto()  # arm, count, of, failed, zeros, missing
    EXCLUDED = "{count} of {of} {what} excluded: {why}"
    WORST = "blocks without a figure of '{arm}', taken as its worst: {count}"

    # -- why a budget cannot be judged
    NO_BENCHMARK = "benchmark '{benchmark}' was not measured; the results have {known}"
    NO_METRIC = enum.auto()  # benchmark, metric, known, named
    NO_ARM = "arm '{arm}' was not measured; the results have {known}"
    OTHER_ACCELERATOR = "guests ran on {accelerator}, the budget is for {wanted}"
    ACCELERATOR_CONTRADICTED = enum.auto()  # arm, accelerator, found
    VIRTUALIZATION_UNREAD = "what guests of '{arm}' run on could not be read, the budget is for {wanted}"
    OTHER_GUESTS = enum.auto()  # arm, finding, more
    TOO_MANY_LOST = enum.auto()  # arm, count, of, failed, zeros, missing, excluded, limit, why
    BELOW_NOISE_FLOOR = (
        "a budget of {limit:.1%} is tighter than this host's noise floor of {floor:.1%} (A/A run of {created});"
        " allow more, or measure longer and renew the floor with validate --noise-floor"
    )
    NO_SERVICE_CPU = "service CPU of '{arm}' was not measured"
    LITTLE_SERVICE_CPU = (
        "{count} of {of} trials of '{arm}' have no CPU counters or no count of work, so its service CPU is not"
        " known (limit {limit:.0%})"
    )

    # -- why budgets were left out, or none is left
    NO_BUDGET_APPLIES = (
        "no budget applies: the results have the arms {arms}, the benchmarks {benchmarks}, accelerator"
        " '{accelerator}', host_group '{host_group}', flavor '{flavor}', memory_encryption '{memory_encryption}'"
    )
    PLACE_UNKNOWN = enum.auto()  # unknown (host_group, flavor), budgets
    NOT_MEASURED = "budgets left out, since their arms or accelerator were not measured: {budgets}"
    ONLY_COMPARED = "hosts were only compared with each other"

    # -- CPU counters of a trial
    COUNTERS_STILL = "no counter moved, so its CPU was not measured"
    COUNTERS_VCPU = "counters contradict: vCPU {vcpu:.2f} s of {total:.2f} s in all"
    COUNTERS_GUEST = (
        "counters contradict: the guest says it was busy {guest:.2f} s, its process used {total:.2f} s in all and"
        " its vCPUs waited {wait:.2f} s"
    )
    GUEST_BUSY_UNKNOWN = "the guest's own busy time is unknown"
    WAIT_UNKNOWN = "how long the vCPUs waited is unknown"
    VCPUS_WAITED = "vCPUs waited {share:.0%} of the time they wanted to run (limit {limit:.0%})"

    # -- CPU counters of an arm
    CONTRADICTED = "{why} ({count} of {of} trials)"
    FEW_COUNTERS = "{count} of {of} trials have no CPU counters (limit {limit:.0%})"
    OFTEN_WAITED = "vCPUs waited in {count} of {of} trials, up to {most:.0%} of the time they wanted to run"

    # -- what to know before reading the figures
    EMULATED = (
        "Guests ran under TCG (emulation): figures under TCG compare arms with each other, not hardware. Distance"
        " to the host is the emulator's, not KVM's."
    )
    HOST_ALONE = "All arms are this host itself (an A/A run): differences between them are noise."
    SAME_GUESTS = "Both pairs of guests are untuned (an A/A run): differences between them are noise."
    ENDED_EARLY = "The run ended early ({ended}); the figures are of the trials up to then."
    TRIALS_FAILED = "{count} of {of} trials failed; see the errors."
    WIDE_WINDOWS = (
        "In {count} of the trials the guest's clock was not known to 0.1 s: their CPU includes start and end of"
        " the program."
    )
    WATCHED = (
        "Tools watched {count} of {of} trials ({collectors}) and took CPU; compare them with trials watched the"
        " same way."
    )
    NO_RATIO = "{benchmark}: no ratio {arm}/{baseline}: {why}."
    OTHER_WORK = (
        "The host had other work when the trials began: load average {load:.1f} on {cpus} CPUs. Ratios are noisier"
        " for it and absolute figures too low; run it again on a quiet host."
    )
    NO_VHOST_NET = (
        "The host had no /dev/vhost-net: QEMU itself moved the guests' packets, in its emulator thread. With the"
        " module vhost_net network figures differ; perf:vhost_placement had nothing to place."
    )
    FILES_IN_MEMORY = (
        "{benchmarks}: the files lay in memory ({filesystem}), so this is the speed of memory, not of a disk"
    )

    # -- guards: why a trial does not count
    STEAL = "the host's CPUs were taken away {share:.2%} of the time they were wanted (limit {limit:.2%})"
    WAITING_VCPUS = "vCPUs waited {share:.2%} of the time they wanted to run (limit {limit:.2%})"
    THROTTLING = "CPUs were throttled {count:.0f} times by their temperature"
    FREQUENCY_LIMIT = "the highest frequency allowed went from {first:.0f} to {now:.0f} MHz during the run"
    FREQUENCY_GAP = "arms ran at different CPU frequencies: {mhz} (limit {limit:.0%})"
    DROPS = "{share:.2%} of the sender's packets were dropped on its side (limit {limit:.2%})"
    CLOCK_STEP = "the clock jumped by {seconds:+.2f} s (limit {limit:.2f} s)"

    # -- what an A/A run gives: benchmark, and
    NO_FLOOR = "{benchmark}: {why}; measure again without that"
    NO_FLOOR_OF_SO_FEW = "{benchmark}: {boots} boots give no noise floor; {needed} are needed, 4 are better"

    # -- what a host carries: benchmark and arm, and
    NO_SHARED_WORK = "'{benchmark:.80}' on '{arm:.40}': took no CPU beside its vCPUs"
    NO_SAMPLE = "'{benchmark:.80}' on '{arm:.40}': {why}"
    NO_WORK = "no trial of '{benchmark:.80}' on '{arm:.40}' counted its work; benchmarks that did: {known}"
    NO_GUEST = "'{arm}' is no guest: its CPU was not measured per class"
    TOO_FEW_WITH_WORK = (
        "'{benchmark:.80}' on '{arm:.40}': {count} of {of} trials have no CPU by class (limit {limit:.0%}); on a"
        " cloud agents tell it"
    )
    UNCOUNTED = "{count} of {of} trials have no CPU by class"
    NO_SOFTIRQ = "interrupts and softirqs were not measured: what they cost is not in it"
    OTHER_RATE = (
        "the cost was measured at {measured:.3g} {unit} per second, not {rate:.3g}: a guest costs something at"
        " rest too, so measure guests at the rate at which they work"
    )
    SOME_WAITED = "vCPUs waited for a host CPU in {count} of {of} trials: the host was not idle"
    ONE_BOOT = "one boot only, so no interval"

    # -- hosts of a fleet: benchmark and arm, and
    NO_RESULT = "no pair of it gave a result"
    HOST_LOST_TRIALS = enum.auto()  # as TOO_MANY_LOST
    SLOW = enum.auto()  # low, high (losses), spread
    MAYBE_SLOW = enum.auto()  # the same
    HOST_BEYOND = enum.auto()  # baseline, figure, low, high, limit, unit, spread: a budget
    HOST_MAYBE_BEYOND = enum.auto()  # the same
    BUDGET = "{benchmark}: {why}"

    # -- headlines
    NOTHING_MEASURED = "Nothing was measured."
    COMPARED = enum.auto()  # arm, baseline, outcomes (each benchmark, outcome, ratio)
    JUDGED = enum.auto()  # verdict, benchmark, arm, baseline, why, more, of, culprit
    ALL_MET = "PASS: all {count} budgets are met."
    HOSTS_JUDGED = enum.auto()  # verdict, hosts, of, example

    # -- what to do
    CHECK_CPU = (
        "Look for a limit on the guests' CPUs: virsh schedinfo DOMAIN (vcpu_quota, cpu_shares) and quota:cpu_* of"
        " the flavor; and for other work on them: nova-perf plan shows what shares a CPU with vCPUs, nova-perf"
        " audit what the host gets wrong."
    )
    CHECK_SCHEDULING = (
        "Give the vCPUs CPUs of their own (hw:cpu_policy=dedicated) and keep other threads off them (nova-perf"
        " plan shows them). Look for sleep states and interrupts that hold these CPUs up: nova-perf audit."
    )
    CHECK_MEMORY = (
        "See where the guest's memory lies (numastat -c qemu): on the nodes of its vCPUs (hw:numa_nodes), in huge"
        " pages (hw:mem_page_size=large). Look for guests that load the memory of the same node."
    )
    CHECK_NETWORK = (
        "Look for a rate limit: tc qdisc show dev TAP, virsh domiftune DOMAIN TAP, quota:vif_* of the flavor, QoS"
        " policies of the port. Compare queues and offloads inside the guest with what was asked for ('Settings in"
        " force' in the report)."
    )
    CHECK_DISK = (
        "Look for a limit: virsh blkdeviotune DOMAIN DISK, quota:disk_* of the flavor. Compare cache mode, I/O"
        " threads and disk queues of the arms ('Settings in force' in the report)."
    )
    CHECK_HOST_CPU = (
        "See which class of CPU the host spends ('Host CPU by class' in the report); nova-perf plan shows where"
        " its threads run."
    )
    MEASURE_PARTS = (
        "This benchmark loads several things at once: measure --benchmark cpu, --benchmark iperf3 and --benchmark"
        " fio beside it, and see which of them loses as well."
    )
    ABLATE = (
        "'{arm}' and '{baseline}' are guests of one host, which differ in what was asked for: leave a spec out and"
        " measure again; nova-perf validate --ablation finds the one that costs."
    )
    MORE_BOOTS = (
        "Give it more time (--time-limit, --boots), on a host without other work; nova-perf validate --noise-floor"
        " tells what this host can tell apart."
    )
    PUBLISH = (
        "Let the scheduler know: openstack perf publish RESULTS.json, or nova-perf publish on each host (with the"
        " --budget and other options of this verdict)."
    )
    DISABLE_HOSTS = (
        "Keep guests off what fails until it is repaired: openstack perf publish RESULTS.json --disable-on-fail"
        " (with the --budget and other options of this verdict) takes its traits and nova-compute out; validate"
        " it again afterwards."
    )
    MORE_PEERS = (
        "Give these hosts more time or more peers (--blocks, --time-limit, --peers), best with --hosts for them"
        " alone and some that pass."
    )
    JUDGE_UNDER_KVM = (
        "The guests are emulated, and beside the host the emulator itself is measured: nothing is wrong with them"
        " for it. Judge them under KVM, or one arm against another."
    )
    SEE_TRIALS = "See what became of these trials in the report, remove the cause and measure again."
    CORRECT_BUDGET = "Correct the budget, or repair what is named and measure again."

    # -- changes of a history: ratio, at, versions (name -> before and after)
    IMPROVED = enum.auto()
    WORSENED = enum.auto()


class Outcome(enum.StrEnum):
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

    @property
    def keys(self) -> list[str]:
        """Return the same for programs, sorted."""
        return sorted(code.key for code in self.codes)

    def noting(self, *notes: "Reason") -> "Reason":
        return dataclasses.replace(self, notes=(*self.notes, *notes))


class ReasonError(errors.PerfTuningError):
    """Something cannot be worked out; who shows it makes the text of :attr:`reason`."""

    def __init__(self, code: ReasonCode, **params: Any) -> None:
        super().__init__(code.key)
        self.reason = Reason(code, params)


def reason(code: ReasonCode, **params: Any) -> Reason:
    return Reason(code, params)


def distinct(reasons: Iterable[Reason]) -> tuple[Reason, ...]:
    first: dict[ReasonCode, Reason] = {}
    for why in reasons:
        first.setdefault(why.code, why)
    return tuple(first.values())
