"""Lists of terms on a page stay lists: a reflowed one is a paragraph in which no term can be found."""

import pathlib

import testtools

MEASURING = pathlib.Path(__file__).parents[3] / "doc/source/admin/measuring.rst"
TERMS = ("Gain", "Test by test", "Loss", "Service CPU", "Full overhead", "Softirq", "Measuring share")


class TermsTest(testtools.TestCase):
    def test_what_is_reported_is_a_list_of_terms(self):
        lines = MEASURING.read_text(encoding="utf-8").splitlines()
        below = lines[lines.index("What is reported") :]
        for term in TERMS:
            self.assertIn(term, below)
            self.assertTrue(below[below.index(term) + 1].startswith("    "), term)
