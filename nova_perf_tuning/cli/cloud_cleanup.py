"""``openstack perf cleanup``: what runs left on the cloud."""

from __future__ import annotations

import argparse
import contextlib

from nova_perf_tuning import errors
from nova_perf_tuning.cli import cloud_command, cloud_flavor
from nova_perf_tuning.cloud import api, heat_pair, model, place, run_store
from nova_perf_tuning.database import engine


class Cleanup(cloud_command.CloudLister):
    """Remove what runs that have died or were interrupted left on the cloud.

    Without RUN: everything that the database says may be left by runs that nobody runs any more. Runs of a live
    process are never touched, nor are runs that began in another project or region than this one. What
    cannot be removed is told, and the rest goes on; then the exit code is 3. --all-stacks also removes stacks of
    runs that this database does not know, such as those of another machine: make sure that nobody is measuring. A
    second call finds nothing.
    """

    nothing = "no stacks of such runs are left"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "run", metavar="RUN", nargs="*", help="ids of runs (default: all that may have left something)"
        )
        parser.add_argument("--list", action="store_true", help="only list runs; nothing is removed")
        parser.add_argument(
            "--all-stacks", action="store_true", help="also stacks of this project that belong to no known run"
        )
        parser.add_argument(
            "--database", metavar="URL", help="where runs are kept, as for 'openstack perf validate'"
        )

    def take_action(self, parsed_args: argparse.Namespace) -> cloud_flavor.Rows:
        with contextlib.closing(self._store(parsed_args.database)) as store:
            if parsed_args.list:
                self.nothing = "there are no runs"
                return _listed(store)
            return ("Run", "Removed"), self._removed(store, parsed_args)

    def _store(self, url: str | None) -> run_store.RunStore:
        """Open the database of runs; where none has been made yet there are no runs.

        :raises nova_perf_tuning.database.engine.MissingError: the user names one that is not there.
        """
        try:
            return run_store.RunStore(url, make=False)
        except engine.MissingError as error:
            if url:
                raise
            self._tell(str(error))
            return run_store.RunStore("sqlite://")

    def _removed(
        self, store: run_store.RunStore, args: argparse.Namespace
    ) -> list[tuple[str, cloud_flavor.Lines]]:
        """Remove what can be; what cannot is told, and is the exit code."""
        launcher = heat_pair.HeatPairLauncher(heat_pair.Settings(), lambda: self.connection)
        lines = {line.run_id: line for line in store.lines()}
        alive = [line.run_id for line in lines.values() if line.alive]
        if args.all_stacks and alive:
            raise run_store.RunError(f"--all-stacks: run {alive[0]} is going on; stop it first")
        dead = [
            one.run_id for one in lines.values() if not one.alive and (one.leftovers or one.state == "running")
        ]
        runs = list(dict.fromkeys(args.run or dead))
        here = place.of(api.Api(lambda: self.connection)) if runs else ""
        removed = []
        for run_id in runs:
            cloud = lines[run_id].cloud if run_id in lines else ""
            if run_id in lines and cloud != here:
                self._tell(f"run {run_id} was on another cloud or project and is left alone: {cloud}", args.run)
                continue
            try:
                store.disown(run_id)
                try:
                    removed.append((run_id, cloud_flavor.Lines(launcher.cleanup(run_id))))
                except BaseException:
                    store.release(run_id)
                    raise
            except (model.CloudError, run_store.RunError) as error:
                self._tell(str(error), failed=True)
                continue
            store.clean(run_id)
        if args.all_stacks:
            try:
                if names := launcher.cleanup():
                    removed.append(("", cloud_flavor.Lines(names)))
            except model.CloudError as error:
                self._tell(str(error), failed=True)
        return removed

    def _tell(self, text: str, failed: object = False) -> None:
        self.warn(text)
        if failed:
            self.exit_code = errors.ExitCode.ERROR


def _listed(store: run_store.RunStore) -> cloud_flavor.Rows:
    return ("Run", "State", "Begun", "Hosts", "Pairs", "Measured", "Leftovers", "Cloud"), [
        (
            line.run_id,
            "running" if line.alive else "died" if line.state == "running" else line.state,
            line.created_at.isoformat(" ", "seconds"),
            line.hosts,
            line.pairs,
            line.done,
            "maybe" if line.leftovers or line.state == "running" else "none",
            line.cloud,
        )
        for line in store.lines()
    ]
