# SPDX-License-Identifier: Apache-2.0
"""The English of every reason: one line for each code, made last."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from nova_perf_tuning import printing, rules
from nova_perf_tuning.guest import probe
from nova_perf_tuning.validation.results import model, reasons

#: Texts that need no quotes in YAML.
_PLAIN: Final = re.compile("[A-Za-z][A-Za-z0-9_-]*|0[.][0-9]+|[0-9]+s")
#: Names that a message lists.
_NAMES = 20
_OUTCOMES: Final = {
    reasons.ComparisonOutcome.GAIN: "a gain",
    reasons.ComparisonOutcome.LOSS: "a loss",
    reasons.ComparisonOutcome.NOISE: "noise alone makes a difference",
    reasons.ComparisonOutcome.NO_DIFFERENCE: "no difference shown",
    reasons.ComparisonOutcome.TOO_FEW: "too few trials to tell",
    reasons.ComparisonOutcome.NO_PAIR: "no pair of trials",
    reasons.ComparisonOutcome.INVALID: "too many trials that do not count",
}

_C = reasons.ReasonCode
_Params = Mapping[str, Any]


def of(reason: reasons.Reason) -> str:
    """Return a reason with its notes as one line."""
    params = dict(reason.params)
    for name, shown in _LISTS.items():
        if name in params:
            params[name] = shown(params[name])
    template = _TEXTS[reason.code]
    line = template.format_map(params) if isinstance(template, str) else template(params)
    return "; ".join([line, *map(of, reason.notes)])


def lines(some: Iterable[reasons.Reason]) -> str:
    """Return several reasons as one line, equal ones once."""
    return "; ".join(dict.fromkeys(map(of, some)))


def percent(ratio: float) -> str:
    """Return ``+6.8%`` for 1.068; what rounds to nothing has no minus sign."""
    return f"{round(ratio - 1, 3) + 0.0:+.1%}"


def _signed(loss: float) -> str:
    """Return a loss as a change of performance: ``-2.3%``, or ``+50.9%`` for a gain."""
    change = -loss
    if round(loss, 3) == 0:
        change = 0.0  # without a minus sign
    return f"{change:+.1%}"


def _confidence(share: float) -> str:
    """Return a confidence as ``95%``, ``99.95%``."""
    return f"{share * 100:.4g}%"


def _figure(params: _Params) -> str:
    if params["figure"] == "loss":
        return _signed(params["value"])
    if params["figure"] == "value":
        return f"{params['metric']} {_number(params['value'])} {params['unit']}"
    return f"service CPU per {params['unit'] or 'unit'} {params['value']:.4g} s"


def _limit(params: _Params) -> str:
    limit = params["limit"]
    if params["figure"] == "cpu":
        return f"allowed {limit:.4g} s"
    if params["figure"] == "value":
        return _absolute_limit(params)
    what = "demanded" if limit < 0 else "allowed"
    return f"{what} {_signed(limit)}"


def _number(value: float) -> str:
    """Return a figure with four significant digits, thousands separated."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _absolute_limit(params: _Params) -> str:
    """Return a limit as its author wrote it."""
    if params["bound"] == "min":
        return f"at least {params['written']} wanted"
    return f"at most {params['written']} allowed"


def _worst_run(params: _Params) -> str:
    where = params["file"] or f"boot {params['boot'] + 1}"
    runs = printing.counted(params["runs"], "run")
    worst = "greatest"
    if params["bound"] == "min":
        worst = "least"
    line = f"{_figure(params)} is the {worst} of {runs} ({where}), {_absolute_limit(params)}"
    if params["broken"] > 1:
        line += f"; {params['broken']} runs break it"
    return line


def _short_runs(params: _Params) -> str:
    shortest = f"{params['seconds']:.4g} s"
    runs = f"{params['count']} of {params['of']} runs"
    return (
        f"{runs} are shorter than the {params['needed']:g} s of the budget (shortest: {shortest})"
    )


