# SPDX-License-Identifier: Apache-2.0
"""openstack perf validate on a simulated cloud: files, verdicts, exit codes, mistakes."""

import collections
import dataclasses
import json
import os
import pathlib
import re

import fixtures

from nova_perf_tuning import errors
from nova_perf_tuning.validation.measure import results_file
from tests.support import fleet_case, openstack_program, program, samples
from tests.support import simulated_cloud as simulation


class ValidateCloudTest(fleet_case.SimulatedValidation):
    def test_a_sound_fleet(self):
        self.assertEqual(0, self.validate("--hosts", "all"), self.err.getvalue())
        results = self.results()
        fleet = results.environment.fleet
        self.assertEqual(["PASS"] * 6, [host.verdict for host in fleet.hosts])
        self.assertEqual("PASS", fleet.verdict)
        self.assertEqual(["done"] * 6, [pair.state for pair in fleet.pairs])
        boots = {(trial.benchmark, trial.boot) for trial in results.trials}
        self.assertEqual(
            {*(("iperf3", n) for n in range(6)), *(("cpu", n) for n in range(12))}, boots
        )
        self.assertRegex(self.out.getvalue(), r"PASS +h005 +2 of 2")
        self.assertIn("host h999 is left out: it is down", self.err.getvalue())
        self.assertIn("6 hosts, 6 pairs", self.err.getvalue())
        self.assertEqual([], self.cloud.made.stacks())

    def test_a_bad_host_and_a_dead_one(self):
        """The run judges them as evaluate does."""
        budget = self.budget("benchmark: cpu, arm: tuned, baseline: untuned, max_loss: 0.0")
        cloud = fleet_case.SimulatedCloud(
            simulation.Cloud(bad={"h002": 0.6}, dead={"h006"}), count=8
        )
        options = ("--hosts", "all", "--peers", "3", "--budget", budget)
        self.assertEqual(1, self.validate(*options, cloud=cloud))
        fleet = self.results().environment.fleet
        hosts = {host.host: host for host in fleet.hosts}
        verdicts = {name: host.verdict for name, host in hosts.items() if host.verdict != "PASS"}
        self.assertEqual({"h002": "FAIL", "h006": "INVALID"}, verdicts)
        self.assertRegex(
            hosts["h002"].reasons[0], r"iperf3 \(\w+\): slower than the other hosts by \d+%"
        )
        self.assertIn("slower than the other hosts by", self.report())
        path = os.path.join(self.output, "results.json")
        done = program.nova_perf("evaluate", path, "--budget", budget, "-f", "json")
        self.assertEqual(1, done.returncode, done.stderr)
        again = json.loads(done.stdout)
        self.assertEqual(fleet.verdict, again["verdict"])
        self.assertEqual([dataclasses.asdict(host) for host in fleet.hosts], again["hosts"])

    def test_a_host_on_which_nothing_runs(self):
        """Its guests boot, every run of the benchmark fails."""

        class Launcher(simulation.SimulatedLauncher):
            def trials(self, pair, plan, rng):
                for trial in super().trials(pair, plan, rng):
                    sick = "h002" == (pair.client, pair.server)[trial.boot] or (
                        trial.benchmark == "iperf3" and "h002" in (pair.client, pair.server)
                    )
                    if not sick:
                        yield trial
                    elif trial.primary:  # a run that failed has no other figure
                        yield dataclasses.replace(trial, value=None, error="refused")

        with fixtures.MonkeyPatch("tests.support.simulated_cloud.SimulatedLauncher", Launcher):
            self.assertEqual(3, self.validate("--hosts", "all"))
        results = self.results()
        hosts = {host.host: host for host in results.environment.fleet.hosts}
        self.assertEqual(
            ["h002"], [name for name, host in hosts.items() if host.verdict != "PASS"]
        )
        self.assertEqual(("INVALID", 0), (hosts["h002"].verdict, hosts["h002"].measured))
        self.assertIn("iperf3: 6 of 6 trials of", hosts["h002"].reasons[0])
        boots = set(
            re.findall(r"(boot|pair) (\d+)( \(its server alone\))?,? block", self.report())
        )
        self.assertEqual({"pair"}, {what for what, _, _ in boots})
        self.assertEqual({True, False}, {bool(alone) for _, _, alone in boots})
        self.assertTrue({int(number) for _, number, _ in boots} <= set(range(1, 7)), boots)

    def test_specs_of_both_kinds_of_guests(self):
        """Hosts with only dedicated CPUs take no other guest, an untuned one neither."""
        common = ("--common-spec", "hw:cpu_policy=dedicated")
        self.validate("--hosts", "all", "--profile", "network-throughput", *common)
        arms = self.results().environment.arms
        self.assertEqual({"hw:cpu_policy": "dedicated"}, arms["untuned"].request)
        tuned = arms["tuned"].request
        self.assertEqual("dedicated", tuned["hw:cpu_policy"])
        self.assertEqual("network-throughput", tuned["perf:profile"])

    def test_two_hosts_by_themselves(self):
        """Each is a pair with itself; what ran on a host alone tells a slow one, and what holds it back."""
        cloud = fleet_case.SimulatedCloud(simulation.Cloud(bad={"h001": 0.4}), count=2)
        self.assertEqual(
            1, self.validate("--hosts", "all", "--peers", "0", "--flavor", "x", cloud=cloud)
        )
        self.assertEqual({"image": "perf-guest"}, self.results().environment.guest)
        verdicts = {host.host: host.verdict for host in self.results().environment.fleet.hosts}
        self.assertEqual({"h000": "PASS", "h001": "FAIL"}, verdicts)
        self.assertIn("- Look for a limit on the guests' CPUs", self.out.getvalue())
        self.assertEqual(2, self.cloud.made.most)

    def test_host_cpu_by_class_is_judged_and_its_source_told(self):
        """h002 costs more beside its vCPUs; what agents do not tell is no reason to fail."""

        class Launcher(simulation.SimulatedLauncher):
            def measured(self, pair, *others):
                outcome = super().measured(pair, *others)
                outcome.host_cpu_source = "agent metrics"
                if "h001" in (pair.client, pair.server):
                    outcome.host_cpu_source = ""
                    outcome.host_cpu_faults = {"agent metrics of h001": "no answer <b>"}
                return outcome

            def trials(self, pair, plan, rng):
                for trial in super().trials(pair, plan, rng):
                    ran_on = pair.server if trial.boot else pair.client
                    parts = {
                        "vcpu": 4.0,
                        "emulator": 0.1,
                        "iothread": 0.0,
                        "vhost": 0.0,
                        "worker": 0.4,
                    }
                    parts["worker"] += 2.0 if ran_on == "h002" else 0.0
                    cpu = {**parts, "total": sum(parts.values())}
                    unit = "Gbit" if trial.benchmark == "iperf3" else "1,000 events"
                    yield dataclasses.replace(
                        trial, host_cpu_s=cpu, work=10.0, work_unit=unit, course=samples.course()
                    )

        budget = self.budget(
            "benchmark: cpu, arm: tuned, baseline: untuned, max_host_cpu_per_unit: 0.1"
        )
        url = "http://{host}:9751/metrics"
        with fixtures.MonkeyPatch("tests.support.simulated_cloud.SimulatedLauncher", Launcher):
            code = self.validate(
                "--hosts", "all", "--blocks", "8", "--budget", budget, "--agent-metrics", url
            )
        self.assertEqual(1, code, self.out.getvalue())
        self.assertEqual(url, self.cloud.guests.agent_metrics)
        environment = self.results().environment
        verdicts = {host.host: host.verdict for host in environment.fleet.hosts}
        self.assertEqual({f"h00{n}": "FAIL" if n == 2 else "PASS" for n in range(6)}, verdicts)
        self.assertIn("none in 2 pairs", environment.host_cpu_source)
        self.assertIn("agent metrics in 4 pairs", environment.host_cpu_source)
        self.assertIn(
            f"note: host CPU of guests: {environment.host_cpu_source}", self.out.getvalue()
        )
        self.assertIn(
            "host CPU is not known from agent metrics of h001: no answer <b>", self.out.getvalue()
        )
        self.assertIn("<td>host_cpu_source", self.report())
        self.assertIn("Second by second", self.report())
        self.assertIn("no answer &lt;b&gt;", self.report())

    def test_a_report_judges_again_by_budgets_and_says_what_is_recorded(self):
        """A file may say anything of its verdicts."""
        cloud = fleet_case.SimulatedCloud(simulation.Cloud(bad={"h002": 0.6}))
        self.assertEqual(1, self.validate("--hosts", "all", cloud=cloud))
        results = self.results()
        path = os.path.join(self.output, "trials.ndjson")
        program.nova_perf("report", os.path.join(self.output, "results.json"), "--ndjson", path)
        with open(path, encoding="ascii") as file:
            documents = list(map(json.loads, file))
        self.assertEqual(
            {False}, {row["peer"] is None for row in documents if row["benchmark"] == "iperf3"}
        )
        alone = collections.Counter(
            row["host"] for row in documents if row["peer"] is None and row["primary"]
        )
        self.assertEqual(dict.fromkeys((f"h00{number}" for number in range(6)), 12), alone)
        fleet = results.environment.fleet
        fleet.verdict = "PASS"
        for host in fleet.hosts:
            host.verdict, host.reasons = "PASS", []
        path = os.path.join(self.output, "results.json")
        results_file.save(results, path)
        for budget, words in (
            ((), ('PASS">PASS (as recorded)<', "not judged again")),
            (("--budget", "default"), ('FAIL">FAIL<', "slower than the other hosts")),
        ):
            with self.subTest(budget):
                self.assertEqual(0, program.nova_perf("report", path, *budget).returncode)
                for word in words:
                    self.assertIn(word, self.report())

    def bare_host(self, name, **values):
        """Write what a host alone did, 4 times each benchmark, every arm being the host; return the path."""
        path = os.path.join(self.directory, f"{name}.json")
        measured = samples.results(
            {"host": 2000.0, "untuned": 2000.0}, boots=1, blocks=2, seed=len(name)
        )
        samples.tell(measured, host=name, launcher="host", **values)
        results_file.save(measured, path)
        return path

    def test_budgets_against_the_bare_host(self):
        budget = self.budget("benchmark: iperf3, arm: tuned, baseline: host, max_loss: 0.01")
        known = [
            word
            for name in ("h000", "h001.example.org")
            for word in ("--bare-host", self.bare_host(name))
        ]
        options = ("--hosts", "a,b", "--blocks", "4", "--budget", budget)
        self.assertEqual(
            1, self.validate(*options, *known, cloud=fleet_case.SimulatedCloud(count=2))
        )
        results = self.results()
        alone = [trial for trial in results.trials if trial.arm == "host"]
        blocks = {(boot, block) for boot in (0, 1) for block in range(4)}
        self.assertEqual(blocks, {(trial.boot, trial.block) for trial in alone})
        self.assertEqual(8, len({trial.value for trial in alone}))
        guests = {trial.order for trial in results.trials if trial.arm != "host"}
        self.assertFalse(guests & {trial.order for trial in alone})
        self.assertEqual(
            {"h000", "h001.example.org"}, set(results.environment.shown["bare_hosts"])
        )
        for host in results.environment.fleet.hosts:
            self.assertEqual("FAIL", host.verdict)
            self.assertIn("allowed -1.0%", host.reasons[0])

    def test_bare_hosts_that_are_of_no_use(self):
        path = self.bare_host("h000")
        for arguments, reason in (
            (("--bare-host", path, "--bare-host", path), "host h000 has been given already"),
            (("--bare-host", self.bare_host("")), "environment.host is missing"),
            (("--bare-host", os.path.join(self.directory, "none.json")), "No such file"),
            (("--benchmark", "fio", "--bare-host", path), "nothing of fio on the host itself"),
        ):
            with self.subTest(arguments):
                error = self.assertRaises(
                    errors.PerfTuningError, self.validate, "--hosts", "all", *arguments
                )
                self.assertIn(reason, str(error))

    def test_a_bare_host_that_may_be_two_is_refused_before_anything_runs(self):
        cloud = fleet_case.SimulatedCloud()
        self.patch(cloud, "choose", lambda _words: (["cn1.east", "cn1.west"], {}))
        path = self.bare_host("cn1")
        error = self.assertRaises(
            errors.PerfTuningError,
            self.validate,
            "--hosts",
            "all",
            "--bare-host",
            path,
            cloud=cloud,
        )
        self.assertIn("host cn1 may be cn1.east or cn1.west", str(error))

    def test_wherever_the_scheduler_puts_it(self):
        self.assertEqual(0, self.validate("--hosts", "any", "--network", "shared"))
        self.assertEqual("shared", self.cloud.guests.network)
        self.assertEqual(["any"], [host.host for host in self.results().environment.fleet.hosts])
        self.assertIn(": 1 host, 1 pair\n", self.err.getvalue())

    def test_more_trials_than_results_hold(self):
        self.patch(results_file, "MAX_TRIALS", 10)
        error = self.assertRaises(errors.PerfTuningError, self.validate, "--hosts", "all")
        self.assertIn("6 pairs have 108 trials, results hold 10", str(error))

    def test_what_results_cannot_hold_is_refused_before_anything_runs(self):
        """Nobody could read the results of the run afterwards: its schema allows less than the options did."""
        many_tags = []
        for number in range(1001):
            many_tags += ["--tag", f"k{number}=1"]
        many_flavors = []
        for number in range(101):
            many_flavors += ["--flavor", f"m{number}"]
        for arguments, place in (
            (("--host-group", "g" * 201), "environment.host_group"),
            (("--flavor", "f" * 201), "environment.arms"),
            (("--image", "i" * 1001), "environment.guest.image"),
            (("--benchmark", f"fio:directory=/{'d' * 5000}"), "environment.benchmarks"),
            (many_tags, "environment.tags"),
            (many_flavors, "environment.arms"),
        ):
            with self.subTest(place):
                cloud = fleet_case.SimulatedCloud()
                run = ("--hosts", "all", *arguments)
                error = self.assertRaises(errors.PerfTuningError, self.validate, *run, cloud=cloud)
                self.assertIn(f"give shorter or fewer: {place}", str(error))
                self.assertFalse(hasattr(cloud, "made"), "the cloud is not asked")
        self.assertEqual(
            0, self.validate("--hosts", "all", "--host-group", "g" * 200, "--image", "i" * 1000)
        )
        self.assertEqual("g" * 200, self.results().environment.host_group)

    def test_results_of_an_earlier_run_are_renamed_before_anything_is_refused(self):
        """Nobody may take them for those of the command that failed."""

        class Refusing(fleet_case.SimulatedCloud):
            def choose(self, words):
                raise errors.CloudError("the cloud has no such hosts")

        os.mkdir(self.output)
        for name in ("results.json", "report.html"):
            pathlib.Path(self.output, name).write_text("earlier", encoding="utf-8")
        self.assertRaises(errors.CloudError, self.validate, "--hosts", "all", cloud=Refusing())
        self.assertEqual(
            {"results.previous.json", "report.previous.html"}, set(os.listdir(self.output))
        )
        self.assertIn("results of an earlier run are now", self.err.getvalue())

    def test_the_output_directory_is_found_once(self):
        """Its owner may put a link in its place while the cloud is asked."""
        victim = os.path.join(self.directory, "victim")
        moved = os.path.join(self.directory, "moved")
        for path in (self.output, victim):
            os.mkdir(path)
        theirs = self.write_file("victim/results.json", "precious")

        class Swapping(fleet_case.SimulatedCloud):
            def choose(cloud, words):
                os.rename(self.output, moved)
                os.symlink(victim, self.output)
                return super().choose(words)

        self.assertEqual(0, self.validate("--hosts", "all", cloud=Swapping()))
        self.assertEqual(["results.json"], os.listdir(victim))
        self.assertEqual("precious", pathlib.Path(theirs).read_text(encoding="utf-8"))
        self.assertEqual({"results.json", "report.html"}, set(os.listdir(moved)))


