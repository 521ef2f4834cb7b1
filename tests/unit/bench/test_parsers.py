"""Reading real outputs, and refusing everything else with a line that says why."""

import json
import pathlib

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.bench import base, cpu, fio, iperf3, output, parameter, plugins

DATA = pathlib.Path(__file__).parent / "data"


def recorded(name):
    """Return an output that the program printed on a Debian 12 machine."""
    return (DATA / name).read_text(encoding="utf-8")


GOOD = {
    iperf3.Iperf3: recorded("iperf3-two-streams.json"),
    fio.Fio: recorded("fio-two-jobs.json"),
    cpu.Cpu: recorded("sysbench-cpu.txt"),
}


def figures(benchmark, text):
    return {one.metric: one for one in benchmark.parse(text)}


class Iperf3Test(testtools.TestCase):
    benchmark = iperf3.Iperf3()

    def test_receiver_counts_in_millions_of_bits(self):
        found = figures(self.benchmark, recorded("iperf3-two-streams.json"))
        self.assertAlmostEqual(23411.294876627312, found["throughput"].value, 3)
        self.assertEqual(("Mbit/s", "higher", True), self._kind(found["throughput"]))
        self.assertEqual(6, found["retransmits"].value)
        self.assertAlmostEqual(98.576, found["client_cpu"].value, 2)

    def test_work_has_the_omitted_second_too(self):
        found = figures(self.benchmark, recorded("iperf3-two-streams.json"))
        self.assertAlmostEqual((2924216320 + 2925527040) * 8 / 1e9, found["transferred"].value)

    def test_reverse(self):
        found = figures(self.benchmark, recorded("iperf3-reverse.json"))
        self.assertAlmostEqual(23410.493198656, found["throughput"].value, 3)
        self.assertEqual(22, found["retransmits"].value)

    def test_refused_connection_may_be_tried_again(self):
        error = self.assertRaises(base.NotReadyError, self.benchmark.parse, recorded("iperf3-refused.json"))
        self.assertEqual("iperf3: unable to connect to server: Connection refused", str(error))

    def test_other_errors_are_final(self):
        error = self.assertRaises(base.OutputError, self.benchmark.parse, '{"error": "unable\\nto bind"}')
        self.assertNotIsInstance(error, base.NotReadyError)
        self.assertEqual("iperf3: unable to bind", str(error))

    def test_nothing_received(self):
        data = json.loads(recorded("iperf3-reverse.json"))
        data["end"]["sum_received"]["bits_per_second"] = 0
        error = self.assertRaises(base.OutputError, self.benchmark.parse, json.dumps(data))
        self.assertEqual("iperf3: the receiver got nothing (0 bit/s)", str(error))

    def test_impossible_rates(self):
        for rate in ("NaN", "Infinity", "-1", "1e400", "1e16", '"9"', "true", "null", "[1]", "9" * 5000):
            data = json.loads(recorded("iperf3-reverse.json"))
            data["end"]["sum_received"]["bits_per_second"] = "RATE"
            text = json.dumps(data).replace('"RATE"', rate)
            self.assertRaises(base.OutputError, self.benchmark.parse, text)

    def test_wrong_shapes(self):
        for shape in (5, [], "x", None, {}, {"sum_received": 5}, {"sum_received": {"bits_per_second": 1}}):
            for text in (json.dumps({"end": shape}), json.dumps({"end": shape, "intervals": [shape]})):
                self.assertRaises(base.OutputError, self.benchmark.parse, text)

    @staticmethod
    def _kind(reading):
        return reading.unit, reading.better, reading.primary


class FioTest(testtools.TestCase):
    benchmark = fio.Fio()

    def test_group_of_two_jobs(self):
        found = figures(self.benchmark, recorded("fio-two-jobs.json"))
        self.assertAlmostEqual(32161.838162, found["iops"].value)
        self.assertAlmostEqual(526.939556, found["bandwidth"].value)
        self.assertAlmostEqual(61.761542772, found["latency_mean"].value)
        self.assertAlmostEqual(102.912, found["latency_p99"].value)
        self.assertAlmostEqual(32.194, found["requests"].value)

    def test_warnings_before_the_json(self):
        text = "fio: this kernel is old\n" + recorded("fio-two-jobs.json")
        self.assertEqual(8, len(self.benchmark.parse(text)))

    def test_disk_full(self):
        error = self.assertRaises(base.OutputError, self.benchmark.parse, recorded("fio-disk-full.json"))
        self.assertEqual("fio: the job ended with error 28 (errno)", str(error))

    def test_two_groups(self):
        data = json.loads(recorded("fio-two-jobs.json"))
        data["jobs"] *= 2
        self.assertRaises(base.OutputError, self.benchmark.parse, json.dumps(data))

    def test_no_io(self):
        data = json.loads(recorded("fio-two-jobs.json"))
        data["jobs"][0]["write"]["total_ios"] = 0
        error = self.assertRaises(base.OutputError, self.benchmark.parse, json.dumps(data))
        self.assertEqual("fio: the job did no I/O", str(error))

    def test_missing_percentile_is_named(self):
        data = json.loads(recorded("fio-two-jobs.json"))
        del data["jobs"][0]["write"]["clat_ns"]["percentile"]
        error = self.assertRaises(base.OutputError, self.benchmark.parse, json.dumps(data))
        self.assertEqual("fio: the output has no 'clat_ns.percentile.50.000000'", str(error))


