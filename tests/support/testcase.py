# SPDX-License-Identifier: Apache-2.0
"""The base of our tests: each case of a loop reports by itself."""

import contextlib
import sys

import testtools
from testtools import content


class SubTests:
    """Gives testtools' test cases the subtests of unittest, which they ignore."""

    @contextlib.contextmanager
    def subTest(self, *case, **params):
        """Go on after a case that fails: the test then fails at its end, with a traceback for each by name."""
        try:
            yield
        except self.skipException:
            raise
        except Exception:
            name = f"case {', '.join(map(ascii, (*case, *params.values())))[:200]}"
            self.addDetailUniqueName(name, content.TracebackContent(sys.exc_info(), self))
            self.force_failure = True


class TestCase(SubTests, testtools.TestCase):
    """A test case of testtools with subtests."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        assert cls.fail is TestCase.fail, "assertions call fail(); give the method another name"
