# SPDX-License-Identifier: Apache-2.0
"""Kinds of outputs that the tenth batch of the field has shown: debugging, interrupted runs, missing units."""

from nova_perf_tuning.validation.bench import base, pasted, plugins
from tests.support import testcase

TPCC_OF_ANOTHER = """\
|New-Order| sc: 1182  lt: 0  fl: 13
|Payment| sc: 1155  lt: 0  fl: 0
in 720 sec.
<Constraint Check> (all must be [OK])
   Payment: 43.0% (>=43.0%)  [Ok]
<TpmC>
98 Tpmc
"""


def read(text):
    """Return the kind and the report of a paste that names no tool."""
    shown = pasted.decode(text.encode())
    tool = plugins.recognise(shown)
    return tool.kind, plugins.report(tool, shown)


def figures(report):
    return {reading.metric: reading.value for reading in report.readings}


class AnotherProgramTests(testcase.TestCase):
    def test_a_report_that_looks_like_tpcc_mysqls_is_not_cut_off(self):
        error = self.assertRaises(base.BenchmarkOutputError, plugins.recognise, TPCC_OF_ANOTHER)
        self.assertIn("not a form of tpcc-mysql's report", str(error))
        self.assertNotIn("cut off", str(error))

    def test_tpcc_mysqls_own_report_without_its_end_is(self):
        own = "[0] sc:88 lt:38 rt:0 fl:0\n in 60 sec.\n<Constraint Check> (all must be [OK])\n"
        error = self.assertRaises(base.BenchmarkOutputError, plugins.recognise, own)
        self.assertIn("cut off", str(error))
