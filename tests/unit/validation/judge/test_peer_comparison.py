# SPDX-License-Identifier: Apache-2.0
"""Which host is slow: worked examples, and properties over simulated fleets."""

import itertools
import math
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from nova_perf_tuning.validation.judge import peer_comparison, verdict
from nova_perf_tuning.validation.measure import fleet_model
from tests.support import samples, testcase

GOOD, SLOW, UNCERTAIN = verdict.Verdict.PASS, verdict.Verdict.FAIL, verdict.Verdict.INCONCLUSIVE


def states(figures, limit=0.1, count=1):
    """``figures`` is (client, server) -> value."""
    logs = {
        fleet_model.HostPair(*pair): math.log(value) if value else -math.inf
        for pair, value in figures.items()
    }
    return peer_comparison.judge(logs, limit, count).states


def fleet(count, peers, seed, slow, noise=0.01, factor=0.7):
    """Return the figures of a fleet in which a pair is as fast as its slower host."""
    rng = random.Random(seed)
    pairs = fleet_model.schedule([f"h{number:03d}" for number in range(count)], peers, seed)
    return {
        (pair.client, pair.server): 1000.0
        * (factor if {pair.client, pair.server} & slow else 1.0)
        * rng.lognormvariate(0, noise)
        for pair in pairs
    }


class RuleTest(testcase.TestCase):
    def test_slow_hosts_are_distinguished_from_their_peers(self):
        ring = {("a", "b"): 100, ("b", "c"): 101, ("c", "a"): 99}
        alone = {("a", "a"): 100, ("b", "b"): 101, ("c", "c"): 60, ("d", "d"): 99}
        for name, figures, others in (
            ("a slow host", {**ring, ("c", "d"): 70, ("d", "a"): 71}, {"d": SLOW}),
            ("one of three", {("a", "b"): 100, ("b", "c"): 70, ("c", "a"): 70}, {"c": SLOW}),
            ("a slow path is no host's", {**ring, ("c", "d"): 99, ("d", "a"): 70}, {}),
            ("two cannot be distinguished", {("a", "b"): 100}, {}),
            (
                "only slow peers",
                {**ring, ("a", "x"): 50, ("b", "x"): 50, ("x", "z"): 50},
                {"x": SLOW, "z": UNCERTAIN},
            ),
            ("one peer is too few", {**ring, ("c", "d"): 70}, {"d": UNCERTAIN}),
            ("within the limit", {**ring, ("a", "d"): 93, ("d", "b"): 92}, {}),
            ("no throughput at all", {**ring, ("a", "d"): 0, ("d", "b"): 0}, {"d": SLOW}),
            ("what only the client does", alone, {"c": SLOW}),
        ):
            with self.subTest(name):
                good = {host: GOOD for pair in figures for host in pair}
                self.assertEqual({**good, **others}, states(figures))

    def test_arms_and_benchmarks_are_compared_apart_by_medians_of_primary_figures(self):
        pairs = {("a", "b"): 100, ("b", "c"): 100, ("c", "a"): 100, ("d", "a"): 60, ("b", "d"): 60}
        measured = []
        for pair, value in pairs.items():
            for arm, factor in (("untuned", 1.0), ("tuned", 1.0 if "d" in pair else 1.2)):
                for noise in (0.5, 1.0, 1.01):
                    measured.append(
                        (
                            fleet_model.HostPair(*pair),
                            samples.trial(arm=arm, value=value * factor * noise),
                        )
                    )
            measured.append(
                (
                    fleet_model.HostPair(*pair),
                    samples.trial(metric="retransmits", primary=False, value=1.0),
                )
            )
            measured.append((fleet_model.HostPair(*pair), samples.trial(value=None, error="lost")))
        comparisons = peer_comparison.compare(measured, 0.1)
        middles = {
            figure: round(math.exp(comparison.middle), 6)
            for figure, comparison in comparisons.items()
        }
        self.assertEqual({("iperf3", "untuned"): 100.0, ("iperf3", "tuned"): 120.0}, middles)
        self.assertEqual(
            [SLOW, SLOW], [comparison.states["d"] for comparison in comparisons.values()]
        )

    def test_lower_is_better_and_zero_is_best(self):
        pairs = {
            ("a", "b"): 10,
            ("b", "c"): 10,
            ("c", "a"): 10,
            ("a", "d"): 14,
            ("d", "b"): 15,
            ("e", "a"): 0,
        }
        measured = [
            (fleet_model.HostPair(*pair), samples.trial(value=value, better="lower"))
            for pair, value in pairs.items()
        ]
        [comparison] = peer_comparison.compare(measured, 0.1).values()
        self.assertEqual((GOOD, SLOW, GOOD), tuple(comparison.states[host] for host in "ade"))
        zeros = [(pair, samples.trial(value=0.0, better="lower")) for pair, _ in measured]
        self.assertEqual({}, peer_comparison.compare(zeros, 0.1))

    def test_a_figure_that_is_zero_on_most_hosts_is_not_compared(self):
        """It has no ratio: hosts would be equal, or lose without a limit."""
        pairs = {("a", "b"): 0, ("b", "c"): 0, ("c", "a"): 0, ("d", "e"): 10, ("e", "d"): 11}
        for better in ("higher", "lower"):
            with self.subTest(better):
                measured = []
                for pair, value in pairs.items():
                    measured.append(
                        (fleet_model.HostPair(*pair), samples.trial(value=value, better=better))
                    )
                self.assertEqual({}, peer_comparison.compare(measured, 0.1))

    def test_two_hosts_alone_are_compared_by_their_boots(self):
        two = {"a": [100, 102], "b": [99, 101]}
        for name, boots, expected in (
            ("equal", two, (GOOD, GOOD)),
            ("slow", {**two, "b": [40, 41]}, (GOOD, SLOW)),
            (
                "slower by more than the limit, but boots differ",
                {**two, "b": [50, 80]},
                (GOOD, UNCERTAIN),
            ),
            ("stands still", {**two, "b": [0, 40]}, None),
            ("one boot says nothing", {"a": [100], "b": [40]}, None),
            ("with each other", {"ab": [100, 100], "ba": [40, 40]}, None),
        ):
            with self.subTest(name):
                measured = [
                    (
                        fleet_model.HostPair(pair[0], pair[-1]),
                        samples.trial(boot=boot, value=value * noise),
                    )
                    for pair, values in boots.items()
                    for boot, value in enumerate(values)
                    for noise in (0.5, 1.0, 1.01)
                ]
                [comparison] = peer_comparison.compare(measured, 0.3).values()
                self.assertEqual(expected is not None, comparison.enough)
                if expected:
                    self.assertEqual(dict(zip("ab", expected, strict=True)), comparison.states)
                    self.assertAlmostEqual(
                        math.log(math.sqrt(100 * 102) * 2.51 / 3), comparison.middle
                    )

    def test_equal_hosts_alone_are_not_slow(self):
        """Noise of a third of the limit between boots, or trials of one of two speeds; 1 % promised."""
        for name, trials, one in (
            ("boots", 1, lambda rng: rng.lognormvariate(5, 0.05)),
            ("speeds", 2, lambda rng: rng.choice((60, 100)) + rng.random()),
            ("stalls", 3, lambda rng: rng.choice((10, 100, 100, 100, 100)) + rng.random()),
        ):
            with self.subTest(name):
                wrong = 0
                for seed in range(300):
                    rng = random.Random(seed)
                    measured = [
                        (
                            fleet_model.HostPair(host, host),
                            samples.trial(boot=boot, value=one(rng)),
                        )
                        for host, boot in itertools.product("ab", (0, 1))
                        for _ in range(trials)
                    ]
                    [comparison] = peer_comparison.compare(measured, 0.15).values()
                    wrong += SLOW in comparison.states.values()
                self.assertLessEqual(wrong, 3)


