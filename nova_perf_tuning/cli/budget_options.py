"""Options that say which budgets apply to a host."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

from nova_perf_tuning.validation.measure import model


def add(parser: argparse.ArgumentParser, *, flavor: bool = True) -> None:
    """Add ``--host-group`` and ``--flavor``."""
    parser.add_argument(
        "--host-group",
        metavar="NAME",
        help="group of hosts that this one belongs to, for budgets with 'host_group'; recorded in the results",
    )
    if flavor:
        parser.add_argument("--flavor", metavar="NAME", help="flavor that is judged, for budgets with 'flavor'")


def applied(loaded: model.Results, args: argparse.Namespace) -> model.Results:
    """Return recorded results with what the command line says of their host."""
    given: dict[str, Any] = {
        name: getattr(args, name) for name in ("host_group", "flavor") if getattr(args, name) is not None
    }
    return dataclasses.replace(loaded, environment={**loaded.environment, **given})
