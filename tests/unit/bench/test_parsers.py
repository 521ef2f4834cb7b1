"""Reading real outputs, and refusing everything else with a line that says why."""

import json
import pathlib

import testtools

from nova_perf_tuning.bench import base, cpu, fio, iperf3, parameter, plugins

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
