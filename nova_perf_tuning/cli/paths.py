"""``nova-perf paths``: where the files that come with this package are, however it was installed."""

from __future__ import annotations

import argparse
import dataclasses
import os
import pathlib
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import Final

import nova_perf_tuning
from nova_perf_tuning import errors
from nova_perf_tuning.cli import command, state

_PACKAGE: Final = pathlib.Path(nova_perf_tuning.__file__).parent
_SHARE: Final = "share/nova-perf-tuning"
_UNIT: Final = "etc/systemd/nova-perf-agent.service"
_POLICY: Final = "irqbalance-policy-nova-perf"
_POLICY_TREE: Final = f"etc/irqbalance/{_POLICY}"


class NoSuchPathError(errors.PerfTuningError):
    """No files of that name come with this installation."""


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """Files that belong together.

    :ivar name: what people call them.
    :ivar what: what they are for.
    :ivar inside: where in the package they are; empty when they are installed beside it.
    :ivar beside: where they are below the prefix (sys.prefix, /usr), then.
    :ivar tree: where in a source tree they are, which is where an editable installation finds them.
    """

    name: str
    what: str
    inside: str = ""
    beside: str = ""
    tree: str = ""

    def find(self) -> pathlib.Path | None:
        """Return the folder or file, or None where it is not installed."""
        if self.inside:
            places: Iterator[pathlib.Path] = iter([_PACKAGE / self.inside])
        else:
            places = _beside(self.beside, self.tree)
        return next((place for place in places if place.exists()), None)


KINDS: Final = (
    Kind("heat", "Heat templates and environments of the validation", inside="cloud/heat"),
    Kind("metadefs", "metadata definitions for Glance", inside="metadefs"),
    Kind("profiles", "tuning profiles; examples for your own", inside="specs/profiles"),
    Kind("budgets", "the overhead budgets of '--budget default'", inside="budget/default_budgets.yaml"),
    Kind("smoke", "smoke tests of a cloud, a test path for stestr", inside="../nova_perf_tuning_smoke"),
    Kind("devstack", "the DevStack plugin", beside=f"{_SHARE}/devstack", tree="devstack"),
    Kind("image", "how the benchmark image is built and uploaded", beside=f"{_SHARE}/image", tree="tools/image"),
    Kind("systemd", "the agent's unit", beside="lib/systemd/system/nova-perf-agent.service", tree=_UNIT),
    Kind(
        "irqbalance",
        "policy script for irqbalance",
        beside=f"{_SHARE}/{_POLICY}",
        tree=f"etc/irqbalance/{_POLICY}",
    ),
    Kind("dashboard", "Grafana's dashboard of agents' metrics", beside=f"{_SHARE}/grafana", tree="etc/grafana"),
    Kind("sample", "configuration with every option and its help", beside=f"{_SHARE}/sample", tree="sample"),
    Kind("tmpfiles.d", "folders of agent and driver", beside=f"{_SHARE}/tmpfiles.d", tree="etc/tmpfiles.d"),  # noqa: S108
)


def found() -> dict[str, pathlib.Path]:
    """Return name -> where it is, of all that this installation has."""
    places = ((kind.name, kind.find()) for kind in KINDS)
    return {name: place.resolve() for name, place in places if place is not None}


def _beside(below: str, tree: str) -> Iterator[pathlib.Path]:
    """Yield where files outside of the package may be: its source tree, then as pip or a distribution put them."""
    top = _PACKAGE.parent
    if (top / "setup.cfg").is_file() and (top / "devstack").is_dir():
        yield top / tree
    try:
        files = metadata.files("nova-perf-tuning") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        # Of a wheel: ../../../share/nova-perf-tuning/NAME/...
        if f"/{below}/" in f"/{file.as_posix()}/":
            where = os.path.normpath(os.fspath(file.locate()))
            yield pathlib.Path(where[: where.rindex(below) + len(below)])
            break
    yield pathlib.Path(sys.prefix) / below
    yield pathlib.Path("/usr") / below


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
                raise NoSuchPathError(f"'{args.name[:40]}' does not come with this installation; {_known(places)}")
            places = {args.name: places[args.name]}
        rows = [
            {"name": kind.name, "path": str(places[kind.name]), "what": kind.what}
            for kind in KINDS
            if kind.name in places
        ]
        if args.format == "json":
            command.print_json({"paths": rows})
        elif args.name is not None:
            print(rows[0]["path"])
        else:
            state.print_table(("name", "path", "what"), [tuple(row.values()) for row in rows], limit=200)
        return int(errors.ExitCode.PASS)


def _known(places: dict[str, pathlib.Path]) -> str:
    return f"there are: {', '.join(places)}"
