# SPDX-License-Identifier: Apache-2.0
"""An agent that plans and reads back as always, and writes nothing: it says what it would write."""

import time
from collections.abc import Callable, Collection, Sequence

from nova_perf_tuning.agent import forecast, journal_session, reconcile, rewrite_limit
from nova_perf_tuning.host.model.host_model import Setting
from nova_perf_tuning.host.transaction import verify
from nova_perf_tuning.host.transaction.restore import Restoration


class Observer(reconcile.Reconciler):
    """Stands in the place of :class:`reconcile.Reconciler` where ``[agent] mode`` is ``observe``.

    :ivar forecast: what would be written.
    """

    def __init__(
        self,
        host: reconcile.TunedHost,
        journal: journal_session.JournalSession,
        limit: rewrite_limit.RewriteLimit,
        what_would_change: forecast.Forecast,
        *,
        extra: Callable[[Sequence[Setting]], list[Setting]] = lambda _settings: [],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(host, journal, limit, extra=extra, clock=clock)
        self.forecast = self._changes = what_would_change

    def reconcile(self, *, excused: bool = False) -> reconcile.Pass:
        """Plan, compare with what the host holds, and take note of the difference.

        :raises PerfTuningError: the host, the sets or the journal cannot be used.
        """
        with self.journal.reading() as journal:
            view = self._look(journal)
        due: list[Setting] = []
        for setting in view.wanted:
            kind, current = view.kinds[setting.kind], setting.current
            if current is None or not kind.holds(setting.target, setting.value, current):
                due.append(setting)
        self.wanted = view.wanted
        self._changes.update(due)
        return reconcile.Pass(view.facts, view.plan, [], [], view.foreign, [], [])

    def drifting(self, targets: Collection[str] | None = None) -> list[Setting]:
        """Return settings that have come to differ, or to hold, since the last pass."""
        asked: dict[rewrite_limit.Key, Setting] = {}
        for setting in self.wanted:
            if targets is None or setting.target in targets:
                asked[setting.kind, setting.target, setting.identity] = setting
        differing: set[rewrite_limit.Key] = set()
        for setting in verify.drifted(list(asked.values()), self._host.kinds()):
            differing.add((setting.kind, setting.target, setting.identity))
        known = self._changes.due.keys() & asked.keys()
        return [asked[key] for key in sorted(differing ^ known)]

    def restore(self) -> list[Restoration]:
        """Put back nothing: nothing was written."""
        return []
