"""Shared CPU for the threads of guests that are no vCPUs, enforced by the kernel (cgroup v1).

A cgroup of version 2 cannot take single threads out of libvirt's scope of a guest, those of version 1 can.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import time
from collections.abc import Collection, Mapping
from typing import Final

from nova_perf_tuning import interrupt

_CPU: Final = pathlib.Path("/sys/fs/cgroup/cpu")
_ACCOUNTING: Final = pathlib.Path("/sys/fs/cgroup/cpuacct")
_PREFIX: Final = "nova-perf-pool-"
_PERIOD_US: Final = 100_000
#: Least that the kernel takes as a quota (kernel/sched/core.c: min_cfs_quota_period).
_LEAST_US: Final = 1_000
_GONE_S: Final = 10.0


class PoolError(RuntimeError):
    """This machine cannot enforce it: says what is missing."""


class Pool:
    """A cgroup with a quota; used as a context manager, whose exit removes it."""

    def __init__(self) -> None:
        self._cpu = _CPU / f"{_PREFIX}{os.getpid()}"
        self._accounting = _ACCOUNTING / self._cpu.name

    def __enter__(self) -> Pool:
        _remove_dead()
        for folder in (self._cpu, self._accounting):
            if not (folder.parent / "tasks").exists():
                raise PoolError(f"{folder.parent} is no cgroup of version 1, which alone can hold single threads")
            folder.mkdir()
        return self

    def __exit__(self, *_exc: object) -> None:
        with interrupt.deferred():
            _remove(self._cpu)
            _remove(self._accounting)

    def limit(self, cpus: float | None) -> None:
        """Let its threads together have so many CPUs; None: as many as there are."""
        (self._cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (self._cpu / "cpu.cfs_quota_us").write_text(str(-1 if cpus is None else round(cpus * _PERIOD_US)))

    def add(self, pid: int, but: Collection[int]) -> None:
        """Take in all threads of a process but those of ``but``, and so whatever they start.

        :param but: thread ids.
        """
        tasks = pathlib.Path(f"/proc/{pid}/task")
        while fresh := {int(one.name) for one in tasks.iterdir()} - {*but, *self._inside()}:
            for thread in fresh:
                for folder in (self._cpu, self._accounting):
                    with contextlib.suppress(ProcessLookupError):  # a pool thread that had nothing to do
                        (folder / "tasks").write_text(str(thread))

    def _inside(self) -> set[int]:
        found = [set(map(int, (one / "tasks").read_text().split())) for one in (self._cpu, self._accounting)]
        return found[0] & found[1]

    def read(self) -> Mapping[str, float]:
        """Return its CPU seconds, and in how many periods it ran and was stopped, all since it was made."""
        told = dict(line.split() for line in (self._cpu / "cpu.stat").read_text().splitlines())
        return {
            "cpu_s": int((self._accounting / "cpuacct.usage").read_text()) / 1e9,
            "periods": float(told["nr_periods"]),
            "throttled": float(told["nr_throttled"]),
        }


def rounded(cpus: float) -> float:
    """Return the nearest share of a CPU that a quota can express.

    :raises PoolError: that is less than the kernel takes.
    """
    quota = round(cpus * _PERIOD_US / 100) * 100
    if quota < _LEAST_US:
        raise PoolError(f"{cpus:.4f} CPUs are too few for a quota; give the guests a higher rate")
    return quota / _PERIOD_US


def _remove(folder: pathlib.Path) -> None:
    until = time.monotonic() + _GONE_S
    while folder.exists():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in (folder / "tasks").read_text().split():
                (folder.parent / "tasks").write_text(thread)
        try:
            folder.rmdir()
        except FileNotFoundError:
            return
        except OSError:  # a thread that is ending
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def _remove_dead() -> None:
    """Remove what runs that were killed have left."""
    for folder in (*_CPU.glob(f"{_PREFIX}*"), *_ACCOUNTING.glob(f"{_PREFIX}*")):
        if not os.path.exists(f"/proc/{folder.name.removeprefix(_PREFIX)}"):
            _remove(folder)
