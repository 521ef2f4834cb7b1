"""Verdicts: where the interval lies, and what cannot be judged at all."""

import dataclasses
import math
import os
import time

import fixtures
import testtools

from nova_perf_tuning import errors
from nova_perf_tuning.budget import budget_file, model, presence, schema, verdict
from tests.unit.budget import samples

V = verdict.Verdict


def judged(data, **changes):
    fields = {"benchmark": "iperf3", "arm": "tuned", "max_loss": 0.15, **changes}
    return verdict.judge(data, budget_file.Budget(**fields))


class JudgeTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results({"host": 1000.0, "untuned": 800.0, "tuned": 900.0}, groups=3, blocks=6)

    def test_where_the_interval_lies(self):
        """The true loss is 10 %; the interval spans about two points."""
        for limit, expected in ((0.15, V.PASS), (0.05, V.FAIL), (0.10, V.INCONCLUSIVE), (-0.5, V.FAIL)):
            found = judged(self.data, max_loss=limit)
            self.assertEqual(expected, found.verdict, found.reasons)
            self.assertTrue(found.loss.low < 0.10 < found.loss.high)

    def test_an_arm_that_never_booted_was_not_left_out(self):
        """Neither as the judged arm nor as the baseline: with one boot of four it would be INVALID as well."""
        shipped = budget_file.load("default")
        environment = {"accelerator": "kvm", "arms": {"untuned": {}, "tuned": {}}, "benchmarks": {"iperf3": {}}}
        bad = samples.results({"host": 1000.0, "untuned": 990.0, "tuned": 900.0}, groups=4, blocks=4, noise=0.005)
        bad.environment.update(environment)
        self.assertEqual(V.FAIL, verdict.overall(verdict.judge_all(bad, shipped)))
        for arm in ("untuned", "tuned"):
            left = [one for one in bad.trials if one.arm != arm]
            for told in (
                {},
                {"arms": {}, "errors": [{"group": 0, "arm": arm, "error": "no guest: it did not boot"}]},
            ):
                found = verdict.judge_all(
                    dataclasses.replace(bad, trials=left, environment={**bad.environment, **told}), shipped
                )
                self.assertEqual(V.INVALID, verdict.overall(found), (arm, told))

    def test_the_benchmark_says_by_what_it_is_judged(self):
        """Whatever stands first in the trials; other versions' figures have to be named."""
        bad = samples.results({"host": 1000.0, "tuned": 500.0}, groups=3, blocks=6)
        invented = [
            dataclasses.replace(one, metric="goodness", value=1 + index / 1e4)
            for index, one in enumerate(bad.trials)
        ]
        bad.trials = [*invented, *bad.trials]
        found = judged(bad)
        self.assertEqual(V.FAIL, found.verdict, found.reasons)
        bad.trials = invented
        found = judged(bad)
        self.assertEqual(V.INVALID, found.verdict)
        self.assertIn("metric 'throughput' was not measured; iperf3 has goodness; name one of", found.reasons[0])
        self.assertEqual(V.PASS, judged(bad, metric="goodness").verdict)

    def test_a_benchmark_that_is_not_known_here_and_judges_nothing(self):
        data = samples.results({"host": 1000.0, "tuned": 950.0}, groups=3, blocks=6)
        data.trials = [dataclasses.replace(one, benchmark="own", primary=False) for one in data.trials]
        for metric, word in ((None, V.INVALID), ("throughput", V.PASS)):
            budget = budget_file.Budget("own", "tuned", 0.15, metric=metric)
            found = verdict.judge(data, budget)
            self.assertEqual(word, found.verdict, found.reasons)
            self.assertEqual(
                metric is None,
                found.reasons[0] == "own is not known here, and its results say of no metric that it is judged; "
                "name one of them as the budget's metric: throughput",
            )

    def test_no_cpu_gives_more_than_all_its_time(self):
        """A window of the samples is 5 s; counters may lag by ticks, and guests are asked around it."""
        known = {"cpus": 2, "guest": {"vcpus": 2}}
        for name, seconds, expected in (
            ("total", 10.3, V.PASS),
            ("total", 12.5, V.INVALID),
            ("softirq", 3e8, V.INVALID),
            ("guest_cpu_s", 20.5, V.PASS),
            ("guest_cpu_s", 1e6, V.INVALID),
        ):
            data = samples.results({"host": 1000.0, "tuned": 900.0}, groups=3, blocks=6, **known)
            one = data.trials[7]
            self.assertEqual("tuned", one.arm)
            if name == "guest_cpu_s":
                one.guest_cpu_s = seconds
            else:
                one.host_cpu_s = {**one.host_cpu_s, name: seconds}
            found = judged(data)
            self.assertEqual(expected, found.verdict, (name, seconds, found.reasons))
            if expected is V.INVALID:
                self.assertIn(f"{name} is {seconds:.2f} s in a window of 5.00 s of", found.reasons[0])
            for unknown in ({}, {"cpus": "2", "guest": 7}):
                data.environment = {**unknown, "arms": {}}
                self.assertEqual(V.PASS, judged(data).verdict)

    def test_many_budgets_look_at_the_trials_once(self):
        """CPU time; budget by budget it would be some ten times as long."""
        data = samples.results({"host": 1000.0, "tuned": 900.0}, groups=20, blocks=100)
        budgets = [budget_file.Budget("iperf3", "tuned", 0.15 + index / 1e4) for index in range(1000)]
        began = time.process_time()
        found = verdict.judge_all(data, budgets)
        self.assertTrue(time.process_time() - began < 4)
        self.assertEqual({V.PASS}, {one.verdict for one in found})

    def test_a_demanded_gain(self):
        self.assertEqual(V.PASS, judged(self.data, baseline="untuned", max_loss=-0.05).verdict)
        self.assertEqual(V.FAIL, judged(self.data, baseline="untuned", max_loss=-0.20).verdict)

    def test_too_few_pairs_are_inconclusive_whatever_the_figure(self):
        few = samples.results({"host": 1000.0, "tuned": 999.0}, groups=1, blocks=5)
        found = judged(few)
        self.assertEqual(V.INCONCLUSIVE, found.verdict)
        self.assertIn("n too small: 5 of at least 6", found.reasons[0])

    def test_service_cpu(self):
        """Service CPU of the samples is 1 s for 5 Gbit."""
        for limit, expected in ((0.3, V.PASS), (0.1, V.FAIL)):
            found = judged(self.data, max_host_cpu_per_unit=limit)
            self.assertEqual((expected, "Gbit"), (found.verdict, found.unit))
            self.assertAlmostEqual(0.2, found.cpu.value)
        self.assertEqual(2, len(found.reasons))

    def test_service_cpu_alone(self):
        """Whatever the loss, and with no noise floor in the way: that is one of losses."""
        self.data.environment["noise_floor"] = {"created": "x", "losses": {"iperf3": {"throughput": 0.9}}}
        for limit, expected in ((0.3, V.PASS), (0.1, V.FAIL)):
            found = judged(self.data, max_loss=None, max_host_cpu_per_unit=limit)
            self.assertEqual((expected, None, expected is V.FAIL), (found.verdict, found.loss, found.by_cpu))
            self.assertTrue(found.deciding.startswith("service CPU "), found.deciding)
        for one in self.data.trials:
            one.work = None
        found = judged(self.data, max_loss=None, max_host_cpu_per_unit=0.3)
        self.assertEqual((V.INVALID, None), (found.verdict, found.cpu))

    def test_service_cpu_alone_needs_no_baseline(self):
        """Neither one that was measured, nor one that did not fail."""
        data = model.Results(self.data.environment, [one for one in self.data.trials if one.arm == "tuned"])
        for limit, expected in ((0.3, V.PASS), (0.1, V.FAIL)):
            budget = budget_file.Budget("iperf3", "tuned", max_host_cpu_per_unit=limit, optional=True)
            [found] = verdict.judge_all(data, [budget])
            self.assertEqual(expected, found.verdict, found.reasons)

    def test_a_certain_loss_is_no_less_certain_where_cpu_was_not_counted(self):
        """As two budgets with a limit each have it."""
        for one in self.data.trials:
            one.work = None
        found = judged(self.data, baseline="untuned", max_loss=-0.2, max_host_cpu_per_unit=1.0)
        self.assertEqual((V.FAIL, [V.FAIL, V.INVALID]), (found.verdict, [word for word, _ in found.told]))
        self.assertIn("loss", found.deciding.replace("gain", "loss"))
        met = judged(self.data, max_host_cpu_per_unit=1.0)
        self.assertEqual(V.INVALID, met.verdict)

    def test_each_figure_has_its_own_verdict(self):
        found = judged(self.data, max_host_cpu_per_unit=0.1)
        self.assertEqual(([V.PASS, V.FAIL], V.FAIL), ([word for word, _ in found.told], found.verdict))
        self.assertIn("service CPU", found.deciding)
        self.assertEqual(judged(self.data).reasons[0], judged(self.data).deciding)

    def test_gains_are_told_as_gains(self):
        gain = samples.results({"untuned": 800.0, "tuned": 1200.0}, groups=3, blocks=6)
        for limit, expected, told in (
            (0.1, V.PASS, r"^gain \d\d.\d% \(95% interval [34]\d.\d% to [56]\d.\d%\) is within a loss of 10.0%$"),
            (-0.2, V.PASS, r"^gain \d\d.\d% \(.*\) meets the demanded gain of 20.0%$"),
            (-0.9, V.FAIL, r"^gain \d\d.\d% \(.*\) misses the demanded gain of 90.0%$"),
        ):
            found = judged(gain, baseline="untuned", max_loss=limit)
            self.assertEqual(expected, found.verdict)
            self.assertRegex(found.reasons[0], told)
        wild = samples.results({"untuned": 1000.0, "tuned": 1000.0}, groups=3, blocks=6, noise=0.3)
        self.assertRegex(
            judged(wild, baseline="untuned", max_loss=0.01).reasons[0],
            r"^(gain|loss) \d+.\d% \(95% interval gain \d+.\d% to loss \d+.\d%\) includes the limit, a loss of 1",
        )

    def test_another_confidence_than_the_budgets_is_explained(self):
        self.assertNotIn("look", judged(self.data).reasons[0])
        for share, shown in ((0.5, "97.5%"), (0.01, "99.95%")):
            self.data.environment["looks"] = [{"groups": 3, "share": share}]
            told = judged(self.data).reasons[0]
            self.assertIn(f"({shown} interval", told)
            self.assertIn(f"; {shown} at this look, so that 95% holds over all looks at the run)", told)

    def test_service_cpu_that_nobody_measured_is_invalid(self):
        for one in self.data.trials:
            one.host_cpu_s = {}
        self.assertEqual(V.INVALID, judged(self.data, max_host_cpu_per_unit=1.0).verdict)
        self.assertEqual(V.PASS, judged(self.data).verdict)

    def test_service_cpu_of_a_few_trials_is_invalid(self):
        mine = [one for one in self.data.trials if one.arm == "tuned"]
        for one in mine[:3]:
            one.host_cpu_s = {}
        self.assertEqual(V.PASS, judged(self.data, max_host_cpu_per_unit=0.3).verdict)
        mine[3].work = None
        found = judged(self.data, max_host_cpu_per_unit=0.3)
        self.assertEqual(V.INVALID, found.verdict)
        self.assertIn("4 of 18 trials of 'tuned' have no CPU counters or no count of work", found.reasons[-1])
        self.assertIsNone(found.cpu)
        self.assertEqual(V.PASS, judged(self.data).verdict)

    def test_optional_budgets_of_what_was_planned(self):
        """Left out is what nobody asked for; a benchmark that never worked was asked for."""
        budgets = [budget_file.Budget(kind, "tuned", 0.3, optional=True) for kind in ("iperf3", "fio", "cpu")]
        self.data.environment["benchmarks"] = {"iperf3": {"kind": "iperf3"}, "fio:bs=4k": {"kind": "fio"}}
        found = verdict.judge_all(self.data, budgets)
        self.assertEqual(["iperf3", "fio:bs=4k"], [one.budget.benchmark for one in found])
        self.assertEqual([V.PASS, V.INVALID], [one.verdict for one in found])
        self.assertEqual("benchmark 'fio:bs=4k' was not measured; the results have iperf3", found[1].reasons[0])
        other = samples.results({"host": 1000.0, "tuned": 900.0}, groups=3, blocks=6)
        for one in other.trials:
            one.benchmark = "fio:bs=4k"
        found = verdict.judge_hosts({"a": self.data, "b": other}, budgets)
        self.assertEqual(["iperf3"], [one.budget.benchmark for one in found["a"]])

    def test_invalid(self):
        for changes, told in (
            ({"benchmark": "fio"}, "benchmark 'fio' was not measured; the results have iperf3"),
            ({"arm": "guest"}, "arm 'guest' was not measured; the results have host, tuned, untuned"),
            ({"baseline": "metal"}, "arm 'metal' was not measured; the results have host, tuned, untuned"),
            ({"metric": "jitter"}, "metric 'jitter' was not measured; iperf3 has throughput"),
            ({"accelerator": "kvm"}, "guests ran on unknown, the budget is for kvm"),
        ):
            found = judged(self.data, **changes)
            self.assertEqual((V.INVALID, (told,)), (found.verdict, found.reasons))

    def test_accelerator_as_declared(self):
        self.data.environment["accelerator"] = "kvm"
        self.assertEqual(V.PASS, judged(self.data, accelerator="kvm").verdict)

    def test_guests_that_could_not_say_what_they_run_on(self):
        self.data.environment["accelerator"] = "kvm"
        self.data.environment["arms"]["untuned"]["virtualization"] = "unknown"
        self.assertEqual(V.PASS, judged(self.data, accelerator="kvm").verdict, "another arm")
        self.data.environment["arms"]["tuned"]["virtualization"] = "unknown"
        found = judged(self.data, accelerator="kvm")
        self.assertEqual(V.INVALID, found.verdict)
        self.assertIn("what guests of 'tuned' run on could not be read", found.reasons[0])
        self.assertEqual(V.PASS, judged(self.data).verdict)

    def test_guests_that_are_not_what_was_asked_for(self):
        """The figures are those of other guests; a slow clock is a pity, but theirs."""
        arms = self.data.environment["arms"]
        arms["untuned"]["findings"] = ["client: eth0: 1 of 4 queues are enabled"]
        arms["tuned"]["findings"] = [
            "client: its clock source is hpet; every reading of the clock leaves the guest",
            "queues of virtio NICs have 2 interrupts, 4 queue pairs need 8; queues share vectors",
            "what it runs on could not be read: it said nothing",
        ]
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.assertEqual(V.INVALID, judged(self.data, baseline="untuned").verdict)
        arms["tuned"]["findings"] += ["client: eth0: 1 of 4 queues are enabled", "vda: the disk has 1"]
        told = "guests of 'tuned' are not what was asked for: client: eth0: 1 of 4 queues are enabled (and 1 more)"
        self.assertEqual((told,), judged(self.data).reasons)

    def test_failed_trials_make_a_selection(self):
        for one in [one for one in self.data.trials if one.arm == "tuned"][:4]:
            one.value, one.error = None, "guest lost"
        found = judged(self.data)
        self.assertEqual(
            (V.INVALID, ("4 of 18 trials of 'tuned' failed (limit 20%)",)), (found.verdict, found.reasons)
        )

    def test_trials_that_gave_nothing_have_no_ratio(self):
        """Left out in silence they would leave a selection of the good ones."""
        mine = [one for one in self.data.trials if one.arm == "tuned"]
        for one in mine[:4]:
            one.value = 0.0
        [told] = judged(self.data).reasons
        self.assertEqual("4 of 18 trials of 'tuned' failed or gave 0, which has no ratio (limit 20%)", told)
        mine[0].value = 900.0
        self.assertEqual(V.PASS, judged(self.data, max_loss=0.3).verdict)

    def test_boots_that_failed_count(self):
        """They leave no trial, and the boots that are left are those that went well."""
        for groups, lost, expected in ((4, 1, V.INVALID), (6, 1, V.PASS)):
            data = samples.results({"untuned": 800.0, "tuned": 900.0}, groups=groups, blocks=6)
            data.trials = [one for one in data.trials if (one.arm, one.group) != ("tuned", 0)]
            data.environment["errors"] = [{"group": 0, "arm": "tuned", "error": "no boot"}] * lost
            found = judged(data, baseline="untuned")
            self.assertEqual(expected, found.verdict, found.reasons)
        [told] = judged(self._without_group("tuned"), baseline="untuned").reasons
        self.assertEqual("6 of 18 trials of 'tuned' failed or are missing (limit 20%)", told)
        [told] = judged(self._without_group("untuned"), baseline="untuned").reasons
        self.assertEqual("6 of 18 trials of 'untuned' failed or are missing (limit 20%)", told)

    def test_boots_without_any_trial_count(self):
        data = samples.results({"untuned": 800.0, "tuned": 900.0}, groups=3, blocks=6)
        data.environment["errors"] = [{"group": 3, "arm": "tuned", "error": "no boot"}]
        [told] = judged(data, baseline="untuned").reasons
        self.assertEqual("6 of 24 trials of 'tuned' failed or are missing (limit 20%)", told)
        for harmless in (
            {"group": 3, "error": "the time limit left room for 0 of 6 blocks"},
            {"group": 3, "arm": "tuned", "benchmark": "iperf3", "error": "warm-up: no"},
            {"group": 1, "arm": "tuned", "error": "booted after all"},
        ):
            data.environment["errors"] = [harmless]
            self.assertEqual(V.PASS, judged(data, baseline="untuned").verdict)

    def test_missing_trials_count(self):
        self.data.trials = [one for one in self.data.trials if one.arm != "tuned" or one.block not in (1, 3)]
        [told] = judged(self.data).reasons
        self.assertEqual("6 of 18 trials of 'tuned' failed or are missing (limit 20%)", told)

    def test_groups_that_the_time_limit_cut_are_sound(self):
        """As far as the session noted it; else only the last one can have been."""
        data = samples.results({"host": 1000.0, "tuned": 950.0}, groups=4, blocks=3)
        data.trials = [one for one in data.trials if one.arm != "tuned" or one.block < 2]
        cut = "the time limit left room for 2 of 3 blocks"
        for groups, lacking in (((), 3), ((0,), 2), ((0.0, 2), 1), ((0, 1, 2), 0), ((0, 1, 2, 3), 0)):
            data.environment["errors"] = [{"group": group, "error": cut} for group in groups]
            self.assertEqual(lacking, presence.missing(data.trials, data.environment, "tuned").count)
        self.assertEqual(V.PASS, judged(data, max_loss=0.3).verdict)
        data.environment["errors"] = []
        [told] = judged(data, max_loss=0.3).reasons
        self.assertEqual("3 of 11 trials of 'tuned' failed or are missing (limit 20%)", told)

    def test_a_last_group_that_was_cut_in_its_first_block_is_sound(self):
        data = samples.results({"host": 1000.0, "tuned": 950.0}, groups=4, blocks=1)
        data.trials = [one for one in data.trials if (one.arm, one.group) != ("tuned", 3)]
        self.assertEqual(V.INCONCLUSIVE, judged(data).verdict)
        data.trials = [one for one in data.trials if (one.arm, one.group) != ("tuned", 1)]
        self.assertEqual(V.INVALID, judged(data).verdict)

    def test_blocks_without_a_counterpart_are_missing(self):
        """Only blocks that both arms have are compared, and what is left of them would be a selection."""
        for shift, expected in ((1, V.PASS), (4, V.INVALID), (7, V.INVALID)):
            data = samples.results({"untuned": 900.0, "tuned": 950.0}, groups=4, blocks=7)
            for one in data.trials:
                one.block += shift * (one.arm == "tuned")
            found = judged(data, baseline="untuned", max_loss=0.3)
            self.assertEqual(expected, found.verdict, found.reasons)
        self.assertIn("of 56 trials of 'tuned' failed or are missing (limit 20%)", found.reasons[0])

    def test_trials_of_the_host_count_like_others(self):
        """Of a fleet it has fewer, dealt out to the guests."""
        self.data.trials = [one for one in self.data.trials if one.arm != "host" or one.block < 3]
        [told] = judged(self.data, max_loss=0.3).reasons
        self.assertEqual("9 of 18 trials of 'host' failed or are missing (limit 20%)", told)
        self.data.environment["fleet"] = {}
        self.assertEqual(V.PASS, judged(self.data, max_loss=0.3).verdict)

    def test_failed_and_rejected_trials_add_up(self):
        for one in self.data.trials:
            if one.arm == "tuned" and one.block == 0:
                one.value, one.error = None, "guest lost"
        self.assertEqual(V.INCONCLUSIVE, judged(self.data, max_loss=0.2).verdict)
        for one in self.data.trials:
            if one.arm == "tuned" and one.block == 1:
                one.conditions = {"steal_share": 0.5}
        [told] = judged(self.data).reasons
        self.assertIn("6 of 18 trials of 'tuned' failed or do not count (limit 20%): steal: ", told)

    def _without_group(self, arm):
        data = samples.results({"untuned": 800.0, "tuned": 900.0}, groups=3, blocks=6)
        data.trials = [one for one in data.trials if (one.arm, one.group) != (arm, 0)]
        return data

    def test_a_gain_of_more_than_ten_times_is_rather_another_unit(self):
        for factor, changes, expected in (
            (8, {}, V.PASS),
            (700, {}, V.INVALID),
            (700, {"max_gain": 1000.0}, V.PASS),
            (8, {"max_gain": 2.0}, V.INVALID),
            (70, {"max_loss": -60.0}, V.PASS),  # who demands so much gets it judged
            (1e-6, {}, V.FAIL),
        ):
            data = samples.results({"host": 1000.0, "tuned": 1000.0 * factor}, groups=3, blocks=6)
            found = judged(data, **changes)
            self.assertEqual(expected, found.verdict, found.reasons)
            self.assertEqual(expected is V.INVALID, "are both in one unit?" in found.reasons[0])

    def test_the_unit_of_work_that_a_limit_is_for(self):
        for unit, expected in (("Gbit", V.PASS), ("Mbit", V.INVALID)):
            found = judged(self.data, max_host_cpu_per_unit=0.3, work_unit=unit)
            self.assertEqual(expected, found.verdict, found.reasons)
        self.assertIn("work was counted in Gbit, the budget's limit is for Mbit", found.reasons[-1])

    def test_counters_that_no_machine_has(self):
        """A lag that one trial may have is none that all have; counters that stand still counted nothing."""
        self.data.environment["accelerator"] = "tcg"
        for spent, told in (
            ({"vcpu": 0.0, "total": 0.0}, "service CPU of 'tuned' was not measured"),
            ({"vcpu": 5.04, "total": 5.0}, "'tuned': counters contradict: service CPU of 18 trials is -0.72 s"),
        ):
            for one in self.data.trials:
                one.host_cpu_s = spent
            found = judged(self.data, max_host_cpu_per_unit=0.3)
            self.assertEqual(V.INVALID, found.verdict, found.reasons)
            self.assertIn(told, found.reasons[-1])
        lag = [one for one in self.data.trials if one.arm == "tuned"]
        for index, one in enumerate(lag):
            one.host_cpu_s = {"vcpu": 5.0 + 0.01 * (-1) ** index, "total": 5.0}
        self.assertEqual(V.PASS, judged(self.data, max_host_cpu_per_unit=0.3).verdict)

    def test_just_the_limit_is_not_beyond_it(self):
        """1 - 0.8 is 0.19999999999999996, and the mean of such logarithms a little more or less."""
        for limit, level in ((0.2, 1000.0), (0.3, 1234.5), (0.1, 17.0), (0.0, 7.3)):
            data = samples.results(
                {"host": level * math.pi, "tuned": level * math.pi * (1 - limit)}, 4, 7, noise=0.0
            )
            for one in data.trials:  # one that never varies might be of a coarse time
                one.value *= 1 + (one.group + math.sqrt(2) * one.block) / 1000
            found = judged(data, max_loss=limit)
            self.assertEqual(V.PASS, found.verdict, (limit, found.reasons))

    def test_looser_limits_on_one_figure_take_nothing_back(self):
        data = samples.results({"untuned": 1000.0, "tuned": 925.0}, groups=4, blocks=7, noise=0.012, seed=5)
        tight = budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")
        loose = [dataclasses.replace(tight, max_loss=0.3 + one / 1000) for one in range(100)]
        named = dataclasses.replace(tight, metric="throughput", max_loss=0.9)
        [first, *others] = verdict.judge_all(data, [tight, tight, named, *loose])
        self.assertEqual(V.FAIL, first.verdict, first.reasons)
        self.assertEqual((101, {V.PASS}), (len(others), {one.verdict for one in others}), "a budget counts once")

    def test_several_figures_are_corrected(self):
        """That figure by itself is beyond the limit, but not for certain as one of twenty."""
        data = samples.results({"untuned": 1000.0, "tuned": 925.0}, groups=4, blocks=7, noise=0.012, seed=5)
        budgets = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")]
        for index in range(20):
            label = f"other{index}"
            data.trials += [
                dataclasses.replace(one, benchmark=label, value=1000.0 + one.order) for one in data.trials[:56]
            ]
            budgets.append(budget_file.Budget(label, "tuned", 0.3, baseline="untuned"))
        [first, *_] = verdict.judge_all(data, budgets)
        self.assertEqual(V.INCONCLUSIVE, first.verdict)
        self.assertIn("but 21 figures are judged together", first.reasons[0])

    def test_contradicting_counters(self):
        self.data.trials[2].host_cpu_s = {"vcpu": 9.0, "total": 1.0}
        self.assertEqual(V.INVALID, judged(self.data, max_host_cpu_per_unit=1.0).verdict)

    def test_counters_that_miss_their_total(self):
        self.assertEqual(V.PASS, judged(self.data, max_host_cpu_per_unit=1.0).verdict)
        self.data.trials[2].host_cpu_s = {**self.data.trials[2].host_cpu_s, "vhost": 60.0}
        found = judged(self.data, max_host_cpu_per_unit=1.0)
        self.assertEqual(V.INVALID, found.verdict)
        self.assertIn("the classes are 64.60 s together, the total is 5.00 s", found.reasons[0])

    def test_waiting_guests_can_still_be_judged_by_service_cpu(self):
        self.data.environment["accelerator"] = "tcg"
        for one in self.data.trials:
            one.wait_s = 10.0
        self.assertEqual(V.PASS, judged(self.data, max_host_cpu_per_unit=1.0).verdict)

    def test_overall(self):
        def one(value):
            return verdict.Judgement(budget_file.Budget("a", "b", 0.1), value, None, None, "", ())

        for verdicts, expected, code in (
            ([V.PASS, V.PASS], V.PASS, 0),
            ([V.PASS, V.INCONCLUSIVE], V.INCONCLUSIVE, 2),
            ([V.INVALID, V.INCONCLUSIVE], V.INVALID, 3),
            ([V.INVALID, V.FAIL, V.PASS], V.FAIL, 1),
            ([], V.INVALID, 3),
        ):
            found = verdict.overall([one(value) for value in verdicts])
            self.assertEqual((expected, code), (found, found.exit_code))


