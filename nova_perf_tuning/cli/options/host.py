# SPDX-License-Identifier: Apache-2.0
"""Options that say which host is looked at, and what is read of it: facts, plan, the audit's view."""

import argparse
import dataclasses
import shlex
from collections.abc import Iterator, Sequence

from nova_perf_tuning import cpulist
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.guest.domain import Domain
from nova_perf_tuning.host.audit.host import Host, Options
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.owners import Owner
from nova_perf_tuning.host.plan import guests, layout, planner
from nova_perf_tuning.host.plan.refused import Refused
from nova_perf_tuning.host.transaction import refusals

_AMOUNT = options.number(0.001, 1e9)
_MAX_LOG = 16 << 20  # a large host's has a megabyte


_RECORDED = (
    "recorded host to read: a directory with its sys and proc, a file made by 'nova-perf record'"
)


def add_sysroot(parser: argparse.ArgumentParser) -> None:
    options.add(
        parser,
        "--sysroot",
        "DIR|FILE",
        f"{_RECORDED}, or a sosreport (default: /, this host)",
        default="/",
    )


def add_sysroots(parser: argparse.ArgumentParser) -> None:
    """Add ``--sysroot`` for several hosts; :func:`sysroots` returns them."""
    options.add_repeated(
        parser,
        "--sysroot",
        "DIR|FILE",
        f"{_RECORDED}, a sosreport, or a directory of such files (default: /, this host)",
    )


def sysroots(args: argparse.Namespace) -> list[str]:
    """Return the hosts that the options of :func:`add_sysroots` name, each once.

    :raises FactsError: see :func:`.reader.hosts_in`.
    """
    found: dict[str, None] = {}
    for path in args.sysroot or ["/"]:
        found |= dict.fromkeys(reader.hosts_in(path))
    return list(found)


def add_svg(parser: argparse.ArgumentParser) -> None:
    options.add(
        parser,
        "--svg",
        "FILE",
        "also draw a picture of who owns each CPU and what runs there",
    )
    options.add(
        parser,
        "--svg-name",
        "NAME",
        "name of the host in the picture's title (default: none)",
        default="",
    )


def show_picture(args: argparse.Namespace) -> None:
    """Say where the picture is that ``--svg`` asked for."""
    if args.svg:
        command.say(f"picture: {args.svg}")


def add_host(parser: argparse.ArgumentParser) -> None:
    """Add ``--sysroot``, ``--nova-config``, ``--no-nova-config`` and ``--domain``."""
    add_sysroot(parser)
    add_files(parser)


def add_files(parser: argparse.ArgumentParser) -> None:
    """Add ``--nova-config``, ``--no-nova-config`` and ``--domain``."""
    options.add_repeated(
        parser,
        "--nova-config",
        "FILE",
        "nova.conf to read CPU sets and other options from; later files override earlier ones (default: where RHOSO, "
        "kolla-ansible and packages put it)",
    )
    parser.add_argument("--no-nova-config", action="store_true", help="do not read nova.conf")
    options.add_repeated(parser, "--domain", "XML", "domain XML of an additional guest")


def files(args: argparse.Namespace) -> list[str]:
    """Return the files that the options of :func:`add_host` name, which the command reads."""
    return [args.sysroot, *args.nova_config, *args.domain]


def given(args: argparse.Namespace) -> str:
    """Return the options of :func:`add_host` that were given, for a command line on the host itself.

    ``--sysroot`` is not among them: a remedy of a recorded host is for the host that was recorded.
    """
    words: list[str] = []
    for file in args.nova_config:
        words += ["--nova-config", file]
    for file in args.domain:
        words += ["--domain", file]
    if args.no_nova_config:
        words.append("--no-nova-config")
    return "".join(f" {shlex.quote(word)}" for word in words)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """Add what :func:`facts_and_plan` obeys: the host, ``--housekeeping`` and ``--rps``."""
    add_host(parser)
    options.add(
        parser,
        "--housekeeping",
        "LIST",
        "CPUs for interrupts and the host itself (default: online CPUs that are neither dedicated "
        "nor isolated)",
        options.cpus,
    )
    parser.add_argument(
        "--rps",
        action="store_true",
        help="spread receive work in software (RPS) if a NIC has fewer receive queues than local "
        "housekeeping CPUs",
    )


def show_nova_config(args: argparse.Namespace, paths: Sequence[str]) -> None:
    """Print which files of nova-compute were found, where the user has named none."""
    if not (args.nova_config or args.no_nova_config):
        command.say(f"nova.conf: {', '.join(paths) or 'none was found; --nova-config names it'}")


