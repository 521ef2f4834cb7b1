# SPDX-License-Identifier: Apache-2.0
"""No command writes over a file that it reads, or over another one of its own."""

import os
import pathlib

from nova_perf_tuning import errors
from nova_perf_tuning.validation.measure import results_file
from tests.support import audit_hosts as hosts
from tests.support import fleet_case, program, samples


class FilesCase(fleet_case.SimulatedValidation):
    def setUp(self):
        super().setUp()
        self.results_file = f"{self.directory}/measured.json"
        results_file.save(
            samples.results({"host": 1000.0, "untuned": 800.0, "tuned": 900.0}), self.results_file
        )
        self.budget_file = self.budget("benchmark: iperf3, arm: tuned, max_loss: 0.15")
        os.mkdir(self.output)

    def assert_kept(self, words, run, *arguments):
        """A command is refused with these words, and all files stay as they were."""
        before = self.tree()
        self.assertIn(words, run(*arguments), arguments)
        self.assertEqual(before, self.tree(), arguments)

    def tree(self):
        found = {}
        for path in sorted(pathlib.Path(self.directory).rglob("*")):
            if path.is_file():
                found[str(path)] = path.read_bytes()
        return found

    def nova_perf(self, *arguments):
        return program.refused(self, *arguments)


class ReadTest(FilesCase):
    def test_what_is_read_stays_whatever_it_is_called(self):
        os.link(self.budget_file, f"{self.directory}/hard.yaml")
        os.symlink(self.directory, f"{self.directory}/way")
        audit = self.write_file("one.json", "{}")
        other_audit = self.write_file("two.json", "{}")
        sysroot = hosts.grow(self, hosts.good())
        domain = self.write_file("domain.xml", "<domain/>")
        results, budget = self.results_file, ("--budget", self.budget_file)
        for arguments in (
            ("evaluate", results, *budget, "--junit", self.budget_file),
            ("evaluate", results, *budget, "--junit", f"{self.directory}/hard.yaml"),
            ("evaluate", results, *budget, "--junit", f"{self.directory}/way/budget.yaml"),
            ("evaluate", results, *budget, "--junit", results),
            ("report", results, *budget, "-o", self.budget_file),
            ("report", results, *budget, "--ndjson", self.budget_file),
            ("report", results, "--ndjson", results),
            ("report", "--audits", audit, other_audit, "-o", other_audit),
            ("validate", *budget, "--output", self.output, "--junit", self.budget_file),
            ("plan", "--sysroot", sysroot, "--domain", domain, "--svg", domain),
            ("audit", "--sysroot", sysroot, "--domain", domain, "--junit", domain),
            ("audit", "--sysroot", sysroot, "--kernel-log", domain, "--junit", domain),
        ):
            with self.subTest(arguments):
                self.assert_kept("reads that file", self.nova_perf, *arguments)

    def test_what_the_system_refuses_is_named_without_its_number(self):
        sysroot = hosts.grow(self, hosts.good())
        for name in ("a" * 300 + ".svg", "/proc/x.svg"):
            with self.subTest(name[:20]):
                said = self.nova_perf("plan", "--sysroot", sysroot, "--svg", name)
                self.assertNotIn("Errno", said)
                self.assertTrue(said.startswith(f"nova-perf plan: {name}: "), said)

    def test_a_recorded_host_is_no_picture(self):
        recorded = self.write_file("host.tar.xz", "x")
        self.assert_kept(
            "reads that file", self.nova_perf, "topology", "--sysroot", recorded, "--svg", recorded
        )

    def test_own_profiles_stay(self):
        own = self.write_file("profiles/own.yaml", "x")
        arguments = (
            "--profile-dir",
            f"{self.directory}/profiles",
            "--output",
            self.output,
            "--junit",
            own,
        )
        self.assert_kept("reads that file", self.nova_perf, "validate", *arguments)

    def test_what_a_run_would_rename_is_no_input(self):
        for name in ("results.json", "results.previous.json"):
            budget = f"{self.output}/{name}"
            os.link(self.budget_file, budget)
            with self.subTest(name):
                arguments = ("--output", self.output, "--budget", budget)
                self.assert_kept("reads that file", self.nova_perf, "validate", *arguments)
            os.unlink(budget)


class WrittenTest(FilesCase):
    def test_two_outputs_are_two_files(self):
        new = f"{self.directory}/new"
        same = f"{self.output}/../new"
        for arguments in (
            ("report", self.results_file, "-o", new, "--ndjson", same),
            ("validate", "--output", self.output, "--junit", f"{self.output}/results.json"),
            ("validate", "--output", self.output, "--junit", f"{self.output}/report.html"),
        ):
            with self.subTest(arguments):
                self.assert_kept("writes that file twice", self.nova_perf, *arguments)


class CloudTest(FilesCase):
    def refused(self, *arguments):
        error = self.assertRaises(
            errors.PerfTuningError, self.validate, "--hosts", "all", *arguments
        )
        return str(error)

    def test_what_is_read_stays(self):
        bare, budget = ("--bare-host", self.results_file), ("--budget", self.budget_file)
        database = self.write_file("results.db", "")
        for arguments in (
            (*bare, "--junit", self.results_file),
            (*budget, "--junit", self.budget_file),
            ("--junit", database),
        ):
            with self.subTest(arguments):
                self.assert_kept("reads that file", self.refused, *arguments)

    def test_results_of_a_bare_host_where_the_run_writes(self):
        bare = f"{self.output}/results.json"
        os.link(self.results_file, bare)
        self.assert_kept("reads that file", self.refused, "--bare-host", bare)

    def test_two_outputs_are_two_files(self):
        junit = f"{self.output}/results.json"
        self.assert_kept("writes that file twice", self.refused, "--junit", junit)
