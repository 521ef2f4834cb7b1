# SPDX-License-Identifier: Apache-2.0
"""Documents of strangers cost no more than they should."""

import json

from nova_perf_tuning.validation.results import schema
from tests.support import testcase


class ContainersTest(testcase.TestCase):
    def test_too_many_are_refused_before_they_are_made(self):
        for text in ("[" + "[]," * 1_000_000 + "[]]", '[{"a":' * 1_000_000):
            error = self.assertRaises(schema.InputError, schema.parse_json, text, "results.json")
            self.assertEqual(
                "results.json: it has more than 1000000 lists and objects, too many to read",
                str(error),
            )

    def test_those_in_text_do_not_count(self):
        data = ["[" * 1_000_001, '"{\\']
        self.assertEqual(data, schema.parse_json(json.dumps(data), "results.json"))
