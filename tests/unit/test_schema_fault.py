"""Messages of schema faults: the reason is seen however long the value."""

import hypothesis
import jsonschema
import testtools
from hypothesis import strategies

from nova_perf_tuning import schema_fault


def fault(schema, data):
    """Return the message of the first fault."""
    return schema_fault.text(next(jsonschema.Draft202012Validator(schema).iter_errors(data)))


class SchemaFaultTest(testtools.TestCase):
    def test_short_values_come_first(self):
        self.assertEqual("'x' is not of type 'number'", fault({"type": "number"}, "x"))

    def test_long_values_come_last_and_shortened(self):
        told = fault({"maxLength": 10}, "a" * 5000)
        self.assertEqual(f"is too long: '{'a' * 59}… (5002 characters)", told)

    def test_a_long_list_of_what_is_allowed_keeps_both_ends(self):
        told = fault({"enum": [f"value{number}" for number in range(300)]}, "b" * 300)
        self.assertTrue(told.startswith("is not one of ['value0', "), told)
        self.assertIn("'value299']: 'bbb", told)

    def test_unknown_keys_name_what_may_have_been_meant(self):
        schema = {"properties": {"max_loss": {}, "arm": {}}, "additionalProperties": False}
        told = {"maxloss": "unknown key 'maxloss'; did you mean 'max_loss'?"}
        told["zzz"] = "unknown key 'zzz'; it has max_loss, arm"
        for key, text in told.items():
            self.assertEqual(text, fault(schema, {"arm": 1, key: 2}))
        self.assertTrue(len(fault(schema, {f"{number}" * 500: 1 for number in range(500)})) < 500)

    @hypothesis.given(strategies.text() | strategies.lists(strategies.text()))
    def test_never_long_never_several_lines(self, data):
        told = fault({"type": "number"}, data)
        self.assertIn("is not of type 'number'", told)
        self.assertTrue(len(told) < 300 and len(told.splitlines()) == 1, told)
