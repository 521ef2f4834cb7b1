# SPDX-License-Identifier: Apache-2.0
"""Templates, scripts and environments as far as they can be seen without a cloud."""

import json
import pathlib
import re
import subprocess
import sys
from unittest import mock

import yaml

from nova_perf_tuning.placement import api
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.heat import heat_pair, stacks
from nova_perf_tuning.validation.measure import fleet_model
from tests.support import documents, testcase

TOP = pathlib.Path(__file__).parents[3]
HEAT = TOP / "heat"


def template(name):
    return yaml.safe_load((HEAT / name).read_text(encoding="utf-8"))


def commands(benchmarks):
    """Return what the guest's jq makes of a list of benchmarks."""
    argv = ["jq", "-c", "--arg", "peer", "192.0.2.7", "-f", HEAT / "commands.jq"]
    done = subprocess.run(
        argv, input=json.dumps(benchmarks), capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


class ParametersTest(testcase.TestCase):
    def test_every_parameter_says_what_it_is_and_is_bounded(self):
        for name in ("benchmark_pair.yaml", "host_validation.yaml", "flavors.yaml"):
            with self.subTest(name):
                for key, declared in template(name)["parameters"].items():
                    self.assertIn("label", declared, f"{name}: {key}")
                    self.assertIn("description", declared, f"{name}: {key}")
                    bounded = "constraints" in declared or declared["type"] in ("json", "boolean")
                    self.assertTrue(bounded, f"{name}: {key} has no constraint")

    def test_no_name_is_used_twice(self):
        """Heat takes no resource that is called like a parameter."""
        for path in HEAT.glob("*.yaml"):
            content = template(path.name)
            self.assertEqual(
                set(), set(content["parameters"]) & set(content["resources"]), path.name
            )

    def test_the_list_passes_everything_on(self):
        pair = template("benchmark_pair.yaml")["parameters"]
        own = {
            key: entry for key, entry in pair.items() if key not in ("client_host", "server_host")
        }
        validation = template("host_validation.yaml")
        self.assertEqual(
            own, {key: entry for key, entry in validation["parameters"].items() if key != "pairs"}
        )
        inner = template("pair_of_list.yaml")
        self.assertEqual(set(own) | {"pairs", "index"}, set(inner["parameters"]))
        passed = validation["resources"]["all_pairs"]["properties"]["resource_def"]["properties"]
        expected = {key: {"get_param": key} for key in [*own, "pairs"]} | {"index": "%index%"}
        self.assertEqual(expected, passed)
        self.assertEqual(set(pair), set(inner["resources"]["pair"]["properties"]))

    def test_the_launcher_gives_parameters_that_exist(self):
        settings = fleet_model.GuestSettings(network="provider")
        known = set(template("benchmark_pair.yaml")["parameters"])
        arms = (
            fleet_model.FleetArm("a", "m1.small"),
            fleet_model.FleetArm("b", "", {"perf:profile": "storage"}),
        )
        plan = fleet_model.MeasurePlan("r", arms, tuple(plugins.jobs(["iperf3"])), 1, 100)
        pair = heat_pair._Pair(
            api.Api(mock.Mock()), settings, fleet_model.HostPair("x", "y"), plan
        )
        for number, arm in enumerate(arms):
            given = pair.parameters(number, arm)
            self.assertEqual(set(), set(given) - known)
            self.assertEqual(("provider", ""), (given["guest_network"], given["external_network"]))

    def test_on_an_existing_network_only_ports_are_made(self):
        content = template("benchmark_pair.yaml")
        self.assertEqual(
            {"equals": [{"get_param": "guest_network"}, ""]}, content["conditions"]["own_network"]
        )
        for name, resource in content["resources"].items():
            kind = resource["type"].removeprefix("OS::Neutron::")
            if kind == "Port":
                self.assertEqual(
                    {"get_param": "guest_network"}, resource["properties"]["network"]["if"][2]
                )
            elif kind != resource["type"]:
                self.assertEqual("own_network", resource.get("condition"), name)

    def test_environments_hold_known_parameters_and_benchmarks(self):
        pair = template("benchmark_pair.yaml")["parameters"]
        paths = sorted((HEAT / "environments").glob("*.yaml"))
        self.assertTrue(paths)
        for path in paths:
            parameters = yaml.safe_load(path.read_text(encoding="utf-8"))["parameters"]
            self.assertEqual(set(), set(parameters) - set(pair), path.name)
            for entry in parameters["benchmarks"]:
                given = ",".join(f"{key}={value}" for key, value in entry["parameters"].items())
                [job] = plugins.jobs([f"{entry['benchmark']}:{given}"])
                self.assertLess(int(job.parameters["seconds"]) + 4, parameters["slot_seconds"])
            rounds = parameters["trials"] + 2
            self.assertLess(rounds * 2 * parameters["slot_seconds"], parameters["time_limit"])

    def test_user_data_fills_in_every_word(self):
        words = set(re.findall(r"@[A-Z_]+@", (HEAT / "runner.sh").read_text(encoding="utf-8"))) - {
            "@WORDS@"
        }
        resources = template("benchmark_pair.yaml")["resources"]
        for role in ("client", "server"):
            with self.subTest(role):
                given = resources[role]["properties"]["user_data"]["str_replace"]["params"]
                self.assertEqual(words, set(given))
                self.assertEqual(role, given["@ROLE@"])
        self.assertNotIn("documents_handle", json.dumps(resources["server"]))

    def test_package_brings_the_files(self):
        self.assertEqual(
            {path.name for path in HEAT.iterdir() if path.is_file()}, set(stacks.files())
        )


class FlavorsTest(testcase.TestCase):
    def test_generated_flavors_are_up_to_date(self):
        subprocess.run([sys.executable, TOP / "tools" / "heat_flavors.py", "--check"], check=True)


class CommandsTest(testcase.TestCase):
    """jq in the guest makes the same command lines as the plug-ins here."""

    def test_same_as_the_plugins(self):
        for text in (
            *("iperf3", "fio", "cpu", "smb"),
            "iperf3:seconds=3600,streams=4,port=65000,direction=reverse",
            "iperf3:seconds=2,streams=8,processes=3,bitrate=400000",
            "fio:seconds=7,pattern=read,block_size=16K,size=1g,jobs=64,engine=io_uring,depth=8,directory=/srv/a b",
            "fio:pattern=randrw",
            "fio:pattern=randrw,reads=50,seconds=0",
            "fio:pattern=fdatasync",
            "fio:pattern=fdatasync,seconds=10,size=1m,block_size=4k,engine=psync",
            "cpu:seconds=1,threads=1024,limit=1000000",
            "smb:direction=get,megabytes=100000,runs=3",
        ):
            with self.subTest(text):
                kind, _, given = text.partition(":")
                parameters = dict(pair.split("=") for pair in given.split(",")) if given else {}
                benchmark = plugins.load(kind)
                steps = benchmark.steps(parameters, "192.0.2.7" if benchmark.paired else None)
                [made] = commands([{"benchmark": kind, "parameters": parameters}])
                expected = {step.role: list(step.argv) for step in steps}
                self.assertEqual(
                    expected, {key: made[key] for key in ("client", "server") if made[key]}
                )
                self.assertEqual(not benchmark.paired, made["alone"])

    def test_the_launchers_entries_are_taken_as_they_are(self):
        others = ("iperf3", "fio", "oslat")  # oslat: the CPUs of a plan, which guests have none of
        own = [plugin.kind for plugin in plugins.load_all() if plugin.kind not in others]
        for job in plugins.jobs(
            ["iperf3:streams=2", "iperf3:processes=3", "fio:seconds=0", "fio", *own]
        ):
            [made] = commands([heat_pair._benchmark(job)])
            for step in job.benchmark.steps(
                job.parameters, "192.0.2.7" if job.benchmark.paired else None
            ):
                self.assertEqual(list(step.argv), made[step.role])
            self.assertEqual(not job.benchmark.paired, made["alone"])

    def test_refused_in_the_guest(self):
        copies = ({"megabytes": "0"}, {"megabytes": "1e3"}, {"runs": "2"}, {"runs": "x"})
        for entry in (
            {"benchmark": "none"},
            *({"benchmark": "smb", "parameters": values} for values in copies),
        ):
            with self.subTest(entry):
                self.assertRaises(subprocess.CalledProcessError, commands, [entry])


class FiguresTest(testcase.TestCase):
    def figures(self, *trials):
        argv = ["jq", "-cs", "-f", HEAT / "figures.jq"]
        text = "\n".join(json.dumps(trial) for trial in trials)
        return json.loads(
            subprocess.run(argv, input=text, capture_output=True, text=True, check=True).stdout
        )

    def trial(self, kind, output, status=0, stderr=""):
        return {
            "label": kind,
            "benchmark": kind,
            "status": status,
            "stdout": output,
            "stderr": stderr,
        }

    def test_figures_are_those_of_the_plugins(self):
        cpu = self.trial("cpu", (documents.DATA / "sysbench-cpu.txt").read_text(encoding="utf-8"))
        outputs = {"iperf3": documents.IPERF3, "fio": documents.FIO}
        figures = self.figures(*(self.trial(*output) for output in outputs.items()), cpu)
        for kind, text in outputs.items():
            with self.subTest(kind):
                [primary] = [
                    reading for reading in plugins.load(kind).parse(text) if reading.primary
                ]
                self.assertIn(f"{round(primary.value, 2):g}"[:4], figures[kind])
                self.assertIn(primary.unit, figures[kind])
        self.assertIn("events/s, median of 1", figures["cpu"])

    def test_both_directions_of_a_mixed_job_are_added_up(self):
        job = {"read": {"iops": 70.0}, "write": {"iops": 30.0}}
        line = self.figures(self.trial("fio", json.dumps({"jobs": [job]})))["fio"]
        self.assertIn("100 IO/s", line)

    def test_processes_of_iperf3_are_added_up(self):
        single, two = documents.IPERF3, f'{{"outputs": [{documents.IPERF3},{documents.IPERF3}]}}'
        [primary] = [figure for figure in plugins.load("iperf3").parse(two) if figure.primary]
        shown = self.figures(self.trial("iperf3", two))["iperf3"]
        self.assertIn(f"throughput {round(primary.value, 2):g}"[:14], shown)
        for broken in (f'{{"outputs": [{single},{{}}]}}', '{"outputs": []}'):
            with self.subTest(broken):
                self.assertIn("1 runs", self.figures(self.trial("iperf3", broken))["iperf3"])

    def test_copies_are_summed_up_as_published_and_with_robust_figures(self):
        text = json.dumps(
            {"benchmark": "copy", "bytes": 100_000_000, "seconds": [1.0, 2.0, 1.25, 0.1, 1.6]}
        )
        figures = self.figures(self.trial("smb", text))["smb"]
        readings = {reading.metric: reading.value for reading in plugins.load("smb").parse(text)}
        mean, median, deviation, slowest, fastest = (
            f"{round(readings[name], 2):g}"
            for name in ("throughput", "median", "deviation", "slowest", "fastest")
        )
        self.assertEqual(
            f"copy {mean} MB/s, median of 1 ({mean} to {mean}); 5 copies: median {median}, deviation {deviation},"
            f" {slowest} to {fastest}",
            figures,
        )
        twice = self.figures(self.trial("smb", text), self.trial("smb", text))["smb"]
        self.assertIn("10 copies: median 80", twice)

    def test_failures_are_told(self):
        bad = self.trial("fio", "", 1, "No space left\non device")
        self.assertIn("failed: status 1: No space left on device", self.figures(bad)["fio"])
        self.assertIn("; 1 failed", self.figures(bad, self.trial("fio", documents.FIO))["fio"])
        for output in (
            "rubbish",
            '{"jobs": [{}]}',
            '{"jobs": [{"read": {"iops": [1]}, "write": {"iops": 1}}]}',
        ):
            self.assertIn("1 runs", self.figures(self.trial("fio", output))["fio"])
        self.assertIn(
            "status 1: a a", self.figures(self.trial("fio", "", 1, "a\n" * (1 << 17)))["fio"]
        )