class FleetTest(testcase.TestCase):
    @given(st.integers(6, 60), st.integers(2, 5), st.integers(0, 10_000), st.data())
    @settings(max_examples=200, deadline=None)
    def test_nobody_is_blamed_wrongly(self, count, peers, seed, data):
        names = [f"h{number:03d}" for number in range(count)]
        slow = data.draw(st.sets(st.sampled_from(names), max_size=count // 5))
        for name, state in states(fleet(count, peers, seed, slow, noise=0.005)).items():
            self.assertNotEqual(GOOD if name in slow else SLOW, state, (name, slow))

    def test_equal_hosts_are_not_slow(self):
        """Noise of a third of the limit; 1 % promised."""
        for count in (3, 4, 5, 10, 50):
            with self.subTest(count):
                wrong = sum(
                    SLOW in states(fleet(count, 2, seed, set(), 0.05), 0.15).values()
                    for seed in range(300)
                )
                self.assertLessEqual(wrong, 3, count)

    def test_one_slow_host_is_found_and_its_peers_stay_good(self):
        for count, peers in ((3, 2), (4, 2), (6, 2), (6, 3), (10, 3), (30, 3)):
            with self.subTest(count):
                rounds = [
                    states(fleet(count, peers, seed, {"h001"}, 0.03, 0.65), 0.15)
                    for seed in range(100)
                ]
                self.assertGreaterEqual(
                    [found["h001"] for found in rounds].count(SLOW), 97, (count, peers)
                )
                self.assertEqual(1, max(list(found.values()).count(SLOW) for found in rounds))
