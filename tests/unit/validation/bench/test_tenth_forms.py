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


IPERF3_DEBUGGING = """\
PS C:\\temp> .\\iperf3.exe -c 192.0.2.1 -d
send_parameters:
{
        "tcp":  true,
        "omit": 0,
        "time": 2,
        "parallel":     1,
        "len":  131072,
        "client_version":       "3.1.3"
}
Connecting to host 192.0.2.1, port 5201
SO_SNDBUF is 212992
[  4] local 192.0.2.2 port 62963 connected to 192.0.2.1 port 5201
[ ID] Interval           Transfer     Bandwidth
[  4]   0.00-1.00   sec   372 MBytes  3.12 Gbits/sec
send_results
{
        "cpu_util_total":       60.341746,
        "streams":      [{
                        "id":   1,
                        "bytes":        782237696,
                        "retransmits":  -1
                }]
}
[  4]   1.00-2.00   sec   374 MBytes  3.13 Gbits/sec
- - - - - - - - - - - - - - - - - - - - - - - - -
[ ID] Interval           Transfer     Bandwidth
[  4]   0.00-2.00   sec   746 MBytes  3.13 Gbits/sec                  sender
[  4]   0.00-2.00   sec   746 MBytes  3.12 Gbits/sec                  receiver

iperf Done.
"""


class DebuggingTests(testcase.TestCase):
    def test_json_of_iperf3s_debugging_is_no_report(self):
        kind, report = read(IPERF3_DEBUGGING)
        self.assertEqual("iperf3", kind)
        self.assertEqual(
            {"throughput": 3120.0, "sent_throughput": 3130.0},
            {name: value for name, value in figures(report).items() if "through" in name},
        )
        self.assertNotIn("retransmits", figures(report))
        self.assertIn("what -d (--debug) has printed between the lines", report.left_out)
        for fact, value in (
            ("protocol", "TCP"),
            ("version", "3.1.3"),
            ("block size", "131072 bytes"),
            ("direction", "client to server"),
        ):
            self.assertEqual(value, report.workload[fact])

    def test_each_test_has_the_parameters_before_its_connection(self):
        other = IPERF3_DEBUGGING.replace('"len":  131072', '"len":  8192')
        _kind, report = read(IPERF3_DEBUGGING + other)
        self.assertIn("block size 131072 bytes", report.workload["test1"])
        self.assertIn("block size 8192 bytes", report.workload["test2"])

    def test_a_text_that_ends_within_the_debugging_is_cut_off(self):
        text = IPERF3_DEBUGGING.partition('"retransmits"')[0]
        error = self.assertRaises(base.BenchmarkOutputError, plugins.recognise, text)
        self.assertIn("its intervals end at 1 s", str(error))

    def test_a_datagrams_test_is_known_by_its_parameters(self):
        text = IPERF3_DEBUGGING.replace('"tcp"', '"udp"')
        error = self.assertRaises(
            base.BenchmarkOutputError, plugins.load_reader("iperf3").report, text
        )
        self.assertIn("other protocol", str(error))
