# SPDX-License-Identifier: Apache-2.0
"""openstack perf cleanup: several dead runs, on this cloud and others, some of whose stacks cannot be removed."""

import dataclasses
import json
import os
import pathlib

import fixtures
import openstack

from nova_perf_tuning import errors
from nova_perf_tuning.validation.heat import heat_pair
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results.environment import Environment
from nova_perf_tuning.validation.store import run_store
from tests.support import openstack_program, simulated_cloud
from tests.support import simulated_cloud as simulation

RUNS = tuple(f"20261123-06373{number}-d69{number}" for number in range(4))
PAIR = fleet_model.HostPair("a", "b")


class CleanupTest(openstack_program.ProgramTestCase):
    def setUp(self):
        super().setUp()
        self.url = f"sqlite:///{self.directory}/results.db"
        self.store = run_store.RunStore(self.url)
        self.addCleanup(self.store.close)

    def here(self):
        """Return the cloud of this test as the command sees it."""
        connection = openstack.connect(cloud="test")
        self.addCleanup(connection.close)
        return heat_pair.HeatCloud("test", lambda: connection).identity()

    def left(self, run_id, cloud, state="interrupted", leftovers=True):
        """Store a run that has left a stack on this cloud."""
        plan = dataclasses.replace(simulation.fleet_plan(run_id, ["cpu"]), cloud=cloud)
        self.store.create(plan, ["a", "b"], [PAIR], Environment())
        self.store.end(run_id, state, leftovers=leftovers)
        self.cloud.add_stack(f"nova-perf-{run_id}-a-b-tuned-123456")

    def names(self):
        return sorted(stack["stack_name"] for stack in self.cloud.stacks.values())

    def leftovers(self):
        return {line.run_id: line.leftovers for line in self.store.lines()}

    def cleanup(self, *arguments):
        return self.run_openstack(
            "perf", "cleanup", "-f", "json", "--database", self.url, *arguments
        )

    def test_where_a_run_is_however_one_logs_in(self):
        """Another entry of clouds.yaml, another spelling of auth_url, no region given."""
        before = self.here()
        self.assertEqual("region RegionOne project p", before)
        self.write_clouds(url=self.cloud.url.replace("127.0.0.1", "localhost"))
        path = pathlib.Path(self.directory, "clouds.yaml")
        clouds = json.loads(path.read_text())
        del clouds["clouds"]["test"]["region_name"]
        path.write_text(json.dumps(clouds))
        self.assertEqual(before, self.here())
        self.write_clouds(password="wrong")
        error = self.assertRaises(errors.CloudError, self.here)
        self.assertIn("the cloud cannot be used: ", str(error))

    def test_what_was_left_goes(self):
        for run_id in RUNS[:2]:
            self.left(run_id, self.here())
        done = self.cleanup()
        self.assertEqual((0, ""), (done.code, done.err))
        self.assertEqual(sorted(RUNS[:2]), sorted(row["Run"] for row in done.data))
        self.assertEqual([], self.names())
        self.assertEqual({RUNS[0]: False, RUNS[1]: False}, self.leftovers())
        self.assertEqual([], self.cleanup().data)
        done = self.run_openstack("perf", "cleanup", "--database", self.url)
        self.assertEqual(
            (0, "", "no stacks of such runs are left\n"), (done.code, done.err, done.out)
        )

    def test_a_stack_that_came_when_the_run_had_ended(self):
        """Of a process that had lost the run: the run itself knows nothing of it."""
        self.left(RUNS[0], self.here(), leftovers=False)
        done = self.cleanup()
        self.assertEqual([RUNS[0]], [row["Run"] for row in done.data])
        self.assertEqual([], self.names())
        self.assertEqual([], self.cleanup().data)

    def test_without_a_database_there_are_no_runs_and_none_is_made(self):
        nowhere = f"{self.directory}/state/results.db"
        self.useFixture(fixtures.EnvironmentVariable("NOVA_PERF_DATABASE", f"sqlite:///{nowhere}"))
        for arguments in ((), ("--list",), ("--database", f"sqlite:///{nowhere}")):
            with self.subTest(arguments):
                self.assertIn(
                    f"there is no database of runs at {nowhere}",
                    self.refused("cleanup", *arguments),
                )
        self.assertFalse(os.path.exists(f"{self.directory}/state"))

    def test_runs_of_other_clouds_are_left_alone(self):
        elsewhere = "region R project p"
        self.left(RUNS[0], self.here())
        self.left(RUNS[1], elsewhere)
        self.cloud.stacks.clear()
        done = self.cleanup()
        self.assertEqual([RUNS[0]], [row["Run"] for row in done.data])
        self.assertEqual(0, done.code)
        self.assertIn(
            f"run {RUNS[1]} was on another cloud or project and is left alone: {elsewhere}",
            done.err,
        )
        self.assertEqual({RUNS[0]: False, RUNS[1]: True}, self.leftovers())
        named = self.cleanup(RUNS[1])
        self.assertEqual((3, []), (named.code, named.data))
        self.assertEqual({RUNS[0]: False, RUNS[1]: True}, self.leftovers())
        listed = {
            row["Run"]: (row["Leftovers"], row["Cloud"]) for row in self.cleanup("--list").data
        }
        self.assertEqual({RUNS[0]: ("none", self.here()), RUNS[1]: ("maybe", elsewhere)}, listed)

    def test_one_that_cannot_be_removed_holds_up_no_other(self):
        here = self.here()
        for run_id in RUNS:
            self.left(run_id, here)
        stuck = f"nova-perf-{RUNS[3]}-a-b-tuned-123456"
        self.cloud.stuck.add(stuck)
        self.cloud.add_stack(
            "nova-perf-20201123-063730-d690-a-b-tuned-1"
        )  # of a run of another machine
        self.useFixture(
            fixtures.MonkeyPatch("nova_perf_tuning.validation.heat.stacks.DELETE_S", 2.5)
        )
        self.useFixture(simulated_cloud.RemovalClock())
        done = self.cleanup(*reversed(RUNS), "nosuch")
        self.assertEqual(3, done.code)
        self.assertEqual(sorted(RUNS[:3]), sorted(row["Run"] for row in done.data))
        self.assertEqual(
            [stuck, "nova-perf-20201123-063730-d690-a-b-tuned-1"],
            sorted(self.names(), reverse=True),
        )
        self.assertIn("it is pinned", done.err)
        self.assertIn("there is no run 'nosuch'", done.err)
        self.assertEqual({run_id: run_id == RUNS[3] for run_id in RUNS}, self.leftovers())
        self.assertEqual({False}, {line.alive for line in self.store.lines()})
        self.assertEqual(3, self.cleanup().code)
