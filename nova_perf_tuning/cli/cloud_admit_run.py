# SPDX-License-Identifier: Apache-2.0
"""One call of ``openstack perf admit``, from the policy to the exit code."""

import argparse
import contextlib
import os
import pathlib
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Final

from openstack import connection

from nova_perf_tuning import errors, signals
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.fleet.admission import (
    fleet_validator,
    metrics,
    openstack_cloud,
    policy,
    report,
    service,
    store,
)
from nova_perf_tuning.validation.fleet.admission.model import Action, AdmissionState, Cause
from nova_perf_tuning.validation.heat import host_cpu
from nova_perf_tuning.validation.store import engine

#: Moves that begin a measurement.
_BEGIN: Final = (Action.NONE, Action.OPEN_TRIAL, Action.MEASURE_AGAIN)
#: Why a host in its trial has no move now: one comes by itself.
_WAIT: Final = frozenset({Cause.MEASURING, Cause.PAUSED})


class AdmitRun:
    """One call of the command."""

    def __init__(
        self,
        args: argparse.Namespace,
        connect: Callable[[], connection.Connection],
        cloud_words: Sequence[str],
        warn: Callable[[str], None],
    ) -> None:
        self._args = args
        self._connect = connect
        self._cloud_words = cloud_words
        self._warn = warn
        self._ended = threading.Event()

    def run(self) -> int:
        """Do what the options ask for, and return the exit code."""
        args = self._args
        with contextlib.closing(store.AdmissionStore(args.database)) as kept:
            database = engine.without_password(args.database)
            if args.stop is not None:
                kept.stop(args.stop or "stopped by a person")
                command.say(f"paused until --go: admission that uses {database}")
            elif args.go:
                kept.stop("")
                command.say(f"goes on: admission that uses {database}")
            elif args.again:
                kept.ask(args.again)
            elif args.transitions:
                report.write_transitions(kept.transitions(), sys.stdout)
            else:
                return self._admit(kept)
        return int(errors.ExitCode.PASS)

    def _admit(self, kept: store.AdmissionStore) -> int:
        args = self._args
        if not args.policy:
            raise options.OptionError("--policy FILE is missing: it says which hosts are admitted")
        chosen = policy.load(args.policy)
        if args.agent_metrics:
            host_cpu.check_url(args.agent_metrics)
        if not args.canary_flavor and not args.dry_run:
            raise options.OptionError(
                "--canary-flavor NAME is missing: a guest of this flavor shows that schedulers"
                " isolate trials"
            )
        canary = openstack_cloud.CanaryGuest(args.canary_flavor, args.canary_image)
        cloud = openstack_cloud.OpenStackCloud(
            self._connect(), chosen, canary, args.agent_metrics or ""
        )
        validator = fleet_validator.FleetValidator(_directory(), self._cloud_words, args.database)
        admission = service.AdmissionService(kept, cloud, validator, chosen)
        if args.dry_run:
            scene, decision = admission.look()
            self._print(report.rows(scene.seen, scene.records, decision))
            return int(errors.ExitCode.PASS)
        kept.take()
        try:
            if args.watch:
                return self._watch(kept, admission)
            return self._pass(admission)
        finally:
            validator.stop()
            kept.leave()

    def _pass(self, admission: service.AdmissionService) -> int:
        """Make passes until nothing is measured any more; a signal ends the wait."""
        with signals.handled(signals.SIGNALS, lambda _number, _frame: self._ended.set()):
            done = admission.run()
            while _goes_on(done) and not self._ended.wait(self._args.interval):
                done = admission.run()
        self._print(report.rows(done.seen, done.records, done.decision))
        self._warn_of(done)
        for record in done.records.values():
            if record.state == AdmissionState.QUARANTINED:
                return int(errors.ExitCode.FAIL)
        return int(errors.ExitCode.PASS)

    def _watch(self, kept: store.AdmissionStore, admission: service.AdmissionService) -> int:
        """Make passes until a signal comes; what cannot be reached is tried again."""
        figures = metrics.AdmissionMetrics()
        with contextlib.ExitStack() as opened:
            opened.enter_context(
                signals.handled(signals.SIGNALS, lambda _number, _frame: self._ended.set())
            )
            if self._args.metrics:
                opened.enter_context(metrics.served(figures, self._args.metrics))
            log = report.TransitionLog(kept, self._args.log)
            while True:
                try:
                    done = admission.run()
                    figures.set(done)
                    log.append()
                    self._warn_of(done)
                except store.OwnedError:
                    raise
                except errors.PerfTuningError as error:
                    figures.failed()
                    self._warn(one_line(error))
                if self._ended.wait(self._args.interval):
                    return int(errors.ExitCode.PASS)

    def _warn_of(self, done: service.PassReport) -> None:
        for host, fault in done.faults.items():
            where = f"host {host}: " if host else ""
            self._warn(f"{where}{one_line(fault)}")

    def _print(self, rows: Sequence[report.HostRow]) -> None:
        if self._args.format == "json":
            command.print_json([row._asdict() for row in rows])
            return
        command.print_table(report.HostRow._fields, rows)


def _goes_on(done: service.PassReport) -> bool:
    """Return whether a measurement goes on, or will begin."""
    if done.faults:
        return False
    if _WAIT.intersection(done.decision.holds.values()):
        return True
    return any(move.action in _BEGIN for move in done.decision.moves)


def columns(
    args: argparse.Namespace, connected: connection.Connection
) -> dict[str, Sequence[str]]:
    """Return host -> state, reason and next move, by ``--policy``; nothing is changed."""
    chosen = policy.load(args.policy)
    canary = openstack_cloud.CanaryGuest("", "")
    cloud = openstack_cloud.OpenStackCloud(connected, chosen, canary, args.agent_metrics or "")
    validator = fleet_validator.FleetValidator(_directory(), (), args.database)
    with contextlib.closing(store.AdmissionStore(args.database, make=False)) as kept:
        scene, decision = service.AdmissionService(kept, cloud, validator, chosen).look()
    found: dict[str, Sequence[str]] = {}
    for row in report.rows(scene.seen, scene.records, decision):
        found[row.host] = row.state, row.reason, row.next
    return found


def _directory() -> pathlib.Path:
    """Return where trials have their results."""
    base = "/var/lib"
    if os.geteuid() != 0:
        base = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return pathlib.Path(base, "nova-perf-tuning", "admission")
