# SPDX-License-Identifier: Apache-2.0
"""``openstack perf cleanup``: what runs left on the cloud."""

import argparse
import contextlib
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from nova_perf_tuning import errors
from nova_perf_tuning.cli import cloud_command, options
from nova_perf_tuning.validation.measure import fleet_model

if TYPE_CHECKING:
    from nova_perf_tuning.validation.heat import heat_pair
    from nova_perf_tuning.validation.store import run_store


class Cleanup(cloud_command.CloudLister):
    """Remove what dead or interrupted runs left in the cloud.

    Without RUN it removes everything that may be left of runs whose process has ended. It never
    touches runs that are still active, or that began in another project or region. It names
    anything that it cannot remove, and then exits with 3. A second call finds nothing.
    """

    nothing = "no stacks of such runs are left"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "run",
            metavar="RUN",
            nargs="*",
            help="ids of runs (default: all runs that may have left something)",
        )
        parser.add_argument("--list", action="store_true", help="list the runs and remove nothing")
        options.add(
            parser, "--database", "URL", "database of runs, as for 'openstack perf validate'"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_command.Rows:
        # Every start of the openstack program imports this module, with the extra's packages and
        # without them.
        from nova_perf_tuning.validation.store import run_store

        with contextlib.closing(run_store.RunStore(parsed_args.database, make=False)) as store:
            if parsed_args.list:
                self.nothing = "there are no runs"
                return _listed(store)
            return ("Run", "Removed"), self._removed(store, parsed_args.run)

    def _removed(
        self, store: "run_store.RunStore", named: list[str]
    ) -> list[tuple[str, cloud_command.Cell]]:
        """Remove what can be removed; name the rest, which sets the exit code."""
        from nova_perf_tuning.validation.heat import heat_pair
        from nova_perf_tuning.validation.store import run_store

        cloud = heat_pair.HeatCloud("", lambda: self.connection)
        launcher = cloud.launcher(fleet_model.GuestSettings())
        lines = {line.run_id: line for line in store.lines()}
        runs = named
        if not named and lines:
            runs = _dead(lines.values(), launcher.left())
        if not runs:
            return []
        here = cloud.identity()
        removed = []
        for run_id in dict.fromkeys(runs):
            if run_id in lines and lines[run_id].cloud != here:
                began = lines[run_id].cloud
                self.warn(
                    f"run {run_id} was on another cloud or project and is left alone: {began}"
                )
                if named:
                    self.exit_code = errors.ExitCode.ERROR
                continue
            try:
                removed.append((run_id, _cleaned(store, launcher, run_id)))
            except (errors.CloudError, run_store.RunError) as error:
                self.warn(str(error))
                self.exit_code = errors.ExitCode.ERROR
        return removed


def _cleaned(
    store: "run_store.RunStore", launcher: "heat_pair.HeatPairLauncher", run_id: str
) -> cloud_command.Cell:
    """Take a run over that has no live process, and remove what it left; return what was removed."""
    store.disown(run_id)
    launcher.own(store.lease(run_id))
    try:
        removed = launcher.cleanup(run_id)
    except BaseException:
        store.end(run_id, leftovers=True)
        raise
    store.end(run_id)
    return cloud_command.lines(removed)


def _dead(lines: Iterable["run_store.RunSummary"], stacks: Collection[str]) -> list[str]:
    """Return the runs that nobody runs and that may have left something, as far as the run or the cloud knows.

    A run that has ended has a stack where one who had lost the run before made it, and Heat got
    that late.
    """
    found = []
    for line in lines:
        stays = any(name.startswith(f"{fleet_model.NAME_PREFIX}{line.run_id}-") for name in stacks)
        if not line.alive and (line.leftovers or line.state == "running" or stays):
            found.append(line.run_id)
    return found


def _listed(store: "run_store.RunStore") -> cloud_command.Rows:
    rows = []
    for line in store.lines():
        state, left = line.state, "none"
        if line.alive:
            state = "running"
        elif line.state == "running":
            state = "died"
        if line.leftovers or line.state == "running":
            left = "maybe"
        begun = line.created_at.isoformat(" ", "seconds")
        rows.append(
            (line.run_id, state, begun, line.hosts, line.pairs, line.done, left, line.cloud)
        )
    return ("Run", "State", "Begun", "Hosts", "Pairs", "Measured", "Leftovers", "Cloud"), rows
