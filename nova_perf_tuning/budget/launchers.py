"""What makes the machines of a measurement: guests through libvirt, or the host itself."""

from __future__ import annotations

from typing import Final

from nova_perf_tuning.budget import local
from nova_perf_tuning.launch import base

#: Names that the command line takes.
NAMES: Final = ("libvirt", "host")


def load(name: str) -> base.Launcher:
    """Return a launcher; nothing is made before its ``prepare()``."""
    if name == "host":
        return local.LocalLauncher()
    from nova_perf_tuning.launch import libvirt  # loads libvirt's library, which no help needs

    return libvirt.LibvirtLauncher()
