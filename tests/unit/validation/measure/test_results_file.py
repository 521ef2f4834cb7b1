# SPDX-License-Identifier: Apache-2.0
"""Results on disk: round trip, atomic writes, hostile files, files that contradict themselves."""

import copy
import json
import os

import hypothesis
from hypothesis import strategies

from nova_perf_tuning import atomic_write
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.results import schema
from tests.support import directories, samples


class StoreCase(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.path = f"{self.directory}/results.json"
        self.document = json.loads(
            json.dumps(results_file.to_dict(samples.results({"host": 3.0, "tuned": 2.0})))
        )
        self.rows = self.document["trials"]
        self.environment = self.document["environment"]

    def load(self, text=None):
        text = json.dumps(self.document) if text is None else text
        return results_file.load(
            self.write_file("results.json", text.encode("utf-8", "surrogatepass"))
        )

    def refused(self, place, document=None):
        """See that a document, or a text, is refused in one line that names the place."""
        text = document if isinstance(document, str) else json.dumps(document or self.document)
        message = str(self.assertRaises(schema.InputError, self.load, text))
        self.assertIn(place, message)
        self.assertTrue(len(message) < 500 and "\n" not in message, message)
        return message


class FileTest(StoreCase):
    def test_round_trip(self):
        data = samples.results({"host": 3.0, "tuned": 2.0}, accelerator="tcg")
        data.trials[0].course = samples.course()
        lost = {
            "value": None,
            "error": "guest lost",
            "guest_cpu_s": None,
            "wait_s": None,
            "work": None,
        }
        data.trials.append(samples.trial(order=len(data.trials), window_s=0.0, **lost))
        results_file.save(data, self.path)
        self.assertEqual(data, results_file.load(self.path))

    def test_a_failed_write_leaves_the_old_file(self):
        results_file.save(samples.results({"host": 3.0}), self.path)
        before = open(self.path, encoding="utf-8").read()
        bad = samples.results({"host": 3.0})
        bad.trials[0].value = float("nan")
        self.assertRaises(ValueError, results_file.save, bad, self.path)
        self.assertEqual(before, open(self.path, encoding="utf-8").read())
        for path in (os.path.join(self.directory, "none", "x"), ""):
            with self.subTest(path):
                self.assertRaises(
                    atomic_write.OutputError, results_file.write_atomically, path, "text"
                )
        self.assertEqual(["results.json"], os.listdir(self.directory))

    def test_hostile_documents_are_refused(self):
        def with_environment(text):
            return f'{{"schema": 2, "environment": {{{text}}}, "trials": []}}'

        for text, place in (
            ("", "no JSON at line 1"),
            ("[]", "the document"),
            ("NaN", "NaN is no number"),
            (with_environment("")[:-1] + "[" * 100_000, "nested more than 64 levels deep"),
            (
                '{"schema": 2, "environment": {}, "trials": ' + "[" * 100_000,
                "nested more than 64 levels deep",
            ),
            (with_environment('"seed": 1, "seed": 2'), "'seed' twice in one object"),
            ('{"schema": 3, "environment": {}, "trials": []}', "schema"),
            ('{"environment": {}, "trials": []}', "'schema' is a required property"),
            (with_environment('"seed": 1e999'), "too large"),
            (with_environment('"x": "\\ud800"'), "no acceptable JSON"),
            (with_environment('"seed": ' + "9" * 5000), "no acceptable JSON"),
            (with_environment('"memory_mib": ' + "9" * 400), "too large"),
            (with_environment('"load_at_start": ' + "9" * 200), "load_at_start"),
            (with_environment('"seed": -1'), "environment.seed"),
            (with_environment("") * 2, "no JSON at line 1"),
        ):
            self.refused(place, text)

    def test_a_fleet_that_is_too_large_to_judge_is_refused(self):
        """Cells are made of each pair in each benchmark and arm, whatever was measured."""
        pairs = []
        for number in range(10):
            pair = {"number": number, "client": "a", "server": "b", "state": "done"}
            pairs.append(pair | {"attempts": 1, "seconds": 1.0, "errors": [], "figures": []})
        fleet = {"run": "r", "verdict": "PASS", "hosts": [], "pairs": pairs}
        arms = {f"a{number}": {} for number in range(100)}
        for benchmarks, refused in ((200, False), (201, True)):
            environment = {
                "benchmarks": {f"b{number}": {} for number in range(benchmarks)},
                "arms": arms,
                "fleet": fleet,
            }
            document = {"schema": 2, "environment": environment, "trials": []}
            with self.subTest(benchmarks):
                if refused:
                    self.refused("so split the fleet", json.dumps(document))
                else:
                    self.write_file("results.json", json.dumps(document))
                    results_file.load(self.path)

    def test_not_text_and_too_large(self):
        self.write_file("results.json", b"\xff\xfe{}")
        self.assertIn(
            "no UTF-8", str(self.assertRaises(schema.InputError, results_file.load, self.path))
        )
        os.truncate(self.path, results_file.MAX_BYTES + 1)
        self.assertIn(
            "larger than", str(self.assertRaises(schema.InputError, results_file.load, self.path))
        )
        self.assertRaises(schema.InputError, results_file.load, str(self.directory))

    def test_wrong_trials_are_named(self):
        for key, value in (
            ("value", -1),
            ("value", None),
            ("value", 1e300),
            ("value", 5e-324),
            ("work", 5e-324),
            ("window_s", 5e-324),
            ("window_s", 0),
            ("window_s", None),
            ("wait_s", -3000),
            ("better", "bigger"),
            ("better", "lower"),
            ("unit", "kbit/s"),
            ("work_unit", "Mbit"),
            ("boot", -1),
            ("arm", ""),
            ("arm", "x" * 300),
            ("host_cpu_s", {"total": "1"}),
            ("error", "both"),
            ("surprise", 1),
        ):
            before, self.rows[1] = self.rows[1], {**self.rows[1], key: value}
            self.refused("trials[1]")
            self.rows[1] = before
        self.rows[1].update(
            value=None, error="lost", window_s=0, work=None, work_unit="", wait_s=-0.01
        )
        self.load()

    @hypothesis.given(strategies.data())
    @hypothesis.settings(deadline=None, max_examples=60)
    def test_any_damage_is_refused_or_harmless(self, data):
        document = copy.deepcopy(self.document)
        place = document if data.draw(strategies.booleans()) else document["trials"][0]
        key = data.draw(strategies.sampled_from(sorted(place)))
        place[key] = data.draw(samples.ANY_VALUE)
        try:
            found = self.load(json.dumps(document))
        except schema.InputError as error:
            self.assertNotIn("Traceback", str(error))
            return
        results_file.save(found, self.path)
        self.assertEqual(found, results_file.load(self.path))


class ContradictionTest(StoreCase):
    """What no schema sees: trials that were copied, mixed, renumbered or lost."""

    def test_a_benchmark_knows_its_figure(self):
        """Which way is better, and in which unit; of other people's benchmarks nothing is known."""
        for changes in ({"better": "lower"}, {"unit": "Gbit/s"}, {"work_unit": "Mbit"}):
            for kinds in ({}, {"iperf3": {"kind": "iperf3"}}):
                case = copy.deepcopy(self.document)
                case["environment"]["benchmarks"] = kinds
                for row in case["trials"]:
                    row.update(changes)
                self.refused(f"trials[0].{next(iter(changes))}", case)
                for row in case["trials"]:
                    row["benchmark"] = "own"
                self.load(json.dumps(case))
                case["environment"]["benchmarks"] = {"own": {"kind": "iperf3"}}
                self.refused(f"trials[0].{next(iter(changes))}", case)

    def test_a_benchmark_knows_what_it_is_judged_by(self):
        """A figure that nobody measured, first and said to be the primary one, is shown and not judged."""
        invented = {"metric": "goodness", "value": 7.5}
        self.document["trials"] = [new for row in self.rows for new in ({**row, **invented}, row)]
        found = self.load()
        self.assertEqual({"throughput"}, {trial.metric for trial in found.trials if trial.primary})
        for row in self.document["trials"]:
            row["benchmark"] = "own"
        self.refused("trials[1].metric")
        for row in self.document["trials"]:
            row["primary"] = row["metric"] == "goodness"
        self.load()

    def test_every_run_has_a_number_of_its_own(self):
        for numbers in ([0] * 99, [4] * 99, [0, 1, 2] * 33):
            for row, number in zip(self.rows, numbers, strict=False):
                row["order"] = number
            self.refused("trials[")
        for row in self.rows:
            del row["order"]
        numbers = [trial.order for trial in self.load().trials]
        self.assertEqual(list(range(len(self.rows))), numbers, "files need not number their runs")

    def test_two_validations_in_one_file_are_no_replicates(self):
        """Their trials would be averaged block by block, and a loss with them."""
        second = [{**row, "value": row["value"] * 0.5} for row in self.rows]
        self.refused("trials[18]", {**self.document, "trials": self.rows + second})
        for row in second:
            row["order"] += 100
        self.refused("trials[18]", {**self.document, "trials": self.rows + second})
        for row in self.rows + second:
            del row["order"]
        self.refused("trials[18]", {**self.document, "trials": self.rows + second})
