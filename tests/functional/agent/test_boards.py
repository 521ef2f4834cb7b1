# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own engine evaluates every query of the boards, and every alert, over series of real agents."""

import json
import os
import pathlib
import re
import textwrap
import time
import types

import prometheus_client
import yaml

from nova_perf_tuning.agent import metrics
from nova_perf_tuning.host.input import guest_cpu
from nova_perf_tuning.host.model import host_model
from tests.support import agent_samples, directories, patience, promtool

TOP = pathlib.Path(__file__).parents[3]
INSTANCE = "1a4c8e5b-7f0e-4c55-9f0a-0d5b7c2f3e11"
ALERTS = TOP / "etc/prometheus/nova-perf-alerts.yaml"


class BoardsTest(directories.DirectoryCase):
    def scrape(self, *collectors):
        """Return name and labels -> value of what agents of hosts h0, h1 … serve."""
        series = {}
        for number, collector in enumerate(collectors):
            registry = prometheus_client.CollectorRegistry()
            registry.register(collector)
            for line in prometheus_client.generate_latest(registry).decode().splitlines():
                labels, _, value = line.rpartition(" ")
                name, _, rest = labels.partition("{")
                series[f'{name}{{instance="h{number}:9751",job="nova-perf",{rest or "}"}'] = value
        return {labels: value for labels, value in series.items() if not labels.startswith("#")}

    def agent(self, result_file=""):
        """Return the collector of an agent that has counted something, with this process as its guest."""
        pid = os.getpid()
        thread = host_model.Thread(pid, "vcpu", None, None, guest_cpu.started(f"/proc/{pid}"))
        domain = types.SimpleNamespace(uuid=INSTANCE, dedicated=False)
        guests = [host_model.GuestProcess("instance-1", pid, (thread,), domain)]
        counts = dict.fromkeys(("passes", "written", "drifted"), {"irq_affinity": 3})
        snapshot = (
            agent_samples.agent_state(**counts),
            types.SimpleNamespace(guests=guests, nics=[]),
        )
        return metrics.MetricsCollector(types.SimpleNamespace(snapshot=snapshot), result_file)

    def promtool(self, queries, before, after):
        """Return what is wrong with queries, each of which must give something."""
        wrapped = [
            {
                "expr": f"count({query}) > bool 0",
                "eval_time": "1m",
                "exp_samples": [{"labels": "{}", "value": 1}],
            }
            for query in queries
        ]
        rows = [{"series": name, "values": f"{before[name]} {after[name]}"} for name in before]
        tests = [{"interval": "1m", "input_series": rows, "promql_expr_test": wrapped}]
        path = self.write_file("tests.json", json.dumps({"rule_files": [], "tests": tests}))
        done = patience.run(["promtool", "test", "rules", path])
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def test_every_query_gives_something(self):
        agents = self.agent(agent_samples.verdict_file(self.directory)), self.agent()
        before = self.scrape(*agents)
        begun = time.process_time()
        patience.until(lambda: time.process_time() > begun + 0.05, "some CPU is used", pause_s=0.0)
        after = self.scrape(*agents)
        queries = [query.replace("$instance", ".+") for query in agent_samples.queries()]
        self.assertGreater(len(queries), 25)
        self.assertEqual("", self.promtool(queries, before, after))
        self.assertNotEqual(
            "", self.promtool(["nova_perf_nothing"], before, after), "it would say so"
        )

    def test_prometheus_takes_the_configuration_of_the_page(self):
        """With the job's name that the alerts have, and the port that help names."""
        page = (TOP / "doc/source/reference/metrics.rst").read_text(encoding="utf-8")
        (block,) = re.findall(r"::\n\n((?:    .*\n)*    scrape_configs:\n(?:    .*\n)+)", page)
        self.write_file(ALERTS.name, ALERTS.read_text())
        path = self.write_file("prometheus.yml", textwrap.dedent(block))
        done = patience.run(["promtool", "check", "config", path])
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        self.assertIn("1 rule files found", done.stdout)
        (job,) = yaml.safe_load(textwrap.dedent(block))["scrape_configs"]
        self.assertIn(f'up{{job="{job["job_name"]}"}} == 0', ALERTS.read_text())
        self.assertIn(":9751", job["static_configs"][0]["targets"][0])

    def test_guests_join_with_an_exporter_of_libvirt(self):
        """By the queries of the page, also while an instance migrates and two hosts have it."""
        page = (TOP / "doc/source/reference/metrics.rst").read_text(encoding="utf-8")
        blocks = re.findall(r"::\n\n((?:    .*\n)+)", page)
        queries = [" ".join(block.split()) for block in blocks if "guest_info" in block]
        self.assertEqual(2, len(queries))
        labels = (
            f'domain="instance-1",instance_id="{INSTANCE}",instance_name="web",project_name="p"'
        )
        exported = {}
        for host in ("h0", "h1"):
            place = f'instance="{host}:9177",job="libvirt"'
            exported[f"libvirt_domain_openstack_info{{{place},{labels}}}"] = "1"
        series = self.scrape(self.agent(), self.agent()) | exported
        self.assertEqual("", self.promtool(queries, series, series))
        for query, names in zip(
            queries, ("domain, instance_id", "instance_name, project_name"), strict=True
        ):
            with self.subTest(names):
                counted = f"count by({names}) ({query})"
                self.assertEqual("", self.promtool([f"{counted} == 2"], series, series))

    def test_each_alert_fires_when_it_should_and_only_then(self):
        host = 'instance="h0:9751",job="nova-perf"'
        up, scraped = f"nova_perf_up{{{host}}}", f"up{{{host}}}"
        guest = f'guest="g",{host}'
        waits = f"nova_perf_guest_vcpu_wait_seconds_total{{{guest}}}"
        works = f'nova_perf_guest_host_cpu_seconds_total{{class="vcpu",{guest}}}'
        memory = f'nova_perf_host_pressure_seconds_total{{resource="memory",tasks="full",{host}}}'
        found = f'nova_perf_findings{{code="competing_writer",{host}}}'
        degraded = f'nova_perf_condition{{condition="Degraded",status="True",{host}}}'
        failed = f'nova_perf_verdict{{budget="",verdict="FAIL",{host}}}'
        passed = f'nova_perf_verdict{{budget="",verdict="PASS",{host}}}'
        of_verdict = f"nova_perf_verdict_timestamp_seconds{{{host}}}"
        well = {up: "1x3000", scraped: "1x3000"}
        cases = [
            ("NovaPerfAgentDown", "20m", {**well, up: "0x3000"}, well),
            ("NovaPerfAgentDown", "30m", {up: "1x5 _x3000", scraped: "1x5 0x3000"}, well),
            ("NovaPerfAgentDown", "30m", {up: "1x5 _x3000", scraped: "1x5 _x3000"}, well),
            ("NovaPerfNoAgent", "20m", {scraped: "0x3000"}, well),
            ("NovaPerfRival", "30m", {**well, found: "1x3000"}, {**well, found: "0x3000"}),
            (
                "NovaPerfDegraded",
                "30m",
                {**well, degraded: "1x3000"},
                {**well, degraded: "0x3000"},
            ),
            (
                "NovaPerfVcpuWait",
                "60m",
                {waits: "0+6x3000", works: "0+60x3000"},
                {waits: "0+1x3000", works: "0+60x3000"},
            ),
            ("NovaPerfMemoryPressure", "60m", {memory: "0+6x3000"}, {memory: "0x3000"}),
            ("NovaPerfVerdictFail", "10m", {failed: "1x3000"}, {passed: "1x3000"}),
            ("NovaPerfVerdictOld", "750h", {of_verdict: "0x50000"}, {of_verdict: "0+60x50000"}),
            ("NovaPerfNoVerdict", "30h", well, {**well, passed: "1x3000"}),
        ]
        shipped = {
            line.split()[-1] for line in ALERTS.read_text().splitlines() if "- alert:" in line
        }
        self.assertEqual(shipped, {name for name, *_rest in cases})
        # By the rules' own interval, and what takes days by the hour.
        for interval, days in (("5m", False), ("1h", True)):
            with self.subTest(interval):
                chosen = [case for case in cases if (case[1] in ("30h", "750h")) is days]
                self.evaluate(chosen, interval)

    def evaluate(self, cases, interval):
        """Let promtool evaluate alerts over faulty and healthy series."""
        tests = []
        for name, when, faulty, healthy in cases:
            labels = f'{{alertname="{name}",alertstate="firing"}}'
            tests.append(promtool.case(faulty, when, f"count(ALERTS{labels}) > bool 0"))
            tests.append(promtool.case(healthy, when, f"absent(ALERTS{labels})", labels))
        path = self.write_file(
            "alerts.json",
            json.dumps(
                {"rule_files": [str(ALERTS)], "evaluation_interval": interval, "tests": tests}
            ),
        )
        done = patience.run(["promtool", "test", "rules", path])
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    def test_alerts_are_accepted(self):
        done = patience.run(["promtool", "check", "rules", ALERTS])
        self.assertEqual((0, ""), (done.returncode, done.stderr))