class LoadTest(testtools.TestCase):
    def load(self, text):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, "budget.yaml")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return budget_file.load(path)

    def test_defaults(self):
        [one] = self.load("budgets:\n- {benchmark: fio, arm: tuned, max_loss: 0.2}\n")
        self.assertEqual(budget_file.Budget("fio", "tuned", 0.2, None, "host", None, 0.95), one)

    def test_all_keys(self):
        [one] = self.load(
            "budgets: [{benchmark: fio, metric: iops, baseline: host, arm: guest, max_loss: 0.15,"
            " max_host_cpu_per_unit: 0.2, confidence: 0.9, accelerator: kvm}]"
        )
        self.assertEqual((0.2, 0.9, "kvm"), (one.max_host_cpu_per_unit, one.confidence, one.accelerator))

    def test_mistakes_name_the_place(self):
        for text, told in (
            ("", "the document"),
            ("budgets: []", "budgets"),
            ("budgets: [{benchmark: fio, arm: a}]", "budgets[0]"),
            ("budgets: [{benchmark: fio, arm: a, max_loss: x}]", "budgets[0].max_loss"),
            ("budgets: [{benchmark: fio, arm: a, max_loss: .nan}]", "budgets[0].max_loss"),
            ("budgets: [{benchmark: fio, arm: a, max_loss: 0.1, max_los: 1}]", "max_los"),
            ("budgets: [{benchmark: fio, arm: a, maxloss: 1}]", "'maxloss'; did you mean 'max_loss'?"),
            (
                "budgets: [{benchmark: fio, arm: a}]",
                "limits nothing; give max_loss, max_host_cpu_per_unit or both",
            ),
            (
                "guards: {max_steal: .nan}\nbudgets: [{benchmark: fio, arm: a, max_loss: 0.1}]",
                "guards.max_steal: is",
            ),
            (
                "guards: {max_clock_step_s: .inf}\nbudgets: [{benchmark: fio, arm: a, max_loss: 0.1}]",
                "guards.max_cl",
            ),
            ("guards: {max_wait: -.inf}\nbudgets: [{benchmark: fio, arm: a, max_loss: 0.1}]", "guards.max_wait"),
            ("budgets: [{benchmark: fio, arm: a, max_loss: 1.5}]", "budgets[0].max_loss"),
            ("budgets: [{benchmark: fio, arm: a, max_loss: 1}]", "budgets[0].max_loss"),
            ("budgets: [{benchmark: fio, arm: a, max_loss: 0.1, accelerator: KVM}]", "budgets[0].accelerator"),
            ("budgets: [", "line 1"),
            ("a: &a [1]\nb: [*a]", "unknown key 'a', 'b'"),
            ("x: !!python/object/apply:os.system [id]", "python"),
            ("budgets: [{benchmark: fio, arm: a, max_loss: 0.1, confidence: 1}]", "budgets[0].confidence"),
            ("[" * 2000, "not usable YAML"),
            (
                "budgets: [{benchmark: cpu, arm: host, max_loss: 0.1}]",
                "budgets[0] (cpu): arm and baseline are both 'host'",
            ),
        ):
            error = self.assertRaises(schema.InputError, self.load, text)
            self.assertIn(told, str(error), text)
            self.assertEqual(errors.ExitCode.ERROR, error.exit_code)

    def test_missing_and_huge_file(self):
        self.assertRaises(schema.InputError, budget_file.load, "/nonexistent/budget.yaml")
        self.assertRaises(schema.InputError, self.load, "#" * 300_000)
