"""Configuration files of our own: what brings a setting back after a reboot. The other door beside privileged."""

from __future__ import annotations

import json
import os
import re

from nova_perf_tuning import whole_file
from nova_perf_tuning.host.settings import base, files

NAME = "nova-perf-tuning"
#: Every file that may be written, below the root. All of them are ours: no other program has files of this name.
_ALLOWED = re.compile(
    rf"etc/(?:sysctl|tmpfiles)\.d/90-{NAME}\.conf|etc/modprobe\.d/{NAME}\.conf"
    rf"|etc/udev/rules\.d/90-{NAME}\.rules",
    re.ASCII,
).fullmatch

ABSENT = "absent"


def check(target: str) -> str:
    """Return ``target`` if it is a file that may be written.

    :raises TargetError: it is not.
    """
    if not _ALLOWED(target):
        raise base.TargetError(f"{target[:80]!r} is not a configuration file that this program writes")
    return target


def encode(content: str) -> str:
    """Return a file's content as the one line that is the value of a setting."""
    return json.dumps(content)


def decode(value: str) -> str | None:
    """Return the content that :func:`encode` was given; None for :data:`ABSENT`.

    :raises TargetError: it is nothing of the kind.
    """
    if value == ABSENT:
        return None
    try:
        content = json.loads(value)
    except ValueError:
        content = None
    if not isinstance(content, str):
        raise base.TargetError(f"{value[:40]!r} is not the content of a file")
    return content


def read(root: str, target: str) -> str:
    """Return the file as :func:`encode` writes it, :data:`ABSENT` where there is none.

    :raises OSError: it cannot be read; ELOOP: a link of a sysroot leads out of it.
    """
    try:
        with open(_path(root, target), encoding="utf-8", newline="") as file:
            return encode(file.read())
    except FileNotFoundError:
        return ABSENT
    except UnicodeDecodeError:
        raise base.TargetError(f"/{target} is not a text; remove it") from None


def write(root: str, target: str, value: str) -> None:
    """Make the file hold ``value``, or remove it for :data:`ABSENT`.

    :raises OSError: it cannot be written; ELOOP: a link of a sysroot leads out of it.
    :raises OutputError: its directory is missing, or something else than a file is there.
    :raises TargetError: it may not be written, or ``value`` is not what :func:`encode` makes.
    """
    path = _path(root, target)
    content = decode(value)
    if content is not None:
        with whole_file.writing(path) as file:
            file.write(content.encode())
    elif os.path.lexists(path):
        os.unlink(path)


def _path(root: str, target: str) -> str:
    files.check_inside(os.path.abspath(root).rstrip("/"), f"/{check(target)}")
    return os.path.join(root, target)
