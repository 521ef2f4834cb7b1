# SPDX-License-Identifier: Apache-2.0
"""Traces some CPUs in an instance of tracefs of its own, which is removed whatever happens.

The trace lies in the kernel's buffers until the window is over, so that nothing reads meanwhile. A
buffer that is full takes no more events: it bounds memory, and the window ends there.
Format and files: Documentation/trace/ftrace.rst.
"""

import contextlib
import errno
import os
import re
import time
from collections.abc import Iterator
from typing import Final

from nova_perf_tuning import bounded_read, cpulist, errors, signals
from nova_perf_tuning.host import privileged
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.interference import events, senders

_MOUNTS: Final = "/proc/self/mounts"
#: A host with thousands of containers has a megabyte.
_MAX_MOUNTS: Final = 16 << 20
#: Memory for events: of one CPU, and of all; the kernel gives no CPU less than two pages.
_CPU_KIB: Final = 8 << 10
_ALL_KIB: Final = 128 << 10
_LEAST_KIB: Final = 8
#: The same of the CPUs that send interrupts to those.
_SENDER_KIB: Final = 256
_ALL_SENDERS_KIB: Final = 32 << 10
#: Text of one CPU that is read: more than events in a full buffer become.
_MAX_TEXT: Final = 512 << 20
#: Instances are named by process and its start time, in ticks since boot: a boot leaves none.
_NAME: Final = re.compile(r"nova-perf-(\d{1,10})-(\d{1,20})(?:-senders)?").fullmatch
#: How long another reader may keep an instance busy, in seconds.
_BUSY_S: Final = 2.0
_NOW: Final = re.compile(r"^now ts:\s*(\d+\.\d+)$", re.MULTILINE).search
_DROPPED: Final = re.compile(r"^dropped events:\s*(\d+)$", re.MULTILINE).search


class TraceError(errors.PerfTuningError):
    """The kernel cannot trace, or lets this process not."""


