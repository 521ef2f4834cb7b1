# SPDX-License-Identifier: Apache-2.0
"""Verdicts on the hosts of a recorded run: slow ones, broken budgets, and trials that failed or do not count."""

import dataclasses
import re

from nova_perf_tuning.validation.judge import budget_file, fleet, fleet_places, verdict
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.results import reasons
from tests.support import samples, testcase

V, C = verdict.Verdict, reasons.ReasonCode
BUDGET = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")]
LAX = [dataclasses.replace(BUDGET[0], max_loss=0.15)]
run = samples.fleet


def judged(data, budgets=()):
    """Return host -> its verdict, where it is not PASS, with the code of its first reason."""
    _, verdict = fleet.judge(data, budgets)
    return {
        host.host: (host.verdict, host.details[0].codes[0])
        for host in verdict.hosts
        if host.verdict != V.PASS
    }


def of(*hosts, factor=None, arms=("untuned", "tuned")):
    """Return what gives pairs with ``hosts`` another figure."""
    return lambda pair, arm, _: factor if set(hosts) & set(pair) and arm in arms else 1


class LostTrialsTest(testcase.TestCase):
    """Whose fault trials are that failed, are missing or do not count."""

    def test_lost_trials_are_laid_to_the_host_at_fault(self):
        dead = (V.INVALID, C.HOST_LOST_TRIALS)
        for name, data, expected in (
            ("one dead host spoils no peer's verdict", run(of("h2")), {"h2": dead}),
            (
                "what is left of a host that fails nearly always is a selection",
                run(
                    lambda pair, _, block: (
                        None if "h2" in pair and ("h3" not in pair or block) else 1
                    ),
                    peers=4,
                ),
                {"h2": dead},
            ),
            (
                "few that fail are no fault",
                run(lambda pair, _, block: None if block == 3 else 1),
                {},
            ),
            (
                "nobody is named where all fail",
                run(lambda *_: None),
                {f"h{number}": dead for number in range(6)},
            ),
            (
                "an arm is missing with a host",
                run(of("h2", factor="", arms=["tuned"]), peers=4),
                {"h2": dead},
            ),
            (
                "in one pair",
                run(lambda pair, arm, _: "" if pair == ("h2", "h3") and arm == "tuned" else 1),
                {},
            ),
            (
                "only measured with dead hosts",
                run(of("h2", "h4")),
                {"h2": dead, "h3": dead, "h4": dead},
            ),
            (
                "a path between good hosts",
                run(lambda pair, *_: None if pair == ("h2", "h3") else 1),
                {},
            ),
            (
                "alone",
                run(lambda pair, *_: None if pair[0] == "h2" else 1, benchmark="cpu"),
                {"h2": dead},
            ),
        ):
            cpu = [dataclasses.replace(BUDGET[0], benchmark="cpu", metric="throughput")]
            for some in ((), cpu if name == "alone" else BUDGET):
                with self.subTest(name, budgets=some):
                    self.assertEqual(expected, judged(data, some))

    def test_what_was_left_out_gives_no_verdict_of_a_budget(self):
        """Each boot lost too much in one arm or the other, of which each by itself lost little."""

        def alternately(pair, arm, block):
            even = int(pair[0].removeprefix("h")) % 2 == 0
            return None if block < 2 and (arm == "tuned") is even else 1

        data = run(alternately)
        expected = {f"h{number}": (V.INVALID, C.HOST_LOST_TRIALS) for number in range(6)}
        for budgets in (BUDGET, LAX, ()):
            with self.subTest(budgets=budgets):
                self.assertEqual(expected, judged(data, budgets))

    def test_an_arm_that_no_host_has_makes_all_invalid(self):
        every = [f"h{number}" for number in range(6)]
        missing = dict.fromkeys(every, (V.INVALID, C.HOST_LOST_TRIALS))

        def of_one_block(_pair, arm, block):
            return "" if block or arm == "tuned" else 1

        for name, data in (
            ("the arm", run(of(*every, factor="", arms=["tuned"]))),
            ("without a peer", run(of(*every, factor="", arms=["tuned"]), benchmark="cpu")),
            ("its only block", run(of_one_block)),
        ):
            for budgets in ((), BUDGET):
                with self.subTest(name, budgets=budgets):
                    self.assertEqual(missing, judged(data, budgets))

    def test_a_benchmark_without_any_trial_makes_all_invalid(self):
        data = run()
        known = data.environment
        for kind in ("cpu", "fio", "packets"):
            with self.subTest(kind):
                benchmarks = {**known.benchmarks, kind: environments.RecordedBenchmark(kind)}
                environment = dataclasses.replace(known, benchmarks=benchmarks)
                found = judged(dataclasses.replace(data, environment=environment))
                expected = {f"h{number}": (V.INVALID, C.HOST_LOST_TRIALS) for number in range(6)}
                self.assertEqual(expected, found)

    def test_all_blocks_of_a_benchmark_without_any_trial_are_missing(self):
        data = run()
        benchmarks = {**data.environment.benchmarks, "fio": environments.RecordedBenchmark("fio")}
        for blocks, missing in ((6, "12 of 12"), (None, "2 of 2")):
            with self.subTest(blocks):
                environment = dataclasses.replace(
                    data.environment, benchmarks=benchmarks, blocks=blocks
                )
                _, verdict = fleet.judge(dataclasses.replace(data, environment=environment), ())
                words = " ".join(verdict.hosts[0].reasons)
                self.assertIn(f"{missing} trials of 'untuned'", words)

    def test_a_zero_is_lost_where_more_is_better(self):
        every = [f"h{number}" for number in range(6)]
        lost = (V.INVALID, C.HOST_LOST_TRIALS)
        cpu = [budget_file.Budget("iperf3", "tuned", max_host_cpu_per_unit=0.1)]
        for name, hosts, arms, budgets in (
            ("everywhere", every, ["untuned", "tuned"], ()),
            ("in one arm", every, ["tuned"], ()),
            ("in an arm whose service CPU is limited, too", every, ["tuned"], cpu),
        ):
            with self.subTest(name):
                data = run(of(*hosts, factor=0, arms=arms))
                self.assertEqual(dict.fromkeys(hosts, lost), judged(data, budgets))
                _, verdict = fleet.judge(data, budgets)
                self.assertIn(
                    "12 of 12 trials of 'tuned' gave 0", " ".join(verdict.hosts[0].reasons)
                )
        self.assertEqual({"h2": lost}, judged(run(of("h2", factor=0), peers=4)))
        few = run(lambda _pair, _arm, block: 0 if block == 3 else 1)
        self.assertEqual({}, judged(few), "few are no fault")
        best = run(of(*every, factor=0), better="lower")
        _, verdict = fleet.judge(best, ())
        self.assertEqual(
            {None}, {host.verdict for host in verdict.hosts}, "no host is lost, none is compared"
        )

    def test_what_lost_trials_leave_may_compare_nobody(self):
        data = run(
            lambda pair, *_: 1 if pair in (("h0", "h1"), ("h1", "h2")) else None,
            peers=4,
            benchmark="cpu",
        )
        self.assertEqual(
            {f"h{number}": (V.INVALID, C.HOST_LOST_TRIALS) for number in range(6)}, judged(data)
        )

    def test_a_host_without_any_result(self):
        self.assertEqual(
            {"h2": (V.INVALID, C.NO_RESULT)}, judged(run(of("h2", factor=""), peers=4))
        )

    def test_a_slow_host_that_met_one_peer_alone_is_uncertain(self):
        data = run(lambda pair, *_: {("h1", "h2"): 0.7, ("h2", "h3"): ""}.get(pair, 1))
        self.assertEqual({"h2": (V.INCONCLUSIVE, C.MAYBE_SLOW)}, judged(data))

    def test_two_hosts_without_a_budget_have_no_verdict(self):
        data = run()
        known = data.environment.fleet
        environment = dataclasses.replace(
            data.environment, fleet=dataclasses.replace(known, pairs=known.pairs[:1])
        )
        changed, verdict = fleet.judge(dataclasses.replace(data, environment=environment), [])
        self.assertEqual((None, None), (verdict.whole, changed.environment.fleet.verdict))
        self.assertEqual(
            {"h0": None, "h1": None}, {host.host: host.verdict for host in verdict.hosts}
        )

    def test_what_was_left_out_is_not_measured(self):
        data, verdict = fleet.judge(run(of("h2")), [])
        self.assertEqual([1, 0, 1, 2], [host.measured for host in verdict.hosts[1:5]])
        self.assertEqual("INVALID", data.environment.fleet.verdict)

    def test_a_host_without_an_agent_leaves_its_peers_their_budget(self):
        data = run(
            peers=4,
            work=10.0,
            work_unit="Gbit",
            host_cpu_s={"vcpu": 4.0, "vhost": 0.4, "total": 4.4},
        )
        hosts = {pair.number: {pair.client, pair.server} for pair in data.environment.fleet.pairs}
        trials = [
            dataclasses.replace(trial, host_cpu_s={"vcpu": 4.0})
            if "h2" in hosts[trial.boot]
            else trial
            for trial in data.trials
        ]
        budgets = [budget_file.Budget("iperf3", "tuned", max_host_cpu_per_unit=0.1)]
        found = judged(dataclasses.replace(data, trials=trials), budgets)
        self.assertEqual({"h2": (V.INVALID, C.HOST_LOST_TRIALS)}, found)
        for lost, codes in (
            (dataclasses.replace(data, trials=trials), [C.HOST_LOST_TRIALS, C.NO_SERVICE_CPU]),
            (run(of("h2"), peers=4), [C.HOST_LOST_TRIALS]),
        ):
            _, verdict = fleet.judge(lost, budgets if C.NO_SERVICE_CPU in codes else BUDGET)
            [sick] = [host for host in verdict.hosts if host.host == "h2"]
            self.assertEqual(codes, sick.details[0].codes)

    def test_the_counts_are_of_the_boots_that_lost_too_many(self):
        """Trials of a boot that counts are not among them: 1 of 6 is not beyond a limit of 20 %."""
        data = run(lambda pair, *_: None if "h2" in pair and "h3" not in pair else 1, peers=4)
        _, verdict = fleet.judge(data, BUDGET)
        [sick] = [host for host in verdict.hosts if host.host == "h2"]
        self.assertEqual([C.HOST_LOST_TRIALS], sick.details[0].codes)
        [counts] = re.findall(r"(\d+) of (\d+) trials", sick.reasons[0])
        self.assertEqual(counts[1], counts[0])

    def test_the_best_figure_needs_its_service_cpu_too(self):
        data = run(lambda *_: 0, better="lower", host_cpu_s={"vcpu": 4.0})
        budgets = [budget_file.Budget("iperf3", "tuned", max_host_cpu_per_unit=0.1)]
        lost = (V.INVALID, C.HOST_LOST_TRIALS)
        self.assertEqual({f"h{number}": lost for number in range(6)}, judged(data, budgets))


