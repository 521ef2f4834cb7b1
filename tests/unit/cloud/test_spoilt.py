"""Trials of a fleet that failed or that guards reject: whose fault it is, and what becomes of the others."""

import math
import random
import time

import testtools

from nova_perf_tuning.budget import budget_file, model, verdict
from nova_perf_tuning.cloud import fleet, fleet_file
from tests.unit.budget import samples

V = verdict.Verdict
BUDGET = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")]
COLD, HOT = {"throttle_events": 0.0}, {"throttle_events": 5.0}


def ring(peers):
    """Return the pairs of six hosts, each with two peers, or with four."""
    return [(f"h{one}", f"h{(one + step) % 6}") for step in range(1, peers // 2 + 1) for one in range(6)]


def run(pairs, value, conditions=lambda pair: {}, **changes):
    """Return the results of a fleet.

    :param value: pair, arm, block -> factor of the usual figure; None: the trial failed, "": there is none.
    """
    rng = random.Random(7)
    trials = []
    for number, pair in enumerate(pairs):
        for block in range(6):
            for arm in ("untuned", "tuned"):
                factor = value(pair, arm, block)
                if factor == "":
                    continue
                figure = None if factor is None else factor * 1000 * math.exp(rng.gauss(0, 0.005))
                place = {"arm": arm, "group": number, "block": block, "order": len(trials)}
                told = {"value": figure, "conditions": conditions(pair), "error": "no" if figure is None else None}
                trials.append(samples.trial(**place, **told, **changes))
    names = sorted({name for pair in pairs for name in pair})
    hosts = [{"host": name, "verdict": "PASS", "reasons": [], "peers": 1, "measured": 1} for name in names]
    done = [
        {"number": number, "client": pair[0], "server": pair[1], "state": "done", "attempts": 1}
        for number, pair in enumerate(pairs)
    ]
    environment = {"arms": {"untuned": {}, "tuned": {}}, "benchmarks": {"iperf3": {"kind": "iperf3"}}}
    told = {"run": "r", "verdict": "PASS", "max_loss": 0.15, "hosts": hosts, "pairs": done}
    return model.Results({**environment, "fleet": told}, trials)


def judge(data, budgets=()):
    return {one.host: one for one in fleet_file.judge(data, budgets)}


class FailedTest(testtools.TestCase):
    def verdicts(self, found):
        return {host: one.verdict for host, one in found.items() if one.verdict is not V.PASS}

    def test_all_trials_of_a_host_failed(self):
        data = run(ring(2), lambda pair, *_: None if "h2" in pair else 1)
        found = judge(data)
        self.assertEqual({"h2": V.INVALID}, self.verdicts(found))
        self.assertIn(
            "12 of 12 trials of 'untuned' and 12 of 12 of 'tuned' failed (limit 20%)", found["h2"].reasons[0]
        )
        self.assertEqual([1, 0, 1, 2], [found[name].measured for name in ("h1", "h2", "h3", "h4")])
        self.assertIn("left out what h2 spoilt: of h2 12 of 12", found["h1"].reasons[0])
        self.assertEqual((), found["h0"].reasons)
        told, _ = fleet_file.judged_again(data, [])
        self.assertEqual("INVALID", told.environment["fleet"]["verdict"])

    def test_a_host_that_fails_nearly_always(self):
        """What is left of it is a selection, and its peers are good."""
        data = run(ring(4), lambda pair, _, block: None if "h2" in pair and ("h3" not in pair or block) else 1)
        for budgets in ((), BUDGET):
            found = judge(data, budgets)
            self.assertEqual({"h2": V.INVALID}, self.verdicts(found))
            [reason] = found["h2"].reasons
            self.assertIn(
                "iperf3: 23 of 24 trials of 'untuned' and 23 of 24 of 'tuned' failed (limit 20%); its", reason
            )

    def test_few_that_fail_are_no_fault(self):
        found = judge(run(ring(2), lambda pair, _, block: None if block == 3 else 1), BUDGET)
        self.assertEqual({V.PASS}, {one.verdict for one in found.values()})

    def test_nobody_is_named_where_all_fail(self):
        found = judge(run(ring(2), lambda *_: None))
        self.assertEqual({V.INVALID}, {one.verdict for one in found.values()})
        self.assertFalse([one for one in found.values() if "do better" in one.reasons[0]])

    def test_an_arm_that_is_missing_with_one_host(self):
        value = lambda pair, arm, _: "" if "h2" in pair and arm == "tuned" else 1  # noqa: E731
        found = judge(run(ring(4), value), BUDGET)
        self.assertEqual({"h2": V.INVALID}, self.verdicts(found))
        self.assertIn("24 of 24 trials of 'tuned' failed or are missing", found["h2"].reasons[0])

    def test_an_arm_that_is_missing_in_one_pair(self):
        """As with a pair that failed as a whole, the others tell; a budget wants both arms of it."""
        data = run(ring(2), lambda pair, arm, _: "" if pair == ("h2", "h3") and arm == "tuned" else 1)
        self.assertEqual({}, self.verdicts(judge(data)))
        self.assertEqual({"h2": V.INVALID, "h3": V.INVALID}, self.verdicts(judge(data, BUDGET)))

    def test_only_measured_with_those_to_blame(self):
        data = run(ring(2), lambda pair, *_: None if {"h2", "h4"} & set(pair) else 1)
        found = judge(data, BUDGET)
        self.assertEqual({"h2", "h4"}, {host for host, one in found.items() if one.verdict is V.INVALID})
        self.assertEqual(V.INCONCLUSIVE, found["h3"].verdict)
        self.assertIn("iperf3: only measured with h2, h4: of h2 12 of 12 trials of", found["h3"].reasons[0])

    def test_a_path_between_good_hosts_is_nobody_alone(self):
        found = judge(run(ring(2), lambda pair, *_: None if pair == ("h2", "h3") else 1))
        self.assertEqual({"h2": V.INVALID, "h3": V.INVALID}, self.verdicts(found))
        self.assertIn(
            "6 of 12 trials of 'untuned' and 6 of 12 of 'tuned' failed (limit 20%)", found["h2"].reasons[0]
        )

    def test_what_needs_no_peer_is_not_held_against_the_peer(self):
        pairs = ring(2)
        data = run(pairs, lambda pair, *_: None if pair[0] == "h2" else 1, benchmark="cpu")
        data.environment["benchmarks"] = {"cpu": {"kind": "cpu"}}
        found = judge(data)
        self.assertEqual({"h2": V.INVALID}, self.verdicts(found))
        self.assertEqual(((), 0), (found["h3"].reasons, found["h2"].measured))


class GuardsTest(testtools.TestCase):
    def test_a_throttled_host_is_not_as_good_as_the_others(self):
        data = run(ring(4), lambda *_: 1, lambda pair: HOT if "h2" in pair else COLD)
        for budgets in ((), BUDGET):
            found = judge(data, budgets)
            self.assertEqual(["h2"], [host for host, one in found.items() if one.verdict is not V.PASS])
            self.assertEqual(V.INVALID, found["h2"].verdict)
            self.assertIn("do not count (limit 20%): CPUs were throttled", found["h2"].reasons[0])
            self.assertEqual(4, found["h2"].measured)

    def test_a_host_whose_cpus_others_took_is_not_bad(self):
        steal = lambda pair: {"steal_share": 0.5 if "h2" in pair else 0.0}  # noqa: E731
        data = run(ring(4), lambda pair, *_: 0.5 if "h2" in pair else 1, steal)
        found = judge(data, BUDGET)
        self.assertEqual(V.INVALID, found["h2"].verdict)
        self.assertIn("%): the host's CPUs were taken away", found["h2"].reasons[0])
        self.assertEqual({V.PASS}, {one.verdict for host, one in found.items() if host != "h2"})

    def test_the_budget_file_has_the_limits(self):
        steal = lambda pair: {"steal_share": 0.5 if "h2" in pair else 0.0}  # noqa: E731
        limits = budget_file.guards.Limits(max_steal=0.6)
        budgets = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned", guards=limits)]
        found = judge(run(ring(4), lambda pair, *_: 0.5 if "h2" in pair else 1, steal), budgets)
        self.assertEqual(V.FAIL, found["h2"].verdict)

    def test_hosts_differ_and_nothing_is_wrong(self):
        found = judge(run(ring(2), lambda *_: 1, lambda pair: {"max_mhz": 2000.0 + 100 * int(pair[0][1])}), BUDGET)
        self.assertNotIn(V.INVALID, {one.verdict for one in found.values()})


class ManyPairsTest(testtools.TestCase):
    def test_a_star_takes_no_time(self):
        """Each host with the same one: nothing may go by all pairs for each of them."""

        def took(count):
            pairs = [("hub", f"h{one}") for one in range(count)]
            data = run(pairs, lambda pair, arm, block: "" if block or arm == "tuned" else 1)
            begun = time.process_time()
            found = judge(data)
            self.assertEqual(count + 1, len(found))
            return time.process_time() - begun

        took(100)
        # The best of three: what else the machine does counts in some of them.
        few, many = (min(took(count) for _ in range(3)) for count in (400, 3200))
        self.assertTrue(many < 24 * few, (few, many))


class OrderTest(testtools.TestCase):
    def test_the_reason_of_the_verdict_comes_first(self):
        told = [(None, "a remark"), (V.PASS, ""), (V.INCONCLUSIVE, "undecided"), (V.INVALID, "wrong")]
        found = fleet._verdict("h", told, (), 1, 1)
        self.assertEqual((V.INVALID, ("wrong", "undecided", "a remark")), (found.verdict, found.reasons))
