"""Which budgets apply where, and those that are shipped."""

import dataclasses
import os

import fixtures
import testtools

from nova_perf_tuning.budget import budget_file, model, schema, selection, verdict
from tests.unit.budget import samples

B = budget_file.Budget


class ApplicableTest(testtools.TestCase):
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
            self.assertEqual(expected, budget_file.applicable(known, environment, {}))

    def test_a_case_of_its_own_is_not_shadowed_by_another_baseline(self):
        both = [B("fio", "tuned", 0.3), B("fio", "tuned", 0.0, baseline="untuned", host_group="*")]
        self.assertEqual(both, budget_file.applicable(both, {}, {}))

    def test_the_primary_figure_is_one_by_name_and_by_default(self):
        general = B("iperf3", "tuned", 0.01)
        own = B("iperf3", "tuned", 0.2, metric="throughput", host_group="gpu*")
        other = B("iperf3", "tuned", 0.1, metric="client_cpu", host_group="gpu*")
        for one, expected in ((own, [own]), (other, [general, other])):
            self.assertEqual(
                expected,
                budget_file.applicable([general, one], {"host_group": "gpu7"}, {"iperf3": "throughput"}),
            )
        data = samples.results({"host": 1000.0, "tuned": 900.0}, host_group="gpu7")
        self.assertEqual([own], [one.budget for one in verdict.judge_all(data, [general, own])])

    def test_one_for_the_group_and_one_for_the_flavor_both_count(self):
        both = [B("fio", "tuned", 0.3, host_group="a"), B("fio", "tuned", 0.1, flavor="b")]
        self.assertEqual(both, budget_file.applicable(both, {"host_group": "a", "flavor": "b"}, {}))

    def test_why_none_applies(self):
        data = samples.results({"untuned": 1000.0, "again": 1000.0}, accelerator="tcg", host_group="gen1")
        for one, told in (
            (B("iperf3", "again", 0.1, host_group="gen2"), "none is for host_group 'gen1' and flavor ''; give"),
            (
                B("iperf3", "tuned", 0.1, optional=True),
                "the results have the arms untuned, again, budgets are for tuned against host",
            ),
            (
                B("iperf3", "again", 0.1, baseline="untuned", accelerator="kvm", optional=True),
                "guests ran on tcg, budgets are for kvm",
            ),
            (
                B("fio", "again", 0.1, baseline="untuned", optional=True),
                "the results have iperf3, budgets are for fio",
            ),
        ):
            self.assertEqual([], verdict.judge_all(data, [one]))
            self.assertIn(told, budget_file.why_none([one], data))

    def test_optional_ones_stand_for_every_label_of_their_kind(self):
        kinds = {"iperf3:streams=1": "iperf3", "iperf3:streams=4": "iperf3"}
        known = [
            B("iperf3", "tuned", 0.1, optional=True),
            B("fio", "tuned", 0.1, optional=True),
            B("cpu", "x", 0.1),
        ]
        found = budget_file.for_measured(known, kinds, ["host", "tuned"], "kvm")
        self.assertEqual(["iperf3:streams=1", "iperf3:streams=4", "cpu"], [one.benchmark for one in found])
        self.assertEqual(
            ["cpu"], [one.benchmark for one in budget_file.for_measured(known, kinds, ["host"], None)]
        )

    def test_more_than_can_be_judged_is_refused(self):
        kinds = {f"iperf3:{one}": "iperf3" for one in range(150)}
        known = [B("iperf3", "tuned", one / 1000, optional=True) for one in range(134)]
        self.assertEqual(19_950, len(budget_file.for_measured(known[:133], kinds, ["host", "tuned"], "kvm")))
        error = self.assertRaises(  # len: a list of 20,000 would be shown where it fails
            schema.InputError, lambda: len(budget_file.for_measured(known, kinds, ["host", "tuned"], "kvm"))
        )
        self.assertIn("stand for more than 20,000 pairs of benchmark and budget", str(error))
        self.assertRaises(schema.InputError, budget_file.check_number, 200_001)

    def test_many_labels_are_looked_up_once_each(self):
        """More than are kept: budgets for the same label come one after the other."""
        count = selection._KEPT + 10
        one = samples.results({"untuned": 1000.0, "tuned": 990.0}, groups=1, blocks=1)
        labels = [f"iperf3:{number}" for number in range(count)]
        trials = [dataclasses.replace(trial, benchmark=label) for label in labels for trial in one.trials]
        data = model.Results({"benchmarks": {label: {"kind": "iperf3"} for label in labels}}, trials)
        known = [B("iperf3", "tuned", loss, baseline="untuned", optional=True) for loss in (0.1, 0.2, 0.3)]
        calls = []
        select = selection.counted.select

        def counting(*arguments, **named):
            calls.append(1)
            return select(*arguments, **named)

        self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.budget.selection.counted.select", counting))
        judged = verdict.judge_all(data, known)
        self.assertEqual(
            [(label, loss) for loss in (0.1, 0.2, 0.3) for label in labels],
            [(one.budget.benchmark, one.budget.max_loss) for one in judged],
        )
        self.assertEqual(count, len(calls))

    def test_what_nobody_told_the_host_group_or_flavor_for(self):
        group, flavor = B("iperf3", "tuned", 0.1, host_group="gen3"), B("iperf3", "tuned", 0.2, flavor="big")
        both = B("iperf3", "tuned", 0.1, host_group="gen3", flavor="big")
        optional = dataclasses.replace(group, optional=True)
        begin, end = "1 of the budgets left out, since the results name no ", ": iperf3, tuned against host"
        for known, told, expected in (
            ([group], {}, [f"{begin}host group (give --host-group){end}"]),
            ([flavor], {"host_group": "gen3"}, [f"{begin}flavor (give --flavor){end}"]),
            ([both], {}, [f"{begin}host group and no flavor (give --host-group and --flavor){end}"]),
            ([both], {"flavor": "big"}, [f"{begin}host group (give --host-group){end}"]),
            ([both], {"flavor": "small"}, []),
            ([group], {"host_group": "gen4"}, []),
            ([group], {"host_group": "gen3"}, []),
            ([optional], {}, []),
            ([group, B("iperf3", "tuned", 0.3, host_group="*", flavor="*")], {}, []),
        ):
            data = samples.results({"host": 1000.0, "tuned": 900.0}, **told)
            self.assertEqual(expected, verdict.left_out(data, known), (known, told))


