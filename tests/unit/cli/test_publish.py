# SPDX-License-Identifier: Apache-2.0
"""nova-perf publish: what it writes is what nova-compute's side of the file reads."""

import dataclasses
import datetime
import json
import os
import pathlib
import stat
from unittest import mock

import fixtures
from oslo_config import cfg

from nova_perf_tuning.conf import nova
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.nova import host_result, traits
from nova_perf_tuning.validation.measure import results_file
from tests.support import directories, program, samples

AGAINST_UNTUNED = "baseline: untuned, arm: tuned"


class PublishTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        os.chmod(self.directory, 0o755)  # as /var/lib is
        self.results = f"{self.directory}/results.json"
        self.state = f"{self.directory}/made"
        self.published = f"{self.state}/verdict.json"
        own = self.write_file("own.conf", f"[nova_perf_tuning]\nstate_dir = {self.state}\n")
        self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.conf.opts.CONFIG", own))
        self.config = self.write_file(
            "nova.conf",
            f"[DEFAULT]\nhost = cmp1\n[nova_perf_tuning]\nresult_file = {self.published}\n",
        )

    def measure(self, values=None, **environment):
        now = datetime.datetime.now(datetime.UTC).isoformat()
        measured = samples.results(values or {"host": 1000.0, "tuned": 900.0}, boots=3, blocks=6)
        samples.tell(measured, **{"created": now, "host": "cmp1", **environment})
        results_file.save(measured, self.results)

    def budget(self, max_loss, arms="arm: tuned"):
        return self.write_file(
            "net-10g.yaml", f"budgets: [{{benchmark: iperf3, {arms}, max_loss: {max_loss}}}]"
        )

    def published_by(self, *arguments):
        return program.document(self, "publish", *arguments, "--nova-config", self.config)

    def refused(self, *arguments):
        before = os.path.exists(self.published)
        line = program.refused(
            self, "publish", *arguments, "--nova-config", self.config, "-f", "json"
        )
        self.assertEqual(before, os.path.exists(self.published))
        return line

    def read_by_compute(self):
        """Return what the driver makes of the file, with the configuration that publish has read."""
        conf = cfg.ConfigOpts()
        nova.register_opts(conf)
        conf([], default_config_files=[self.config], default_config_dirs=[])
        return traits.HostTraits(conf).result("cmp1")

    def test_nothing_that_nova_conf_names_is_followed_replaced_or_removed(self):
        """Nova's user owns nova.conf, and root publishes."""
        self.measure()
        other = self.write_file("made/other.json", "{}")
        os.symlink(other, f"{self.state}/link.json")
        result = host_result.HostResult(
            "cmp1", datetime.datetime.now(datetime.UTC), "PASS", {}
        ).to_json()
        os.symlink(
            self.write_file("verdict-of-root.json", result), f"{self.state}/link-of-a-verdict.json"
        )
        publish = (self.results, "--budget", self.budget(0.15))
        for line, words in (
            (f"result_file = {other}", "only a verdict is replaced or removed"),
            (f"result_file = {self.state}/link.json", "not a regular file"),
            (f"result_file = {self.state}/link-of-a-verdict.json", "not a regular file"),
            (f"result_file = {self.write_file('made/passwd', 'x')}", "ends in .json"),
            (
                f"result_file = {self.directory}/new.json",
                f"name a file in {self.state} or /var/lib/nova-perf-",
            ),
            (f"result_file = {self.state}/../new.json", "name a file in"),
            (f"result_file = {self.state}/other/new.json", "name a file in"),
            ("result_file = verdict.json", "name a file in"),
            ("result_file = $state_dir/verdict.json", "is not followed"),
            ("[DEFAULT]\nconfig_source = remote", "other sources are not read"),
        ):
            self.write_file(
                "nova.conf",
                f"[DEFAULT]\nhost = cmp1\n[nova_perf_tuning]\n{line}\n[remote]\ndriver = remote_file\n",
            )
            for arguments in (publish, ("--withdraw",)):
                with self.subTest(line=line, arguments=arguments):
                    self.assertIn(words, self.refused(*arguments))
        with open(other, encoding="utf-8") as file:
            self.assertEqual("{}", file.read())
        self.assertFalse(os.path.exists(f"{self.directory}/new.json"))

    def test_a_run_that_was_stopped_is_refused(self):
        """Whoever stopped it may have seen its figures."""
        publish = (self.results, "--budget", self.budget(0.15))
        for ended in ("interrupted", "error", "running"):
            with self.subTest(ended):
                self.measure(ended=ended)
                self.assertIn(f"({ended})", self.refused(*publish))
        for ended, codes in (("time limit", ["ended_early"]), ("complete", []), ("", [])):
            with self.subTest(ended):
                self.measure(ended=ended)
                document = self.published_by(*publish)
                self.assertEqual("PASS", document["result"]["verdict"])
                self.assertEqual(codes, [note["code"] for note in document["note_details"]])

    def test_a_directory_in_which_others_write_is_refused(self):
        """They could put another file into the place of the one that was looked at."""
        self.measure()
        budget = self.budget(0.15)
        self.published_by(self.results, "--budget", budget)
        os.chmod(self.state, 0o777)
        for arguments in ((self.results, "--budget", budget), ("--withdraw",)):
            self.assertIn("others may write in it", self.refused(*arguments))

    def test_nova_conf_is_found_where_deployments_keep_it(self):
        """Of the first place that has any; later files of it win."""
        self.measure()
        root = str(self.directory)[1:]
        places = [[f"{root}/{path}" for path in paths] for paths in novaconf.PLACES]
        self.useFixture(
            fixtures.MonkeyPatch("nova_perf_tuning.host.input.novaconf.PLACES", places)
        )
        publish = (self.results, "--budget", self.budget(0.15))
        for number, first in enumerate(reversed(places)):
            path = f"{self.state}/{number}.json"
            main = "/" + first[0].replace("*nova*", "01-nova")
            os.makedirs(os.path.dirname(main), exist_ok=True)
            with open(main, "w", encoding="utf-8") as file:
                file.write(f"[DEFAULT]\nhost = cmp1\n[nova_perf_tuning]\nresult_file = {path}\n")
            self.assertEqual(path, program.document(self, "publish", *publish)["file"])
        later = "/" + places[-1][2].replace("*", "x")
        os.makedirs(os.path.dirname(later))
        for place in places[:-1]:
            os.unlink("/" + place[0].replace("*nova*", "01-nova"))
        with open(later, "w", encoding="utf-8") as file:
            file.write(f"[nova_perf_tuning]\nresult_file = {self.published}\n")
        self.assertEqual(self.published, program.document(self, "publish", *publish)["file"])

    def test_trials_of_this_host_and_a_budget(self):
        self.measure()
        done = self.published_by(self.results, "--budget", self.budget(0.15))
        self.assertEqual(["CUSTOM_PERF_BUDGET_NET_10G", "CUSTOM_PERF_VALIDATED"], done["traits"])
        result = self.read_by_compute()
        self.assertEqual(("PASS", {"net-10g": "PASS"}), (result.verdict, result.budgets))
        self.assertAlmostEqual(90, result.score, delta=3)
        [(figure, (loss, limit))] = result.losses.items()
        self.assertEqual(("iperf3 tuned/host", 0.15), (figure, limit))
        self.assertAlmostEqual(0.1, loss, delta=0.03)
        self.assertEqual(0o644, stat.S_IMODE(os.stat(self.published).st_mode))
        self.assertEqual(["verdict.json"], os.listdir(os.path.dirname(self.published)))
        # A later FAIL takes its place.
        done = self.published_by(self.results, "--budget", self.budget(0.05))
        self.assertEqual([], done["traits"])
        self.assertEqual("FAIL", self.read_by_compute().verdict)

    def test_names_of_any_length_are_read_by_compute(self):
        arm, baseline, benchmark, metric = ("t" * 200, "u" * 200, "b" * 200, "m" * 200)
        measured = samples.results({baseline: 1000.0, arm: 900.0}, boots=3, blocks=6)
        for trial in measured.trials:
            trial.benchmark, trial.metric = benchmark, metric
        now = datetime.datetime.now(datetime.UTC).isoformat()
        samples.tell(measured, created=now, host="cmp1")
        results_file.save(measured, self.results)
        budget = {
            "benchmark": benchmark,
            "metric": metric,
            "arm": arm,
            "baseline": baseline,
            "max_loss": 0.15,
        }
        long = self.write_file("long.yaml", json.dumps({"budgets": [budget]}))
        self.published_by(self.results, "--budget", long)
        result = self.read_by_compute()
        self.assertEqual("PASS", result.verdict)
        [figure] = result.losses
        self.assertTrue(figure.startswith(f"{benchmark} {metric} {arm}/"), figure)

    def test_results_of_a_fleet(self):
        self.measure_fleet(0)
        self.assertEqual(["CUSTOM_PERF_VALIDATED"], self.published_by(self.results)["traits"])
        self.assertEqual("PASS", self.read_by_compute().verdict)
        self.measure_fleet(0, slow=0.5)
        self.assertEqual(
            "FAIL", self.published_by(self.results)["result"]["verdict"], "PASS was recorded"
        )
        data = results_file.load(self.results)
        fleet = data.environment.fleet
        fleet.hosts = [host for host in fleet.hosts if host.host != "cmp1"]
        results_file.save(data, self.results)
        self.assertIn(
            "there is no result of host 'cmp1'; it has results of h0, h2, h3",
            self.refused(self.results),
        )

    def measure_fleet(self, loss, slow=0.0):
        """Write a run over many hosts, cmp1 among them, that has recorded PASS whatever its trials say.

        :param loss: of tuned guests; :param slow: of all of cmp1.
        """
        data = samples.fleet()
        fleet = json.loads(
            json.dumps(dataclasses.asdict(data.environment.fleet)).replace('"h1"', '"cmp1"')
        )
        for trial in data.trials:
            trial.value *= (1 - loss * (trial.arm == "tuned")) * (
                1 - slow * (trial.boot in (0, 1))
            )
        now = datetime.datetime.now(datetime.UTC).isoformat()
        samples.tell(data, created=now, launcher="heat", fleet=fleet)
        results_file.save(data, self.results)

    def test_a_budget_judges_the_hosts_of_a_fleet_again(self):
        self.measure_fleet(0.3)
        recorded = self.published_by(self.results)
        self.assertEqual((True, "PASS"), (recorded["recorded"], recorded["result"]["verdict"]))
        done = self.published_by(self.results, "--budget", self.budget(0.05, AGAINST_UNTUNED))
        self.assertEqual(
            (False, "FAIL", []), (done["recorded"], done["result"]["verdict"], done["traits"])
        )
        self.assertEqual({"net-10g": "FAIL"}, self.read_by_compute().budgets)
        done = self.published_by(self.results, "--budget", self.budget(0.4, AGAINST_UNTUNED))
        self.assertEqual(["CUSTOM_PERF_BUDGET_NET_10G", "CUSTOM_PERF_VALIDATED"], done["traits"])

    def test_a_result_file_and_its_withdrawal(self):
        now = datetime.datetime.now(datetime.UTC)
        result = host_result.HostResult("cmp1", now, "PASS", {"disk": "PASS"}, score=97.5)
        self.published_by(self.write_file("verdict.json", result.to_json()))
        self.assertEqual(result, self.read_by_compute())
        self.assertEqual(
            {"file": self.published, "removed": True}, self.published_by("--withdraw")
        )
        self.assertIsNone(self.read_by_compute())
        self.assertFalse(self.published_by("--withdraw")["removed"])

    def test_a_verdict_out_of_a_pipe(self):
        """It can be read once."""
        verdict = host_result.HostResult(
            "cmp1", datetime.datetime.now(datetime.UTC), "PASS", {"disk": "PASS"}
        )
        text = verdict.to_json()
        done = program.shown(self, "publish", "-", "--nova-config", self.config, input=text)
        self.assertIn("PASS of host cmp1", done)
        self.published_by("--withdraw")
        reading, writing = os.pipe()
        self.addCleanup(os.close, reading)
        with open(writing, "w", encoding="utf-8") as file:
            file.write(text)
        self.published_by(f"/dev/fd/{reading}")
        self.assertEqual(verdict, self.read_by_compute())

    def test_what_was_looked_at_is_what_is_replaced_or_removed(self):
        """Nova's user may own the directory, and swap it for a link between the two."""
        now = datetime.datetime.now(datetime.UTC)
        verdict = host_result.HostResult("cmp1", now, "PASS", {"disk": "PASS"}).to_json()
        source, other = (
            self.write_file("source.json", verdict),
            self.write_file("other/verdict.json", "{}"),
        )
        made, moved = self.directory / "made", self.directory / "moved"
        really = host_result.read

        def read_and_swap(path, *arguments):
            result = really(path, *arguments)
            if path == self.published:
                made.rename(moved)
                made.symlink_to(self.directory / "other")
            return result

        for arguments in ((source,), ("--withdraw",)):
            with mock.patch.object(host_result, "read", read_and_swap):
                self.published_by(*arguments)
            self.assertEqual("{}", pathlib.Path(other).read_text())
            made.unlink()
            moved.rename(made)
        self.assertEqual([], os.listdir(made))

    def test_what_is_refused(self):
        self.assertIn("RESULT is missing", self.refused())
        self.assertIn("leave out RESULT", self.refused("--withdraw", self.results))
        self.assertIn("No such file", self.refused(self.results))
        self.measure()
        self.assertIn("give --budget FILE", self.refused(self.results))
        other = self.write_file(
            "other.yaml", "budgets:\n- {benchmark: fio, arm: tuned, max_loss: 0.1}\n"
        )
        self.assertIn("INVALID says nothing", self.refused(self.results, "--budget", other))
        self.measure(host="cmp2")
        self.assertIn(
            "no result of host 'cmp1'", self.refused(self.results, "--budget", self.budget(0.15))
        )
        self.measure(created="2020-01-01T00:00:00+00:00")
        self.assertIn("longer ago than", self.refused(self.results, "--budget", self.budget(0.15)))
        self.measure()
        os.makedirs(self.published)
        self.assertIn(
            "not a regular file", self.refused(self.results, "--budget", self.budget(0.15))
        )

    def test_a_run_in_which_nothing_was_tuned(self):
        """Its arms are alike, so every budget passes."""
        self.measure(
            {"host": 1000.0, "untuned": 1000.0, "tuned": 1000.0},
            launcher="host",
            accelerator="none",
        )
        line = self.refused(self.results, "--budget", self.budget(0.2, AGAINST_UNTUNED))
        self.assertIn(
            "every arm is the host itself (launcher host), so it says nothing about guests", line
        )
        self.measure({"host": 1000.0, "untuned": 990.0, "again": 990.0}, launcher="libvirt")
        line = self.refused(self.results, "--budget", self.budget(0.2, "arm: again"))
        self.assertIn("both pairs of guests are untuned (an A/A run)", line)

    def test_a_nova_conf_that_cannot_be_used(self):
        self.measure()
        for age in ("soon", ""):
            self.write_file("nova.conf", f"[nova_perf_tuning]\nresult_max_age = {age}\n")
            refused = self.refused(self.results, "--budget", self.budget(0.15))
            self.assertIn("result_max_age", refused)
            self.assertNotIn("internal error", refused)
        os.unlink(self.config)
        self.assertIn(
            "nova.conf: No such file", self.refused(self.results, "--budget", self.budget(0.15))
        )
