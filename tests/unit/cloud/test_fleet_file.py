"""A recorded run over many hosts: every host that was planned has a verdict."""

import dataclasses

import testtools

from nova_perf_tuning.budget import budget_file, model, verdict
from nova_perf_tuning.cloud import fleet_file
from tests.unit.budget import samples, test_store

V = verdict.Verdict
BUDGETS = [budget_file.Budget("iperf3", "tuned", 0.15, baseline="untuned")]


def ring(count=4, without=()):
    """Return a run of hosts in a ring whose tuned guests lose nothing."""
    tasks = test_store.pairs(count)
    tasks[-1]["server"] = "c0"
    hosts = [
        {"host": f"c{one}", "verdict": "PASS", "reasons": [], "peers": 2, "measured": 2} for one in range(count)
    ]
    data = samples.results({"untuned": 1000.0, "tuned": 1000.0}, groups=count, blocks=6, noise=0.005)
    told = {"run": "r", "verdict": "PASS", "hosts": [one for one in hosts if one["host"] not in without]}
    environment = {**data.environment, "groups": count, "fleet": {**told, "pairs": tasks}}
    return model.Results(environment, data.trials)


class FleetFileTest(testtools.TestCase):
    def judged(self, data):
        return {one.host: one for one in fleet_file.judge(data, BUDGETS)}

    def test_all_are_there(self):
        self.assertEqual({V.PASS}, {one.verdict for one in self.judged(ring()).values()})

    def test_a_host_that_is_not_listed_is_not_forgotten(self):
        found = self.judged(ring(without=("c2",)))
        self.assertEqual(["c0", "c1", "c2", "c3"], sorted(found))
        self.assertEqual(V.INVALID, found["c2"].verdict)
        self.assertIn("it has pairs, but is not among the hosts", found["c2"].reasons[0])
        self.assertEqual(V.PASS, found["c0"].verdict)

    def test_a_pair_that_is_done_has_trials(self):
        data = ring()
        data = dataclasses.replace(data, trials=[one for one in data.trials if one.group != 1])
        found = self.judged(data)
        for name in ("c1", "c2"):
            self.assertEqual(V.INVALID, found[name].verdict, found[name].reasons)
            self.assertIn("pair 1 (c1 with c2) is done, but the results have no trial", found[name].reasons[0])
        self.assertEqual(V.PASS, found["c0"].verdict)

    def test_budgets_of_which_none_is_for_the_run_are_not_met(self):
        """Hosts are compared with each other all the same; but that is not what was asked."""
        gold = [dataclasses.replace(BUDGETS[0], host_group="gold")]
        told, hosts = fleet_file.judged_again(ring(), gold)
        self.assertEqual(
            ("INVALID", {V.INVALID}), (told.environment["fleet"]["verdict"], {one.verdict for one in hosts})
        )
        self.assertIn("none is for host_group ''", hosts[0].reasons[0])
        for budgets in ([], [dataclasses.replace(gold[0], optional=True)], [*gold, *BUDGETS]):
            told, hosts = fleet_file.judged_again(ring(), budgets)
            self.assertEqual("PASS", told.environment["fleet"]["verdict"])
