"""Who meets whom: every size of fleet, several numbers of peers, hosts that fail on the way."""

import collections

import testtools
from hypothesis import given, settings
from hypothesis import strategies as st

from nova_perf_tuning.cloud import model, pairing


def names(count):
    return [f"host{number:03d}" for number in range(count)]


def peers_of(pairs):
    found = collections.defaultdict(set)
    for pair in pairs:
        found[pair.client].add(pair.server)
        found[pair.server].add(pair.client)
    return found


class ScheduleTest(testtools.TestCase):
    def check_schedule(self, n, k):
        hosts = names(n)
        plan = pairing.schedule(hosts, k, seed=n + k)
        wanted = min(k, n - 1)
        for one, byes in zip(plan.rounds, plan.byes, strict=True):
            busy = [name for pair in one for name in (pair.client, pair.server)]
            self.assertEqual(sorted(hosts), sorted([*busy, *byes]), "twice in a round, or forgotten")
        met = peers_of(plan.pairs())
        numbers = collections.Counter(len(met[name]) for name in hosts)
        odd_one = n % 2 == 1 and wanted % 2 == 1
        self.assertEqual({wanted: n - odd_one} | ({wanted + 1: 1} if odd_one else {}), dict(numbers), (n, k))
        legs = 2 if wanted == 1 else 1
        self.assertEqual((n * wanted + odd_one) // 2 * legs, len(set(plan.pairs())), "a pair twice")
        least = wanted if n % 2 == 0 else n if wanted == n - 1 else wanted + 1
        self.assertEqual(least * legs, len(plan.rounds))
        return plan

    def test_every_size_from_2_to_500(self):
        for n in range(2, 501):
            for k in (1, 2, 3, 4, 7) if n <= 60 else (2, 3):
                self.check_schedule(n, k)

    def test_everybody_with_everybody(self):
        for n in [*range(2, 40), 99, 100]:
            plan = self.check_schedule(n, n + 5)
            if n > 2:
                self.assertEqual(n * (n - 1) // 2, len(plan.pairs()))

    def test_no_schedule_has_fewer_rounds(self):
        """A round holds n // 2 pairs at most and gives each host one peer."""
        for n in range(3, 60):
            for k in range(2, n):
                plan = pairing.schedule(names(n), k)
                pairs = (n * k + 1) // 2
                self.assertEqual(max(min(k, n - 1), -(-pairs // (n // 2))), len(plan.rounds), (n, k))

    def test_byes_are_balanced(self):
        for n in range(3, 60, 2):
            for k in range(2, n, 2):
                byes = collections.Counter(name for one in pairing.schedule(names(n), k).byes for name in one)
                self.assertEqual({1}, set(byes.values()), (n, k))
                self.assertEqual(n, len(byes))
        self.assertEqual(((), ()), pairing.schedule(names(4), 2).byes)

    def test_everybody_is_client_and_server(self):
        for n in range(2, 120):
            for k in (1, 2, 3, 5, 8):
                pairs = pairing.schedule(names(n), k, seed=1).pairs()
                clients = collections.Counter(pair.client for pair in pairs)
                servers = collections.Counter(pair.server for pair in pairs)
                for name in names(n):
                    self.assertTrue(clients[name] and servers[name], (n, k, name))
                    self.assertTrue(abs(clients[name] - servers[name]) <= 1, (n, k, name))

    @given(st.sets(st.text("abcd", min_size=1), min_size=1, max_size=30), st.integers(1, 9), st.integers(0, 9))
    @settings(max_examples=80, deadline=None)
    def test_the_order_of_names_does_not_matter(self, hosts, k, seed):
        ordered = sorted(hosts)
        self.assertEqual(pairing.schedule(ordered, k, seed), pairing.schedule(ordered[::-1] * 2, k, seed))

    def test_seeds_differ(self):
        found = {pairing.schedule(names(10), 3, seed) for seed in range(20)}
        self.assertEqual(20, len(found))

    def test_one_host_is_its_own_peer(self):
        self.assertEqual([model.HostPair("a", "a")], pairing.schedule(["a", "a"], 4).pairs())

    def test_nonsense_is_refused(self):
        self.assertRaises(ValueError, pairing.schedule, [], 1)
        self.assertRaises(ValueError, pairing.schedule, ["a", "b"], 0)


class AdditionalTest(testtools.TestCase):
    @given(st.integers(2, 40), st.integers(1, 8), st.integers(0, 5), st.data())
    @settings(max_examples=200, deadline=None)
    def test_hosts_that_fail_are_made_up_for(self, n, k, seed, data):
        hosts = names(n)
        planned = pairing.schedule(hosts, k, seed).pairs()
        lost = data.draw(st.sets(st.sampled_from(hosts), max_size=n - 1))
        left = [name for name in hosts if name not in lost]
        kept = [pair for pair in planned if not {pair.client, pair.server} & lost]
        new = pairing.additional(left, planned, k, seed)
        wanted = min(k, len(left) - 1)
        met = peers_of([*kept, *new])
        for name in left:
            self.assertTrue(len(met[name]) >= wanted, (name, met[name]))
        missing = sum(max(0, wanted - len(peers_of(kept)[name])) for name in left)
        self.assertTrue(len(new) <= missing)
        self.assertFalse(
            {frozenset((pair.client, pair.server)) for pair in kept}
            & {frozenset((pair.client, pair.server)) for pair in new}
        )
        self.assertEqual(len(new), len({frozenset((pair.client, pair.server)) for pair in new}))
        self.assertEqual(new, pairing.additional(left, planned, k, seed), "not deterministic")

    def test_nothing_lost_nothing_added(self):
        for n in range(2, 30):
            for k in (1, 2, 3):
                self.assertEqual([], pairing.additional(names(n), pairing.schedule(names(n), k).pairs(), k))

    def test_the_last_host_gets_nobody(self):
        self.assertEqual([], pairing.additional(["a"], [model.HostPair("a", "b")], 3))

    def test_longest_chain(self):
        pairs = [model.HostPair("a", "b"), model.HostPair("a", "c"), model.HostPair("d", "d")]
        self.assertEqual((2, 0), (pairing.longest_chain(pairs), pairing.longest_chain([])))
