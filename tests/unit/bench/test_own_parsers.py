"""Outputs of this project's own programs and of databases, shares and jitter: recorded ones, and broken ones.

Of cyclictest there is a made-up one too, whose quantiles are known.
"""

import json
import pathlib
import re

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.bench import (
    base,
    copy_table,
    cpu,
    database,
    fio,
    iperf3,
    jitter,
    latency,
    memory,
    netperf,
    output,
    parameter,
    share,
    system,
    tpcc_tools,
    unixbench,
)

DATA = pathlib.Path(__file__).parent / "data"


def recorded(name):
    return (DATA / name).read_text(encoding="utf-8")


#: Of tools that are not in Debian: run once where they were built by hand, see doc/source/admin/benchmarks.rst.
TPCC_MYSQL = recorded("tpcc-mysql.txt")
GO_TPC = recorded("go-tpc.txt")
NETPERF_KEYS = recorded("netperf-stream.txt")
NETPERF_TABLE = recorded("netperf-table.txt")
NETPERF_RR = recorded("netperf-rr.txt")
GOOD = {
    iperf3.Iperf3: recorded("iperf3-two-streams.json"),
    fio.Fio: recorded("fio-two-jobs.json"),
    cpu.Cpu: recorded("sysbench-cpu.txt"),
    iperf3.Packets: recorded("iperf3-udp.json"),
    system.System: recorded("own-system.json"),
    memory.Himeno: recorded("own-himeno.json"),
    memory.Memory: recorded("own-triad.json"),
    latency.Request: recorded("own-request.json"),
    latency.Connect: recorded("own-connect.json"),
    share.Smb: recorded("own-copy.json"),
    jitter.Cyclictest: recorded("cyclictest.txt"),
    database.Oltp: recorded("sysbench-oltp.txt"),
    database.Tpcc: recorded("tpcc.txt"),
    tpcc_tools.TpccMysql: TPCC_MYSQL,
    tpcc_tools.GoTpc: GO_TPC,
    netperf.Netperf: NETPERF_KEYS,
    netperf.NetperfRequests: NETPERF_RR,
    unixbench.UnixBench: recorded("unixbench-5.1.3.txt"),
}


def figures(kind, text):
    return {one.metric: one.value for one in kind().parse(text)}


