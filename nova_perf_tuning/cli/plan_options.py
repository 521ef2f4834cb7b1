"""Options that name a host and its guests, for ``topology``, ``plan``, ``apply``, ``audit`` and ``generate``."""

from __future__ import annotations

import argparse


def add_sysroot(parser: argparse.ArgumentParser) -> None:
    """Add ``--sysroot``."""
    parser.add_argument(
        "--sysroot",
        metavar="DIR|FILE",
        default="/",
        help="a recorded host: a directory with its sys and proc in it, or a file made by 'nova-perf record'"
        " (default: /, this host)",
    )


def add_host(parser: argparse.ArgumentParser, nova_config: str) -> None:
    """Add ``--sysroot``, ``--nova-config`` and ``--domain``.

    :param nova_config: what is read where no nova.conf is named.
    """
    add_sysroot(parser)
    parser.add_argument(
        "--nova-config",
        metavar="FILE",
        action="append",
        default=[],
        help="take CPU sets and what else counts from this nova.conf; later files win; may be repeated "
        f"(default: {nova_config})",
    )
    parser.add_argument(
        "--domain",
        metavar="XML",
        action="append",
        default=[],
        help="also look at this guest's domain XML; may be repeated",
    )


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add what :func:`nova_perf_tuning.cli.plan.plan_from` obeys: the host, ``--housekeeping`` and ``--rps``."""
    add_host(parser, "none, while the agent and audit read /etc/nova/nova.conf")
    parser.add_argument(
        "--housekeeping",
        metavar="LIST",
        help="CPUs for interrupts and the host itself (default: online, neither dedicated nor isolated)",
    )
    parser.add_argument(
        "--rps",
        action="store_true",
        help="spread packet work in software where a NIC has fewer receive queues than local housekeeping CPUs",
    )
