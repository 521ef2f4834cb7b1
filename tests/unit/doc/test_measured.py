# SPDX-License-Identifier: Apache-2.0
"""The recorded run of which the report's picture is made."""

import json
import lzma
import pathlib

from nova_perf_tuning.validation.measure import store
from tests.support import testcase

TOP = pathlib.Path(__file__).parents[3]


class MeasuredTest(testcase.TestCase):
    def test_the_recorded_run_of_the_report_can_be_read(self):
        with lzma.open(TOP / "doc/source/data/run.json.xz", "rt", encoding="utf-8") as file:
            results = store.from_dict(json.load(file), "run.json.xz")
        self.assertEqual({"host", "tuned", "untuned"}, {trial.arm for trial in results.trials})
