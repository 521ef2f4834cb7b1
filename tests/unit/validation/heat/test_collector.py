# SPDX-License-Identifier: Apache-2.0
"""What guests hand over is read when it is right, and refused with a reason when it is not."""

import base64
import gzip
import json

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.validation.heat import collector
from nova_perf_tuning.validation.measure import results_file
from tests.support import documents, samples, testcase

WANTED = documents.expected()


def trials_of(content, wanted=WANTED, first=0):
    """Return the trials in a document."""
    _, runs = collector.read(documents.signalled(content), wanted)
    return [
        trial
        for order, run in enumerate(runs, first)
        for trial in collector.trials(run, wanted, order)
    ]


class GoodTest(testcase.TestCase):
    def test_trials_of_two_arms(self):
        for arm in (0, 1):
            with self.subTest(arm):
                wanted = documents.expected(arm)
                trials = trials_of(documents.document(wanted), wanted, 10)
                self.assertEqual({wanted.name}, {trial.arm for trial in trials})
                self.assertEqual(
                    [10, 11, 12, 13, 14, 15], sorted({trial.order for trial in trials})
                )
                self.assertEqual(
                    6, len([trial for trial in trials if trial.primary and trial.value])
                )
                self.assertEqual(2, len({trial.block for trial in trials}))
                iperf3 = next(
                    trial for trial in trials if trial.benchmark == "iperf3" and trial.primary
                )
                self.assertEqual(("throughput", "Mbit/s"), (iperf3.metric, iperf3.unit))
                self.assertAlmostEqual(5.1, iperf3.guest_cpu_s)  # of client and server
                self.assertAlmostEqual(5.25, iperf3.window_s)
                fio = [trial for trial in trials if trial.benchmark == "fio" and trial.primary]
                # Each guest ran it alone: the other had no part in it.
                self.assertEqual(
                    [(0, 3.1), (1, 2.0)] * 2, [(trial.boot, trial.guest_cpu_s) for trial in fio]
                )

    def test_what_outputs_say_of_the_work_is_kept(self):
        _, runs = collector.read(documents.signalled(documents.document(WANTED)), WANTED)
        for run in runs:
            if run.job.label == "iperf3":
                self.assertEqual("TCP", run.workload["protocol"])
                self.assertEqual("client to server", run.workload["direction"])

    def test_a_failed_run_is_a_trial_with_a_reason(self):
        content = documents.document(WANTED)
        content["trials"][0] |= {"status": 1, "stdout": "", "stderr": "bind failed\nevil\x1b[31m"}
        trials = trials_of(content)
        [failed] = [trial for trial in trials if trial.value is None]
        self.assertEqual("output", failed.failure)
        self.assertIn("status 1: bind failed evil?[31m", failed.error)

    def test_unknown_cpu_times_stay_unknown(self):
        content = documents.document(WANTED)
        for trial in content["trials"]:
            trial["cpu"]["server"] = None
        trials = trials_of(content)
        self.assertEqual(
            {None}, {trial.guest_cpu_s for trial in trials if trial.benchmark == "iperf3"}
        )


