"""What ``audit``, ``apply --rule`` and ``generate`` share: the host, and what the operator knows of it."""

import argparse
from typing import Final

from nova_perf_tuning import bounded_read
from nova_perf_tuning.cli import option_types
from nova_perf_tuning.cli import plan as plan_module
from nova_perf_tuning.host import novaconf
from nova_perf_tuning.host.audit import host as host_module
from nova_perf_tuning.host.facts import reader
from nova_perf_tuning.host.plan import guests

_MAX_LOG: Final = 16 << 20  # a large host's has a megabyte


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
    parser.add_argument(
        "--kernel-log", metavar="FILE", help="dmesg of the machine that is judged, for xen-pv-guest; - is stdin"
    )


def view(args: argparse.Namespace) -> host_module.Host:
    """Return the host that the options name, ready to be judged.

    :raises errors.PerfTuningError: an option, a file or the host cannot be used; names which.
    """
    novaconf.read(args.nova_config)  # which refuses what is wrong
    given = list(plan_module.domain_files(args.domain))
    root = reader.open_root(args.sysroot)
    facts = guests.with_domains(reader.read_root(root), [domain for _data, domain in given])
    options = host_module.Options(
        bandwidth_mbps=None if args.bandwidth is None else int(args.bandwidth) or 1,
        rtt_ms=args.rtt,
        physnets=_physnets(args.physnet),
        nova=novaconf.texts(args.nova_config),
        domains=[(domain.name, data) for data, domain in given],
        kernel_log=None if args.kernel_log is None else (args.kernel_log, _kernel_log(args.kernel_log)),
    )
    return host_module.Host(root, facts, options)


def _kernel_log(path: str) -> str:
    try:
        return bounded_read.read_argument(path, _MAX_LOG).decode("utf-8", "replace")
    except OSError as error:
        raise option_types.OptionError(f"--kernel-log {path}: {error.strerror}") from None


def _physnets(texts: list[str]) -> dict[str, str]:
    networks = {}
    for text in texts:
        name, equals, nic = text.partition("=")
        if not (name and equals and nic):
            raise option_types.OptionError(f"--physnet {text[:60]!r}: write NAME=NIC as in physnet1=eth0")
        networks[name] = nic
    return networks
