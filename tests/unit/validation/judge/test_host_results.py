# SPDX-License-Identifier: Apache-2.0
"""What a file of results says of its hosts, judged by budgets of their own or not."""

from nova_perf_tuning.nova import host_result
from nova_perf_tuning.validation.judge import budget_file, host_results
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.results import reasons
from tests.support import directories, samples

C = reasons.ReasonCode


class ReadTest(directories.DirectoryCase):
    def read(self, *budgets):
        data = samples.fleet()
        samples.tell(data, created="2026-10-01T10:00:00+00:00")
        path = f"{self.directory}/results.json"
        results_file.save(data, path)
        return host_results.read(path, list(budgets))

    def test_budgets_of_which_none_is_for_the_run(self):
        """Its hosts were compared with each other, which is not what was asked."""
        found = self.read(
            budget_file.Budget("iperf3", "tuned", 0.15, baseline="untuned", host_group="gold")
        )
        self.assertEqual({"INVALID"}, {host.verdict for host in found.hosts})
        self.assertEqual({C.NO_BUDGET_APPLIES, C.ONLY_COMPARED}, found.left_out[0].codes)
        self.assertFalse(found.recorded)

    def test_losses_that_a_verdict_has_no_room_for(self):
        """They are cut with a note; nova-compute would not read the file."""
        self.patch(host_result, "MAX_LOSSES", 1)
        data = samples.results({"host": 1000.0, "untuned": 990.0, "tuned": 980.0})
        samples.tell(data, created="2026-10-01T10:00:00+00:00", host="cmp1")
        path = f"{self.directory}/one.json"
        results_file.save(data, path)
        budgets = []
        for baseline in ("host", "untuned"):
            budgets.append(budget_file.Budget("iperf3", "tuned", 0.15, baseline=baseline))
        found = host_results.read(path, budgets)
        [host] = found.hosts
        self.assertEqual(["iperf3 tuned/host"], list(host.losses))
        [note] = found.left_out
        self.assertEqual(
            (C.LOSSES_LEFT_OUT, 1, 2), (note.code, note.params["count"], note.params["of"])
        )

    def test_without_budgets_the_recorded_verdicts_count(self):
        found = self.read()
        self.assertEqual({"PASS"}, {host.verdict for host in found.hosts})
        self.assertTrue(found.recorded and not found.left_out)
