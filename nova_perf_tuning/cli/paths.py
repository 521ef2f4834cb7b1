"""``nova-perf paths``: where the files that come with this package are, however it was installed."""

from __future__ import annotations

import argparse
import pathlib
import sysconfig
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


def locations() -> dict[str, tuple[pathlib.Path, str]]:
    """Return name -> where it is, and what it is for, of all that this installation has."""
    candidates = {name: (what, [_PACKAGE / path]) for name, (what, path) in _IN_PACKAGE.items()}
    candidates |= {name: (what, _beside(path, tree)) for name, (what, path, tree) in _BESIDE.items()}
    return {
        name: (present[0].resolve(), what)
        for name, (what, paths) in candidates.items()
        if (present := [path for path in paths if path.exists()])
    }


def _beside(path: str, tree: str) -> list[pathlib.Path]:
    """Return where files may be: in the source tree, or where a scheme of Python's puts data."""
    schemes = (sysconfig.get_default_scheme(), sysconfig.get_preferred_scheme("user"))
    prefixes = [*(sysconfig.get_path("data", scheme) for scheme in schemes), "/usr"]
    in_tree = [_PACKAGE.parent / tree] if (_PACKAGE.parent / "setup.cfg").is_file() else []
    return in_tree + [pathlib.Path(prefix) / path for prefix in prefixes]


class Paths(command.PerfCommand):
    """Show where the files that come with this package are: templates, profiles, units, the DevStack plugin.

    With NAME only its path is printed, for scripts. Example:
    s=$(nova-perf paths smoke); stestr --test-path "$s" --top-dir "$s/.." run
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("name", metavar="NAME", nargs="?", help="print the path of this one alone")

    def run_command(self, args: argparse.Namespace) -> int:
        known = locations()
        if args.name is not None and args.name not in known:
            raise option_types.OptionError(
                f"'{args.name[:40]}' does not come with this installation; there are: {', '.join(known)}"
            )
        rows = [
            {"name": name, "path": str(path), "what": what}
            for name, (path, what) in known.items()
            if args.name in (None, name)
        ]
        if args.format == "json":
            command.print_json({"paths": rows})
        elif args.name is not None:
            print(rows[0]["path"])
        else:
            command.print_rows(("name", "path", "what"), rows, limit=200)
        return int(errors.ExitCode.PASS)
