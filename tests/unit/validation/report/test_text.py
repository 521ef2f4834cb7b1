"""The English of reasons and figures."""

import testtools

from nova_perf_tuning.validation.judge import statistics
from nova_perf_tuning.validation.measure import reasons
from nova_perf_tuning.validation.report import data, text

C = reasons.ReasonCode
reason = reasons.reason

_LOSS = {"figure": "loss", "value": 0.021, "low": 0.01, "high": 0.03, "confidence": 0.95, "unit": "", "boots": 4}
_CPU = {**_LOSS, "figure": "cpu", "value": 0.2, "low": 0.1, "high": 0.3, "unit": "Gbit"}
_LOST = {"arm": "tuned", "count": 3, "of": 9, "failed": 2, "zeros": 0, "missing": 1}
_FLOOR = {"limit": 0.02, "floor": 0.05, "created": "2026-01-01"}
_AT = {"benchmark": "fio", "arm": "tuned"}
_PAIR = {"arm": "tuned", "baseline": "untuned"}
#: What to do: without parameters, but for one.
_ACTIONS = set(list(C)[list(C).index(C.CHECK_CPU) : list(C).index(C.IMPROVED)]) - {C.ABLATE}
_SLOW = {**_AT, "low": 0.2, "high": 0.3, "spread": 0.03}
_OVER = {**_SLOW, "figure": "loss", "baseline": "host", "limit": 0.05, "unit": ""}

