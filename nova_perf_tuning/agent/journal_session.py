# SPDX-License-Identifier: Apache-2.0
"""The agent's journal: held for a pass, free for commands in between."""

import contextlib
import functools
import os
import pathlib
from collections.abc import Iterator
from typing import Final

from nova_perf_tuning.agent import sources
from nova_perf_tuning.host.transaction.journal import (
    AGENT_LOCK,
    JOURNAL,
    BusyError,
    HeldError,
    Journal,
    JournalError,
    take_lock,
)

#: A command that asks whether an agent runs holds its lock for an instant.
_INSTANT_S: Final = 0.5
#: Half of the time that the unit gives a stop (TimeoutStopSec): the rest is for putting things
#: back.
ENDING_S: Final = 30.0


class JournalSession:
    """The journal of the host below ``root``.

    It is opened for each pass, so that commands may write to it in between.

    :param ending: seconds that :meth:`ending` waits for a command.
    """

    def __init__(self, directory: str, root: str, ending: float = ENDING_S) -> None:
        self._open = functools.partial(Journal, os.path.abspath(directory), root, writer=True)
        self._path = pathlib.Path(directory).absolute() / JOURNAL
        self._ending = ending
        self._stamp: object = None

    @contextlib.contextmanager
    def agent(self) -> Iterator[None]:
        """Hold the agent lock; only one agent may run on a host.

        :raises JournalError: there is one already, or the directory or the journal cannot be used.
        """
        with contextlib.suppress(BusyError), self.writing():
            pass  # what is wrong with it is said at the start
        path = self._path.with_name(AGENT_LOCK)
        try:
            fd = take_lock(str(path), _INSTANT_S)
        except HeldError as error:
            raise JournalError(
                f"{path.parent}: another nova-perf-agent, process {error.holder}, manages this host: stop it first"
            ) from None
        except OSError as error:
            raise JournalError(f"{path}: {error.strerror}") from None
        try:
            yield
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def writing(self) -> Iterator[Journal]:
        """Hold the journal for one pass.

        :raises BusyError: another process holds it.
        :raises JournalError: it cannot be used.
        """
        try:
            with self._open(patience=0.0) as journal:
                yield journal
        finally:
            self._stamp = sources.stamp(
                self._path
            )  # where it could not be used, the next change may repair it

    @contextlib.contextmanager
    def reading(self) -> Iterator[Journal]:
        """Give the journal for a look.

        :raises JournalError: it cannot be used.
        """
        try:
            with self._open(writer=False) as journal:
                yield journal
        finally:
            self._stamp = sources.stamp(self._path)

    def ending(self) -> Journal:
        """Return the journal for putting things back at the end.

        :raises BusyError: a command has been changing this host all the time: what the agent
            placed stays.
        """
        return self._open(patience=self._ending)

    def changed(self) -> bool:
        """Whether another process has written to the journal since the last pass."""
        return sources.stamp(self._path) != self._stamp
