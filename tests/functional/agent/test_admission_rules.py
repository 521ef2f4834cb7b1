# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own engine evaluates every query of the board on admission, and every alert; systemd reads the unit."""

import datetime
import json
import pathlib
import sys

import prometheus_client

from nova_perf_tuning.validation.fleet.admission import metrics, model, service
from tests.support import agent_samples, directories, patience, promtool

TOP = pathlib.Path(__file__).parents[3]
ALERTS = TOP / "etc/prometheus/nova-perf-admission-alerts.yaml"
UNIT = TOP / "etc/systemd/nova-perf-admission.service"
PREFIX = "nova_perf_admission_"
QUARANTINED = f'{PREFIX}hosts{{group="all",state="quarantined"}}'
WELL = {f"{PREFIX}up": "1x3000"}


class AdmissionRulesTest(directories.DirectoryCase):
    def test_every_query_of_the_board_gives_something(self):
        series = self.series()
        tests = []
        for query in agent_samples.queries(admission=True):
            tests.append(promtool.case(series, "2h", f"count({query}) > bool 0"))
        self.promtool({"tests": tests, "evaluation_interval": "1m"})
        nothing = promtool.case(series, "2h", f"count({PREFIX}nothing) > bool 0")
        done = self.run_promtool({"tests": [nothing], "evaluation_interval": "1m"})
        self.assertNotEqual(0, done.returncode, "it would say so")

    def series(self):
        """Return what a service serves that has admitted a host and has one in its queue."""
        now = datetime.datetime.now(datetime.UTC).replace(tzinfo=None)
        verdict = model.TrialVerdict("PASS", "A", now)
        admitted = model.HostRecord("a", "admitted", now, "passed", served=True, verdict=verdict)
        records = {"a": admitted, "b": model.HostRecord("b", "expired", now, "no_verdict")}
        seen = {name: model.SeenHost(name, "all") for name in records}
        moves = [model.AdmissionMove(None, admitted, model.Action.NONE)]
        decision = model.AdmissionDecision(moves, {"b": model.Cause.NO_ROOM})
        figures = metrics.AdmissionMetrics()
        figures.set(service.PassReport(seen, records, decision, {}))
        found = {}
        for line in prometheus_client.generate_latest(figures.registry).decode().splitlines():
            name, _, value = line.rpartition(" ")
            if not name.startswith("#"):
                found[name] = f"{value}+1x3000"
        return found

    def test_every_alert_fires_when_it_should_and_not_when_it_should_not(self):
        day = 24 * 60
        rises = {**WELL, QUARANTINED: f"1x{day} 2x3000"}
        waits = f"{PREFIX}queue_oldest_timestamp_seconds"
        cases = [
            ("NovaPerfAdmissionDown", "30m", {f"{PREFIX}up": "0x3000"}, WELL),
            ("NovaPerfAdmissionDown", "30m", {f"{PREFIX}faults": "0x3000"}, WELL),
            ("NovaPerfQuarantineRises", "25h", rises, {**WELL, QUARANTINED: "2x3000"}),
            ("NovaPerfQueueOld", "25h", {**WELL, waits: "1x3000"}, {**WELL, waits: "0x3000"}),
            (
                "NovaPerfAdmissionFaults",
                "2h",
                {**WELL, f"{PREFIX}faults": "2x3000"},
                {**WELL, f"{PREFIX}faults": "0x3000"},
            ),
            (
                "NovaPerfOpenWithoutVerdict",
                "30m",
                {**WELL, f"{PREFIX}open_without_verdict": "1x3000"},
                {**WELL, f"{PREFIX}open_without_verdict": "0x3000"},
            ),
        ]
        shipped = {
            line.split()[-1] for line in ALERTS.read_text().splitlines() if "- alert:" in line
        }
        self.assertEqual(shipped, {name for name, *_rest in cases})
        tests = []
        for name, when, faulty, healthy in cases:
            labels = f'{{alertname="{name}",alertstate="firing"}}'
            tests.append(promtool.case(faulty, when, f"count(ALERTS{labels}) > bool 0"))
            tests.append(promtool.case(healthy, when, f"absent(ALERTS{labels})", labels))
        self.promtool({"rule_files": [str(ALERTS)], "evaluation_interval": "5m", "tests": tests})

    def run_promtool(self, document):
        path = self.write_file("rules.json", json.dumps(document))
        return patience.run(["promtool", "test", "rules", path])

    def promtool(self, document):
        done = self.run_promtool(document)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_alerts_are_accepted(self):
        done = patience.run(["promtool", "check", "rules", ALERTS])
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_systemd_accepts_the_unit(self):
        """It passes over what it does not know, with exit code 0: only what it prints tells."""
        text = UNIT.read_text().replace("/usr/bin/openstack", sys.executable)
        self.assertIn("\nKillMode=mixed\n", text, "measurements get one signal, the service's")
        unit = pathlib.Path(self.directory, UNIT.name)
        for content, shown in (
            (text, ""),
            (text.replace("ProtectHome=", "ProtectHom="), "ProtectHom"),
        ):
            with self.subTest(shown):
                unit.write_text(content)
                done = patience.run(["systemd-analyze", "verify", "--man=no", unit])
                self.assertIn(shown, done.stderr)
                found = done.returncode, bool(done.stdout + done.stderr)
                self.assertEqual((0, bool(shown)), found, done.stderr)
