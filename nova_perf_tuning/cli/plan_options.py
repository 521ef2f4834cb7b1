"""The options of every command that computes a host plan; cli.plan.plan_from() obeys them."""

from __future__ import annotations

import argparse


def add_plan_options(parser: argparse.ArgumentParser) -> None:
    """Add ``--sysroot``, the CPU sets, ``--nova-config``, ``--domain`` and ``--rps`` to ``parser``."""
    parser.add_argument(
        "--sysroot",
        metavar="DIR",
        default="/",
        help="root of a recorded host's files (or a recording) instead of this host (default: /)",
    )
    parser.add_argument(
        "--dedicated",
        metavar="LIST",
        help="CPUs that guests own, as in 4-15,^8 ([compute] cpu_dedicated_set; default: derived from their pins)",
    )
    parser.add_argument(
        "--shared",
        metavar="LIST",
        help="CPUs for guests' emulator, I/O and vhost threads and for floating vCPUs ([compute] cpu_shared_set)",
    )
    parser.add_argument(
        "--housekeeping",
        metavar="LIST",
        help="CPUs for interrupts and the host itself (default: online, neither dedicated nor isolated)",
    )
    parser.add_argument(
        "--nova-config",
        metavar="FILE",
        action="append",
        default=[],
        help="take the CPU sets and power management from this nova.conf; later files win; may be repeated "
        "(default: none, while the agent and audit read /etc/nova/nova.conf)",
    )
    parser.add_argument(
        "--domain",
        metavar="XML|DIR",
        action="append",
        default=[],
        help="also plan for this guest's domain XML, or for all .xml files of a folder; may be repeated",
    )
    parser.add_argument(
        "--rps",
        action="store_true",
        help="spread packet work in software where a NIC has fewer receive queues than local housekeeping CPUs",
    )
