"""The directory of one run of the launcher, and the remains of runs whose process was killed.

A run is alive as long as its process holds the lock on its directory; the kernel drops that lock with the
process, however it ends, and no process number that is used again can be mistaken for it.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.validation.launch import base

LOG = logging.getLogger(__name__)

#: Below libvirt's own directory, since QEMU's user must be able to pass through.
BASE: Final = "/var/lib/libvirt/nova-perf-tuning"
#: The transaction of the host's settings, below the run's directory.
JOURNAL: Final = "journal"
_ID = re.compile(r"[0-9a-f]{8}")
#: Seconds to wait for other runs, which hold the lock while they make or sweep directories uninterrupted.
_PATIENCE_S: Final = 60.0


class RunDirectory:
    """One run's directory.

    :ivar id: eight hexadecimal digits that are in every name the run gives; :ivar path: the directory.
    """

    def __init__(self, parent: str = BASE) -> None:
        """Make and lock a new directory.

        :raises LaunchError: it cannot be made.
        """
        self.parent = parent
        self.id = secrets.token_hex(4)
        self.path = os.path.join(parent, self.id)
        try:
            with _locked(parent):
                os.mkdir(self.path, 0o711)
                os.chmod(self.path, 0o711)  # noqa: S103  # whatever the umask: QEMU's user passes through
                self._lock = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise base.LaunchError(f"run directory {self.path} cannot be made: {error.strerror}") from error

    @property
    def journal(self) -> str:
        return self.file(JOURNAL)

    def file(self, name: str) -> str:
        """Return the path of a file in the directory."""
        return os.path.join(self.path, name)

    def close(self, *, keep: bool = False) -> None:
        """Remove the directory and give up the lock; may be called twice.

        :param keep: leave the directory, so that the next run sweeps what this one could not remove.
        """
        if self._lock < 0:
            return
        with _locked(self.parent):
            if not keep:
                shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._lock)
            self._lock = -1


def sweep(remove: Callable[[str, str], None], parent: str = BASE) -> list[str]:
    """Remove what dead runs left; return their ids.

    :param remove: called with id and directory of each dead run to remove all but the directory.
    """
    swept: list[str] = []
    if not os.path.isdir(parent):
        return swept
    with _locked(parent):
        for name in sorted(os.listdir(parent)):
            path = os.path.join(parent, name)
            if not _ID.fullmatch(name) or os.path.islink(path):
                continue
            lock = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove(name, path)
                shutil.rmtree(path, ignore_errors=True)
                swept.append(name)
            except BlockingIOError:  # its process lives
                continue
            except (errors.PerfTuningError, OSError) as error:
                LOG.warning("run %s has ended, but its remains cannot be removed: %s", name, error)
            finally:
                os.close(lock)
    return swept


@contextlib.contextmanager
def _locked(parent: str) -> Iterator[None]:
    """Hold the lock on the parent directory, making it if need be, so that no run is swept while it is being made.

    :raises LaunchError: another process has held the lock for :data:`_PATIENCE_S`.
    """
    until = time.monotonic() + _PATIENCE_S
    os.makedirs(parent, exist_ok=True)
    # Passed through by QEMU's user; who could list it could lock it, and stop every run.
    os.chmod(parent, 0o711)  # noqa: S103
    lock = os.open(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() >= until:
                    raise base.LaunchError(f"{parent} is locked by another process") from None
                time.sleep(0.05)
        yield
    finally:
        os.close(lock)
