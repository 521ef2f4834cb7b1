# SPDX-License-Identifier: Apache-2.0
"""One guest of the launcher, and commands in it through the QEMU guest agent: no network, no password.

What comes back was made by the guest: it is bounded by libvirt (4 MiB an answer), checked for
form, and cut here.
"""

import base64
import contextlib
import dataclasses
import functools
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import libvirt
import libvirt_qemu

from nova_perf_tuning import bounded_json, bounded_read
from nova_perf_tuning.guest import probe, transform
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.input.facts import guests
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.printing import one_line, printable
from nova_perf_tuning.validation.launch import base, local, network

_RUN: Final = "/usr/lib/perf/run-job"
_KILL: Final = "/usr/lib/perf/kill-job"
#: libvirt waits this long for one answer.
_ANSWER_S = 30
#: How long a program may take to go away after SIGKILL, and a server to come to rest after its
#: start.
_DEATH_S = 60.0
#: For programs in the guest that take seconds at most, were the host not busy.
_SHORT_S = 120.0
_CONSOLE_BYTES = 6000
_CONSOLE_LINES = 15
#: Asking costs an emulated guest about 2 ms of CPU; a twentieth of the time passed keeps it below
#: 1 %.
_POLL_MIN_S, _POLL_MAX_S, _POLL_SHARE = 0.02, 0.25, 0.05

#: Runs a program and stamps its begin and end by the guest's clock; busybox reads that without
#: another process. It prefers its applets to what was added to the image under their names, unless
#: a path is given.
_STAMPED: Final = (
    "busybox",
    "sh",
    "-c",
    '[ ! -e "/bin/$1" ] || { p=/bin/$1; shift; set -- "$p" "$@"; };'
    ' b=$EPOCHREALTIME; (exec "$@"); s=$?; printf "\\nlived %s %s\\n" "$b" "$EPOCHREALTIME" >&2; exit $s',
    "sh",
)
_STAMP: Final = re.compile(r"\nlived ([0-9]{1,11}\.[0-9]{6}) ([0-9]{1,11}\.[0-9]{6})\n\Z")

_Answer = TypeVar("_Answer")


class AgentChannel:
    """The agent of one guest."""

    def __init__(
        self, domain: libvirt.virDomain, failure: Callable[[str], base.LaunchError]
    ) -> None:
        """:param failure: makes the error of what is wrong with the agent or its answer."""
        self._domain = domain
        self._failure = failure

    def ask(
        self,
        command: str,
        read: Callable[[Any], _Answer],
        arguments: object = None,
        timeout_s: int | None = None,
    ) -> _Answer:
        """Send one command and return what ``read`` makes of the answer.

        :param timeout_s: libvirt waits this long; None: the usual.
        :raises LaunchError: no agent, no answer in time, an error, or an answer that cannot be
            read.
        """
        request: dict[str, object] = {"execute": command}
        if arguments:
            request["arguments"] = arguments
        if timeout_s is None:
            timeout_s = _ANSWER_S
        try:
            answer = libvirt_qemu.qemuAgentCommand(self._domain, json.dumps(request), timeout_s, 0)
        except libvirt.libvirtError as error:
            raise self._failure(f"{command}: {one_line(error, 300)}") from error
        try:
            return read(bounded_json.parse(answer)["return"])
        except (
            ValueError,
            LookupError,
            TypeError,
            AttributeError,
            OverflowError,
            RecursionError,
        ) as error:
            raise self._failure(f"{command}: the agent's answer is malformed") from error

    def is_ready(self) -> bool:
        try:
            return self.ask("guest-ping", lambda _answer: True, timeout_s=2)
        except base.LaunchError:
            return False

    def start(self, job: str, argv: Sequence[str]) -> int:
        """Start a program under run-job and return the number to ask :meth:`exited` with."""
        return self._exec([_RUN, job, *argv], capture=True)

    def kill(self, job: str) -> None:
        self._exec([_KILL, job, "KILL"], capture=False)

    def _exec(self, argv: Sequence[str], capture: bool) -> int:
        arguments = {"path": argv[0], "arg": list(argv[1:]), "capture-output": capture}
        return self.ask("guest-exec", lambda answer: _whole(answer["pid"]), arguments)

    def exited(self, pid: int) -> base.Finished | None:
        """Return how a program ended, None while it runs."""
        return self.ask("guest-exec-status", _finished, {"pid": pid})

    def time_s(self) -> float:
        return self.ask("guest-get-time", lambda answer: _whole(answer) / 1e9)

    def busy_s(self) -> float:
        """Return the seconds that the guest's CPUs were busy: user, nice, system, irq and softirq.

        guest-get-cpustats reads /proc/stat in the agent itself and gives milliseconds (QEMU 7.1).
        """
        names = ("user", "nice", "system", "irq", "softirq")
        return self.ask(
            "guest-get-cpustats",
            lambda cpus: sum(int(cpu.get(name) or 0) for cpu in cpus for name in names) / 1e3,
        )


