"""When benchmarks measured, as recorded outputs tell."""

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.validation.bench import base, fio, iperf3, own, sysbench
from tests.unit.validation.bench.test_parsers import recorded

OUTPUTS = (
    (iperf3.Iperf3(), "iperf3-two-streams.json"),
    (iperf3.Packets(), "iperf3-udp.json"),
    (fio.Fio(), "fio-two-jobs.json"),
    (sysbench.Cpu(), "sysbench-cpu.txt"),
    (own.Request(), "own-request.json"),
)


class SpanTest(testtools.TestCase):
    def test_fio_says_when_its_last_job_ended(self):
        self.assertEqual(base.Span(1.001, 1795236435.258), fio.Fio().span(recorded("fio-two-jobs.json")))

    def test_others_end_with_their_program(self):
        self.assertEqual(base.Span(1.0004), sysbench.Cpu().span(recorded("sysbench-cpu.txt")))
        self.assertEqual(base.Span(1.00001), own.Request().span(recorded("own-request.json")))
        self.assertEqual(base.Span(0.999555), iperf3.Iperf3().span(recorded("iperf3-two-streams.json")))
        self.assertAlmostEqual(1.0, iperf3.Packets().span(recorded("iperf3-udp.json")).seconds, 1)

    @hypothesis.given(strategies.data())
    def test_broken_outputs_have_a_span_or_an_error(self, data):
        benchmark, name = data.draw(strategies.sampled_from(OUTPUTS))
        text = recorded(name)
        at = data.draw(strategies.integers(0, len(text) - 1))
        broken = (
            text[:at] + data.draw(strategies.sampled_from(["", "0", "-", "{", "null", "1e400"])) + text[at + 1 :]
        )
        try:
            found = benchmark.span(broken)
        except base.OutputError:
            return
        self.assertTrue(found.seconds >= 0)
