# SPDX-License-Identifier: Apache-2.0
"""The launchers by name."""

from typing import Final

from nova_perf_tuning.validation.launch import base, local

#: Names of launchers that the command line takes.
NAMES: Final = ("libvirt", "host")


def load(name: str) -> base.Launcher:
    """Return a launcher; nothing is made before its ``prepare()``."""
    if name == "host":
        return local.LocalLauncher()
    from nova_perf_tuning.validation.launch import (
        libvirt,
    )  # loads libvirt's library, which no help needs

    return libvirt.LibvirtLauncher()
