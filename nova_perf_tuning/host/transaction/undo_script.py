# SPDX-License-Identifier: Apache-2.0
"""A POSIX shell script that undoes what the journal says, for a host that has lost this program.

It lies beside the journal before the first write of a transaction.
"""

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterable, Mapping
from typing import Final

from nova_perf_tuning import atomic_write, bounded_read, printing
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.transaction.journal import ANY_BOOT, Entry, Journal, JournalError

#: Beside the journal.
NAME: Final = "undo.sh"
_PLACE: Final = "root='' state=''\n"


def keep(journal: Journal, kinds: Mapping[str, base.SettingKind]) -> None:
    """Write the script of a journal beside it, or remove it where nothing is to be undone.

    :raises JournalError: it cannot be written.
    """
    path = os.path.join(journal.state_dir, NAME)
    inside = ""
    if journal.state_dir.startswith(f"{journal.root}/"):
        inside = journal.root
    entries = [entry for entry in journal.entries() if entry.state != "held"]
    try:
        if entries:
            with atomic_write.writing(path, inside=inside) as file:
                file.write(script(entries, kinds, journal.root, journal.state_dir).encode())
        elif os.path.lexists(path):
            atomic_write.remove(path, inside=inside)
    except OSError as error:
        raise JournalError(
            f"{path}: {error.strerror}: free space there, or remove what has that name"
        ) from None


def script(
    entries: Iterable[Entry],
    kinds: Mapping[str, base.SettingKind],
    root: str,
    state_dir: str,
) -> str:
    """Return the script for entries in the order of writing.

    No word of a journal stands in it outside of single quotes: names of devices and of handlers
    are others'. The index that a network device has now distinguishes it from a later one of its
    name.

    :param root: of the host, :param state_dir: of its journal.
    """
    prefix = os.path.abspath(root).rstrip("/")
    place = f"root={quoted(prefix)} state={quoted(state_dir)}\n"
    lines = [_library().replace(_PLACE, place, 1), ""]
    newest_first = [entry for entry in reversed(list(entries)) if entry.state != "held"]
    newest_first.sort(key=lambda entry: -kinds[entry.kind].order if entry.kind in kinds else 0)
    index_of = functools.cache(functools.partial(_index, prefix))
    for entry in newest_first:
        words = _call(entry, kinds.get(entry.kind))
        if words is None:
            words = ["unknown", printing.printable(entry.kind), printing.printable(entry.target)]
        elif words[0] in _WITH_INDEX:
            at = _WITH_INDEX[words[0]]
            # What outlives a boot is of the device of that name in each of them.
            index = "" if entry.boot_id == ANY_BOOT else index_of(words[at])
            words.insert(at + 1, index)
        lines.append(" ".join([words[0], *map(quoted, words[1:])]))
    lines += ["finish", ""]
    return "\n".join(lines)


#: Functions of the script that want the index of a network device, and which word names the device.
_WITH_INDEX: Final = {"queue": 2, "device": 4}


def _call(entry: Entry, kind: base.SettingKind | None) -> list[str] | None:
    """Return function and arguments of the script; None where only this program can undo it."""
    if kind is None:
        return None
    ours = [entry.wanted]
    if entry.written not in (None, entry.wanted):
        ours.append(str(entry.written))
    try:
        step = kind.undo(entry.target, entry.identity, entry.original, ours)
    except base.TargetError:
        return None
    if step is None:
        return None
    words = [step.function, entry.boot_id, *step.arguments]
    for word in words:
        if printing.printable(word, "\n\t") != word:
            return None  # a terminal would obey it
    return words


def _index(prefix: str, device: str) -> str:
    """Return the index of a network device; empty where it has none now."""
    with contextlib.suppress(OSError):
        return bounded_read.kernel_text(prefix, f"/sys/class/net/{device}/ifindex")
    return ""


def quoted(word: str) -> str:
    """Return a word of a shell, in single quotes whatever it is."""
    escaped = word.replace("'", "'\\''")
    return f"'{escaped}'"


@functools.cache
def _library() -> str:
    return pathlib.Path(__file__).with_name(NAME).read_text(encoding="utf-8")
