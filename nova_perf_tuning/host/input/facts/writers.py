# SPDX-License-Identifier: Apache-2.0
"""Other software that places interrupts, by the files that it leaves on a host.

What only runs as a process is in :data:`nova_perf_tuning.host.transaction.verify.DAEMONS`.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.host.model.notes import NoteCode

#: Where ``.link`` files are, the strongest place first (systemd.link(5)).
LINK_DIRECTORIES: Final = (
    "etc/systemd/network",
    "run/systemd/network",
    "usr/lib/systemd/network",
)
#: Keys of [Link] with which systemd-udevd places a NIC's interrupts (systemd 261).
LINK_KEYS: Final = ("IRQAffinityPolicy", "IRQAffinity", "IRQAffinityNUMA")
#: Keys of [Match] with which the audit finds the NICs of a file; a record has none of them.
MATCH_KEYS: Final = ("OriginalName", "Driver", "Path", "MACAddress")
#: The profile of TuneD that is in force, and where profiles are.
TUNED_ACTIVE: Final = "etc/tuned/active_profile"
TUNED_DIRECTORIES: Final = (
    "etc/tuned/profiles",
    "etc/tuned",
    "usr/lib/tuned/profiles",
    "usr/lib/tuned",
)
#: What a record keeps of a profile.
TUNED_LINES: Final = "[irq include= type= isolated_cores= irq_process="
#: What OpenShift's operators leave: RPS masks by udev, and Open vSwitch that follows the CPUs of containers.
_OPENSHIFT: Final = (
    ("etc/udev/rules.d", "99-netdev-physical-rps.rules", "rps"),
    ("etc/openvswitch", "enable_dynamic_cpu_affinity", "thread_affinity"),
)
_LIMIT: Final = 1 << 16
_MOST_LINKS: Final = 200
_MOST_PROFILES: Final = 16
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,80}").fullmatch


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """Software that places things, as a file says.

    :ivar name: for people: ``systemd-udevd``; :ivar kinds: kinds of settings that it writes.
    :ivar path: the file, from the root; :ivar says: what is in it.
    :ivar match: of a ``.link`` file key -> patterns of [Match]; None: it is for the whole host.
    """

    name: str
    kinds: frozenset[str]
    path: str
    says: str
    match: Mapping[str, Sequence[str]] | None = None


def read_writers(root: Root) -> list[Writer]:
    """Return the software whose files say that it places interrupts or RPS masks."""
    return [*_links(root), *_tuned(root), *_openshift(root)]


def _text(root: Root, directory: str, name: str) -> str | None:
    data = root.read(root.directory(directory), name, _LIMIT)
    if data is None:
        return None
    return data.decode("utf-8", "replace")


def _links(root: Root) -> Iterator[Writer]:
    """Yield the ``.link`` files that place interrupts; one hides others of its name further down."""
    seen: set[str] = set()
    for directory in LINK_DIRECTORIES:
        names = [name for name in root.names(root.directory(directory)) if name.endswith(".link")]
        if len(names) > _MOST_LINKS:
            left = len(names) - _MOST_LINKS
            root.notes.add(NoteCode.FILES_LEFT_OUT, f"/{directory}", most=_MOST_LINKS, left=left)
        for name in sorted(names)[:_MOST_LINKS]:
            if name in seen or not name.isprintable():
                continue
            seen.add(name)
            says: list[str] = []
            text = _text(root, directory, name) or ""
            for line in _section(text, "Link"):
                key, _, _value = line.partition("=")
                if key.strip() in LINK_KEYS and line.isprintable():
                    says.append(line)
            if says:
                path = f"/{directory}/{name}"
                kinds = frozenset({"irq_affinity"})
                yield Writer("systemd-udevd", kinds, path, "; ".join(says), _match(text))


def _match(text: str) -> dict[str, list[str]]:
    """Return key -> patterns of [Match]; a key that comes again adds to them, an empty one clears them."""
    found: dict[str, list[str]] = {}
    for line in _section(text, "Match"):
        key, _, value = (part.strip() for part in line.partition("="))
        patterns = value.split()
        if patterns:
            found.setdefault(key, []).extend(patterns)
        else:
            found.pop(key, None)
    return found


def _section(text: str, section: str) -> Iterator[str]:
    """Yield the lines of one section of an INI file, without blanks around them."""
    inside = False
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            inside = line == f"[{section}]"
        elif inside:
            yield line


def _tuned(root: Root) -> Iterator[Writer]:
    """Yield the profile of TuneD in force where it, or one that it includes, places interrupts."""
    active = (_text(root, "etc/tuned", "active_profile") or "").split()
    waiting = [name for name in active if _NAME(name)]
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_PROFILES:
        name = waiting.pop(0)
        if name in seen:
            continue
        seen.add(name)
        for directory in TUNED_DIRECTORIES:
            text = _text(root, f"{directory}/{name}", "tuned.conf")
            if text is None:
                continue
            says = _of_profile(text)
            if says:
                path = f"/{directory}/{name}/tuned.conf"
                yield Writer("TuneD", frozenset({"irq_affinity"}), path, "; ".join(says))
            waiting += _included(text)
            break


def _of_profile(text: str) -> list[str]:
    """Return the lines of a profile by which TuneD places interrupts: its plugin irq, isolated cores."""
    says: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        key, _, value = (part.strip() for part in line.partition("="))
        of_plugin = line == "[irq]" or (key, value) == ("type", "irq")
        if (of_plugin or (key == "isolated_cores" and value)) and line.isprintable():
            says.append(line)
    return says


def _included(text: str) -> list[str]:
    names: list[str] = []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "include":
            names += [name for name in re.split(r"[,\s]+", value.strip()) if _NAME(name)]
    return names


def _openshift(root: Root) -> Iterator[Writer]:
    for directory, name, kind in _OPENSHIFT:
        if root.has(root.directory(directory), name):
            kinds = frozenset({kind})
            yield Writer("OpenShift's tuning", kinds, f"/{directory}/{name}", "it is there")
