"""Options that say which budgets apply to a host, and how far its noise reaches."""

from __future__ import annotations

import argparse


def add(parser: argparse.ArgumentParser, noise_file: str | None = None, *, flavor: bool = True) -> None:
    """Add ``--host-group``, ``--noise-file`` with its default, and ``--flavor``."""
    parser.add_argument(
        "--host-group",
        metavar="NAME",
        help="group of hosts that this one belongs to, for budgets with 'host_group'; recorded in the results",
    )
    if flavor:  # validate has this option for its cloud; what is given there counts here too
        parser.add_argument("--flavor", metavar="NAME", help="flavor that is judged, for budgets with 'flavor'")
    told = f" (default: {noise_file})" if noise_file else " (default: what the results carry)"
    parser.add_argument(
        "--noise-file",
        metavar="FILE",
        default=noise_file,
        help="where noise floors of this host are kept by 'validate --noise-floor'; a budget tighter than the"
        f" floor is refused{told}",
    )