class CpuTest(testtools.TestCase):
    benchmark = cpu.Cpu()

    def test_recorded(self):
        found = figures(self.benchmark, recorded("sysbench-cpu.txt"))
        self.assertEqual(3052.87, found["events_per_second"].value)
        self.assertEqual(3.058, found["events"].value)
        self.assertEqual((0.33, 0.34), (found["latency_mean"].value, found["latency_p95"].value))

    def test_a_figure_twice(self):
        text = recorded("sysbench-cpu.txt") + "\n    events per second:  9999999\n"
        error = self.assertRaises(base.OutputError, self.benchmark.parse, text)
        self.assertEqual("cpu: the output is ambiguous: 2 lines 'events per second'", str(error))

    def test_contradiction(self):
        text = recorded("sysbench-cpu.txt").replace("3052.87", "9000000")
        error = self.assertRaises(base.OutputError, self.benchmark.parse, text)
        self.assertIn("contradict", str(error))

    def test_no_event(self):
        text = recorded("sysbench-cpu.txt").replace("3052.87", "0.00")
        self.assertRaises(base.OutputError, self.benchmark.parse, text)

    def test_lines_of_another_tool(self):
        self.assertRaises(base.OutputError, self.benchmark.parse, "stress-ng: info: 12 bogo ops\n")


class AnyOutputTest(testtools.TestCase):
    def test_one_figure_is_primary_and_the_work_is_there(self):
        for kind, text in GOOD.items():
            readings = kind().parse(text)
            [primary] = [one for one in readings if one.primary]
            self.assertEqual(kind.primary, (primary.metric, primary.unit, primary.better))
            self.assertIn(kind.work_metric, [one.metric for one in readings])

    def test_every_truncation_is_refused(self):
        for kind, text in GOOD.items():
            whole = len(text.rstrip())
            for length in {0, 1, whole // 3, whole // 2, whole - 200, whole - 1}:
                if kind is cpu.Cpu and length > text.index("95th percentile"):
                    continue  # all that is read of sysbench's text stands before its last lines
                self.assertRaises(base.OutputError, kind().parse, text[:length])

    def test_too_long(self):
        for kind, text in GOOD.items():
            padded = text + " " * output.MAX_CHARACTERS
            error = self.assertRaises(base.OutputError, kind().parse, padded)
            self.assertIn("more than", str(error))

    def test_nested_without_end(self):
        for kind in (iperf3.Iperf3, fio.Fio):
            for text in ("[" * 100_000, '{"end":' * 100_000, '{"a":' + "[" * 100_000):
                self.assertRaises(base.OutputError, kind().parse, text)

    def test_messages_are_one_printable_line(self):
        for kind in GOOD:
            error = self.assertRaises(
                base.OutputError, kind().parse, '\x1b[2J{"error": "\\u001b[31m\\r\\nred\\u0007"}'
            )
            self.assertTrue(str(error).isprintable(), str(error))
            self.assertTrue(len(str(error)) < 300)

    @hypothesis.given(strategies.sampled_from(list(GOOD)), strategies.text(max_size=400))
    @hypothesis.settings(deadline=None, max_examples=150)
    def test_any_text(self, kind, text):
        self.assertRaises(base.OutputError, kind().parse, text)

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


ALL_KINDS = sorted(
    "connect cpu cyclictest fio go-tpc himeno iperf3 memory netperf netperf-requests oltp packets request smb"
    " system tpcc tpcc-mysql unixbench unixbench6".split()
)


class PluginsTest(testtools.TestCase):
    def test_all_entry_points_load(self):
        self.assertEqual(ALL_KINDS, [one.kind for one in plugins.load_all()])

    def test_unknown_kind_lists_the_known(self):
        error = self.assertRaises(plugins.UnknownBenchmarkError, plugins.load, "linpack")
        self.assertEqual(f"there is no benchmark 'linpack'; there are {', '.join(ALL_KINDS)}", str(error))

    def test_label_is_the_kind_unless_it_comes_twice(self):
        [one] = plugins.jobs(["iperf3:streams=2"], 3)
        self.assertEqual("iperf3", one.label)
        self.assertEqual(("2", "3"), (one.parameters["streams"], one.parameters["seconds"]))
        labels = [job.label for job in plugins.jobs(["iperf3", "iperf3:direction=reverse", "cpu"])]
        self.assertEqual(["iperf3", "iperf3:direction=reverse", "cpu"], labels)

    def test_own_seconds_win(self):
        self.assertEqual("7", plugins.jobs(["cpu:seconds=7"], 3)[0].parameters["seconds"])

    def test_mistakes(self):
        for texts in (
            ["cpu", "cpu"],
            ["cpu:threads=0"],
            ["cpu:threads"],
            ["cpu:x=1"],
            ["fio:directory=a:b"],
            [""],
        ):
            self.assertRaises((parameter.ParameterError, plugins.UnknownBenchmarkError), plugins.jobs, texts)
