# SPDX-License-Identifier: Apache-2.0
"""Texts of tenants in tables of ``openstack perf``."""

import unicodedata

from osc_lib.cli import format_columns

from nova_perf_tuning.cli import cloud_command
from tests.support import testcase

NAME = "image\x1b[2J\x07\u202e\x9b1m"


class CleanTest(testcase.TestCase):
    def test_no_field_has_what_a_terminal_obeys(self):
        fields = (
            NAME,
            [NAME],
            {NAME: NAME},
            cloud_command.lines([NAME]),
            format_columns.DictColumn({NAME: NAME}),
        )
        for field in fields:
            cleaned = cloud_command.clean(field)
            shown = [str(cleaned)]
            if isinstance(cleaned, cloud_command.Cell):
                shown = [cleaned.human_readable(), str(cleaned.machine_readable())]
            for text in shown:
                self.assertNotIn("\\", text)
                kinds = {unicodedata.category(char) for char in text}
                self.assertEqual(set(), kinds & {"Cc", "Cf"}, text)

    def test_figures_stay(self):
        self.assertEqual(
            [4, None, True], [cloud_command.clean(field) for field in (4, None, True)]
        )