class AnyOutputTest(testtools.TestCase):
    def test_one_figure_is_primary_and_the_work_is_there(self):
        for kind, text in GOOD.items():
            readings = kind().parse(text)
            [primary] = [one for one in readings if one.primary]
            self.assertEqual(kind.primary, (primary.metric, primary.unit, primary.better))
            metrics = [one.metric for one in readings]
            self.assertEqual(len(metrics), len(set(metrics)))
            self.assertIn(kind.work_metric, [*metrics, None])
            self.assertTrue(kind.self_check, kind)

    def test_truncations(self):
        for kind, text in GOOD.items():
            for length in {0, 1, len(text) // 3, len(text) // 2}:
                if issubclass(kind, netperf.Netperf | cpu.Cpu) and length > 40:
                    continue  # its first lines have all that is judged
                with self.subTest(kind=kind.kind, length=length):
                    self.assertRaises(base.OutputError, kind().parse, text[:length])

    def test_longer_and_deeper_than_any(self):
        for kind, text in GOOD.items():
            for foreign in (
                text + " " * output.MAX_CHARACTERS,
                "[" * 100_000,
                '{"end":' * 100_000,
                '{"a":' + "[" * 100_000,
                '\x1b[2J{"error": "\\u001b[31m\\r\\nred\\u0007"}',
            ):
                with self.subTest(kind=kind.kind, begin=foreign[:10]):
                    error = self.assertRaises(base.OutputError, kind().parse, foreign)
                    self.assertTrue(str(error).isprintable() and len(str(error)) < 300, str(error))

    def test_output_of_another(self):
        for kind in GOOD:
            for other, text in GOOD.items():
                if other is not kind:
                    error = self.assertRaises(base.OutputError, kind().parse, text)
                    self.assertTrue(str(error).isprintable())

    @hypothesis.given(strategies.sampled_from(list(GOOD)), strategies.text(max_size=300))
    @hypothesis.settings(deadline=None, max_examples=150)
    def test_any_text(self, kind, text):
        self.assertRaises(base.OutputError, kind().parse, text)

    @hypothesis.given(strategies.sampled_from(list(GOOD)), strategies.data())
    @hypothesis.settings(deadline=None, max_examples=300)
    def test_any_number_in_the_place_of_another(self, kind, data):
        """Figures stay sane, or the output is refused: no traceback, nothing infinite."""
        text = GOOD[kind]
        spots = [at for at, letter in enumerate(text) if letter.isdigit()]
        at = data.draw(strategies.sampled_from(spots))
        new = data.draw(strategies.sampled_from(["", "-", "0", "9" * 20, "e400", "NaN", '"', "x", "1e9", " "]))
        try:
            readings = kind().parse(text[:at] + new + text[at + 1 :])
        except base.OutputError as error:
            self.assertTrue(str(error).isprintable() and len(str(error)) < 400)
            return
        for one in readings:
            self.assertTrue(0 <= one.value <= output.MAX_NUMBER, one)

    @hypothesis.given(
        strategies.sampled_from([iperf3.Iperf3, fio.Fio]),
        strategies.data(),
        strategies.recursive(
            strategies.none()
            | strategies.booleans()
            | strategies.floats()
            | strategies.integers()
            | strategies.text(),
            lambda inner: (
                strategies.lists(inner, max_size=3) | strategies.dictionaries(strategies.text(), inner, max_size=3)
            ),
            max_leaves=5,
        ),
    )
    @hypothesis.settings(deadline=None, max_examples=150)
    def test_any_value_in_the_place_of_another(self, kind, data, value):
        """One value of a real output is replaced: figures stay sane, or the output is refused."""
        document = json.loads(GOOD[kind])
        place = document
        while True:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = data.draw(strategies.sampled_from(keys))
            if isinstance(place[key], dict | list) and place[key] and data.draw(strategies.booleans()):
                place = place[key]
                continue
            place[key] = value
            break
        try:
            readings = kind().parse(json.dumps(document))
        except base.OutputError as error:
            self.assertTrue(str(error).isprintable())
            return
        for one in readings:
            self.assertTrue(0 <= one.value <= output.MAX_NUMBER, one)


class PacketsTest(testtools.TestCase):
    def test_the_receiver_counts(self):
        found = figures(iperf3.Packets, recorded("iperf3-udp.json"))
        self.assertAlmostEqual((36360 - 17255) / 1.007681, found["packets_per_second"], 3)
        self.assertAlmostEqual(100 * 17255 / 36360, found["lost_share"])
        self.assertEqual(19.105, found["received"])

    def test_what_is_missing_at_the_end_is_lost_too(self):
        """As from a path that broke after a second of three: the receiver saw no gap, so none is told as lost."""
        data = json.loads(recorded("iperf3-udp.json"))
        data["end"]["sum"].update(packets=29289, lost_packets=0)
        data["end"]["sum_received"].update(bytes=593216, seconds=3.051503, packets=9269, lost_packets=0)
        found = figures(iperf3.Packets, json.dumps(data))
        self.assertAlmostEqual(9269 / 3.051503, found["packets_per_second"], 3)
        self.assertAlmostEqual(100 * (1 - 9269 / 29289), found["lost_share"])
        self.assertEqual(9.269, found["received"])

    def test_nothing_arrived_or_more_than_was_sent(self):
        for new, words in (("0", "none arrived"), ("2327104", "36361 packets arrived of 36360")):
            text = recorded("iperf3-udp.json").replace("1222720", new)
            error = self.assertRaises(base.OutputError, iperf3.Packets().parse, text)
            self.assertIn(words, str(error))


class FanTest(testtools.TestCase):
    def test_processes_are_summed_up(self):
        one = recorded("iperf3-two-streams.json")
        single, double = figures(iperf3.Iperf3, one), figures(iperf3.Iperf3, f'{{"outputs": [{one},{one}]}}')
        for name in ("throughput", "transferred", "retransmits", "client_cpu"):
            self.assertAlmostEqual(2 * single[name], double[name], 6)

    def test_one_that_is_refused(self):
        one, other = recorded("iperf3-two-streams.json"), recorded("iperf3-refused.json")
        self.assertRaises(base.NotReadyError, iperf3.Iperf3().parse, f'{{"outputs": [{one},{other}]}}')
        for broken in ("[]", "5", "[5]", f"[{one},"):
            self.assertRaises(base.OutputError, iperf3.Iperf3().parse, f'{{"outputs": {broken}}}')


class HimenoTest(testtools.TestCase):
    def test_flop_count(self):
        self.assertEqual(
            {"XS": 1_897_200, "S": 16_467_696, "M": 137_105_136, "L": 1_118_707_440},
            {size: memory.sweep_flop(size) for size in memory.GRIDS},
        )

    def test_wrong_build(self):
        # What -ffast-math made of the original, and a reordered sum: as far off as they were seen.
        for residual in ("1.694447e-03", "1.667420e-03", "5.6e-13", "1.733693e-03"):
            text = recorded("own-himeno.json").replace("1.733593e-03", residual)
            error = self.assertRaises(base.OutputError, memory.Himeno().parse, text)
            self.assertIn("wrong build", str(error))

    def test_wrong_build_seen_at_size_l(self):
        right = {**json.loads(recorded("own-himeno.json")), "size": "L", "residual": 4.882812e-04}
        right |= {"residual_double": 8.606862e-04, "sweeps": 1, "seconds": 1.0, "mflops": 1118.707, "gflop": 1.1}
        self.assertTrue(memory.Himeno().parse(json.dumps(right)))
        wrong = (("residual", 8.606201e-04), ("residual_double", 9.26901e-04), ("residual_double", None))
        for key, value in wrong:
            self.assertRaises(base.OutputError, memory.Himeno().parse, json.dumps({**right, key: value}))

    def test_contradictory_rate(self):
        data = json.loads(recorded("own-himeno.json"))
        data["mflops"] *= 2
        self.assertRaises(base.OutputError, memory.Himeno().parse, json.dumps(data))

    def test_work_follows_from_sweeps_and_passes(self):
        """CPU is divided by it: what the program says of it beside them counts for nothing."""
        for kind, name in ((memory.Himeno, "gflop"), (memory.Memory, "gigabytes")):
            text = GOOD[kind]
            data = json.loads(text)
            self.assertAlmostEqual(data[name], figures(kind, text)["work"], 3)
            self.assertAlmostEqual(data[name], figures(kind, json.dumps({**data, name: 1e-6}))["work"], 3)

    def test_memory_that_it_needs(self):
        self.assertEqual(229, memory.Himeno().memory_mib({"size": "M"}))
        self.assertEqual(96, memory.Memory().memory_mib({"array": "32m"}))


class SystemTest(testtools.TestCase):
    def test_every_test_is_a_figure(self):
        found = figures(system.System, recorded("own-system.json"))
        self.assertEqual({"geometric_mean", *system.TESTS}, set(found))

    def test_unknown_test_and_zero(self):
        data = json.loads(recorded("own-system.json"))
        for name, rate in (("pipe", 0), ("magic", 1), ("pipe", None)):
            broken = {**data, "rates": {**data["rates"], name: rate}}
            self.assertRaises(base.OutputError, system.System().parse, json.dumps(broken))


class TpccTest(testtools.TestCase):
    def test_recorded(self):
        text = recorded("tpcc.txt")
        found = figures(database.Tpcc, text)
        self.assertTrue(0 < found["tpmc"] < found["transactions_per_minute"])

    def test_a_violated_condition(self):
        for number in database.CONDITIONS:
            text = recorded("tpcc.txt").replace(f"condition {number}: 0", f"condition {number}: 3")
            error = self.assertRaises(base.OutputError, database.Tpcc().parse, text)
            self.assertEqual(f"tpcc: consistency condition {number} of TPC-C is violated 3 times", str(error))

    def test_a_missing_condition_and_thread(self):
        for line in ("tpcc condition 12: 0 violations\n", "tpcc thread 1:"):
            self.assertRaises(base.OutputError, database.Tpcc().parse, recorded("tpcc.txt").replace(line, ""))

    def test_another_mix(self):
        text = recorded("tpcc.txt").replace("payment=", "payment=9")
        self.assertIn("not the mix", str(self.assertRaises(base.OutputError, database.Tpcc().parse, text)))
        check = database.Tpcc()._check_mix
        self.assertRaises(base.OutputError, check, (250, 250, 0, 0, 0), 3)  # three kinds never ran
        self.assertRaises(base.OutputError, check, (250, 250, 22, 22, 15), 3)
        # Three threads, each within a deck: dealt ten New-Orders first, or none of the single cards yet.
        check((10 * 10 + 30, 10 * 10, 10, 10, 10), 3)
        check((10 * 10 + 30, 10 * 10 + 30, 10, 10, 10), 3)

    def test_rolled_back_are_one_of_a_hundred(self):
        """Those of a database that has lost half of its items are 19 of 20."""
        check = database.Tpcc()._check_rolled_back
        for count, orders in ((711, 765), (400, 10_000), (0, 10_000)):
            error = self.assertRaises(base.OutputError, check, count, orders)
            self.assertIn(f"{count} of {orders} New-Orders were rolled back", str(error))
        recording = recorded("tpcc.txt")
        many = re.sub(r"rolled_back=[0-9]+", "rolled_back=999", recording)
        self.assertRaises(base.OutputError, database.Tpcc().parse, many)
        for count, orders in ((0, 0), (2, 1), (0, 100), (110, 10_000), (90, 10_000), (10_300, 1_000_000)):
            check(count, orders)


class TpccToolsTest(testtools.TestCase):
    def test_tpcc_mysql(self):
        found = figures(tpcc_tools.TpccMysql, TPCC_MYSQL)
        self.assertEqual(
            {"tpmc": 9480, "new_orders": 3160, "payments": 3161, "order_statuses": 316, "deliveries": 317,
             "stock_levels": 316}, found,
        )  # fmt: skip
        for old, new in (("fl:0", "fl:1"), ("9480.000", "19480.0"), ("<TpmC>", ""), ("[4] sc:177", "[5] sc:177")):
            self.assertRaises(base.OutputError, tpcc_tools.TpccMysql().parse, TPCC_MYSQL.replace(old, new, 1))

    def test_go_tpc(self):
        """It prints an array every ten seconds, too; three transactions were cut off by the end of the run."""
        self.assertEqual((1, 3), (GO_TPC.count('"NEW_ORDER","Prefix":"[Current] "'), GO_TPC.count("timeout:")))
        self.assertEqual(
            {"tpmc": 13796.5, "tpm_total": 30477.6, "latency_p95": 21.0, "new_orders": 5705},
            figures(tpcc_tools.GoTpc, GO_TPC),
        )
        for old, new in (
            ('"TPM":"13796.6"', '"TPM":"1"'),
            ("NEW_ORDER", "NEW"),
            ('"30477.6"', "30477.6"),
            ("[Summary] ", "[Current] "),
        ):
            self.assertRaises(base.OutputError, tpcc_tools.GoTpc().parse, GO_TPC.replace(old, new))

    def test_go_tpc_transactions_that_failed(self):
        for text in (
            GO_TPC.replace('"Count":"2"', '"Count":"7"'),
            GO_TPC.replace("stopped due to timeout:", "stopped"),
        ):
            error = self.assertRaises(base.OutputError, tpcc_tools.GoTpc().parse, text)
            self.assertIn("transactions failed", str(error))


class NetperfTest(testtools.TestCase):
    def test_keys_and_table(self):
        latencies = {"latency_mean": 10.6, "latency_p50": 6, "latency_p99": 24}
        self.assertEqual({"throughput": 12306.82, **latencies}, figures(netperf.Netperf, NETPERF_KEYS))
        self.assertEqual({"throughput": 11546.45}, figures(netperf.Netperf, NETPERF_TABLE))

    def test_requests_are_judged_by_their_rate(self):
        for name, rate in (("netperf-rr.txt", 47639.12), ("netperf-crr.txt", 18691.71)):
            [primary] = [one for one in netperf.NetperfRequests().parse(recorded(name)) if one.primary]
            self.assertEqual(
                ("transactions_per_second", "1/s", rate), (primary.metric, primary.unit, primary.value)
            )
        for test in ("TCP_RR", "TCP_CRR", "UDP_RR"):
            client = netperf.NetperfRequests().steps({"test": test}, "10.0.0.2")[1]
            self.assertIn(test, client.argv)
            self.assertRaises(parameter.ParameterError, netperf.Netperf().steps, {"test": test}, "10.0.0.2")

    def test_other_units(self):
        for text in (
            NETPERF_KEYS.replace("10^6bits/s", "KBytes/s"),
            NETPERF_TABLE.replace("10^6bits", "KBytes"),
            NETPERF_TABLE.splitlines()[-1],
            NETPERF_KEYS + NETPERF_KEYS,
            "Interim result: 99.00 10^6bits/s over 1.000 seconds\n" + NETPERF_TABLE.replace("10^6bits", "MBytes"),
            NETPERF_RR,
            "16384  131072 1       1      10.00    47639.12\n16384  131072\n",
        ):
            self.assertRaises(base.OutputError, netperf.Netperf().parse, text)
        for text in (NETPERF_KEYS, NETPERF_TABLE):
            self.assertRaises(base.OutputError, netperf.NetperfRequests().parse, text)


class CyclictestTest(testtools.TestCase):
    def test_quantiles(self):
        text = (
            "# Histogram\n000001 000097\t000098\n000005 000002\t000002\n000009 000001\t000000\n"
            "# Total: 000000100 000000100\n"
            "# Min Latencies: 00001 00001\n# Avg Latencies: 00001 00003\n# Max Latencies: 00009 00005\n"
            "# Histogram Overflows: 00000 00000\n"
        )
        found = figures(jitter.Cyclictest, text)
        # 195 within the bar of 1 µs, of which the 100th is the median; the 198th is 3 of 4 into that of 5 µs.
        self.assertAlmostEqual(1 + 100 / 195, found["latency_p50"])
        self.assertEqual((5.75, 9.0), (found["latency_p99"], found["latency_max"]))
        self.assertEqual((2.0, 0.2), (found["latency_mean"], found["wake_ups"]))
        self.assertRaises(base.OutputError, jitter.Cyclictest().parse, text.replace("000097", "000096"))

    def test_mean_of_what_the_histogram_does_not_hold(self):
        """As printed for a bar of 10: one thread woke within it half of the time, the other never did."""
        text = (
            "# Histogram\n000009 000050\t000000\n# Total: 000000050 000000000\n"
            "# Min Latencies: 00009 20000\n# Avg Latencies: 10000 30000\n# Max Latencies: 20000 40000\n"
            "# Histogram Overflows: 00050 00100\n"
        )
        self.assertEqual(20_000, figures(jitter.Cyclictest, text)["latency_mean"])

    def test_what_lies_beyond_the_histogram_is_the_longest(self):
        """100 wake-ups, 98 within a histogram of 2 µs: the 99th is told as the longest, not as 2 µs."""
        text = (
            "# Histogram\n000000 000000\n000001 000098\n# Total: 000000098\n# Min Latencies: 00001\n"
            "# Avg Latencies: 00080\n# Max Latencies: 04000\n# Histogram Overflows: 00002\n"
        )
        found = figures(jitter.Cyclictest, text)
        self.assertEqual((4000, 4000), (found["latency_p99"], found["latency_max"]))
        no_lines = text.replace("000000 000000\n000001 000098\n", "").replace("000000098", "000000000")
        self.assertRaises(base.OutputError, jitter.Cyclictest().parse, no_lines)

    def test_a_guest_on_a_cloud_keeps_all_of_the_histogram(self):
        for threads in range(1, 17):
            [step] = jitter.Cyclictest().steps({"threads": str(threads)})
            [width] = [int(word.partition("=")[2]) for word in step.argv if word.startswith("--histogram=")]
            line = "000000 " + "\t".join(["000000"] * threads) + "\n"
            self.assertTrue(2_000 < width <= 10_000 and width * len(line) < 256_000, (threads, width))

    def test_a_hostile_line_takes_no_time(self):
        """A number may be cut into others in one way only: by blanks."""
        line = "000001 " + "0" * 100_000 + "x\n"
        self.assertRaises(base.OutputError, jitter.Cyclictest().parse, "# Histogram\n" + line)
        self.assertRaises(base.OutputError, tpcc_tools.TpccMysql().parse, "\n" * 100_000 + "x")


class SmbTest(testtools.TestCase):
    def test_the_published_rule(self):
        data = json.loads(recorded("own-copy.json"))
        found = figures(share.Smb, recorded("own-copy.json"))
        rates = [data["bytes"] / one / 1e6 for one in data["seconds"]]
        self.assertAlmostEqual(copy_table.trimmed_mean(rates), found["throughput"])
        self.assertTrue(found["slowest"] <= found["throughput"] <= found["fastest"])

    def test_no_copy_is_that_fast(self):
        data = json.loads(recorded("own-copy.json"))
        for seconds in (1e-300, 1e-310, 1e-9):
            broken = {**data, "seconds": [seconds, *data["seconds"][1:]]}
            error = self.assertRaises(base.OutputError, share.Smb().parse, json.dumps(broken))
            self.assertIn("cannot be", str(error))

    def test_steps_for_samba_and_for_any_share(self):
        server, client = share.Smb().steps({}, "10.0.0.2")
        self.assertEqual(("nova-perf-share", "10.0.0.2", "5445"), server.argv)
        self.assertIn("//bench/bench -I 10.0.0.2", " ".join(client.argv))
        given = {"share": "//windows.example/bench share", "credentials": "/root/share"}
        [client] = share.Smb().steps(given, "10.0.0.2")
        line = " ".join(client.argv)
        self.assertIn("//windows.example/bench share --configfile=/dev/null -p 445 -A /root/share", line)
        for wrong in ({"share": "windows"}, {"share": "//x/y;rm"}, {"credentials": "secret"}, {"runs": "2"}):
            self.assertRaises(parameter.ParameterError, share.Smb().steps, wrong, "10.0.0.2")
