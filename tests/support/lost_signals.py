# SPDX-License-Identifier: Apache-2.0
"""Signals that come where Python swallows the exception of their handler."""

import signal
import weakref

import fixtures


class _Thing:
    """Something that a weak reference can be to."""


class Swallowing(fixtures.Fixture):
    """Signals act as in a program that a terminal started; :ivar swallowed: types of lost exceptions."""

    def _setUp(self):
        self.swallowed = []
        own = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
        for number, handler in own.items():
            self.addCleanup(signal.signal, number, signal.signal(number, handler))
        hook = fixtures.MonkeyPatch(
            "sys.unraisablehook", lambda lost: self.swallowed.append(lost.exc_type)
        )
        self.useFixture(hook)

    def send(self, number):
        """Send a signal to this process while it runs the callback of a weak reference."""
        thing = _Thing()
        reference = weakref.ref(thing, lambda _reference: signal.raise_signal(number))
        del thing
        assert reference() is None
