"""CPU speed with sysbench."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nova_perf_tuning.validation.bench import base, output, parameter


class Sysbench(base.Benchmark):
    """A benchmark whose output is sysbench's."""

    def figure(self, text: str, name: str, form: str = rf"{output.NUMBER}s?[ \t]*$") -> float:
        """Return the figure of the one line ``name: FORM``; ``form`` is a pattern with one group."""
        return output.labelled(self.kind, text, rf"^[ \t]*{name}:[ \t]*{form}", name)

    def latencies(self, text: str) -> list[base.Reading]:
        """Return what sysbench says of latencies."""
        return [
            base.Reading("latency_mean", "ms", "lower", self.figure(text, "avg")),
            base.Reading("latency_p95", "ms", "lower", self.figure(text, "95th percentile")),
        ]


class Cpu(Sysbench):
    """``sysbench cpu``: how often per second all primes up to a limit are found by trial division.

    One event is one such search: integer division and square roots in registers, hardly any memory. It shows
    what a machine's CPUs do, and what is taken from them; it says nothing of memory.
    """

    kind = "cpu"
    summary = "CPU: prime searches per second (sysbench cpu)"
    packages = ("sysbench",)
    programs = ("sysbench",)
    primary = ("events_per_second", "events/s", "higher")
    parameters = (
        parameter.SECONDS,
        parameter.Integer("threads", "1", "threads", 1, 1024),
        parameter.Integer(
            "limit", "10000", "largest number tried, which is the size of one event", 100, 1_000_000
        ),
    )
    work_metric = "events"
    work_unit = "1,000 events"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        argv = ("sysbench", "cpu", f"--threads={values['threads']}", f"--time={values['seconds']}", "--events=0")
        limit_s = values.number("seconds") + base.MARGIN_S
        return (base.Step((*argv, f"--cpu-max-prime={values['limit']}", "run"), "client", limit_s),)

    def parse(self, text: str) -> list[base.Reading]:
        output.check_length(self.kind, text)
        rate = self.figure(text, "events per second")
        events = self.figure(text, "total number of events")
        taken = self.figure(text, "total time")
        if rate == 0 or events == 0 or taken == 0:
            raise self.fault("no event was finished; give it more seconds or a lower limit")
        return [
            base.Reading(*self.primary, rate, primary=True),
            *self.latencies(text),
            base.Reading("events", self.work_unit, "higher", events / 1e3),
        ]

    def span(self, text: str) -> base.Span:
        return base.Span(self.figure(text, "total time"))
