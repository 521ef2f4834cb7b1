# SPDX-License-Identifier: Apache-2.0
"""The interface of a launcher: it makes guests, runs programs in them and counts their CPU.

A launcher knows nothing of benchmarks or statistics. :meth:`Launcher.close` removes everything
that it made.
"""

import abc
import contextlib
import dataclasses
import os
import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from typing import Final

import psutil

from nova_perf_tuning import cache_directory, errors
from nova_perf_tuning.specs.request import Request
from nova_perf_tuning.validation.results.environment import Environment

#: Bytes of a program's output that are kept; the rest is read and dropped, so that no program is
#: held up by it. libvirt passes on at most 4 MiB in one answer (REMOTE_STRING_MAX), which base64
#: makes out of 3 MiB.
STDOUT_LIMIT: Final = 2 << 20
STDERR_LIMIT: Final = 128 << 10
#: Counters of bytes beside those of CPU, and what they are of.
MOVED: Final = {"net_bytes": "net", "disk_bytes": "disk"}
#: A load may take so long until it runs at its rate, in seconds.
LOAD_S: Final = 0.5
#: For a program that makes something: more than a second where a disk has other work or was never
#: read from.
_LIMIT_S = 300.0


class LaunchError(errors.PerfTuningError):
    """A guest could not be made, did not answer in time or died; the message ends with its console's tail."""


class ProgramError(LaunchError):
    """A benchmark's server could not be started; the machine itself is well."""


@dataclasses.dataclass(frozen=True, slots=True)
class Arm:
    """One side of a comparison; :ivar request: what its guests' flavor asks for, nothing where untuned."""

    name: str
    request: Request


def cut(data: bytes, limit: int, size: int | None = None) -> str:
    """Return the beginning of a program's output as text, with a last line that says how much is left out.

    :param size: bytes of the whole output, where ``data`` is not all of it.
    """
    text = data[:limit].decode("utf-8", "replace")
    if size is None:
        size = len(data)
    if size <= limit:
        return text
    return f"{text}\n[{size - limit} more bytes of the output are left out]"


@dataclasses.dataclass(frozen=True, slots=True)
class Finished:
    """A process that ended. Output is untrusted and cut at :data:`STDOUT_LIMIT` and :data:`STDERR_LIMIT`.

    :ivar returncode: exit status; None when it was killed at its time limit.
    :ivar lived: when the program itself began and ended, in seconds since the epoch by the clock
        of its machine; None where that is not known.
    """

    returncode: int | None
    stdout: str
    stderr: str
    lived: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Clock:
    """A machine's clock against the host's: what it shows at 0 of CLOCK_MONOTONIC, in seconds since the epoch.

    :ivar error_s: most that :attr:`epoch` is wrong: the answer comes some time between question
        and receipt.
    """

    epoch: float
    error_s: float

    @classmethod
    def read(cls, question: Callable[[], float]) -> "Clock":
        """Ask a clock for what it shows, three times: the quickest answer counts."""

        def ask() -> Clock:
            before, shown, after = time.monotonic(), question(), time.monotonic()
            return cls(shown - (before + after) / 2, (after - before) / 2)

        return min((ask() for _ in range(3)), key=lambda answer: answer.error_s)

    def monotonic(self, at: float) -> float:
        """Return the host's CLOCK_MONOTONIC when this clock shows ``at``."""
        return at - self.epoch


@dataclasses.dataclass(frozen=True, slots=True)
class GuestSize:
    """Virtual hardware of each guest; :ivar scratch_mib: second disk, where programs run."""

    vcpus: int = 2
    memory_mib: int = 320
    scratch_mib: int = 512


