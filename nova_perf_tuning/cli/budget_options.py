"""Options that say which budgets apply to a host, and how far its noise reaches."""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from nova_perf_tuning.budget import model, noise
from nova_perf_tuning.cli import command


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


def floors(args: argparse.Namespace) -> list[dict[str, Any]]:
    """Return the entries of the noise file that was given, none without one.

    :raises nova_perf_tuning.budget.schema.InputError: it is missing, or no such file.
    """
    return noise.load(args.noise_file, named=True) if args.noise_file is not None else []


def applied(
    loaded: model.Results, path: str, args: argparse.Namespace, known: Sequence[Mapping[str, Any]], program: str
) -> model.Results:
    """Return recorded results with what the command line says of their host.

    A noise file that has nothing for them is told on stderr.

    :param known: what :func:`floors` returned; :param program: the name of the command, for what it tells.
    """
    given: dict[str, Any] = {
        name: getattr(args, name) for name in ("host_group", "flavor") if getattr(args, name) is not None
    }
    if args.noise_file is not None:
        found = noise.for_results(loaded, known)
        if not found:
            told = f"--noise-file {args.noise_file}: it has no noise floor for this host and run"
            command.warn(program, f"{path}: {told}, and changes nothing")
        given |= noise.added(loaded.environment, found)
    return dataclasses.replace(loaded, environment={**loaded.environment, **given})