def _whole(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 63:
        raise ValueError
    return value


def _finished(answer: Any) -> base.Finished | None:
    if not isinstance(answer["exited"], bool):
        raise ValueError
    if not answer["exited"]:
        return None
    status = answer.get("exitcode")
    if not isinstance(status, int):
        status = None
    stdout = base64.b64decode(answer.get("out-data") or "", validate=True)
    stderr = base64.b64decode(answer.get("err-data") or "", validate=True)
    return base.Finished(
        status, base.cut(stdout, base.STDOUT_LIMIT), base.cut(stderr, base.STDERR_LIMIT)
    )


class GuestMachine(base.Machine):
    """A running guest, whose programs run in the scratch disk's directory.

    :ivar transformed: the domain XML it was started with, and what was left out of it.
    """

    def __init__(
        self,
        domain: libvirt.virDomain,
        port: network.Port,
        console: str,
        transformed: transform.Transformed,
    ) -> None:
        self.name, self.address, self.interface = str(domain.name()), port.address, port.tap
        self.transformed = transformed
        self._domain = domain
        self._console = console
        self.agent = AgentChannel(domain, self.failure)
        self._jobs = 0

    def is_alive(self) -> bool:
        """Whether its process exists (a guest that panicked or was destroyed has none)."""
        return self._state() not in (libvirt.VIR_DOMAIN_NOSTATE, libvirt.VIR_DOMAIN_SHUTOFF)

    def failure(self, what: str) -> base.LaunchError:
        """Return the error to raise: what is wrong, then the console's last lines."""
        return base.LaunchError(
            f"guest {self.name}: {what}; last lines of its console:\n{self._console_tail()}"
        )

    def _console_tail(self) -> str:
        data = b""
        with contextlib.suppress(OSError), open(self._console, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _CONSOLE_BYTES))
            data = file.read(_CONSOLE_BYTES)
        text = data.decode("utf-8", "replace").replace("\r", "")
        lines = [line for line in map(str.rstrip, text.split("\n")) if line]
        # A panic's reason stands before its call trace.
        panic = max(
            (at for at, line in enumerate(lines) if "Kernel panic" in line), default=len(lines)
        )
        kept = [printable(line[-300:]) for line in lines[: panic + 2][-_CONSOLE_LINES:]]
        return "\n".join(f"  | {line}" for line in kept) or "  (nothing)"

    def configure_network(self, peer: str | None = None) -> None:
        """Give the interface its address and, with ``peer``, see that the peer answers."""
        for argv in (
            ("ip", "addr", "add", f"{self.address}/{network.POOL.prefixlen}", "dev", "eth0"),
            ("ip", "link", "set", "eth0", "up"),
        ):
            done = self.run(argv, _SHORT_S)
            if done.returncode:
                raise self.failure(f"{' '.join(argv)} failed: {local.first_line(done.stderr)}")
        if peer is not None:
            done = self.run(("ping", "-c", "1", "-w", "30", peer), _SHORT_S)
            if done.returncode:
                hint = "a host firewall may filter bridged packets (sysctl net.bridge.bridge-nf-call-iptables)"
                raise self.failure(f"{peer} on the same bridge does not answer; {hint}")

    def run(self, argv: Sequence[str], timeout_s: float) -> base.Finished:
        until = time.monotonic() + timeout_s
        job, pid = self._start((*_STAMPED, *argv))
        done = self._wait(pid, until)
        if done is None:
            self.agent.kill(job)
            if (done := self._wait(pid, time.monotonic() + _DEATH_S)) is None:
                raise self.failure(f"{argv[0]} could not be ended after its {timeout_s:g} s")
            return dataclasses.replace(done, returncode=None)
        stderr, lived = _lived(done.stderr)
        return dataclasses.replace(done, stderr=stderr, lived=lived)

    @contextlib.contextmanager
    def serving(self, argv: Sequence[str]) -> Iterator[None]:
        job, pid = self._start(argv)
        # A server listens when it has come to rest; one that ended at once has failed.
        done = self.run(("/usr/lib/perf/await-idle", job), _SHORT_S)
        if done.returncode:
            status = self._wait(pid, time.monotonic() + _DEATH_S)
            text = ""
            if status is not None:
                text = status.stderr or status.stdout
            raise base.ProgramError(
                f"guest {self.name}: {argv[0]} ended at once: {local.first_line(text)}"
            )
        try:
            yield
        finally:
            if self.is_alive() and self.agent.exited(pid) is None:
                self.agent.kill(job)
                self._wait(pid, time.monotonic() + _DEATH_S)

    @contextlib.contextmanager
    def loading(self, argv: Sequence[str]) -> Iterator[None]:
        job, pid = self._start(argv)
        ended: base.Finished | None = None
        try:
            ended = self._wait(pid, time.monotonic() + base.LOAD_S)
            if ended is None:
                yield
                ended = self.agent.exited(pid)
        finally:
            if ended is None and self.is_alive() and self.agent.exited(pid) is None:
                self.agent.kill(job)
                self._wait(pid, time.monotonic() + _DEATH_S)
        if ended is not None:
            text = local.first_line(ended.stderr or ended.stdout)
            raise base.ProgramError(f"guest {self.name}: the load {argv[0]} ended early: {text}")

    def probe_result(self) -> probe.ProbeResult:
        return probe.parse(self.run(probe.ARGV, _SHORT_S).stdout)

    def busy_s(self) -> float | None:
        return self._optional(self.agent.busy_s)

    def clock(self) -> base.Clock | None:
        return self._optional(lambda: base.Clock.read(self.agent.time_s))

    def _optional(self, question: Callable[[], _Answer]) -> _Answer | None:
        """Ask the agent for what one can do without; None: no answer."""
        if self._state() == libvirt.VIR_DOMAIN_RUNNING:  # a paused guest would be waited for
            with contextlib.suppress(base.LaunchError):
                return question()
        return None

    def counter(self) -> Callable[[], dict[str, float]]:
        # To find them takes a look at all of /proc; they live as long as its devices.
        return functools.partial(self._read, self.process())

    def _read(self, process: host_model.GuestProcess) -> dict[str, float]:
        times = guest_cpu.read(process.pid, process.threads)
        if times is None:
            raise self.failure("its process is gone")
        total = sum(times.spent.values())
        counters = {**times.spent, "total": total, "wait_s": times.waited_s}
        with contextlib.suppress(OSError, ValueError):  # what it sends its tap receives
            tap = f"/sys/class/net/{self.interface}/statistics/rx_bytes"
            counters["net_bytes"] = float(bounded_read.kernel_text("", tap))
        return {**counters, "disk_bytes": base.disk_bytes(process.pid)}

    def process(self) -> host_model.GuestProcess:
        """Return QEMU's process and threads as the host's facts have them."""
        for process in guests.read_guests(Root())[0]:
            if process.name == self.name:
                return process
        raise self.failure("its process is gone")

    def suspend(self) -> None:
        if self._state() == libvirt.VIR_DOMAIN_RUNNING:
            self._domain.suspend()

    def resume(self) -> None:
        if not self.is_alive():
            raise self.failure("it has ended")
        if self._state() == libvirt.VIR_DOMAIN_PAUSED:
            self._domain.resume()

    def _state(self) -> int:
        try:
            return int(self._domain.state()[0])
        except libvirt.libvirtError:
            return int(libvirt.VIR_DOMAIN_NOSTATE)

    def _start(self, argv: Sequence[str]) -> tuple[str, int]:
        self._jobs += 1
        job = f"job{self._jobs}"
        return job, self.agent.start(job, argv)

    def _wait(self, pid: int, until: float) -> base.Finished | None:
        """Return how a program ended, None when it still runs at ``until`` (CLOCK_MONOTONIC)."""
        begin = time.monotonic()
        while True:
            status = self.agent.exited(pid)
            now = time.monotonic()
            if status is not None or now >= until:
                return status
            pause = min(_POLL_MAX_S, max(_POLL_MIN_S, (now - begin) * _POLL_SHARE))
            time.sleep(min(pause, until - now))


def _lived(stderr: str) -> tuple[str, tuple[float, float] | None]:
    """Return a program's errors without the stamp behind them, and the stamp, which the guest may have forged."""
    stamp = _STAMP.search(stderr)
    if stamp is None:
        return stderr, None
    begun, ended = float(stamp[1]), float(stamp[2])
    own = stderr[: stamp.start()]
    if begun > ended:
        return own, None
    return own, (begun, ended)
