# SPDX-License-Identifier: Apache-2.0
"""``nova-perf paths``: where the files that come with this package are, however it was installed."""

import argparse
import pathlib
import sysconfig
from typing import Final

import nova_perf_tuning
from nova_perf_tuning.cli import command, options

_TOP: Final = pathlib.Path(nova_perf_tuning.__file__).parent.parent
_OWN: Final = "nova_perf_tuning"
_SHARE: Final = "share/nova-perf-tuning"
_UNIT: Final = "nova-perf-agent.service"
_ADMISSION: Final = "nova-perf-admission.service"
_POLICY: Final = "irqbalance-policy-nova-perf"

#: Name -> what it is for, where it is in the source tree, and where pip or a distribution puts it
#: below a prefix; None: beside the package, as in the tree.
_FILES: Final[dict[str, tuple[str, str, str | None]]] = {
    "heat": (
        "Heat templates and environments of the validation",
        f"{_OWN}/validation/heat/templates",
        None,
    ),
    "metadefs": ("metadata definitions for Glance", f"{_OWN}/nova/metadefs", None),
    "profiles": ("tuning profiles; examples for your own", f"{_OWN}/specs/profiles", None),
    "budgets": (
        "budgets of '--budget default'",
        f"{_OWN}/validation/judge/default_budgets.yaml",
        None,
    ),
    "devstack": ("the DevStack plugin", "devstack", f"{_SHARE}/devstack"),
    "image": ("how the benchmark image is built and uploaded", "tools/image", f"{_SHARE}/image"),
    "systemd": ("the agent's unit", f"etc/systemd/{_UNIT}", f"lib/systemd/system/{_UNIT}"),
    "admission": (
        "the unit that keeps hosts admitted",
        f"etc/systemd/{_ADMISSION}",
        f"{_SHARE}/admission/{_ADMISSION}",
    ),
    "irqbalance": (
        "policy script for irqbalance",
        f"etc/irqbalance/{_POLICY}",
        f"{_SHARE}/{_POLICY}",
    ),
    "dashboard": (
        "Grafana's dashboards of agents, fleet and verdicts",
        "etc/grafana",
        f"{_SHARE}/grafana",
    ),
    "alerts": ("examples of alerts for Prometheus", "etc/prometheus", f"{_SHARE}/prometheus"),
    "sample": ("configuration with every option and its help", "sample", f"{_SHARE}/sample"),
    "tmpfiles.d": ("directories of agent and driver", "etc/tmpfiles.d", f"{_SHARE}/tmpfiles.d"),  # noqa: S108
}


def locations() -> dict[str, tuple[pathlib.Path, str]]:
    """Return name -> where it is, and what it is for, of all that this installation has."""
    prefixes = [
        sysconfig.get_path("data", sysconfig.get_default_scheme()),
        sysconfig.get_path("data", sysconfig.get_preferred_scheme("user")),
        "/usr",
    ]
    from_tree = (_TOP / "setup.cfg").is_file()
    located = {}
    for name, (what, tree, installed) in _FILES.items():
        places = []
        if installed is None or from_tree:
            places.append(_TOP / tree)
        if installed is not None:
            places += [pathlib.Path(prefix, installed) for prefix in prefixes]
        for place in places:
            if place.exists():
                located[name] = place, what
                break
    return located


class Paths(command.PerfCommand):
    """Show where the files of this package are: templates, profiles, units, and the DevStack plugin.

    With NAME it prints only the path of that file, for scripts.

    Example: openstack stack create -t $(nova-perf paths heat)/host_validation.yaml -e parameters.yaml hosts
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "name",
            metavar="NAME",
            nargs="?",
            help=f"file or directory whose path alone is printed: {', '.join(_FILES)}",
        )

    def take_action(self, args: argparse.Namespace) -> None:
        known = locations()
        if args.name is not None and args.name not in known:
            raise options.OptionError(
                f"'{args.name[:40]}' does not come with this installation; there are: {', '.join(known)}"
            )
        rows = []
        for name, (path, what) in known.items():
            if args.name in (None, name):
                rows.append({"name": name, "path": str(path), "what": what})
        if args.format == "json":
            command.print_json({"paths": rows})
        elif args.name is not None:
            command.say(rows[0]["path"])
        else:
            command.print_rows(("name", "what", "path"), rows, limit=200)