def facts_and_plan(
    args: argparse.Namespace, memory: refusals.RefusalMemory | None = None
) -> tuple[host_model.HostFacts, planner.Plan]:
    """Read the host that the options name and return it with its plan.

    :param memory: what the kernel refused there; None: what earlier commands or the agent wrote
        down.
    """
    root = reader.open_root(args.sysroot)
    files = novaconf.texts(args.nova_config)
    if not files and not args.no_nova_config:
        files = novaconf.found(root)
    sets = novaconf.cpu_sets(files)
    if args.housekeeping:
        sets = dataclasses.replace(sets, housekeeping=cpulist.format(args.housekeeping))
    domains = [domain for _data, domain in domain_files(args.domain)]
    facts = guests.with_domains(reader.read_root(root), domains)
    if memory is None:
        memory = refusals.RefusalMemory(args.sysroot)
    refused = _refused(args.sysroot, memory, facts)
    return facts, planner.plan(facts, sets, rps=args.rps, refused=refused)


def _refused(sysroot: str, memory: refusals.RefusalMemory, facts: host_model.HostFacts) -> Refused:
    """Return what the kernel refused there, and which interrupts the operator wants left alone.

    :raises ConfigError: the agent's configuration cannot be used.
    """
    from nova_perf_tuning.conf import opts  # oslo.config: only where a plan is made

    left: tuple[str, ...] = ()
    files = opts.default_files(sysroot)
    if files:
        left = tuple(opts.load(files).agent.leave_interrupts)
    return dataclasses.replace(memory.here(facts), left=left)


def quiet_cpus(sysroot: str = "/") -> frozenset[int]:
    """Return the CPUs that the plan keeps free for guests, and that none has now; PlanError: there are none."""
    root = reader.open_root(sysroot)
    cpus = layout.CpuLayout.of(reader.read_root(root), novaconf.cpu_sets(novaconf.found(root)))
    taken = cpus.owners.cpus(Owner.GUEST) | cpus.owners.polled
    quiet = ((cpus.dedicated | cpus.quiet) & cpus.online) - taken
    if not quiet:
        raise layout.PlanError(
            "every dedicated or isolated CPU has a guest, or there are none; name the CPUs"
        )
    return quiet


def domain_files(paths: Sequence[str]) -> Iterator[tuple[bytes, Domain]]:
    """Read the domains of XML files, each with its text; OptionError: unreadable, or no domain XML."""
    for path in paths:
        data = options.read(
            path, parsing.MAX_BYTES, "--domain ", "; give domain XML (virsh dumpxml)"
        )
        try:
            yield data, parsing.parse_domain(data)
        except parsing.DomainError as error:
            raise options.OptionError(f"--domain {path}: {error}") from None


def add_path(parser: argparse.ArgumentParser) -> None:
    """Add what the audit cannot read on the host: the network path, physical networks, the kernel's log."""
    options.add(
        parser,
        "--bandwidth",
        "MBITS",
        "bandwidth of the network path in Mbit/s, to size TCP buffers (default: that of the host's "
        "fastest link)",
        _AMOUNT,
    )
    options.add(
        parser,
        "--rtt",
        "MS",
        "round-trip time of the network path in milliseconds, to size TCP buffers",
        _AMOUNT,
    )
    options.add_repeated(
        parser,
        "--physnet",
        "NAME=NIC",
        "NIC, bond or bridge of a Neutron physical network, if the configuration of Neutron's "
        "agents does not name it",
    )
    options.add(
        parser,
        "--kernel-log",
        "FILE",
        "dmesg output of the machine, for the rule xen-pv-guest; - is stdin",
    )


def view(args: argparse.Namespace) -> Host:
    """Return the host that the options name, ready to be judged.

    :raises NovaConfigError: a file is missing, no text, or has a line that is none.
    """
    # A line that is none is refused; what is wrong with options the rules say.
    novaconf.merge(novaconf.texts(args.nova_config), strict=True)
    domains = list(domain_files(args.domain))
    root = reader.open_root(args.sysroot)
    facts = guests.with_domains(reader.read_root(root), [domain for _data, domain in domains])
    bandwidth_mbps = None
    if args.bandwidth is not None:
        bandwidth_mbps = int(args.bandwidth) or 1
    nova = None
    if args.nova_config or not args.no_nova_config:
        nova = novaconf.texts(args.nova_config)
    kernel_log = None
    if args.kernel_log:
        log = options.read(args.kernel_log, _MAX_LOG, "--kernel-log ")
        kernel_log = (args.kernel_log, log.decode("utf-8", "replace"))
    known = Options(
        bandwidth_mbps=bandwidth_mbps,
        rtt_ms=args.rtt,
        physnets=options.pairs("--physnet", args.physnet),
        nova=nova,
        given=given(args),
        domains=[(domain.name, data) for data, domain in domains],
        refused=_refused(args.sysroot, refusals.RefusalMemory(args.sysroot), facts),
        kernel_log=kernel_log,
    )
    return Host(root, facts, known)


def view_to_act(args: argparse.Namespace) -> Host:
    """Return :func:`view` for a command that builds on the CPU sets of nova.conf.

    :raises NovaConfigError: they cannot be read, and nothing may be built on what is left.
    """
    host = view(args)
    novaconf.cpu_sets(host.nova_files)
    return host
