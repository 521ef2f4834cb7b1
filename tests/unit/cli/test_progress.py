"""Progress of a validation."""

import io

import fixtures
import testtools

from nova_perf_tuning.cli import progress
from nova_perf_tuning.validation.measure import session


class ProgressTest(testtools.TestCase):
    def test_few_lines_and_what_is_important(self):
        clock = iter(range(1000, 1009))
        out = io.StringIO()
        with (
            fixtures.MonkeyPatch("nova_perf_tuning.cli.progress.time.monotonic", lambda: next(clock)),
            fixtures.MonkeyPatch("sys.stdout", out),
        ):
            show = progress.shower(to_stderr=False)
            for done in range(9):
                show(session.Progress(done, 90, 356.0, f"trial {done}", done == 3))
        lines = out.getvalue().splitlines()
        self.assertEqual(["trial 0", "trial 3", "trial 8"], [line[-7:] for line in lines])
        self.assertEqual("[0/90] about 5:56 left  trial 0", lines[0])
