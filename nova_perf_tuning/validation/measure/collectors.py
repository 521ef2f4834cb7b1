# SPDX-License-Identifier: Apache-2.0
"""Tools that watch the host during trials; each is a small class found by an entry point.

What one collects lies in a JSON file beside the results. The trial names its collectors, since
they cost CPU: compare it with trials that had the same ones.
"""

import abc
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final

from nova_perf_tuning import atomic_write, bounded_json, errors
from nova_perf_tuning.host.interference import tables
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import results_file

NAMESPACE: Final = "nova_perf_tuning.collectors"
#: Beside the results; a file is called ORDER-KIND.json, after :attr:`.model.Trial.order`.
DIRECTORY: Final = "collected"
#: How long a tool may take to end, in seconds.
_LIMIT_S: Final = 10.0
#: Ends a collector and returns what it collected, as JSON has it.
Stop = Callable[[], Mapping[str, object]]


class CollectorError(errors.PerfTuningError):
    """A collector is unknown, cannot work on this host, or failed."""


class Collector(abc.ABC):
    """One tool; :cvar kind: its name on the command line and of the entry point."""

    kind: ClassVar[str]

    def check(self) -> None:
        """Say before the run whether it works on this host; CollectorError: why not."""
        return

    @abc.abstractmethod
    def start(self) -> Stop:
        """Begin, before the program of a trial starts, and return what ends it and gives what was collected."""


class Interrupts(Collector):
    """Interrupts and softirqs that each CPU served (proc_interrupts(5)); what did not occur is left out."""

    kind = "interrupts"

    def start(self) -> Stop:
        before = self.read()

        def stop() -> Mapping[str, object]:
            grown = {}
            for name, table in self.read().items():
                grown[name] = list(_growth(before[name], table))
            return grown

        return stop

    def read(self) -> dict[str, dict[str, tuple[str, dict[int, int]]]]:
        """Return both tables, see :func:`.tables.parse_counts`."""
        found = {}
        for name in ("interrupts", "softirqs"):
            text = pathlib.Path("/proc", name).read_text("ascii", "replace")
            found[name] = tables.parse_counts(text)
        return found


def _growth(
    before: Mapping[str, tuple[str, Mapping[int, int]]],
    after: Mapping[str, tuple[str, Mapping[int, int]]],
) -> Iterator[dict[str, object]]:
    """Yield each interrupt that occurred, with CPU -> how often."""
    for name, (about, counts) in after.items():
        _about, old = before.get(name, ("", {}))
        grown = {}
        for cpu, count in counts.items():
            added = count - old.get(cpu, 0)
            if added > 0:
                grown[str(cpu)] = added
        if grown:
            yield {"name": name, "about": about, "cpus": grown}


class PerfStat(Collector):
    """``perf stat`` over all CPUs; where virtual machines hide the hardware's counters those are null."""

    kind = "perf"
    _EVENTS: Final = (
        "cycles,instructions,cache-misses,context-switches,cpu-migrations,page-faults,task-clock"
    )
    _ARGV: Final = ("perf", "stat", "--all-cpus", "--json-output", "--event", _EVENTS)

    def check(self) -> None:
        try:
            launch.call([*self._ARGV, "true"])
        except (launch.LaunchError, OSError) as error:
            why = f"perf stat does not work on this host; install linux-perf or leave it out: {one_line(error)}"
            raise CollectorError(why) from None

    def start(self) -> Stop:
        popen = subprocess.Popen(
            [*self._ARGV, "cat"],  # which ends with its input, also when this process is killed
            env=launch.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

        def stop() -> Mapping[str, object]:
            try:
                return {"events": list(parse_perf(popen.communicate(timeout=_LIMIT_S)[1]))}
            finally:
                popen.kill()

        return stop


def parse_perf(text: str) -> Iterator[dict[str, object]]:
    """Yield the events of ``perf stat --json-output``, counted in so much of the time; null: not at all."""
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        row = bounded_json.parse(line)
        value = None
        if re.fullmatch(r"[0-9.]+", row["counter-value"]):
            value = float(row["counter-value"])
        yield {
            "event": row["event"],
            "value": value,
            "unit": row["unit"],
            "running_percent": row["pcnt-running"],
        }


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """The collectors of a run.

    :ivar output: the open directory of results.json; None: there are no collectors. Its owner may
        put links there during the run: what is written stays below it, see
        :mod:`nova_perf_tuning.atomic_write`.
    """

    kinds: tuple[type[Collector], ...] = ()
    output: atomic_write.Directory | None = None

    @contextlib.contextmanager
    def around(self, order: int, about: Mapping[str, object]) -> Iterator[None]:
        """Collect during a trial and write a file for each; one that fails has its error there."""
        begun = {kind.kind: _begun(kind) for kind in self.kinds}
        try:
            yield
        finally:
            ended = {name: _ended(started) for name, started in begun.items()}
        if self.output is None or not ended:
            return
        with self.output.below(DIRECTORY) as directory:
            for name, collected in ended.items():
                document = {"collector": name, "order": order, **about, **collected}
                path = os.path.join(directory.path, f"{order:05d}-{name}.json")
                text = json.dumps(document, ensure_ascii=False, default=str) + "\n"
                results_file.write_atomically(path, text, directory)


def attach(kinds: Sequence[str], output: str) -> Attachment:
    """Return the collectors of these kinds for a run, yet without the open directory ``output``.

    :raises CollectorError: one is unknown or does not work on this host, or the output is of
        another run.
    """
    known, directory = plugins.installed(NAMESPACE), os.path.join(output, DIRECTORY)
    for kind in kinds:
        if kind not in known:
            raise CollectorError(plugins.why_absent(NAMESPACE, "collector", kind))
        known[kind]().check()
    if kinds and os.path.lexists(directory):
        raise CollectorError(
            f"{directory} is of an earlier run; remove it or give another --output"
        )
    return Attachment(tuple(known[kind] for kind in dict.fromkeys(kinds)))


def _begun(kind: type[Collector]) -> Mapping[str, Any]:
    return _guarded(lambda: {"stop": kind().start()})


def _ended(started: Mapping[str, Any]) -> Mapping[str, Any]:
    if "stop" not in started:
        return started
    return _guarded(lambda: {"data": started["stop"]()})


def _guarded(call: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return what ``call`` returns, or its error: a trial is worth more than its tools."""
    try:
        return call()
    except Exception as error:
        return {"error": one_line(error, 300)}
