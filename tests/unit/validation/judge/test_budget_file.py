# SPDX-License-Identifier: Apache-2.0
"""Which budgets apply where, and those that are shipped."""

import dataclasses

from nova_perf_tuning.validation.judge import budget_file, trial_filter, verdict
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.results import reasons, schema
from tests.support import directories, samples, testcase

C = reasons.ReasonCode
B = budget_file.Budget


class ApplicableTest(testcase.TestCase):
    def test_the_most_specific_one_counts(self):
        general, group, flavor = (
            B("fio", "tuned", 0.3),
            B("fio", "tuned", 0.2, host_group="gen3-*"),
            B("fio", "tuned", 0.1, host_group="gen3-*", flavor="perf.*"),
        )
        other = B("cpu", "tuned", 0.05)
        known = [general, group, flavor, other]
        for environment, expected in (
            ({}, [general, other]),
            ({"host_group": "gen2-a"}, [general, other]),
            ({"host_group": "gen3-a"}, [group, other]),
            ({"host_group": "gen3-a", "flavor": "perf.net"}, [flavor, other]),
            ({"flavor": "perf.net"}, [general, other]),
        ):
            with self.subTest(environment):
                self.assertEqual(expected, budget_file.applicable(known, environment, {}))

    def test_encrypted_guests_have_budgets_of_their_own(self):
        plain, sev = B("fio", "tuned", 0.3), B("fio", "tuned", 0.6, memory_encryption="amd-sev*")
        for encryption, expected in (("", [plain]), ("amd-sev-es", [sev]), ("intel-tdx", [])):
            with self.subTest(encryption):
                places = environments.Environment(memory_encryption=encryption).places
                self.assertEqual(expected, budget_file.applicable([plain, sev], places, {}))

    def test_the_primary_figure_is_one_by_name_and_by_default(self):
        general = B("iperf3", "tuned", 0.01)
        own = B("iperf3", "tuned", 0.2, metric="throughput", host_group="gpu*")
        other = B("iperf3", "tuned", 0.1, metric="client_cpu", host_group="gpu*")
        for budget, expected in ((own, [own]), (other, [general, other])):
            with self.subTest(budget):
                known = budget_file.applicable(
                    [general, budget], {"host_group": "gpu7"}, {"iperf3": "throughput"}
                )
                self.assertEqual(expected, known)
        data = samples.results({"host": 1000.0, "tuned": 900.0}, host_group="gpu7")
        self.assertEqual(
            [own], [judgement.budget for judgement in verdict.judge_all(data, [general, own])]
        )

    def test_why_none_applies(self):
        data = samples.results(
            {"untuned": 1000.0, "again": 1000.0}, accelerator="tcg", host_group="gen1"
        )
        output = budget_file.why_none(data)
        self.assertIs(C.NO_BUDGET_APPLIES, output.code)
        known = {"arms": ["untuned", "again"], "benchmarks": ["iperf3"], "accelerator": "tcg"}
        known |= {"flavor": "", "memory_encryption": ""}
        self.assertEqual({**known, "host_group": "gen1"}, output.params)

    def test_an_example_for_what_was_measured(self):
        data = samples.results({"untuned": 1000.0, "again": 1000.0})
        found = budget_file.how_to_write(data)
        self.assertIs(C.WRITE_BUDGET, found.code)
        fields = {"benchmark": "iperf3", "baseline": "untuned", "arm": "again", "max_loss": "0.05"}
        self.assertEqual(fields, found.params["fields"])
        self.assertIsNone(budget_file.how_to_write(samples.results({})))

    def test_optional_ones_stand_for_every_label_of_their_kind(self):
        kinds = {"iperf3:streams=1": "iperf3", "iperf3:streams=4": "iperf3"}
        known = [
            B("iperf3", "tuned", 0.1, optional=True),
            B("fio", "tuned", 0.1, optional=True),
            B("cpu", "x", 0.1),
        ]
        found = budget_file.for_measured(known, kinds, ["host", "tuned"], "kvm")
        self.assertEqual(
            ["iperf3:streams=1", "iperf3:streams=4", "cpu"], [budget.benchmark for budget in found]
        )
        of_host = budget_file.for_measured(known, kinds, ["host"], None)
        self.assertEqual(["cpu"], [budget.benchmark for budget in of_host])

    def test_what_nobody_told_the_host_group_or_flavor_for(self):
        group, flavor = (
            B("iperf3", "tuned", 0.1, host_group="gen3"),
            B("iperf3", "tuned", 0.2, flavor="big"),
        )
        both = B("iperf3", "tuned", 0.1, host_group="gen3", flavor="big")
        for known, output, expected in (
            ([group], {}, ["host_group"]),
            ([flavor], {"host_group": "gen3"}, ["flavor"]),
            ([both], {}, ["host_group", "flavor"]),
            ([both], {"flavor": "big"}, ["host_group"]),
            ([both], {"flavor": "small"}, []),
            ([group], {"host_group": "gen4"}, []),
            ([group], {"host_group": "gen3"}, []),
        ):
            with self.subTest(known):
                data = samples.results({"host": 1000.0, "tuned": 900.0}, **output)
                found = budget_file.left_out(data, known)
                unknown = [
                    (why.code, why.params["unknown"], why.params["budgets"]) for why in found
                ]
                wanted = (
                    [(C.PLACE_UNKNOWN, expected, ["iperf3, tuned against host"])]
                    if expected
                    else []
                )
                self.assertEqual(wanted, unknown, (known, output))


