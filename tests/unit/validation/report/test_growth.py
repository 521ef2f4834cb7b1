# SPDX-License-Identifier: Apache-2.0
"""The time of a report is proportional to its input, and the names in results are bounded."""

import gc
import time

from nova_perf_tuning.validation.judge import trial_filter
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


def seconds(work):
    """Return the CPU seconds of a call, the least of two."""
    spent = []
    for _ in range(2):
        gc.collect()
        begun = time.process_time()
        work()
        spent.append(time.process_time() - begun)
    return min(spent)


class GrowthTest(testcase.TestCase):
    def test_eight_times_the_arms_do_not_take_twenty_times_as_long(self):
        few, many = results_of(150), results_of(1200)
        for what, work in (
            ("summary", summary.summarise),
            ("report", lambda results: report.render(results, summary.summarise(results), [])),
        ):
            with self.subTest(what):
                less, more = seconds(lambda: work(few)), seconds(lambda: work(many))  # noqa: B023
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
