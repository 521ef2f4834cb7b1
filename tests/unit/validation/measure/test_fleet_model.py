# SPDX-License-Identifier: Apache-2.0
"""Who meets whom, and the grid of slots: arms never meet, and the runner's shell works out the same."""

import collections

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.validation.measure import fleet_model
from tests.support import testcase

grids = strategies.builds(
    fleet_model.Grid, strategies.integers(1, 8), strategies.integers(3, 7200)
)


class GridTest(testcase.TestCase):
    @hypothesis.given(grids, strategies.integers(0, 10**8))
    def test_every_block_has_every_arm_once(self, grid, block):
        indexes = range(block * grid.arms, (block + 1) * grid.arms)
        self.assertEqual(list(range(grid.arms)), sorted(grid.arm(index) for index in indexes))


def names(count):
    return [f"host-{number:03d}" for number in range(count)]


def peers_of(pairs):
    peers = collections.defaultdict(set)
    for pair in pairs:
        peers[pair.client].add(pair.server)
        peers[pair.server].add(pair.client)
    return peers


class ScheduleTest(testcase.TestCase):
    @hypothesis.given(
        strategies.integers(3, 60), strategies.integers(1, 8), strategies.integers(0, 100)
    )
    def test_every_host_meets_so_many_peers(self, count, peers, seed):
        pairs = fleet_model.schedule(names(count), peers, seed)
        wanted = min(peers, count - 1)
        met = sorted(len(some) for some in peers_of(pairs).values())
        self.assertEqual([wanted] * (count - 1) + [wanted + wanted % 2 * count % 2], met)
        self.assertEqual(
            len(pairs), len({frozenset((pair.client, pair.server)) for pair in pairs})
        )
        clients = collections.Counter(pair.client for pair in pairs)
        servers = collections.Counter(pair.server for pair in pairs)
        self.assertLessEqual(max(abs(clients[name] - servers[name]) for name in names(count)), 2)

    @hypothesis.given(
        strategies.lists(strategies.sampled_from(names(9)), min_size=1),
        strategies.integers(1, 4),
        strategies.integers(0, 9),
    )
    def test_order_and_repetitions_do_not_matter(self, hosts, peers, seed):
        self.assertEqual(
            fleet_model.schedule(hosts, peers, seed),
            fleet_model.schedule(hosts[::-1] * 2, peers, seed),
        )

    def test_pairs_can_be_measured_side_by_side(self):
        for count, peers in ((10, 2), (10, 3), (40, 4)):
            with self.subTest(count):
                pairs = fleet_model.schedule(names(count), peers)
                for begin in range(0, len(pairs) - count // 4, count // 4):
                    some = pairs[begin : begin + count // 4]
                    met = collections.Counter(
                        name for pair in some for name in (pair.client, pair.server)
                    )
                    self.assertLessEqual(max(met.values()), 2, (count, peers, begin))

    def test_few_hosts(self):
        self.assertEqual([fleet_model.HostPair("a", "a")], fleet_model.schedule(["a", "a"], 4))
        first, second = fleet_model.schedule(["a", "b"], 3)
        self.assertEqual((first.client, first.server), (second.server, second.client))
        self.assertRaises(ValueError, fleet_model.schedule, [], 1)
        self.assertEqual(
            [fleet_model.HostPair(name, name) for name in "ab"],
            fleet_model.schedule(["b", "a"], 0),
        )
        self.assertRaises(ValueError, fleet_model.schedule, ["a", "b"], -1)