class LoadTest(directories.DirectoryCase):
    def load(self, text):
        return budget_file.load(self.write_file("budget.yaml", text))

    def test_keys_of_a_budget_have_defaults(self):
        [budget] = self.load("budgets:\n- {benchmark: fio, arm: tuned, max_loss: 0.2}\n")
        self.assertEqual(B("fio", "tuned", 0.2, None, "host", None, 0.95), budget)
        [budget] = self.load(
            "guards: {max_steal: 0.1}\nbudgets: [{benchmark: fio, metric: iops, baseline: host, arm: guest,"
            " max_host_cpu_per_unit: 0.2, confidence: 0.9, accelerator: kvm}]"
        )
        self.assertEqual(
            (None, 0.2, 0.9), (budget.max_loss, budget.max_host_cpu_per_unit, budget.confidence)
        )
        self.assertEqual(("kvm", 0.1), (budget.accelerator, budget.guards.max_steal))

    def test_no_number_is_nan_or_infinite(self):
        """Every figure keeps a limit of .nan: the guard or the budget would be off."""
        guards = [field.name for field in dataclasses.fields(trial_filter.Limits)]
        for number in (".nan", ".NaN", ".inf", "-.inf", "1.0e+999"):
            for guard in guards:
                with self.subTest(guard, number=number):
                    budget = "budgets: [{benchmark: a, arm: b, max_loss: 0.1}]"
                    text = f"guards: {{{guard}: {number}}}\n{budget}"
                    error = self.assertRaises(schema.InputError, self.load, text)
                    self.assertIn(f"line 1: not usable YAML: {number} is not a finite", str(error))
            for key in ("max_loss", "max_host_cpu_per_unit", "confidence"):
                with self.subTest(key, number=number):
                    text = f"budgets: [{{benchmark: a, arm: b, {key}: {number}}}]"
                    error = self.assertRaises(schema.InputError, self.load, text)
                    self.assertIn(f"{number} is not a finite number", str(error))

    def test_mistakes_name_the_place_and_what_is_wanted(self):
        for text, output in (
            ("", "the document"),
            ("budgets: []", "budgets: [] where a list of one budget or more"),
            (
                "budgets: [{benchmark: fio, arm: a}]",
                "budgets[0] (fio): limits nothing; give max_loss",
            ),
            (
                "budgets: [{benchmark: fio, arm: host, max_loss: 0.1}]",
                "arm and baseline are both 'host'",
            ),
            (
                "budgets: [{benchmark: fio, arm: a, max_loss: 40}]",
                "budgets[0].max_loss: 40 where a share below 1",
            ),
            (
                "budgets: [{benchmark: fio, arm: a, max_loss: 40%}]",
                "budgets[0].max_loss: '40%' where a share",
            ),
            ("budgets: [{benchmark: fio, arm: a, maxloss: 1}]", "('maxloss' was unexpected)"),
            (
                "budgets: [{benchmark: fio, arm: a, max_loss: 0.1, accelerator: KVM}]",
                "budgets[0].accelerator",
            ),
            (
                "budgets: [{benchmark: fio, arm: a, max_loss: 0.1, confidence: 95}]",
                "a share from 0.5 to 0.999",
            ),
            (
                "guards: {max_steal: 5}\nbudgets: [{benchmark: a, arm: b, max_loss: 0.1}]",
                "guards.max_steal: 5",
            ),
            ("budgets: [", "line 1"),
            ("#" * 300_000, "larger than"),
        ):
            with self.subTest(text):
                error = self.assertRaises(schema.InputError, self.load, text)
                self.assertIn(output, str(error))
        self.assertRaises(schema.InputError, budget_file.load, "/nonexistent/budget.yaml")