class TraceSession:
    """A trace that runs; :func:`tracing` makes it.

    :ivar missing: events that this kernel lacks.
    :ivar begin_s, end_s: by the clock of the trace; ``end_s`` after :meth:`stop`.
    """

    def __init__(self, path: str, cpus: frozenset[int]) -> None:
        self._path = path
        self._senders = senders_path(path)
        self._cpus = cpus
        self.missing: list[str] = []
        self.begin_s = self.end_s = 0.0
        #: Files of the trace that are being read: an instance with an open one cannot be removed.
        self.reading = contextlib.ExitStack()

    def start(self) -> None:
        """Set everything up and begin to trace."""
        self._prepare(self._path)
        bits = 0
        for cpu in self._cpus:
            bits |= 1 << cpu
        self._write("tracing_cpumask", _mask(bits))
        # First of all CPUs: each would get more than a megabyte when the first event is enabled.
        self._write("buffer_size_kb", str(_LEAST_KIB))
        size = max(_LEAST_KIB, min(_CPU_KIB, _ALL_KIB // len(self._cpus)))
        for cpu in sorted(self._cpus):
            self._write(f"per_cpu/cpu{cpu}/buffer_size_kb", str(size))
        self._enable()
        self._start_senders()
        self._write("tracing_on", "1")
        self.begin_s = self._now()

    def stop(self) -> None:
        """End the trace; its events can be read from then on."""
        self.end_s = self._now()
        self._write("tracing_on", "0")
        if os.path.isdir(self._senders):
            privileged.write_trace(self._senders, "tracing_on", "0")

    def lines(self, cpu: int) -> Iterator[str]:
        """Yield the lines of a CPU's trace."""
        return self._lines(f"{self._path}/per_cpu/cpu{cpu}/trace")

    def sender_lines(self) -> Iterator[str]:
        """Yield the lines of all CPUs that sent interrupts to these."""
        if os.path.isdir(self._senders):
            yield from self._lines(f"{self._senders}/trace")

    def _lines(self, path: str) -> Iterator[str]:
        left = _MAX_TEXT
        file = open(path, encoding="utf-8", errors="replace", newline="\n")
        self.reading.callback(file.close)
        for line in file:
            left -= len(line)
            if left < 0:
                break
            yield line
        file.close()

    def dropped(self, cpu: int) -> int:
        """Return how many events found the buffer of a CPU full."""
        return _dropped(self._stats(cpu))

    def senders_dropped(self) -> int:
        """Return how many events found a buffer of the senders full."""
        if not os.path.isdir(self._senders):
            return 0
        total = 0
        for cpu in os.listdir(f"{self._senders}/per_cpu"):
            total += _dropped(bounded_read.kernel_text("", f"{self._senders}/per_cpu/{cpu}/stats"))
        return total

    def _prepare(self, path: str) -> None:
        privileged.write_trace(path, "tracing_on", "0")
        privileged.write_trace(path, "trace_clock", "mono")
        privileged.write_trace(path, "options/overwrite", "0")

    def _start_senders(self) -> None:
        """Trace on all CPUs who sends interrupts to these; a kernel may lack events or filter."""
        privileged.make_trace(self._senders)
        self._prepare(self._senders)
        size = max(_LEAST_KIB, min(_SENDER_KIB, _ALL_SENDERS_KIB // (os.cpu_count() or 1)))
        privileged.write_trace(self._senders, "buffer_size_kb", str(size))
        for event, field in senders.EVENTS.items():
            condition = f"{field} & CPUS{{{cpulist.format(self._cpus)}}}"
            try:
                privileged.write_trace(self._senders, f"events/{event}/filter", condition)
                privileged.write_trace(self._senders, f"events/{event}/enable", "1")
            except OSError:
                self.missing.append(event.replace("/", ":"))
        privileged.write_trace(self._senders, "tracing_on", "1")

    def _enable(self) -> None:
        if self._has("events/irq/softirq_raise/filter"):
            self._write("events/irq/softirq_raise/filter", events.RAISE_FILTER)
        wanted = [*events.EVENTS, *events.CALLS]
        if self._has("events/irq_vectors"):
            wanted += events.X86_VECTORS
        else:
            wanted += events.ARM_IPIS
        for event in wanted:
            try:
                self._write(f"events/{event}/enable", "1")
            except FileNotFoundError:
                self.missing.append(event.replace("/", ":"))

    def _has(self, name: str) -> bool:
        return os.path.exists(f"{self._path}/{name}")

    def _now(self) -> float:
        match = _NOW(self._stats(min(self._cpus)))
        if match is None:
            raise TraceError(
                f"{self._path}/per_cpu: the kernel does not say its time; leave --trace out"
            )
        return float(match[1])

    def _stats(self, cpu: int) -> str:
        return bounded_read.kernel_text("", f"{self._path}/per_cpu/cpu{cpu}/stats")

    def _write(self, name: str, value: str) -> None:
        privileged.write_trace(self._path, name, value)


def _dropped(stats: str) -> int:
    match = _DROPPED(stats)
    if match is None:
        return 0
    return int(match[1])


def senders_path(path: str) -> str:
    """Return the instance beside another one that traces who sends interrupts."""
    return f"{path}-senders"


def _mask(bits: int) -> str:
    """Return a set of CPUs as the kernel reads a mask: groups of 32 bits."""
    groups: list[str] = []
    while bits:
        groups.insert(0, f"{bits & 0xFFFFFFFF:08x}")
        bits >>= 32
    return ",".join(groups)


@contextlib.contextmanager
def tracing(cpus: frozenset[int]) -> Iterator[TraceSession]:
    """Trace CPUs while the block runs; :meth:`TraceSession.stop` ends the trace before that.

    What a process left that was killed is removed first. Signals should raise, see
    :func:`.signals.guarded`.

    :raises TraceError: this kernel, this user or this machine cannot trace.
    """
    top = tracefs()
    remove_leftovers(top)
    pid = os.getpid()
    path = f"{top}/instances/nova-perf-{pid}-{guest_cpu.started(f'/proc/{pid}')}"
    session = TraceSession(path, cpus)
    try:
        try:
            # A signal within a write would leave its file open, and the instance in use.
            with signals.deferred():
                privileged.make_trace(path)
                session.start()
        except OSError as error:
            raise _refusal(path, error) from None
        yield session
    finally:
        with signals.deferred():
            session.reading.close()
            _remove(senders_path(path))
            _remove(path)


def _refusal(path: str, error: OSError) -> TraceError:
    why = error.strerror or str(error)
    remedy = "leave --trace out"
    if error.errno in (errno.EPERM, errno.EACCES):
        remedy = "run it as root; a kernel in lockdown mode 'confidentiality' traces nothing"
    elif error.errno == errno.ENOMEM:
        remedy = "watch fewer CPUs with --cpus"
    return TraceError(f"{error.filename or path}: {why}: {remedy}")


def tracefs() -> str:
    """Return where tracefs is mounted.

    :raises TraceError: it is not, or this user may not look into it.
    """
    if os.geteuid() != 0:
        raise TraceError("--trace needs root: run it again with sudo, or leave --trace out")
    with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
        mounts = file.read(_MAX_MOUNTS).splitlines()
    for line in mounts:
        words = line.split()
        if len(words) > 2 and words[2] == "tracefs":
            # The kernel writes blanks in paths as \040.
            return words[1].replace("\\040", " ")
    raise TraceError(
        "--trace needs tracefs, which is not mounted: "
        "mount -t tracefs tracefs /sys/kernel/tracing, or leave --trace out"
    )


def remove_leftovers(top: str) -> list[str]:
    """Remove the instances of processes that have ended, and return their names."""
    removed: list[str] = []
    try:
        names = os.listdir(f"{top}/instances")
    except OSError:
        return []
    for name in sorted(names):
        match = _NAME(name)
        if match is None or _is_alive(int(match[1]), int(match[2])):
            continue
        _remove(f"{top}/instances/{name}")
        removed.append(name)
    return removed


def _is_alive(pid: int, start: int) -> bool:
    try:
        return guest_cpu.started(f"/proc/{pid}") == start
    except (OSError, IndexError, ValueError):
        return False


def _remove(path: str) -> None:
    """Remove an instance; one that somebody reads is silenced, and the next run removes it."""
    until = time.monotonic() + _BUSY_S
    while True:
        try:
            privileged.remove_trace(path)
            return
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno != errno.EBUSY or time.monotonic() > until:
                _silence(path)
                return
        time.sleep(0.05)


def _silence(path: str) -> None:
    with contextlib.suppress(OSError):
        privileged.write_trace(path, "tracing_on", "0")
