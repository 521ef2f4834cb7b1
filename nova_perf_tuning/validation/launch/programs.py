"""Short programs of the distribution that the launcher uses."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Sequence

from nova_perf_tuning import cache_directory
from nova_perf_tuning.validation.launch import base

#: Program -> Debian package.
NEEDED = {
    "ip": "iproute2",
    "qemu-img": "qemu-utils",
    "mke2fs": "e2fsprogs",
    "setpriv": "util-linux",
    "prlimit": "util-linux",
    "findmnt": "util-linux",
    "fallocate": "util-linux",
}
#: They take a second, but not on a disk that has other work or was never read from.
_LIMIT_S = 300.0


def environment() -> dict[str, str]:
    """Return the environment of programs: plain English, and /usr/sbin, which is not on every user's PATH."""
    return {**os.environ, "PATH": cache_directory.program_path(), "LC_ALL": "C"}


def call(argv: Sequence[str], text: str = "") -> str:
    """Run a program to its end and return its standard output.

    :param text: its standard input.
    :raises LaunchError: it fails (last line of its errors) or takes five minutes.
    """
    try:
        done = subprocess.run(
            argv, input=text, capture_output=True, text=True, timeout=_LIMIT_S, env=environment(), check=False
        )
    except subprocess.TimeoutExpired as error:
        raise base.LaunchError(f"{' '.join(argv)[:200]} did not end within {_LIMIT_S:.0f} s") from error
    if done.returncode:
        reason = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise base.LaunchError(f"{' '.join(argv)[:200]} failed ({done.returncode}): {reason[0][:300]}")
    return done.stdout


def filesystem(directory: str) -> str:
    """Return the type of the file system that holds ``directory``, such as ``ext4``; empty if unknown."""
    with contextlib.suppress(base.LaunchError, OSError):
        return call(["findmnt", "--noheadings", "--output", "FSTYPE", "--target", directory]).split()[-1]
    return ""
