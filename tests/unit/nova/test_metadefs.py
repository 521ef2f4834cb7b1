# SPDX-License-Identifier: Apache-2.0
"""The metadata definitions say what the parser takes; Glance itself is asked in tests/nova."""

import re

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.nova import metadefs
from nova_perf_tuning.specs import vocabulary
from tests.support import testcase

DIRECTORY = metadefs.DIRECTORY


def takes(entry, text):
    """Whether a property's definition takes a value, as Horizon checks it."""
    if "enum" in entry:
        return text in entry["enum"]
    if entry["type"] == "integer":
        return (
            bool(re.fullmatch("0|[1-9][0-9]*", text))
            and entry["minimum"] <= int(text) <= entry["maximum"]
        )
    if entry["type"] == "boolean":
        return text in ("true", "false")
    return bool(re.search(entry["pattern"].replace("$", r"\Z"), text))


class DefinitionsTest(testcase.TestCase):
    def test_files_are_not_stale(self):
        """Mend with: python -m nova_perf_tuning.nova.metadefs"""
        expected = {name: metadefs.text(entry) for name, entry in metadefs.namespaces().items()}
        self.assertEqual(
            expected,
            {path.name: path.read_text(encoding="utf-8") for path in DIRECTORY.glob("*.json")},
        )

    def test_every_key_is_there_in_both_forms(self):
        flavor, image = metadefs.namespaces().values()
        self.assertEqual(set(vocabulary.BY_KEY), {f"perf:{key}" for key in flavor["properties"]})
        self.assertEqual(
            set(vocabulary.BY_IMAGE_PROPERTY), {f"hw_perf_{key}" for key in image["properties"]}
        )
        for key, entry in image["properties"].items():
            own = vocabulary.BY_IMAGE_PROPERTY[f"hw_perf_{key}"].removeprefix("perf:")
            self.assertEqual(flavor["properties"][own], entry)

    def test_limits_of_glance(self):
        """Lengths of glance/api/v2/metadef_namespaces.py."""
        for entry in metadefs.namespaces().values():
            self.assertTrue(len(entry["namespace"]) <= 80 and len(entry["display_name"]) <= 80)
            self.assertTrue(len(entry["description"]) <= 500)
            for key, definition in entry["properties"].items():
                self.assertTrue(len(key) <= 80)
                self.assertTrue(
                    definition["title"][0].isupper() and definition["description"].endswith("."),
                    key,
                )

    @hypothesis.given(
        strategies.sampled_from(sorted(vocabulary.BY_KEY)),
        strategies.integers(-5, 2000).map(str)
        | strategies.sampled_from(
            [
                "auto",
                "true",
                "false",
                *(choice for spec in vocabulary.VOCABULARY for choice in spec.choices),
            ]
        )
        | strategies.text(strategies.characters(codec="ascii"), max_size=66),
    )
    def test_takes_what_the_parser_takes(self, key, text):
        spec, _feature = vocabulary.BY_KEY[key]
        entry = metadefs.namespaces()["compute-perf-tuning.json"]["properties"][
            key.removeprefix("perf:")
        ]
        if entry["type"] != "boolean" or text in (
            "true",
            "false",
        ):  # Horizon sends no other spellings
            self.assertEqual(spec.parse(text) is not None, takes(entry, text))
