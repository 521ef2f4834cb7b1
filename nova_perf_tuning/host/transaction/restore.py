# SPDX-License-Identifier: Apache-2.0
"""Puts back what was there before, last written first."""

import contextlib
import dataclasses
import enum
from collections.abc import Callable, Mapping

from nova_perf_tuning import errors
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.transaction import undo_script, verify
from nova_perf_tuning.host.transaction.journal import Entry, Journal, JournalError


class RestoreResult(enum.Enum):
    """What became of one journal entry; all but FOREIGN and FAILED end it."""

    RESTORED = "restored"
    #: It holds its original already, or was never written.
    ALREADY = "already"
    #: The host has booted since, and a look showed that nothing of what was written is left.
    STALE = "stale"
    GONE = "gone"
    #: Another program has changed it since we wrote it; left alone.
    FOREIGN = "foreign"
    FAILED = "failed"


#: The entry stays in the journal.
KEPT = frozenset((RestoreResult.FOREIGN, RestoreResult.FAILED))


@dataclasses.dataclass(slots=True)
class Restoration:
    """What became of one entry.

    :ivar entry: its original is the value that was to be put back.
    :ivar current: the value found before anything was written, None when it could not be read.
    :ivar detail: one clause for people. :ivar code: its code where the result has several causes.
    :ivar remade: what the kernel made of the original, where it took it and holds something else.
    """

    entry: Entry
    result: RestoreResult
    current: str | None = None
    detail: str = ""
    code: str = ""
    remade: str | None = None


def restore(
    journal: Journal,
    kinds: Mapping[str, base.SettingKind],
    boot: str,
    *,
    force: bool = False,
    only: Callable[[Entry], bool] | None = None,
) -> list[Restoration]:
    """Undo everything in the journal, or ``only`` some of it, in the reverse order of writing.

    Entries leave the journal only after all writes: killed at any point, the next run finds values
    that are their originals already and goes on. An object that failed or was left alone keeps its
    entry. What the kernel made of an original (XPS takes no CPU that is offline) counts as ours at
    the next try.

    :param force: also put back what another program has changed since.
    :raises JournalError: the journal cannot be read; or all was put back, but it cannot be
        written, as it says.
    """
    newest_first = [entry for entry in reversed(journal.entries()) if only is None or only(entry)]
    newest_first.sort(key=lambda entry: -kinds[entry.kind].order if entry.kind in kinds else 0)
    done: list[Restoration] = []
    ended: list[Entry] = []
    remade: list[Entry] = []
    for entry in newest_first:
        restoration = _restore(entry, kinds, boot, force)
        done.append(restoration)
        if restoration.result not in KEPT:
            ended.append(entry)
        if restoration.remade is not None:
            remade.append(dataclasses.replace(entry, written=restoration.remade))
    for entry in ended:
        if entry.kind in kinds:
            with contextlib.suppress(OSError, errors.PerfTuningError):
                kinds[entry.kind].clear(entry.target)
    if ended or remade:
        try:
            with journal.transaction():
                journal.drop(ended)
                journal.put(remade)
            undo_script.keep(journal, kinds)
        except JournalError as error:
            raise JournalError(
                f"values are put back, but the journal could not be cleared, run it again for that: {error}"
            ) from None
    return done


def _restore(
    entry: Entry, kinds: Mapping[str, base.SettingKind], boot: str, force: bool
) -> Restoration:
    if verify.is_ended(entry, boot, kinds):
        detail = "the host has rebooted since, and nothing that was written is left"
        return Restoration(entry, RestoreResult.STALE, None, detail)
    if entry.state == "held":
        return Restoration(entry, RestoreResult.ALREADY)
    if entry.kind not in kinds:
        return Restoration(
            entry,
            RestoreResult.FAILED,
            None,
            f"kind {entry.kind} is not installed any more",
            "no_kind",
        )
    kind = kinds[entry.kind]
    try:
        if not kind.is_same(entry.setting()):
            return Restoration(
                entry,
                RestoreResult.GONE,
                None,
                "another object has this number now",
                "other_object",
            )
        current = kind.read(entry.target)
        if kind.holds(entry.target, entry.original, current):
            return Restoration(entry, RestoreResult.ALREADY, current)
        if not (force or verify.is_ours(entry, kind, current)):
            ours = entry.written or entry.wanted
            detail = f"we wrote {ours}, another program has set {current} since; the original is {entry.original}"
            return Restoration(entry, RestoreResult.FOREIGN, current, detail)
        kind.write(entry.target, entry.original)
        now = kind.read(entry.target)
    except (OSError, errors.PerfTuningError) as error:
        if base.is_gone(error):
            return Restoration(
                entry, RestoreResult.GONE, None, "it does not exist any more", "no_object"
            )
        return Restoration(
            entry, RestoreResult.FAILED, None, base.clause(error), errors.code(error)
        )
    if not kind.holds(entry.target, entry.original, now):
        detail = f"the kernel holds {now}, not the original {entry.original}"
        return Restoration(entry, RestoreResult.FAILED, current, detail, "not_held", now)
    return Restoration(entry, RestoreResult.RESTORED, current)
