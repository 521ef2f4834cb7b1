"""``nova-perf paths``: where the files that come with this package are, however it was installed."""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final, NamedTuple

import nova_perf_tuning
from nova_perf_tuning import errors
from nova_perf_tuning.cli import command, option_types

_PACKAGE: Final = pathlib.Path(nova_perf_tuning.__file__).parent
_SHARE: Final = "share/nova-perf-tuning"


class Kind(NamedTuple):
    """Files that belong together.

    :ivar name: what people call them; :ivar what: what they are for.
    :ivar place: where in the package they are, or beside it below the prefix (sys.prefix, /usr).
    :ivar tree: where in a source tree they are, which is where an editable installation finds them; empty for
        those in the package.
    """

    name: str
    what: str
    place: str
    tree: str = ""


KINDS: Final = (
    Kind("heat", "Heat templates and environments of the validation", "cloud/heat"),
    Kind("metadefs", "metadata definitions for Glance", "metadefs"),
    Kind("profiles", "tuning profiles; examples for your own", "specs/profiles"),
    Kind("budgets", "the overhead budgets of '--budget default'", "budget/default_budgets.yaml"),
    Kind("smoke", "smoke tests of a cloud, a test path for stestr", "../nova_perf_tuning_smoke"),
    Kind("devstack", "the DevStack plugin", f"{_SHARE}/devstack", "devstack"),
    Kind("image", "how the benchmark image is built and uploaded", f"{_SHARE}/image", "tools/image"),
    Kind(
        "systemd",
        "the agent's unit",
        "lib/systemd/system/nova-perf-agent.service",
        "etc/systemd/nova-perf-agent.service",
    ),
    Kind(
        "irqbalance",
        "policy script for irqbalance",
        f"{_SHARE}/irqbalance-policy-nova-perf",
        "etc/irqbalance/irqbalance-policy-nova-perf",
    ),
    Kind("dashboard", "Grafana's dashboard of agents' metrics", f"{_SHARE}/grafana", "etc/grafana"),
    Kind("sample", "configuration with every option and its help", f"{_SHARE}/sample", "sample"),
    Kind("tmpfiles.d", "folders of agent and driver", f"{_SHARE}/tmpfiles.d", "etc/tmpfiles.d"),  # noqa: S108
)


def found() -> dict[str, pathlib.Path]:
    """Return name -> where it is, of all that this installation has."""
    places = ((kind.name, next((place for place in _places(kind) if place.exists()), None)) for kind in KINDS)
    return {name: place.resolve() for name, place in places if place is not None}


def _places(kind: Kind) -> Iterator[pathlib.Path]:
    """Yield where files may be: in the package or its source tree, or as pip or a distribution put them."""
    if not kind.tree:
        yield _PACKAGE / kind.place
        return
    top = _PACKAGE.parent
    if (top / "setup.cfg").is_file() and (top / "devstack").is_dir():
        yield top / kind.tree
    for file in metadata.files("nova-perf-tuning") or ():
        # Of a wheel: ../../../share/nova-perf-tuning/NAME/...
        if f"/{kind.place}/" in f"/{file.as_posix()}/":
            where = os.path.normpath(os.fspath(file.locate()))
            yield pathlib.Path(where[: where.rindex(kind.place) + len(kind.place)])
            break
    yield pathlib.Path(sys.prefix) / kind.place
    yield pathlib.Path("/usr") / kind.place


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
        rows = [(kind.name, str(places[kind.name]), kind.what) for kind in KINDS if kind.name in places]
        if args.format == "json":
            command.print_json({"paths": [dict(zip(("name", "path", "what"), row, strict=True)) for row in rows]})
        elif args.name is not None:
            print(rows[0][1])
        else:
            command.print_table(("name", "path", "what"), rows, limit=200)
        return int(errors.ExitCode.PASS)
