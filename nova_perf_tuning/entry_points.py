# SPDX-License-Identifier: Apache-2.0
"""Plug-ins of this and of other packages: what their entry points lead to, and which are broken."""

import functools
import logging
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from nova_perf_tuning import printing

LOG = logging.getLogger(__name__)


@functools.cache
def declared(group: str) -> Mapping[str, metadata.EntryPoint]:
    """Return name -> entry point of a group; looking through all packages takes longer than most commands."""
    return {entry.name: entry for entry in sorted(metadata.entry_points(group=group))}


@functools.cache
def _import(group: str, name: str) -> tuple[Any, str]:
    """Return what an entry point leads to, and an empty text; or None and its fault, which is logged."""
    entry = declared(group)[name]
    try:
        return entry.load(), ""
    except Exception as error:  # other packages' code raises anything; the others still work
        said = printing.one_line(f"{type(error).__name__}: {error}", 200)
        fault = f"{entry.value}: {said}"
        LOG.warning("%s '%s' cannot be imported: %s", group, name, fault)
        return None, fault


def find(group: str, name: str) -> Any:
    """Return what one entry point leads to; None: there is none of that name, or it is broken.

    No other is imported, so that a command loads only what it needs.
    """
    if name not in declared(group):
        return None
    found, _fault = _import(group, name)
    return found


def imported(group: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return name -> what it leads to of the entry points of a group, and name -> fault of the broken ones.

    The log names each fault once.
    """
    found, faults = {}, {}
    for name in declared(group):
        loaded, fault = _import(group, name)
        if fault:
            faults[name] = fault
        else:
            found[name] = loaded
    return found, faults


def forget() -> None:
    """Look for plug-ins anew at the next call: packages may have come or gone."""
    declared.cache_clear()
    _import.cache_clear()
