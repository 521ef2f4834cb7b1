"""Who runs a stored run, and whether that process is alive."""

from __future__ import annotations

import datetime
import os
import socket

import psutil

#: A run of another machine whose owner has been silent for so long (seconds) is taken for dead.
SILENCE_S = 300.0


def now() -> datetime.datetime:
    """Return the time as the database has it: UTC, without a zone."""
    return datetime.datetime.now(datetime.UTC).replace(tzinfo=None)


def own_name() -> str:
    """Return ``machine:process:its start``, which no other process ever has."""
    return f"{socket.gethostname()[:100]}:{os.getpid()}:{psutil.Process().create_time():.2f}"


def alive(owner: str, seen_at: datetime.datetime) -> bool:
    """Return whether the process of an :func:`own_name` runs; of another machine, whether it spoke lately."""
    if not owner:
        return False
    machine, pid, born = owner.rsplit(":", 2)
    if machine != socket.gethostname()[:100]:
        return (now() - seen_at).total_seconds() < SILENCE_S
    try:
        # Computed from the time of boot, which moves a little when the clock is set.
        return abs(psutil.Process(int(pid)).create_time() - float(born)) < 2
    except psutil.Error:
        return False
