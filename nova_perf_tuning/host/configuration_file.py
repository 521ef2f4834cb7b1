"""Configuration files of our own: what makes a setting come back after a reboot. The other door beside privileged.

A file is written whole or not at all (new name, synchronised, renamed), below the root that is tuned, without
following links. Only names that carry ours are ever written, and which profile TuneD takes and whether by choice.
"""

from __future__ import annotations

import base64
import errno
import json
import os
import re
import stat

from nova_perf_tuning.host.settings import base

NAME = "nova-perf-tuning"
_LIMIT = 1 << 20

#: Every file that may be written, below the root; tmpfiles.d without a number is in journals of earlier versions.
_ALLOWED = re.compile(
    rf"etc/sysctl\.d/90-{NAME}\.conf|etc/tmpfiles\.d/(?:90-)?{NAME}\.conf|etc/modprobe\.d/{NAME}\.conf"
    rf"|etc/systemd/network/10-{NAME}-[A-Za-z0-9_.@-]{{1,15}}\.link"
    rf"|etc/tuned/(?:profiles/)?{NAME}/tuned\.conf|etc/tuned/active_profile|etc/tuned/profile_mode",
    re.ASCII,
).fullmatch
#: A folder of ours: made with its first file and removed with its last.
_OWN_FOLDER = re.compile(rf"etc/tuned/(?:profiles/)?{NAME}", re.ASCII).fullmatch

ABSENT = "absent"
#: No file, but what a write that was cut leaves: its new file without a name yet, or an empty folder of ours.
CUT = "absent, a write was cut"


def check(target: str) -> str:
    """Return ``target`` if it is a file that may be written.

    :raises TargetError: it is not.
    """
    if not _ALLOWED(target):
        raise base.TargetError(f"{target[:80]!r} is not a configuration file that this program writes")
    return target


def encode(content: bytes, mode: int = 0o644) -> str:
    """Return a file's content and mode as one line: ``0644 "text"``, or base64 where it is no UTF-8."""
    try:
        return f"{mode:04o} {json.dumps(content.decode())}"
    except UnicodeDecodeError:
        return f"{mode:04o} base64:{base64.b64encode(content).decode()}"


def decode(value: str) -> tuple[bytes, int] | None:
    """Return content and mode of what :func:`encode` made; None for :data:`ABSENT`.

    :raises TargetError: it is nothing of the kind.
    """
    if value in (ABSENT, CUT):
        return None
    mode, _, text = value.partition(" ")
    try:
        if not re.fullmatch("0[0-7]{3}", mode):
            raise ValueError(mode)
        if text.startswith("base64:"):
            return base64.b64decode(text[7:], validate=True), int(mode, 8)
        content = json.loads(text)
        if not isinstance(content, str):
            raise ValueError(text)
        return content.encode(), int(mode, 8)
    except (ValueError, RecursionError):
        raise base.TargetError(f"{value[:40]!r} is not the content of a file") from None


def read(root: str, target: str) -> str:
    """Return the file as :func:`encode` writes it, :data:`ABSENT` (or :data:`CUT`) where there is none.

    :raises OSError: it cannot be read, is no plain file, or is larger than a megabyte.
    """
    check(target)
    try:
        folder = _open_folder(root, os.path.dirname(target))
    except FileNotFoundError:
        return ABSENT
    place, name = os.path.split(target)
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
        fd = os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        there = os.listdir(folder)
        return CUT if f".{name}.new" in there or (_OWN_FOLDER(place) and not there) else ABSENT
    finally:
        os.close(folder)
    with open(fd, "rb") as file:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, f"{target} is not a plain file")
        content = file.read(_LIMIT + 1)
    if len(content) > _LIMIT:
        raise OSError(errno.EFBIG, os.strerror(errno.EFBIG))
    return encode(content, stat.S_IMODE(found.st_mode) & 0o777)


def write(root: str, target: str, value: str) -> None:
    """Make the file hold ``value``, or remove it for :data:`ABSENT`.

    :raises OSError: its folder is not there (ENOENT), is a link (ELOOP, ENOTDIR), or cannot be written.
    :raises TargetError: it may not be written, or ``value`` is not what :func:`encode` makes.
    """
    check(target)
    wanted = decode(value)
    place, name = os.path.split(target)
    if wanted is None:
        _remove(root, place, name)
        return
    content, mode = wanted
    if _OWN_FOLDER(place):
        _make(root, place)
    folder = _open_folder(root, place)
    new = f".{name}.new"
    try:
        try:
            os.unlink(new, dir_fd=folder)  # left by a process that was killed
        except FileNotFoundError:
            pass
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(new, flags, 0o600, dir_fd=folder)
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(fd, mode)
            os.fsync(fd)
        os.rename(new, name, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    finally:
        os.close(folder)


def _remove(root: str, place: str, name: str) -> None:
    try:
        folder = _open_folder(root, place)
    except FileNotFoundError:
        return
    try:
        for one in (name, f".{name}.new"):
            try:
                os.unlink(one, dir_fd=folder)
            except FileNotFoundError:
                pass
        os.fsync(folder)
    finally:
        os.close(folder)
    if _OWN_FOLDER(place):
        above = _open_folder(root, os.path.dirname(place))
        try:
            os.rmdir(os.path.basename(place), dir_fd=above)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                raise
        finally:
            os.close(above)


def _make(root: str, place: str) -> None:
    above = _open_folder(root, os.path.dirname(place))
    try:
        os.mkdir(os.path.basename(place), 0o755, dir_fd=above)
    except FileExistsError:
        pass
    finally:
        os.close(above)


def _open_folder(root: str, place: str) -> int:
    """Open a folder below ``root`` part by part; a link in it fails with ELOOP or ENOTDIR."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
    fd = os.open(os.path.realpath(root), flags)
    for part in place.split("/"):
        try:
            inner = os.open(part, flags | os.O_NOFOLLOW, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd
