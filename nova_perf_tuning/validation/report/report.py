# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that needs nothing else, and the same figures as JSON."""

import functools
import importlib.util
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nova_perf_tuning import printing, rules
from nova_perf_tuning.validation.judge import ablation, limits, statistics, verdict
from nova_perf_tuning.validation.measure import overhead
from nova_perf_tuning.validation.report import (
    charts,
    course,
    data,
    diagnosis,
    knob_rows,
    overview,
    reason_lines,
    summary,
    text,
)
from nova_perf_tuning.validation.results import messages, model
from nova_perf_tuning.validation.results.environment import Environment, RecordedArm
from nova_perf_tuning.validation.results.reasons import Reason

if TYPE_CHECKING:
    import jinja2

_SHOWN_TRIALS = 2000
#: Of a rule whose subject a host does not have.
_NOT_HERE = rules.NotApplicableError.code
#: Stacking order: what the guest does first, then what the host does for it.
_CLASSES = ("vcpu", "emulator", "iothread", "vhost", "worker", "total")
#: Of no process, and perhaps booked on the thread that was interrupted too: it is never added to
#: the others.
_BESIDE = "softirq"


def require_packages() -> None:
    """Raise ModuleNotFoundError before anything is measured if a report lacks a package."""
    for name in ("jinja2", "numpy", "scipy"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def as_json(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    judged: Sequence[verdict.Judgement],
    knobs: Sequence[ablation.Knob] = (),
    more_notes: Sequence[Reason] = (),
) -> dict[str, Any]:
    document = data.verdicts(results, judged, knobs)
    if not document["headline"]:
        document |= reason_lines.line("headline", [summary.headline(summaries)])
    document |= reason_lines.lines("notes", [*summary.notes(results, summaries), *more_notes])
    document |= reason_lines.lines("warnings", summary.warnings(results.environment))
    document["verdict"] = None
    if judged:
        document["verdict"] = verdict.overall(judged).value
    document["benchmarks"] = [data.benchmark(benchmark) for benchmark in summaries]
    document["environment"] = results.environment.to_dict()
    return document


def render(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    judged: Sequence[verdict.Judgement],
    knobs: Sequence[ablation.Knob] = (),
    *,
    recorded: bool = False,
    more_notes: Sequence[Reason] = (),
    remarks: Iterable[str] = (),
) -> str:
    """Return the HTML report, which has no script and loads nothing.

    All text from results is escaped.

    :param recorded: verdicts on hosts of a fleet are those of the file.
    :param more_notes: what is to be known besides what results say; :param remarks: of figures.
    """
    notes = [*summary.notes(results, summaries), *more_notes]
    environment = results.environment
    guests = [arm for arm in summary.arm_order(results) if arm != model.HOST]
    colours = {arm: f"arm{index % 4}" for index, arm in enumerate(guests)}
    colours[model.HOST] = "host"
    arms = [(arm, environment.arms.get(arm, RecordedArm())) for arm in guests]
    pairs = 0
    fleet_overview: overview.Overview | None = None
    host_figures: list[overview.HostFigure] = []
    if environment.fleet is not None:
        pairs = len(environment.fleet.pairs)
        fleet_overview, host_figures = overview.overview(results), overview.host_figures(results)
    boot = functools.partial(_boot, pairs=pairs)
    whole: verdict.Verdict | None = None
    if judged:
        whole = verdict.overall(judged)
    benchmarks: list[tuple[summary.BenchmarkSummary, charts.Chart | None, float]] = []
    courses: dict[str, Sequence[course.Panel]] = {}
    for benchmark in summaries:
        dots = _dots(benchmark, colours, boot, of_hosts=environment.fleet is not None)
        benchmarks.append((benchmark, dots, _full(benchmark)))
        courses[benchmark.label] = course.panels(benchmark, results.trials)
    failed = [trial for trial in results.trials if trial.value is None]
    primary = [trial for trial in results.trials if trial.primary]
    primary.sort(key=lambda trial: trial.order)
    files: dict[int, str] = {}
    if environment.unpaired:
        files = {trial.order: limits.file_of(trial, environment) for trial in results.trials}
    return _template("report.html.j2").render(
        environment=environment,
        files=files,
        boots_of_arms=_boots_of_arms(primary),
        names=list(environment.benchmarks),
        arm_names=summary.arm_order(results),
        alone=environment.launcher == "host",
        meaning=text.meaning(unpaired=bool(environment.unpaired)),
        recorded=recorded,
        overview=fleet_overview,
        host_figures=host_figures,
        differences=text.arm_differences(environment),
        host_states=text.host_states(environment),
        headline=_headline(environment, summaries),
        diagnosis=diagnosis.diagnose(results, judged),
        findings=diagnosis.guest_findings(results),
        knobs=knob_rows.rows(knobs),
        knob_head=knob_rows.HEAD,
        knob_summary=knob_rows.summary(knobs),
        aa=model.is_aa(environment),
        notes=list(map(messages.of, notes)),
        remarks=list(remarks),
        warnings=[messages.of(warning) for warning in summary.warnings(environment)],
        verdict=whole,
        judged=judged,
        gains=_gains(results, summaries, boot),
        compared=[f"{arm} over {baseline}" for arm, baseline in _compared(results, summaries)],
        benchmarks=benchmarks,
        stacked=_stacked,
        courses=courses,
        classes=_CLASSES,
        arms=arms,
        reasons=messages.lines,
        text=messages.of,
        colours=colours,
        facts=environment.to_dict(),
        failed=failed[:_SHOWN_TRIALS],
        failed_left_out=max(0, len(failed) - _SHOWN_TRIALS),
        boot=boot,
        rows=_SHOWN_TRIALS,
        cautions=text.cautions(summaries),
        trials=[(trial, overhead.cost(trial)) for trial in primary[:_SHOWN_TRIALS]],
        excluded={run: messages.of(why) for run, why in summary.excluded(summaries).items()},
        trial_count=len(primary),
    )


def render_audits(audits: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a page of audits of many hosts.

    :param audits: host -> what ``nova-perf audit -f json`` printed.
    """
    rank = {level.value: level.rank for level in rules.Level}
    worst: dict[str, dict[str, Any]] = {}  # rule -> host -> its worst finding
    severity: dict[str, int] = {}
    for host, audit in audits.items():
        for finding in audit["findings"]:
            rule, found = finding["rule"], rank[finding["level"]]
            of_rule = worst.setdefault(rule, {})
            if host not in of_rule or found >= rank[of_rule[host]["level"]]:
                of_rule[host] = finding
            severity[rule] = max(found, severity.get(rule, found))
    columns = sorted(worst, key=lambda rule: (-severity[rule], -len(worst[rule]), rule))
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, audit in audits.items():
        unknown = {row["rule"] for row in (*audit["unknown"], *audit["failed"])}
        elsewhere = {row["rule"] for row in audit["unknown"] if row["code"] == _NOT_HERE}
        levels: list[str] = []
        for rule in columns:
            if host in worst[rule]:
                levels.append(worst[rule][host]["level"])
            elif rule in elsewhere:
                levels.append("elsewhere")
            elif rule in unknown:
                levels.append("unknown")
            else:
                levels.append("clean")
        groups.setdefault(tuple(levels), []).append(host)

    def ranks(group: tuple[tuple[str, ...], list[str]]) -> list[int]:
        return [rank.get(level, -1) for level in group[0]]

    return _template("audits.html.j2").render(
        rules=[(rule, worst[rule]) for rule in columns],
        groups=sorted(groups.items(), key=ranks, reverse=True),
        count=len(audits),
    )


def _template(name: str) -> "jinja2.Template":
    return _environment().get_template(name)


@functools.cache  # it keeps what templates are compiled to
def _environment() -> "jinja2.Environment":
    import jinja2  # an extra: commands that have their help without it can show that

    def printable(value: Any) -> Any:
        if type(value) is str:  # text that is already escaped is of another type
            return printing.printable(value, "\n\t")
        return value

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nova_perf_tuning.validation.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=printable,
    )
    environment.globals.update(
        number=text.number,
        interval=text.interval,
        workloads=text.workloads,
        ratio=text.ratio,
        cpu_rows=text.cpu_rows,
        colour=_colour,
    )
    return environment


def _gains(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    name: Callable[[int], str],
) -> charts.Chart | None:
    """Return the chart of ratios between guest arms, a row per benchmark.

    :param name: returns what a boot is called.
    """
    compared = _compared(results, summaries)
    lines: list[charts.ChartLine] = []
    for benchmark in summaries:
        for pair in benchmark.comparisons:
            if pair.ratio is None or (pair.arm, pair.baseline) not in compared:
                continue
            label = benchmark.label
            if len(compared) > 1:
                label = f"{label}: {pair.arm}"
            dots = [(ratio, f"{name(boot)}: {ratio:.3f}") for boot, ratio in pair.values]
            gain = text.gain(pair.ratio)
            lines.append(charts.ChartLine(_colour(pair.ratio), label, gain, dots, pair.ratio))
    return charts.chart(lines, [1.0])


def _compared(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
) -> list[tuple[str, str]]:
    """Return which guests the chart of ratios compares, as (arm, baseline), each once.

    Those of an ablation have a table.
    """
    without = results.environment.ablation
    pairs: dict[tuple[str, str], None] = {}
    for benchmark in summaries:
        for pair in benchmark.comparisons:
            if pair.baseline != model.HOST and pair.arm not in without:
                pairs[pair.arm, pair.baseline] = None
    return list(pairs)


def _colour(ratio: statistics.Estimate) -> str:
    """Return the class of a ratio: for one that is certainly better, or worse."""
    if ratio.low is not None and ratio.low > 1:
        return "better"
    if ratio.high is not None and ratio.high < 1:
        return "worse"
    return "same"


def _dots(
    measured: summary.BenchmarkSummary,
    colours: Mapping[str, str],
    name: Callable[[int], str],
    *,
    of_hosts: bool,
) -> charts.Chart | None:
    """Return the chart of a benchmark's trials, a row per arm.

    :param of_hosts: the trials are of many hosts: a median over good and bad ones says nothing.
    """
    lines: list[charts.ChartLine] = []
    for arm in measured.arms:
        figure = "no figure"
        median = arm.median
        if of_hosts:
            figure = f"{arm.n} trials"
            median = None
        elif arm.median is not None:
            figure = f"{text.number(arm.median.value)} {measured.unit}"
        dots: list[tuple[float, str]] = []
        for boot, block, value in arm.values:
            shown = f"{text.number(value)} {measured.unit}"
            dots.append((value, f"{name(boot)}, block {block + 1}: {shown}"))
        lines.append(charts.ChartLine(colours[arm.arm], arm.arm, figure, dots, median))
    return charts.chart(lines)


def _stacked(arm: summary.ArmSummary) -> list[tuple[str, float]]:
    """Return the classes of a bar of host CPU, with CPUs that they kept busy."""
    others = sorted(arm.cpus.keys() - {*_CLASSES, _BESIDE})
    stacked: list[tuple[str, float]] = []
    for name in (*_CLASSES, *others):
        if name in arm.cpus:
            stacked.append((name, arm.cpus[name]))
    return stacked


def _headline(environment: Environment, summaries: Sequence[summary.BenchmarkSummary]) -> str:
    """Return what the comparison of guests shows; empty where nobody asked for one."""
    if environment.fleet is not None and not summary.has_ratios(summaries):
        return ""
    if environment.unpaired and not any(benchmark.comparisons for benchmark in summaries):
        return ""
    return messages.of(summary.headline(summaries))


def _boots_of_arms(trials: Sequence[model.Trial]) -> list[tuple[str, int, int]]:
    """Return each arm with the number of its boots and of its runs."""
    boots: dict[str, list[int]] = {}
    for trial in trials:
        boots.setdefault(trial.arm, []).append(trial.boot)
    return [(arm, len(set(of_arm)), len(of_arm)) for arm, of_arm in boots.items()]


def _full(measured: summary.BenchmarkSummary) -> float:
    """Return what the full width of a benchmark's bars stands for."""
    longest = 0.0
    for arm in measured.arms:
        longest = max(longest, sum(max(0.0, value) for _, value in _stacked(arm)))
    return longest


def _boot(boot: int, pairs: int) -> str:
    """Return what a boot is called.

    In a fleet of ``pairs`` each is the boot of one, or of its server alone.
    """
    if not pairs:
        return f"boot {boot + 1}"
    if boot >= pairs:
        return f"pair {boot % pairs + 1} (its server alone)"
    return f"pair {boot + 1}"
