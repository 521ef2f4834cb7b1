"""irqbalance, which is kept from interrupts by a policy script that reads a list of them.

irqbalance asks the script once for each interrupt, when it first sees it or looks at the host anew. Its socket
would do for few interrupts only: before 1.9.5 it reads 500 bytes of a list, which is lost with the process.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
from typing import Final

#: The list, below the root of the host: a number a line.
LIST: Final = "run/nova-perf-tuning/irqbalance.irqs"
SCRIPT: Final = "irqbalance-policy-nova-perf"


def uses_our_script(pid: int) -> bool:
    """Whether this irqbalance was started with our policy script, by whatever path."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(65536).split(b"\0")
    except OSError:
        return False
    paths = [word for before, word in itertools.pairwise(words) if before in (b"-l", b"--policyscript")]
    paths += [word.partition(b"=")[2] for word in words if word.startswith(b"--policyscript=")]
    return any(b"nova-perf" in os.path.basename(path) for path in paths)


def rescan() -> None:
    """Make each irqbalance of ours that runs our script ask it again, at its next look at the host.

    It passes over the signal before its first look after a start and, since 1.9.4, before the one that follows
    another rescan. Whoever sees interrupts moved that are on the list sends it again.
    """
    for pid in [int(name) for name in os.listdir("/proc") if name.isdigit()]:
        if _is_ours(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGHUP)


def _is_ours(pid: int) -> bool:
    try:
        if os.stat(f"/proc/{pid}").st_uid != os.geteuid():
            return False
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read(32) == b"irqbalance\n" and uses_our_script(pid)
    except OSError:
        return False
