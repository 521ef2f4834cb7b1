"""What the agent says of itself to ``nova-perf status`` and to people: one small file below /run."""

from __future__ import annotations

import json
import os
import stat
import time
from typing import Any, Final

from nova_perf_tuning import errors, whole_file

SCHEMA: Final = 1
FILE: Final = "agent.json"
RUN_DIR: Final = "/run/nova-perf-tuning"
_MAX_BYTES: Final = 4 << 20


class RunDirError(errors.PerfTuningError):
    """The folder below /run cannot be used."""


def prepare(folder: str) -> None:
    """Make the folder if need be (0755: its files are for everybody to read, for us alone to write).

    :raises RunDirError: it cannot be made, or others may write there.
    """
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        found = os.stat(folder)
    except OSError as error:
        raise RunDirError(
            f"[agent] run_dir {folder}: {error.strerror}: name a folder that root can make"
        ) from None
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise RunDirError(f"[agent] run_dir {folder}: others may write there; name a folder of root's own")


def write(folder: str, content: dict[str, Any]) -> None:
    """Write the state whole."""
    data = json.dumps({"schema": SCHEMA, **content}, ensure_ascii=True).encode()
    with whole_file.writing(os.path.join(folder, FILE)) as file:
        file.write(data)


def remove(folder: str) -> None:
    """Forget the state: the agent has ended."""
    try:
        os.unlink(os.path.join(folder, FILE))
    except OSError:
        pass


def read(folder: str = RUN_DIR) -> dict[str, Any] | None:
    """Return what a running agent wrote, with ``running`` and ``age_s`` added; None where none ever ran.

    ``running`` is False for what an agent that was killed left behind. Text in it may come from guests.
    """
    path = os.path.join(folder, FILE)
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError:
        return None
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None
        data = file.read(_MAX_BYTES)
    try:
        found = json.loads(data)
    except ValueError:
        return None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        return None
    pid = found.get("pid")
    found["running"] = isinstance(pid, int) and process_start(pid) == found.get("pid_start") is not None
    updated = found.get("updated")
    found["age_s"] = round(max(0.0, time.time() - updated), 1) if isinstance(updated, int | float) else None
    return found


def process_start(pid: int) -> str | None:
    """Return a process's start time in ticks after boot: with its number it names it for ever."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            return file.read().rpartition(b")")[2].split()[19].decode("ascii", "replace")
    except (OSError, IndexError):
        return None
