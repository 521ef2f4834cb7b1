# SPDX-License-Identifier: Apache-2.0
"""``nova-perf audit`` of several hosts: a row for each host and for each rule."""

import os
import pathlib
import shutil
import tempfile

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import comparison
from tests.support import audit_hosts, program, sysroots, testcase

_NOVA = "etc/nova/nova.conf"


class AuditOfHostsTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.place = self.enterContext(
            tempfile.TemporaryDirectory(prefix="nova-perf-hosts-", dir=sysroots.workplace())
        )
        self.good = self.add("good", {})
        self.bad = self.add("bad", {_NOVA: "[compute]\ncpu_dedicated_set = 0-15\n"})

    def add(self, name: str, changes: dict[str, str]) -> str:
        tree = audit_hosts.changed(audit_hosts.good(), changes)
        path = os.path.join(self.place, name)
        shutil.move(audit_hosts.grow(self, tree), path)
        return path

    def test_each_host_has_its_report(self) -> None:
        document = program.document(
            self, "audit", "--sysroot", self.good, "--sysroot", self.bad, code=1
        )
        self.assertEqual(["good", "bad"], [host["host"] for host in document["hosts"]])
        for path, host in zip((self.good, self.bad), document["hosts"], strict=True):
            done = program.nova_perf("audit", "--sysroot", path, "-f", "json")
            self.assertEqual(host["report"], program.json.loads(done.stdout))

    def test_a_directory_of_hosts(self) -> None:
        pathlib.Path(self.place, "README").write_text("no host\n")
        shutil.make_archive(f"{self.place}/packed", "xztar", self.good)
        document = program.document(self, "audit", "--sysroot", self.place, code=1)
        self.assertEqual(["bad", "good", "packed"], [host["host"] for host in document["hosts"]])
        reports = [host["report"]["findings"] for host in document["hosts"]]
        self.assertEqual(reports[1], reports[2])

    def test_a_directory_of_one_host_is_a_directory(self) -> None:
        shutil.rmtree(self.bad)
        document = program.document(self, "audit", "--sysroot", self.place)
        self.assertEqual(["good"], [host["host"] for host in document["hosts"]])

    def test_hosts_of_one_name_are_shown_by_path(self) -> None:
        other = os.path.join(self.place, "rack2", "good")
        shutil.copytree(self.good, other, symlinks=True)
        document = program.document(self, "audit", "--sysroot", self.good, "--sysroot", other)
        self.assertEqual([self.good, other], [host["host"] for host in document["hosts"]])

    def test_a_host_that_cannot_be_read_hides_no_other(self) -> None:
        broken = os.path.join(self.place, "broken.tar.xz")
        pathlib.Path(broken).write_bytes(b"nothing")
        done = program.nova_perf("audit", "--sysroot", self.place, "-f", "json")
        document = program.json.loads(done.stdout)
        self.assertEqual((3, 1), (done.returncode, done.stderr.count("\n")))
        self.assertEqual(
            ["report", "error", "report"], [list(host)[-1] for host in document["hosts"]]
        )

    def test_the_page_of_many_hosts_takes_its_document(self) -> None:
        """One file for many hosts gives the page that a file of each host gives."""
        files: list[str] = []
        for name in ("bad", "good"):
            done = program.nova_perf("audit", "--sysroot", f"{self.place}/{name}", "-f", "json")
            files.append(f"{self.place}/{name}.json")
            pathlib.Path(files[-1]).write_text(done.stdout)
        pages: list[str] = []
        together = program.nova_perf("audit", "--sysroot", self.place, "-f", "json")
        pathlib.Path(self.place, "all.json").write_text(together.stdout)
        for given in (files, [f"{self.place}/all.json"]):
            out = f"{self.place}/page.html"
            program.shown(self, "report", "--audits", *given, "-o", out)
            pages.append(pathlib.Path(out).read_text())
        self.assertEqual(pages[0], pages[1])

    def test_tables(self) -> None:
        shown = program.shown(self, "audit", "--sysroot", self.place, code=1)
        rows = {line.split()[0]: line.split() for line in shown.splitlines() if line.strip()}
        self.assertEqual(len(rows["bad"][-1]), len(rows["good"][-1]))
        self.assertEqual({"."}, set(rows["good"][-1]) - {"?", "-"})
        self.assertIn("E", rows["bad"][-1])

    def test_options_of_one_host_are_refused(self) -> None:
        for option in ("--junit", "--nova-config", "--domain", "--kernel-log"):
            with self.subTest(option):
                program.refused(self, "audit", "--sysroot", self.place, option, "x")

    def test_a_directory_without_hosts(self) -> None:
        nothing = os.path.join(self.place, "nothing")
        os.mkdir(nothing)
        program.refused(self, "audit", "--sysroot", nothing)


class ComparisonTest(testcase.TestCase):
    def judged(self, name: str, **levels: rules.Level | None) -> comparison.Judged:
        """Return a host on which rules find something, or hold (None)."""
        report = rules.Report()
        for rule, level in levels.items():
            if level is None:
                report.clean.append(rule)
            else:
                report.findings.append(rules.Finding(rule, level, "", (), "", "", ""))
        return comparison.Judged(name, f"/{name}", report)

    def test_what_finds_most_comes_first(self) -> None:
        hosts = [
            self.judged("a", few=rules.Level.WARNING, many=rules.Level.WARNING, clean=None),
            self.judged("b", few=None, many=rules.Level.INFO, severe=rules.Level.ERROR),
            comparison.Judged("c", "/c", None, "damaged"),
        ]
        compared = comparison.over_hosts(hosts)
        self.assertEqual(["severe", "many", "few", "clean"], [each.rule for each in compared])
        many = compared[1]
        self.assertEqual((rules.Level.WARNING, ("a", "b")), (many.level, many.found))
        self.assertEqual((0, 1), (many.holds, many.unknown))

    def test_what_does_not_apply_is_not_what_lacks_data(self) -> None:
        report = rules.Report()
        for error in (rules.NotApplicableError, rules.NoDataError):
            report.unknown.append(rules.Unjudged(error.code, "reason", error.code))
        host = comparison.Judged("a", "/a", report)
        states = {"not_applicable": comparison.NOT_HERE, "no_data": comparison.UNKNOWN}
        self.assertEqual(states, host.states())
        unknown = {each.rule: each.unknown for each in comparison.over_hosts([host])}
        self.assertEqual({"not_applicable": 0, "no_data": 1}, unknown)

    def test_the_most_severe_finding_counts(self) -> None:
        report = rules.Report()
        for level in (rules.Level.ERROR, rules.Level.INFO):
            report.findings.append(rules.Finding("rule", level, "", (), "", "", ""))
        self.assertEqual({"rule": "error"}, comparison.Judged("a", "/a", report).states())
