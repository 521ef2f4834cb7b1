# SPDX-License-Identifier: Apache-2.0
"""A TuneD for benchmarks: Debian 13's in a root of its own, of which the user's cache keeps one.

TuneD 2.20 of Debian 12 cannot load its scheduler plugin, without which its profiles move no threads.
"""

import hashlib
import os
import pathlib
from typing import Final

from tests.support import patience

#: It downloads a bare Debian: minutes on a slow line.
_LIMIT_S: Final = 900
#: With what TuneD's package recommends for its plugins; arguments: directory of the cache, name of the root in it.
_BUILD: Final = """
cd "$1"
exec 9>tuned.lock
flock 9
[ ! -d "$2" ] || exit 0
work=$(mktemp -d tuned-work.XXXXXX)
trap 'rm -rf "$work"' EXIT
sed s/bookworm/trixie/ /etc/apt/sources.list.d/debian.sources >"$work/sources"
mmdebstrap --quiet --mode=root --variant=essential --include=tuned,linux-perf,kmod \
    --aptopt='Apt::Install-Recommends "false"' trixie "$work/root" "$work/sources"
rm -rf "$work"/root/usr/share/doc "$work"/root/usr/share/man "$work"/root/usr/share/locale
mv "$work/root" "$2"
"""


def find() -> str:
    """Return the root that ``NOVA_PERF_TUNED`` names, else the one in the cache, which is made first.

    :raises AssertionError: there is none, and none can be made.
    """
    named = os.environ.get("NOVA_PERF_TUNED")
    if named:
        return named
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    cache = pathlib.Path(os.environ.get("NOVA_PERF_CACHE") or f"{home}/nova-perf-tuning")
    root = cache / f"tuned-{hashlib.sha256(_BUILD.encode()).hexdigest()[:16]}"
    if root.is_dir():
        return str(root)
    cache.mkdir(parents=True, exist_ok=True)
    done = patience.run(["sh", "-ec", _BUILD, "sh", str(cache), root.name], limit_s=_LIMIT_S)
    if done.returncode:
        last = done.stderr.strip().rpartition("\n")[2]
        raise AssertionError(
            f"no TuneD of Debian 13: name a root with it in NOVA_PERF_TUNED: {last}"
        )
    return str(root)
