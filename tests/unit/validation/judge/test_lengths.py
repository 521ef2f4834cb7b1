# SPDX-License-Identifier: Apache-2.0
"""How long runs of files were, for limits that name ``min_duration``."""

import pathlib

from nova_perf_tuning.validation.bench import pasted
from nova_perf_tuning.validation.judge import outputs
from tests.support import directories

FIELD = pathlib.Path(__file__).parents[3] / "field" / "outputs5"
SUMMARY = """# Total: 000600000 000400000
# Min Latencies: 00005 00005
# Avg Latencies: 00023 00026
# Max Latencies: 00081 00085
# Histogram Overflows: 00000 00000
"""


class LengthTest(directories.DirectoryCase):
    def seconds(self, kind, text):
        path = self.write_file("output.txt", text)
        arm = outputs.ArmFiles("arm", ((str(path),),))
        [*trials] = outputs.read(kind, [arm]).results.trials
        return {trial.window_s for trial in trials}

    def test_forms_of_a_length(self):
        for text, wanted in (
            ("120", 120.0),
            ("26.47", 26.47),
            ("1.2e+06", 1.2e6),
            ("10m", 600.0),
            ("12h", 43_200.0),
            ("60 seconds", 60.0),
            ("0 00:10:01", 601.0),
            ("1 00:00:00", 86_400.0),
            ("12:00:00", 43_200.0),
            ("1-2", None),
            ("-5", None),
            ("inf", None),
            (None, None),
        ):
            self.assertEqual(wanted, pasted.seconds(text), text)

    def test_timerlat_and_hwlatdetect_print_their_length(self):
        [timerlat] = FIELD.glob("145-*.txt")
        self.assertEqual({601.0}, self.seconds("timerlat", timerlat.read_text("utf-8")))
        [hwlat] = FIELD.glob("146-*/device.txt")
        text = hwlat.read_text("utf-8")
        self.assertEqual({120.0}, self.seconds("hwlatdetect", text))
        ended = text.replace("test finished", "interrupted\ntest finished")
        self.assertEqual({0.0}, self.seconds("hwlatdetect", ended))

    def test_a_summary_of_cyclictest_is_as_long_as_its_command_and_cycles_say(self):
        for command, wanted in (
            ("cyclictest -t 2 -h 100 -q -D 10m", 600.0),
            ("cyclictest -t 2 -h 100 -q -D 12h", 600.0),
            ("cyclictest -t 2 -h 100 -q -i 500 -D 12h", 300.0),
            ("cyclictest -t 2 -h 100 -q -D 5m", 300.0),
            ("cyclictest -t 2 -h 100 -q -l 600000", 600.0),
        ):
            with self.subTest(command):
                text = f"$ {command}\n{SUMMARY}"
                self.assertEqual({wanted}, self.seconds("cyclictest", text))
        self.assertEqual({0.0}, self.seconds("cyclictest", SUMMARY))
