"""Finds launchers by name: ``host`` is built in, others are entry points (``nova_perf_tuning.launchers``)."""

from __future__ import annotations

from importlib import metadata

from nova_perf_tuning import errors
from nova_perf_tuning.launch import base

NAMESPACE = "nova_perf_tuning.launchers"


class UnknownLauncherError(errors.PerfTuningError):
    """There is no such launcher; the message lists those there are."""


def load(name: str) -> base.Launcher:
    """Return a launcher; nothing is made before its ``prepare()``.

    :raises UnknownLauncherError: nothing installed has that name, or a library that it needs is missing.
    """
    if name == "host":
        from nova_perf_tuning.budget import local

        return local.LocalLauncher()
    found = {point.name: point for point in metadata.entry_points(group=NAMESPACE)}
    if name not in found:
        raise UnknownLauncherError(f"there is no launcher '{name[:40]}'; there are {', '.join(['host', *found])}")
    try:
        launcher = found[name].load()()
    except ImportError as error:
        raise UnknownLauncherError(f"launcher '{name}' cannot be loaded: {error}") from None
    assert isinstance(launcher, base.Launcher)
    return launcher
