# SPDX-License-Identifier: Apache-2.0
"""Errors that a user can cause, and the exit codes of every command."""

import enum
import errno
import re


class ExitCode(enum.IntEnum):
    """What a shell or a CI job sees; the same for every command of ``nova-perf``.

    ``FAIL`` also stands for findings and drift (``audit``, ``verify``), ``ERROR`` for wrong usage.
    """

    PASS = 0
    FAIL = 1
    INCONCLUSIVE = 2
    ERROR = 3


class PerfTuningError(Exception):
    """Something a user can correct: one line that names the key or file, what is wrong, what to do.

    The command line prints ``str(error)`` on stderr and exits with :attr:`ExitCode.ERROR`; no traceback.
    """


def code(error: BaseException) -> str:
    """Return what programs tell errors apart by: the errno (``enospc``), else the class (``plan_error``)."""
    if isinstance(error, OSError) and error.errno is not None:
        return errno.errorcode.get(error.errno, "os_error").lower()
    return re.sub(r"(?<!^)(?=[A-Z][a-z])", "_", type(error).__name__).lower()


class CloudError(PerfTuningError):
    """No pair can be measured on this cloud: wrong credentials, no image, no Heat, no rights."""
