# SPDX-License-Identifier: Apache-2.0
"""What an output has and is no figure is named, and so is a figure that no line of it has."""

import re

from nova_perf_tuning.validation.bench import pasted, recognition
from tests.support import testcase
from tests.unit.validation.bench import test_field_outputs

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
#: Their printed figures have other units: 1024 and 1000, bytes and bits.
_OTHER_UNITS = ("MB/s", "Mbit/s", "MiB/s", "KiB/s", "Gbit")
#: Names of figures -> how a remark names them all.
_FAMILIES = (("latency_p", "percentiles"), ("_index", "indexes"), ("score", "score"))


def numbers(text):
    """Return the numbers of a text, as they are and with usual prefixes."""
    found = set()
    for number in _NUMBER.findall(text):
        for factor in (1, 1e-9, 1e-6, 1e-3, 1e3, 1e6, 1e9):
            found.add(float(f"{float(number) * factor:.6g}"))
    return found


def named(metric, said):
    """Return whether a remark names a figure, by its last words or those of its family."""
    for part, word in _FAMILIES:
        if part in metric and word in said:
            return True
    return any(f"'{metric[at:]}'" in said for at in range(len(metric)))


class LeftOutTest(testcase.TestCase):
    def reports(self):
        for name, (kind, _metrics) in test_field_outputs.READ.items():
            data = test_field_outputs.output(name)
            text = pasted.decode(data)
            yield name, kind, text, recognition.recognise(text).checked_report(text)

    def test_every_report_names_what_is_left_out(self):
        for name, kind, _text, report in self.reports():
            if kind.startswith("netperf"):
                continue  # its tables have nothing else
            with self.subTest(name):
                self.assertTrue(report.left_out)

    def test_a_figure_that_no_line_has_is_called_calculated(self):
        calculated = 0
        for name, _kind, text, report in self.reports():
            printed = numbers(text)
            said = "\n".join(report.remarks.values())
            for reading in report.readings:
                shown = float(f"{reading.value:.6g}") in printed
                if shown or reading.unit in _OTHER_UNITS:
                    continue
                calculated += 1
                with self.subTest(name=name, metric=reading.metric, said=said):
                    self.assertTrue(named(reading.metric, said))
        self.assertGreater(calculated, 50)
