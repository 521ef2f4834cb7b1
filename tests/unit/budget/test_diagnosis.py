"""The verdict in one sentence names what a loss points at."""

import dataclasses

import testtools

from nova_perf_tuning.bench import plugins
from nova_perf_tuning.budget import budget_file, definitions, diagnosis, model, reasons, verdict
from tests.unit.budget import samples


def results(losses, **environment):
    """Return results in which tuned guests lose ``losses``: benchmark -> share."""
    trials = []
    for label, loss in losses.items():
        one = samples.results({"untuned": 1000.0, "tuned": 1000.0 * (1 - loss)}, groups=5, noise=0.005)
        known = definitions.of_label(label, environment)
        metric, unit, better = known[:3] if known else ("throughput", "Mbit/s", "higher")
        named = {"benchmark": label, "metric": metric, "unit": unit, "better": better}
        trials += [dataclasses.replace(trial, **named) for trial in one.trials]
    return model.Results({"arms": {}, "seed": 1, **environment}, trials)


def told(data, **fields):
    budgets = [
        budget_file.Budget(label, "tuned", 0.05, baseline="untuned", **fields)
        for label in dict.fromkeys(one.benchmark for one in data.trials)
    ]
    return diagnosis.diagnose(data, verdict.judge_all(data, budgets))


