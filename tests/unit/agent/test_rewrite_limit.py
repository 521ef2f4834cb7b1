# SPDX-License-Identifier: Apache-2.0
"""How long a pause between writes is remembered after it is over."""

from nova_perf_tuning.agent import rewrite_limit
from tests.support import testcase

KEY = ("irq_affinity", "irq:24", "0000:10:00.0|eth0-0")
PAUSE = rewrite_limit.FIRST_PAUSE_S


class PauseTest(testcase.TestCase):
    def held_back(self) -> rewrite_limit.RewriteLimit:
        """Return a limit of one write whose first pause began at 0 s."""
        limit = rewrite_limit.RewriteLimit(1)
        self.assertTrue(limit.allow(KEY, 0.0))
        self.assertFalse(limit.allow(KEY, 0.0))
        return limit

    def next_pause(self, quiet: float) -> float:
        """Return the length of the pause that follows when the object was quiet for so long after the first."""
        limit = self.held_back()
        moment = PAUSE + quiet
        self.assertTrue(limit.allow(KEY, moment))
        while limit.allow(KEY, moment):
            pass
        return limit.conflicts[KEY].until - moment

    def test_a_short_silence_keeps_the_pause_and_doubles_it(self) -> None:
        self.assertEqual(2 * PAUSE, self.next_pause(1.5 * PAUSE))

    def test_a_long_silence_forgets_it(self) -> None:
        limit = self.held_back()
        moment = PAUSE + 2.5 * PAUSE
        self.assertFalse(limit.allow(KEY, moment), "what was earned is less than a write")
        self.assertEqual(PAUSE, limit.conflicts[KEY].until - moment)
