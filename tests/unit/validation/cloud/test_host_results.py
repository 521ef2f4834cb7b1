# SPDX-License-Identifier: Apache-2.0
"""What a file of results says of its hosts, judged by budgets of their own or not."""

from nova_perf_tuning.validation.cloud import host_results
from nova_perf_tuning.validation.judge import budget_file
from nova_perf_tuning.validation.measure import reasons, store
from tests.support import directories, samples

C = reasons.ReasonCode


class ReadTest(directories.DirectoryCase):
    def read(self, *budgets):
        data = samples.fleet()
        samples.tell(data, created="2026-10-01T10:00:00+00:00")
        path = f"{self.directory}/results.json"
        store.save(data, path)
        return host_results.read(path, list(budgets))

    def test_budgets_of_which_none_is_for_the_run(self):
        """Its hosts were compared with each other, which is not what was asked."""
        found = self.read(budget_file.Budget("iperf3", "tuned", 0.15, baseline="untuned", host_group="gold"))
        self.assertEqual({"INVALID"}, {host.verdict for host in found.hosts})
        self.assertEqual({C.NO_BUDGET_APPLIES, C.ONLY_COMPARED}, found.left_out[0].codes)
        self.assertFalse(found.recorded)

    def test_without_budgets_the_recorded_verdicts_count(self):
        found = self.read()
        self.assertEqual({"PASS"}, {host.verdict for host in found.hosts})
        self.assertTrue(found.recorded and not found.left_out)
