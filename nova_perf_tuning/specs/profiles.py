"""Reads profile files, the shipped ones and an operator's: the only part of ``specs`` that reads."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Iterable, Mapping

from nova_perf_tuning import bounded_read
from nova_perf_tuning.specs import profile

_MAX_BYTES = 64 << 10
_SHIPPED = pathlib.Path(__file__).parent / "profiles"


@functools.cache
def shipped() -> Mapping[str, profile.Profile]:
    """Return the profiles of this package by name."""
    return {entry.name: entry for entry in map(_read, sorted(_SHIPPED.glob("*.yaml")))}


def load(directory: str | None) -> Mapping[str, profile.Profile]:
    """Return the shipped profiles and those of an operator's ``directory`` (``*.yaml``), by name.

    Within nova-compute each boot of a guest with a profile asks, so files are read anew when they have changed.

    :raises ProfileError: the directory or a file cannot be read, or holds something that is no profile, or a name
        twice.
    """
    if directory is None:
        return shipped()
    try:
        paths = sorted(path for path in pathlib.Path(directory).iterdir() if path.suffix in (".yaml", ".yml"))
        return _combined(tuple((path, path.stat().st_mtime_ns, path.stat().st_size) for path in paths))
    except OSError as error:
        raise profile.ProfileError(f"profile folder {directory}: {error.strerror}") from None


@functools.lru_cache(maxsize=4)
def _combined(files: Iterable[tuple[pathlib.Path, int, int]]) -> Mapping[str, profile.Profile]:
    """Combine files; their times and sizes only tell this cache that one has changed."""
    known = dict(shipped())
    for own in (_read(path) for path, *_ in files):
        if own.name in known:
            raise profile.ProfileError(f"{own.source}: name: '{own.name}' is in {known[own.name].source} as well")
        known[own.name] = own
    return known


def _read(path: pathlib.Path) -> profile.Profile:
    try:
        return profile.parse(bounded_read.read_text(path, _MAX_BYTES), str(path))
    except OSError as error:
        raise profile.ProfileError(f"{path}: {error.strerror}") from None
