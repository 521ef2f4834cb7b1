# SPDX-License-Identifier: Apache-2.0
"""Stamps around a program in a guest: by the very shell that guests have, and read from what a guest may forge."""

import subprocess
import time

from hypothesis import given
from hypothesis import strategies as st

from nova_perf_tuning.validation.launch import guest
from tests.support import patience, testcase


class StampsTest(testcase.TestCase):
    def run_stamped(self, *argv: str) -> subprocess.CompletedProcess[str]:
        return patience.run(["busybox", *guest._STAMPED, *argv])

    def test_a_program_lives_between_its_stamps(self) -> None:
        before = time.time()
        done = self.run_stamped("sh", "-c", "sleep 0.3; echo out; printf err >&2; exit 7")
        stderr, lived = guest._lived(done.stderr)
        self.assertEqual((7, "out\n", "err"), (done.returncode, done.stdout, stderr))
        assert lived is not None
        self.assertTrue(before - 0.001 <= lived[0] <= lived[1] - 0.3 <= time.time(), lived)

    def test_arguments_stay_what_they_are(self) -> None:
        hostile = ["$(id)", "`id`", "a b", "'", '"', ";id", "*", "-n", "\\", "", "ü"]
        self.assertEqual(
            hostile, self.run_stamped("printf", "%s\\n", *hostile).stdout.split("\n")[:-1]
        )

    def test_words_of_the_shell_are_programs_too(self) -> None:
        self.assertEqual(127, self.run_stamped("exit", "5").returncode)
        self.assertEqual(
            (0, ""), (self.run_stamped("true").returncode, self.run_stamped("true").stdout)
        )

    def test_a_missing_program_is_named(self) -> None:
        done = self.run_stamped("no-such-program")
        self.assertEqual(127, done.returncode)
        self.assertIn("no-such-program", guest._lived(done.stderr)[0])

    @given(st.text(max_size=60), st.integers(0, 10**12), st.integers(0, 10**12))
    def test_only_the_last_stamp_counts(self, text: str, begin: int, end: int) -> None:
        stamp = f"\nlived {begin}.000000 {end}.000000\n"
        stderr, lived = guest._lived(text + "\nlived 1.000000 2.000000\n" + stamp)
        if max(begin, end) < 10**11:
            self.assertEqual(text + "\nlived 1.000000 2.000000\n", stderr)
            self.assertEqual((begin, end) if begin <= end else None, lived)
        else:
            self.assertIsNone(lived)

    def test_without_a_stamp_nothing_is_known(self) -> None:
        for text in (
            "",
            "lived 1.000000 2.000000\n",
            "\nlived 1.0 2.0\n",
            "\nlived 1.000000 2.000000\nmore",
        ):
            with self.subTest(text):
                self.assertEqual((text, None), guest._lived(text))