def _mixed(params: _Params) -> str:
    values: list[str] = []
    for value, file in params["by_file"].items():
        values.append(f"{value or 'none'} ({file})")
    line = f"the files are of different workloads: {params['name']} is {' and '.join(values)}"
    if params["others"]:
        line += f"; also different: {', '.join(params['others'])}"
    return f"{line}; judge files of one workload"


def _not_said(params: _Params) -> str:
    names = ", ".join(params["names"])
    files = rules.named(params["files"])
    return f"{names}: not said by {files}, so not compared there; make sure that it was the same."


def _no_pairs(params: _Params) -> str:
    if params["figure"] == "value":
        return "no trial with a figure"
    figure = "loss" if params["figure"] == "loss" else "service CPU"
    return f"{figure}: no pair of trials"


def _placed(params: _Params) -> str:
    low, high = params["low"], params["high"]
    if params["figure"] == "loss":
        span = f"{_signed(high)} to {_signed(low)}"
    elif params["figure"] == "value":
        span = f"{_number(low)} to {_number(high)}"
    else:
        span = f"{low:.4g} s to {high:.4g} s"
    interval = f"{_confidence(params['confidence'])} interval {span}"
    return f"{_figure(params)} ({interval}), {_limit(params)}"


def _boots(params: _Params) -> str:
    """Return how many boots would decide, and how much longer they take."""
    if "most" in params:
        return (
            f"More than {params['most']} boots would be needed, if they vary as much as those measured:"
            " the figure is too near to the limit. Measure on a host without other work, or set"
            " another limit."
        )
    if "more" not in params:
        return "Measure longer (--time-limit, --boots), on a host without other work."
    boots = printing.counted(params["more"], "more boot")
    longer = ""
    if params["seconds"] is not None:
        minutes = max(1, round(params["seconds"] / 60))
        longer = f", {minutes} min longer"
    return (
        f"About {boots} would decide it (--boots {params['boots']}{longer}), if they vary as much"
        " as those measured; on a host without other work fewer may."
    )


def _too_few(params: _Params) -> str:
    known = f"no interval from {printing.counted(params['boots'], 'boot')}"
    needed = f"at least {params['needed']} are needed"
    return f"{_figure(params)}, {_limit(params)}: {known}; {needed}"


def _lost(params: _Params) -> str:
    kinds = {
        "failed": "failed",
        "zeros": "gave 0, which has no ratio",
        "missing": "are missing",
        "excluded": "were excluded",
    }
    what = " or ".join(words for kind, words in kinds.items() if params.get(kind))
    kind = params.get("what", "trials")
    return f"{params['count']} of {params['of']} {kind} of '{params['arm']}' {what}"


def _too_many_lost(params: _Params) -> str:
    why = f": {params['why']}" if params["why"] else ""
    return f"{_lost(params)} (limit {params['limit']:.0%}){why}"


def _metric(params: _Params) -> str:
    metric = f"metric '{params['metric']}'" if params["metric"] else "what it is judged by"
    line = f"{metric} was not measured; {params['benchmark']} has {params['known']}"
    if params["named"]:
        return line
    return f"{line}; name one of them as the budget's metric if that is what it is for"


def _guests(params: _Params) -> str:
    more = f" (and {params['more']} more)" if params["more"] else ""
    finding = f"{params['finding']}{more}"
    return f"guests of '{params['arm']}' are not what was asked for: {finding}"


def _listed(names: Iterable[str]) -> str:
    return rules.named(sorted(names), _NAMES) or "none"


def _no_budget(params: _Params) -> str:
    has = [f"the arms {params['arms']}", f"the benchmarks {params['benchmarks']}"]
    for name in ("accelerator", "host_group", "flavor", "memory_encryption"):
        if params[name]:
            has.append(f"{name} '{params[name]}'")
    return f"no budget applies: the results have {', '.join(has)}"


