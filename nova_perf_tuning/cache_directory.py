# SPDX-License-Identifier: Apache-2.0
"""The directory in which this project's tools keep what they have built: guest images and benchmark programs."""

import os

#: Environment variable that names it; tools/image/build and tools/programs/build obey it too.
VARIABLE = "NOVA_PERF_CACHE"


def path(*names: str) -> str:
    """Return a path in it; whether it exists is the caller's question."""
    root = os.environ.get(VARIABLE)
    if not root:
        home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        root = os.path.join(home, "nova-perf-tuning")
    return os.path.join(root, *names)


def program_path() -> str:
    """Return the PATH for benchmarks on this host: the user's, the system's, then this project's programs."""
    return ":".join(
        [os.environ.get("PATH") or "/usr/bin:/bin", "/usr/sbin", "/sbin", path("programs")]
    )
