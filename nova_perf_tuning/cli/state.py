"""What ``apply``, ``verify``, ``restore`` and ``status`` share: the host they mean, its journal, their tables."""

from __future__ import annotations

import argparse
import os
import shlex
from typing import Any

from oslo_config import cfg

from nova_perf_tuning.agent import state as agent_module
from nova_perf_tuning.cli import option_types
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.transaction import journal as journal_module


def add_state_options(parser: argparse.ArgumentParser, *, sysroot: bool = True) -> None:
    """Add ``--state-dir``, ``--lock-timeout``, ``--config-file`` and, if wanted, ``--sysroot``."""
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
        help="folder of the journal of original values (default: var/lib/nova-perf-tuning below the sysroot)",
    )
    parser.add_argument(
        "--lock-timeout",
        metavar="SECONDS",
        type=option_types.number(0, 3600),
        help="how long to wait while another command changes this host (default: 10)",
    )
    parser.add_argument(
        "--config-file",
        metavar="FILE",
        action="append",
        default=[],
        help="read [nova_perf_tuning] state_dir and lock_timeout and [agent] run_dir from FILE; a flag wins; may "
        f"be repeated (default: {opts.CONFIG}, as the agent does, if it is there and --sysroot is not given)",
    )


def open_journal(args: argparse.Namespace, *, writer: bool = False) -> journal_module.Journal:
    """Open the journal that the options name.

    :raises option_types.OptionError: the sysroot is no directory.
    :raises JournalError: see :class:`nova_perf_tuning.host.transaction.journal.Journal`.
    :raises ConfigError: a configuration file is wrong.
    """
    folder, patience = where(args)
    return journal_module.Journal(folder, args.sysroot, writer=writer, patience=patience)


def where(args: argparse.Namespace) -> tuple[str, float]:
    """Return the folder of the journal that the options name, and how long to wait for who writes to it.

    :raises option_types.OptionError: the sysroot is no directory.
    :raises ConfigError: a configuration file is wrong.
    """
    if not os.path.isdir(os.path.join(args.sysroot, "proc")):
        raise option_types.OptionError(
            f"--sysroot {args.sysroot}: it is no directory with a host's proc and sys in it"
        )
    folder, patience = args.state_dir, args.lock_timeout
    if folder is None or patience is None:
        group = _configuration(args).nova_perf_tuning
        # The default of an option is of the live host; what a file says holds for any.
        if folder is None and (args.sysroot == "/" or group.state_dir != "/" + journal_module.STATE_DIR):
            folder = group.state_dir
        patience = group.lock_timeout if patience is None else patience
    return folder or journal_module.default_state_dir(args.sysroot), patience


def _configuration(args: argparse.Namespace) -> cfg.ConfigOpts:
    """Return what the files that the options name say, else the agent's own file, where there is one.

    :raises ConfigError: a file is wrong.
    """
    files = args.config_file or opts.default_files(args.sysroot)
    return opts.load(files, ("state_dir", "lock_timeout", "run_dir"))


def agent_state(args: argparse.Namespace) -> dict[str, Any] | None:
    """Return what the agent of the host that the options name says of itself; None where none runs or ran."""
    folder: str = _configuration(args).agent.run_dir
    if args.sysroot != "/" and folder == agent_module.RUN_DIR:
        folder = os.path.join(os.path.realpath(args.sysroot), folder.lstrip("/"))
    return agent_module.read(folder)


def restore_command(args: argparse.Namespace) -> str:
    """Return the command that undoes ``apply`` with these options: it must find the same journal."""
    words = ["nova-perf", "restore"]
    if args.sysroot != "/":
        words += ["--sysroot", args.sysroot]
    if args.state_dir is not None:
        words += ["--state-dir", args.state_dir]
    for path in args.config_file:
        words += ["--config-file", path]
    return shlex.join(words)
