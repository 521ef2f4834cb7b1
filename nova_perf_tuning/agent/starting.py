"""The agent's start: signals that come before its loop runs, and the pause after a start that failed.

It imports next to nothing, so that signals are caught before the slow imports.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import MutableMapping
from types import FrameType
from typing import Final

from nova_perf_tuning.agent import notify

#: Seconds before the next start where nothing can be remembered.
_PAUSE_S: Final = 10
#: The longest pause, in seconds.
_LONGEST_S: Final = 60
#: Seconds after which a failed start says nothing of the next.
_FORGET_S: Final = 600.0
_FILE: Final = "failed-starts"
_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


class Signals:
    """Notes signals until the agent's loop takes them over.

    SIGHUP asks for a pass, which comes anyway; SIGTERM and SIGINT shall end what is not there yet.

    :ivar asked: whether to end.
    """

    def __init__(self) -> None:
        self.asked = False
        self._before = {number: signal.signal(number, self._note) for number in (*_ENDING, signal.SIGHUP)}

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.asked = self.asked or number != signal.SIGHUP

    def release(self) -> None:
        """Let signals do again what they did before."""
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def wait(self, seconds: float) -> bool:
        """Wait, and return at once True when the end is asked for."""
        signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
        try:
            self.asked = self.asked or signal.sigtimedwait(_ENDING, seconds) is not None
        finally:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
        return self.asked


class Notes(notify.Notifier):
    """Notifications to systemd, which starts a failed agent again after an instant, for ever.

    That is right for one that was killed. One that cannot start waits here before it ends, longer each time: else
    it would burn a CPU and fill the log.

    :ivar ready: whether the start succeeded.
    """

    def __init__(self, environment: MutableMapping[str, str] | None = None) -> None:
        environment = os.environ if environment is None else environment
        self._of_systemd = bool(environment.get("NOTIFY_SOCKET"))
        # Of systemd's own making: it is there whatever the options say.
        folder = environment.get("RUNTIME_DIRECTORY", "").partition(":")[0]
        self._path = os.path.join(folder, _FILE) if folder else ""
        self.ready = False
        super().__init__(environment)

    def send(self, **fields: str | int) -> None:
        """Send ``NAME=value`` for each field; READY makes failed starts be forgotten."""
        if "READY" in fields:
            self.ready = True
            if self._path:
                try:
                    os.unlink(self._path)
                except OSError:
                    pass
        super().send(**fields)

    def may_put_off(self, signals: Signals) -> bool:
        """Whether what failed is the start, and systemd would try it again at once."""
        return self._of_systemd and not self.ready and not signals.asked

    def put_off_next_start(self, why: str, signals: Signals) -> bool:
        """Wait before the next start where it may be put off; return whether the end was asked for meanwhile."""
        if not self.may_put_off(signals):
            return False
        seconds = self._pause()
        self.send(
            STATUS=f"cannot start: {why}; next try in {seconds} s",
            EXTEND_TIMEOUT_USEC=(seconds + 10) * 1_000_000,
        )
        return signals.wait(seconds)

    def _pause(self) -> int:
        """Return the seconds to wait: doubled with each failed start in a row."""
        if not self._path:
            return _PAUSE_S
        failed = 0
        try:
            if time.time() - os.stat(self._path).st_mtime < _FORGET_S:
                with open(self._path, "rb") as file:
                    failed = min(int(file.read(8)), 16)
        except (OSError, ValueError):
            pass
        try:
            with open(
                os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644), "wb"
            ) as file:
                file.write(b"%d" % (failed + 1))
        except OSError:
            return _PAUSE_S
        return int(min(2**failed, _LONGEST_S))