class BadTest(testcase.TestCase):
    def assert_refused(self, data, reason):
        error = self.assertRaises(collector.DocumentError, collector.read, data, WANTED)
        self.assertIn(reason, str(error))
        self.assertNotIn("\n", str(error))
        self.assertLess(len(str(error)), 500)

    def test_what_is_no_document_is_refused(self):
        good = documents.packed(documents.document(WANTED))
        for data, reason in (
            (None, "no document"),
            ("", "did not signal the document"),
            ("<html>", "JSON"),
            (json.dumps({"results": "no base64!"}), "base64"),
            (json.dumps({"results": base64.b64encode(b"no gzip").decode()}), "gzip"),
            (json.dumps({"results": {"a": 1}}), "did not signal the document"),
            (json.dumps({"results": good, "1": good}), "did not signal the document"),
            (json.dumps({"results": good[: len(good) // 2 // 4 * 4]}), "cut off"),
            (documents.signalled(b"\xff\xfe"), "JSON"),
            (documents.signalled("[" * 100000), "JSON"),
            (documents.signalled("[]"), "is not of type 'object'"),
            (documents.signalled('{"schema": NaN}'), "no number"),
            (documents.signalled('{"schema": 1, "schema": 2}'), "'schema' twice"),
            (
                documents.signalled('{"schema": "\\ud800"}'),
                "surrogates",
            ),  # can be written to no file
        ):
            with self.subTest(data):
                self.assert_refused(data, reason)

    def test_too_long_document_is_refused(self):
        self.assert_refused("x" * (collector.MAX_ENCODED + 1), "longer than")
        bomb = gzip.compress(b" " * (collector.MAX_DECODED * 4))
        self.assertLess(len(bomb), collector.MAX_ENCODED // 4)
        self.assert_refused(
            json.dumps({"results": base64.b64encode(bomb).decode()}), "unpacks to more"
        )

    def test_another_run_missing_double_and_foreign_trials(self):
        for change, reason in (
            (lambda document: document.update(run_id="other"), "run_id"),
            (lambda document: document.update(arm=1), "arm"),
            (lambda document: document.update(slot_seconds=21), "slot_seconds"),
            (lambda document: document["trials"].pop(), "lacks 1 trial,"),
            (
                lambda document: document["trials"].append(document["trials"][0]),
                "7 trials instead of 6",
            ),
            (
                lambda document: document["trials"].append(document["trials"][0] | {"trial": 3}),
                "7 trials instead",
            ),
            (lambda document: document["trials"][0].update(label="<script>"), "'<script>'"),
            (
                lambda document: document["trials"][0].update(
                    slot=document["trials"][0]["slot"] + 1
                ),
                "slot",
            ),
            (lambda document: document["trials"][0].update(begin=5.0), "outside its slot"),
            (lambda document: document.update(extra=1), "Additional properties"),
            (lambda document: document["trials"][0].update(status="0"), "is not of type"),
            (lambda document: document["guests"].update(server=None), "guests.server"),
            (lambda document: document["trials"][0].update(stdout="x" * 300_000), "is too long"),
        ):
            with self.subTest(change):
                content = documents.document(WANTED)
                change(content)
                self.assert_refused(documents.signalled(content), reason)

    def test_a_wrong_clock(self):
        content = documents.document(WANTED)
        for trial in content[
            "trials"
        ]:  # a whole number of rounds later: the right slots at the wrong time
            trial["slot"] += 4000
            for key in ("begin", "end"):
                trial[key] += 4000 * WANTED.grid.length_s
        self.assert_refused(documents.signalled(content), "clock is wrong")

    def test_what_results_cannot_hold(self):
        """One results file holds all hosts of a fleet: it would be refused as a whole."""
        for window_s in (0, 0.0004):
            with self.subTest(window_s):
                content = documents.document(WANTED)
                content["trials"][-1]["end"] = content["trials"][-1]["begin"] + window_s
                error = self.assertRaises(collector.DocumentError, trials_of, content)
                self.assertIn("a trial of fio on the server: window_s: 0.0 is less", str(error))
                self.assertLess(len(str(error)), 500)

    def test_facts_that_no_file_or_terminal_should_hold(self):
        """An escape sequence is obeyed by terminals."""
        for text in ("6.1\n", "\x1b[2J", "\x00", "6.1\u202e", "é"):
            with self.subTest(text):
                for fact in ("kernel", "clocksource", "tx_checksum"):
                    for role in ("client", "server"):
                        content = documents.document(WANTED)
                        content["guests"][role][fact] = text
                        self.assert_refused(documents.signalled(content), f"guests.{role}")


class AnythingTest(testcase.TestCase):
    @hypothesis.settings(deadline=None, max_examples=150)
    @hypothesis.given(strategies.data())
    def test_a_changed_document_is_read_or_refused(self, data):
        content = documents.document(WANTED)
        place = data.draw(
            strategies.sampled_from([content, content["guests"]["client"], *content["trials"]])
        )
        key = data.draw(strategies.sampled_from(sorted(place)))
        place[key] = data.draw(samples.ANY_VALUE)
        try:
            trials = trials_of(content)
        except collector.DocumentError as error:
            self.assertLess(len(str(error)), 500)
            self.assertTrue(str(error).isprintable())
        else:
            for trial in trials:
                results_file.check_trial(trial, "a trial")
            self.assertTrue(
                all(trial.error is None or trial.error.isprintable() for trial in trials)
            )
