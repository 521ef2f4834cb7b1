"""``python -m nova_perf_tuning_smoke [-v] [-k PATTERN]``: run the smoke tests; exit code 0 when none failed."""

from __future__ import annotations

import pathlib
import sys
import unittest


def load_tests(
    loader: unittest.TestLoader, _tests: unittest.TestSuite, _pattern: str | None
) -> unittest.TestSuite:
    """Return all tests of this package."""
    folder = pathlib.Path(__file__).parent
    return loader.discover(str(folder), top_level_dir=str(folder.parent))


if __name__ == "__main__":
    sys.argv[0] = "python -m nova_perf_tuning_smoke"
    unittest.main(verbosity=2)
