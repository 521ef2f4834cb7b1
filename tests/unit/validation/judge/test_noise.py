# SPDX-License-Identifier: Apache-2.0
"""Noise floors: from an A/A run to a refused budget."""

import dataclasses
import json

from nova_perf_tuning.validation.judge import budget_file, noise, verdict
from nova_perf_tuning.validation.results import reasons, schema
from tests.support import directories, samples

C = reasons.ReasonCode
V = verdict.Verdict


def aa_run(**changes):
    fields = {
        "boots": 4,
        "blocks": 3,
        "noise": 0.02,
        "host": "compute1",
        "kernel": "6.1",
        **changes,
    }
    data = samples.results({"untuned": 1000.0, "again": 1000.0}, **fields)
    job = {"kind": "iperf3", "parameters": {"seconds": "4"}}
    samples.tell(data, benchmarks={"iperf3": job}, created="2026-11-21T20:00:00+00:00")
    return data


class NoiseTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.path = f"{self.directory}/state/noise.json"

    def test_the_floor_is_the_far_end_of_the_interval(self):
        quiet, loud = (
            noise.floors(aa_run(noise=sd))["iperf3"]["throughput"] for sd in (0.005, 0.05)
        )
        self.assertTrue(0.002 < quiet < 0.03, quiet)
        self.assertTrue(3 < loud / quiet < 30, (quiet, loud))

    def test_a_secondary_figure_has_a_floor_too(self):
        data = aa_run(noise=0.05)
        jitter = {"metric": "jitter", "unit": "ms", "better": "lower", "primary": False}
        beside = [
            dataclasses.replace(trial, value=2 / trial.value, **jitter) for trial in data.trials
        ]
        rare = [
            dataclasses.replace(trial, **{**jitter, "metric": "rare"}) for trial in data.trials[:6]
        ]
        data.trials = [*beside, *rare, *data.trials]
        self.assertEqual(["jitter", "throughput"], sorted(noise.save(data, self.path)["iperf3"]))

    def test_floor_needs_enough_boots_and_blocks(self):
        error = self.assertRaises(reasons.ReasonError, noise.floors, aa_run(boots=1, blocks=8))
        self.assertEqual(
            (C.NO_FLOOR_OF_SO_FEW, 1), (error.reason.code, error.reason.params["boots"])
        )
        data = aa_run()
        for trial in data.trials[::3]:
            trial.conditions = {"throttle_events": 1.0}
        error = self.assertRaises(reasons.ReasonError, noise.floors, data)
        self.assertTrue({C.NO_FLOOR, C.THROTTLING} <= error.reason.codes, error.reason)

    def test_kept_per_set_up_and_renewed(self):
        first = noise.save(aa_run(), self.path)
        noise.save(aa_run(host="compute2"), self.path)
        noise.save(aa_run(seed=9), self.path)
        self.assertEqual(2, len(noise.load(self.path)))
        output = noise.holding(aa_run(seed=3).environment, noise.load(self.path))
        self.assertNotEqual(first, output.losses)
        self.assertIsNone(noise.holding(aa_run(kernel="6.12").environment, noise.load(self.path)))
        self.assertIsNone(noise.holding(aa_run().environment, noise.load(self.path + ".missing")))

    def test_a_tighter_budget_is_refused_with_the_figure(self):
        noise.save(aa_run(noise=0.05), self.path)
        data = samples.results(
            {"untuned": 1000.0, "tuned": 1000.0}, boots=4, blocks=3, noise=0.001
        )
        data.environment.noise_floor = noise.holding(aa_run().environment, noise.load(self.path))
        floor = data.environment.noise_floor.losses["iperf3"]["throughput"]
        for limit, refused in (
            (floor / 2, True),
            (floor * 1.01, False),
            (-floor / 2, True),
            (-2 * floor, False),
        ):
            with self.subTest(limit):
                budget = budget_file.Budget("iperf3", "tuned", limit, baseline="untuned")
                [found] = verdict.judge_all(data, [budget])
                self.assertEqual(refused, found.verdict is V.INVALID, (limit, found.reasons))
                if refused:
                    output = found.reasons[0].params
                    self.assertEqual((floor, limit, "2026-11-21T20:00:00+00:00"),
                                     (output["floor"], output["limit"], output["created"]))  # fmt: skip

    def test_before_a_run_what_is_known_then_decides(self):
        for seconds, expected in (("4", {"throughput": 0.2}), ("9", None)):
            job = {"iperf3": {"kind": "iperf3", "parameters": {"seconds": seconds}}}
            known = samples.of([], host="compute1", benchmarks=job)
            self.assertEqual(
                expected, self.losses(known, self.entry(0.2, host="compute1", kernel="6.1"))
            )

    def entry(self, loss, **fingerprint):
        benchmark = {"kind": "iperf3", "parameters": {"seconds": "4"}}
        whole = {"fingerprint": {**fingerprint, "benchmark": benchmark}, "benchmark": "iperf3"}
        return {**whole, "created": str(loss), "losses": {"throughput": loss}}

    def losses(self, data, *entries):
        found = noise.holding(data.environment, entries)
        return found and found.losses.get("iperf3")

    def test_a_floor_is_of_the_host_that_it_names(self):
        data, mine = aa_run(), self.entry(0.2, host="compute1", kernel="6.1")
        self.assertEqual({"throughput": 0.2}, self.losses(data, mine))
        self.assertEqual(
            {"throughput": 0.2}, self.losses(aa_run(host="compute1.example.org"), mine)
        )
        self.assertIsNone(self.losses(aa_run(host="compute2"), mine))
        self.assertIsNone(self.losses(data, self.entry(0.2, kernel="6.1")))
        data.environment.host = ""
        self.assertIsNone(self.losses(data, mine))

    def test_a_foreign_file(self):
        for text in ("[]", "{}", json.dumps({"schema": 2, "floors": []}), "x"):
            with self.subTest(text):
                self.write_file("state/noise.json", text)
                error = self.assertRaises(schema.InputError, noise.load, self.path)
                self.assertIn(self.path, str(error))
