# SPDX-License-Identifier: Apache-2.0
"""Measures the hosts of a trial by ``openstack perf validate``, a process of its own for each trial.

A trial's results are in a directory of its name. A process that died with this one, or without it,
is taken up again by ``--resume``: the run has the trial's name as a tag.
"""

import contextlib
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.validation.fleet.admission.cloud import JudgedHost, TrialRun
from nova_perf_tuning.validation.judge import host_results
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.store import engine, run_store

TAG: Final = "admission"
_PROGRAM: Final = (sys.executable, "-m", "openstackclient.shell")
#: Blocks of a first attempt; later ones have as many more each.
_BLOCKS: Final = fleet_model.BLOCKS
#: Marks a directory whose process has ended, whatever it found.
_ENDED: Final = "ended"
_STOP_S: Final = 120.0


class FleetValidator:
    """Implements :class:`.cloud.TrialValidator`, in one thread."""

    def __init__(
        self, directory: pathlib.Path, cloud_words: Sequence[str], database: str | None
    ) -> None:
        """:param cloud_words: options of the openstack program that name the cloud."""
        self._directory = directory
        self._cloud_words = cloud_words
        self._database = database
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def begin(self, run: TrialRun) -> None:
        place = self._directory / run.key
        if run.key in self._running or (place / _ENDED).exists():
            return
        place.mkdir(parents=True, exist_ok=True)
        begun = self._stored(run.key)
        if begun is not None and begun.alive:
            return
        words = ["--output", str(place), "--budget", run.budget]
        if begun is not None:
            words += ["--resume", begun.run_id]
        else:
            words += ["--hosts", ",".join([*run.hosts, *run.peers])]
            words += ["--require-trait", run.trait, "--tag", f"{TAG}={run.key}"]
            words += ["--blocks", str(_BLOCKS * run.attempt), *run.words]
        self._start(run.key, place, words)

    def _start(self, key: str, place: pathlib.Path, words: Sequence[str]) -> None:
        environment = dict(os.environ)
        if self._database:  # not among the arguments, where others see a password
            environment[engine.URL_VARIABLE] = self._database
        argv = [*_PROGRAM, *self._cloud_words, "perf", "validate", *words]
        with open(place / "log", "ab") as log:
            # A terminal signals all of its session, and a second signal ends the removal of stacks.
            self._running[key] = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def runs(self, keys: Collection[str]) -> Mapping[str, Mapping[str, JudgedHost] | None]:
        found: dict[str, Mapping[str, JudgedHost] | None] = {}
        for key in keys:
            process = self._running.get(key)
            if process is not None and process.poll() is None:
                found[key] = None
                continue
            if process is not None:
                (self._directory / key / _ENDED).touch()
                del self._running[key]
            if (self._directory / key / _ENDED).exists():
                found[key] = self._judged(key)
                continue
            begun = self._stored(key)
            if begun is not None and begun.alive:  # a process of an earlier owner goes on
                found[key] = None
        return found

    def _judged(self, key: str) -> Mapping[str, JudgedHost]:
        """Return the outcome of each host; none where there are no results."""
        path = self._directory / key / "results.json"
        try:
            results = host_results.read(str(path))
            results.check_publishable(str(path))
        except errors.PerfTuningError:
            return {}
        return {
            result.host: JudgedHost(result.verdict, result.budgets) for result in results.hosts
        }

    def _stored(self, key: str) -> run_store.RunSummary | None:
        with contextlib.closing(run_store.RunStore(self._database)) as store:
            return store.tagged(TAG, key)

    def stop(self) -> None:
        """Interrupt all measurements; each removes its stacks, and can go on later."""
        for process in self._running.values():
            with contextlib.suppress(ProcessLookupError):
                process.send_signal(signal.SIGTERM)
        for process in self._running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
        self._running.clear()
