"""Sharing a host with others that move interrupts: what irqbalance is told, and who is reported."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Collection, Sequence
from typing import Any, Final

from nova_perf_tuning import errors, whole_file
from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host import setting as setting_module
from nova_perf_tuning.host.settings import irqbalance as ban_module
from nova_perf_tuning.host.transaction import journal as journal_module
from nova_perf_tuning.host.transaction import rivals

LOG = logging.getLogger(__name__)

#: Below the agent's run_dir: one interrupt a line, for irqbalance's policy script.
LIST_FILE: Final = "irqbalance.irqs"
_RULE: Final = "irqbalance-ban"
#: Seconds between two searches for other programs that tune hosts.
_LOOK_S: Final = 300.0


class Coexistence:
    """Works out the ban, and remembers what is to be told to people.

    :param ban: False: irqbalance is only reported.
    """

    def __init__(self, run_dir: str, *, ban: bool = True) -> None:
        self._list = os.path.join(run_dir, LIST_FILE)
        self._ban = ban
        self._listed: str | None = None
        self._findings: list[dict[str, Any]] = []
        self._rivals: dict[str, int] = {}
        self._look_again = 0.0

    def settings(
        self, wanted: Sequence[setting_module.Setting], entries: Collection[journal_module.Entry]
    ) -> list[setting_module.Setting]:
        """Return what irqbalance is to be told, given the interrupts that are ``wanted`` somewhere."""
        self._findings = []
        ours = frozenset(int(one.target[4:]) for one in wanted if one.kind == "irq_affinity")
        pid = irqbalance.running()
        if pid is None:
            return []
        if not self._ban:
            self._report(pid, "irqbalance runs and is not told what to leave alone ([agent] irqbalance = report)")
            return []
        self._write_list(ours)
        if _has_our_script(pid):
            return []  # it asks for each interrupt itself
        try:
            setting = self._merged(ours, entries)
        except OSError as error:
            self._report(pid, f"irqbalance does not answer: {error.strerror or error}")
            return []
        command = irqbalance.ban_command(ban_module.as_numbers(setting.value))
        if len(command) > irqbalance.MAX_COMMAND:
            self._report(
                pid,
                f"irqbalance moves interrupts placed here, and {len(ours)} are too many to tell it: start it with "
                "--policyscript=/usr/share/nova-perf-tuning/irqbalance-policy-nova-perf",
            )
            return []
        return [setting]

    def _merged(self, ours: frozenset[int], entries: Collection[journal_module.Entry]) -> setting_module.Setting:
        """Return our interrupts beside those that others banned, before us or since."""
        from nova_perf_tuning.host.settings import registry

        kind = registry.Kinds("/")["irqbalance_ban"]
        identity, text = kind.identity(ban_module.TARGET), kind.read(ban_module.TARGET)
        before: frozenset[int] = frozenset()
        told: frozenset[int] = frozenset()
        for entry in entries:
            if entry.kind == kind.kind and entry.identity == identity:
                told = ban_module.as_numbers(entry.wanted)
                if entry.state != "held":
                    before = ban_module.as_numbers(entry.original)
        now = ban_module.as_numbers(text)
        value = ban_module.as_text(ours | before | (now - told))
        reason = f"irqbalance leaves alone the {len(ours)} interrupts placed here and what others have banned"
        return setting_module.Setting(kind.kind, ban_module.TARGET, value, text, reason, _RULE, identity)

    def _write_list(self, ours: frozenset[int]) -> None:
        text = "".join(f"{number}\n" for number in sorted(ours))
        if text == self._listed:
            return
        try:
            with whole_file.writing(self._list) as file:
                file.write(text.encode("ascii"))
            self._listed = text
        except (errors.PerfTuningError, OSError) as error:
            LOG.warning("list for irqbalance's policy script: %s", error)

    def _report(self, pid: int, detail: str) -> None:
        self._findings.append({"what": "irqbalance", "pid": pid, "detail": detail})

    def findings(self) -> list[dict[str, Any]]:
        """Return what people should know: irqbalance out of hand, and rivals that run."""
        found = list(self._findings)
        now = time.monotonic()
        if now >= self._look_again:  # it reads the name of every process
            self._look_again = now + _LOOK_S
            self._rivals = rivals.running()
        for name, pid in self._rivals.items():
            if name != "irqbalance":
                kinds = ", ".join(sorted(rivals.RIVALS[name]))
                found.append({"what": "rival", "pid": pid, "detail": f"{name} runs, which may write {kinds}"})
        return found


def _has_our_script(pid: int) -> bool:
    """Whether this irqbalance was started with our policy script, by whatever path."""
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            words = file.read(65536).split(b"\0")
    except OSError:
        return False
    return any(b"policyscript" in word and b"nova-perf" in word for word in words) or any(
        before in (b"-l", b"--policyscript") and b"nova-perf" in word
        for before, word in zip(words, words[1:], strict=False)
    )
