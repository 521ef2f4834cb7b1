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
_VCPUS: Final = "-vcpus"
_PERIOD_US: Final = 100_000
#: Least that the kernel takes as a quota (kernel/sched/core.c: min_cfs_quota_period).
_LEAST_US: Final = 1_000
#: Weight of the guests' threads; other work on the machine has 1024 a thread, libvirt's guests as much together.
_SHARES: Final = "16384"
_GONE_S: Final = 10.0


class PoolError(RuntimeError):
    """This machine cannot enforce it: says what is missing."""


class Pool:
    """A cgroup with a quota for shared work and one without for vCPUs; leaving the context removes both.

    Shared work has the last CPU and vCPUs have the others, as on a host with CPUs of either kind: where they share
    one, they do not run side by side, and a guest among others costs a quarter less than one alone.

    Both come before other work on the machine, so that their quota is what guests lack, if they lack anything.
    """

    def __init__(self) -> None:
        self._cpu = _CPU / f"{_PREFIX}{os.getpid()}"
        self._accounting = _ACCOUNTING / self._cpu.name
        self._vcpus = _CPU / f"{self._cpu.name}{_VCPUS}"

    def __enter__(self) -> Pool:
        _remove_dead()
        for folder in (self._cpu, self._accounting, self._vcpus):
            if not (folder.parent / "tasks").exists():
                raise PoolError(f"{folder.parent} is no cgroup of version 1, which alone can hold single threads")
            folder.mkdir()
        for folder in (self._cpu, self._vcpus):
            (folder / "cpu.shares").write_text(_SHARES)
        return self

    def __exit__(self, *_exc: object) -> None:
        with interrupt.deferred():
            for folder in (self._cpu, self._accounting, self._vcpus):
                _remove(folder)

    def limit(self, cpus: float | None) -> None:
        """Let its threads together have so many CPUs; None: as many as there are."""
        (self._cpu / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
        (self._cpu / "cpu.cfs_quota_us").write_text(str(-1 if cpus is None else round(cpus * _PERIOD_US)))

    def add(self, pid: int, vcpus: Collection[int]) -> None:
        """Take in all threads of a process, and so whatever they start.

        :param vcpus: ids of those without a quota.
        """
        *own, shared = sorted(os.sched_getaffinity(0))
        for thread in vcpus:
            (self._vcpus / "tasks").write_text(str(thread))
            os.sched_setaffinity(thread, own or {shared})
        tasks = pathlib.Path(f"/proc/{pid}/task")
        while fresh := {int(one.name) for one in tasks.iterdir()} - {*vcpus, *self._inside()}:
            for thread in fresh:
                with contextlib.suppress(ProcessLookupError):  # a pool thread that had nothing to do
                    os.sched_setaffinity(thread, {shared})
                    for folder in (self._cpu, self._accounting):
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
        if not os.path.exists(f"/proc/{folder.name.removeprefix(_PREFIX).removesuffix(_VCPUS)}"):
            _remove(folder)
