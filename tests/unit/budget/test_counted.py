"""Which trials count: every figure is made of the same ones, and says how many were left out and why."""

import csv
import dataclasses
import io
import itertools
import math
import random
from xml.etree import ElementTree

import testtools

from nova_perf_tuning.budget import (
    ablation,
    budget_file,
    counted,
    diagnosis,
    exports,
    guards,
    model,
    noise,
    presence,
    report,
    selection,
    statistics,
    summary,
    verdict,
    wording,
)
from tests.unit.budget import samples

ARMS = {"host": 1000.0, "untuned": 900.0, "tuned": 900.0}


def stolen(data, arm="tuned", share=0.5, of=lambda trial: True):
    """Take the CPUs away from some trials of an arm, which makes them slow."""
    for one in data.trials:
        if one.arm == arm and of(one):
            one.conditions = {"steal_share": share}
            one.value *= 0.3
    return data


def few(trial):
    """Two of eighteen."""
    return trial.group < 2 and trial.block == 0


def many(trial):
    """Six of eighteen."""
    return trial.block == 0


class EveryFigureTest(testtools.TestCase):
    def data(self, of=few):
        return stolen(samples.results(ARMS, groups=6, blocks=3, noise=0.01), of=of)

    def test_medians_and_ratios(self):
        clean = samples.results(ARMS, groups=6, blocks=3, noise=0.01)
        clean.trials = [one for one in clean.trials if not (few(one) and one.arm == "tuned")]
        [expected], [found] = summary.summarise(clean), summary.summarise(self.data())
        self.assertEqual([one.median for one in expected.arms], [one.median for one in found.arms])
        self.assertEqual([one.ratio for one in expected.comparisons], [one.ratio for one in found.comparisons])
        tuned = next(one for one in found.arms if one.arm == "tuned")
        self.assertEqual((16, 2), (tuned.n, len(tuned.left_out)))
        left = {(one.arm, one.baseline): one.pairs_left_out for one in found.comparisons}
        self.assertEqual({("tuned", "untuned"): 2, ("untuned", "host"): 0, ("tuned", "host"): 2}, left)
        told = "2 of 18 pairs left out: steal: the host's CPUs were taken away 50% of the time (limit 5%)"
        self.assertEqual(told, found.comparisons[0].left_out)

    def test_secondary_figures(self):
        data = self.data()
        for one in list(data.trials):
            data.trials.append(
                samples.trial(
                    arm=one.arm, group=one.group, block=one.block, order=one.order, metric="jitter", primary=False,
                    value=99.0 if one.conditions else 1.0, conditions=one.conditions,
                )
            )  # fmt: skip
        data.trials = [one for one in data.trials if one.arm != "tuned" or few(one) or one.primary]
        [found] = summary.summarise(data)
        self.assertEqual({"host": 1.0, "untuned": 1.0}, found.secondary[0].medians)

    def test_no_ratio_of_a_selection(self):
        data = self.data(many)
        [found] = summaries = summary.summarise(data)
        ratios = {(one.arm, one.baseline): one.ratio is not None for one in found.comparisons}
        expected = {("tuned", "untuned"): False, ("untuned", "host"): True, ("tuned", "host"): False}
        self.assertEqual(expected, ratios)
        self.assertEqual(
            "Tuned against untuned: too many trials that do not count in iperf3.", wording.headline(summaries)
        )
        notes = "\n".join(report.as_json(data, summaries, [])["notes"])
        self.assertIn("iperf3 on tuned: 6 of 18 trials left out: steal", notes)
        self.assertIn("no ratio tuned/untuned and tuned/host: 6 of 18 trials of 'tuned' do not count", notes)

    def test_limits_of_a_budget_hold_for_all_figures(self):
        budget = budget_file.Budget("iperf3", "tuned", 0.15, guards=guards.Limits(max_steal=0.6))
        [found] = summary.summarise(self.data(many), limits=counted.limits([budget]))
        self.assertEqual(0, sum(one.pairs_left_out for one in found.comparisons))

    def test_report(self):
        data = self.data()
        text = report.render(data, summary.summarise(data), [])
        told = "steal: the host&#39;s CPUs were taken away 50% of the time (limit 5%)</td></tr>"
        self.assertEqual(2, text.count(told), "in the table of trials")
        self.assertIn("16 (2 left out)", text)
        self.assertEqual(2, text.count('<td class="n">50 %</td>'))
        self.assertEqual(18 * 2 + 16 + 16, text.count("<circle"), "a dot for each trial and each pair that counts")

    def test_verdict(self):
        budget = budget_file.Budget("iperf3", "tuned", 0.15)
        judged = verdict.judge_all(self.data(), [budget])
        self.assertEqual((verdict.Verdict.PASS, 2), (judged[0].verdict, judged[0].pairs_left_out))
        told = "; 2 of 18 pairs left out: steal: the host's CPUs were taken away 50%"
        self.assertIn(told, judged[0].reasons[0])
        suite = ElementTree.fromstring(exports.junit(self.data(), judged))
        self.assertIn(told, suite[0].find("system-out").text)

    def test_ablation(self):
        data = stolen(samples.results(ARMS | {"no-iothreads": 900.0}, groups=6, blocks=3, noise=0.01))
        data.environment["ablation"] = {"no-iothreads": {"spec": "perf:iothreads", "value": "2"}}
        [knob] = ablation.judge(data)
        self.assertEqual((ablation.Call.UNDECIDED, {}), (knob.call, knob.effects))
        [[call, spec, _, _, why, *_]] = ablation.lines([knob])
        self.assertEqual(("undecided", "perf:iothreads=2"), (call, spec))
        self.assertIn("18 of 18 trials of 'tuned' do not count", why)

    def test_ablation_with_few_left_out(self):
        data = stolen(samples.results(ARMS | {"no-x": 900.0}, groups=6, blocks=3, noise=0.01), of=few)
        data.environment["ablation"] = {"no-x": {"spec": "perf:x", "value": "2"}}
        [knob] = ablation.judge(data)
        self.assertEqual((ablation.Call.REMOVABLE, 16), (knob.call, knob.effects["iperf3"].n))
        self.assertIn("; 2 of 18 pairs left out: steal", ablation.lines([knob])[0][4])

    def test_noise_floor(self):
        def run(of):
            return stolen(samples.results({"untuned": 500.0, "again": 500.0}, groups=6), arm="again", of=of)

        quiet, one_boot = (
            noise.floors(run(of))["iperf3"]["throughput"] for of in (lambda _: False, lambda one: one.group == 0)
        )
        self.assertTrue(one_boot < 2 * quiet, (quiet, one_boot))
        error = self.assertRaises(noise.NoFloorError, noise.floors, run(lambda one: one.group < 2))
        self.assertIn("6 of 18 trials of 'again' do not count (limit 20%): steal", str(error))

    def test_prometheus(self):
        data = self.data(many)
        text = exports.prometheus(data, summary.summarise(data), [])
        self.assertIn('nova_perf_trials_left_out{host="",benchmark="iperf3",arm="tuned"} 6.0', text)
        pair = 'host="",benchmark="iperf3",arm="tuned",baseline="untuned"'
        self.assertIn(f"nova_perf_ratio_pairs_left_out{{{pair}}} 6.0", text)
        self.assertNotIn(f"nova_perf_ratio{{{pair}", text)

    def test_csv(self):
        data = self.data()
        data.environment.update(host="compute7", created="2026-11-20T10:00:00+00:00")
        data.trials[0].conditions = {"link:eth1": 0.0, "link:eth0": 25000.0, "clock_step_s": 1e-6}
        rows = list(csv.DictReader(io.StringIO(exports.table(data, summary.left_out(summary.summarise(data))))))
        self.assertEqual(2, sum(row["left_out"].startswith("steal: ") for row in rows))
        self.assertEqual({"0.5", ""}, {row["condition_steal_share"] for row in rows})
        self.assertEqual(
            ("1e-06", "eth0=25000 eth1=0"), (rows[0]["condition_clock_step_s"], rows[0]["condition_links"])
        )
        self.assertEqual({("compute7", "2026-11-20T10:00:00+00:00")}, {(row["host"], row["run"]) for row in rows})

    def test_csv_of_a_fleet_has_the_host_of_each_pair(self):
        data = samples.results({"untuned": 500.0}, groups=4, blocks=1)
        pairs = [{"number": number, "client": f"c{number}", "server": f"s{number}"} for number in (0, 1)]
        data.environment["fleet"] = {"run": "r1", "pairs": pairs}
        rows = csv.DictReader(io.StringIO(exports.table(data, summary.left_out(summary.summarise(data)))))
        self.assertEqual(["c0", "c1", "s0", "s1"], [row["host"] for row in rows])


