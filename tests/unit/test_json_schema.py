# SPDX-License-Identifier: Apache-2.0
"""Messages of schema faults: the reason is seen however long the value."""

import hypothesis
import jsonschema
from hypothesis import strategies

from nova_perf_tuning import json_schema
from tests.support import testcase


def fault(schema, data):
    """Return the message of the first fault."""
    return json_schema.text(next(jsonschema.Draft202012Validator(schema).iter_errors(data)))


class SchemaFaultTest(testcase.TestCase):
    def test_the_reason_is_seen(self):
        self.assertEqual("'x' is not of type 'number'", fault({"type": "number"}, "x"))
        self.assertTrue(fault({"maxLength": 10}, "a" * 5000).endswith("' is too long"))
        self.assertIn(
            "'maxloss'",
            fault({"properties": {"max_loss": {}}, "additionalProperties": False}, {"maxloss": 2}),
        )

    def test_of_many_faults_one_is_named(self):
        data = ["x"] * 1_000_000
        self.assertIn(
            "'x' is not of type 'number'", json_schema.find(data, {"items": {"type": "number"}})
        )

    @hypothesis.given(strategies.text() | strategies.lists(strategies.text()))
    def test_never_long_never_several_lines(self, data):
        message = fault({"type": "number"}, data)
        self.assertIn("is not of type 'number'", message)
        self.assertTrue(len(message) < 300 and len(message.splitlines()) == 1, message)
