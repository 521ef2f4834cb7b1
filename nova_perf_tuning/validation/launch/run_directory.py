# SPDX-License-Identifier: Apache-2.0
"""The directory of one run of the launcher, and the remains of runs whose process was killed.

A run is alive as long as its process holds the lock on its directory; the kernel drops that with
the process.
"""

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
from collections.abc import Callable
from typing import Final

from nova_perf_tuning import errors

LOG = logging.getLogger(__name__)

#: Below libvirt's own directory, since QEMU's user must be able to pass through.
BASE: Final = "/var/lib/libvirt/nova-perf-tuning"
#: The transaction of the host's settings, below the run's directory.
JOURNAL: Final = "journal"
_ID = re.compile(r"[0-9a-f]{8}")


class RunDirectory:
    """One run's directory, locked; :ivar id: eight hexadecimal digits in every name that the run gives."""

    def __init__(self, parent: str = BASE) -> None:
        """Make the directory; it gets its name when it is locked, so that no sweep finds it before."""
        self.parent = parent
        self.id = secrets.token_hex(4)
        self.path = os.path.join(parent, self.id)
        os.makedirs(f"{self.path}.new")
        for path in (parent, f"{self.path}.new"):
            os.chmod(path, 0o711)  # noqa: S103  # whatever the umask: QEMU's user passes through
        self._lock = locked(f"{self.path}.new")
        os.rename(f"{self.path}.new", self.path)

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def close(self, *, keep: bool = False) -> None:
        """Remove the directory, unless it is kept for the next run's sweep, and give up the lock."""
        if self._lock >= 0:
            if not keep:
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def sweep(
    remove: Callable[[str, str], None], parent: str = BASE, names: re.Pattern[str] = _ID
) -> list[str]:
    """Remove what dead runs of this user left, and return their names.

    :param remove: removes all of one but its directory; :param names: of runs' directories.
    """
    swept: list[str] = []
    if not os.path.isdir(parent):
        return []
    for name in sorted(os.listdir(parent)):
        path = os.path.join(parent, name)
        if not names.fullmatch(name):
            continue
        # Its process lives, or has just removed it; or it is another user's, or no directory.
        with contextlib.suppress(OSError):
            lock = locked(path)
            try:
                if os.fstat(lock).st_uid != os.geteuid():
                    continue
                remove(name, path)
                shutil.rmtree(path, ignore_errors=True)
                swept.append(name)
            except (errors.PerfTuningError, OSError) as error:
                LOG.warning("run %s has ended, but its remains cannot be removed: %s", name, error)
            finally:
                os.close(lock)
    return swept


def locked(path: str) -> int:
    """Return a descriptor of a directory that holds the lock on it.

    :raises BlockingIOError: another process has it. :raises OSError: it is no directory.
    """
    lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(lock)
        raise
    return lock