def _write_budget(params: _Params) -> str:
    """Return an example that YAML reads."""
    fields: list[str] = []
    for name, value in params["fields"].items():
        shown = value
        if not _PLAIN.fullmatch(value):
            shown = json.dumps(value, ensure_ascii=False)
        fields.append(f"{name}: {shown}")
    return (
        f"Write what you accept into a file, as in budgets: [{{{', '.join(fields)}}}], and give it with"
        " --budget FILE; the page 'Measuring' explains the keys. 'nova-perf report' shows figures without"
        " a budget."
    )


def _unplaced(params: _Params) -> str:
    names: list[str] = []
    options: list[str] = []
    for field in params["unknown"]:
        names.append(field.replace("_", " "))
        options.append(f"--{field.replace('_', '-')}")
    unknown = " and no ".join(names)
    give = " and ".join(options)
    cause = f"the results name no {unknown} (give {give})"
    return f"budgets left out, since {cause}: {params['budgets']}"


def _slower(params: _Params) -> str:
    low, high = f"{params['low']:.0%}", f"{params['high']:.0%}"
    span = low if low == high else f"{low} to {high}"
    return f"{params['benchmark']} ({params['arm']}): slower than the other hosts by {span}"


def _host_beyond(params: _Params) -> str:
    low, high = params["low"], params["high"]
    if params["figure"] == "loss":
        figure = f"{_signed(high)} to {_signed(low)} against '{params['baseline']}'"
    elif params["figure"] == "value":
        ends = f"{_number(low)} to {_number(high)}"
        figure = f"{params['metric']} {ends} {params['unit']}"
    else:
        figure = f"service CPU per {params['unit'] or 'unit'} {low:.4g} s to {high:.4g} s"
    where = f"{params['benchmark']} ({params['arm']})"
    return f"{where}: {figure} in all its pairs, {_limit(params)}"


def _perhaps(params: _Params) -> str:
    noise = f"the noise of the hosts ({params['spread']:.1%})"
    return f", which its peers or {noise} may explain; measure it with more hosts (--peers)"


def _compared(params: _Params) -> str:
    labels: dict[str, list[str]] = {}
    for row in params["outcomes"]:
        label = row["benchmark"]
        if row["ratio"] is not None:
            label = f"{label} ({percent(row['ratio'])})"
        labels.setdefault(row["outcome"], []).append(label)
    said = []
    for outcome, words in _OUTCOMES.items():
        if outcome in labels:
            said.append(f"{words} in {', '.join(labels[outcome])}")
    line = f"{'; '.join(said)}."
    if params["arm"]:
        line = f"{params['arm']} against {params['baseline']}: {line}"
    if (params["baseline"], params["arm"]) == model.AA_ARMS:
        return f"A/A run, {line}"
    if params["arm"]:
        return line
    return line[0].upper() + line[1:]


def _judged(params: _Params) -> str:
    verdict = params["verdict"]
    if verdict == "PASS":
        verdict = "PASS: the budget is met;"
    else:
        verdict = f"{verdict}:"
    about = params["arm"]
    if params["baseline"]:
        about = f"{about} against {params['baseline']}"
    about = f"{about} in {params['benchmark']}"
    line = f"{verdict} {about}: {params['why']}"
    if params["more"]:
        line += f" (and {params['more']} more of {params['of']} budgets)"
    line += "."
    if params["culprit"]:
        line += f" It points at the {params['culprit']}."
    return line


def _hosts_judged(params: _Params) -> str:
    count = f"{params['verdict']}: {len(params['hosts'])} of {params['of']} hosts"
    if params["verdict"] == "PASS":
        return f"{count} are as good as asked for."
    line = f"{count}: {_listed(params['hosts'])}"
    if params["example"]:
        line += f" ({params['example']})"
    return f"{line}."


def _change(params: _Params) -> str:
    line = f"from {params['at'][:16].replace('T', ' ')} on"
    versions = params["versions"]
    if not versions:
        return line
    changes = ", ".join(f"{name} {old} -> {new}" for name, (old, new) in versions.items())
    return f"{line}; {changes}"


