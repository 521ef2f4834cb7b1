# SPDX-License-Identifier: Apache-2.0
"""This host as a launcher, whose arms are all the host itself, over loopback.

Used by ``bench run``, and by ``validate --launcher host``, whose ratios are the noise of host and
method (A/A).
"""

import contextlib
import errno
import os
import platform
import re
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import psutil

from nova_perf_tuning import bounded_read, signals
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.printing import printable
from nova_perf_tuning.validation.launch import base, run_directory
from nova_perf_tuning.validation.results.environment import Environment

_SETTLE_S = 10.0
#: How names of scratch directories begin. A new one gets its name when it is locked, so that no
#: sweep of another run finds it before.
_PREFIX: Final = "nova-perf-run-"
_NEW_PREFIX: Final = "nova-perf-new-"
_NAMES: Final = re.compile(f"{_PREFIX}[0-9a-z_]{{8}}")


class LocalLauncher(base.Launcher):
    """Arms that are all this host; each has a directory of its own to run in."""

    def __init__(self, directory: str | None = None) -> None:
        """:param directory: where the scratch directory goes (default: $TMPDIR, /tmp)."""
        self._parent = directory
        self._directory = ""
        self._lock = -1
        self._machines: dict[str, list[HostMachine]] = {}

    def prepare(self) -> None:
        """Make the scratch directory, and remove those of runs whose process was killed."""
        if self._directory:
            return
        parent = self._parent or _temporary()
        run_directory.sweep(lambda _name, _path: None, parent, _NAMES)
        with signals.deferred():  # a directory whose name is lost stays
            new = tempfile.mkdtemp(prefix=_NEW_PREFIX, dir=parent)
            os.chmod(new, 0o711)  # noqa: S103  # as the run's directory of the other launcher
            self._lock = run_directory.locked(new)
            name = os.path.basename(new).removeprefix(_NEW_PREFIX)
            path = os.path.join(parent, f"{_PREFIX}{name}")
            os.rename(new, path)
            self._directory = path

    def boot(self, arm: base.Arm) -> base.Pair:
        if arm.request:
            raise base.LaunchError(
                f"launcher 'host' cannot tune arm '{arm.name}'; it has no guests"
            )
        return self._pair(arm.name)

    def host_pair(self) -> base.Pair:
        return self._pair("host")

    def activate(self, arm: str | None) -> None:
        """Nothing rests: the host is always there."""

    def destroy(self, arm: str) -> None:
        for machine in self._machines.pop(arm, ()):
            machine.close()

    def environment(self) -> Environment:
        return Environment(
            launcher="host",
            accelerator="none",
            kernel=platform.release(),
            scratch_filesystem=base.filesystem(self._directory or _temporary()),
        )

    def close(self) -> None:
        for arm in list(self._machines):
            self.destroy(arm)
        if self._directory:
            shutil.rmtree(self._directory, ignore_errors=True)
            self._directory = ""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _pair(self, arm: str) -> base.Pair:
        if arm not in self._machines:
            self.prepare()
            directory = os.path.join(self._directory, arm)
            self._machines[arm] = [
                HostMachine(role, "127.0.0.1", None, os.path.join(directory, role))
                for role in ("client", "server")
            ]
        return base.Pair(*self._machines[arm])


def _temporary() -> str:
    """Return the directory for temporary files; Python makes and removes a file to find it."""
    with signals.deferred():  # which a signal in between would leave there
        return tempfile.gettempdir()


def first_line(text: str) -> str:
    """Return the first line of a program's errors, safe to print; most name their fault there, usage follows."""
    return printable(text.strip().partition("\n")[0][:200])


