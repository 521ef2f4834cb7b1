# SPDX-License-Identifier: Apache-2.0
"""Ablation: which arms there are, and what is said of each knob."""

import collections
import math
import random

from nova_perf_tuning.specs import parsing, profiles, request
from nova_perf_tuning.validation.judge import ablation, budget_file, verdict
from tests.support import samples, testcase

C = ablation.Call


class ArmsTest(testcase.TestCase):
    def test_one_knob_less_each(self):
        wanted = request.Request(
            profile="balanced",
            vif_queues=4,
            iothreads=2,
            vif_host_offload={"tso4": True, "csum": False},
        )
        found = ablation.arms(wanted)
        self.assertEqual(
            [
                "perf:vif_queues",
                "perf:vif_host_offload.csum",
                "perf:vif_host_offload.tso4",
                "perf:iothreads",
            ],
            list(found),
        )
        for spec, arm in found.items():
            self.assertEqual(
                {spec}, wanted.extra_specs().keys() - arm.request.extra_specs().keys()
            )
        self.assertEqual("no-vif_host_offload-tso4", found["perf:vif_host_offload.tso4"].name)

    def test_every_shipped_profile(self):
        known = profiles.load(None)
        for name in known:
            wanted = parsing.parse({"perf:profile": name}, {}, known)
            names = [arm.name for arm in ablation.arms(wanted).values()]
            self.assertEqual(len(names), len(set(names)), name)


class JudgeTest(testcase.TestCase):
    def run_of(self, **values):
        """Return results of tuned guests at 1000 and of guests without each knob at the values given."""
        arms = {"host": 1100.0, "untuned": 700.0, "tuned": 1000.0}
        arms |= {f"no-{name}": value for name, value in values.items()}
        data = samples.results(arms, boots=8, blocks=5, noise=0.005)
        left_out = {f"no-{name}": {"spec": f"perf:{name}", "value": "4"} for name in values}
        samples.tell(data, ablation=left_out)
        return data

    def test_each_knob_pays_is_removable_or_harms(self):
        found = ablation.judge(self.run_of(queues=800.0, iothreads=1000.0, steering=1150.0))
        self.assertEqual([C.PAYS, C.REMOVABLE, C.HARMS], [knob.call for knob in found], found)
        self.assertEqual(["perf:iothreads"], ablation.removable(found))
        self.assertAlmostEqual(1.25, found[0].findings["iperf3"].effect.value, 1)

    def test_the_budget_without_each(self):
        budget = budget_file.Budget("iperf3", "tuned", 0.15)
        found = ablation.judge(self.run_of(queues=700.0, iothreads=1000.0), [budget])
        self.assertEqual(
            [verdict.Verdict.FAIL, verdict.Verdict.PASS], [knob.met_without for knob in found]
        )
        self.assertEqual([C.PAYS, C.REMOVABLE], [knob.call for knob in found])

    def test_no_effect_but_a_worse_verdict_is_not_removable(self):
        data = self.run_of(iothreads=1000.0)
        for trial in data.trials:
            if trial.arm == "no-iothreads":
                trial.host_cpu_s = {**trial.host_cpu_s, "vhost": 4.0, "total": 8.6}
        budget = budget_file.Budget("iperf3", "tuned", 0.15, max_host_cpu_per_unit=0.5)
        [knob] = ablation.judge(data, [budget])
        self.assertEqual((C.NEEDED, C.REMOVABLE), (knob.call, knob.findings["iperf3"].call))
        self.assertEqual([], ablation.removable([knob]))
        data.environment.accelerator = "kvm"
        data.environment.arms["no-iothreads"].virtualization = "qemu"
        [knob] = ablation.judge(data, [budget])
        self.assertEqual((C.UNDECIDED, verdict.Verdict.INVALID), (knob.call, knob.met_without))

    def test_one_boot_decides_nothing(self):
        data = self.run_of(queues=500.0)
        data.trials = [trial for trial in data.trials if trial.boot == 0]
        self.assertEqual([C.UNDECIDED], [knob.call for knob in ablation.judge(data)])

    def test_what_is_too_noisy_to_tell_is_not_removable(self):
        [knob] = ablation.judge(
            simulated([1.2], 2, boots=3, blocks=4, trial=0.3, between=0.3, benchmarks=1)
        )
        self.assertEqual((C.UNDECIDED, []), (knob.call, ablation.removable([knob])))
        effect = knob.findings["b0"].effect
        self.assertTrue(effect.low < 1 < effect.high, knob)

    def test_what_pays_here_and_harms_there_is_mixed(self):
        data = simulated([1.25], boots=6, blocks=5, trial=0.01, between=0.003)
        for trial in data.trials:
            if trial.benchmark == "b1" and trial.arm == "no-k0":
                trial.value *= 1.25 / 0.85
        [knob] = ablation.judge(data)
        self.assertEqual(C.MIXED, knob.call)
        self.assertEqual(
            [C.PAYS, C.HARMS, C.PAYS], [finding.call for finding in knob.findings.values()]
        )
        self.assertEqual([], ablation.removable([knob]))

    def test_a_benchmark_without_a_pair_decides_nothing(self):
        data = simulated([1.0], boots=6, blocks=5, trial=0.005, between=0.002)
        self.assertEqual([C.REMOVABLE], [knob.call for knob in ablation.judge(data)])
        for trial in data.trials:
            if trial.benchmark == "b1" and trial.arm == "no-k0":
                trial.value = None
        [knob] = ablation.judge(data)
        self.assertEqual((C.UNDECIDED, None), (knob.call, knob.findings["b1"].effect))
        self.assertIn("too_many_lost", {why.code.value for why in knob.findings["b1"].notes})

    def test_looks_share_the_error(self):
        data = self.run_of(queues=990.0, iothreads=1000.0)
        once = ablation.judge(data)[0].findings["iperf3"].effect.confidence
        data.environment.looks = [8]
        looked = ablation.judge(data)[0].findings["iperf3"].effect.confidence
        self.assertEqual((0.975, 0.99), (round(once, 6), round(looked, 6)))

    def test_a_run_goes_on_until_each_knob_is_decided(self):
        budget = budget_file.Budget("b0", "tuned", 0.15, baseline="no-k1")
        noisy = simulated([1.1, 1.0], boots=6, blocks=5, trial=0.02, between=0.02)
        self.assertEqual(verdict.Verdict.PASS, verdict.overall(verdict.judge_all(noisy, [budget])))
        self.assertTrue(ablation.undecided(noisy, [budget]), "k1 is undecided")
        quiet = simulated([1.1, 1.0], boots=12, blocks=7, trial=0.005, between=0.002)
        self.assertFalse(ablation.undecided(quiet, [budget]))
        noisy.environment.ablation = {}
        self.assertFalse(ablation.undecided(noisy, [budget]))

    def test_no_ablation(self):
        self.assertEqual([], ablation.judge(samples.results({"host": 1.0, "tuned": 1.0})))