#: How parameters that are lists are shown.
_LISTS: Final[Mapping[str, Callable[[Any], str]]] = {
    "why": lines,
    "known": _listed,
    "arms": ", ".join,
    "collectors": ", ".join,
    "benchmarks": ", ".join,
    "budgets": "; ".join,
    "values": lambda values: ", ".join(f"{text} in '{arm}'" for text, arm in values.items()),
    "mhz": lambda mhz: ", ".join(f"{arm} {speed:.0f} MHz" for arm, speed in mhz.items()),
}

_TEXTS: Final[Mapping[reasons.ReasonCode, str | Callable[[_Params], str]]] = {
    _C.WITHIN: _placed,
    _C.BEYOND: _placed,
    _C.UNDECIDED: lambda params: f"{_placed(params)}: more boots may decide",
    _C.TOO_FEW_BOOTS: _too_few,
    _C.NO_PAIRS: _no_pairs,
    _C.NO_RUN_BEYOND: _worst_run,
    _C.RUN_BEYOND: _worst_run,
    _C.INTERIM: lambda params: (
        f"{_confidence(params['confidence'])} at this look, so that"
        f" {_confidence(params['promised'])} holds over"
        " both looks"
    ),
    _C.HOLM: "but {figures} figures are judged together, and after Holm's correction for them it is not certain",
    _C.FAILED: _lost,
    _C.EXCLUDED: "{count} of {of} {what} excluded: {why}",
    _C.WORST: "{what} without a figure of '{arm}', taken as its worst: {count}",
    _C.TWO_SPEEDS: (
        "'{arm}' has two speeds, so that one figure says little: {low:.4g} {unit} in {count} of {of}"
        " {what}, {high:.4g} {unit} in the others"
    ),
    _C.NO_BENCHMARK: "benchmark '{benchmark}' was not measured; the results have {known}",
    _C.NO_METRIC: _metric,
    _C.NO_ARM: "arm '{arm}' was not measured; the results have {known}",
    _C.NO_BASELINE: (
        "arm '{arm}', the baseline, was not measured; the results have {known}; a limit that needs no"
        " baseline is max_value or min_value"
    ),
    _C.OTHER_ACCELERATOR: "guests ran on {accelerator}, the budget is for {wanted}",
    _C.ACCELERATOR_CONTRADICTED: lambda params: (
        f"guests of '{params['arm']}': {probe.contradiction(params['found'], params['accelerator'])}"
    ),
    _C.VIRTUALIZATION_UNREAD: "the accelerator of guests of '{arm}' could not be read; the budget is for {wanted}",
    _C.OTHER_GUESTS: _guests,
    _C.TOO_MANY_LOST: _too_many_lost,
    _C.BELOW_NOISE_FLOOR: (
        "a budget of {limit:.1%} is tighter than this host's noise floor of {floor:.1%} (A/A run"
        " of {created}); allow more, or measure longer and renew the floor with validate"
        " --noise-floor"
    ),
    _C.OTHER_UNIT: "{metric} is in {unit}, so it cannot be limited to {written}",
    _C.NO_DURATION: (
        "{metric} grows with the length of a run: the budget needs min_duration, such as 60s"
    ),
    _C.SHORT_RUNS: _short_runs,
    _C.DURATION_UNKNOWN: (
        "the length of {count} of {of} runs is not known; the budget wants {needed:g} s"
    ),
    _C.MIXED_WORKLOADS: _mixed,
    _C.NO_SERVICE_CPU: "service CPU of '{arm}' was not measured",
    _C.LITTLE_SERVICE_CPU: (
        "{count} of {of} trials of '{arm}' have no CPU counters or no count of work, so its"
        " service CPU is not known (limit {limit:.0%})"
    ),
    _C.OTHER_WORKLOAD: (
        "runs of '{arm}' did different work than requested: {name} is {found}, not {asked}"
    ),
    _C.WORKLOADS_DIFFER: "runs differ in their work, so they cannot be compared: {name} is {values}",
    _C.COUNTERS_STILL: "no counter moved, so its CPU was not measured",
    _C.COUNTERS_VCPU: "counters contradict: vCPU {vcpu:.2f} s of {total:.2f} s in all",
    _C.COUNTERS_GUEST: (
        "counters contradict: the guest says it was busy {guest:.2f} s, its process used"
        " {total:.2f} s in all and its vCPUs waited {wait:.2f} s"
    ),
    _C.GUEST_BUSY_UNKNOWN: "the guest's own busy time is unknown",
    _C.WAIT_UNKNOWN: "how long the vCPUs waited is unknown",
    _C.NO_BUDGET_APPLIES: _no_budget,
    _C.PLACE_UNKNOWN: _unplaced,
    _C.ONLY_COMPARED: "hosts were only compared with each other",
    _C.LOSSES_LEFT_OUT: "the published verdict has {count} of {of} losses; the verdict itself rests on all",
    _C.NOT_MEASURED: "budgets left out, since their arms or accelerator were not measured: {budgets}",
    _C.CONTRADICTED: "{why} ({count} of {of} trials)",
    _C.FEW_COUNTERS: "{count} of {of} trials have no CPU counters (limit {limit:.0%})",
    _C.OFTEN_WAITED: "vCPUs waited in {count} of {of} trials, up to {most:.0%} of the time they wanted to run",
    _C.EMULATED: (
        "Guests ran under TCG (emulation): figures under TCG compare arms with each other, not"
        " hardware. Distance to the host is the emulator's, not KVM's."
    ),
    _C.HOST_ALONE: "All arms are this host itself (an A/A run): differences between them are noise.",
    _C.SAME_GUESTS: "Both pairs of guests are untuned (an A/A run): differences between them are noise.",
    _C.ENDED_EARLY: "The run ended early ({ended}); the figures are of the trials up to then.",
    _C.TRIALS_FAILED: "{count} of {of} trials failed; see the errors.",
    _C.WIDE_WINDOWS: (
        "In {count} of the trials the guest's clock was not known to 0.1 s: their CPU includes"
        " start and end of the program."
    ),
    _C.WATCHED: (
        "Tools watched {count} of {of} trials ({collectors}) and took CPU; compare them with"
        " trials watched the same way."
    ),
    _C.NO_RATIO: "{benchmark}: no ratio {arm}/{baseline}: {why}.",
    _C.OTHER_WORK: (
        "The host had other work when the trials began: load average {load:.1f} on {cpus} CPUs."
        " This makes ratios noisier and absolute figures too low; run it again on a quiet host."
    ),
    _C.NO_VHOST_NET: (
        "The host had no /dev/vhost-net: QEMU itself moved the guests' packets, in its emulator"
        " thread. With the module vhost_net network figures differ; perf:vhost_placement had"
        " nothing to place."
    ),
    _C.FILES_IN_MEMORY: (
        "{benchmarks}: the files were in memory ({filesystem}), so this is the speed of memory, "
        "not of a disk"
    ),
    _C.UNPAIRED: (
        "Nothing pairs the files of the arms: they are compared as independent samples (Welch's"
        " t-test on logarithms). A drift of the host between the arms counts as a difference, and"
        " the interval is wider than that of runs side by side (nova-perf validate)."
    ),
    _C.FILES_AS_BOOTS: (
        "Each file of {arms} counts as a boot of its own. If several are of one boot, the interval"
        " is too narrow: give --arm NAME=DIRECTORY or a pattern for each boot."
    ),
    _C.NO_CONDITIONS: (
        "Output files do not say what the host did meanwhile (steal, throttling, other work), so"
        " no run was excluded for it."
    ),
    _C.NOT_SAID: _not_said,
    _C.UNREAD_FILE: lambda params: (
        f"{rules.named(params['files'])}: no figure, since the run failed: {params['error']}"
    ),
    _C.VCPUS_WAITED: "vCPUs waited {share:.0%} of the time they wanted to run (limit {limit:.0%})",
    _C.STEAL: "the host's CPUs were taken away {share:.2%} of the time they were wanted (limit {limit:.2%})",
    _C.WAITING_VCPUS: "vCPUs waited {share:.2%} of the time they wanted to run (limit {limit:.2%})",
    _C.THROTTLING: "CPUs were throttled {count:.0f} times by their temperature",
    _C.FREQUENCY_LIMIT: "the highest frequency allowed went from {first:.0f} to {now:.0f} MHz during the run",
    _C.FREQUENCY_GAP: "arms ran at different CPU frequencies: {mhz} (limit {limit:.0%})",
    _C.DROPS: "{share:.2%} of the sender's packets were dropped on its side (limit {limit:.2%})",
    _C.CLOCK_STEP: "the clock jumped by {seconds:+.2f} s (limit {limit:.2f} s)",
    _C.NO_FLOOR: "{benchmark}: {why}; measure again without that",
    _C.NO_FLOOR_OF_SO_FEW: "{benchmark}: too few boots for a noise floor ({boots}); {needed} are needed, 4 are better",
    _C.NO_SHARED_WORK: "'{benchmark:.80}' on '{arm:.40}': used no host CPU outside its vCPUs",
    _C.NO_SAMPLE: "'{benchmark:.80}' on '{arm:.40}': {why}",
    _C.NO_WORK: "no trial of '{benchmark:.80}' on '{arm:.40}' counted its work; benchmarks that did: {known}",
    _C.NO_GUEST: "'{arm}' is no guest: its CPU was not measured per class",
    _C.TOO_FEW_WITH_WORK: (
        "'{benchmark:.80}' on '{arm:.40}': {count} of {of} trials have no CPU by class (limit"
        " {limit:.0%}); on a cloud, agents report it"
    ),
    _C.UNCOUNTED: "{count} of {of} trials have no CPU by class",
    _C.NO_SOFTIRQ: "interrupts and softirqs were not measured, so their cost is not included",
    _C.OTHER_RATE: (
        "the cost was measured at {measured:.3g} {unit} per second, not {rate:.3g}: a guest costs"
        " something at rest too, so measure guests at the rate at which they work"
    ),
    _C.SOME_WAITED: "vCPUs waited for a host CPU in {count} of {of} trials: the host was not idle",
    _C.ONE_BOOT: "one boot only, so no interval",
    _C.NO_RESULT: "none of its pairs gave a result",
    _C.HOST_LOST_TRIALS: lambda params: f"{params['benchmark']}: {_too_many_lost(params)}",
    _C.SLOW: lambda params: f"{_slower(params)} in all its pairs",
    _C.MAYBE_SLOW: lambda params: f"{_slower(params)}{_perhaps(params)}",
    _C.HOST_BEYOND: _host_beyond,
    _C.HOST_MAYBE_BEYOND: lambda params: f"{_host_beyond(params)}{_perhaps(params)}",
    _C.BUDGET: "{benchmark}: {why}",
    _C.NOTHING_MEASURED: "Nothing was measured.",
    _C.COMPARED: _compared,
    _C.JUDGED: _judged,
    _C.ALL_MET: "PASS: all {count} budgets are met.",
    _C.HOSTS_JUDGED: _hosts_judged,
    _C.CHECK_CPU: (
        "Look for a limit on the guests' CPUs: virsh schedinfo DOMAIN (vcpu_quota, cpu_shares)"
        " and quota:cpu_* of the flavor; and for other work on them: nova-perf plan shows what"
        " shares a CPU with vCPUs, nova-perf audit what the host gets wrong."
    ),
    _C.CHECK_SCHEDULING: (
        "Give the vCPUs CPUs of their own (hw:cpu_policy=dedicated) and keep other threads off"
        " them (nova-perf plan shows them). Look for sleep states and interrupts that hold these"
        " CPUs up: nova-perf audit."
    ),
    _C.CHECK_MEMORY: (
        "See where the guest's memory lies (numastat -c qemu): on the nodes of its vCPUs"
        " (hw:numa_nodes), in huge pages (hw:mem_page_size=large). Look for guests that load the"
        " memory of the same node."
    ),
    _C.CHECK_NETWORK: (
        "Look for a rate limit: tc qdisc show dev TAP, virsh domiftune DOMAIN TAP, quota:vif_* of"
        " the flavor, QoS policies of the port. Compare queues and offloads inside the guest with"
        " what was asked for ('Settings in force' in the report)."
    ),
    _C.CHECK_DISK: (
        "Look for a limit: virsh blkdeviotune DOMAIN DISK, quota:disk_* of the flavor. Compare"
        " cache mode, I/O threads and disk queues of the arms ('Settings in force' in the report)."
    ),
    _C.CHECK_HOST_CPU: (
        "See which class of CPU the host spends ('Host CPU by class' in the report); nova-perf"
        " plan shows where its threads run."
    ),
    _C.CHECK_HOST: (
        "'{arm}' is the host itself: nova-perf audit shows what the host gets wrong, nova-perf"
        " interference which work ran on the CPUs that are to be quiet."
    ),
    _C.CHECK_WHERE_FILES_COME_FROM: (
        "The files do not say where '{arm}' was measured. Run nova-perf audit on its host;"
        " nova-perf validate measures the arms side by side, and what the host does meanwhile."
    ),
    _C.MEASURE_PARTS: (
        "This benchmark loads several things at once: also measure --benchmark cpu, --benchmark"
        " iperf3 and --benchmark fio, and see which of them loses as well."
    ),
    _C.ABLATE: (
        "'{arm}' and '{baseline}' are guests of one host that differ in their specs: leave a spec"
        " out and measure again; nova-perf validate --ablation finds the one that costs."
    ),
    _C.MORE_BOOTS: lambda params: (
        f"{_boots(params)} Measure the smallest loss that this host can show: nova-perf validate"
        " --noise-floor."
    ),
    _C.MORE_FILES: (
        "Measure more runs, those of several arms in turn, and judge all files: the interval"
        " narrows with the number of boots."
    ),
    _C.PUBLISH: (
        "Let the scheduler know: openstack perf publish RESULTS.json, or nova-perf publish on"
        " each host (with the --budget and other options of this verdict)."
    ),
    _C.DISABLE_HOSTS: (
        "Take failing hosts out of service until they are repaired: openstack perf publish"
        " RESULTS.json --disable-on-fail (with the --budget and other options of this verdict)"
        " removes their traits and disables their nova-compute. Validate them again afterwards."
    ),
    _C.MORE_PEERS: (
        "Give these hosts more time or more peers (--blocks, --time-limit, --peers), best with"
        " --hosts for them alone and some that pass."
    ),
    _C.JUDGE_UNDER_KVM: (
        "The guests are emulated, so a comparison with the host measures the emulator and says"
        " nothing against the hosts. Judge them under KVM, or one arm against another."
    ),
    _C.SEE_TRIALS: "See in the report what happened to these trials, remove the cause and measure again.",
    _C.SEE_FILES: "The notes name the files of runs that failed: remove the cause and measure these again.",
    _C.JUDGE_ONE_WORKLOAD: (
        "Give only files of one workload, or measure all arms with the same options and the same"
        " version of the program."
    ),
    _C.MEASURE_SAME_WORK: (
        "Measure all arms again with the same parameters and the same version of the program."
    ),
    _C.WRITE_BUDGET: _write_budget,
    _C.CORRECT_BUDGET: "Correct the budget, or repair what is named and measure again.",
    _C.IMPROVED: lambda params: f"{percent(params['ratio'])} (better) {_change(params)}",
    _C.WORSENED: lambda params: f"{percent(params['ratio'])} (worse) {_change(params)}",
}
