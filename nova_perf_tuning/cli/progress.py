"""What shows how far a validation is: a bar on a terminal, lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import IO

import rich.console
import rich.markup
import rich.progress
import rich.text

from nova_perf_tuning.budget import session


class _Left(rich.progress.ProgressColumn):
    """The time left, which passes also while nothing is reported."""

    def render(self, task: rich.progress.Task) -> rich.text.Text:
        left_s, at = task.fields["left_s"], task.fields["at"]
        return rich.text.Text("" if left_s is None else f"{_left(left_s - (time.monotonic() - at))} left")


@contextlib.contextmanager
def showing(to_stderr: bool) -> Iterator[Callable[[session.Progress], None]]:
    """Give what shows progress: a bar on a terminal, a plain line every few seconds elsewhere."""
    console = rich.console.Console(file=sys.stderr if to_stderr else sys.stdout)
    if not console.is_terminal or console.is_dumb_terminal:
        yield _Lines(console.file).show
        return
    bar = rich.progress.Progress(
        rich.progress.BarColumn(bar_width=30),
        rich.progress.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        rich.progress.TimeElapsedColumn(),
        _Left(),
        rich.progress.TextColumn("{task.description}"),
        console=console,
        transient=True,
        refresh_per_second=2,  # drawing takes CPU from what is measured
    )
    task = bar.add_task("", total=1, left_s=None, at=0.0)

    def show(now: session.Progress) -> None:
        text = rich.markup.escape(now.text)
        if now.important:
            bar.console.print(text)
        at = time.monotonic()
        bar.update(task, completed=now.done, total=now.total, description=text, left_s=now.left_s, at=at)

    try:
        with contextlib.suppress(OSError):
            bar.start()
        yield show
    finally:
        with contextlib.suppress(OSError):  # a terminal that has gone is no reason to lose what was measured
            bar.stop()


class _Lines:
    """Progress for logs: at most a line in five seconds, and what is important."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._last = float("-inf")

    def show(self, now: session.Progress) -> None:
        at = time.monotonic()
        if at - self._last < 5 and not now.important:
            return
        self._last = at
        print(f"[{now.done}/{now.total}] {_left(now.left_s)} left  {now.text}", file=self._stream, flush=True)


def _left(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02d}:{rest:02d}" if hours else f"about {minutes}:{rest:02d}"
