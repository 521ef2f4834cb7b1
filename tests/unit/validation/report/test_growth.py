# SPDX-License-Identifier: Apache-2.0
"""The time of a report is proportional to its input, and the names in results are bounded."""

import collections.abc
import gc
import time
from unittest import mock

from nova_perf_tuning.validation.judge import ablation, budget_file, noise, trial_filter, verdict
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import report, summary
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.results import model, schema
from tests.support import samples, testcase


def results_of(arms):
    data = samples.results(
        {f"arm{number}": 100.0 + number for number in range(arms)}, boots=2, blocks=1
    )
    for trial in list(data.trials):
        figure = {"metric": "p99", "unit": "ms", "better": "lower", "primary": False}
        data.trials.append(
            samples.trial(arm=trial.arm, boot=trial.boot, order=trial.order, value=2.0, **figure)
        )
    return data


class Read(list):
    """Incidents that count how often they are read from end to end."""

    times = 0

    def __iter__(self):
        self.times += 1
        return super().__iter__()


class Boots(collections.abc.Set):
    """Boots of which one may ask, but that are too many to be read for every figure."""

    def __contains__(self, boot):
        return boot < 100_000

    def __iter__(self):
        raise AssertionError("every boot is read")

    def __len__(self):
        return 100_000


def seconds(work, times=1):
    """Return the CPU seconds of a call, the least of so many."""
    spent = []
    for _ in range(times):
        gc.collect()
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent)


class GrowthTest(testcase.TestCase):
    def test_eight_times_the_arms_do_not_take_twenty_times_as_long(self):
        few, many = results_of(75), results_of(600)
        report.render(few, summary.summarise(few), [])  # what is loaded and compiled once
        for what, work in (
            ("summary", summary.summarise),
            ("report", lambda results: report.render(results, summary.summarise(results), [])),
        ):
            with self.subTest(what):
                less = seconds(lambda: work(few), times=2)  # noqa: B023
                more = seconds(lambda: work(many))  # noqa: B023
                if more >= 20 * less:  # perhaps the machine was busy
                    more = seconds(lambda: work(many))  # noqa: B023
                self.assertLess(more, 20 * less)

    def test_incidents_are_looked_up_once_and_say_the_same(self):
        data = samples.results({"host": 3.0, "tuned": 2.0}, boots=3, blocks=2)
        data.trials = [trial for trial in data.trials if trial.boot != 1]
        boot = environments.Incident("no boot", 1, "tuned", code=environments.IncidentCode.BOOT)
        data.environment.errors = [boot]
        gaps = trial_filter.Gaps.of(data.environment)
        self.assertEqual({"tuned": frozenset({1})}, gaps.unbooted)
        figure = trial_filter.Figure.of(data.trials)
        self.assertEqual(2, trial_filter.lost(figure, gaps, "tuned").missing)
        self.assertEqual(0, trial_filter.lost(figure, gaps, "host").missing)

    def readings(self, work, *, labels, knobs=0):
        """Return how often ``work`` reads the incidents of results."""
        without = [f"no-{number}" for number in range(knobs)]
        arms = dict.fromkeys(["host", "untuned", "tuned", "again", *without], 100.0)
        data = samples.results(arms, boots=3, blocks=1)
        for number in range(1, labels):
            for trial in samples.results(arms, boots=3, blocks=1).trials:
                trial.benchmark = f"b{number}"
                data.trials.append(trial)
        left_out = {arm: {"spec": f"perf:{arm}", "value": "1"} for arm in without}
        samples.tell(data, ablation=left_out)
        data.environment.errors = Read([environments.Incident("no boot", 1, "tuned")])
        work(data)
        return data.environment.errors.times

    def test_incidents_are_read_as_often_however_many_figures_there_are(self):
        budgets = []
        for number in range(8):
            label = f"b{number}" if number else "iperf3"
            budgets.append(budget_file.Budget(label, "tuned", 0.5, optional=True))
        for what, work, knobs in (
            ("ablation", lambda results: ablation.judge(results, budgets), 8),
            ("budgets", lambda results: verdict.judge_all(results, budgets), 0),
            ("noise floors", noise.floors, 0),
            ("summary", summary.summarise, 0),
        ):
            with self.subTest(what):
                once = self.readings(work, labels=1, knobs=min(knobs, 1))
                self.assertEqual(once, self.readings(work, labels=8, knobs=knobs))

    def sorted_figures(self, knobs):
        """Return how often an ablation sorts the trials of a figure."""
        without = [f"no-{number}" for number in range(knobs)]
        arms = dict.fromkeys(["host", "untuned", "tuned", *without], 100.0)
        data = samples.results(arms, boots=3, blocks=1)
        left_out = {arm: {"spec": f"perf:{arm}", "value": "1"} for arm in without}
        samples.tell(data, ablation=left_out)
        budget = budget_file.Budget("iperf3", "tuned", 0.5)
        with mock.patch.object(
            trial_filter.Figure, "of", side_effect=trial_filter.Figure.of
        ) as sorted_once:
            ablation.judge(data, [budget])
        return sorted_once.call_count

    def test_trials_of_a_figure_are_sorted_as_often_however_many_arms_there_are(self):
        self.assertEqual(self.sorted_figures(1), self.sorted_figures(9))

    def test_boots_of_incidents_are_not_read_for_every_figure(self):
        data = samples.results({"host": 3.0, "tuned": 2.0}, boots=3, blocks=2)
        gaps = trial_filter.Gaps(many=False, cut=Boots(), unbooted={"tuned": Boots()})
        figure = trial_filter.Figure.of(data.trials)
        self.assertEqual(2 * (100_000 - 3), trial_filter.lost(figure, gaps, "tuned").missing)


class NamesTest(testcase.TestCase):
    def load(self, **names):
        """Read one trial for each value of the one field given."""
        [(field, values)] = names.items()
        trials = []
        for order, value in enumerate(values):
            trials.append(samples.trial(order=0 if field == "metric" else order, **{field: value}))
            trials[-1].primary = field != "metric"
        document = results_file.to_dict(model.Results(environments.Environment(), trials))
        return results_file.from_dict(document, "results.json")

    def test_names_in_trials_are_as_many_as_the_environment_has(self):
        for field, most in (("arm", 100), ("benchmark", 1000), ("metric", 100)):
            with self.subTest(field):
                names = [f"name{number}" for number in range(most)]
                self.assertEqual(most, len(self.load(**{field: names}).trials))
                error = self.assertRaises(
                    schema.InputError, self.load, **{field: [*names, "one more"]}
                )
                self.assertIn(f"results.json: trials[{most}].{field}: ", str(error))
                self.assertIn(f"at most {most} ", str(error))

    def test_names_in_the_environment_are_as_long_as_in_trials(self):
        for field, value in (
            ("arms", {}),
            ("benchmarks", {}),
            ("ablation", {"spec": "perf:x", "value": "1"}),
        ):
            for name in ("", "x" * 201):
                document = results_file.to_dict(samples.results({"host": 3.0}))
                document["environment"][field] = {name: value}
                with self.subTest(field, name=name):
                    error = self.assertRaises(
                        schema.InputError, results_file.from_dict, document, "results.json"
                    )
                    self.assertIn(f"environment.{field}", str(error))
