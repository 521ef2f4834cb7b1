# SPDX-License-Identifier: Apache-2.0
"""The report: one HTML file that needs nothing else, and the same figures as JSON."""

import functools
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nova_perf_tuning import printing, rules
from nova_perf_tuning.validation import environment as environments
from nova_perf_tuning.validation.judge import ablation, statistics, verdict
from nova_perf_tuning.validation.measure import model, overhead
from nova_perf_tuning.validation.report import charts, course, data, diagnosis, overview, summary, text

if TYPE_CHECKING:
    import jinja2

_SHOWN_TRIALS = 2000
#: Stacking order: what the guest does first, then what the host does for it.
_CLASSES = ("vcpu", "emulator", "iothread", "vhost", "worker", "total")
#: Of no process, and perhaps booked on the thread that was interrupted too: it is never added to the others.
_BESIDE = "softirq"


def require_packages() -> None:
    """Raise ModuleNotFoundError now, not after hours of measuring, if a package that a report needs is missing."""
    for name in ("jinja2", "numpy", "scipy"):
        if importlib.util.find_spec(name) is None:
            raise ModuleNotFoundError(f"No module named '{name}'", name=name)


def as_json(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    judged: Sequence[verdict.Judgement],
    knobs: Sequence[ablation.Knob] = (),
) -> dict[str, Any]:
    document = data.verdicts(results, judged, knobs)
    if not document["headline"]:
        document |= data.line("headline", [summary.headline(summaries)])
    return {
        **document,
        **data.lines("notes", summary.notes(results, summaries)),
        **data.lines("warnings", summary.warnings(results.environment)),
        "verdict": verdict.overall(judged).value if judged else None,
        "benchmarks": [data.benchmark(benchmark) for benchmark in summaries],
        "environment": environments.to_dict(results.environment),
    }


def render(
    results: model.Results,
    summaries: Sequence[summary.BenchmarkSummary],
    judged: Sequence[verdict.Judgement],
    knobs: Sequence[ablation.Knob] = (),
    *,
    recorded: bool = False,
) -> str:
    """Return the HTML report. All text from results is escaped; it has no script and loads nothing.

    :param recorded: verdicts on hosts of a fleet are those of the file.
    """
    arms = summary.arm_order(results)
    guests = [arm for arm in arms if arm != model.HOST]
    colours = {model.HOST: "host"} | {arm: f"arm{index % 4}" for index, arm in enumerate(guests)}
    fleet = results.environment.fleet
    boot = functools.partial(_boot, pairs=len(fleet.pairs) if fleet else 0)
    trials = sorted(results.trials, key=lambda trial: trial.order)
    failed = [trial for trial in results.trials if trial.value is None]
    return _template("report.html.j2").render(
        environment=results.environment,
        recorded=recorded,
        overview=overview.overview(results) if fleet else None,
        headline=text.of(summary.headline(summaries)),
        diagnosis=diagnosis.diagnose(results, judged),
        findings=diagnosis.guest_findings(results),
        knobs=text.knob_rows(knobs),
        knob_head=text.KNOB_HEAD,
        knob_summary=text.knob_summary(knobs),
        aa=summary.is_aa(results.environment),
        notes=[text.of(note) for note in summary.notes(results, summaries)],
        warnings=[text.of(warning) for warning in summary.warnings(results.environment)],
        verdict=verdict.overall(judged) if judged else None,
        judged=judged,
        gains=_gains(results, summaries, boot),
        compared=[f"{arm} over {baseline}" for arm, baseline in _compared(results, summaries)],
        benchmarks=[(benchmark, _dots(benchmark, colours, boot), _full(benchmark)) for benchmark in summaries],
        stacked=_stacked,
        courses={benchmark.label: course.panels(benchmark, results.trials) for benchmark in summaries},
        classes=_CLASSES,
        arms=[(arm, results.environment.arms.get(arm, environments.Arm())) for arm in guests],
        reasons=text.lines,
        text=text.of,
        colours=colours,
        facts=environments.to_dict(results.environment),
        failed=failed[:_SHOWN_TRIALS],
        failed_left_out=max(0, len(failed) - _SHOWN_TRIALS),
        boot=boot,
        rows=_SHOWN_TRIALS,
        cautions=text.cautions(summaries),
        trials=[(trial, overhead.cost(trial)) for trial in trials if trial.primary][:_SHOWN_TRIALS],
        excluded={run: text.of(why) for run, why in summary.excluded(summaries).items()},
        trial_count=sum(trial.primary for trial in trials),
    )