class OrderOfPassesTest(testcase.TestCase):
    """Each pass of the judgement sees only what the one before it has left."""

    def test_hosts_are_compared_by_what_lost_trials_leave(self):
        def slow_where_it_works(pair, _, block):
            if "h2" not in pair:
                return 1
            return None if block else 0.5

        found = judged(run(slow_where_it_works, peers=4))
        self.assertEqual({"h2": (V.INVALID, C.HOST_LOST_TRIALS)}, found)

    def test_a_host_beyond_a_budget_is_left_out_of_the_judgement_of_all_pairs(self):
        data = run(of("h2", factor=0.86, arms=["tuned"]), peers=4)
        self.assertEqual({"h2": (V.FAIL, C.HOST_BEYOND)}, judged(data, BUDGET))

    def test_an_invalid_host_gets_no_verdict_of_a_budget(self):
        def with_h3_only(pair, arm, _):
            if "h2" in pair and "h3" not in pair:
                return None
            return 0.8 if arm == "tuned" else 1

        words = {
            host: word for host, (word, _) in judged(run(with_h3_only, peers=4), BUDGET).items()
        }
        every = dict.fromkeys((f"h{number}" for number in range(6)), V.FAIL)
        self.assertEqual({**every, "h2": V.INVALID}, words)


class BudgetTest(testcase.TestCase):
    def test_two_peers_are_enough(self):
        """Of each host they are two boots, of the fleet six."""
        every = [f"h{number}" for number in range(6)]
        uncertain = dict.fromkeys(every, V.INCONCLUSIVE)
        for name, data, budgets, expected in (
            ("met", run(), BUDGET, {}),
            (
                "broken by all",
                run(of(*every, factor=0.8, arms=["tuned"])),
                BUDGET,
                dict.fromkeys(every, V.FAIL),
            ),
            ("broken by one", run(of("h2", factor=0.7, arms=["tuned"])), LAX, {"h2": V.FAIL}),
            (
                "noise may explain it",
                run(of("h2", factor=0.93, arms=["tuned"])),
                BUDGET,
                uncertain,
            ),
        ):
            with self.subTest(name):
                verdicts = {host: word for host, (word, _) in judged(data, budgets).items()}
                self.assertEqual(expected, verdicts)

    def test_a_host_that_meets_every_budget_has_no_reason(self):
        """And each block counts once; what guests reach of bare hosts is not known without those."""
        data = run()
        _, verdict = fleet.judge(data, BUDGET)
        self.assertEqual({()}, {tuple(host.reasons) for host in verdict.hosts})
        self.assertEqual((36, {}), (verdict.judgements[0].loss.n, verdict.of_bare))

    def test_one_host_beyond_a_budget_does_not_decide_for_its_peers(self):
        """It is not slow beside others, but its loss would leave the budget of all undecided."""
        data = run(of("h2", factor=0.86, arms=["tuned"]))
        self.assertEqual({"h2": (V.FAIL, C.HOST_BEYOND)}, judged(data, BUDGET))

    def test_what_guests_reach_of_bare_hosts(self):
        """In the worst figure of each host, by budgets of loss against the host itself."""
        data = run(of("h2", factor=0.9, arms=["tuned"]))
        bare = [dataclasses.replace(trial, arm="host", value=1000.0) for trial in data.trials[::2]]
        data = dataclasses.replace(data, trials=[*data.trials, *bare])
        budgets = [budget_file.Budget("iperf3", "tuned", 0.15), *LAX]
        _, verdict = fleet.judge(data, budgets)
        expected = {f"h{number}": 0.9 if number == 2 else 1.0 for number in range(6)}
        self.assertEqual(
            expected, {host: round(share, 1) for host, share in verdict.of_bare.items()}
        )
        self.assertEqual({}, fleet.judge(data, LAX)[1].of_bare)

    def test_a_budget_of_loss_needs_no_agent(self):
        self.assertEqual({}, judged(run(host_cpu_s={}), BUDGET))

    def test_one_host_beyond_a_budget_of_cpu(self):
        """What the other arm costs is not limited."""
        data = run(work=10.0, work_unit="Gbit", peers=4)
        hosts = {pair.number: {pair.client, pair.server} for pair in data.environment.fleet.pairs}
        for trial in data.trials:
            sick = trial.arm == "untuned" or "h2" in hosts[trial.boot]
            vhost = (2.0 if sick else 0.4) * (1 + 0.02 * (trial.block % 3))
            trial.host_cpu_s = {"vcpu": 4.0, "vhost": vhost, "total": 4.0 + vhost}
        budgets = [budget_file.Budget("iperf3", "tuned", max_host_cpu_per_unit=0.06)]
        self.assertEqual({"h2": (V.FAIL, C.HOST_BEYOND)}, judged(data, budgets))
        _, verdict = fleet.judge(data, budgets)
        [reason] = [
            reason for host in verdict.hosts if host.host == "h2" for reason in host.reasons
        ]
        self.assertRegex(reason, r"0\.20")

    def test_one_host_beyond_an_absolute_limit(self):
        """The figures of the other arm are not limited."""
        data = run(of("h2", factor=0.86, arms=["tuned"]), peers=4)
        for name, budget, expected in (
            ("least", {"min_value": "980 Mbit/s"}, {"h2": (V.FAIL, C.HOST_BEYOND)}),
            ("least that all reach", {"min_value": "500 Mbit/s"}, {}),
            ("most", {"max_value": "2 Gbit/s"}, {}),
        ):
            with self.subTest(name):
                budgets = [budget_file.Budget("iperf3", "tuned", **budget)]
                self.assertEqual(expected, judged(data, budgets))

    def test_figures_of_a_slow_host_are_those_of_its_pairs(self):
        factors = {("h1", "h2"): 0.7, ("h2", "h3"): 0.6}
        _, verdict = fleet.judge(run(lambda pair, *_: factors.get(pair, 1)), [])
        [slow] = [host for host in verdict.hosts if host.host == "h2"]
        self.assertEqual((V.FAIL, C.SLOW), (slow.verdict, slow.details[0].codes[0]))
        self.assertIn("by 30% to 40% in all its pairs", slow.reasons[0])


