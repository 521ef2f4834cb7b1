"""Spread of boots pooled over hosts: figures by hand, hosts unlike the others, and what intervals then cover."""

import math

import testtools

from nova_perf_tuning.budget import budget_file, model, pooling, statistics, verdict
from tests.benchmarks import pooling as simulated
from tests.unit.budget import samples

BUDGET = budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")


def host(number, boots, blocks=3):
    """Return group -> figures of a host whose boots have these medians; groups are its own."""
    return {10 * number + index: [median] * blocks for index, median in enumerate(boots)}


def measured(number, boots, benchmark="iperf3", cpu=None, metric="throughput"):
    """Return trials of a host: its tuned guests reach exp(median) of the untuned ones in each boot."""
    trials = []
    for index, median in enumerate(boots):
        for block in range(3):
            for arm, value in (("untuned", 1000.0), ("tuned", 1000.0 * math.exp(median))):
                service = math.exp(cpu[index]) if cpu else 1.0
                spent = {"vcpu": 4.0, "emulator": service, "total": 4.0 + service}
                place = {"group": 10 * number + index, "block": block, "order": len(trials)}
                trials.append(
                    samples.trial(
                        benchmark=benchmark,
                        metric=metric,
                        arm=arm,
                        value=value,
                        host_cpu_s=spent,
                        wait_s=0.0,
                        **place,
                    )
                )
    return trials


def fleet(hosts):
    return {name: model.Results({}, trials) for name, trials in hosts.items()}


class PoolTest(testtools.TestCase):
    def test_by_hand(self):
        """Sums of squares 2, 2 and 8 with 1 + 1 + 2 degrees of freedom: a variance of 3."""
        found = pooling.pool({"a": host(0, [1, 3]), "b": host(1, [11, 13]), "c": host(2, [0, 2, 4])})
        self.assertEqual({"a", "b", "c"}, set(found.spreads))
        spread = found.spreads["a"]
        self.assertAlmostEqual(math.sqrt(3), spread.sd)
        self.assertEqual((4, 3, frozenset()), (spread.freedom, spread.hosts, found.apart))

    def test_the_interval_by_hand(self):
        """Twelve hosts whose boots differ by 0.02: 12 degrees of freedom, t = 2.1788; an interval of +- 0.0218."""
        hosts = {str(number): host(number, [0.0, 0.02]) for number in range(12)}
        found = pooling.pool(hosts).spreads["0"]
        one = statistics.estimate(hosts["0"], spread=found)
        self.assertAlmostEqual(0.01 - 2.17881 * 0.02 / math.sqrt(2) / math.sqrt(2), one.low, 6)
        self.assertAlmostEqual(0.01 + 2.17881 * 0.02 / math.sqrt(2) / math.sqrt(2), one.high, 6)
        self.assertEqual("spread of boots pooled over 12 hosts", one.note)

    def test_a_larger_spread_of_its_own_counts(self):
        found = statistics.estimate(host(0, [0.0, 0.04]), spread=statistics.Spread(0.001, 12, 12))
        self.assertAlmostEqual(0.02 + 2.17881 * 0.02, found.high, 6)

    def test_a_host_unlike_the_others_is_taken_out(self):
        hosts = {str(number): host(number, [0.0, 0.02]) for number in range(10)}
        found = pooling.pool(hosts | {"wild": host(10, [0.0, 1.0]), "wilder": host(11, [0.0, 9.0])})
        self.assertEqual({"wild", "wilder"}, found.apart)
        self.assertEqual(set(hosts), set(found.spreads))
        self.assertAlmostEqual(0.02 / math.sqrt(2), found.spreads["0"].sd)

    def test_critical_values_of_cochran(self):
        """ISO 5725-2, table of C at 1 %: ten laboratories with 2, 3 and 6 results each."""
        for freedom, table in ((1, 0.718), (2, 0.536), (5, 0.357)):
            chances = [
                10 * pooling.beta_tail(table + move, freedom / 2, 9 * freedom / 2) for move in (-0.001, 0.001)
            ]
            self.assertTrue(chances[1] < 0.01 < chances[0], (freedom, chances))

    def test_shared_boots_count_once(self):
        """A ring of nine hosts with two pairs each: 9^2 / (9 + 18 / 4) = 6; two hosts with the same pairs: 1."""
        values = [math.sin(number) for number in range(9)]
        ring = {
            str(number): {boot: [values[boot]] * 3 for boot in (number, (number + 1) % 9)} for number in range(9)
        }
        found = pooling.pool(ring)
        self.assertEqual((6, 9), (found.spreads["0"].freedom, found.spreads["0"].hosts))
        same = {0: [0.0] * 3, 1: [0.02] * 3}
        self.assertEqual({}, pooling.pool({"a": same, "b": same}).spreads)

    def test_enough_boots_of_its_own(self):
        many = host(0, [0.01 * (-1) ** index for index in range(10)] + [0.0])
        found = pooling.pool({"many": many, "a": host(2, [0.0, 0.02]), "b": host(3, [0.0, 0.02])})
        self.assertEqual({"a", "b"}, set(found.spreads))
        self.assertEqual((12, 3), (found.spreads["a"].freedom, found.spreads["a"].hosts))

    def test_nothing_to_pool(self):
        for hosts in ({}, {"a": {}}, {"a": host(0, [1, 2])}, {"a": host(0, [1, 2]), "b": host(1, [1])}):
            self.assertEqual(pooling.Pool({}, frozenset()), pooling.pool(hosts))
        still = pooling.pool({"a": host(0, [1, 1]), "b": host(1, [2, 2])})
        self.assertEqual(0.0, still.spreads["a"].sd)