class _Process:
    """One program, in a namespace if there is one; its output goes to nameless files, read up to the limit."""

    def __init__(self, argv: Sequence[str], namespace: str | None, directory: str) -> None:
        self._outputs = (
            tempfile.TemporaryFile(dir=directory),
            tempfile.TemporaryFile(dir=directory),
        )
        # Same number after exec, so what is measured and killed is the program itself.
        # A kill of this process ends it, too.
        command = ["setpriv", "--pdeathsig", "KILL"]
        if namespace:
            command += ["ip", "netns", "exec", namespace]
        elif shutil.which(argv[0], path=base.environment()["PATH"]) is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), argv[0])
        command += argv
        self._popen = subprocess.Popen(
            command,
            cwd=directory,
            env=base.environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._outputs[0],
            stderr=self._outputs[1],
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self.cpu_s = 0.0

    def wait(self, timeout_s: float) -> bool:
        """Wait for its end without reaping it; return whether it came in time."""
        descriptor = os.pidfd_open(self.pid)
        try:
            return bool(select.select([descriptor], [], [], max(0.0, timeout_s))[0])
        finally:
            os.close(descriptor)

    def end(self) -> tuple[int, str, str]:
        """End it and all that it started.

        Return its exit status (negative: the signal that ended it), and output and errors, cut at
        their limits.
        """
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        _pid, status, usage = os.wait4(self.pid, 0)
        self.cpu_s = usage.ru_utime + usage.ru_stime
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        texts = []
        for file, limit in zip(self._outputs, (base.STDOUT_LIMIT, base.STDERR_LIMIT), strict=True):
            with file:
                file.seek(0)
                texts.append(base.cut(file.read(limit), limit, os.fstat(file.fileno()).st_size))
        return self._popen.returncode, texts[0], texts[1]


class HostMachine(base.Machine):
    """The host itself; its CPU is that of the programs that ran and run here, waited-for children included."""

    def __init__(self, role: str, address: str, namespace: str | None, directory: str) -> None:
        """:param namespace: network namespace of its programs; None: the host's own network.

        :param directory: where programs run, on the file system that also holds the guests' disks.
        """
        self.name, self.address = f"host-{role}", address
        self._namespace, self._directory = namespace, directory
        self._processes: dict[int, _Process] = {}
        self._ended_s = self._most_s = self._ended_disk_bytes = 0.0
        self._sent = dict[str, float]()
        self._lock = threading.Lock()
        os.makedirs(directory, exist_ok=True)
        os.chmod(directory, 0o711)  # noqa: S103  # a share's guest, who is nobody, passes through

    def run(self, argv: Sequence[str], timeout_s: float) -> base.Finished:
        begun = time.time()
        try:
            process = self._start(argv)
        except OSError as error:
            return base.Finished(127, "", f"{argv[0]}: {error.strerror}")
        try:
            in_time = process.wait(timeout_s)
            ended = time.time()
        finally:
            returncode, stdout, stderr = self._finish(process)
        if not in_time:
            return base.Finished(None, stdout, stderr, (begun, ended))
        return base.Finished(returncode, stdout, stderr, (begun, ended))

    @contextlib.contextmanager
    def serving(self, argv: Sequence[str]) -> Iterator[None]:
        try:
            process = self._start(argv)
        except OSError as error:
            raise base.ProgramError(f"{self.name}: {argv[0]}: {error.strerror}") from None
        listens = False
        try:
            listens = _await_idle(process)
            if listens:
                yield
        finally:
            _status, stdout, stderr = self._finish(process)
        if not listens:
            raise base.ProgramError(
                f"{self.name}: {argv[0]} ended at once: {first_line(stderr or stdout)}"
            )

    @contextlib.contextmanager
    def loading(self, argv: Sequence[str]) -> Iterator[None]:
        try:
            process = self._start(argv)
        except OSError as error:
            raise base.ProgramError(f"{self.name}: {argv[0]}: {error.strerror}") from None
        ended = False
        try:
            ended = process.wait(base.LOAD_S)
            if not ended:
                yield
                ended = process.wait(0.0)
        finally:
            _status, stdout, stderr = self._finish(process)
        if ended:
            text = first_line(stderr or stdout)
            raise base.ProgramError(f"{self.name}: the load {argv[0]} ended early: {text}")

    def counter(self) -> Callable[[], dict[str, float]]:
        return self._read

    def _read(self) -> dict[str, float]:
        with self._lock:
            total = self._ended_s
            for process in self._processes.values():
                total += max(process.cpu_s, _tree_cpu_s(process.pid))
            # A child that ends between two looks is missing in both.
            self._most_s = max(self._most_s, total)
            if self._namespace:
                for pid in self._processes:
                    with contextlib.suppress(OSError, LookupError, ValueError):
                        self._sent["net_bytes"] = _sent_bytes(pid)
            disk = self._ended_disk_bytes + sum(map(_tree_disk_bytes, self._processes))
            return {"total": self._most_s, "disk_bytes": disk, **self._sent}

    def close(self) -> None:
        for process in list(self._processes.values()):
            self._finish(process)
        shutil.rmtree(self._directory, ignore_errors=True)

    def _start(self, argv: Sequence[str]) -> _Process:
        process = _Process(argv, self._namespace, self._directory)
        with self._lock:
            self._processes[process.pid] = process
        return process

    def _finish(self, process: _Process) -> tuple[int, str, str]:
        moved = _tree_disk_bytes(process.pid)
        ended = process.end()
        with self._lock:
            self._ended_s += process.cpu_s
            self._ended_disk_bytes += moved
            self._processes.pop(process.pid, None)
        return ended


def _tree(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):  # it has ended in between
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                for child in file.read().split():
                    yield from _tree(int(child))


def _tree_cpu_s(pid: int) -> float:
    """Return the CPU seconds of a process and all below it, of those that have ended and were waited for too."""
    spent = 0.0
    for process in _tree(pid):
        with contextlib.suppress(OSError, psutil.Error):
            times = psutil.Process(process).cpu_times()
            spent += guest_cpu.process_s(process) + times.children_user + times.children_system
    return spent


def _tree_disk_bytes(pid: int) -> float:
    return sum(map(base.disk_bytes, _tree(pid)))


def _sent_bytes(pid: int) -> float:
    """Return the bytes that the network namespace of a process has sent (proc_pid_net(5), column 9 of dev).

    :raises OSError: it has ended.
    """
    rows = (
        line.split()
        for line in bounded_read.kernel_text("", f"/proc/{pid}/net/dev").splitlines()[2:]
    )
    return sum(float(row[9]) for row in rows if row[0] != "lo:")


def _await_idle(process: _Process) -> bool:
    """Wait until a server sleeps, which it does once it listens; False when it ended instead."""
    until = time.monotonic() + _SETTLE_S
    asleep = 0
    while time.monotonic() < until and asleep < 2:
        if process.wait(0.03):
            return False
        if psutil.Process(process.pid).status() == psutil.STATUS_SLEEPING:
            asleep += 1
        else:
            asleep = 0
    return True
