"""What ``apply``, ``verify``, ``restore`` and ``status`` share: the host they mean, its journal and its agent."""

import argparse
import os
import shlex

from oslo_config import cfg

from nova_perf_tuning.agent import state as agent_module
from nova_perf_tuning.cli import option_types
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.transaction import journal as journal_module


def add_state_options(parser: argparse.ArgumentParser, *, sysroot: bool = True) -> None:
    """Add ``--state-dir`` and, if wanted, ``--sysroot``."""
    if sysroot:
        parser.add_argument(
            "--sysroot",
            metavar="DIR",
            default="/",
            help="root of a generated or recorded host's files instead of this host (default: /)",
        )
    parser.add_argument(
        "--state-dir",
        metavar="DIR",
        help=f"directory of the journal (default: [nova_perf_tuning] state_dir in {opts.CONFIG}; "
        "with --sysroot var/lib/nova-perf-tuning below it)",
    )


def open_journal(args: argparse.Namespace, *, writer: bool = False) -> journal_module.Journal:
    """Open the journal that the options name.

    :raises JournalError: see :class:`nova_perf_tuning.host.transaction.journal.Journal`.
    """
    return journal_module.Journal(directory(args), args.sysroot, writer=writer)


def directory(args: argparse.Namespace) -> str:
    """Return the directory of the journal that the options name.

    :raises option_types.OptionError: the sysroot is no directory.
    :raises ConfigError: the agent's configuration file is wrong.
    """
    if not os.path.isdir(os.path.join(args.sysroot, "proc")):
        raise option_types.OptionError(
            f"--sysroot {args.sysroot}: it is no directory with a host's proc and sys in it"
        )
    if args.state_dir is not None:
        return str(args.state_dir)
    if args.sysroot != "/":
        return journal_module.default_state_dir(args.sysroot)
    return str(_configuration().nova_perf_tuning.state_dir)


def _configuration() -> cfg.ConfigOpts:
    return opts.load(opts.default_files("/"))


def agent_state(args: argparse.Namespace) -> agent_module.AgentState | None:
    """Return what the agent of the host that the options name says of itself; None where none runs or ran."""
    if args.sysroot == "/":
        return agent_module.read(_configuration().agent.run_dir)
    return agent_module.read(os.path.join(os.path.realpath(args.sysroot), agent_module.RUN_DIR.lstrip("/")))


def restore_command(args: argparse.Namespace) -> str:
    """Return the command that undoes ``apply`` with these options: it must find the same journal."""
    words = ["nova-perf", "restore"]
    if args.sysroot != "/":
        words += ["--sysroot", args.sysroot]
    if args.state_dir is not None:
        words += ["--state-dir", args.state_dir]
    return shlex.join(words)
