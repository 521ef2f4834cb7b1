# SPDX-License-Identifier: Apache-2.0
"""What is run: argument lists, never a shell's text; parameters are checked before anything starts."""

from importlib import metadata
from unittest import mock

import fixtures
import hypothesis
from hypothesis import strategies

from nova_perf_tuning import entry_points
from nova_perf_tuning.validation.bench import base, fio, iperf3, own, plugins, sysbench
from nova_perf_tuning.validation.measure import collectors
from tests.support import testcase


class StepsTest(testcase.TestCase):
    def test_iperf3_has_a_server_and_a_client(self):
        server, client = iperf3.Iperf3().steps(
            {"seconds": "3", "streams": "4", "direction": "reverse"}, "10.0.0.2"
        )
        self.assertEqual(("iperf3", "-s", "-1", "-B", "10.0.0.2", "-p", "5201"), server.argv)
        self.assertEqual("server", server.role)
        line = " ".join(client.argv)
        self.assertEqual(
            "iperf3 -c 10.0.0.2 -p 5201 -t 3 -P 4 -i 0 -J --connect-timeout 20000 -R", line
        )
        self.assertTrue(client.timeout_s > 4)

    def test_fio_is_the_published_job(self):
        [step] = fio.Fio().steps({"jobs": "2"})
        for option in (
            "--rw=randwrite",
            "--bs=16384",
            "--direct=1",
            "--ioengine=psync",
            "--numjobs=2",
        ):
            with self.subTest(option):
                self.assertIn(option, step.argv)
        self.assertIn("--group_reporting", step.argv)

    def test_fio_makes_a_mix_of_reads_and_writes(self):
        tool = fio.Fio()
        for given, share in (({}, "70"), ({"reads": "50"}, "50")):
            given = {"pattern": "randrw", **given}
            [step] = tool.steps(given)
            self.assertIn("--rw=randrw", step.argv)
            self.assertIn(f"--rwmixread={share}", step.argv)
            self.assertEqual(share, tool.asked(given)["reads in per cent"])
        self.assertRaises(base.ParameterError, tool.steps, {"reads": "50"})

    def test_fio_is_the_check_of_etcd(self):
        tool = fio.Fio()
        given = {"pattern": "fdatasync"}
        [step] = tool.steps(given)
        line = " ".join(step.argv)
        for option in (
            "--rw=write --fdatasync=1",
            "--bs=2300 --size=23068672 --numjobs=1 --ioengine=sync",
        ):
            self.assertIn(option, line)
        for option in ("--direct=", "--time_based", "--runtime"):
            self.assertNotIn(option, line)
        self.assertEqual(given.keys() | tool.defaults.keys(), tool.merged(given).keys())
        asked = tool.asked(given)
        self.assertEqual(("write", "1"), (asked["pattern"], asked["fdatasync after"]))
        # A validation gives it a time, at which it ends unless its file has ended before.
        [job] = plugins.jobs(["fio:pattern=fdatasync"], 7)
        [step] = tool.steps(job.parameters)
        self.assertIn("--runtime=7", step.argv)
        self.assertNotIn("--time_based", step.argv)
        for name, value in (("engine", "libaio"), ("depth", "4")):
            self.assertRaises(base.ParameterError, tool.steps, {**given, name: value})

    def test_smb_is_the_published_rule(self):
        """Five copies of 100 MB, and of 1000 where that is asked for."""
        for given, size in (({}, "100"), ({"megabytes": "1000"}, "1000")):
            with self.subTest(given):
                server, client = own.Smb().steps(given, "10.0.0.2")
                self.assertEqual(("nova-perf-share", "10.0.0.2", "5445"), server.argv)
                at = client.argv.index("copy")
                self.assertEqual((size, "5", "smbclient"), client.argv[at + 2 : at + 5])
                self.assertIn("//bench/bench -I 10.0.0.2", " ".join(client.argv))

    @hypothesis.given(
        strategies.sampled_from([iperf3.Iperf3, fio.Fio, sysbench.Cpu]), strategies.data()
    )
    @hypothesis.settings(deadline=None)
    def test_no_value_becomes_an_option_of_its_own(self, kind, data):
        """Whatever is given as a value, the command has the same number of arguments, or it is refused."""
        key = data.draw(strategies.sampled_from(sorted(kind().defaults)))
        text = data.draw(
            strategies.text(max_size=30)
            | strategies.from_regex(r"-?-?[a-z]+=?[0-9 ;$]*", fullmatch=True)
        )
        usual = [len(step.argv) for step in kind().steps({}, "10.0.0.2")]
        try:
            steps = kind().steps({key: text}, "10.0.0.2")
        except base.ParameterError as error:
            self.assertNotIn("\n", str(error).replace(text, ""))
            return
        extra = 0
        if (key, text) == ("direction", "reverse"):
            extra = 1  # -R
        elif kind is iperf3.Iperf3 and key == "bitrate" and int(text) > 0:
            extra = 2  # -b and the rate
        self.assertEqual(sum(usual) + extra, sum(len(step.argv) for step in steps))

    def test_parameters_stand_behind_the_kind(self):
        self.assertEqual(("fio", {"a": "1", "b": "x=y"}), base.split("fio:a=1,b=x=y"))


class PluginsTest(testcase.TestCase):
    def test_one_that_cannot_be_imported_is_named_and_takes_no_other_along(self):
        group = "nova_perf_tuning.of_a_test"
        entries = [
            metadata.EntryPoint("broken", "nova_perf_tuning.not_there:Benchmark", group),
            metadata.EntryPoint("whole", "nova_perf_tuning.validation.bench.fio:Fio", group),
        ]
        self.useFixture(fixtures.MockPatchObject(metadata, "entry_points", lambda group: entries))
        log = self.useFixture(fixtures.FakeLogger())
        self.assertEqual({"whole": fio.Fio}, plugins.installed(group))
        fault = "cannot be imported: nova_perf_tuning.not_there:Benchmark: ModuleNotFoundError: "
        self.assertIn(f"'broken' {fault}", log.output)
        # Who asks for it reads why, and not that there is none.
        self.assertIn(
            f"benchmark 'broken' {fault}", plugins.why_absent(group, "benchmark", "broken")
        )
        self.assertEqual(
            "there is no benchmark 'other'; there are whole",
            plugins.why_absent(group, "benchmark", "other"),
        )

    def test_whoever_asks_for_one_that_cannot_be_imported_reads_why(self):
        for name, group, ask, error in (
            ("benchmark", plugins.NAMESPACE, plugins.load, plugins.UnknownBenchmarkError),
            (
                "collector",
                collectors.NAMESPACE,
                lambda kind: collectors.attach([kind], "/nowhere"),
                collectors.CollectorError,
            ),
        ):
            with self.subTest(name):
                broken = metadata.EntryPoint("broken", "nova_perf_tuning.not_there:Kind", group)
                entry_points.forget()
                self.addCleanup(entry_points.forget)
                with mock.patch.object(metadata, "entry_points", return_value=[broken]):
                    caught = self.assertRaises(error, ask, "broken")
                self.assertIn(f"{name} 'broken' cannot be imported: ", str(caught))
