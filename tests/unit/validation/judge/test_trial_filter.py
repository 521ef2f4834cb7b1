# SPDX-License-Identifier: Apache-2.0
"""Which trials count, and when what is left is no sample."""

from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.results import reasons
from tests.support import samples, testcase

C = reasons.ReasonCode


class SelectTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results(
            {"host": 1000.0, "untuned": 900.0, "tuned": 950.0}, boots=4, blocks=5
        )
        self.mine = [trial for trial in self.data.trials if trial.arm == "tuned"]

    def select(self, **changes):
        return trial_filter.select(self.data, self.data.trials, "tuned", "untuned", **changes)

    def test_sound_trials_are_all_kept(self):
        found = self.select()
        self.assertEqual((40, {}, 20, 0, None, ()),
                         (len(found.trials), found.excluded, found.pairs, found.pairs_excluded, found.invalid,
                          found.notes))  # fmt: skip

    def test_what_a_guard_rejects_is_excluded_with_its_reason(self):
        for trial in self.mine[:3]:
            trial.conditions = {"steal_share": 0.5}
        found = self.select()
        self.assertEqual((37, 3, None), (len(found.trials), found.pairs_excluded, found.invalid))
        [note] = found.notes
        self.assertEqual(
            (C.EXCLUDED, 3, 20, "pairs"),
            (note.code, *(note.params[n] for n in ("count", "of", "what"))),
        )
        self.assertIn(C.STEAL, note.codes)
        self.assertEqual((), self.select(limits=trial_filter.Limits(max_steal=0.6)).notes)
        self.assertEqual(3, len(trial_filter.alone(self.data)))

    def test_too_much_lost_is_no_sample(self):
        """Failed, zero, missing and excluded trials add up, of either arm."""
        self.mine[0].value, self.mine[0].error = None, "no"
        self.mine[1].value = 0.0
        self.data.trials.remove(self.mine[2])
        self.mine[3].conditions = {"throttle_events": 1}
        self.assertIsNone(self.select().invalid)
        self.mine[4].conditions = {"throttle_events": 1}
        found = self.select().invalid
        self.assertEqual({C.TOO_MANY_LOST, C.THROTTLING}, found.codes)
        expected = {
            "arm": "tuned",
            "count": 5,
            "of": 20,
            "failed": 1,
            "zeros": 1,
            "missing": 1,
            "excluded": 2,
        }
        self.assertEqual(expected, {name: found.params[name] for name in expected})
        swapped = trial_filter.select(self.data, self.data.trials, "untuned", "tuned")
        self.assertEqual(found, swapped.invalid)


class LostTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results({"host": 1000.0, "tuned": 950.0}, boots=4, blocks=3)

    def missing(self, arm="tuned"):
        gaps = trial_filter.Gaps.of(self.data.environment)
        return trial_filter.lost(trial_filter.Figure.of(self.data.trials), gaps, arm).missing

    def remove(self, condition):
        self.data.trials = [
            trial for trial in self.data.trials if trial.arm != "tuned" or not condition(trial)
        ]

    def test_blocks_of_others(self):
        self.assertEqual(0, self.missing())
        self.remove(lambda trial: trial.boot == 0 or trial.block == 1)
        self.assertEqual(6, self.missing())
        gaps = trial_filter.Gaps.of(environments.Environment())
        lost = trial_filter.lost(trial_filter.Figure.of(self.data.trials), gaps, "tuned")
        self.assertEqual({(0, 0), (0, 1), (0, 2), (1, 1), (2, 1), (3, 1)}, lost.blocks)

    def test_the_last_block_that_the_time_limit_cut(self):
        """In the last boot, and where the session noted it."""
        self.remove(lambda trial: trial.block == 2)
        self.assertEqual(3, self.missing())
        samples.tell(
            self.data,
            errors=[{"boot": 0, "error": "no boot", "code": environments.IncidentCode.BOOT}],
        )
        self.assertEqual(3, self.missing())
        samples.tell(
            self.data,
            errors=[{"boot": 0, "error": "cut", "code": environments.IncidentCode.TIME_LIMIT}],
        )
        self.assertEqual(2, self.missing())
        self.remove(lambda trial: trial.boot == 3)
        self.assertEqual(5, self.missing(), "one block may be cut, not a whole boot")

    def test_boots_that_failed(self):
        """They leave no trial of any arm; what failed in a boot that worked is none of them."""
        errors = [
            {"boot": 4, "arm": "tuned", "error": "no boot"},
            {"boot": 7, "arm": "tuned", "error": "no boot"},
            {"boot": 1, "arm": "tuned", "error": "booted after all"},
            {"boot": 5, "arm": "tuned", "benchmark": "iperf3", "error": "warm-up"},
            {"boot": 6, "error": "something"},
        ]
        samples.tell(self.data, errors=errors)
        self.assertEqual(6, self.missing())
        samples.tell(self.data, fleet={})
        self.assertEqual(0, self.missing(), "there a pair was tried again")

    def test_blocks_that_guests_of_a_fleet_lack_are_missing(self):
        samples.tell(self.data, fleet={})
        self.remove(lambda trial: trial.block == 1)
        self.assertEqual(4, self.missing())

    def test_a_zero_is_a_failure_where_more_is_better(self):
        mine = [trial for trial in self.data.trials if trial.arm == "tuned"]
        mine[0].value, mine[1].value = None, 0.0
        for better, blocks in (("higher", {(0, 0), (0, 1)}), ("lower", {(0, 0)})):
            with self.subTest(better):
                for trial in mine:
                    trial.better = better
                gaps = trial_filter.Gaps.of(self.data.environment)
                found = trial_filter.lost(trial_filter.Figure.of(self.data.trials), gaps, "tuned")
                self.assertEqual(
                    (blocks, 1, 1, 2), (found.blocks, found.failed, found.zeros, found.count)
                )

    def test_the_host_of_a_fleet_is_not_booted(self):
        self.data.trials = [
            trial for trial in self.data.trials if trial.arm != "host" or trial.boot
        ]
        self.assertEqual(3, self.missing("host"))
        samples.tell(self.data, fleet={})
        self.assertEqual(0, self.missing("host"))