class DiagnosisTest(testtools.TestCase):
    def test_no_budget_no_diagnosis(self):
        self.assertIsNone(diagnosis.diagnose(results({"cpu": 0.2}), []))

    def test_what_loses_names_what_is_wrong(self):
        for losses, culprit in (
            ({"cpu": 0.2}, "CPU"),
            ({"cpu": 0.2, "iperf3": 0.3, "fio": 0.3}, "CPU"),
            ({"cpu": 0.0, "iperf3": 0.5, "fio": 0.0}, "network"),
            ({"cpu": 0.0, "fio": 0.5}, "disk"),
            ({"own": 0.5}, ""),
        ):
            found = told(results(losses))
            self.assertTrue(found.sentence.startswith("FAIL: tuned loses "), found.sentence)
            self.assertEqual(culprit, found.culprit, losses)
            self.assertEqual(bool(culprit), f"points at the {culprit}" in found.sentence)
            self.assertIn("--ablation", found.actions[0])
            self.assertEqual(not culprit, "several things at once" in found.actions[1])

    def test_a_label_of_ones_own_is_known_by_its_kind(self):
        data = results({"eight streams": 0.5}, benchmarks={"eight streams": {"kind": "iperf3"}})
        self.assertEqual("network", told(data).culprit)

    def test_host_cpu(self):
        found = told(results({"iperf3": 0.0}), max_host_cpu_per_unit=0.01)
        self.assertEqual("host CPU", found.culprit)
        self.assertIn("s of host CPU per Gbit (allowed: 0.01)", found.sentence)

    def test_host_cpu_without_a_limit_of_the_loss(self):
        data = results({"iperf3": 0.5})
        cheap, dear = (
            verdict.judge(
                data,
                budget_file.Budget("iperf3", "tuned", baseline="untuned", max_host_cpu_per_unit=limit),
            )
            for limit in (10.0, 0.01)
        )
        self.assertRegex(
            diagnosis.diagnose(data, [cheap]).sentence, r"^PASS: the budget is met; iperf3 of tuned costs .* Gbit"
        )
        self.assertEqual("host CPU", diagnosis.diagnose(data, [dear]).culprit)

    def test_the_sentence_is_of_the_figure_that_fails(self):
        found = told(results({"iperf3": -0.04}), max_host_cpu_per_unit=0.01)
        self.assertIn("FAIL: iperf3 of tuned costs ", found.sentence)
        undecided = told(results({"iperf3": 0.05}), max_host_cpu_per_unit=0.01)
        self.assertEqual("host CPU", undecided.culprit)
        self.assertIn("FAIL: iperf3 of tuned costs ", undecided.sentence)

    def test_sentence_and_culprit_are_of_one_budget(self):
        data = results({"iperf3": 0.0, "cpu": 0.3})
        budgets = [
            budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned", max_host_cpu_per_unit=0.01),
            budget_file.Budget("cpu", "tuned", 0.05, baseline="untuned"),
        ]
        found = diagnosis.diagnose(data, verdict.judge_all(data, budgets))
        self.assertEqual("CPU", found.culprit)
        self.assertIn("against untuned in cpu", found.sentence)

    def test_what_was_measured_beside_it_counts_too(self):
        for losses, culprit in (
            ({"iperf3": 0.6, "cpu": 0.6, "fio": 0.6}, "CPU"),
            ({"iperf3": 0.6, "cpu": 0.0, "fio": 0.6}, "network"),
        ):
            data = results(losses)
            budgets = [budget_file.Budget("iperf3", "tuned", 0.05, baseline="untuned")]
            found = diagnosis.diagnose(data, verdict.judge_all(data, budgets))
            self.assertEqual(culprit, found.culprit)
            self.assertIn("in iperf3", found.sentence)

    def test_beside_the_host_the_emulator_is_measured(self):
        data = results({"iperf3": 0.9}, accelerator="tcg")
        trials = [dataclasses.replace(one, arm={"untuned": "host"}.get(one.arm, one.arm)) for one in data.trials]
        data = model.Results(data.environment, trials)
        found = diagnosis.diagnose(data, verdict.judge_all(data, [budget_file.Budget("iperf3", "tuned", 0.5)]))
        self.assertEqual("", found.culprit)
        self.assertIn("emulator", found.actions[0])

    def test_why_it_is_undecided(self):
        few = results({"cpu": 0.05})
        few.trials = [one for one in few.trials if one.group < 1]
        self.assertIn("one boot alone shows nothing", told(few).sentence)
        judged = verdict.judge_all(
            data := results({"cpu": 0.2}), [budget_file.Budget("cpu", "tuned", 0.05, baseline="untuned")]
        )
        why = judged[0].reasons[0].noting(reasons.reason(reasons.ReasonCode.HOLM, figures=2))
        word = verdict.Verdict.INCONCLUSIVE
        one = dataclasses.replace(judged[0], verdict=word, reasons=(why,), verdicts=(word,))
        self.assertIn("Holm", diagnosis.diagnose(data, [one]).sentence)

    def test_a_gain_has_no_minus_sign(self):
        data = results({"cpu": 0.0})
        [judged] = verdict.judge_all(data, [budget_file.Budget("cpu", "tuned", 0.05, baseline="untuned")])
        for word, ends, expected in (
            ("PASS", (-0.201, -0.192, -0.184), "gains 19.2% against untuned in cpu, at least 18.4%"),
            ("FAIL", (-0.201, -0.192, -0.184), "gains 19.2% against untuned in cpu, at most 20.1%"),
            ("PASS", (-0.03, -0.01, 0.02), "gains 1.0% against untuned in cpu, losing at most 2.0%"),
            ("FAIL", (-0.03, 0.01, 0.02), "loses 1.0% against untuned in cpu, gaining at most 3.0%"),
            ("PASS", (-0.03, 0.01, 0.02), "loses 1.0% against untuned in cpu, at most 2.0%"),
            ("FAIL", (0.06, 0.1, 0.12), "loses 10.0% against untuned in cpu, at least 6.0%"),
        ):
            loss = dataclasses.replace(judged.loss, **dict(zip(("low", "value", "high"), ends, strict=True)))
            one = dataclasses.replace(judged, verdict=verdict.Verdict(word), loss=loss)
            told = diagnosis.diagnose(data, [one]).sentence
            self.assertIn(f"{expected} (allowed: a loss of 5.0%)", told)
            one = dataclasses.replace(one, budget=dataclasses.replace(one.budget, max_loss=-0.2))
            self.assertIn("(demanded: a gain of 20.0%)", diagnosis.diagnose(data, [one]).sentence)

    def test_nothing_points_to_a_place_that_only_the_report_has(self):
        for losses in ({"cpu": 0.2}, {"cpu": 0.0, "iperf3": 0.5}, {"cpu": 0.0, "fio": 0.5}):
            self.assertNotIn("below", " ".join(told(results(losses)).actions))
        cost = told(results({"iperf3": 0.0}), max_host_cpu_per_unit=0.01).actions
        self.assertIn("('Host CPU by class' in the report)", cost[0])

    def test_advice_fits_what_makes_it_invalid(self):
        floor = {"noise_floor": {"created": "x", "losses": {"cpu": {"events_per_second": 0.3}}}}
        unread = {"accelerator": "kvm", "arms": {"tuned": {"virtualization": "unknown"}}}
        odd = {"arms": {"tuned": {"findings": [{"code": "disk_queues", "text": "vda: 4 queues, the disk has 1"}]}}}
        for environment, budget, expected in (
            ({}, {"arm": "guest"}, "Name in the budget what was measured"),
            ({}, {"benchmark": "cpux"}, "Name in the budget what was measured"),
            ({}, {"metric": "speed"}, "Name in the budget what was measured"),
            (floor, {}, "Allow more in the budget"),
            ({}, {"accelerator": "kvm"}, "Measure on what the budget is for"),
            (unread, {"accelerator": "kvm"}, "See why the guests cannot tell"),
            (odd, {}, "Mend the guest's image or flavor"),
            ({}, {"min_link_mbps": 1000}, "Measure on a host with the link"),
            (
                {"spoil": "host_cpu_s"},
                {"max_host_cpu_per_unit": 1.0},
                "Measure where the host's CPU can be counted",
            ),
            ({"spoil": "value"}, {}, "See what became of these trials"),
        ):
            data = results({"cpu": 0.0}, **environment)
            for one in data.trials if "spoil" in environment else ():
                setattr(one, environment["spoil"], {} if environment["spoil"] == "host_cpu_s" else None)
            fields = {"benchmark": "cpu", "arm": "tuned", "max_loss": 0.05, "baseline": "untuned", **budget}
            judged = verdict.judge_all(data, [budget_file.Budget(**fields)])
            found = diagnosis.diagnose(data, judged)
            self.assertTrue(found.sentence.startswith("INVALID"), found)
            self.assertEqual(1, len(found.actions))
            self.assertIn(expected, found.actions[0], found.sentence)

    def test_a_loss_beyond_the_floor_is_told(self):
        floor = {"noise_floor": {"created": "x", "losses": {"cpu": {"events_per_second": 0.1}}}}
        found = told(results({"cpu": 0.4}, **floor))
        self.assertRegex(
            found.sentence, r"^INVALID: .*; measured: loss 4\d.\d% \(.*\), which is beyond that floor.$"
        )
        self.assertIn("look for the cause", found.actions[0])

    def test_each_kind_points_somewhere_or_tells_how_to_find_out(self):
        for kind in (one.kind for one in plugins.load_all()):
            better = definitions.of_label(kind, {}).better
            data = results({kind: 0.3 if better == "higher" else -0.5}, benchmarks={kind: {"kind": kind}})
            found = told(data, metric=data.trials[0].metric)
            self.assertTrue(found.sentence.startswith("FAIL"), found.sentence)
            self.assertEqual(bool(found.culprit), "several things at once" not in " ".join(found.actions), kind)
            self.assertTrue(len(found.actions) > 1)

    def test_another_accelerator_than_declared(self):
        data = results({"cpu": 0.0}, accelerator="kvm", arms={"tuned": {"virtualization": "qemu"}})
        self.assertIn("/dev/kvm", told(data).actions[0])

    def test_advice_fits_the_guard(self):
        for condition, expected in (
            ({"steal_share": 0.5}, "max_steal"),
            ({"throttle_events": 5.0}, "cooling"),
            ({"clock_step_s": 3.0}, "chronyc"),
        ):
            data = results({"cpu": 0.0})
            for one in data.trials:
                one.conditions = condition
            found = told(data)
            self.assertTrue(found.sentence.startswith("INVALID"), found)
            self.assertIn(expected, found.actions[0], found.sentence)

    def test_other_verdicts(self):
        self.assertIn("PASS: the budget is met", told(results({"cpu": 0.0})).sentence)
        self.assertIn(
            "PASS: all 2 budgets are met; the closest:", told(results({"cpu": 0.0, "fio": 0.01})).sentence
        )
        few = results({"cpu": 0.05})
        few.trials = [one for one in few.trials if one.group < 1]
        self.assertTrue(told(few).sentence.startswith("INCONCLUSIVE: "))
        invalid = told(results({"cpu": 0.0}), accelerator="kvm")
        self.assertIn(
            "INVALID: tuned against untuned in cpu cannot be judged: guests ran on unknown", invalid.sentence
        )

    def test_guests_that_are_not_what_was_asked_for(self):
        data = results(
            {"cpu": 0.0},
            arms={"tuned": {"findings": [{"code": "queues", "text": "client: eth0: 1 of 4 queues are enabled"}]}},
        )
        self.assertEqual(["tuned: client: eth0: 1 of 4 queues are enabled"], diagnosis.spoilt(data))

    def test_guests_under_another_accelerator_than_declared_are_invalid(self):
        arms = {"tuned": {"virtualization": "qemu"}, "untuned": {"virtualization": "kvm"}}
        found = told(results({"cpu": 0.0}, accelerator="kvm", arms=arms))
        self.assertIn("guests of 'tuned': declared to run on kvm, but found on emulation", found.sentence)
