# SPDX-License-Identifier: Apache-2.0
"""Verdicts: where the interval lies, and what cannot be judged at all."""

import dataclasses
import math

from nova_perf_tuning.validation.judge import budget_file, verdict
from nova_perf_tuning.validation.report import data
from nova_perf_tuning.validation.results import messages, reasons
from tests.support import samples, testcase

C = reasons.ReasonCode
V = verdict.Verdict
B = budget_file.Budget


def judged(data, **changes):
    return verdict.judge_all(
        data, [B(**{"benchmark": "iperf3", "arm": "tuned", "max_loss": 0.15, **changes})]
    )[0]


class JudgeTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results(
            {"host": 1000.0, "untuned": 800.0, "tuned": 900.0}, boots=3, blocks=6
        )
        self.mine = [trial for trial in self.data.trials if trial.arm == "tuned"]

    def check(self, word, code, **changes):
        found = judged(self.data, **changes)
        self.assertEqual(
            (word, code), (found.verdict, found.deciding.code), messages.lines(found.reasons)
        )
        return found

    def test_where_the_interval_lies(self):
        """The true loss is 10 %; the interval spans about two points."""
        for limit, word, code in (
            (0.15, V.PASS, C.WITHIN),
            (0.05, V.FAIL, C.BEYOND),
            (0.10, V.INCONCLUSIVE, C.UNDECIDED),
            (-0.5, V.FAIL, C.BEYOND),
        ):
            with self.subTest(limit):
                found = self.check(word, code, max_loss=limit)
                self.assertTrue(found.loss.low < 0.10 < found.loss.high)
                self.assertEqual(word is V.INCONCLUSIVE, found.open)
        self.check(V.PASS, C.WITHIN, baseline="untuned", max_loss=-0.05)
        self.check(V.FAIL, C.BEYOND, baseline="untuned", max_loss=-0.20)

    def test_one_boot_decides_nothing(self):
        self.data.trials = [trial for trial in self.data.trials if trial.boot == 0]
        self.check(V.INCONCLUSIVE, C.TOO_FEW_BOOTS, max_loss=0.5)

    def test_just_the_limit_is_not_beyond_it(self):
        """1 - 0.8 is 0.19999999999999996, and the mean of such logarithms a little more or less."""
        for limit, level in ((0.2, 1000.0), (0.3, 1234.5), (0.1, 17.0), (0.0, 7.3)):
            with self.subTest(limit):
                arms = {"host": level * math.pi, "tuned": level * math.pi * (1 - limit)}
                self.assertEqual(
                    V.PASS, judged(samples.results(arms, 4, 7, noise=0.0), max_loss=limit).verdict
                )

    def test_service_cpu(self):
        """Service CPU of the samples is 1 s for 5 Gbit."""
        for limit, word in ((0.3, V.PASS), (0.1, V.FAIL)):
            with self.subTest(limit):
                found = judged(self.data, max_host_cpu_per_unit=limit)
                self.assertEqual(
                    (word, "Gbit", [V.PASS, word]),
                    (found.verdict, found.unit, list(found.verdicts)),
                )
                self.assertAlmostEqual(0.2, found.cpu.value)
                self.assertEqual(word is V.FAIL, found.by_cpu)

    def test_service_cpu_alone_needs_no_baseline(self):
        """Whatever the loss, and with no noise floor in the way: that is one of losses."""
        samples.tell(
            self.data, noise_floor={"created": "x", "losses": {"iperf3": {"throughput": 0.9}}}
        )
        self.data.trials = self.mine
        for limit, word in ((0.3, V.PASS), (0.1, V.FAIL)):
            with self.subTest(limit):
                found = judged(self.data, max_loss=None, max_host_cpu_per_unit=limit)
                self.assertEqual(
                    (word, None, "cpu"),
                    (found.verdict, found.loss, found.deciding.params["figure"]),
                )

    def test_no_block_has_both_arms(self):
        """In a fleet the host has fewer samples than the guests, and none of them is missing."""
        samples.tell(self.data, fleet={})
        last = (2, 5)
        self.data.trials = [
            trial
            for trial in self.data.trials
            if (trial.arm == "host") == ((trial.boot, trial.block) == last)
        ]
        found = self.check(V.INCONCLUSIVE, C.NO_PAIRS)
        self.assertEqual((None, "loss"), (found.loss, found.deciding.params["figure"]))

    def test_service_cpu_that_cannot_be_told(self):
        def counted(count, **fields):
            return [
                dataclasses.replace(trial, **fields) for trial in self.mine[:count]
            ] + self.mine[count:]

        for trials, code in (
            (counted(3, host_cpu_s={}), None),
            (counted(4, host_cpu_s={}), C.LITTLE_SERVICE_CPU),
            (counted(4, work=None), C.LITTLE_SERVICE_CPU),
            (counted(18, host_cpu_s={}), C.NO_SERVICE_CPU),
            (counted(18, host_cpu_s={"vcpu": 0.0, "total": 0.0}, wait_s=None), C.NO_SERVICE_CPU),
            (counted(1, host_cpu_s={"vcpu": 9.0, "total": 1.0}), C.COUNTERS_VCPU),
        ):
            with self.subTest(trials):
                data = samples.of(trials)
                found = judged(data, max_loss=None, max_host_cpu_per_unit=0.3)
                self.assertEqual(
                    V.PASS if code is None else V.INVALID,
                    found.verdict,
                    messages.lines(found.reasons),
                )
                self.assertTrue(code is None or code in [why.code for why in found.reasons], found)

    def test_a_block_that_failed_counts_as_the_costliest(self):
        """What failed may have been the costly part: without it the two cheap blocks of three would pass."""
        work = (10.0, 10.0, 2.0)  # a CPU second for 10, 10 and 2 Gbit
        trials = [
            dataclasses.replace(trial, work=work[trial.block])
            for trial in samples.results(
                {"untuned": 800.0, "tuned": 900.0}, boots=3, blocks=3, noise=0.001
            ).trials
        ]
        limits = {"baseline": "untuned", "max_loss": 0.0, "max_host_cpu_per_unit": 0.15}
        found = judged(samples.of(trials, arms={"untuned": {}, "tuned": {}}), **limits)
        self.assertEqual(V.PASS, found.verdict, messages.lines(found.reasons))
        lost = next(
            at for at, trial in enumerate(trials) if (trial.arm, trial.block) == ("tuned", 0)
        )
        trials[lost] = dataclasses.replace(trials[lost], value=None, work=None)
        found = judged(samples.of(trials, arms={"untuned": {}, "tuned": {}}), **limits)
        self.assertNotEqual(V.PASS, found.verdict, messages.lines(found.reasons))

    def test_a_certain_loss_is_no_less_certain_where_cpu_was_not_counted(self):
        for trial in self.data.trials:
            trial.work = None
        found = self.check(
            V.FAIL, C.BEYOND, baseline="untuned", max_loss=-0.2, max_host_cpu_per_unit=1.0
        )
        self.assertEqual((V.FAIL, V.INVALID), found.verdicts)

    def test_what_was_not_measured(self):
        for changes, code in (
            ({"benchmark": "fio"}, C.NO_BENCHMARK),
            ({"arm": "guest"}, C.NO_ARM),
            ({"baseline": "metal"}, C.NO_BASELINE),
            ({"metric": "jitter"}, C.NO_METRIC),
            ({"accelerator": "kvm"}, C.OTHER_ACCELERATOR),
        ):
            found = self.check(V.INVALID, code, **changes)
            self.assertEqual(
                (False, 0), (found.open, found.pairs_excluded), "more boots would not help"
            )

    def test_what_cannot_be_judged_decides_over_what_is_not_decided_yet(self):
        for trial in self.data.trials:
            trial.work = None
        found = self.check(V.INVALID, C.NO_SERVICE_CPU, max_loss=0.10, max_host_cpu_per_unit=1.0)
        self.assertEqual((V.INCONCLUSIVE, V.INVALID), found.verdicts)

    def test_guests_are_what_was_asked_for_and_declared(self):
        self.data.environment.accelerator = "kvm"
        for output, wanted, code in (
            ({"virtualization": "kvm"}, {"accelerator": "kvm"}, None),
            ({"virtualization": "qemu"}, {}, C.ACCELERATOR_CONTRADICTED),
            ({"virtualization": "unknown"}, {}, None),
            ({"virtualization": "unknown"}, {"accelerator": "kvm"}, C.VIRTUALIZATION_UNREAD),
            (
                {"findings": [{"code": "queues", "text": "1 queue, 4 asked for"}]},
                {},
                C.OTHER_GUESTS,
            ),
        ):
            samples.tell(self.data, arms={"untuned": {}, "tuned": output})
            self.check(V.PASS if code is None else V.INVALID, code or C.WITHIN, **wanted)

    def test_the_first_of_several_findings_is_named(self):
        findings = [{"code": "queues", "text": text} for text in ("one", "two", "three")]
        samples.tell(self.data, arms={"untuned": {}, "tuned": {"findings": findings}})
        found = self.check(V.INVALID, C.OTHER_GUESTS)
        self.assertEqual(
            ("one", 2), (found.deciding.params["finding"], found.deciding.params["more"])
        )

    def test_the_benchmark_says_by_what_it_is_judged(self):
        """Whatever stands first in the trials; other versions' figures have to be named."""
        invented = [
            dataclasses.replace(trial, metric="goodness", value=1.0) for trial in self.data.trials
        ]
        real, self.data.trials = self.data.trials, [*invented, *self.data.trials]
        self.check(V.FAIL, C.BEYOND, max_loss=0.05)
        self.data.trials = invented
        unnamed = self.check(V.INVALID, C.NO_METRIC)
        named = self.check(V.INVALID, C.NO_METRIC, metric="jitter")
        self.assertEqual(
            (False, True), (unnamed.deciding.params["named"], named.deciding.params["named"])
        )
        self.check(V.PASS, C.WITHIN, metric="goodness")
        self.data.trials = [
            dataclasses.replace(trial, benchmark="own", primary=False) for trial in real
        ]
        self.check(V.INVALID, C.NO_METRIC, benchmark="own")
        self.check(V.PASS, C.WITHIN, benchmark="own", metric="throughput")

    def test_failed_blocks_count_as_the_worst(self):
        """A slow trial is likelier to fail. With more than a fifth lost nothing can be said."""
        before = judged(self.data, baseline="untuned")
        for count, word in ((3, V.PASS), (4, V.INVALID)):
            with self.subTest(count):
                for trial in self.mine[:count]:
                    trial.value, trial.error = None, "guest lost"
                found = judged(self.data, baseline="untuned")
                self.assertEqual(word, found.verdict)
                if word is V.PASS:
                    self.assertTrue(
                        found.loss.value > before.loss.value, (found.loss, before.loss)
                    )
                    self.assertLessEqual({C.FAILED, C.WORST}, found.reasons[0].codes)
        self.assertEqual((C.TOO_MANY_LOST, True), (found.deciding.code, found.open))

    def test_failed_blocks_are_told_once_however_many_limits_there_are(self):
        self.mine[0].value, self.mine[0].error = None, "guest lost"
        found = judged(self.data, max_host_cpu_per_unit=0.3)
        self.assertEqual(
            [{C.FAILED, C.WORST}, set()],
            [{note.code for note in why.notes} for why in found.reasons],
        )

    def test_a_block_in_which_both_arms_failed_says_nothing(self):
        """The host was lost there, and not the arm; of a cost, which needs no baseline, it is one that failed."""
        for arm in ("host", "tuned"):
            for trial in self.data.trials:
                if (trial.arm, trial.boot, trial.block) == (arm, 0, 0):
                    trial.value, trial.work, trial.error = None, None, "host lost"
        found = judged(self.data, max_host_cpu_per_unit=0.3)
        self.assertEqual((17, 17), (found.loss.n, found.cpu.n))
        self.assertEqual(18, judged(self.data, max_loss=None, max_host_cpu_per_unit=0.3).cpu.n)

    def test_excluded_pairs_are_told(self):
        for trial in self.mine[:2]:
            trial.conditions, trial.value = {"steal_share": 0.5}, 1.0
        found = self.check(V.PASS, C.WITHIN)
        self.assertEqual((2, 16), (found.pairs_excluded, found.loss.n))
        self.assertIn(C.STEAL, found.reasons[0].codes)

    def test_the_look_has_its_part_of_the_error(self):
        self.assertNotIn(C.INTERIM, judged(self.data).reasons[0].codes)
        self.data.environment.looks = [3]
        found = judged(self.data)
        self.assertAlmostEqual(0.98, found.loss.confidence)
        self.assertIn(C.INTERIM, found.reasons[0].codes)

    def test_json_has_the_code_beside_the_text(self):
        found = data.judgement(judged(self.data, max_host_cpu_per_unit=0.1))
        self.assertEqual("FAIL", found["verdict"])
        self.assertEqual(["within", "beyond"], [detail["code"] for detail in found["details"]])
        self.assertEqual([str, str], list(map(type, found["reasons"])))
        self.assertLessEqual(
            {"loss", "cpu", "unit", "verdicts", "pairs_excluded", "open", "by_cpu"}, set(found)
        )


