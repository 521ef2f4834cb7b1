# SPDX-License-Identifier: Apache-2.0
"""The program sos for tests: the one at hand, else Debian's package, unpacked and not installed."""

import os
import shutil

from tests.support import patience

#: Debian 12 has it as sosreport, later ones as sos. What it imports is unpacked beside it.
_UNPACK = """
cd "$1"
get() { apt-get -qq download "$1" || { apt-get -qq update && apt-get -qq download "$1"; }; }
get sosreport || get sos
get python3-pexpect
get python3-ptyprocess
for package in *.deb; do dpkg-deb -x "$package" .; done
"""


def command(directory: str) -> tuple[list[str], dict[str, str]]:
    """Return how to run it, and the variables that it needs; it is unpacked in a directory if need be.

    :raises AssertionError: there is none.
    """
    named = shutil.which("sos", path=f"{os.environ['PATH']}:/usr/sbin")
    if named:
        return [named], {}
    done = patience.run(["sh", "-ec", _UNPACK, "sh", directory])
    if done.returncode:
        raise AssertionError(f"no sos: install Debian's package sosreport: {done.stderr}")
    modules = f"{directory}/usr/lib/python3/dist-packages"
    return ["/usr/bin/python3", f"{directory}/usr/bin/sos"], {"PYTHONPATH": modules}
