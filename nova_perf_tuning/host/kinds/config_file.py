# SPDX-License-Identifier: Apache-2.0
"""Configuration files of our own: what brings settings back after a reboot. The other door beside privileged."""

import errno
import json
import os
import re
import shlex
from collections.abc import Sequence

from nova_perf_tuning import atomic_write, bounded_json, bounded_read
from nova_perf_tuning.host.kinds import base

NAME = "nova-perf-tuning"
#: Every file that may be written, below the root. All of them are ours: no other program has files of this name.
_ALLOWED = re.compile(
    rf"etc/(?:sysctl|tmpfiles)\.d/90-{NAME}\.conf|etc/udev/rules\.d/90-{NAME}\.rules", re.ASCII
).fullmatch

ABSENT = "absent"
_MAX_BYTES = 4 << 20
#: It is no text, or too large.
_NOT_OURS = frozenset((errno.EILSEQ, errno.EFBIG))


def encode(content: str) -> str:
    """Return a file's content as the one line that is the value of a setting."""
    return json.dumps(content)


def decode(value: str) -> str | None:
    """Return the content that :func:`encode` was given; None for :data:`ABSENT`."""
    if value == ABSENT:
        return None
    try:
        content = bounded_json.parse(value)
    except bounded_json.JsonError:
        content = None
    if not isinstance(content, str):
        raise base.TargetError(f"{value[:40]!r} is not the content of a file")
    return content


class ConfigFile(base.SettingKind):
    """A whole file: ``etc/sysctl.d/90-nova-perf-tuning.conf`` = its text as JSON, or ``absent``."""

    kind = "config_file"
    order = (
        5  # before what it stands for: a crash in between loses the value at the next boot at most
    )
    persistent = True

    def _path(self, target: str) -> str:
        if not _ALLOWED(target):
            raise base.TargetError(
                f"{target[:80]!r} is not a configuration file that this program writes"
            )
        bounded_read.check_inside(self.prefix, f"/{target}")
        return f"{self.prefix}/{target}"

    def read(self, target: str) -> str:
        try:
            content = bounded_read.read_text(self._path(target), _MAX_BYTES, inside=self.prefix)
        except FileNotFoundError:
            return ABSENT
        except OSError as error:
            if error.errno not in _NOT_OURS:
                raise
            raise base.TargetError(
                f"/{target}: {error.strerror}: this program wrote no such file; remove it"
            ) from None
        return encode(content)

    def write(self, target: str, value: str) -> None:
        path, content = self._path(target), decode(value)
        if content is not None:
            with atomic_write.writing(path, inside=self.prefix) as file:
                file.write(content.encode())
        elif os.path.lexists(path):
            atomic_write.remove(path, inside=self.prefix)

    def undo(
        self, target: str, identity: str, original: str, ours: Sequence[str]
    ) -> base.UndoStep | None:
        self._path(target)
        words: list[str] = []
        for value in (original, *ours):
            text = decode(value)
            if text is None:
                words.append(ABSENT)
            elif text.endswith("\n") and not text.endswith("\n\n"):
                words.append(f"text:{text[:-1]}")
            else:  # a shell would not give these bytes back
                return None
        return base.UndoStep("whole", (f"/{target}", *words))

    def clear(self, target: str) -> None:
        atomic_write.sweep(self._path(target), inside=self.prefix)

    def describe(self, target: str, value: str) -> str:
        path, text = shlex.quote(self._path(target)), decode(value)
        if text is None:
            return f"rm -f {path}"
        escaped = text.replace("\\", "\\\\").replace("%", "%%").replace("\n", "\\n")
        return f"printf {shlex.quote(escaped)} > {path}"
