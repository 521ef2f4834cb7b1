"""rich's tables: wrapped to a terminal's width, and whole lines for programs that read them through a pipe."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich import console

#: Wider than any line.
_UNBOUNDED = 1 << 20


def is_terminal() -> bool:
    """Whether somebody looks at stdout, so that lines must be wrapped."""
    return sys.stdout.isatty()


def show(*parts: console.RenderableType, **options: Any) -> None:
    """Print tables and texts; ``options`` are those of :meth:`rich.console.Console.print`."""
    from rich import console

    if is_terminal():
        console.Console(highlight=False).print(*parts, **options)
        return
    out = console.Console(highlight=False, width=_UNBOUNDED)
    with out.capture() as captured:
        out.print(*parts, **options)
    sys.stdout.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())