class ShippedTest(testcase.TestCase):
    def test_every_figure_has_its_reason(self):
        for budget in budget_file.load("default"):
            self.assertTrue(len(budget.reason) > 40, budget)
            self.assertTrue(budget.optional, budget)

    def test_they_judge_what_was_measured(self):
        data = samples.results(
            {"host": 1000.0, "untuned": 800.0, "tuned": 990.0}, boots=4, blocks=4
        )
        data.environment.accelerator = "kvm"
        found = verdict.judge_all(data, budget_file.load("default"))
        self.assertTrue(
            {"host", "untuned"} == {judgement.budget.baseline for judgement in found}, found
        )
        self.assertEqual(verdict.Verdict.PASS, verdict.overall(found), found)

    def test_host_budgets_stay_where_the_accelerator_is_not_known(self):
        data = samples.results(
            {"host": 1000.0, "untuned": 300.0, "tuned": 300.0}, boots=4, blocks=6
        )
        budgets = budget_file.load("default")
        for output, expected in (
            ({"accelerator": "kvm"}, verdict.Verdict.FAIL),
            ({}, verdict.Verdict.INVALID),
            ({"accelerator": "unknown"}, verdict.Verdict.INVALID),
        ):
            with self.subTest(output):
                found = samples.of(data.trials, **data.environment.to_dict())
                samples.tell(found, **output)
                self.assertEqual(
                    expected, verdict.overall(verdict.judge_all(found, budgets)), output
                )
                self.assertEqual([], budget_file.left_out(found, budgets))

    def test_what_is_left_out_is_told(self):
        data = samples.results(
            {"host": 1000.0, "untuned": 300.0, "tuned": 300.0}, boots=4, blocks=6
        )
        budgets = budget_file.load("default")
        for environment in ({"accelerator": "tcg"}, {"launcher": "heat"}):
            with self.subTest(environment):
                data = samples.of(data.trials, **environment)
                [why] = budget_file.left_out(data, budgets)
                self.assertEqual(
                    (C.NOT_MEASURED, {"budgets": ["iperf3, tuned against host"]}),
                    (why.code, why.params),
                )
                self.assertEqual(
                    ["untuned"],
                    [judgement.budget.baseline for judgement in verdict.judge_all(data, budgets)],
                )
        data.trials = [trial for trial in data.trials if trial.arm != "host"]
        self.assertEqual(
            [C.NOT_MEASURED], [why.code for why in budget_file.left_out(data, budgets)]
        )
