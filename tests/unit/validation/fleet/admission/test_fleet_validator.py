# SPDX-License-Identifier: Apache-2.0
"""Measurements of trials as processes of their own; the program is a script of the test."""

import dataclasses
import json
import os
import sys

import fixtures

from nova_perf_tuning.validation.fleet.admission import cloud, fleet_validator
from nova_perf_tuning.validation.measure import fleet_model
from nova_perf_tuning.validation.results import environment
from nova_perf_tuning.validation.store import run_store
from tests.support import directories, patience
from tests.support import simulated_cloud as simulation

#: Notes how it was called, then waits until a file is there.
PROGRAM = """
import json, os, pathlib, sys, time
words = sys.argv[1:]
place = pathlib.Path(words[words.index("--output") + 1])
(place / "session").write_text(str(os.getsid(0)))
(place / "words.json").write_text(json.dumps([words, os.environ.get("NOVA_PERF_DATABASE")]))
while not (place / "go").exists():
    time.sleep(0.02)
sys.exit(3)
"""
RUN = cloud.TrialRun(
    "T1-2", "CUSTOM_PERF_TRIAL_T1", ["a", "b"], ["peer"], 2, "default", ["--profile", "storage"]
)


class FleetValidatorTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        script = self.write_file("program.py", PROGRAM)
        self.useFixture(
            fixtures.MockPatchObject(fleet_validator, "_PROGRAM", (sys.executable, script))
        )
        self.url = f"sqlite:///{self.directory}/runs.db"
        self.place = self.directory / "trials" / RUN.key

    def validator(self):
        made = fleet_validator.FleetValidator(
            self.directory / "trials", ("--os-cloud", "c"), self.url
        )
        self.addCleanup(made.stop)
        return made

    def words(self):
        path = self.place / "words.json"
        patience.until(lambda: path.exists() and path.read_text(), "the program runs")
        return json.loads(path.read_text())

    def test_one_measurement(self):
        validator = self.validator()
        self.assertEqual({}, validator.runs([RUN.key]))
        validator.begin(RUN)
        validator.begin(RUN)
        words, database = self.words()
        self.assertEqual(self.url, database)
        self.assertEqual(["--os-cloud", "c", "perf", "validate"], words[:4])
        pairs = dict(zip(words[4::2], words[5::2], strict=True))
        self.assertEqual("a,b,peer", pairs["--hosts"])
        self.assertEqual("CUSTOM_PERF_TRIAL_T1", pairs["--require-trait"])
        self.assertEqual("admission=T1-2", pairs["--tag"])
        self.assertEqual(str(2 * fleet_model.BLOCKS), pairs["--blocks"])
        self.assertEqual("storage", pairs["--profile"])
        self.assertEqual({RUN.key: None}, validator.runs([RUN.key]))
        (self.place / "go").touch()
        patience.until(lambda: validator.runs([RUN.key])[RUN.key] is not None, "it has ended")
        self.assertEqual({RUN.key: {}}, validator.runs([RUN.key]))
        self.assertEqual({RUN.key: {}}, self.validator().runs([RUN.key]))

    def test_signals_of_a_terminal_do_not_reach_it(self):
        """It is told once to remove its stacks; a second signal would end that."""
        self.validator().begin(RUN)
        self.words()
        session = int((self.place / "session").read_text())
        self.assertNotEqual(os.getsid(0), session)

    def test_a_run_that_died_goes_on(self):
        kept = run_store.RunStore(self.url)
        self.addCleanup(kept.close)
        plan = simulation.fleet_plan("20261130-010101-aaaa", ["cpu"])
        about = environment.Environment.from_dict({})
        about = dataclasses.replace(about, tags={"admission": RUN.key})
        kept.create(plan, ["a", "b"], [fleet_model.HostPair("a", "b")], about)
        self.assertEqual({RUN.key: None}, self.validator().runs([RUN.key]), "its owner lives")
        kept.end(plan.measure.run_id, "interrupted")
        validator = self.validator()
        self.assertEqual({}, validator.runs([RUN.key]))
        validator.begin(RUN)
        words, _database = self.words()
        self.assertEqual(plan.measure.run_id, words[words.index("--resume") + 1])
        self.assertNotIn("--hosts", words)
        self.assertIsNone(kept.tagged("admission", "another"))
