# SPDX-License-Identifier: Apache-2.0
"""A controller killed with SIGKILL at any moment and resumed: no outcome is lost or doubled, no stack is left."""

import collections
import os
import random
import subprocess
import sys
import time

from nova_perf_tuning.validation.store import run_store
from tests.support import databases, directories, fleet_run_process, patience

SCALE = "0.015"  # a pair takes about three seconds


class KillTests:
    kind: str
    kills: int

    def setUp(self):
        super().setUp()
        self.url = databases.new(self.kind, self.directory)
        self.stacks = os.path.join(self.directory, "stacks")
        os.mkdir(self.stacks)

    def controller(self, *run):
        """Begin or resume the run; return the process once it measures."""
        arguments = (self.url, self.directory, SCALE, *run)
        program = [sys.executable, "-m", "tests.support.fleet_run_process", *arguments]
        running = subprocess.Popen(program, stdout=subprocess.PIPE, text=True)
        self.addCleanup(running.stdout.close)
        self.addCleanup(running.kill)
        running.stdout.readline()
        return running

    def begun(self):
        with open(os.path.join(self.directory, "log"), encoding="ascii") as file:
            return collections.Counter(line.removeprefix("begin ").strip() for line in file)

    def stored(self, store, run_id):
        trials = {number: len(outcome.trials) for number, outcome in store.outcomes(run_id)}
        return store.load(run_id), trials

    def test_killed_and_resumed(self):
        rng = random.Random(20)
        running = self.controller()
        store = run_store.RunStore(self.url)
        self.addCleanup(store.close)
        [line] = store.lines()
        run_id, interrupted, finished, begun = line.run_id, 0, set(), {}
        for _ in range(self.kills):
            patience.until(lambda: os.listdir(self.stacks), "a pair at work")
            time.sleep(rng.uniform(0.0, 5.0))  # the moment of the kill
            running.kill()
            running.wait()
            before, trials = self.stored(store, run_id)
            if before.state == "complete":
                break
            done = {task.number for task in before.tasks if task.state == "done"}
            self.assertEqual(
                done, set(trials), "an outcome without its trials, or trials without an outcome"
            )
            self.assertEqual(
                {24} if done else set(), set(trials.values())
            )  # cpu runs on both guests
            interrupted += len(os.listdir(self.stacks))
            begun = self.begun()
            running = self.controller(run_id)
            finished = {
                f"{task.pair.client} {task.pair.server}"
                for task in before.tasks
                if task.number in done
            }
            self.finished_stay(finished, begun)
        shown, _ = running.communicate(timeout=900)
        after, trials = self.stored(store, run_id)
        self.assertEqual("complete", after.state, shown)
        self.assertEqual(set(), {task.state for task in after.tasks} - {"done", "failed"})
        self.assertEqual(fleet_run_process.HOSTS * fleet_run_process.PEERS // 2, len(after.tasks))
        self.assertEqual({24}, set(trials.values()), "trials twice, or a part of them")
        self.assertTrue(interrupted > 0, "no kill hit a pair at work; nothing was shown")
        self.finished_stay(finished, begun)
        self.assertEqual([], os.listdir(self.stacks))

    def finished_stay(self, finished, begun):
        """What had an outcome before the kill is not begun again."""
        now = self.begun()
        self.assertEqual(
            {pair: begun[pair] for pair in finished}, {pair: now[pair] for pair in finished}
        )


class SqliteTest(KillTests, directories.DirectoryCase):
    kind, kills = "sqlite", 4


class MariadbTest(KillTests, directories.DirectoryCase):
    kind, kills = "mariadb", 1


class PostgresqlTest(KillTests, directories.DirectoryCase):
    kind, kills = "postgresql", 1