class Machine(abc.ABC):
    """Somewhere a program can be run: a guest, or the host itself.

    :ivar address: on the benchmark network.
    :ivar interface: host side of its NIC, where what it sends arrives; None if it has none of its
        own.
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
    def serving(self, argv: Sequence[str]) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a program, a benchmark's server, runs; at its end it is killed.

        :raises ProgramError: it is missing or ended at once.
        """

    @abc.abstractmethod
    def loading(self, argv: Sequence[str]) -> contextlib.AbstractContextManager[None]:
        """Return a context in which a program runs beside others; at its end it is killed.

        :raises ProgramError: it is missing, or it ended before: others ran without that load.
        """

    @abc.abstractmethod
    def counter(self) -> Callable[[], dict[str, float]]:
        """Return what reads its CPU seconds on the host: cheap enough for many times a second, in any thread.

        They are those of the classes ``vcpu``, ``emulator``, ``iothread``, ``vhost``, ``worker``
        and ``total``, of threads there are now; and ``wait_s``, for which its vCPUs were runnable
        without a host CPU. The host's own machines have ``total`` alone. Beside them are those of
        :data:`MOVED` that are known.
        """

    def busy_s(self) -> float | None:
        """Return for how long a guest's CPUs were busy by its own count; None: not known. Any thread may ask."""
        return None

    def clock(self) -> Clock | None:
        """Return its clock against the host's as it is now; None where it cannot be asked."""
        return Clock.read(time.time)


@dataclasses.dataclass(slots=True)
class Pair:
    """Two machines of one arm on one network: the client is measured, the server is its peer."""

    client: Machine
    server: Machine


class Launcher(contextlib.AbstractContextManager["Launcher"]):
    """Makes pairs of machines."""

    def __exit__(self, *_exc: object) -> None:
        self.close()

    @property
    def vcpus(self) -> int | None:
        """vCPUs of each guest; None where it makes no guests."""
        return None

    def require(self, programs: Collection[str], memory_mib: int, scratch_mib: int) -> None:
        """Say before :meth:`prepare` what the machines must have, see :func:`.bench.plugins.needs`."""
        return

    @abc.abstractmethod
    def prepare(self) -> None:
        """Check what is needed and make the network; LaunchError: names what is missing and how to get it."""

    @abc.abstractmethod
    def boot(self, arm: Arm) -> Pair:
        """Boot one arm's client and server side by side and return them ready, or raise and leave nothing."""

    @abc.abstractmethod
    def activate(self, arm: str | None) -> None:
        """Let the pair of ``arm`` run, with its host settings, and pause all others; None: pause all."""

    @abc.abstractmethod
    def host_pair(self) -> Pair:
        """Return the host's own machines (arm ``host``); LaunchError: it has other programs than guests."""

    @abc.abstractmethod
    def destroy(self, arm: str) -> None:
        """Restore the settings of one arm, end its guests and remove their disks."""

    @abc.abstractmethod
    def environment(self) -> Environment:
        """Return what the results rest on."""

    @abc.abstractmethod
    def close(self) -> None:
        """Remove everything made here; may be called twice and after any failure."""


def disk_bytes(process: int) -> float:
    """Return what a process and its ended children moved below the page cache (proc_pid_io(5)); 0: unknown."""
    with contextlib.suppress(psutil.Error, OSError):
        moved = psutil.Process(process).io_counters()
        return float(moved.read_bytes + moved.write_bytes)
    return 0.0


def environment() -> dict[str, str]:
    """Return the environment of programs: plain English, and /usr/sbin, which is not on every user's PATH."""
    return {**os.environ, "PATH": cache_directory.program_path(), "LC_ALL": "C"}


def call(argv: Sequence[str], text: str = "") -> str:
    """Run a program with ``text`` as its input and return its output; LaunchError: it fails or takes too long."""
    try:
        done = subprocess.run(
            argv,
            input=text,
            capture_output=True,
            text=True,
            timeout=_LIMIT_S,
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise LaunchError(f"{' '.join(argv)[:200]} did not end within {_LIMIT_S:.0f} s") from error
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise LaunchError(f"{' '.join(argv)[:200]} failed ({done.returncode}): {reason[0][:300]}")
    return done.stdout


def filesystem(directory: str) -> str:
    """Return the type of the file system that holds ``directory``, such as ``ext4``; empty if unknown."""
    with contextlib.suppress(LaunchError, OSError):
        return call(
            ["findmnt", "--noheadings", "--output", "FSTYPE", "--target", directory]
        ).split()[-1]
    return ""
