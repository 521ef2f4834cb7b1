"""What shows how far a validation is: a bar on a terminal, lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import rich.progress

    from nova_perf_tuning.budget import session


@contextlib.contextmanager
def showing(to_stderr: bool) -> Iterator[Callable[[session.Progress], None]]:
    """Give what shows progress: a bar on a terminal, a plain line every few seconds elsewhere."""
    stream = sys.stderr if to_stderr else sys.stdout
    if not stream.isatty():
        yield _Lines(stream).tell
        return
    import rich.console
    import rich.markup
    import rich.progress

    bar = rich.progress.Progress(
        rich.progress.BarColumn(bar_width=30),
        rich.progress.TextColumn("{task.completed:.0f}/{task.total:.0f}"),
        rich.progress.TimeElapsedColumn(),
        _left_column(),
        rich.progress.TextColumn("{task.description}"),
        console=rich.console.Console(file=stream),
        transient=True,
        refresh_per_second=2,  # drawing takes CPU from what is measured
    )
    task = bar.add_task("", total=1, left_s=None, told=0.0)

    def tell(now: session.Progress) -> None:
        text = rich.markup.escape(now.text)
        if now.important:
            bar.console.print(text)
        told = time.monotonic()
        bar.update(task, completed=now.done, total=now.total, description=text, left_s=now.left_s, told=told)

    try:
        with contextlib.suppress(OSError):
            bar.start()
        yield tell
    finally:
        with contextlib.suppress(OSError):  # a terminal that has gone is no reason to lose what was measured
            bar.stop()


def _left_column() -> rich.progress.ProgressColumn:
    """Return a column with the time left, which passes also while nothing is told."""
    import rich.progress
    import rich.text

    class Left(rich.progress.ProgressColumn):
        def render(self, task: rich.progress.Task) -> rich.text.Text:
            left_s, told = task.fields["left_s"], task.fields["told"]
            return rich.text.Text("" if left_s is None else f"{_left(left_s - (time.monotonic() - told))} left")

    return Left()


class _Lines:
    """Progress for logs: a line at every boot and block, at most one in five seconds otherwise."""

    def __init__(self, stream: object) -> None:
        self._stream = stream
        self._last = float("-inf")

    def tell(self, now: session.Progress) -> None:
        at = time.monotonic()
        if at - self._last < 5 and "booting" not in now.text and not now.important:
            return
        self._last = at
        print(f"[{now.done}/{now.total}] {_left(now.left_s)} left  {now.text}", file=self._stream, flush=True)  # type: ignore[call-overload]


def _left(seconds: float) -> str:
    minutes, rest = divmod(max(0, round(seconds)), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02d}:{rest:02d}" if hours else f"about {minutes}:{rest:02d}"
