"""``nova-perf paths``: where the files that come with this package are, however it was installed."""

from __future__ import annotations

import argparse
import pathlib
import sysconfig
from collections.abc import Iterator
from typing import Final

import nova_perf_tuning
from nova_perf_tuning import errors
from nova_perf_tuning.cli import command, option_types

_PACKAGE: Final = pathlib.Path(nova_perf_tuning.__file__).parent
_SHARE: Final = "share/nova-perf-tuning"

#: Name -> what it is for, and where in the package it is.
_IN_PACKAGE: Final = {
    "heat": ("Heat templates and environments of the validation", "validation/cloud/heat"),
    "metadefs": ("metadata definitions for Glance", "nova/metadefs"),
    "profiles": ("tuning profiles; examples for your own", "specs/profiles"),
    "budgets": ("the overhead budgets of '--budget default'", "validation/judge/default_budgets.yaml"),
    "smoke": ("smoke tests of a cloud, a test path for stestr", "../nova_perf_tuning_smoke"),
}
#: Name -> what it is for, where below a prefix pip or a distribution puts it, and where in the source tree it is.
_BESIDE: Final = {
    "devstack": ("the DevStack plugin", f"{_SHARE}/devstack", "devstack"),
    "image": ("how the benchmark image is built and uploaded", f"{_SHARE}/image", "tools/image"),
    "systemd": (
        "the agent's unit",
        "lib/systemd/system/nova-perf-agent.service",
        "etc/systemd/nova-perf-agent.service",
    ),
    "irqbalance": (
        "policy script for irqbalance",
        f"{_SHARE}/irqbalance-policy-nova-perf",
        "etc/irqbalance/irqbalance-policy-nova-perf",
    ),
    "dashboard": ("Grafana's dashboard of agents' metrics", f"{_SHARE}/grafana", "etc/grafana"),
    "sample": ("configuration with every option and its help", f"{_SHARE}/sample", "sample"),
    "tmpfiles.d": ("directories of agent and driver", f"{_SHARE}/tmpfiles.d", "etc/tmpfiles.d"),  # noqa: S108
}


def found() -> dict[str, tuple[pathlib.Path, str]]:
    """Return name -> where it is, and what it is for, of all that this installation has."""
    places = [(name, what, [_PACKAGE / place]) for name, (what, place) in _IN_PACKAGE.items()]
    places += [(name, what, list(_beside(*where))) for name, (what, *where) in _BESIDE.items()]
    there = ((name, what, [place for place in tried if place.exists()]) for name, what, tried in places)
    return {name: (paths[0].resolve(), what) for name, what, paths in there if paths}


def _beside(place: str, tree: str) -> Iterator[pathlib.Path]:
    """Yield where files may be: in the source tree, or where a scheme of Python's puts data."""
    if (_PACKAGE.parent / "setup.cfg").is_file():
        yield _PACKAGE.parent / tree
    for scheme in (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user")):
        yield pathlib.Path(sysconfig.get_path("data", scheme)) / place
    yield pathlib.Path("/usr") / place


class Paths(command.PerfCommand):
    """Show where the files that come with this package are: templates, profiles, units, the DevStack plugin.

    With NAME only its path is printed, for scripts. Example:
    s=$(nova-perf paths smoke); stestr --test-path "$s" --top-dir "$s/.." run
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", nargs="?", help="print the path of this one alone")

    def run_command(self, args: argparse.Namespace) -> int:
        places = found()
        if args.name is not None:
            if args.name not in places:
                raise option_types.OptionError(
                    f"'{args.name[:40]}' does not come with this installation; there are: {', '.join(places)}"
                )
            places = {args.name: places[args.name]}
        rows = [{"name": name, "path": str(path), "what": what} for name, (path, what) in places.items()]
        if args.format == "json":
            command.print_json({"paths": rows})
        elif args.name is not None:
            print(rows[0]["path"])
        else:
            command.print_rows(("name", "path", "what"), rows, limit=200)
        return int(errors.ExitCode.PASS)
