"""CPU speed with sysbench."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from nova_perf_tuning.bench import base, output, parameters

_NUMBER = r"([0-9]{1,15}(?:\.[0-9]{1,9})?)"


class Cpu(base.Benchmark):
    """``sysbench cpu``: how often per second all primes up to a limit are found by trial division.

    One event is one such search: integer division and square roots in registers, hardly any memory. It shows
    what a machine's CPUs do, and what is taken from them; it says nothing of memory.
    """

    kind = "cpu"
    summary = "CPU: prime searches per second (sysbench cpu)"
    packages = ("sysbench",)
    programs = ("sysbench",)
    primary = ("events_per_second", "events/s", "higher")
    defaults = {"seconds": "10", "threads": "1", "limit": "10000"}
    parameter_help = {
        "seconds": "length of the run, 1 to 3600",
        "threads": "threads, 1 to 1024",
        "limit": "largest number tried, 100 to 1000000: the size of one event",
    }
    self_check = "events per second must follow from events and time"
    work_metric = "events"
    work_unit = "1,000 events"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = parameters.merge(self.kind, self.defaults, given)
        seconds = parameters.integer(self.kind, values, "seconds", 1, 3600)
        threads = parameters.integer(self.kind, values, "threads", 1, 1024)
        limit = parameters.integer(self.kind, values, "limit", 100, 1_000_000)
        argv = ("sysbench", "cpu", f"--threads={threads}", f"--time={seconds}", "--events=0")
        return (base.Step((*argv, f"--cpu-max-prime={limit}", "run"), "client", seconds + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        output.check_length(self.kind, text)
        rate = self._figure(text, "events per second")
        events = self._figure(text, "total number of events")
        taken = self._figure(text, "total time", "s")
        if rate == 0 or events == 0 or taken == 0:
            raise base.OutputError(f"{self.kind}: no event was finished; give it more seconds or a lower limit")
        # Both come from the same run, but sysbench takes its two times at slightly different moments.
        if not 0.5 < rate * taken / events < 2:
            raise base.OutputError(
                f"{self.kind}: {events:g} events in {taken:g} s contradict {rate:g} events per second"
            )
        return [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("latency_mean", "ms", "lower", self._figure(text, "avg")),
            base.Reading("latency_p95", "ms", "lower", self._figure(text, "95th percentile")),
            base.Reading("events", self.work_unit, "higher", events / 1e3),
        ]

    def span(self, text: str) -> base.Span:
        return base.Span(self._figure(text, "total time", "s"))

    def _figure(self, text: str, name: str, unit: str = "") -> float:
        """Return the figure of the one line ``name: NUMBER``."""
        found = re.findall(rf"^[ \t]*{re.escape(name)}:[ \t]*{_NUMBER}{unit}[ \t]*$", text, re.MULTILINE)
        if len(found) != 1:
            what = "cut off or foreign" if not found else "ambiguous"
            raise base.OutputError(f"{self.kind}: the output is {what}: {len(found)} lines '{name}'")
        return output.check_number(self.kind, name, float(found[0]))
