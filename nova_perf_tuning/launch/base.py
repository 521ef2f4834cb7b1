"""The interface of a launcher: something that makes guests, runs programs in them and counts their CPU.

A launcher knows nothing of benchmarks or statistics; it gives machines. Everything it made is removed
by :meth:`Launcher.close`, also after an error or Ctrl-C.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning import errors
from nova_perf_tuning.launch import clock as clock_module
from nova_perf_tuning.specs import request as request_module

#: Bytes of a program's output that are kept; the rest is read and dropped, so that no program is held up by it.
#: libvirt passes on at most 4 MiB in one answer (REMOTE_STRING_MAX), which base64 makes out of 3 MiB.
STDOUT_LIMIT: Final = 2 << 20
STDERR_LIMIT: Final = 128 << 10


class LaunchError(errors.PerfTuningError):
    """A guest could not be made, did not answer in time or died; the message ends with its console's tail."""


class ProgramError(LaunchError):
    """A benchmark's server could not be started; the machine itself is well."""


@dataclasses.dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison.

    :ivar name: ``untuned``, ``tuned`` … as it appears in the results.
    :ivar request: what its guests' flavor asks for; an empty request is an untuned guest.
    """

    name: str
    request: request_module.Request


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended. Output is untrusted and cut at :data:`STDOUT_LIMIT` and :data:`STDERR_LIMIT`.

    :ivar returncode: exit status; None when it was killed at its time limit.
    :ivar started, ended: CLOCK_MONOTONIC of the host around the process, in seconds.
    :ivar lived: when the program itself began and ended, in seconds since the epoch by the clock of its machine;
        None where that is not known.
    """

    returncode: int | None
    stdout: str
    stderr: str
    started: float
    ended: float
    lived: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class CpuReading:
    """Cumulative CPU time of a machine at one moment; two readings make a window.

    :ivar at: CLOCK_MONOTONIC of the host in seconds.
    :ivar host_s: class -> seconds: ``vcpu``, ``emulator``, ``iothread``, ``vhost``, ``worker`` and ``total``
        (the whole process and its vhost workers, each counted once). For the host itself only ``total``.
    :ivar guest_s: seconds the machine itself was busy (user+nice+system+irq+softirq of its /proc/stat); None
        where it could not be asked.
    :ivar wait_s: seconds its vCPUs were runnable without a host CPU (run-queue wait); None if unknown.
    """

    at: float
    host_s: Mapping[str, float]
    guest_s: float | None
    wait_s: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class GuestSize:
    """Virtual hardware of each guest, the same in every arm.

    :ivar memory_mib: the image needs 160 MiB; :ivar scratch_mib: second disk, where programs run.
    """

    vcpus: int = 2
    memory_mib: int = 320
    scratch_mib: int = 512


class Machine(abc.ABC):
    """Somewhere a program can be run: a guest, or the host itself.

    :ivar name: for messages; :ivar address: on the benchmark network.
    :ivar interface: host side of its NIC, where what it sends arrives; None if it has none of its own.
    """

    name: str
    address: str
    interface: str | None = None

    @abc.abstractmethod
    def run(self, argv: Sequence[str], timeout_s: float) -> Finished:
        """Run a program to its end; past ``timeout_s`` it is killed. A missing one has the exit status 127.

        :raises LaunchError: the machine is gone or does not answer.
        """

    @abc.abstractmethod
    def start(self, argv: Sequence[str]) -> int:
        """Start a program (a benchmark's server) and return a handle for :meth:`stop`.

        :raises ProgramError: it is missing or ended at once.
        """

    @abc.abstractmethod
    def stop(self, handle: int) -> None:
        """End a program that :meth:`start` started; one that has ended already is no error."""

    @abc.abstractmethod
    def cpu(self) -> CpuReading:
        """Read all counters of this machine in one pass."""

    @abc.abstractmethod
    def counter(self) -> Callable[[], CpuReading]:
        """Return what reads :meth:`cpu` without ``guest_s``: cheap enough for many times a second, in any thread.

        It knows the threads there are now.
        """

    def busy_s(self) -> float | None:
        """Return ``guest_s`` of :meth:`cpu` alone, in any thread."""
        return None

    def clock(self) -> clock_module.Clock | None:
        """Return its clock against the host's; None where it cannot be asked."""
        return clock_module.of_host()


@dataclasses.dataclass(slots=True)
class Pair:
    """Two machines of one arm on one network: the client is measured, the server is its peer."""

    arm: str
    client: Machine
    server: Machine


class Launcher(abc.ABC):
    """Makes pairs of machines; used as a context manager, whose exit calls :meth:`close`."""

    def __enter__(self) -> Launcher:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def vcpus(self) -> int | None:
        """vCPUs of each guest, known before :meth:`prepare`; None where it makes no guests or cannot tell."""
        return None

    def require(self, programs: Collection[str], memory_mib: int, scratch_mib: int) -> None:
        """Say before :meth:`prepare` what the machines must have, beyond what they have anyway.

        :param programs: their names, and the paths of other files.
        :param memory_mib: for one benchmark; :param scratch_mib: for all files.
        """
        return

    @abc.abstractmethod
    def prepare(self) -> None:
        """Check what is needed (libvirt, image, permission, disk space) and make the network.

        :raises LaunchError: naming what is missing and how to get it.
        """

    @abc.abstractmethod
    def boot(self, arm: Arm) -> Pair:
        """Boot one arm's client and server side by side and return them ready, or raise and leave nothing."""

    @abc.abstractmethod
    def activate(self, arm: str | None) -> None:
        """Let the pair of ``arm`` run and all others rest (paused); None: all rest, for the host's own trials.

        The host settings of the arm (:mod:`nova_perf_tuning.host.plan`) hold when this returns.
        """

    @abc.abstractmethod
    def host_pair(self) -> Pair:
        """Return the host's own machines (arm ``host``): two network namespaces on the guests' network.

        :raises LaunchError: the host would run other programs than guests do.
        """

    @abc.abstractmethod
    def destroy(self, arm: str) -> None:
        """End one arm's guests and remove their disks; settings applied for them are restored first."""

    @abc.abstractmethod
    def environment(self) -> Mapping[str, Any]:
        """Return what the results rest on: accelerator, QEMU, libvirt, kernel, image, guests, XML."""

    @abc.abstractmethod
    def close(self) -> None:
        """Remove everything made here; may be called twice and after any failure."""
