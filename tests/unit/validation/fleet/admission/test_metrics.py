# SPDX-License-Identifier: Apache-2.0
"""Figures of admission, and what board and alerts ask for."""

import datetime
import pathlib
import re

import prometheus_client
import yaml

from nova_perf_tuning.validation.fleet.admission import metrics, model, service
from tests.support import agent_samples, testcase

TOP = pathlib.Path(__file__).parents[5]
NOW = datetime.datetime(2026, 11, 30, 12)


class MetricsTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        verdict = model.TrialVerdict("PASS", "A", NOW)
        records = {
            "a": model.HostRecord("a", "admitted", NOW, "passed", served=True, verdict=verdict),
            "b": model.HostRecord("b", "expired", NOW, "no_verdict", served=True),
            "c": model.HostRecord("c", "quarantined", NOW, "failed", served=True),
        }
        seen = {name: model.SeenHost(name, "all", enabled=name != "c") for name in records}
        moves = [model.AdmissionMove(None, records["c"], model.Action.NONE)]
        unproven = frozenset({"a", "b"})
        decision = model.AdmissionDecision(moves, {"b": model.Cause.NO_ROOM}, unproven)
        self.figures = metrics.AdmissionMetrics()
        self.figures.set(service.PassReport(seen, records, decision, {"b": "a fault"}))

    def value(self, name, **labels):
        return self.figures.registry.get_sample_value(f"nova_perf_admission_{name}", labels)

    def test_figures(self):
        at = NOW.replace(tzinfo=datetime.UTC).timestamp()
        self.assertEqual(1, self.value("hosts", group="all", state="admitted"))
        self.assertEqual(0, self.value("hosts", group="all", state="new"))
        self.assertEqual(1, self.value("queue", cause="no_capacity_to_spare"))
        self.assertEqual(at, self.value("queue_oldest_timestamp_seconds"))
        self.assertEqual(at, self.value("oldest_verdict_timestamp_seconds"))
        self.assertEqual(1, self.value("open_without_verdict"))
        self.assertEqual(1, self.value("out_of_service", group="all"))
        self.assertEqual(1, self.value("transitions_total", state="quarantined", cause="failed"))
        self.assertEqual((1, 1), (self.value("up"), self.value("faults")))
        self.figures.failed()
        self.assertEqual(0, self.value("up"))

    def test_board_and_alerts_ask_for_what_there_is(self):
        page = prometheus_client.generate_latest(self.figures.registry).decode()
        known = set(re.findall(r"^(nova_perf_admission_[a-z_]+)", page, re.MULTILINE))
        known.discard("nova_perf_admission_transitions_created")
        asked = re.findall(r"nova_perf_\w+", " ".join(agent_samples.queries(admission=True)))
        self.assertEqual(known, set(asked))
        path = TOP / "etc/prometheus/nova-perf-admission-alerts.yaml"
        rules = yaml.safe_load(path.read_text())["groups"][0]["rules"]
        asked = re.findall(r"nova_perf_\w+", " ".join(rule["expr"] for rule in rules))
        self.assertEqual(set(), set(asked) - known)
