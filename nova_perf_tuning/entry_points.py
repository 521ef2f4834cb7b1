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
def imported(group: str) -> tuple[Mapping[str, Any], Mapping[str, str]]:
    """Return name -> what it leads to of the entry points of a group, and name -> fault of the broken ones.

    The log names each fault once.
    """
    found, faults = {}, {}
    for entry in sorted(metadata.entry_points(group=group)):
        try:
            found[entry.name] = entry.load()
        except Exception as error:  # other packages' code raises anything; the others still work
            fault = printing.one_line(f"{type(error).__name__}: {error}", 200)
            faults[entry.name] = f"{entry.value}: {fault}"
            LOG.warning("%s '%s' cannot be imported: %s", group, entry.name, faults[entry.name])
    return found, faults
