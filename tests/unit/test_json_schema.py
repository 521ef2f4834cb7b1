"""Messages of schema faults: the reason is seen however long the value."""

import hypothesis
import jsonschema
import testtools
from hypothesis import strategies

from nova_perf_tuning import json_schema


def fault(schema, data):
    """Return the message of the first fault."""
    return json_schema.text(next(jsonschema.Draft202012Validator(schema).iter_errors(data)))


class SchemaFaultTest(testtools.TestCase):
    def test_the_reason_is_seen(self):
        self.assertEqual("'x' is not of type 'number'", fault({"type": "number"}, "x"))
        self.assertTrue(fault({"maxLength": 10}, "a" * 5000).startswith("is too long: 'aaa"))

    def test_unknown_keys_name_what_may_have_been_meant(self):
        schema = {"properties": {"max_loss": {}, "arm": {}}, "additionalProperties": False}
        self.assertIn("did you mean 'max_loss'?", fault(schema, {"arm": 1, "maxloss": 2}))
        self.assertIn("it has max_loss, arm", fault(schema, {"arm": 1, "zzz": 2}))
        self.assertTrue(len(fault(schema, {f"{number}" * 500: 1 for number in range(500)})) < 500)

    @hypothesis.given(strategies.text() | strategies.lists(strategies.text()))
    def test_never_long_never_several_lines(self, data):
        message = fault({"type": "number"}, data)
        self.assertIn("is not of type 'number'", message)
        self.assertTrue(len(message) < 300 and len(message.splitlines()) == 1, message)
