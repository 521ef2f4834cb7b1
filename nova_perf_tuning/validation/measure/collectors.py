# SPDX-License-Identifier: Apache-2.0
"""Tools that watch the host during trials; each is a small class found by an entry point.

What one collects lies in a JSON file beside the results. The trial names its collectors, since they cost CPU:
compare it with trials that had the same ones.
"""

import abc
import contextlib
import dataclasses
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Final

from nova_perf_tuning import errors
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.launch import base as launch
from nova_perf_tuning.validation.measure import store

NAMESPACE: Final = "nova_perf_tuning.collectors"
#: Beside the results; a file is called ORDER-KIND.json, after :attr:`.model.Trial.order`.
DIRECTORY: Final = "collected"
#: How long a tool may take to start, or to end once it is told to, in seconds.
_LIMIT_S: Final = 10.0


class CollectorError(errors.PerfTuningError):
    """A collector is unknown, cannot work on this host, or failed."""


class Collector(abc.ABC):
    """One tool; a new object is made for each trial.

    :cvar kind: its name on the command line and of the entry point.
    """

    kind: ClassVar[str]
    summary: ClassVar[str]

    def check(self) -> None:
        """Say before the run whether it works on this host; CollectorError: why not."""
        return

    @abc.abstractmethod
    def start(self) -> None:
        """Begin to collect; the program of the trial starts next."""

    @abc.abstractmethod
    def stop(self) -> Mapping[str, object]:
        """End and return what was collected, as JSON has it; it is called once after :meth:`start`."""


class Interrupts(Collector):
    """Interrupts and softirqs that each CPU served (proc_interrupts(5)); what did not occur is left out."""

    kind = "interrupts"
    summary = "interrupts and softirqs by CPU, from /proc/interrupts and /proc/softirqs"

    def start(self) -> None:
        self._before = self._read()

    def stop(self) -> Mapping[str, object]:
        return {
            name: [
                {"name": key, "about": about, "cpus": grown}
                for key, (about, counts) in now.items()
                if (grown := _growth(self._before[name].get(key, ("", {}))[1], counts))
            ]
            for name, now in self._read().items()
        }

    def _read(self) -> dict[str, dict[str, tuple[str, dict[str, int]]]]:
        tables = {}
        for name in ("interrupts", "softirqs"):
            with open(f"/proc/{name}", encoding="ascii", errors="replace") as file:
                tables[name] = parse_counts(file.read())
        return tables


def parse_counts(text: str) -> dict[str, tuple[str, dict[str, int]]]:
    """Return interrupt -> what it is, and CPU -> count, of a table as the kernel prints it.

    A line has fewer counts than there are CPUs where it has one for all of them (``ERR``).
    """
    head, *lines = text.splitlines() or [""]
    cpus = [name.removeprefix("CPU") for name in head.split()]
    table = {}
    for line in lines:
        name, _, rest = line.partition(":")
        words = rest.split()
        counts = [int(word) for word in words[: len(cpus)] if word.isdigit()]
        if len(counts) == len(cpus):
            about = " ".join(words[len(cpus) :])
            table[name.strip()] = about, dict(zip(cpus, counts, strict=True))
    return table


def _growth(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    return {cpu: count - before.get(cpu, 0) for cpu, count in after.items() if count > before.get(cpu, 0)}


class PerfStat(Collector):
    """``perf stat`` over all CPUs; where virtual machines hide the hardware's counters those are null."""

    kind = "perf"
    summary = "perf stat over all CPUs: cycles, instructions, cache misses, switches, migrations, faults"
    _ARGV: Final = ("perf", "stat", "--all-cpus", "--json-output", "--event")
    _EVENTS: Final = "cycles,instructions,cache-misses,context-switches,cpu-migrations,page-faults,task-clock"

    def check(self) -> None:
        try:
            launch.call([*self._ARGV, self._EVENTS, "true"])
        except (launch.LaunchError, OSError) as error:
            why = f"perf stat does not work on this host; install linux-perf or leave it out: {one_line(error)}"
            raise CollectorError(why) from None

    def start(self) -> None:
        self._popen = subprocess.Popen(
            [*self._ARGV, self._EVENTS, "cat"],  # which ends with its input, also when this process is killed
            env=launch.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )

    def stop(self) -> Mapping[str, object]:
        try:
            _, text = self._popen.communicate(timeout=_LIMIT_S)
        except subprocess.TimeoutExpired:
            self._popen.kill()
            _, text = self._popen.communicate()
        return {"events": list(parse_perf(text))}


def parse_perf(text: str) -> Iterator[dict[str, object]]:
    """Yield the events of ``perf stat --json-output``; ``running_percent`` is the share of the time counted.

    A value is null where the event was not counted.
    """
    for line in text.splitlines():
        if line.startswith("{"):
            row = json.loads(line)
            value = row["counter-value"]
            number = float(value) if re.fullmatch(r"[0-9.]+", value) else None
            shares = {"unit": row["unit"], "running_percent": row["pcnt-running"]}
            yield {"event": row["event"], "value": number, **shares}


def load(kinds: Sequence[str]) -> tuple[type[Collector], ...]:
    """Return the collectors of these kinds, which work on this host.

    :raises CollectorError: an unknown one, or it does not work; says why.
    """
    known = plugins.installed(NAMESPACE)
    for kind in kinds:
        if kind not in known:
            raise CollectorError(f"there is no collector '{kind[:40]}'; there are {', '.join(known)}")
        known[kind]().check()
    return tuple(known[kind] for kind in dict.fromkeys(kinds))


@dataclasses.dataclass(frozen=True, slots=True)
class Attachment:
    """The collectors of a run. :ivar directory: where results.json is."""

    kinds: tuple[type[Collector], ...] = ()
    directory: str = ""

    @property
    def names(self) -> list[str]:
        return [kind.kind for kind in self.kinds]

    def check(self) -> None:
        """Refuse to mix what is collected with that of another run.

        :raises CollectorError: there is some.
        """
        directory = os.path.join(self.directory, DIRECTORY)
        if self.kinds and os.path.exists(directory):
            raise CollectorError(f"{directory} is of an earlier run; remove it or give another --output")

    @contextlib.contextmanager
    def around(self, order: int, about: Mapping[str, object]) -> Iterator[None]:
        """Collect during the block and write a file for each; one that fails has its error in its file.

        :param order: of the trial; :param about: which trial it is.
        :raises OSError: a file cannot be written.
        """
        collected = {kind.kind: dict[str, object]() for kind in self.kinds}
        with contextlib.ExitStack() as running:
            for kind in self.kinds:
                running.enter_context(_running(kind, collected[kind.kind]))
            yield
        directory = os.path.join(self.directory, DIRECTORY)
        for name, data in collected.items():
            os.makedirs(directory, exist_ok=True)
            document = {"collector": name, "order": order, **about, **data}
            text = json.dumps(document, ensure_ascii=False, default=str)
            store.write_atomically(os.path.join(directory, f"{order:05d}-{name}.json"), f"{text}\n")


@contextlib.contextmanager
def _running(kind: type[Collector], collected: dict[str, object]) -> Iterator[None]:
    """Put into ``collected`` the data of a collector, or its error: a trial is worth more than its tools."""
    collector = None
    try:
        collector = kind()
        collector.start()
    except Exception as error:
        collected["error"] = one_line(error, 300)
    try:
        yield
    finally:
        if "error" not in collected and collector is not None:
            try:
                collected["data"] = collector.stop()
            except Exception as error:
                collected["error"] = one_line(error, 300)