#: A reason of every code -> its line, or how it begins.
CASES = (
    (reason(C.WITHIN, **_LOSS, limit=0.05), "loss 2.1% (95% interval 1.0% to 3.0%) is within a loss of 5.0%"),
    (reason(C.WITHIN, **{**_LOSS, "low": -0.01}, limit=-0.1), "loss 2.1% (95% interval gain 1.0% to loss 3.0%)"),
    (reason(C.BEYOND, **_CPU, limit=0.05), "service CPU per Gbit 0.2 s (95% interval 0.1 s to 0.3 s) is beyond"),
    (reason(C.UNDECIDED, **_LOSS, limit=0.02), "loss 2.1% (95% interval 1.0% to 3.0%) includes the limit, a loss"),
    (reason(C.TOO_FEW_BOOTS, **{**_LOSS, "boots": 1}, limit=0.1, needed=2), "loss 2.1%, limit a loss of 10.0%:"),
    (reason(C.NO_PAIRS, figure="loss"), "loss: no pair of trials"),
    (reason(C.INTERIM, confidence=0.99, promised=0.95), "99% at this look, so that 95% holds over both looks"),
    (reason(C.HOLM, figures=3), "but 3 figures are judged together"),
    (reason(C.FAILED, **_LOST), "3 of 9 trials of 'tuned' failed or are missing"),
    (reason(C.EXCLUDED, count=1, of=9, what="pairs", why=(reason(C.THROTTLING, count=2.0),)), "1 of 9 pairs"),
    (reason(C.WORST, arm="tuned", count=2), "2 blocks without a figure of 'tuned'"),
    (reason(C.NO_BENCHMARK, benchmark="fio", known=["cpu"]), "benchmark 'fio' was not measured; the results have"),
    (reason(C.NO_METRIC, benchmark="fio", metric="x", known=["iops"], named=True), "metric 'x' was not measured"),
    (reason(C.NO_ARM, arm="tuned", known=["host"]), "arm 'tuned' was not measured; the results have host"),
    (reason(C.OTHER_ACCELERATOR, accelerator="tcg", wanted="kvm"), "guests ran on tcg, the budget is for kvm"),
    (reason(C.ACCELERATOR_CONTRADICTED, arm="tuned", accelerator="kvm", found="xen"), "guests of 'tuned':"),
    (reason(C.VIRTUALIZATION_UNREAD, arm="tuned", wanted="kvm"), "what guests of 'tuned' run on could not be"),
    (reason(C.OTHER_GUESTS, arm="tuned", finding="no queues", more=2), "guests of 'tuned' are not what was asked"),
    (reason(C.TOO_MANY_LOST, **_LOST, excluded=1, limit=0.2, why=(reason(C.NO_RESULT),)), "3 of 9 trials of"),
    (reason(C.BELOW_NOISE_FLOOR, **_FLOOR), "a budget of 2.0% is tighter than this host's"),
    (reason(C.NO_SERVICE_CPU, arm="tuned"), "service CPU of 'tuned' was not measured"),
    (reason(C.LITTLE_SERVICE_CPU, arm="tuned", count=5, of=9, limit=0.2), "5 of 9 trials of 'tuned' have no CPU"),
    (reason(C.COUNTERS_STILL), "no counter moved"),
    (reason(C.COUNTERS_VCPU, vcpu=9.0, total=1.0), "counters contradict: vCPU 9.00 s of 1.00 s"),
    (reason(C.COUNTERS_GUEST, guest=9.0, total=1.0, wait=0.0), "counters contradict: the guest says"),
    (reason(C.GUEST_BUSY_UNKNOWN), "the guest's own busy time is unknown"),
    (reason(C.WAIT_UNKNOWN), "how long the vCPUs waited is unknown"),
    (reason(C.VCPUS_WAITED, share=0.1, limit=0.02), "vCPUs waited 10% of the time they wanted to run (limit 2%)"),
    (reason(C.STEAL, share=0.0501, limit=0.05), "the host's CPUs were taken away 5.01% of the time they were"),
    (reason(C.WAITING_VCPUS, share=0.2, limit=0.1), "vCPUs waited 20.00% of the time"),
    (reason(C.THROTTLING, count=2.0), "CPUs were throttled 2 times"),
    (reason(C.FREQUENCY_LIMIT, first=3000.0, now=2000.0), "the highest frequency allowed went from 3000 to 2000"),
    (reason(C.FREQUENCY_GAP, mhz={"a": 3000.0, "b": 2000.0}, limit=0.05), "arms ran at different CPU frequencies"),
    (reason(C.DROPS, share=0.01, limit=0.001), "1.00% of the sender's packets were dropped on its side (limit"),
    (reason(C.CLOCK_STEP, seconds=-2.0, limit=0.05), "the clock jumped by -2.00 s (limit 0.05 s)"),
    (reason(C.NO_FLOOR, benchmark="fio", why=(reason(C.NO_RESULT),)), "fio: no pair of it gave a result; measure"),
    (reason(C.NO_FLOOR_OF_SO_FEW, benchmark="fio", boots=1, needed=2), "fio: 1 boots give no noise floor; 2 are"),
    (reason(C.NO_SHARED_WORK, **_AT), "'fio' on 'tuned': took no CPU beside its vCPUs"),
    (reason(C.NO_SAMPLE, **_AT, why=(reason(C.NO_RESULT),)), "'fio' on 'tuned': no pair of it gave a result"),
    (
        reason(C.NO_WORK, **_AT, known=["cpu"]),
        "no trial of 'fio' on 'tuned' counted its work; benchmarks that did",
    ),
    (reason(C.NO_GUEST, **_AT), "'tuned' is no guest"),
    (reason(C.TOO_FEW_COUNTED, **_AT, count=5, of=9, limit=0.2), "'fio' on 'tuned': 5 of 9 trials have no CPU by"),
    (reason(C.UNCOUNTED, count=1, of=9), "1 of 9 trials have no CPU by class"),
    (reason(C.NO_SOFTIRQ), "interrupts and softirqs were not measured"),
    (
        reason(C.OTHER_RATE, measured=1.0, rate=0.25, unit="Gbit"),
        "the cost was measured at 1 Gbit per second, not",
    ),
    (reason(C.SOME_WAITED, count=1, of=9), "vCPUs waited for a host CPU in 1 of 9 trials"),
    (reason(C.ONE_BOOT), "one boot only, so no interval"),
    (reason(C.NO_RESULT), "no pair of it gave a result"),
    (reason(C.HOST_LOST_TRIALS, **_LOST, benchmark="fio", excluded=0, limit=0.2, why=()), "fio: 3 of 9 trials of"),
    (reason(C.SLOW, **_SLOW), "fio (tuned): slower than the other hosts by 20% to 30% in all its pairs"),
    (reason(C.MAYBE_SLOW, **_SLOW), "fio (tuned): slower than the other hosts by 20% to 30%, which its peers or"),
    (reason(C.HOST_BEYOND, **_OVER), "fio (tuned): loss 20.0% to loss 30.0% against 'host' in all its pairs is"),
    (reason(C.HOST_MAYBE_BEYOND, **{**_OVER, "figure": "cpu"}), "fio (tuned): service CPU per unit 0.2 s to 0.3"),
    (reason(C.BUDGET, benchmark="fio", figure="", why=(reason(C.NO_RESULT),)), "fio: no pair of it gave a result"),
    (
        reason(C.NO_BUDGET_APPLIES, arms=["x"], benchmarks=["cpu"], accelerator="", host_group="", flavor="gold"),
        "no budget applies: the results have the arms x, the benchmarks cpu, accelerator '', host_group",
    ),
    (
        reason(C.PLACE_UNKNOWN, unknown=["host_group", "flavor"], budgets=["a", "b"]),
        "budgets left out, since the results name no host group and no flavor (give --host-group and",
    ),
    (reason(C.NOT_MEASURED, budgets=["a", "b"]), "budgets left out, since their arms or accelerator were not"),
    (reason(C.CONTRADICTED, why=(reason(C.COUNTERS_STILL),), count=1, of=2), "no counter moved"),
    (reason(C.FEW_COUNTERS, count=5, of=9, limit=0.2), "5 of 9 trials have no CPU counters (limit 20%)"),
    (reason(C.OFTEN_WAITED, count=5, of=9, most=0.2), "vCPUs waited in 5 of 9 trials, up to 20% of the time"),
    (reason(C.EMULATED), "Guests ran under TCG"),
    (reason(C.HOST_ALONE), "All arms are this host itself (an A/A run)"),
    (reason(C.SAME_GUESTS), "Both pairs of guests are untuned (an A/A run)"),
    (reason(C.ENDED_EARLY, ended="time limit"), "The run ended early (time limit)"),
    (reason(C.TRIALS_FAILED, count=2, of=9), "2 of 9 trials failed; see the errors."),
    (reason(C.WIDE_WINDOWS, count=2), "In 2 trials the guest's clock was not known to 0.1 s"),
    (
        reason(C.NO_RATIO, **_AT, baseline="untuned", why=(reason(C.NO_RESULT),)),
        "fio: no ratio tuned/untuned: no pair of it gave a result.",
    ),
    (reason(C.OTHER_WORK, load=5.5, cpus=2), "The host had other work when the trials began: load average 5.5 on"),
    (reason(C.NO_VHOST_NET), "The host had no /dev/vhost-net"),
    (reason(C.NOTHING_MEASURED), "Nothing was measured."),
    (
        reason(C.COMPARED, **_PAIR, outcomes=[{"benchmark": "cpu", "outcome": "gain", "ratio": 1.2}]),
        "Tuned against untuned: a gain in cpu (+20.0%).",
    ),
    (
        reason(C.JUDGED, verdict="FAIL", benchmark="cpu", **_PAIR, why=(), more=1, of=3, culprit="CPU"),
        "FAIL: tuned against untuned in cpu:  (and 1 more of 3 budgets). It points at the CPU.",
    ),
    (reason(C.ALL_MET, count=2), "PASS: all 2 budgets are met."),
    (reason(C.HOSTS_JUDGED, verdict="FAIL", hosts=["a"], of=2, example="a: x"), "FAIL: 1 of 2 hosts: a (a: x)."),
    (reason(C.ABLATE, **_PAIR), "'tuned' and 'untuned' are guests of one host"),
    (
        reason(C.IMPROVED, ratio=1.2, at="2026-10-01T10:00:00", versions={"kernel": ("6.1", "6.12")}),
        "+20.0% (better) from 2026-10-01 10:00 on; kernel 6.1 -> 6.12",
    ),
    (reason(C.WORSENED, ratio=0.8, at="2026-10-01T10:00:00", versions={}), "-20.0% (worse) from 2026-10-01 10:00"),
    (reason(C.FILES_IN_MEMORY, benchmarks=["fio"], filesystem="tmpfs"), "fio: the files lay in memory (tmpfs)"),
)