class MistakesTest(openstack_program.ProgramTestCase):
    def test_mistakes_are_one_line_and_exit_3(self):
        url = f"sqlite:///{self.directory}/results.db"
        self.useFixture(fixtures.EnvironmentVariable("NOVA_PERF_DATABASE", url))
        for arguments, message in (
            ((), "--hosts: give compute hosts"),
            (("--hosts", "a,,b"), "--hosts: give compute hosts"),
            (("--hosts", "a", "--peers=-1"), "--peers: '-1'"),
            (("--hosts", "a", "--max-parallel", "x"), "--max-parallel: 'x'"),
            (("--hosts", "a", "--max-loss", "15"), "--max-loss: '15': give a number"),
            (("--hosts", "a", "--pair-time-limit", "1"), "--pair-time-limit: '1'"),
            (
                ("--hosts", "a", "--agent-metrics", "http://h:9751/"),
                "it is not a URL with {host}",
            ),
            (("--hosts", "a", "--flavor", "m1", "--profile", "compute"), "leave out --profile"),
            (("--hosts", "a", "--flavor", "m1", "--common-spec", "hw:x=1"), "leave out --profile"),
            (
                ("--hosts", "a", "--common-spec", "perf:vif_queues=2"),
                "only Nova's own specs, such as hw:cpu_policy",
            ),
            (
                (
                    *("--hosts", "a", "--spec", "hw:cpu_policy=shared"),
                    *("--common-spec", "hw:cpu_policy=dedicated"),
                ),
                "give hw:cpu_policy different values",
            ),
            (("--hosts", "a", "--flavor", "m1", "--flavor", "m1"), "given twice"),
            (
                ("--hosts", "a", "--flavor", "m1", "--flavor", "host"),
                "--flavor: 'host' means something else",
            ),
            (("--hosts", "a", "--flavor", "untuned"), "--flavor: 'untuned' means something else"),
            (("--hosts", "a", "--flavor", "again"), "give the flavor's id"),
            (
                ("--hosts", "a", "--spec", "perf:vif_queues=9"),
                "perf:vif_queues=9 is more than the 2 vCPUs",
            ),
            (("--hosts", "a", "--database", "nonsense"), "not a SQLAlchemy URL"),
            (("--hosts", "a", "--network", "n", "--external-network", "x"), "have no router"),
            (("--hosts", "a", "--launcher", "host"), "unknown option '--launcher'"),
            (
                ("--resume", "nosuch"),
                f"there is no database of runs at {self.directory}/results.db",
            ),
        ):
            with self.subTest(arguments):
                self.assertIn(
                    message,
                    self.refused("validate", "--output", f"{self.directory}/out", *arguments),
                )
                self.assertEqual(
                    ["clouds.yaml"], os.listdir(self.directory), "nothing is left behind"
                )
