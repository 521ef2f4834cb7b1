# SPDX-License-Identifier: Apache-2.0
"""Time limits that end a hang and nothing else.

A machine that is merely slow (cold disk, other work) may take any time up to :data:`LIMIT_S` for a step that
normally takes seconds: probing QEMU took libvirt 3 s, and 80 s where QEMU's files had never been read and
other work had the CPUs. What does not end by then has hung, and the failure says what was known last.
"""

import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import IO, Any

#: For one step: ten times what the slowest was seen to take on a loaded machine.
LIMIT_S = 600.0
#: For a program to clean up after SIGTERM before it is killed.
_LEAVE_S = 60.0
_TAIL_LINES = 15


def run(
    argv: Sequence[str | os.PathLike[str]],
    *,
    limit_s: float = LIMIT_S,
    stdout: int | IO[Any] = subprocess.PIPE,
    **options: Any,
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, whatever its exit code.

    :raises AssertionError: it hangs: which program, for how long, what it had printed.
    """
    process = subprocess.Popen(argv, stdout=stdout, stderr=subprocess.PIPE, text=True, **options)
    out, err = finish(process, limit_s=limit_s)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def finish(process: subprocess.Popen[str], *, limit_s: float = LIMIT_S) -> tuple[str, str]:
    """Wait for the end of a program and return its output and errors (None where they are no pipes).

    One that hangs is asked to end, so that it removes what it made, and killed if it does not.

    :raises AssertionError: as :func:`run`.
    """
    begun = time.monotonic()
    try:
        return process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        lasted_s = time.monotonic() - begun
    said = "\n".join(_end(process).splitlines()[-_TAIL_LINES:])
    program = (
        process.args if isinstance(process.args, str) else " ".join(map(str, process.args))[:500]
    )  # type: ignore[arg-type]
    raise AssertionError(
        f"{program} did not end within {lasted_s:.0f} s; {_load()}; it had printed:\n{said}"
    )


def until(
    condition: Callable[[], Any], what: str, *, limit_s: float = LIMIT_S, pause_s: float = 0.05
) -> Any:
    """Wait until ``condition`` holds, and return what it gave.

    :raises AssertionError: it does not within the limit; ``what`` says what was waited for.
    """
    begun = time.monotonic()
    while not (found := condition()):
        if time.monotonic() - begun > limit_s:
            raise AssertionError(f"{what}: not within {limit_s:g} s; {_load()}")
        time.sleep(pause_s)
    return found


def _end(process: subprocess.Popen[str]) -> str:
    """End a program and return all that it had printed."""
    parts: list[str | bytes | None] = []
    for stop in (process.terminate, process.kill):
        stop()
        try:
            parts = [*process.communicate(timeout=_LEAVE_S)]
            break
        except (
            subprocess.TimeoutExpired
        ) as error:  # after a kill: a child of it holds the pipes open
            parts = [error.stdout, error.stderr]
    return "".join(
        part.decode(errors="replace") if isinstance(part, bytes) else part
        for part in parts
        if part
    )


def _load() -> str:
    return f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} CPUs"