class FailedTest(testtools.TestCase):
    """Trials that gave nothing are told, and do not make what is left look better."""

    def data(self, of=lambda one: one.block == one.group, groups=4, blocks=5, **changes):
        data = samples.results(ARMS, groups=groups, blocks=blocks, noise=0.01)
        for one in data.trials:
            if one.arm == "tuned" and of(one):
                for name, value in (changes or {"value": None, "error": "timed out"}).items():
                    setattr(one, name, value)
        return data

    def judged(self, data, **changes):
        fields = {"benchmark": "iperf3", "arm": "tuned", "max_loss": 0.2, "baseline": "untuned", **changes}
        return verdict.judge(data, budget_file.Budget(**fields))

    def test_they_are_told_everywhere(self):
        for changes, told in (({}, "failed"), ({"value": 0.0}, "failed or gave 0")):
            data = self.data(**changes)
            [found] = summaries = summary.summarise(data)
            self.assertEqual([(20, 0), (20, 0), (16, 4)], [(one.n, one.failed) for one in found.arms])
            told = f"4 of 20 trials of 'tuned' {told}"
            remarks = {(one.arm, one.baseline): one.left_out for one in found.comparisons}
            self.assertEqual(
                {("tuned", "untuned"): told, ("untuned", "host"): "", ("tuned", "host"): told}, remarks
            )
            self.assertIn(f"iperf3 tuned/untuned, iperf3 tuned/host: {told}", wording.cautions(summaries))
            judged = self.judged(data)
            self.assertIn(f"; {told}; in the upper end what 'tuned' lacks counts as its worst", judged.reasons[0])

    def test_an_arm_that_fails_more_often_does_not_pass(self):
        """One in five of its trials in every boot moves no median of a boot, whatever the others show."""
        for changes in ({}, {"value": 0.0}):
            found = self.judged(self.data(groups=6, of=lambda one: one.block == 0, **changes))
            self.assertEqual(verdict.Verdict.INCONCLUSIVE, found.verdict)
            self.assertIn("'tuned' fails more often than 'untuned' (in 6 of 6 boots, 0 of 6; by", found.reasons[0])
            told = diagnosis.diagnose(self.data(), [found])
            self.assertIn("; 6 of 30 trials of 'tuned' failed", told.sentence)
            self.assertIn("See why trials of 'tuned' fail", told.actions[0])

    def test_failures_that_may_be_chance_are_in_the_sentence(self):
        some = self.data(of=lambda one: one.block == 0 and one.group < 2)
        boot = self.data(groups=6, of=lambda one: one.group == 2)
        both = self.data(of=lambda one: one.block == 0)
        for one in both.trials:
            one.value = None if one.block == 0 else one.value
        for data, told in (
            (some, "2 of 20 trials of 'tuned' failed"),
            (boot, "5 of 30 trials of 'tuned' failed"),
            (both, "4 of 20 trials of 'tuned' failed; 4 of 20 trials of 'untuned' failed"),
        ):
            found = self.judged(data)
            self.assertEqual(verdict.Verdict.PASS, found.verdict, found.reasons)
            self.assertTrue(diagnosis.diagnose(data, [found]).sentence.endswith(f". But iperf3: {told}."))

    def test_more_failures_are_never_better(self):
        """Trial after trial of a boot fails, then the boot is gone, then the next."""
        worst = verdict.Verdict.PASS
        order = [verdict.Verdict.PASS, verdict.Verdict.INCONCLUSIVE, verdict.Verdict.INVALID]
        for count in range(0, 43, 3):
            data = samples.results(ARMS, groups=12, blocks=7, noise=0.005)
            mine = [one for one in data.trials if one.arm == "tuned"]
            for one in sorted(mine, key=lambda one: (one.group, one.block))[:count]:
                one.value, one.error = None, "timed out"
            found = self.judged(data).verdict
            self.assertTrue(order.index(found) >= order.index(worst), count)
            worst = found
        self.assertEqual(verdict.Verdict.INVALID, worst)

    def test_boots_of_which_nobody_has_a_trial_count(self):
        for arms in (("host", "untuned", "tuned"), ("tuned",)):
            data = samples.results(ARMS, groups=20, blocks=3, noise=0.01)
            gone = (3, 8, 12, 17)
            data.trials = [one for one in data.trials if one.group not in gone or one.arm not in arms]
            errors = [{"group": group, "arm": "tuned", "error": "guest did not boot"} for group in gone]
            data.environment["errors"] = errors
            found = self.judged(data)
            self.assertIn("(in 4 of 20 boots, 0 of ", found.reasons[0])
            self.assertEqual(verdict.Verdict.INCONCLUSIVE, found.verdict)

    def test_the_best_figure_is_no_failure(self):
        data = samples.results({"untuned": 10.0, "tuned": 5.0}, groups=6, blocks=7)
        for one in data.trials:
            one.better, one.metric = "lower", "retransmits"
            one.value = 0.0 if one.arm == "tuned" and one.block == 0 else one.value
        found = self.judged(data, metric="retransmits")
        self.assertEqual(verdict.Verdict.PASS, found.verdict, found.reasons)

    def test_too_many_lost_at_first_leave_it_open(self):
        for lost, still in ((0, False), (2, True), (6, False)):
            data = samples.results(ARMS, groups=2, blocks=4, noise=0.01)
            mine = [one for one in data.trials if one.arm == "tuned"]
            for one in mine[:lost]:
                one.value, one.error = None, "timed out"
            found = self.judged(data)
            expected = {0: "PASS", 2: "INVALID", 6: "INVALID"}[lost]
            self.assertEqual((expected, still), (found.verdict.value, found.open), found.reasons)

    def test_chance_by_hand(self):
        """Three of four boots against none of four: 4 of C(8, 3) = 56 ways."""
        lost = [counted.Lost("a", one, 40, 0, presence.Missing(0, frozenset()), one, 4) for one in (3, 0)]
        self.assertAlmostEqual(4 / 56, counted.fails_more(*lost))
        self.assertEqual((1.0, 1.0), (counted.fails_more(*reversed(lost)), counted.fails_more(*lost[:1] * 2)))

    def test_too_many_leave_no_ratio(self):
        data = self.data(of=lambda one: one.group == 0)
        [found] = summary.summarise(data)
        ratios = {(one.arm, one.baseline): one.ratio is None for one in found.comparisons}
        self.assertEqual({("tuned", "untuned"): True, ("untuned", "host"): False, ("tuned", "host"): True}, ratios)
        [one] = [one for one in found.comparisons if one.baseline == "untuned"]
        self.assertIn("5 of 20 trials of 'tuned' failed (limit 20%)", one.invalid)

    def test_they_are_told_beside_what_guards_leave_out(self):
        data = stolen(
            self.data(lambda one: one.group == one.block == 1), of=lambda one: one.group == one.block == 2
        )
        [reason] = self.judged(data).reasons
        self.assertIn("; 1 of 20 trials of 'tuned' failed; 1 of 19 pairs left out: steal: ", reason)

    def test_missing_trials_are_told(self):
        data = self.data()
        data.trials = [one for one in data.trials if one.value is not None]
        self.assertIn("; 4 of 20 trials of 'tuned' failed or are missing; in the ", self.judged(data).reasons[0])

    def test_they_count_as_the_worst_where_it_takes_a_pass(self):
        """By hand: each boot has a pair that failed, and in its place the worst pair of all."""
        data = self.data()
        alone = selection.Measured(
            model.Results(data.environment, [one for one in data.trials if one.block != one.group])
        )
        budget = budget_file.Budget("iperf3", "tuned", 0.2, baseline="untuned")
        observed = alone.choose(budget)
        worst = min(value for some in observed.logs.values() for value in some)
        with_worst = {group: [*values, worst] for group, values in observed.logs.items()}
        expected = 1 - statistics.ratio_of(with_worst).low
        found, before = self.judged(data).loss, observed.loss(0.95, None)
        self.assertEqual((before.value, before.low, expected), (found.value, found.low, found.high))
        self.assertTrue(before.high < found.high)
        missing = self.data()
        missing.trials = [one for one in missing.trials if one.value is not None]
        self.assertEqual(found, self.judged(missing).loss)

    def test_they_count_as_the_dearest_too(self):
        data = self.data()
        limits = {"max_loss": None, "max_host_cpu_per_unit": 1.0}
        budget = budget_file.Budget("iperf3", "tuned", baseline="untuned", **limits)
        chosen = selection.Measured(data).choose(budget)
        dearest = max(value for some in chosen.cpu.samples.values() for value in some)
        padded = {group: [*values, dearest] for group, values in chosen.cpu.samples.items()}
        before = statistics.estimate(chosen.cpu.samples, positive=True)
        expected = max(before.high, statistics.estimate(padded, positive=True).high)
        found = verdict.judge(data, budget).cpu
        self.assertEqual((before.value, before.low, expected), (found.value, found.low, found.high))

    def test_blocks_in_which_the_baseline_failed_too_say_nothing(self):
        data = self.data()
        for one in data.trials:
            if one.block == one.group:
                one.value = None
        found = self.judged(data)
        alone = [one for one in data.trials if one.block != one.group]
        self.assertEqual(self.judged(model.Results(data.environment, alone)).loss, found.loss)
        self.assertNotIn("upper end", found.reasons[0])

    def test_slow_trials_that_time_out_make_no_pass(self):
        """At the edge of the budget: without them half of these were PASS."""
        rng, passed = random.Random(3), 0
        for _ in range(20):
            trials = []
            for group, block in itertools.product(range(8), range(5)):
                for arm, value in (("untuned", 1000.0), ("tuned", 949.9)):
                    value *= math.exp(rng.gauss(0, 0.03))
                    trials.append(samples.trial(arm=arm, group=group, block=block, value=value, order=len(trials)))
            for one in sorted((one for one in trials if one.arm == "tuned"), key=lambda one: one.value)[:8]:
                one.value, one.error = None, "timed out"
            results = model.Results({"arms": {"untuned": {}, "tuned": {}}}, trials)
            passed += self.judged(results, max_loss=0.05).verdict is verdict.Verdict.PASS
        self.assertEqual(0, passed)

    def test_slow_trials_that_guards_reject_make_no_pass(self):
        """At the edge, where slow trials are those whose vCPUs waited: without them 14 % of these were PASS."""
        rng, passed = random.Random(3), 0
        for _ in range(20):
            trials = []
            for group, block in itertools.product(range(12), range(8)):
                noise = rng.gauss(0, 0.03)
                for arm, value, late in (("untuned", 1000.0, 0.05), ("tuned", 949.9 * math.exp(noise), None)):
                    late = 0.09 + max(0.0, -noise / 0.03 - 0.95) * 0.1 if late is None else late
                    fields = {"host_cpu_s": {"vcpu": 4.0, "total": 4.5}, "wait_s": 4 * late / (1 - late)}
                    place = {"arm": arm, "group": group, "block": block, "order": len(trials)}
                    trials.append(samples.trial(value=value, **place, **fields))
            results = model.Results({"arms": {"untuned": {}, "tuned": {}}, "accelerator": "kvm"}, trials)
            passed += self.judged(results, max_loss=0.05).verdict is verdict.Verdict.PASS
        self.assertTrue(passed <= 1, passed)

    def test_the_interval_holds_with_what_guards_reject(self):
        data = samples.results(ARMS)
        slow = stolen(data, of=lambda one: one.group == one.block == 2)
        found = self.judged(slow)
        self.assertIn("1 of 9 pairs left out: steal: ", found.reasons[0])
        self.assertIn("; the interval holds with them, too", found.reasons[0])
        for one in slow.trials:
            one.conditions = {}
        whole = self.judged(slow)
        self.assertTrue(found.loss.high >= whole.loss.high and found.loss.low <= whole.loss.low)
        self.assertNotEqual(found.loss.value, whole.loss.value)

    def test_a_figure_that_is_best_at_zero_has_no_ratio(self):
        data = samples.results(ARMS)
        for one in list(data.trials):
            value = 3.0 * (one.block == 0 and one.group < 2)
            fields = {"metric": "retransmits", "unit": "segments", "better": "lower", "primary": False}
            data.trials.append(dataclasses.replace(one, value=value, **fields))
        told = self.judged(data, metric="retransmits").reasons[0]
        self.assertEqual(
            "retransmits is 0 in 7 of 9 trials of 'tuned', so no ratio can judge it: name another metric in the "
            "budget",
            told,
        )
        for one in data.trials:
            one.better = "higher"
        self.assertIn("gave 0, which has no ratio", self.judged(data, metric="retransmits").reasons[0])

    def test_zeros_that_are_best_stay_in_medians(self):
        data = samples.results(ARMS)
        for one in data.trials:
            one.value, one.better = float(one.block == 0), "lower"
        [found] = summary.summarise(data)
        self.assertEqual([(9, 0, 0.0)] * 3, [(one.n, one.failed, one.median.value) for one in found.arms])


