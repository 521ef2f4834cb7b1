"""What shows how far a validation is: a bar on a terminal, lines in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
        rich.progress.TextColumn("{task.fields[left]}"),
        rich.progress.TextColumn("{task.description}"),
        console=rich.console.Console(file=stream),
        transient=True,
        refresh_per_second=2,  # drawing takes CPU from what is measured
    )
    task = bar.add_task("", total=1, left="")

    def tell(now: session.Progress) -> None:
        text = rich.markup.escape(now.text)
        if now.important:
            bar.console.print(text)
        bar.update(task, completed=now.done, total=now.total, left=f"{_left(now.left_s)} left", description=text)

    try:
        with contextlib.suppress(OSError):
            bar.start()
        yield tell
    finally:
        with contextlib.suppress(OSError):  # a terminal that has gone is no reason to lose what was measured
            bar.stop()


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
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"about {hours}:{minutes:02d}:{rest:02d}" if hours else f"about {minutes}:{rest:02d}"
