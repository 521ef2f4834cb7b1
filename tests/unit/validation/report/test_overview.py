# SPDX-License-Identifier: Apache-2.0
"""A fleet at a glance, and the audits of many hosts: what a person sees first, also of a thousand hosts."""

import contextlib
import dataclasses
import io
import json

from nova_perf_tuning.cli import audit, result_tables
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.validation.report import overview, report, summary
from tests.support import audit_cases, audit_hosts, directories, program, samples, testcase

LIMIT = 5 << 20


def fleet(ratios, verdicts=(), benchmark="iperf3", better="higher", blocks=0):
    """Return results of a fleet; :param ratios: (client, server) -> share of the median host; None: failed."""
    names = sorted({host for pair in ratios for host in pair})
    hosts = [
        {
            "host": name,
            "verdict": dict(verdicts).get(name, "PASS"),
            "reasons": [],
            "peers": 1,
            "measured": 1,
        }
        for name in names
    ]
    pairs = samples.pairs(len(ratios))
    trials = []
    for row, ((client, server), ratio) in zip(pairs, ratios.items(), strict=True):
        figure = {
            "benchmark": benchmark,
            "arm": "tuned",
            "unit": "x",
            "median": 1.0,
            "host": client,
        }
        row |= {"client": client, "server": server, "state": "failed" if ratio is None else "done"}
        row["figures"] = [] if ratio is None else [{**figure, "against_median": ratio}]
        places = (
            {"boot": row["number"], "block": block, "order": len(trials)}
            for block in range(blocks or 1)
        )
        trial = samples.trial(benchmark=benchmark, arm="tuned", better=better)
        beside = dataclasses.replace(
            trial, better="higher" if better == "lower" else "lower", primary=False
        )
        trials += [
            dataclasses.replace(row, **place) for place in places for row in (trial, beside)
        ]
    run = {"run": "r", "verdict": "FAIL", "max_loss": 0.15, "hosts": hosts, "pairs": pairs}
    return samples.of(trials, benchmarks={benchmark: {"kind": benchmark}}, fleet=run)


class FleetTest(testcase.TestCase):
    def losses(self, *arguments, **options):
        seen = overview.overview(fleet(*arguments, **options))
        return {
            host.host: None if loss is None else round(loss, 3) for host, loss in seen.hosts
        }, seen.pairs

    def test_a_host_is_as_good_as_its_best_pair(self):
        ring = {("a", "b"): 0.7, ("b", "c"): 1.02, ("c", "a"): 0.75, ("d", "c"): None}
        hosts, pairs = self.losses(ring)
        self.assertEqual({"a": 0.25, "b": -0.02, "c": -0.02, "d": None}, hosts)
        self.assertEqual(["a", "b", "c", "d"], list(hosts), "the worst first, the unknown last")
        self.assertEqual([0.3, -0.02, 0.25, None], [loss and round(loss, 3) for *_, loss in pairs])
        self.assertEqual([(0, 1), (1, 2), (2, 0), (3, 2)], [place[:2] for place in pairs])

    def test_each_host_has_its_figure_the_largest_loss_first(self):
        ring = {("a", "b"): 0.7, ("b", "c"): 1.02, ("c", "a"): 0.75, ("d", "c"): None}
        rows = overview.host_figures(fleet(ring))
        self.assertEqual(["a", "b", "c"], [row.host for row in rows])
        self.assertEqual([0.75, 1.02, 1.02], [row.against_median for row in rows])
        self.assertEqual([2, 2, 2], [row.pairs for row in rows])
        latency = overview.host_figures(fleet({("a", "b"): 2.0}, better="lower"))
        self.assertEqual([0.5, 0.5], [row.loss for row in latency])

    def test_no_median_over_good_and_bad_hosts_and_no_note_against_the_verdict(self):
        results = fleet({("good", "sick"): 0.5, ("fine", "good"): 1.0}, blocks=3)
        summaries = summary.summarise(results)
        page = report.render(results, summaries, [])
        self.assertNotIn("No pair of trials", page)
        self.assertNotIn(">median<", page)
        self.assertIn("<h2>What each host measured</h2>", page)
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            result_tables.print_fleet(results, summaries)
        text = shown.getvalue()
        self.assertNotIn("No pair of trials", text)
        self.assertIn("sick  iperf3     tuned  1.00 x     50%", text)

    def test_hosts_that_fail_are_listed_first(self):
        ring = {("a", "b"): 1.0, ("c", "d"): 1.0}
        verdicts = (("b", "INCONCLUSIVE"), ("c", None), ("d", "FAIL"))
        hosts = fleet(ring, verdicts).environment.fleet.hosts
        with contextlib.redirect_stdout(io.StringIO()) as shown:
            result_tables.print_hosts(hosts)
        lines = shown.getvalue().splitlines()[1:]
        self.assertEqual(["d", "b", "c", "a"], [line.split()[1] for line in lines])

    def test_less_is_better_and_benchmarks_without_a_peer(self):
        self.assertEqual({"a": 0.2, "b": 0.2}, self.losses({("a", "b"): 1.25}, better="lower")[0])
        alone = {("a", "b"): 0.5, ("b", "a"): 1.0}
        self.assertEqual({"a": 0.5, "b": 0.0}, self.losses(alone, benchmark="cpu")[0])

    def test_a_thousand_hosts_are_a_small_page(self):
        names = [f"compute-{number:04d}.example.net" for number in range(1000)]
        ring = {
            (name, names[(n + step) % 1000]): 1 - n % 7 / 99
            for step in (1, 9)
            for n, name in enumerate(names)
        }
        ring[names[9], names[18]] = 5e-324  # less than any host can measure
        data = fleet(ring, [(names[7], "FAIL")], better="lower", blocks=3)
        page = report.render(data, summary.summarise(data), [], recorded=True)
        self.assertLess(len(page.encode()), LIMIT)
        self.assertEqual(2000, page.count(" with compute-"))
        self.assertIn("one of 12 dots", page)
        verdicts = page[page.index("Verdict on each host") :]
        self.assertIn(names[7], verdicts[: verdicts.index("PASS")], "what fails comes first")


class AuditsTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        changes = [
            {},
            audit_cases.CASES["ksm-with-pinned-guests"].changes,
            audit_cases.CASES["nova-vcpu-pin-set"].changes,
        ]
        self.documents = []
        for change in changes:
            found = runner.run(audit_hosts.view(audit_hosts.changed(audit_hosts.good(), change)))
            self.documents.append({**audit.as_json(found), "nova_config": []})

    def write(self, name, document):
        return self.write_file(f"{name}.json", json.dumps(document))

    def test_before_and_after_of_hosts_are_told_apart(self):
        files = []
        for week, kinds in (("monday", (1, 2)), ("friday", (0, 0))):
            hosts = [
                {"host": f"compute{number}", "sysroot": "/", "report": self.documents[kind]}
                for number, kind in enumerate(kinds)
            ]
            files.append(self.write(week, {"hosts": hosts}))
        out = str(self.directory / "week.html")
        program.shown(self, "report", "--audits", *files, "-o", out)
        page = (self.directory / "week.html").read_text()
        self.assertIn("<title>Audit of 4 hosts</title>", page)
        for name in ("compute0 (monday)", "compute1 (monday)", "compute0 (friday)"):
            self.assertIn(name, page)

    def test_hosts_of_the_same_outcome_are_one_row_the_worst_first(self):
        kinds = (0, 1, 0, 2, 0, 0, 0)
        files = [
            self.write(f"h{number}", self.documents[kind]) for number, kind in enumerate(kinds)
        ]
        out = str(self.directory / "all.html")
        self.assertEqual(f"{out}\n", program.shown(self, "report", "--audits", *files, "-o", out))
        page = (self.directory / "all.html").read_text()
        rows = page.partition('class="audits"')[2].partition("</table>")[0].split("<tr>")[2:]
        self.assertEqual(
            ["1", "1", "5"], [row.partition('"n">')[2].partition("<")[0] for row in rows]
        )
        self.assertTrue("h3" in rows[0] and "cell error" in rows[0] and "h1" in rows[1])
        self.assertIn("h0, h2, h4, h5, h6", rows[2])
        self.assertIn("nova-vcpu-pin-set", page)
        self.assertIn("does not apply here", page)

    def test_what_does_not_apply_is_not_what_lacks_data(self):
        audits = {}
        finding = self.documents[2]["findings"][0]
        for host, code in (("a", "not_applicable"), ("b", "no_data")):
            unjudged = {"rule": finding["rule"], "reason": "", "code": code}
            audits[host] = {**self.documents[0], "unknown": [unjudged], "clean": []}
        audits["c"] = {**self.documents[0], "findings": [finding]}
        page = report.render_audits(audits).partition("</table>")[0]
        for mark in ('"cell elsewhere">-<', '"cell unknown">?<'):
            self.assertEqual(1, page.count(mark), mark)

    def test_a_thousand_hosts_are_a_small_page(self):
        finding, audits = {**self.documents[2]["findings"][0], "why": "w" * 500}, {}
        for number in range(1000):  # nearly no two are alike
            some = [{**finding, "rule": f"rule-{number * factor % 97}"} for factor in range(1, 7)]
            audits[f"compute-{number:04d}"] = {**self.documents[0], "findings": some}
        self.assertLess(len(report.render_audits(audits).encode()), LIMIT)

    def test_mistakes_are_one_line(self):
        good, results = self.write("h0", self.documents[0]), self.write("results", {"trials": []})
        for arguments, words in (
            ((), "give RESULTS.json or --arm NAME=FILES or --audits, and only one"),
            (
                (results, "--audits", good),
                "give RESULTS.json or --arm NAME=FILES or --audits, and only one",
            ),
            (("--audits", results), "results.json: the document: "),
            (("--audits", good, good), "'h0' is given twice"),
            (("--audits", good, "-o", good), "this command reads that file"),
        ):
            with self.subTest(arguments):
                self.assertIn(words, program.refused(self, "report", *arguments))
