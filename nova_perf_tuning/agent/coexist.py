"""Sharing a host with others that move interrupts: what irqbalance is told, and who is reported."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from typing import Any, Final

from nova_perf_tuning.agent import reconcile
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import base, files
from nova_perf_tuning.host.settings import irqbalance as ban_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import rivals

_RULE: Final = "irqbalance-ban"
_SCRIPT: Final = "--policyscript=/usr/share/nova-perf-tuning/irqbalance-policy-nova-perf"
_NOT_TOLD: Final = "irqbalance runs and is not told what to leave alone ([agent] irqbalance = report)"
#: Seconds between two searches for other programs that tune hosts: one reads the name of every process.
_LOOK_S: Final = 300.0
#: Seconds after which a search is made again because interrupts were moved.
_LOOK_SOON_S = 10.0
#: An irqbalance that did not answer is asked again after its interval, then after twice as long up to this.
_RETRY_MOST_S = 300.0
#: Seconds that the loop waits for an answer: nothing else is done meanwhile.
PATIENCE_S: Final = 0.1

_Settings = Sequence[setting_module.Setting]
_Entries = Collection[journal_module.Entry]


class Coexistence:
    """Works out the ban, and remembers what is to be told to people.

    :param ban: False: irqbalance is only reported.
    :ivar wake: called when another pass would find irqbalance able to be told what it could not be.
    """

    def __init__(self, *, ban: bool = True) -> None:
        self._ban = ban
        self.wake: Callable[[], None] = lambda: None
        self._findings: list[dict[str, Any]] = []
        #: The irqbalance that was spoken to.
        self._known: int | None = None
        #: When one that did not answer is asked again, which asks for a pass once; and after how long, 0 while it
        #: answers.
        self._retry = math.inf
        self._pause = 0.0
        #: The irqbalance that the last pass met, spoken to or not.
        self._met: int | None = None
        #: The irqbalance for which a pass was asked, and whether it had a socket: a pass may end before it comes
        #: to :meth:`settings`.
        self._woken: tuple[int, bool] | None = None
        self._look()

    def _look(self) -> None:
        self._looked = time.monotonic()
        self._rivals = rivals.running()

    def settings(self, wanted: _Settings, entries: _Entries) -> list[setting_module.Setting]:
        """Return what irqbalance is to be told, given the interrupts that are ``wanted`` somewhere.

        :raises KeepExtra: what it was told stays, because it does not answer or takes no more.
        """
        self._findings = []
        ours = frozenset(int(one.target[4:]) for one in wanted if one.kind == "irq_affinity")
        before, self._known = self._known, irqbalance.running()
        if self._known != before:
            self._answers()
        if not self._ban:
            if self._known is not None:
                self._report(self._known, _NOT_TOLD)
            return []
        if self._known is None and time.monotonic() >= self._looked + _LOOK_SOON_S and _moved(wanted, entries):
            self._look()
        pid = self._met = self._known if self._known is not None else self._without_socket()
        if pid is None:  # the list is for the one that starts next
            return [_listed(ours)] if any(one.kind == ban_module.IrqbalanceList.kind for one in entries) else []
        if irqbalance.uses_our_script(pid):
            return [self._told_to_script(pid, ours)]
        return self._banned(pid, ours, entries) if self._known is not None else []

    def _banned(self, pid: int, ours: frozenset[int], entries: _Entries) -> list[setting_module.Setting]:
        """Return the list that irqbalance is told by its socket."""
        try:
            told, merged = _merged(ours, entries)
            self._answers()
            if _fits(merged):
                return [merged]
            _told, fewer = _merged(ours & told, entries)
        except OSError as error:
            if base.is_gone(error):
                return []
            self._is_silent(pid, error.strerror or str(error))
            raise reconcile.KeepExtra from None
        self._report(
            pid,
            f"irqbalance moves interrupts placed here, and {len(ours)} are too many to tell it: start it with "
            f"{_SCRIPT}",
        )
        if not told:
            return []
        if not _fits(fewer):
            raise reconcile.KeepExtra
        return [fewer]

    def _told_to_script(self, pid: int, ours: frozenset[int]) -> setting_module.Setting:
        """Return the list for our policy script.

        :raises KeepExtra: it is written, and irqbalance cannot be made to read it yet.
        """
        one = _listed(ours)
        if self._known is None or not irqbalance.is_silent(pid):
            self._answers()
        elif one.current == ban_module.UNREAD and ban_module.IrqbalanceList("/").lists(one.value):
            self._is_silent(pid, "the last question is not answered yet")
            raise reconcile.KeepExtra
        return one

    def _answers(self) -> None:
        self._retry, self._pause = math.inf, 0.0

    def _is_silent(self, pid: int, why: str) -> None:
        """Note that it did not answer. Passes with other causes meet the same silence: only its time counts."""
        now = time.monotonic()
        if not now < self._retry < math.inf:
            self._pause = min(_RETRY_MOST_S, 2 * self._pause or irqbalance.interval(pid))
            self._retry = now + self._pause
        if not irqbalance.is_busy(pid):
            self._report(pid, f"irqbalance does not answer: {why}; what it was told stays")

    def _without_socket(self) -> int | None:
        pid = self._rivals.get("irqbalance")
        return pid if pid is not None and _runs(pid, "irqbalance") else None

    def _report(self, pid: int, detail: str) -> None:
        self._findings.append({"what": "irqbalance", "pid": pid, "detail": detail})

    def findings(self) -> list[dict[str, Any]]:
        """Return what people should know: irqbalance out of hand, and rivals that run."""
        now = time.monotonic()
        if now >= self._looked + _LOOK_S or not all(_runs(pid, name) for name, pid in self._rivals.items()):
            self._look()
        if now >= self._retry:
            self._retry = math.inf
            self.wake()
        elif not self._pause and self._ban and self._known is not None and irqbalance.is_silent(self._known):
            self._pause = irqbalance.interval(self._known)
            self._retry = now + self._pause
        found = [one for one in self._findings if _runs(one["pid"], "irqbalance")]
        for name, pid in self._rivals.items():
            if name != "irqbalance":
                kinds = ", ".join(sorted(rivals.RIVALS[name]))
                found.append({"what": "rival", "pid": pid, "detail": f"{name} runs, which may write {kinds}"})
            elif detail := self._about_irqbalance(pid):
                found.append({"what": "irqbalance", "pid": pid, "detail": detail})
        return found

    def _about_irqbalance(self, pid: int) -> str:
        """Return what is wrong with an irqbalance that is not spoken to; empty where nothing is."""
        if self._known is not None and _runs(self._known, "irqbalance"):
            return ""
        if not self._ban:
            return _NOT_TOLD
        new = irqbalance.running()
        if new is not None:
            self._wake_for(new, True)
            return ""
        if pid != self._met:
            self._wake_for(pid, False)
        more = ""
        if irqbalance.uses_our_script(pid):
            more = "; until then restart it where it moves interrupts that were placed after its start"
        return (
            "irqbalance has no socket to be told by: give it the folder /run/irqbalance (in its unit: "
            f"RuntimeDirectory=irqbalance) and restart it{more}"
        )

    def _wake_for(self, pid: int, has_socket: bool) -> None:
        """Ask for one pass."""
        if self._woken != (pid, has_socket):
            self._woken = (pid, has_socket)
            self.wake()


def _moved(wanted: _Settings, entries: _Entries) -> bool:
    """Whether an interrupt is not where we have put it."""
    put = {(one.target, one.identity): one.written for one in entries if one.kind == "irq_affinity"}
    for one in wanted:
        written = put.get((one.target, one.identity)) if one.kind == "irq_affinity" else None
        if written is not None and one.current is not None and not base.same_cpus(written, one.current):
            return True
    return False


def _runs(pid: int, name: str) -> bool:
    try:
        return files.read_text("", f"/proc/{pid}/comm") == name
    except OSError:
        return False


def _fits(ban: setting_module.Setting) -> bool:
    return len(irqbalance.ban_command(ban_module.as_numbers(ban.value))) <= irqbalance.MAX_COMMAND


def _listed(ours: frozenset[int]) -> setting_module.Setting:
    """Return the list for our policy script."""
    kind = ban_module.IrqbalanceList("/")
    try:
        text = kind.read(ban_module.TARGET)
    except OSError:
        text = None
    reason = f"irqbalance's policy script leaves alone the {len(ours)} interrupts placed here"
    return setting_module.Setting(kind.kind, ban_module.TARGET, ban_module.as_text(ours), text, reason, _RULE)


def _merged(ours: frozenset[int], entries: _Entries) -> tuple[frozenset[int], setting_module.Setting]:
    """Return what we told irqbalance, and our interrupts beside those that others banned, before us or since.

    :raises OSError: it does not answer, or has ended.
    """
    kind = ban_module.IrqbalanceBan("/")
    identity, text = kind.identity(ban_module.TARGET), kind.read(ban_module.TARGET)
    theirs, told = ban_module.as_numbers(text), frozenset[int]()
    for entry in entries:
        if entry.kind == kind.kind and entry.identity == identity and entry.state != "held":
            told = ban_module.as_numbers(entry.wanted)
            theirs = ban_module.as_numbers(kind.original(entry.original, entry.asked, text))
    value = ban_module.as_text(ours | theirs)
    reason = f"irqbalance leaves alone the {len(ours)} interrupts placed here and what others have banned"
    return told, setting_module.Setting(kind.kind, ban_module.TARGET, value, text, reason, _RULE, identity)
