# SPDX-License-Identifier: Apache-2.0
"""openstack perf validate on the real cloud: a whole run, Ctrl-C and resume, what a dead run left."""

import json
import os
import signal
import subprocess
import sys

import fixtures
import yaml

from nova_perf_tuning.validation.measure import fleet_model, results_file
from nova_perf_tuning.validation.store import run_store
from tests.cloud import base

QUICK = (
    "--benchmark",
    "cpu:seconds=1",
    "--benchmark",
    "iperf3:seconds=2",
    "--blocks",
    "1",
    "--max-loss",
    "0.9",
)
GUESTS = (
    "--guest-ram",
    "192",
    "--no-guest-tx-offload",
    "--image",
    base.IMAGE,
    "--pair-time-limit",
    "20m",
)
PROGRAM = (os.path.join(os.path.dirname(sys.executable), "openstack"), "perf")


class ValidateCase(base.CloudTest):
    def setUp(self):
        super().setUp()
        self.directory = self.useFixture(fixtures.TempDir()).path
        self.url = f"sqlite:///{self.directory}/results.db"
        self.environment = {
            key: value for key, value in os.environ.items() if not key.startswith("OS_")
        }
        self.environment |= {
            "OS_CLIENT_CONFIG_FILE": str(self.state / "etc" / "clouds.yaml"),
            "OS_CLOUD": "perf",
            "NOVA_PERF_DATABASE": self.url,
        }
        self.before = self.stacks()

    def stacks(self):
        """Return the stacks and servers of validations."""
        found = [*self.cloud.orchestration.stacks(), *self.cloud.compute.servers()]
        return sorted(
            stack.name for stack in found if stack.name.startswith(fleet_model.NAME_PREFIX)
        )

    def validate(self, *arguments):
        chosen = () if "--resume" in arguments else (*QUICK, *GUESTS)
        argv = [*PROGRAM, "validate", *chosen, "--output", self.directory, *arguments]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        running = subprocess.Popen(argv, **pipes, text=True, env=self.environment)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.stderr.close)
        self.addCleanup(running.kill)
        return running

    def member(self):
        """Use a new project without an administrator's rights, and return it."""
        project = self.make_member()
        [entry] = yaml.safe_load((self.state / "etc" / "clouds.yaml").read_text())[
            "clouds"
        ].values()
        entry["auth"].update(username=self.prefix, password="secret", project_name=self.prefix)
        path = os.path.join(self.directory, "clouds.yaml")
        with open(path, "w") as file:
            yaml.safe_dump({"clouds": {"perf": entry}}, file)
        self.environment["OS_CLIENT_CONFIG_FILE"] = path
        return project

    def cleanup(self, *arguments):
        argv = [*PROGRAM, "cleanup", "-f", "json", *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, env=self.environment)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def the_run(self):
        [line] = run_store.RunStore(self.url).lines()
        return line

    def until_guests_exist(self, running):
        def there():
            if running.poll() is not None:
                raise AssertionError(f"ended before: {running.communicate()}")
            return set(self.stacks()) - set(self.before)

        base.wait_for("stacks of the run", there)


class ValidateTest(ValidateCase):
    def test_all_hosts_of_the_cloud_are_judged(self):
        running = self.validate("--hosts", "all", "-f", "json")
        shown, output = running.communicate()
        self.assertEqual(0, running.returncode, output)
        environment = json.loads(shown)["environment"]
        fleet = environment["fleet"]
        names = sorted(
            service.host for service in self.cloud.compute.services(binary="nova-compute")
        )
        self.assertEqual(names, [host["host"] for host in fleet["hosts"]])
        self.assertEqual(["done", "done"], [pair["state"] for pair in fleet["pairs"]])
        self.assertEqual(
            {tuple(names), tuple(names[::-1])},
            {(p["client"], p["server"]) for p in fleet["pairs"]},
        )
        figures = {
            (figure["benchmark"], figure["arm"])
            for pair in fleet["pairs"]
            for figure in pair["figures"]
        }
        self.assertEqual(
            {(b, arm) for b in ("cpu", "iperf3") for arm in ("untuned", "tuned")}, figures
        )
        self.assertEqual([], environment["errors"])
        results = results_file.load(os.path.join(self.directory, "results.json"))
        self.assertTrue(all(trial.value for trial in results.trials if trial.primary))
        self.assert_soon(self.before, self.stacks)
        self.assertEqual([], self.cleanup())
        print(
            f"NOTE: two hosts validated, pairs took {[pair['seconds'] for pair in fleet['pairs']]} s"
        )

    def test_where_the_scheduler_puts_them_and_without_rights(self):
        self.member()
        running = self.validate("--hosts", "any", "--flavor", self.flavor({}, vcpus=1).name)
        _, output = running.communicate()
        self.assertEqual(0, running.returncode, output)
        results = results_file.load(os.path.join(self.directory, "results.json"))
        self.assertEqual([], results.environment.errors)
        self.assertEqual(
            {"cpu", "iperf3"}, {trial.benchmark for trial in results.trials if trial.value}
        )
        self.assert_soon(self.before, self.stacks)

    def test_ctrl_c_leaves_nothing_and_the_run_goes_on(self):
        running = self.validate("--hosts", "all", "--benchmark", "cpu:seconds=1,threads=2")
        self.until_guests_exist(running)
        running.send_signal(signal.SIGINT)
        _, output = running.communicate()
        self.assertEqual(130, running.returncode, output)
        self.assertIn("interrupted", output)
        self.assert_soon(self.before, self.stacks)
        line = self.the_run()
        self.assertEqual(("interrupted", False), (line.state, line.leftovers))
        again = self.validate("--resume", line.run_id)
        _, output = again.communicate()
        self.assertEqual(0, again.returncode, output)
        self.assertEqual(("complete", 2), (self.the_run().state, self.the_run().done))
        self.assert_soon(self.before, self.stacks)

    def test_what_a_killed_run_left_is_removed(self):
        running = self.validate("--hosts", "all")
        self.until_guests_exist(running)
        running.kill()
        running.communicate()
        line = self.the_run()
        [listed] = self.cleanup("--list")
        self.assertEqual(
            (line.run_id, "died", "maybe"), (listed["Run"], listed["State"], listed["Leftovers"])
        )
        [removed] = self.cleanup()
        self.assertEqual(line.run_id, removed["Run"])
        self.assertTrue(removed["Removed"])
        self.assert_soon(self.before, self.stacks)
        self.assertEqual([], self.cleanup())


class MistakesTest(ValidateCase):
    def refused(self, output, *arguments):
        running = self.validate(*arguments)
        shown, complaints = running.communicate()
        self.assertEqual((3, ""), (running.returncode, shown), complaints)
        self.assertIn(output, complaints)
        self.assertEqual(1, complaints.count("\n"), complaints)
        self.assertEqual([], run_store.RunStore(self.url).lines())

    def test_without_rights_and_quota(self):
        project = self.member()
        self.refused("only administrators may choose hosts", "--hosts", "all")
        self.refused(
            "making flavors (arms untuned, tuned) needs an administrator", "--hosts", "any"
        )
        flavor = self.flavor({}, vcpus=1)
        self.cloud.compute.update_quota_set(project, instances=1)
        self.refused("quota", "--hosts", "any", "--flavor", flavor.name)
