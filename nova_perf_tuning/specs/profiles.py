"""Reads profile files: the shipped ones and an operator's folder. The only part of ``specs`` that reads."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from importlib import resources
from typing import Final

from nova_perf_tuning import at_once
from nova_perf_tuning.specs import profile

#: An operator's folder holds a handful; a bound against a wrong folder.
MAX_FILES: Final = 200


@functools.lru_cache(maxsize=1)
def shipped() -> Mapping[str, profile.Profile]:
    """Return the profiles of this package by name."""
    folder = resources.files("nova_perf_tuning.specs").joinpath("profiles")
    profiles = [
        profile.parse(file.read_text("utf-8"), file.name, trusted=True)
        for file in sorted(folder.iterdir(), key=lambda file: file.name)
        if file.name.endswith(".yaml")
    ]
    return {entry.name: entry for entry in profiles}


def load(folder: str | None) -> Mapping[str, profile.Profile]:
    """Return the shipped profiles and those of an operator's ``folder`` (``*.yaml``), by name.

    :raises ProfileError: the folder or a file cannot be read, or holds something that is no profile.
    """
    if folder is None:
        return shipped()
    names = _names(folder)
    return profile.combine(shipped().values(), [_read(os.path.join(folder, name)) for name in names])


def state(folder: str | None) -> tuple[tuple[str, int, int, int, int], ...]:
    """Return what changes when :func:`load` would find something else; nothing is read for it but attributes.

    :returns: name, inode, size, modification and change time (ns) of each file; empty for the shipped profiles.
    :raises ProfileError: as :func:`load`.
    """
    if folder is None:
        return ()
    found = []
    for name in _names(folder):
        try:
            one = os.stat(os.path.join(folder, name))
        except OSError as error:
            raise profile.ProfileError(f"{os.path.join(folder, name)}: {error.strerror}") from None
        found.append((name, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns))
    return tuple(found)


def _names(folder: str) -> list[str]:
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".yaml", ".yml")))
    except OSError as error:
        raise profile.ProfileError(f"profile folder {folder}: {error.strerror}") from None
    if len(names) > MAX_FILES:
        raise profile.ProfileError(f"profile folder {folder}: {len(names)} files, more than {MAX_FILES}")
    return names


def _read(path: str) -> profile.Profile:
    try:
        return profile.parse(at_once.read_text(path, profile.MAX_BYTES), path)
    except OSError as error:
        raise profile.ProfileError(f"{path}: {error.strerror}") from None