class FaultTest(testtools.TestCase):
    def test_what_is_wanted_is_told(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, "budget.yaml")
        one = "benchmark: fio, arm: tuned"
        share = "a share below 1 (0.4 for 40 %; below 0 it demands a gain) is wanted"
        for text, told in (
            (
                "budgets: []",
                "budgets: [] where a list of one budget or more (benchmark, arm and max_loss or "
                "max_host_cpu_per_unit) is wanted",
            ),
            (f"budgets: [{{{one}, max_loss: 40}}]", f"budgets[0].max_loss: 40 where {share}"),
            (f"budgets: [{{{one}, max_loss: 40%}}]", f"budgets[0].max_loss: '40%' where {share}"),
            (
                f"budgets: [{{{one}, max_loss: 0.1, confidence: 95}}]",
                "budgets[0].confidence: 95 where a share from 0.5 to 0.999 (0.95 for 95 %) is wanted",
            ),
            (
                f"guards: {{max_steal: 5}}\nbudgets: [{{{one}, max_loss: 0.1}}]",
                "guards.max_steal: 5 where a share from 0 to 1 (0.4 for 40 %) is wanted",
            ),
        ):
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            error = self.assertRaises(schema.InputError, budget_file.load, path)
            self.assertEqual(f"{path}: {told}", str(error))


class ShippedTest(testtools.TestCase):
    def test_every_figure_has_its_reason(self):
        for one in budget_file.load("default"):
            self.assertTrue(len(one.reason) > 40, one)
            self.assertTrue(one.optional, one)

    def test_they_judge_what_was_measured(self):
        data = samples.results({"host": 1000.0, "untuned": 800.0, "tuned": 990.0}, groups=4, blocks=4)
        data.environment["accelerator"] = "kvm"
        found = verdict.judge_all(data, budget_file.load("default"))
        self.assertTrue({"host", "untuned"} == {one.budget.baseline for one in found}, found)
        self.assertEqual(verdict.Verdict.PASS, verdict.overall(found), found)

    def test_host_budgets_stay_where_the_accelerator_is_not_known(self):
        data = samples.results({"host": 1000.0, "untuned": 300.0, "tuned": 300.0}, groups=4, blocks=6)
        budgets = budget_file.load("default")
        for told, expected in (
            ({"accelerator": "kvm"}, verdict.Verdict.FAIL),
            ({}, verdict.Verdict.INVALID),
            ({"accelerator": None}, verdict.Verdict.INVALID),
            ({"accelerator": "KVM"}, verdict.Verdict.INVALID),
            ({"accelerator": "unknown"}, verdict.Verdict.INVALID),
        ):
            found = model.Results({**data.environment, **told}, data.trials)
            self.assertEqual(expected, verdict.overall(verdict.judge_all(found, budgets)), told)
            self.assertEqual([], verdict.left_out(found, budgets))

    def test_what_is_left_out_is_told(self):
        data = samples.results({"host": 1000.0, "untuned": 300.0, "tuned": 300.0}, groups=4, blocks=6)
        budgets = budget_file.load("default")
        for told, expected in (
            ({"accelerator": "tcg"}, "since they are for kvm and guests ran on tcg"),
            ({"launcher": "heat"}, "since they are for kvm and guests ran on what a cloud does not tell"),
        ):
            data.environment = {**told}
            expected = [f"1 of the budgets left out, {expected}: iperf3, tuned against host"]
            self.assertEqual(expected, verdict.left_out(data, budgets))
            self.assertEqual(["untuned"], [one.budget.baseline for one in verdict.judge_all(data, budgets)])
        data.trials = [one for one in data.trials if one.arm != "host"]
        [told] = verdict.left_out(data, budgets)
        self.assertEqual(
            "1 of the budgets left out, since arm 'host' was not measured: iperf3, tuned against host", told
        )

    def test_host_budgets_are_not_for_emulation(self):
        data = samples.results(
            {"host": 1000.0, "untuned": 8.0, "tuned": 9.0}, groups=4, blocks=4, accelerator="tcg"
        )
        found = verdict.judge_all(data, budget_file.load("default"))
        self.assertEqual({"untuned"}, {one.budget.baseline for one in found})
