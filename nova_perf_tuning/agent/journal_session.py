"""The journal as the agent uses it: opened for a round that may write, and for nobody's sake kept open between.

A command of a person may write to it meanwhile; the next round reads what it holds then.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Final

from nova_perf_tuning import errors
from nova_perf_tuning.agent import sources
from nova_perf_tuning.host.transaction import journal as journal_module

#: A command that asks whether an agent runs holds its lock for an instant.
_INSTANT_S: Final = 0.5
#: Half of the time that the unit gives a stop (TimeoutStopSec): the rest is for putting things back.
_ENDING_S: Final = 30.0


class SecondAgentError(errors.PerfTuningError):
    """Another agent keeps this host."""


class JournalSession:
    """The journal in ``directory`` of the host below ``root``.

    :param ending: seconds that :meth:`ending` waits for a command.
    """

    def __init__(self, directory: str, root: str, ending: float = _ENDING_S) -> None:
        self.directory = os.path.abspath(directory)
        self._root = root
        self._ending = ending
        self._path = os.path.join(self.directory, journal_module.JOURNAL)
        self._stamp: tuple[int, int] | None = None

    @contextlib.contextmanager
    def agent(self) -> Iterator[None]:
        """Be this host's only agent within.

        :raises SecondAgentError: there is one already.
        :raises JournalError: the directory or the journal cannot be used.
        """
        with contextlib.suppress(journal_module.BusyError), self.writing():
            pass  # what is wrong with it is said at the start
        path = os.path.join(self.directory, journal_module.AGENT_LOCK)
        try:
            fd = journal_module.take_lock(path, _INSTANT_S)
        except journal_module.HeldError as error:
            raise SecondAgentError(
                f"{self.directory}: another nova-perf-agent, process {error.holder}, keeps this host: "
                "stop it first"
            ) from None
        except OSError as error:
            raise journal_module.JournalError(f"{path}: {error.strerror}") from None
        try:
            yield
        finally:
            os.close(fd)

    @contextlib.contextmanager
    def writing(self) -> Iterator[journal_module.Journal]:
        """Hold the journal for one round.

        :raises BusyError: somebody else holds it.
        :raises JournalError: it cannot be used.
        """
        try:
            with journal_module.Journal(self.directory, self._root, writer=True, patience=0.0) as journal:
                yield journal
        finally:
            self._stamp = sources.stamp(self._path)  # where it could not be used, the next change may mend it

    def ending(self) -> journal_module.Journal:
        """Return the journal for putting things back at the end.

        :raises BusyError: a command has been changing this host all the time: what the agent placed stays.
        """
        return journal_module.Journal(self.directory, self._root, writer=True, patience=self._ending)

    def changed(self) -> bool:
        """Whether somebody else has written to the journal since the last round."""
        return sources.stamp(self._path) != self._stamp
