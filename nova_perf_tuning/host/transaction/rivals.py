"""Who else writes what is tuned here: named, never fought."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterable, Iterator
from typing import Any, Final

from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.settings import files

#: Command name -> kinds that it writes. tuned: its scheduler, net and sysctl plugins; numad moves guests'
#: threads; bpftune sizes TCP buffers; ksmtuned switches KSM.
RIVALS = {
    "irqbalance": frozenset(("irq_affinity",)),
    "tuned": frozenset(
        "irq_affinity thread_affinity sysctl offload ring channels coalesce rps memory governor".split()
    ),
    "ksmtuned": frozenset(("memory",)),
    "numad": frozenset(("thread_affinity",)),
    "bpftune": frozenset(("sysctl",)),
}
#: Where systemd looks for .link files; of two with one name the first counts (systemd.link(5)).
_NETWORK: Final = tuple(f"/{one}/systemd/network" for one in ("etc", "run", "usr/local/lib", "usr/lib"))
#: Without it IRQAffinity= and IRQAffinityNUMA= do nothing.
_POLICY: Final = "IRQAffinityPolicy"
_MOST_LINKS: Final = 512
#: Seconds for which it is remembered what .link files say, and who runs: the latter reads every process's name.
_KNOWN_S: Final = 300.0
_RECENT_S: Final = 10.0


def running(root: str = "/") -> dict[str, int]:
    """Return the rivals that run on the host below ``root``: command name -> process id.

    Anybody may give a process such a name: on the running host only those of root and of our own user count. Of
    two with one name it is the lower number, but an irqbalance with our policy script comes first.
    """
    found: dict[str, list[int]] = {}
    prefix = root.rstrip("/")
    try:
        pids = sorted(int(name) for name in os.listdir(f"{prefix}/proc") if name.isdigit())
    except OSError:
        return {}
    for pid in pids:
        try:
            name = files.read_text(prefix, f"/proc/{pid}/comm")
            if name not in RIVALS or (not prefix and os.stat(f"/proc/{pid}").st_uid not in (0, os.geteuid())):
                continue
        except OSError:  # it has ended
            continue
        found.setdefault(name, []).append(pid)
    if not prefix:
        found.get("irqbalance", []).sort(key=lambda pid: not irqbalance.uses_our_script(pid))
    return {name: numbers[0] for name, numbers in found.items()}


def suspects(kind: str, rivals: dict[str, int]) -> list[str]:
    """Return who of ``rivals`` may have written settings of ``kind``, as ``irqbalance (pid 812)``."""
    return [f"{name} (pid {pid})" for name, pid in sorted(rivals.items()) if kind in RIVALS[name]]


def likely(kind: str, rivals: dict[str, int]) -> str:
    """Return who may have written settings of ``kind``, for people."""
    return " or ".join(suspects(kind, rivals)) or "a program that is not known"


def placing_links(root: str = "/") -> dict[str, str]:
    """Return the .link files that make systemd-udevd place interrupts: path -> what it is told.

    A file that another one of the same name replaces, or that is masked, counts for nothing. Whether a device
    matches it is not judged.
    """
    prefix = root.rstrip("/")
    found = {}
    for name, path in _first_of_each(prefix, _NETWORK, ".link"):
        text = _text(prefix, path)
        if not text:  # masked: empty, or a link to /dev/null
            continue
        told = [(path, value) for value in _policies(text)]
        for _name, more in _first_of_each(prefix, [f"{one}/{name}.d" for one in _NETWORK], ".conf"):
            told += [(more, value) for value in _policies(_text(prefix, more))]
        if told and told[-1][1]:  # an empty value takes back what was set before
            found[told[-1][0]] = told[-1][1]
    return found


def _first_of_each(prefix: str, folders: Iterable[str], ending: str) -> list[tuple[str, str]]:
    """Return name and path of the files that count, in the order in which systemd reads them."""
    paths: dict[str, str] = {}
    for folder in folders:
        try:
            names = os.listdir(f"{prefix}{folder}")
        except OSError:
            continue
        for name in sorted(one for one in names if one.endswith(ending))[:_MOST_LINKS]:
            paths.setdefault(name, f"{folder}/{name}")
    return sorted(paths.items())


def _text(prefix: str, path: str) -> str:
    try:
        return files.read_text(prefix, path)
    except OSError:
        return ""


def _policies(text: str) -> Iterator[str]:
    """Yield the values that are given to the policy, in their order (systemd.syntax(7))."""
    section = ""
    for line in map(str.strip, text.replace("\\\n", " ").splitlines()):
        if line.startswith("["):
            section = line
        elif section == "[Link]":
            key, _, value = line.partition("=")
            if key.rstrip() == _POLICY:
                yield value.strip()[:40]


class Lookout:
    """Remembers for a while who else writes on the host below ``root``."""

    def __init__(self, root: str = "/") -> None:
        self._root = root
        self._rivals: dict[str, int] = {}
        self._links: dict[str, str] = {}
        self._looked = self._read = -math.inf

    def likely(self, kind: str) -> str:
        """Return who of those that run now may have written settings of ``kind``, for people."""
        now = time.monotonic()
        if now - self._looked >= _RECENT_S:
            self._looked = now
            self._rivals = running(self._root)
            self._read = -math.inf
        return likely(kind, self._rivals)

    def findings(self) -> list[dict[str, Any]]:
        """Return the .link files that people should know of."""
        now = time.monotonic()
        if now - self._read >= _KNOWN_S:
            self._read = now
            self._links = placing_links(self._root)
        return [
            {
                "what": "rival",
                "file": path,
                "detail": f"{_POLICY}={value}: systemd-udevd places the interrupts of the network devices that it "
                "matches whenever they appear; let one of the two place them",
            }
            for path, value in self._links.items()
        ]
