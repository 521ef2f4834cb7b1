# SPDX-License-Identifier: Apache-2.0
"""Results out of files that benchmark programs have written elsewhere, one run a file.

Nothing in such files says which runs of two arms belong together, so the arms are compared as
independent samples of boots. Files of different workloads are not compared.
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning import bounded_read, rules
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import base, pasted, recognition
from nova_perf_tuning.validation.judge import workloads
from nova_perf_tuning.validation.results import model, schema
from nova_perf_tuning.validation.results.environment import (
    Environment,
    RecordedArm,
    RecordedBenchmark,
)
from nova_perf_tuning.validation.results.reasons import Reason, reason
from nova_perf_tuning.validation.results.reasons import ReasonCode as _C

#: Of several runs in one output: ``run2_loops``.
_NUMBERED: Final = re.compile(r"run[0-9]+_")
#: What a command line says of the workload, where the report does not repeat it.
_OPTIONS: Final[Mapping[str, Sequence[str]]] = {
    "interval": ("-i", "--interval"),
    "priority": ("-p", "--priority", "--prio", "-f", "--rtprio"),
    "policy": ("--policy",),
    "kind of work": ("-w", "--workload"),
}
_OPERANDS: Final = ("bs", "ibs", "obs", "count", "oflag", "iflag", "conv")
#: Outputs of so many characters are not the same in two runs; a line or two may be, at line rate.
_LONG: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True)
class ArmFiles:
    """The files of one arm.

    :ivar boots: the files of each boot; :ivar files_are_boots: each file was taken as a boot.
    """

    name: str
    boots: Sequence[Sequence[str]]
    files_are_boots: bool = False

    @property
    def files(self) -> list[str]:
        return [file for boot in self.boots for file in boot]


@dataclasses.dataclass(slots=True)
class Outputs:
    """What files say.

    :ivar workload: what is the same in all of them; :ivar remarks: what to know of their figures.
    :ivar mixed: that they are of different workloads; None: of one.
    :ivar notes: on how they were taken.
    """

    results: model.Results
    workload: dict[str, str] = dataclasses.field(default_factory=dict)
    remarks: dict[str, None] = dataclasses.field(default_factory=dict)
    mixed: Reason | None = None
    notes: list[Reason] = dataclasses.field(default_factory=list)


@dataclasses.dataclass(frozen=True, slots=True)
class _Run:
    """One file; :ivar error: what the benchmark itself says of why it failed."""

    file: str
    text: str
    report: base.BenchmarkReport
    seconds: float = 0.0
    error: str | None = None


def read(kind: str, arms: Sequence[ArmFiles]) -> Outputs:
    """Return the results that files of a benchmark's output make, with what must be known of them.

    :raises plugins.UnknownBenchmarkError: no such benchmark or tool is read.
    :raises schema.InputError: files that cannot be read or that another program has written, or a
        run that is given twice: the first fault, and the names or the number of the others.
    """
    benchmark = recognition.load_reader(kind)
    runs = _runs(benchmark, arms)
    good = [run for run in runs.values() if run.error is None]
    outputs = Outputs(_results(benchmark, arms, runs))
    outputs.mixed = _mixed(good)
    if good:
        outputs.workload = _common(good)
    # The benchmark's own summary is of the work that it does by default.
    recorded = RecordedBenchmark(benchmark.kind, parameters=outputs.workload)
    outputs.results.environment.benchmarks = {benchmark.kind: recorded}
    for run in good:
        outputs.remarks.update(dict.fromkeys(run.report.remarks.values()))
    taken = [arm.name for arm in arms if arm.files_are_boots and len(arm.boots) > 1]
    if taken:
        outputs.notes.append(reason(_C.FILES_AS_BOOTS, arms=taken))
    outputs.notes += _unsaid(good)
    failed: dict[str, list[str]] = {}
    for run in runs.values():
        if run.error is not None:
            failed.setdefault(run.error, []).append(run.file)
    for fault, files in failed.items():
        outputs.notes.append(reason(_C.UNREAD_FILE, files=files, error=fault))
    return outputs


def _runs(benchmark: base.Benchmark, arms: Sequence[ArmFiles]) -> dict[str, _Run]:
    """Return what each file says; InputError: as :func:`read`."""
    faults: dict[str, list[str]] = {}
    again: list[str] = []
    runs: dict[str, _Run] = {}
    for file in (file for arm in arms for file in arm.files):
        if file in runs:
            again.append(file)
            continue
        try:
            runs[file] = _run(benchmark, file)
        except schema.InputError as error:
            faults.setdefault(str(error), []).append(file)
    if faults:
        raise schema.InputError(_folded(benchmark.kind, faults))
    if again:
        raise schema.InputError(f"{rules.named(again)}: given twice; a run counts once")
    copies = [f"{run.file}: is a copy of {other.file}" for run, other in _copies(runs.values())]
    if copies:
        raise schema.InputError(f"{rules.named(copies)}; a run counts once, so leave one out")
    return runs


def _folded(kind: str, faults: Mapping[str, Sequence[str]]) -> str:
    """Return faults as one line: the first with its files, and the first names of the others.

    :param kind: of the benchmark; :param faults: what is wrong -> files.
    """
    (fault, files), *others = faults.items()
    line = f"{rules.named(files)}: {fault}"
    more: list[str] = []
    for _, of_fault in others:
        more += of_fault
    if more:
        line += f"; not read either: {rules.named(more)} ('nova-perf bench parse {kind} FILE' says why)"
    return line


def _run(benchmark: base.Benchmark, file: str) -> _Run:
    """Read a file; InputError, without its name: it cannot be read, is cut off, or of another program."""
    try:
        data = bounded_read.read_argument(file, base.MAX_CHARACTERS)
    except OSError as error:
        raise schema.InputError(error.strerror) from None
    text = pasted.decode(data)
    try:
        report = recognition.report(benchmark, text)
    except base.BenchmarkOutputError as error:
        fault = one_line(error, 300)
        other = _printed_by(text)
        if other and other != benchmark.kind:
            fault = f"is an output of '{other}', not of '{benchmark.kind}' ({fault})"
        elif isinstance(error, base.FailedRunError):
            return _Run(file, text, base.BenchmarkReport(), error=fault)
        raise schema.InputError(fault) from None
    return _Run(file, text, report, _seconds(benchmark, text, report))


def _printed_by(text: str) -> str:
    """Return the kind of the benchmark that can read an output; empty: there is none."""
    try:
        return recognition.recognise(text).kind
    except base.BenchmarkOutputError:
        return ""


def _seconds(benchmark: base.Benchmark, text: str, report: base.BenchmarkReport) -> float:
    """Return how long a run measured; 0: it is not known."""
    try:
        span = benchmark.checked_span(text)
    except base.BenchmarkOutputError:  # not every form says when it ran
        span = None
    if span is not None:
        return span.seconds
    for name in ("seconds", "seconds asked for"):
        seconds = pasted.seconds(report.workload.get(name))
        if seconds is not None:
            return seconds
    return 0.0


def _copies(runs: Iterable[_Run]) -> Iterator[tuple[_Run, _Run]]:
    """Yield runs that stand in two files, with the first one: copies would pass for replicates."""
    first: dict[str, _Run] = {}
    for run in runs:
        other = first.setdefault(run.text, run)
        if other is not run and len(run.text) >= _LONG:
            yield run, other


def _results(
    benchmark: base.Benchmark, arms: Sequence[ArmFiles], runs: Mapping[str, _Run]
) -> model.Results:
    trials: list[model.Trial] = []
    files: dict[str, str] = {}
    for arm in arms:
        for boot, boot_files in enumerate(arm.boots):
            for block, file in enumerate(boot_files):
                order = len(files)
                files[str(order)] = file
                run = runs[file]
                trial = _trial(benchmark, run, arm.name, order)
                trial.boot, trial.block = boot, block
                work = benchmark.work_metric
                trials += model.figures(trial, run.report.readings, work)
    environment = Environment(
        launcher="files",
        unpaired=True,
        arms={arm.name: RecordedArm() for arm in arms},
        shown={"files": files},
    )
    return model.Results(environment, trials)


def _trial(benchmark: base.Benchmark, run: _Run, arm: str, order: int) -> model.Trial:
    """Return a run that has no figure yet."""
    metric, unit, better = benchmark.primary
    failure = ""
    if run.error is not None:
        failure = model.TrialFailure.OUTPUT
    return model.Trial(
        benchmark=benchmark.kind,
        metric=metric,
        unit=unit,
        better=better,
        arm=arm,
        boot=0,
        block=0,
        value=None,
        host_cpu_s={},
        guest_cpu_s=None,
        window_s=run.seconds,
        order=order,
        error=run.error,
        failure=failure,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _Work:
    """What the outputs of several runs say of their work, side by side.

    :ivar named: name -> file -> value, of those that name it; :ivar implied: the same of what they
        say by not naming it.
    :ivar options: of the commands that some have: option -> file -> value, empty where it is not given.
    """

    files: Sequence[str]
    named: Mapping[str, Mapping[str, str]]
    implied: Mapping[str, Mapping[str, str]]
    options: Mapping[str, Mapping[str, str]]

    @classmethod
    def of(cls, runs: Sequence[_Run]) -> "_Work":
        named: dict[str, dict[str, str]] = {}
        implied: dict[str, dict[str, str]] = {}
        options: dict[str, dict[str, str]] = {}
        for run in runs:
            own = _named(run.report)
            for name, value in own.items():
                named.setdefault(name, {})[run.file] = value
            for name, value in _implied(run.report).items():
                if name not in own:
                    implied.setdefault(name, {})[run.file] = value
            command = _command(run.report)
            if command:
                for name, value in _of_command(command).items():
                    options.setdefault(name, {})[run.file] = value
        return cls([run.file for run in runs], named, implied, options)

    def differing(self) -> dict[str, dict[str, str]]:
        """Return what differs between files that say it: name -> value -> first file."""
        found: dict[str, dict[str, str]] = {}
        for name in (*self.named, *(name for name in self.implied if name not in self.named)):
            said = {**self.named.get(name, {}), **self.implied.get(name, {})}
            found[name] = self._distinct(name, said)
        for name, values in self.options.items():
            found.setdefault(name, self._distinct(name, values))
        return {name: values for name, values in found.items() if len(values) > 1}

    def unsaid(self) -> dict[tuple[str, ...], list[str]]:
        """Return what some files say and others do not: the others -> names."""
        found: dict[tuple[str, ...], list[str]] = {}
        for name, values in self.named.items():
            known = values.keys() | self.implied.get(name, {}).keys()
            silent = tuple(file for file in self.files if file not in known)
            if silent:
                found.setdefault(silent, []).append(name)
        return found

    def _distinct(self, name: str, values: Mapping[str, str]) -> dict[str, str]:
        seen: set[str] = set()
        first: dict[str, str] = {}
        for file in self.files:
            if file not in values:
                continue
            compared = workloads.compared(name.rpartition(": ")[2], values[file])
            if compared not in seen:
                seen.add(compared)
                first[values[file]] = os.path.basename(file)
        return first


def _mixed(runs: Sequence[_Run]) -> Reason | None:
    """Return in what the workloads of runs differ; None: in nothing that they say."""
    differing = _Work.of(runs).differing() | _other_units(runs)
    if not differing:
        return None
    first, *others = differing
    return reason(_C.MIXED_WORKLOADS, name=first, by_file=differing[first], others=others)


def _unsaid(runs: Sequence[_Run]) -> list[Reason]:
    """Return which files do not say what others say of the work."""
    notes: list[Reason] = []
    for files, names in _Work.of(runs).unsaid().items():
        shown = [os.path.basename(file) for file in files]
        notes.append(reason(_C.NOT_SAID, names=names, files=shown))
    return notes


def _common(runs: Sequence[_Run]) -> dict[str, str]:
    """Return what is the same in all runs that say it; lengths only where all say the same."""
    common: dict[str, str] = {}
    works = [run.report.workload for run in runs]
    differing = _Work.of(runs).differing()
    names: dict[str, None] = {}
    for work in works:
        names.update(dict.fromkeys(work))
    for name in names:
        said = [work[name] for work in works if name in work]
        if name in differing:
            continue
        compared = {workloads.compared(name, value) for value in said}
        if name in workloads.NOT_COMPARED and (len(said) < len(works) or len(set(said)) > 1):
            continue
        if len(compared) == 1:
            common[name] = said[0]
    return common


def _other_units(runs: Sequence[_Run]) -> dict[str, dict[str, str]]:
    """Return the figures that have several units: what -> unit -> file."""
    units: dict[str, dict[str, str]] = {}
    for run in runs:
        for reading in run.report.readings:
            of_metric = units.setdefault(f"the unit of {reading.metric}", {})
            of_metric.setdefault(reading.unit, os.path.basename(run.file))
    return {name: files for name, files in units.items() if len(files) > 1}


def _named(report: base.BenchmarkReport, prefix: str = "") -> dict[str, str]:
    """Return what an output names of its work and has to be the same in all runs: name -> value."""
    workload: dict[str, str] = {}
    for name, value in report.workload.items():
        bare = _NUMBERED.sub("", name)
        if name not in report.parts and bare not in workloads.NOT_COMPARED:
            workload[f"{prefix}{name}"] = value
    for name, part in report.parts.items():
        workload |= _named(part, f"{name}: ")
    return workload


def _implied(report: base.BenchmarkReport) -> dict[str, str]:
    """Return what an output says of its work by not naming it."""
    implied = dict(report.implied)
    for prefix, part in report.parts.items():
        for name, value in part.implied.items():
            implied[f"{prefix}: {name}"] = value
    return implied


def _command(report: base.BenchmarkReport) -> str:
    """Return the commands of a run; empty: the output has none."""
    commands: list[str] = []
    for name, value in report.workload.items():
        if _NUMBERED.sub("", name) == "command":
            commands.append(value)
    for part in report.parts.values():
        commands.append(_command(part))
    return " ".join(filter(None, commands))


def _of_command(command: str) -> dict[str, str]:
    """Return the options of a command that make the work; empty: it does not have that one."""
    words = command.split()
    found: dict[str, str] = {}
    for name, spellings in _OPTIONS.items():
        found[name] = pasted.option(words, *spellings) or ""
    found.update(dict.fromkeys(_OPERANDS, ""))
    for word in words:
        key, equals, value = word.partition("=")
        if equals and key in _OPERANDS:
            found[key] = value
    return found