class HostsTest(testtools.TestCase):
    def test_verdicts_on_hosts_of_a_fleet(self):
        """Of a run as it is judged, which has no 'fleet' yet, and of its file."""
        budget = budget_file.Budget("iperf3", "tuned", 0.2)
        for environment in ({"launcher": "heat"}, {"fleet": {}}):
            data = samples.results(ARMS, groups=4, blocks=4, noise=0.01, **environment)
            for one in data.trials:
                if one.arm == "host":
                    one.conditions = {"max_mhz": 3500.0 + 2 * one.group, f"link:eth{one.group}": 1000.0}
            judged = verdict.judge(data, budget)
            self.assertEqual(verdict.Verdict.PASS, judged.verdict, judged.reasons)
            self.assertEqual(0, judged.pairs_left_out)
            next(one for one in data.trials if one.arm == "host").conditions = {"max_mhz": 3500.0}
            changed = [one for one in data.trials if one.arm == "host" and one.group == 0][1:2]
            changed[0].conditions = {**changed[0].conditions, "max_mhz": 2000.0}
            self.assertIn("from 3500 to 2000 MHz", verdict.judge(data, budget).reasons[0])
            data.trials = [one for one in data.trials if one.arm != "host" or one.block < 2]
            self.assertNotIn("missing", verdict.judge(data, budget).reasons[0])
        data.environment = {"launcher": "libvirt"}
        self.assertEqual(verdict.Verdict.INVALID, verdict.judge(data, budget).verdict)

    def test_hosts_of_a_fleet_differ_without_fault(self):
        data = samples.results({"untuned": 500.0, "tuned": 500.0}, groups=4)
        for one in data.trials:
            one.conditions = {"max_mhz": 2000.0 + one.group, f"link:eth{one.group}": 1000.0}
        self.assertNotEqual({}, counted.alone(data))
        data.environment["fleet"] = {"pairs": []}
        self.assertEqual({}, counted.alone(data))
        [found] = summary.summarise(data)
        self.assertEqual((0, 12), (found.comparisons[0].pairs_left_out, found.comparisons[0].ratio.n))

    def test_arms_at_different_frequencies_are_not_compared(self):
        data = samples.results({"untuned": 500.0, "tuned": 500.0})
        for one in data.trials:
            one.conditions = {"mhz": {"untuned": 2000.0, "tuned": 3000.0}[one.arm]}
        [found] = summary.summarise(data)
        self.assertIn("arms ran at different CPU frequencies", found.comparisons[0].invalid)
        self.assertEqual([9, 9], [one.n for one in found.arms])


