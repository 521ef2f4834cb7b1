# SPDX-License-Identifier: Apache-2.0
"""The masks of this machine belong to one test, benchmark or demonstration at a time."""

import contextlib
import fcntl
import os
import time
from collections.abc import Collection, Iterator
from typing import Final

#: Locked, and not written: every kernel has it, and no file is left behind.
_LOCKED: Final = "/proc/irq"
_PAUSE_S: Final = 0.1


@contextlib.contextmanager
def reserved(ended: Collection[int] = ()) -> Iterator[None]:
    """Keep others from writing them: what one has written for a moment, another takes for the machine's own.

    :param ended: nothing is waited for any longer as soon as something is in it.
    """
    descriptor = os.open(_LOCKED, os.O_RDONLY)
    try:
        while not ended:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(descriptor)
