"""Which trials count: every figure is made of the same ones, and says how many were left out and why."""

import csv
import io
from xml.etree import ElementTree

import testtools

from nova_perf_tuning.budget import (
    ablation,
    budget_file,
    counted,
    exports,
    guards,
    noise,
    report,
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
        rows = list(csv.DictReader(io.StringIO(exports.table(data))))
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
        rows = csv.DictReader(io.StringIO(exports.table(data)))
        self.assertEqual(["c0", "c1", "s0", "s1"], [row["host"] for row in rows])


class HostsTest(testtools.TestCase):
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
