# SPDX-License-Identifier: Apache-2.0
"""Processes by identity: a pid file holds the number and the start time, since numbers are used again."""

import os
import pathlib
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from perf_cloud import layout

_TAIL: Final = 4 << 10


class ServiceDied(layout.CloudError):
    """A process ended that should run; the message has the last lines of its log."""


def start(
    cloud: layout.Cloud, name: str, argv: Sequence[str], environment: Mapping[str, str]
) -> None:
    """Start a service that goes on after us, with its output in its log, and note its process."""
    cloud.logs.mkdir(exist_ok=True)
    with open(cloud.log(name), "ab") as log:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
            cwd="/",
        )
    note(cloud, name, process.pid)


def note(cloud: layout.Cloud, name: str, pid: int) -> None:
    """Write the pid file of a process that runs."""
    file = cloud.pid_file(name)
    file.parent.mkdir(exist_ok=True)
    new = file.with_suffix(".new")
    new.write_text(f"{pid} {started(pid)}\n")
    os.replace(new, file)


def pid_of(cloud: layout.Cloud, name: str) -> int | None:
    """Return the process of a service while it runs; None when it does not, or never did."""
    try:
        pid, start_time = cloud.pid_file(name).read_text().split()
    except (FileNotFoundError, ValueError):
        return None
    return int(pid) if started(int(pid)) == int(start_time) else None


def started(pid: int) -> int | None:
    """Return when a process began, in clock ticks since the machine did; None when it has ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else int(fields[19])


def demand(cloud: layout.Cloud, name: str) -> None:
    """Raise :class:`ServiceDied` unless a service runs."""
    if pid_of(cloud, name) is None:
        raise ServiceDied(died(cloud, name))


def died(cloud: layout.Cloud, name: str) -> str:
    """Return one line on a service that has ended: its name, its log and the end of that."""
    return f"{name} has died; log/{name}.log ends with: {last_lines(cloud, name)}"


def last_lines(cloud: layout.Cloud, name: str, count: int = 3) -> str:
    """Return the last lines of a log that say something, joined to one."""
    try:
        with open(cloud.log(name), "rb") as log:
            log.seek(max(0, os.fstat(log.fileno()).st_size - _TAIL))
            lines = log.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return "(no log)"
    said = [line.strip()[:300] for line in lines if line.strip()]
    return " | ".join(said[-count:]) or "(nothing)"


def members(directory: pathlib.Path) -> Iterator[int]:
    """Yield the processes of the cloud whose state directory is ``directory``.

    They are known by what they see, a /run/cloud that is this very directory, and those of a namespace that is
    still being made by the variable in their environment. Both survive the loss of every pid file.
    """
    marker = f"{layout.VARIABLE}={directory}\0".encode()
    identity = os.stat(directory)
    for entry in os.scandir("/proc"):
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            ours = os.path.samestat(os.stat(f"/proc/{entry.name}/root{layout.INSIDE}"), identity)
        except OSError:
            ours = False
        try:
            if ours or (
                b"host-init" in _read(entry.name, "cmdline")
                and marker in _read(entry.name, "environ")
            ):
                yield int(entry.name)
        except OSError:
            continue


def _read(pid: str, name: str) -> bytes:
    return pathlib.Path(f"/proc/{pid}/{name}").read_bytes()


def end_all(directory: pathlib.Path, patience: float = 20) -> int:
    """Kill every process of a cloud, until there is none; return how many there were.

    They need no orderly end: what they hold is in memory, and goes.

    :raises CloudError: some are still there after ``patience`` seconds.
    """
    deadline = time.monotonic() + patience
    ended: set[int] = set()
    while pids := [pid for pid in members(directory) if started(pid) is not None]:
        if time.monotonic() > deadline:
            raise layout.CloudError(f"these processes do not end: {' '.join(map(str, pids))}")
        for pid in pids:
            ended.add(pid)
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.05)
    return len(ended)
