# SPDX-License-Identifier: Apache-2.0
"""Figures of admission for Prometheus, on this machine's loopback."""

import collections
import contextlib
import datetime
from collections.abc import Iterator, Sequence

import prometheus_client

from nova_perf_tuning import errors
from nova_perf_tuning.validation.fleet.admission.model import AdmissionState, Cause
from nova_perf_tuning.validation.fleet.admission.service import PassReport

#: Holds of hosts that wait for their turn.
_QUEUED = frozenset({Cause.NO_ROOM, Cause.QUEUED, Cause.OUTSIDE_WINDOW, Cause.NO_FINGERPRINT})


class AdmissionMetrics:
    """What the last pass has seen and done."""

    def __init__(self) -> None:
        self.registry = prometheus_client.CollectorRegistry()
        self._hosts = self._gauge("hosts", "Hosts by state", "group", "state")
        self._queue = self._gauge("queue", "Hosts that wait for a trial, by cause", "cause")
        self._oldest = self._gauge("queue_oldest_timestamp_seconds", "Since when the first waits")
        self._verdict = self._gauge(
            "oldest_verdict_timestamp_seconds", "Time of the oldest verdict of an admitted host"
        )
        self._trial = self._gauge("out_of_service", "Hosts that had guests and get none", "group")
        self._unproven = self._gauge(
            "open_without_verdict", "Hosts open to tenants although their verdict no longer counts"
        )
        self._faults = self._gauge("faults", "Moves of the last pass that failed")
        self._up = self._gauge("up", "1 if the last pass succeeded")
        self._moves = prometheus_client.Counter(
            "nova_perf_admission_transitions",
            "Transitions made by this process",
            ("state", "cause"),
            registry=self.registry,
        )

    def _gauge(self, name: str, text: str, *labels: str) -> prometheus_client.Gauge:
        return prometheus_client.Gauge(
            f"nova_perf_admission_{name}", text, labels, registry=self.registry
        )

    def failed(self) -> None:
        """Say that the last pass could not be made."""
        self._up.set(0)

    def set(self, done: PassReport) -> None:
        """Take over what a pass has seen and done."""
        self._up.set(1)
        self._faults.set(len(done.faults))
        self._set_hosts(done)
        self._set_queue(done)
        self._unproven.set(len(done.decision.unproven & done.decision.holds.keys()))
        followed = [move.before for move in done.decision.moves]
        for move in done.decision.moves:
            record = move.after
            is_made = record == done.records.get(record.host) or record in followed
            if is_made and move.before is not record:
                self._moves.labels(record.state, record.cause).inc()

    def _set_hosts(self, done: PassReport) -> None:
        states: collections.Counter[tuple[str, str]] = collections.Counter()
        out: collections.Counter[str] = collections.Counter()
        ages = []
        for name, host in done.seen.items():
            record = done.records.get(name)
            if record is None or not host.group:
                continue
            states[host.group, record.state] += 1
            in_trial = record.state == AdmissionState.VALIDATING
            if record.served and (in_trial or not host.serves):
                out[host.group] += 1
            if record.verdict is not None and record.state == AdmissionState.ADMITTED:
                ages.append(record.verdict.at)
        groups = {host.group for host in done.seen.values() if host.group}
        for group in groups:
            self._trial.labels(group).set(out[group])
            for state in AdmissionState:
                self._hosts.labels(group, state.value).set(states[group, state.value])
        self._verdict.set(_seconds(ages))

    def _set_queue(self, done: PassReport) -> None:
        counts: collections.Counter[Cause] = collections.Counter()
        since = []
        for name, cause in done.decision.holds.items():
            record = done.records.get(name)
            if cause not in _QUEUED or record is None:
                continue
            counts[cause] += 1
            since.append(record.since)
        for cause in _QUEUED:
            self._queue.labels(cause.value).set(counts[cause])
        self._oldest.set(_seconds(since))


def _seconds(moments: Sequence[datetime.datetime]) -> float:
    """Return the first of moments (UTC without a zone) since the epoch; 0: there is none."""
    if not moments:
        return 0.0
    return min(moments).replace(tzinfo=datetime.UTC).timestamp()


@contextlib.contextmanager
def served(figures: AdmissionMetrics, port: int) -> Iterator[None]:
    """Answer Prometheus on the loopback while the block runs.

    :raises PerfTuningError: the port is taken.
    """
    try:
        server, thread = prometheus_client.start_http_server(
            port, "127.0.0.1", registry=figures.registry
        )
    except OSError as error:
        raise errors.PerfTuningError(f"--metrics {port}: {error.strerror}") from None
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
