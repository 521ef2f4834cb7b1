# SPDX-License-Identifier: Apache-2.0
"""Network namespaces for a thread of a test."""

import contextlib
import ctypes
from collections.abc import Iterator

_NEW_NETWORK = 0x40000000  # CLONE_NEWNET of sched.h; os.setns is there from Python 3.12 on


@contextlib.contextmanager
def inside(path: str) -> Iterator[None]:
    """Be, with this thread, in the network namespace of a file such as ``/proc/PID/ns/net``."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as before, open(path, "rb") as there:
        if libc.setns(there.fileno(), _NEW_NETWORK):
            raise OSError(ctypes.get_errno(), "setns")
        try:
            yield
        finally:
            libc.setns(before.fileno(), _NEW_NETWORK)
