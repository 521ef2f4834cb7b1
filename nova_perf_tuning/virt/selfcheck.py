"""Can Nova reach the driver? Answers in one sentence each; imports no more of Nova than its empty packages."""

from __future__ import annotations

import importlib.machinery
import importlib.metadata
import importlib.util
from typing import Final

SHIM: Final = "nova.virt.perf_tuning"
#: Releases that the functional tests run on.
TESTED: Final = (31, 34)


def problems() -> list[str]:
    """Return what is wrong with the installation, in sentences that say what to do; empty when all is well."""
    version = _nova_version()
    if version is None:
        return ["Nova is not installed in this environment; install nova-perf-tuning where nova-compute runs"]
    # Of an editable Nova beside our editable package Python makes one namespace, without an origin, in which
    # all is found; our wheel's folder nova/ alone makes one, too, and then Nova itself is out of reach.
    if _find("nova.virt.libvirt") is None:
        return [
            "Python does not find nova.virt.libvirt; when Nova is installed editable, the folder nova/ of the "
            "nova-perf-tuning wheel hides it: install nova-perf-tuning editable as well (pip install -e)"
        ]
    found = []
    if _find(SHIM) is None:
        found.append(
            f"Nova cannot import {SHIM}; install nova-perf-tuning in the same way as Nova, both as wheels or "
            "both editable without editable_mode=strict or compat"
        )
    if not TESTED[0] <= version <= TESTED[1]:
        found.append(
            f"Nova {version} is not among the releases that nova-perf-tuning is tested with, {TESTED[0]} to "
            f"{TESTED[1]}; run its functional tests before you rely on it"
        )
    return found


def _find(name: str) -> importlib.machinery.ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _nova_version() -> int | None:
    try:
        return int(importlib.metadata.version("nova").split(".")[0])
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return None
