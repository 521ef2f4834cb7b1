# SPDX-License-Identifier: Apache-2.0
"""Situations of the field against the verdicts that experts gave before anything was run."""

import dataclasses
import pathlib

from nova_perf_tuning.validation.judge import budget_file, outputs, verdict
from tests.support import answers, testcase
from tests.unit.validation.bench import outputs5

FIELD = pathlib.Path(__file__).parents[3] / "field" / "outputs5"


class SituationsTest(testcase.TestCase):
    def test_verdicts_are_those_of_the_answer(self):
        for number, part, files, kind, metric, wanted in outputs5.SITUATIONS:
            [answer_file] = FIELD.glob(f"{number}-*.answer.yaml")
            stem = answer_file.name.removesuffix(".answer.yaml")
            name = ".".join(word for word in (stem, part, "budget.yaml") if word)
            # The budget's own name of a metric was a likely one; the case has that of the figure.
            budgets = [
                dataclasses.replace(budget, benchmark=kind, metric=metric or budget.metric)
                for budget in budget_file.load(str(FIELD / name))
            ]
            arms = [
                outputs.ArmFiles(arm, ((str(FIELD / stem / file),),))
                for arm, file in files.items()
            ]
            read = outputs.read(kind, arms)
            judged = verdict.judge_all(read.results, budgets, read.mixed)
            answer = answers.load(answer_file)
            said = [row["verdict"] for row in answer["verdicts"] if "verdict" in row]
            with self.subTest(number=number, part=part):
                self.assertEqual(wanted, [item.verdict.value for item in judged])
                self.assertLessEqual({*wanted}, {*said})