class PowerTest(testcase.TestCase):
    """What calls are worth: five knobs, three benchmarks."""

    def shares(self, effect, runs=20, **plan):
        """Return call -> share of the knobs that got it, where each has the same true effect."""
        calls = [
            knob.call
            for seed in range(runs)
            for knob in ablation.judge(simulated([effect] * 5, seed, **plan))
        ]
        return {call: count / len(calls) for call, count in collections.Counter(calls).items()}

    def test_an_effect_at_the_margin_is_hardly_ever_removable(self):
        found = self.shares(1 - ablation.MARGIN, boots=6, blocks=5, trial=0.01, between=0.003)
        self.assertTrue(found.get(C.REMOVABLE, 0.0) < 0.05, found)

    def test_no_effect_on_a_quiet_host_is_found_removable(self):
        found = self.shares(1.0, boots=12, blocks=7, trial=0.01, between=0.003)
        self.assertTrue(found[C.REMOVABLE] > 0.95, found)


def simulated(effects, seed=1, *, boots, blocks, trial, between, benchmarks=3):
    """Return an ablation run over knobs with these true effects; log-normal noise per trial and per boot."""
    rng = random.Random(seed)
    arms = {"tuned": 1.0, **{f"no-k{number}": 1 / effect for number, effect in enumerate(effects)}}
    trials = []
    for label in (f"b{number}" for number in range(benchmarks)):
        for boot in range(boots):
            boot_noise = {arm: rng.gauss(0, between) for arm in arms}
            for block in range(blocks):
                for arm, value in arms.items():
                    measured = 1000 * value * math.exp(boot_noise[arm] + rng.gauss(0, trial))
                    trials.append(
                        samples.trial(
                            benchmark=label, arm=arm, boot=boot, block=block, value=measured
                        )
                    )
    left_out = {arm: {"spec": f"perf:{arm[3:]}", "value": "1"} for arm in arms if arm != "tuned"}
    return samples.of(trials, ablation=left_out, arms={arm: {} for arm in arms})