class PlacesTest(testcase.TestCase):
    def test_hosts_that_a_trial_ran_on(self):
        """What a benchmark without a peer measured is about one host; of a boot that nobody knows, nobody's."""
        for benchmark, expected in (("iperf3", ("h1", "h2")), ("cpu", ("h1", None))):
            with self.subTest(benchmark):
                data = run(benchmark=benchmark)
                places = fleet_places.Places(data.environment)
                [trial, *_] = [trial for trial in data.trials if trial.boot == 1]
                self.assertEqual(expected, places.ran_on(trial))
                self.assertEqual(("", None), places.ran_on(dataclasses.replace(trial, boot=99)))


class CostTest(testcase.TestCase):
    def test_service_cpu(self):
        data = run(
            work=10.0,
            work_unit="Gbit",
            host_cpu_s={"vcpu": 4.0, "vhost": 0.4, "total": 4.4},
            peers=4,
        )
        data.trials[0].host_cpu_s = {"vcpu": 4.0, "total": 3.99}  # counters lag a little
        data.trials[1].host_cpu_s = {}
        for limit, verdicts in ((0.05, {V.PASS}), (0.03, {V.FAIL})):
            with self.subTest(limit):
                budgets = [budget_file.Budget("iperf3", "tuned", max_host_cpu_per_unit=limit)]
                self.assertEqual(
                    verdicts, {host.verdict for host in fleet.judge(data, budgets)[1].hosts}
                )

    def test_budgets_of_which_none_is_for_the_run_are_not_met(self):
        """Hosts are compared with each other all the same; but that is not what was asked."""
        gold = [dataclasses.replace(LAX[0], host_group="gold")]
        changed, verdict = fleet.judge(run(), gold)
        self.assertEqual("INVALID", changed.environment.fleet.verdict)
        self.assertEqual(
            {C.NO_BUDGET_APPLIES}, {host.details[0].codes[0] for host in verdict.hosts}
        )
        for budgets in ([], [dataclasses.replace(gold[0], optional=True)], [*gold, *LAX]):
            with self.subTest(budgets):
                changed, _ = fleet.judge(run(), budgets)
                self.assertEqual("PASS", changed.environment.fleet.verdict)
