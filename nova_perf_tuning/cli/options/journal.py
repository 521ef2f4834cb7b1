# SPDX-License-Identifier: Apache-2.0
"""Options that say which journal is meant, and what several commands do with it."""

import argparse
import os
import shlex
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning.cli import options
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.kinds import base
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.transaction.journal import Journal, default_state_dir


def add_state_dir(parser: argparse.ArgumentParser) -> None:
    options.add(
        parser,
        "--state-dir",
        "DIR",
        f"directory of the journal (default: [nova_perf_tuning] state_dir in {opts.CONFIG}; with "
        "--sysroot var/lib/nova-perf-tuning below it)",
    )


def add_journal(parser: argparse.ArgumentParser) -> None:
    """Add ``--sysroot`` and ``--state-dir``, which say where the journal is."""
    options.add(
        parser,
        "--sysroot",
        "DIR",
        "root directory of a generated or recorded host (default: /, this host)",
        default="/",
    )
    add_state_dir(parser)


def open_journal(args: argparse.Namespace, *, writer: bool = False) -> Journal:
    """Open the journal that the options name; JournalError: it cannot be."""
    return Journal(directory(args), args.sysroot, writer=writer)


def directory(args: argparse.Namespace) -> str:
    """Return the directory of the journal that the options name.

    :raises options.OptionError, ConfigError: the sysroot is no directory, or a sosreport; the
        agent's configuration is wrong.
    """
    if not os.path.isdir(os.path.join(args.sysroot, "proc")):
        raise options.OptionError(
            f"--sysroot {args.sysroot}: not a recorded host: it has no proc and sys"
        )
    if os.path.isdir(os.path.join(args.sysroot, "sos_commands")):
        raise options.OptionError(
            f"--sysroot {args.sysroot}: nothing is written into a sosreport; nova-perf plan and audit show what to "
            "apply on the host"
        )
    if args.state_dir is not None:
        return str(args.state_dir)
    if args.sysroot != "/":
        return default_state_dir(args.sysroot)
    return str(opts.load(opts.default_files("/")).nova_perf_tuning.state_dir)


def command_line(args: argparse.Namespace) -> str:
    """Return the command that undoes ``apply`` with these options: it must find the same journal."""
    words = ["nova-perf", "restore"]
    if args.sysroot != "/":
        words += ["--sysroot", args.sysroot]
    if args.state_dir is not None:
        words += ["--state-dir", args.state_dir]
    return shlex.join(words)


#: States of a setting that are news; the others are as they should be.
NEWS: Final = (base.State.DRIFTED, base.State.GONE, base.State.UNREADABLE)
#: Rows of news that a table shows.
SHOWN: Final = 20


def is_news(row: Mapping[str, object]) -> bool:
    """Return whether a setting, as :func:`as_json` returns it, is not as it should be."""
    return row["state"] in {state.value for state in NEWS} or bool(row.get("interrupted"))


def as_json(setting: host_model.Setting, observation: base.Observation) -> dict[str, object]:
    """Return a setting and what the host holds, as ``verify`` and ``status`` show it."""
    current = observation.current
    if observation is base.HELD:
        current = setting.value
    return {
        "kind": setting.kind,
        "target": setting.target,
        "value": setting.value,
        "current": current,
        "state": observation.state.value,
        "detail": observation.detail,
        "code": observation.code,
        "rule": setting.rule,
    }
