"""What the service says of itself: findings for people and for metrics."""

from __future__ import annotations

import testtools

from nova_perf_tuning.agent import findings, reconcile, rewrite_limit, service, sources
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.transaction import apply
from tests.unit.agent import test_convergence


class FindingsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.patch(apply, "PAUSES", (0.0,))
        bench = test_convergence.Bench()
        self.addCleanup(bench.close)
        self.host = bench.host
        self.agent = reconcile.Reconciler(
            self.host, test_convergence.OneJournal(bench.journal), rewrite_limit.RewriteLimit()
        )
        timing = opts.load([]).agent
        self.service = service.Service(
            self.agent, sources.Poller(bench.folder), timing, bench.folder, findings.CompetingDaemons(bench.folder)
        )
        self.addCleanup(self.service.close)
        self.number = min(self.host.numbers("eth0"))

    def findings(self, passes=1):
        for _ in range(passes):
            self.service.make_pass({"look"})
        return [(finding["code"], finding["target"]) for finding in self.service.state().findings]

    def test_what_happened_before_its_start_is_excused(self):
        """As the help of [agent] rewrite_limit says: a fifth of a write each, of the five in a row."""
        self.findings()
        for _ in range(10):
            self.host.vectors[self.number].give("0-7")
            self.service.stop()
            self.service.run()
        self.assertEqual([], self.findings())

    def test_what_others_write_is_told_by_another_name(self):
        self.findings()
        for _ in range(7):
            self.host.vectors[self.number].give("0-7")
            found = self.findings()
        self.assertEqual([("written_by_others", f"irq:{self.number}")], found)
        self.assertIn("1 held back", self.service._line())
        self.host.vectors[self.number].give(next(one.value for one in self.agent.wanted))
        self.assertEqual([], self.findings())
