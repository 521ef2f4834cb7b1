"""What ``audit``, ``apply --rule`` and ``generate`` share: the host, and what the operator knows of it."""

from __future__ import annotations

import argparse

from nova_perf_tuning.cli import option_types
from nova_perf_tuning.host import novaconf
from nova_perf_tuning.host.audit import host as host_module
from nova_perf_tuning.host.facts import reader


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add what is known of the path that matters."""
    parser.add_argument(
        "--bandwidth",
        metavar="MBITS",
        type=option_types.number(0.001, 1e9),
        help="bandwidth of the path in Mbit/s, for TCP buffers (default: the fastest link of the host)",
    )
    parser.add_argument(
        "--rtt",
        metavar="MS",
        type=option_types.number(0.001, 1e9),
        help="round trip time of the path in milliseconds, for TCP buffers",
    )
    parser.add_argument(
        "--physnet",
        metavar="NAME=NIC",
        action="append",
        default=[],
        help="NIC, bond or bridge of a physical network of Neutron, where its agents' files do not say; may be "
        "repeated",
    )


def view(args: argparse.Namespace) -> host_module.Host:
    """Return the host that the options name, ready to be judged.

    :raises errors.PerfTuningError: an option, a file or the host cannot be used; names which.
    """
    novaconf.read(args.nova_config)  # which refuses what is wrong
    root = reader.open_root(args.sysroot)
    options = host_module.Options(
        bandwidth_mbps=None if args.bandwidth is None else int(args.bandwidth) or 1,
        rtt_ms=args.rtt,
        physnets=_physnets(args.physnet),
        nova=novaconf.texts(args.nova_config),
    )
    return host_module.Host(root, reader.read_root(root), options)


def _physnets(texts: list[str]) -> dict[str, str]:
    networks = {}
    for text in texts:
        name, equals, nic = text.partition("=")
        if not (name and equals and nic):
            raise option_types.OptionError(f"--physnet {text[:60]!r}: write NAME=NIC as in physnet1=eth0")
        networks[name] = nic
    return networks