class TextTest(testtools.TestCase):
    def test_every_code_has_a_line(self):
        self.assertEqual(set(C) - _ACTIONS, {case.code for case, _ in CASES})
        for case, line in CASES:
            self.assertTrue(text.of(case).startswith(line), text.of(case))
        for action in _ACTIONS:
            self.assertRegex(text.of(reason(action)), r"^[A-Z].*\.$")

    def test_notes_follow_and_are_found(self):
        excluded = reason(C.EXCLUDED, count=1, of=9, what="pairs", why=(reason(C.NO_RESULT),))
        one = reason(C.NO_PAIRS, figure="loss").noting(excluded)
        self.assertEqual({C.NO_PAIRS, C.EXCLUDED, C.NO_RESULT}, one.codes)
        self.assertIn("; 1 of 9 pairs excluded: no pair", text.of(one))
        self.assertEqual("no_result", data.of(one)["notes"][0]["params"]["why"][0]["code"])

    def test_distinct(self):
        some = [reason(C.THROTTLING, count=1.0), reason(C.NO_RESULT), reason(C.THROTTLING, count=2.0)]
        self.assertEqual(tuple(some[:2]), reasons.distinct(some))


class FigureTest(testtools.TestCase):
    def test_numbers(self):
        for value, expected in (
            (None, "-"),
            (0, "0"),
            (11097.4, "11,097"),
            (99.96, "100"),
            (65.23, "65.2"),
            (1.0, "1.00"),
            (0.179, "0.179"),
            (0.0232, "0.0232"),
            (3e-7, "3.00e-07"),
            (2.5e12, "2.50e+12"),
        ):
            self.assertEqual(expected, text.number(value))

    def test_gain_in_words(self):
        for ends, output in (
            ((1.1, 1.2, 1.3), "+20.0% (95% interval +10.0% to +30.0%)"),
            ((0.98, 0.99999, 1.04), "+0.0% (95% interval -2.0% to +4.0%)"),
            ((None, 1.2, None), "+20.0% (one boot, so no interval)"),
        ):
            low, value, high = ends
            self.assertEqual(output, text.gain(statistics.Estimate(value, low, high, 9, 3, 0.95)))