def render_audits(audits: Mapping[str, Mapping[str, Any]]) -> str:
    """Return a page of audits of many hosts; :param audits: host -> what ``nova-perf audit -f json`` printed."""
    rank = {level.value: level.rank for level in rules.Level}
    worst: dict[str, dict[str, Any]] = {}
    for host, audit in audits.items():
        for finding in sorted(audit["findings"], key=lambda finding: rank[finding["level"]]):
            worst.setdefault(finding["rule"], {})[host] = finding
    severity = {rule: max(rank[finding["level"]] for finding in found.values()) for rule, found in worst.items()}
    columns = sorted(worst, key=lambda rule: (-severity[rule], -len(worst[rule]), rule))
    groups: dict[tuple[str, ...], list[str]] = {}
    for host, audit in audits.items():
        unknown = {row["rule"] for row in (*audit["unknown"], *audit["failed"])}
        levels = (
            worst[rule][host]["level"] if host in worst[rule] else "unknown" if rule in unknown else "clean"
            for rule in columns
        )
        groups.setdefault(tuple(levels), []).append(host)
    ordered = sorted(groups.items(), key=lambda group: [rank.get(level, -1) for level in group[0]], reverse=True)
    return _template("audits.html.j2").render(
        rules=[(rule, worst[rule]) for rule in columns], groups=ordered, count=len(audits)
    )


def _template(name: str) -> "jinja2.Template":
    import jinja2  # an extra: commands that have their help without it can show that

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nova_perf_tuning.validation.report"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printing.printable(value, "\n\t") if type(value) is str else value,
    )
    environment.globals.update(number=text.number, interval=text.interval, ratio=text.ratio, colour=_colour)
    return environment.get_template(name)


def _gains(
    results: model.Results, summaries: Sequence[summary.BenchmarkSummary], name: Callable[[int], str]
) -> charts.Chart | None:
    """Return the chart of ratios between guest arms, a row per benchmark; :param name: of a boot."""
    pairs = dict.fromkeys(_compared(results, summaries))
    return charts.chart(
        [
            charts.Line(
                _colour(pair.ratio),
                benchmark.label if len(pairs) == 1 else f"{benchmark.label}: {pair.arm}",
                text.gain(pair.ratio),
                [(ratio, f"{name(boot)}: {ratio:.3f}") for boot, ratio in pair.values],
                pair.ratio,
            )
            for benchmark in summaries
            for pair in benchmark.comparisons
            if (pair.arm, pair.baseline) in pairs and pair.ratio is not None
        ],
        [1.0],
    )


def _compared(results: model.Results, summaries: Sequence[summary.BenchmarkSummary]) -> list[tuple[str, str]]:
    """Return which guests the chart of ratios compares, as (arm, baseline); those of an ablation have a table."""
    pairs = [(pair.arm, pair.baseline) for benchmark in summaries for pair in benchmark.comparisons]
    without = results.environment.ablation
    return [pair for pair in dict.fromkeys(pairs) if pair[1] != model.HOST and pair[0] not in without]


def _colour(ratio: statistics.Estimate) -> str:
    """Return the class of a ratio: for one that is certainly better, or worse."""
    if ratio.low is None or ratio.high is None or ratio.low <= 1 <= ratio.high:
        return "same"
    return "better" if ratio.low > 1 else "worse"


def _dots(
    measured: summary.BenchmarkSummary, colours: Mapping[str, str], name: Callable[[int], str]
) -> charts.Chart | None:
    return charts.chart(
        [
            charts.Line(
                colours[arm.arm],
                arm.arm,
                f"{text.number(arm.median.value)} {measured.unit}" if arm.median else "no figure",
                [
                    (value, f"{name(boot)}, block {block + 1}: {text.number(value)} {measured.unit}")
                    for boot, block, value in arm.values
                ],
                arm.median,
            )
            for arm in measured.arms
        ]
    )


def _stacked(arm: summary.ArmSummary) -> list[tuple[str, float]]:
    """Return the classes of a bar of host CPU, with CPUs that they kept busy."""
    known = [name for name in _CLASSES if name in arm.cpus]
    return [(name, arm.cpus[name]) for name in (*known, *sorted(arm.cpus.keys() - {*known, _BESIDE}))]


def _full(measured: summary.BenchmarkSummary) -> float:
    """Return what the full width of a benchmark's bars stands for."""
    return max((sum(max(0.0, value) for _, value in _stacked(arm)) for arm in measured.arms), default=0.0)


def _boot(boot: int, pairs: int) -> str:
    """Return what a boot is called; in a fleet of ``pairs`` each is the boot of one, or of its server alone."""
    if not pairs:
        return f"boot {boot + 1}"
    return f"pair {boot % pairs + 1}{' (its server alone)' if boot >= pairs else ''}"
