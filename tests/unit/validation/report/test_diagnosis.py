# SPDX-License-Identifier: Apache-2.0
"""What verdicts point at, and what to do about them."""

import dataclasses

from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.judge import budget_file, verdict
from nova_perf_tuning.validation.report import diagnosis
from nova_perf_tuning.validation.results import reasons
from tests.support import samples, testcase

C = reasons.ReasonCode


def results(losses, **environment):
    """Return results in which tuned guests lose ``losses``: benchmark -> share."""
    trials = []
    for label, loss in losses.items():
        measured = samples.results(
            {"untuned": 1000.0, "tuned": 1000.0 * (1 - loss)}, boots=5, noise=0.005
        )
        benchmark = plugins.of_label(label, {})
        metric, unit, better = (
            benchmark.primary if benchmark else ("throughput", "Mbit/s", "higher")
        )
        named = {"benchmark": label, "metric": metric, "unit": unit, "better": better}
        trials += [dataclasses.replace(trial, **named) for trial in measured.trials]
    return samples.of(trials, seed=1, **environment)


def output(data, **fields):
    fields = {"arm": "tuned", "max_loss": 0.05, "baseline": "untuned", **fields}
    labels = dict.fromkeys(trial.benchmark for trial in data.trials)
    budgets = [budget_file.Budget(**{"benchmark": label, **fields}) for label in labels]
    return diagnosis.diagnose(data, verdict.judge_all(data, budgets))


def codes(found):
    return [action.code for action in found.actions]


