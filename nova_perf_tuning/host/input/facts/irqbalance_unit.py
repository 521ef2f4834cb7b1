# SPDX-License-Identifier: Apache-2.0
"""The unit of irqbalance with its drop-ins: the variables that it sets, and the files that it takes them from.

systemd.unit(5), systemd.exec(5): a drop-in of a higher directory hides those of its name in lower ones,
drop-ins come after the unit in the order of their names, and an empty assignment takes those before it
away. Files go before ``Environment=``, the last file first.
"""

import dataclasses
import fnmatch
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.host.input.facts.root import Root

NAME: Final = "irqbalance.service"
#: Where units are, the highest first.
DIRECTORIES: Final = (
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
)
#: What distributions give the unit; the first that is there counts where the unit is not known.
USUAL_FILES: Final = ("etc/default/irqbalance", "etc/sysconfig/irqbalance")
#: Files elsewhere are not read, whatever a unit names.
_READ_BELOW: Final = ("etc/", "usr/lib/irqbalance/", "usr/share/irqbalance/")
_VARIABLES: Final = re.compile(r"IRQBALANCE_\w+|OPTIONS")
_EXPORT: Final = re.compile(r"export\s+(\w+)\s*=(.*)")
_LIMIT: Final = 1 << 20
#: Files of variables that are read; what a unit names beyond is unread.
_MOST: Final = 64


@dataclasses.dataclass(frozen=True, slots=True)
class EnvironmentFile:
    """A file of variables.

    :ivar path: below the root. :ivar variables: name -> text without quotes.
    :ivar exported: the lines ``export NAME=text``, by name: systemd ignores them, since no variable can
        be called ``export NAME``.
    """

    path: str
    variables: Mapping[str, str]
    exported: Mapping[str, str]


@dataclasses.dataclass(frozen=True, slots=True)
class IrqbalanceUnit:
    """What the unit gives irqbalance.

    :ivar variables: those of ``Environment=``; :ivar set_in: the last file of the unit with one, else empty.
    :ivar files: those that are there, in the order of the unit.
    :ivar unread: those that it names and that are unknown: not in this record, or outside of directories
        for configuration.
    """

    variables: Mapping[str, str]
    set_in: str
    files: Sequence[EnvironmentFile]
    unread: Sequence[str]


def read(root: Root) -> IrqbalanceUnit:
    """Return what the unit and its drop-ins say; where the unit is not known, the usual file."""
    variables: dict[str, str] = {}
    set_in = ""
    named: list[str] = []
    unit = _unit_file(root)
    if unit is None:
        for usual in USUAL_FILES:
            if _content(root, usual) is not None:
                named.append(f"/{usual}")
                break
    for path in (unit, *_drop_ins(root)):
        for key, text in _assignments(_content(root, path or "") or ""):
            if key == "EnvironmentFile":
                named = [*named, text] if text else []
                continue
            if not text:
                variables.clear()
            for word in _words(text):
                variable, equals, value = word.partition("=")
                if equals:
                    variables[variable] = value
                    set_in = path or ""
    files, unread = _read_files(root, named)
    return IrqbalanceUnit(variables, set_in if variables else "", files, unread)


def _read_files(root: Root, named: Sequence[str]) -> tuple[list[EnvironmentFile], list[str]]:
    """Return the files that the unit names, and which of them are unknown."""
    files: list[EnvironmentFile] = []
    unread: list[str] = []
    for name in named:
        path = name.removeprefix("-")
        before = len(files) + len(unread)
        for found in _paths(root, path):
            if len(files) == _MOST:
                unread.append(f"/{found}")
                continue
            file = _parsed(root, found)
            if file is not None:
                files.append(file)
        optional = path != name and _may_be_read(path)
        if not optional and len(files) + len(unread) == before:
            unread.append(path)
    return files, unread


def unit_files(root: Root) -> list[str]:
    """Return the unit and its drop-ins, as far as they are there."""
    unit = _unit_file(root)
    return [*([unit] if unit else []), *_drop_ins(root)]


def recorded_unit(text: str) -> str:
    """Return the lines of a unit that a recorded host keeps, of ``Environment=`` irqbalance's variables alone."""
    kept: list[str] = []
    for key, value in _assignments(text):
        words = [value]
        if key == "Environment" and value:
            words = []
            for word in _words(value):
                if _VARIABLES.fullmatch(word.partition("=")[0]):
                    words.append(shlex.quote(word))
            if not words:
                continue
        line = f"{key}={' '.join(words)}"
        if line.isprintable():
            kept.append(f"{line}\n")
    return "".join(["[Service]\n", *kept])


def recorded_file(text: str) -> str:
    """Return the lines of a file of variables that a recorded host keeps."""
    kept: list[str] = []
    for line in text.splitlines():
        line = line.strip()
        name = line.removeprefix("export ").partition("=")[0].strip()
        if _VARIABLES.fullmatch(name) and line.replace("\t", " ").isprintable():
            kept.append(f"{line}\n")
    return "".join(kept)


def _unit_file(root: Root) -> str | None:
    for directory in DIRECTORIES:
        if _content(root, f"{directory}/{NAME}") is not None:
            return f"{directory}/{NAME}"
    return None


def _drop_ins(root: Root) -> list[str]:
    """Return the drop-ins that are in force, in their order."""
    by_name: dict[str, str] = {}
    for directory in DIRECTORIES:
        place = f"{directory}/{NAME}.d"
        for name in root.names(root.directory(place)):
            if name.endswith(".conf") and name.isprintable():
                by_name.setdefault(name, f"{place}/{name}")
    return [by_name[name] for name in sorted(by_name)]


def _assignments(text: str) -> Iterator[tuple[str, str]]:
    """Yield the assignments of a unit that concern variables."""
    for line in text.replace("\\\n", " ").splitlines():
        key, equals, value = line.partition("=")
        if equals and key.strip() in ("Environment", "EnvironmentFile"):
            yield key.strip(), value.strip()


def _words(text: str) -> list[str]:
    """Return the words of a setting of systemd; of one with an open quote as they stand."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _may_be_read(path: str) -> bool:
    """Whether a file that a unit names is where configuration is; its name alone may have wildcards."""
    plain = posixpath.normpath(path) == path and "%" not in path
    wild = set(posixpath.dirname(path)) & set("*?[")
    return plain and not wild and path.startswith(tuple(f"/{place}" for place in _READ_BELOW))


def _paths(root: Root, path: str) -> list[str]:
    """Return the files that an absolute path with wildcards names, below the root."""
    if not _may_be_read(path):
        return []
    directory, _, name = path[1:].rpartition("/")
    if not set(name) & set("*?["):
        return [path[1:]]
    names = fnmatch.filter(sorted(root.names(root.directory(directory))), name)
    return [f"{directory}/{found}" for found in names if found.isprintable()]


def _parsed(root: Root, path: str) -> EnvironmentFile | None:
    content = _content(root, path)
    if content is None:
        return None
    variables: dict[str, str] = {}
    exported: dict[str, str] = {}
    for line in content.splitlines():
        line = line.strip()
        key, equals, value = line.partition("=")
        export = _EXPORT.fullmatch(line)
        if equals and key.strip().isidentifier():
            variables[key.strip()] = value.strip().strip("\"'")
        elif export is not None:
            exported[export[1]] = export[2].strip().strip("\"'")
    return EnvironmentFile(path, variables, exported)


def _content(root: Root, path: str) -> str | None:
    directory, _, name = path.rpartition("/")
    if not name:
        return None
    data = root.read(root.directory(directory), name, _LIMIT)
    return None if data is None else data.decode("utf-8", "replace")
