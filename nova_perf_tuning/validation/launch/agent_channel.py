"""Commands in a guest through the QEMU guest agent: a virtio-serial port, no network, no password.

Whatever comes back was made by the guest: it is bounded (by run-job in the image and by libvirt's own limit of
4 MiB per answer), checked for form, and cut here again.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import libvirt
import libvirt_qemu

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.launch import base

_RUN: Final = "/usr/lib/perf/run-job"
_KILL: Final = "/usr/lib/perf/kill-job"
#: libvirt waits this long for one answer; a paused or hanging guest costs so much, no more.
ANSWER_S: Final = 30


class AgentChannel:
    """The agent of one guest."""

    def __init__(self, domain: libvirt.virDomain, failure: Callable[[str], base.LaunchError]) -> None:
        """:param failure: makes the error of what is wrong with the agent or its answer."""
        self._domain = domain
        self._failure = failure

    def call(self, command: str, arguments: dict[str, Any] | None = None, timeout_s: int = ANSWER_S) -> Any:
        """Send one command and return what the agent's answer holds.

        :raises LaunchError: no agent, no answer in time, an error, or an answer that is no JSON.
        """
        request: dict[str, Any] = {"execute": command}
        if arguments is not None:
            request["arguments"] = arguments
        try:
            answer = libvirt_qemu.qemuAgentCommand(self._domain, json.dumps(request), timeout_s, 0)
        except libvirt.libvirtError as error:
            raise self._failure(f"{command}: {one_line(error, 300)}") from error
        try:
            return json.loads(answer)["return"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise self._failure(f"{command}: the agent's answer is malformed") from error

    def is_ready(self) -> bool:
        """Whether the agent answers now."""
        try:
            self.call("guest-ping", timeout_s=2)
        except base.LaunchError:
            return False
        return True

    def start(self, job: str, argv: Sequence[str]) -> int:
        """Start a program under run-job and return the number to ask :meth:`exited` with."""
        return self._exec([_RUN, job, *argv], capture=True)

    def kill(self, job: str, signal_name: str) -> None:
        """Send a signal to everything that job started."""
        self._exec([_KILL, job, signal_name], capture=False)

    def _exec(self, argv: Sequence[str], capture: bool) -> int:
        arguments = {"path": argv[0], "arg": list(argv[1:]), "capture-output": capture}
        answer = self.call("guest-exec", arguments)
        pid = answer.get("pid") if isinstance(answer, dict) else None
        if not isinstance(pid, int):
            raise self._failure("guest-exec: the agent's answer has no process id")
        return pid

    def exited(self, pid: int) -> base.Finished | None:
        """Return how a program ended, None while it runs."""
        answer = self.call("guest-exec-status", {"pid": pid})
        if not isinstance(answer, dict) or not isinstance(answer.get("exited"), bool):
            raise self._failure("guest-exec-status: the agent's answer is malformed")
        if not answer["exited"]:
            return None
        status = answer.get("exitcode")
        return base.Finished(
            status if isinstance(status, int) else None,
            self._text(answer.get("out-data"), base.STDOUT_LIMIT),
            self._text(answer.get("err-data"), base.STDERR_LIMIT),
        )

    def time_s(self) -> float:
        """Return the seconds since the epoch by the guest's clock."""
        shown = self.call("guest-get-time")
        if isinstance(shown, bool) or not isinstance(shown, int) or not 0 <= shown < 1 << 63:
            raise self._failure("guest-get-time: the agent's answer is malformed")
        return shown / 1e9

    def busy_s(self) -> float:
        """Return the seconds that the guest's CPUs were busy: user, nice, system, irq and softirq.

        guest-get-cpustats reads /proc/stat in the agent itself and gives milliseconds (QEMU 7.1).
        """
        cpus = self.call("guest-get-cpustats")
        try:
            names = ("user", "nice", "system", "irq", "softirq")
            return sum(int(cpu.get(name) or 0) for cpu in cpus for name in names) / 1e3
        except (AttributeError, TypeError, ValueError) as error:
            raise self._failure("guest-get-cpustats: the agent's answer is malformed") from error

    def _text(self, data: object, limit: int) -> str:
        if not isinstance(data, str):
            return ""
        try:
            return base64.b64decode(data, validate=True)[:limit].decode("utf-8", "replace")
        except (binascii.Error, ValueError) as error:
            raise self._failure("guest-exec-status: the output is not base64") from error