class DiagnosisTest(testcase.TestCase):
    def test_what_loses_names_what_is_wrong(self):
        self.assertIsNone(diagnosis.diagnose(results({"cpu": 0.2}), []))
        for losses, fields, culprit in (
            ({"cpu": 0.2}, {}, "CPU"),
            ({"cpu": 0.2, "iperf3": 0.3, "fio": 0.3}, {}, "CPU"),
            ({"cpu": 0.0, "iperf3": 0.5, "fio": 0.0}, {}, "network"),
            ({"cpu": 0.0, "fio": 0.5}, {}, "disk"),
            ({"own": 0.5}, {}, ""),
            ({"iperf3": 0.0}, {"max_host_cpu_per_unit": 0.01}, "host CPU"),
            ({"iperf3": 0.5}, {"max_host_cpu_per_unit": 0.01, "max_loss": None}, "host CPU"),
            # The loss is undecided, the cost is not.
            ({"iperf3": 0.05}, {"max_host_cpu_per_unit": 0.01}, "host CPU"),
        ):
            with self.subTest(losses):
                found = output(results(losses), **fields)
                said = found.headline.params
                self.assertEqual(
                    ("FAIL", "tuned", "untuned"), (said["verdict"], said["arm"], said["baseline"])
                )
                self.assertEqual((culprit, culprit), (found.culprit, said["culprit"]), losses)
                self.assertEqual(culprit != "host CPU", C.ABLATE in codes(found))

    def test_a_label_of_ones_own_is_known_by_its_kind(self):
        data = results({"eight streams": 0.5}, benchmarks={"eight streams": {"kind": "iperf3"}})
        self.assertEqual("network", output(data).culprit)

    def test_advice_fits_what_was_compared(self):
        """Nobody can give vCPUs to a bare host, or correct a budget where the work differs."""
        files = {"launcher": "files", "unpaired": True}
        for losses, fields, environment, wanted in (
            ({"cpu": 0.5}, {}, files, C.CHECK_WHERE_FILES_COME_FROM),
            ({"own": 0.5}, {}, files, C.CHECK_WHERE_FILES_COME_FROM),
            ({"cpu": 0.5}, {}, {"launcher": "host"}, C.CHECK_HOST),
            (
                {"oslat": 0.5},
                {"max_loss": None, "max_value": "1 us", "min_duration": "1s"},
                {"launcher": "host"},
                C.CHECK_HOST,
            ),
        ):
            with self.subTest(losses, environment=environment):
                found = output(results(losses, **environment), **fields)
                self.assertEqual("FAIL", found.headline.params["verdict"])
                self.assertEqual([wanted], codes(found))
        host = samples.results({"untuned": 1000.0, "host": 500.0}, boots=5, noise=0.005)
        self.assertEqual([C.CHECK_HOST], codes(output(host, arm="host")))

    def test_advice_on_work_that_differs(self):
        data = results({"cpu": 0.0})
        mixed = reasons.reason(C.MIXED_WORKLOADS, name="threads", by_file={}, others=[])
        budgets = [budget_file.Budget("cpu", "tuned", 0.05, baseline="untuned")]
        found = diagnosis.diagnose(data, verdict.judge_all(data, budgets, mixed))
        self.assertEqual([C.JUDGE_ONE_WORKLOAD], codes(found))
        works = {"untuned": [{"version": "1"}], "tuned": [{"version": "2"}]}
        samples.tell(data, benchmarks={"cpu": {"kind": "cpu", "workloads": works}})
        self.assertEqual([C.MEASURE_SAME_WORK], codes(output(data)))
        data = results({"cpu": 0.0}, launcher="files", unpaired=True)
        for trial in data.trials:
            if trial.arm == "tuned":
                trial.value = None
        self.assertEqual([C.SEE_FILES], codes(output(data)))

    def test_sentence_and_culprit_are_of_one_budget(self):
        data = results({"iperf3": 0.0, "cpu": 0.3})
        budgets = [
            budget_file.Budget(
                "iperf3", "tuned", 0.05, baseline="untuned", max_host_cpu_per_unit=0.01
            ),
            budget_file.Budget("cpu", "tuned", 0.05, baseline="untuned"),
        ]
        found = diagnosis.diagnose(data, verdict.judge_all(data, budgets))
        self.assertEqual("CPU", found.culprit)
        self.assertEqual("cpu", found.headline.params["benchmark"])

    def test_beside_the_host_the_emulator_is_measured(self):
        data = results({"iperf3": 0.9}, accelerator="tcg")
        for trial in data.trials:
            trial.arm = {"untuned": "host"}.get(trial.arm, trial.arm)
        found = output(data, baseline="host", max_loss=0.5)
        self.assertEqual("", found.culprit)
        self.assertEqual([C.JUDGE_UNDER_KVM], codes(found))

    def test_each_kind_points_somewhere_or_tells_how_to_find_out(self):
        for kind in (benchmark.kind for benchmark in plugins.load_all()):
            better = plugins.of_label(kind, {}).primary[2]
            data = results(
                {kind: 0.3 if better == "higher" else -0.5}, benchmarks={kind: {"kind": kind}}
            )
            found = output(data, metric=data.trials[0].metric)
            self.assertEqual("FAIL", found.headline.params["verdict"])
            self.assertEqual(bool(found.culprit), C.MEASURE_PARTS not in codes(found), kind)
            self.assertEqual(C.ABLATE, found.actions[0].code)

    def test_advice_fits_what_makes_it_invalid(self):
        floor = {"noise_floor": {"created": "x", "losses": {"cpu": {"events_per_second": 0.3}}}}
        unread = {"accelerator": "kvm", "arms": {"tuned": {"virtualization": "unknown"}}}
        odd = {
            "arms": {
                "tuned": {
                    "findings": [{"code": "disk_queues", "text": "vda: 4 queues, the disk has 1"}]
                }
            }
        }
        for environment, budget, conditions, code in (
            ({}, {"arm": "guest"}, {}, C.NO_ARM),
            ({}, {"benchmark": "cpux"}, {}, C.NO_BENCHMARK),
            ({}, {"metric": "speed"}, {}, C.NO_METRIC),
            (floor, {}, {}, C.BELOW_NOISE_FLOOR),
            ({}, {"accelerator": "kvm"}, {}, C.OTHER_ACCELERATOR),
            (unread, {"accelerator": "kvm"}, {}, C.VIRTUALIZATION_UNREAD),
            (odd, {}, {}, C.OTHER_GUESTS),
            ({}, {}, {"steal_share": 0.5}, C.STEAL),
            ({}, {}, {"throttle_events": 5.0}, C.THROTTLING),
        ):
            with self.subTest(environment):
                data = results({"cpu": 0.0}, **environment)
                for trial in data.trials:
                    trial.conditions = conditions
                found = output(data, **budget)
                [why] = found.headline.params["why"]
                self.assertEqual(
                    ("INVALID", True), (found.headline.params["verdict"], code in why.codes), found
                )
                trials = code in (C.STEAL, C.THROTTLING)
                self.assertEqual([C.SEE_TRIALS if trials else C.CORRECT_BUDGET], codes(found))

    def test_headline_of_other_verdicts_says_why(self):
        met, both = output(results({"cpu": 0.0})), output(results({"cpu": 0.0, "fio": 0.01}))
        self.assertEqual(
            ("PASS", C.WITHIN),
            (met.headline.params["verdict"], met.headline.params["why"][0].code),
        )
        self.assertEqual((C.ALL_MET, {"count": 2}), (both.headline.code, both.headline.params))
        few = results({"cpu": 0.05})
        few.trials = [trial for trial in few.trials if trial.boot < 1]
        self.assertEqual([C.MORE_BOOTS], codes(output(few)))