class CpuTest(testtools.TestCase):
    def data(self, lacking):
        data = samples.results(ARMS)
        for one in [one for one in data.trials if one.arm == "tuned"][:lacking]:
            one.host_cpu_s, one.guest_cpu_s, one.wait_s = {}, None, None
        return data

    def tuned(self, data):
        [found] = summary.summarise(data)
        return next(one for one in found.arms if one.arm == "tuned")

    def test_unknown_cpu_is_not_zero(self):
        data = self.data(1)
        counting = [one for one in data.trials if one.arm == "tuned" and one.host_cpu_s]
        for number, one in enumerate(counting, 1):
            one.host_cpu_s, one.guest_cpu_s = {"vcpu": 1.0 * number, "total": 1.0 * number}, None
        lacking = self.tuned(data)
        self.assertEqual({"vcpu": 4.5 / 5}, lacking.cpus)
        self.assertEqual((1, ""), (lacking.uncounted, lacking.cpu_invalid))
        [told] = wording.headline_notes(self.data(1), summary.summarise(self.data(1)))
        self.assertIn("iperf3 on tuned: 1 of 9 trials have no CPU counters", told)

    def test_cpu_of_a_selection_is_not_shown(self):
        found = self.tuned(self.data(6))
        self.assertEqual("6 of 9 trials have no CPU counters (limit 20%)", found.cpu_invalid)
        self.assertEqual({}, found.cpus)
        self.assertEqual({None}, {found.service_per_unit, found.service_per_second, found.full_per_unit})
        [told] = wording.headline_notes(self.data(6), summary.summarise(self.data(6)))
        self.assertEqual("iperf3 on tuned: no CPU is shown: 6 of 9 trials have no CPU counters (limit 20%).", told)
        text = report.render(self.data(6), summary.summarise(self.data(6)), [])
        self.assertEqual(2, text.count("not valid</td>"))

    def test_none_at_all_is_no_fault(self):
        self.assertEqual(("", 0), (self.tuned(self.data(9)).cpu_invalid, self.tuned(self.data(9)).uncounted))

    def test_contradictory_counters_are_not_shown(self):
        data = samples.results(ARMS)
        data.trials[0].host_cpu_s = {**data.trials[1].host_cpu_s, "vhost": 60.0}
        data.trials[0].arm = "tuned"
        found = self.tuned(data)
        self.assertIn("the classes are 64.60 s together, the total is 5.00 s (1 of ", found.cpu_invalid)
        self.assertEqual((None, {}), (found.service_per_unit, found.cpus))

    def test_softirq_is_beside_the_bar(self):
        data = samples.results(ARMS)
        for one in data.trials:
            one.host_cpu_s = {**one.host_cpu_s, "softirq": 50.0}
        text = report.render(data, summary.summarise(data), [])
        self.assertIn("(full width: 1.00)", text)
        self.assertNotIn("seg-softirq", text.partition("</style>")[2])
        self.assertRegex(text, r"of no process, in CPUs</td>(<td class=\"n\">10.0</td>){3}")
