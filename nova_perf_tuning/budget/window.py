"""The window of a trial: the time over which its CPU is counted.

``measuring``: what the benchmark itself measured (:class:`nova_perf_tuning.bench.base.Span`), without start and
warm-up. ``program``: from the start of its program to its end, where its output does not tell more. ``execution``:
from asking for the program until its end was seen, where the machine's clock is not known well enough.
"""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Final, Literal

from nova_perf_tuning.bench import base as bench
from nova_perf_tuning.launch import base as launch

#: Most that a machine's clock may be wrong against the host's for its stamps to count.
MAX_ERROR_S: Final = 0.1


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """Begin and end by the host's CLOCK_MONOTONIC."""

    kind: Literal["measuring", "program", "execution"]
    begin: float
    end: float


def find(
    benchmark: bench.Benchmark,
    finished: launch.Finished,
    clock: launch.Clock | None,
    limits: tuple[float, float],
) -> Window:
    """Return the window of a run whose output :meth:`~nova_perf_tuning.bench.base.Benchmark.parse` has read.

    :param clock: of the machine it ran on; None: unknown.
    :param limits: begin and end of the whole execution, in which counters were read.
    """
    if clock is None or clock.error_s > MAX_ERROR_S or finished.lived is None:
        return Window("execution", *limits)
    began, ended = map(clock.monotonic, finished.lived)
    # A guest may say what it likes.
    if not limits[0] - MAX_ERROR_S <= began < ended <= limits[1] + MAX_ERROR_S:
        return Window("execution", *limits)
    program = Window("program", max(began, limits[0]), min(ended, limits[1]))
    with contextlib.suppress(bench.OutputError):  # other versions of a tool may print less
        if span := benchmark.span(finished.stdout):
            until = program.end if span.until is None else clock.monotonic(span.until)
            since = until - span.seconds
            if program.begin <= since < until <= program.end:
                return Window("measuring", since, until)
    return program