class ManyTest(testcase.TestCase):
    """Several budgets, and several hosts."""

    def setUp(self):
        super().setUp()
        self.data = samples.results(
            {"untuned": 1000.0, "tuned": 925.0}, boots=4, blocks=7, noise=0.012, seed=5
        )
        self.budget = B("iperf3", "tuned", 0.05, baseline="untuned")

    def test_looser_limits_on_one_figure_take_nothing_back(self):
        loose = [
            dataclasses.replace(self.budget, max_loss=0.3 + number / 1000) for number in range(100)
        ]
        named = dataclasses.replace(self.budget, metric="throughput", max_loss=0.9)
        [first, *others] = verdict.judge_all(self.data, [self.budget, self.budget, named, *loose])
        self.assertEqual(V.FAIL, first.verdict, first.reasons)
        self.assertEqual(
            (101, {V.PASS}),
            (len(others), {judgement.verdict for judgement in others}),
            "a budget counts once",
        )

    def test_several_figures_are_corrected(self):
        """That figure by itself is beyond the limit, but not for certain as one of many."""
        budgets, trials = [self.budget], list(self.data.trials)
        for number in range(20):
            other = {"benchmark": f"other{number}", "value": 1000.0}
            trials += [dataclasses.replace(trial, **other) for trial in self.data.trials]
            budgets.append(B(f"other{number}", "tuned", 0.3, baseline="untuned"))
        self.data.trials = trials
        [first, *_] = verdict.judge_all(self.data, budgets)
        self.assertEqual(
            (V.INCONCLUSIVE, {C.BEYOND, C.HOLM}), (first.verdict, first.reasons[0].codes)
        )

    def test_optional_budgets_of_what_was_planned(self):
        """Left out is what nobody asked for; a benchmark that never worked was asked for."""
        budgets = [
            B(kind, "tuned", 0.3, baseline="untuned", optional=True)
            for kind in ("iperf3", "fio", "cpu")
        ]
        samples.tell(
            self.data, benchmarks={"iperf3": {"kind": "iperf3"}, "fio:bs=4k": {"kind": "fio"}}
        )
        found = verdict.judge_all(self.data, budgets)
        self.assertEqual(
            ["iperf3", "fio:bs=4k"], [judgement.budget.benchmark for judgement in found]
        )
        self.assertEqual([V.PASS, V.INVALID], [judgement.verdict for judgement in found])

    def test_an_arm_that_never_booted_was_not_left_out(self):
        """Neither as the judged arm nor as the baseline."""
        shipped = budget_file.load("default")
        samples.tell(self.data, accelerator="kvm", arms={"untuned": {}, "tuned": {}})
        for arm in ("untuned", "tuned"):
            with self.subTest(arm):
                rest = [trial for trial in self.data.trials if trial.arm != arm]
                for output in (
                    {},
                    {"arms": {}, "errors": [{"boot": 0, "arm": arm, "error": "no guest"}]},
                ):
                    data = dataclasses.replace(self.data, trials=rest)
                    samples.tell(data, **output)
                    self.assertEqual(
                        V.INVALID, verdict.overall(verdict.judge_all(data, shipped)), (arm, output)
                    )

    def test_worst_verdict_decides_the_exit_code(self):
        for verdicts, expected, code in (
            ([V.PASS, V.PASS], V.PASS, 0),
            ([V.PASS, V.INCONCLUSIVE], V.INCONCLUSIVE, 2),
            ([V.INVALID, V.INCONCLUSIVE], V.INVALID, 3),
            ([V.INVALID, V.FAIL, V.PASS], V.FAIL, 1),
            ([], V.INVALID, 3),
        ):
            with self.subTest(verdicts):
                found = verdict.worst(verdicts)
                self.assertEqual((expected, code), (found, found.exit_code))