class VerdictTest(testtools.TestCase):
    def test_two_boots_suffice_in_a_fleet_and_not_alone(self):
        """Boots of each host 2 % apart, one host with a loss of 10 %."""
        hosts = {str(number): measured(number, [-0.01, 0.01]) for number in range(11)}
        hosts["slow"] = measured(11, [-0.115, -0.095])
        judged = verdict.judge_hosts(fleet(hosts), [BUDGET])
        verdicts = {name: one.verdict.value for name, [one] in judged.items()}
        self.assertEqual({**dict.fromkeys(hosts, "PASS"), "slow": "FAIL"}, verdicts)
        self.assertIn(
            "; spread of boots pooled over 12 hosts) is beyond a loss of 5.0%", judged["slow"][0].reasons[0]
        )
        for name, results in fleet(hosts).items():
            [one] = verdict.judge_all(results, [BUDGET])
            self.assertEqual(verdict.Verdict.INCONCLUSIVE, one.verdict, name)

    def test_a_single_host_is_judged_as_ever(self):
        results = samples.results({"untuned": 1000.0, "tuned": 900.0}, groups=2, blocks=6)
        [one] = verdict.judge_hosts({"a": results}, [BUDGET])["a"]
        logs = statistics.log_ratios(results.trials, "tuned", "untuned")
        expected = statistics.ratio_of(logs)
        self.assertEqual((1 - expected.high, 1 - expected.low), (one.loss.low, one.loss.high))
        self.assertEqual([one], verdict.judge_all(results, [BUDGET]))
        self.assertIn("two boots only", one.loss.note)

    def test_a_wild_host_says_so(self):
        hosts = {str(number): measured(number, [-0.01, 0.01]) for number in range(11)}
        hosts["wild"] = measured(11, [-0.9, 0.3])
        [one] = verdict.judge_hosts(fleet(hosts), [BUDGET])["wild"]
        self.assertEqual(verdict.Verdict.INCONCLUSIVE, one.verdict)
        self.assertIn("(Cochran's test), so by them alone", one.reasons[0])
        self.assertEqual(verdict.judge_all(fleet(hosts)["wild"], [BUDGET])[0].loss, one.loss)

    def test_a_benchmark_that_only_some_hosts_have(self):
        """Each benchmark is pooled over the hosts that have it; the one alone with fio is judged as ever."""
        hosts = {str(number): measured(number, [-0.01, 0.01]) for number in range(4)}
        hosts["0"] += measured(0, [-0.01, 0.01], benchmark="fio", metric="iops")
        budgets = [BUDGET, budget_file.Budget("fio", "tuned", 0.05, baseline="untuned", optional=True)]
        judged = verdict.judge_hosts(fleet(hosts), budgets)
        self.assertEqual([2, 1, 1, 1], [len(judged[str(number)]) for number in range(4)])
        iperf3, fio = judged["0"]
        self.assertEqual("spread of boots pooled over 4 hosts", iperf3.loss.note)
        self.assertIn("two boots only", fio.loss.note)

    def test_service_cpu_is_pooled_too(self):
        hosts = {str(number): measured(number, [0.0, 0.01], cpu=[0.0, 0.05]) for number in range(12)}
        budget = budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned", max_host_cpu_per_unit=0.25)
        [one] = verdict.judge_hosts(fleet(hosts), [budget])["3"]
        self.assertEqual(verdict.Verdict.PASS, one.verdict, one.reasons)
        self.assertAlmostEqual(math.exp(0.025 + 2.17881 * 0.025) / 5, one.cpu.high, 5)

    def test_one_boot_is_still_too_few(self):
        hosts = {str(number): measured(number, [0.0, 0.01]) for number in range(12)}
        logs = {"benchmark": "iperf3", "group": 990}
        single = [
            samples.trial(arm=arm, value=value, block=block, order=2 * block + (arm == "tuned"), **logs)
            for block in range(6)
            for arm, value in (("untuned", 1000.0), ("tuned", 500.0))
        ]
        [one] = verdict.judge_hosts(fleet(hosts | {"single": single}), [BUDGET])["single"]
        self.assertEqual(verdict.Verdict.INCONCLUSIVE, one.verdict)
        self.assertIn("one boot only", one.reasons[0])


class CoverageTest(testtools.TestCase):
    """Simulated fleets in small; ``python -m tests.benchmarks.pooling`` has more of them. Seeds are fixed."""

    def test_promises(self):
        for case in (
            simulated.Case(10, ring=False, heavy=False, unequal=True),
            simulated.Case(10, ring=True, heavy=True, unequal=False),
        ):
            before, now = simulated.shares(case, 0.01, 300)
            self.assertTrue(now.covered >= simulated.LEAST_COVERED, (case, now))
            self.assertTrue(now.none <= simulated.MOST_WRONG, (case, now))
            self.assertTrue(before.found < 0.4 and now.found > 0.8, (case, before, now))
