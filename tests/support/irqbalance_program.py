# SPDX-License-Identifier: Apache-2.0
"""An irqbalance for tests and benchmarks: the one at hand, else Debian's package, unpacked and not installed."""

import os
import shutil

from tests.support import patience

_UNPACK = """
cd "$1"
apt-get -qq download irqbalance || { apt-get -qq update && apt-get -qq download irqbalance; }
dpkg-deb -x irqbalance_*.deb .
"""


def find(directory: str) -> str:
    """Return the one that ``NOVA_PERF_IRQBALANCE`` names or that is installed, else one unpacked in a directory.

    :raises AssertionError: there is none.
    """
    named = os.environ.get("NOVA_PERF_IRQBALANCE") or shutil.which(
        "irqbalance", path=f"{os.environ['PATH']}:/usr/sbin"
    )
    if named:
        return named
    done = patience.run(["sh", "-ec", _UNPACK, "sh", directory])
    if done.returncode:
        raise AssertionError(
            f"no irqbalance: install it or name one in NOVA_PERF_IRQBALANCE: {done.stderr}"
        )
    return f"{directory}/usr/sbin/irqbalance"
