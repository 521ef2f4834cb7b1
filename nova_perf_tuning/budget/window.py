"""The window of a trial: the time over which its CPU is counted.

``measuring``
    what the benchmark itself measured (:class:`nova_perf_tuning.bench.base.Span`): no start, connecting, warm-up
``program``
    from the start of its program to its end, where its output does not tell more
``execution``
    from asking for the program until its end was seen, where the machine's clock does not tell more: what it takes
    to start a program in a guest is then in it
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
from collections.abc import Sequence
from typing import Final, Literal

from nova_perf_tuning.bench import base as bench
from nova_perf_tuning.budget import model
from nova_perf_tuning.launch import base as launch
from nova_perf_tuning.launch import clock as clock_module

#: Most that a machine's clock may be wrong against the host's for its stamps to count.
MAX_ERROR_S: Final = 0.1

_WIDER: Final = {
    "program": "CPU is counted from the start of the program to its end where it does not tell when it measured.",
    "execution": "CPU is counted from asking for the program until its end was seen where the machine's clock was"
    " not known to 0.1 s: to start it and look for its end is in such figures, which do not compare with others.",
}


@dataclasses.dataclass(frozen=True, slots=True)
class Window:
    """Begin and end by the host's CLOCK_MONOTONIC.

    :ivar work_share: how much of the run's work was done in it.
    """

    kind: Literal["measuring", "program", "execution"]
    begin: float
    end: float
    work_share: float = 1.0


def find(
    benchmark: bench.Benchmark,
    finished: launch.Finished,
    clock: clock_module.Clock | None,
    limits: tuple[float, float],
) -> Window:
    """Return the window of a run whose output :meth:`~nova_perf_tuning.bench.base.Benchmark.parse` has read.

    :param clock: of the machine it ran on; None: unknown.
    :param limits: begin and end of the whole execution, in which counters were read.
    """
    if clock is None or clock.error_s > MAX_ERROR_S or finished.lived is None:
        return Window("execution", *limits)
    lived = [clock.monotonic(at) for at in finished.lived]
    # A guest may say what it likes.
    if not limits[0] - MAX_ERROR_S <= lived[0] < lived[1] <= limits[1] + MAX_ERROR_S:
        return Window("execution", *limits)
    begin, end = max(lived[0], limits[0]), min(lived[1], limits[1])
    span = None
    with contextlib.suppress(bench.OutputError):  # other versions of a tool may print less
        span = benchmark.span(finished.stdout)
    if span is not None:
        until = end if span.until is None else clock.monotonic(span.until)
        since = until - span.seconds
        if begin <= since < until <= end:
            return Window("measuring", since, until, span.work_share)
    return Window("program", begin, end)


def notes(trials: Sequence[model.Trial]) -> list[str]:
    """Return what a report says of the windows; nothing where the file does not tell, as older ones."""
    runs = list({one.order: one for one in trials if one.window and one.exec_s}.values())
    shares = [one.window_s / one.exec_s for one in runs if one.window == "measuring" and one.exec_s]
    found = []
    if shares:
        found.append(
            "CPU is counted while the benchmark itself measured, which was"
            f" {min(shares):.0%} to {max(shares):.0%} of the time from asking for it until its end was seen."
        )
    for kind, text in _WIDER.items():
        wider = [one for one in runs if one.window == kind]
        where = collections.Counter(f"{one.benchmark} on {one.arm}" for one in wider)
        if wider:
            places = ", ".join(f"{place} ({count})" for place, count in sorted(where.items()))
            found.append(f"{text} Trials: {places}.")
    return found
