# SPDX-License-Identifier: Apache-2.0
"""An agent that only observes: nothing is written, and what it says is what one that writes would write."""

import collections
import json
import os
import pathlib
import time

from nova_perf_tuning.agent import forecast, journal_session, observe, reconcile, rewrite_limit
from nova_perf_tuning.host.transaction import journal
from tests.support import directories, program, sysroots, testcase


class ObserverTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        self.state = journal.default_state_dir(self.root)
        self.now = 1_000_000.0

    def parts(self):
        session = journal_session.JournalSession(self.state, self.root)
        return reconcile.TunedHost(self.root), session, rewrite_limit.RewriteLimit(5)

    def observer(self):
        """Return one with a clock of the test."""
        changes = forecast.Forecast(self.state, self.root, clock=lambda: self.now)
        return observe.Observer(*self.parts(), changes)

    def put(self, path, text):
        pathlib.Path(self.root, path).write_text(text)

    def test_its_forecast_is_what_an_enforcing_agent_writes(self):
        before = sysroots.content(self.root)
        watcher = self.observer()
        watcher.reconcile()
        self.assertEqual(before, sysroots.content(self.root))
        self.assertFalse(os.path.exists(os.path.join(self.state, journal.JOURNAL)))
        said = {
            (change.kind, change.target, change.value) for change in watcher.forecast.due.values()
        }
        done = reconcile.Reconciler(*self.parts()).reconcile()
        written = {
            (outcome.setting.kind, outcome.setting.target, outcome.setting.value)
            for outcome in done.written
        }
        self.assertTrue(said)
        self.assertEqual(said, written)
        watcher.reconcile()
        self.assertEqual({}, watcher.forecast.due)

    def test_what_comes_and_goes_is_kept_with_its_times(self):
        watcher = self.observer()
        watcher.reconcile()
        rules = watcher.forecast.by_rule()
        reconcile.Reconciler(*self.parts()).reconcile()
        self.now += 60
        self.assertTrue(watcher.drifting())  # they hold now
        watcher.reconcile()
        self.assertEqual([], watcher.drifting())
        self.assertEqual(dict.fromkeys(rules, 0), watcher.forecast.by_rule())
        self.now += 60
        self.put("proc/irq/24/smp_affinity_list", "0-7\n")
        self.assertEqual(["irq:24"], [setting.target for setting in watcher.drifting()])
        watcher.reconcile()
        self.assertEqual(1, len(watcher.forecast.due))
        changes = forecast.read(os.path.join(self.state, forecast.FILE))
        times = collections.Counter((change.since, change.until) for change in changes)
        self.assertEqual(
            {(1_000_000.0, 1_000_060.0): sum(rules.values()), (1_000_120.0, None): 1}, times
        )

    def test_a_start_goes_on_from_the_file(self):
        watcher = self.observer()
        watcher.reconcile()
        due = watcher.forecast.due
        self.now += 3600
        again = self.observer()
        again.reconcile()
        self.assertEqual(due, again.forecast.due)
        self.assertEqual(0, sum(again.forecast.begun.values()))

    def test_status_lists_it(self):
        watcher = self.observer()
        self.now = time.time()
        watcher.reconcile()
        document = program.document(self, "status", "--since", "7d", "--sysroot", self.root)
        self.assertEqual(len(watcher.forecast.due), len(document["forecast"]))
        shown = program.shown(self, "status", "--since", "7d", "--sysroot", self.root)
        self.assertIn("forecast: what the agent would write", shown)
        self.assertIn("nic-irq-local", shown)
        self.assertEqual({"-"}, self.rates("7d"))

    def rates(self, since):
        """Return what status shows as new changes a day, of all rules."""
        shown = program.shown(self, "status", "--since", since, "--sysroot", self.root)
        table = shown.partition("new a day")[2].partition("\nrule ")[0]
        return {line.split()[3] for line in table.splitlines()[1:] if line.startswith("nic")}

    def test_a_rate_is_of_the_time_observed_and_of_what_is_new(self):
        """A week that is asked for says nothing of an observer that began two hours ago; nor does its first pass."""
        now = time.time()
        self.now = now - 7200
        watcher = self.observer()
        watcher.reconcile()
        self.assertEqual({"0.0"}, self.rates("7d"))
        due = list(watcher.forecast.due.values())
        self.now = now - 3600
        watcher.forecast.update([])
        self.now = now - 1800
        self.observer().reconcile()
        rules = collections.Counter(change.rule for change in due)
        expected = {f"{count * 12:.1f}" for rule, count in rules.items() if rule.startswith("nic")}
        self.assertEqual(expected, self.rates("7d"))
        self.assertEqual({"-"}, self.rates("50m"))


class FileTest(directories.DirectoryCase):
    def changes(self, count, *, at):
        return [
            json.dumps(
                {"step": "due", "at": at, "kind": "k", "target": f"t{number}", "identity": ""}
                | {"value": "1", "rule": "r", "reason": "", "held": None}
            )
            for number in range(count)
        ]

    def test_a_line_that_was_cut_by_a_kill_is_passed_over(self):
        path = self.write_file("forecast.ndjson", "\n".join(self.changes(2, at=5.0)) + '\n{"step')
        self.assertEqual(2, len(forecast.read(path)))

    def test_what_a_full_disk_left_of_a_line_is_cut_off(self):
        path = self.write_file("forecast.ndjson", "\n".join(self.changes(2, at=5.0)) + '\n{"step')
        settings = sysroots.settings(sysroots.make_host(self))
        count = len(settings)
        for _start in range(2):  # the second met a line that was glued to the rest
            sample = forecast.Forecast(str(self.directory), clock=lambda: 9.0)
            sample.update(settings)
            settings = settings[1:]
        self.assertEqual(2 + count, len(forecast.read(path)))

    def test_changes_of_one_pass_stay_due_when_the_file_is_cut(self):
        settings = sysroots.settings(sysroots.make_host(self))
        sample = forecast.Forecast(str(self.directory), clock=lambda: 7.0)
        self.patch(forecast, "LIMIT", 100)
        sample.update(settings)
        again = forecast.Forecast(str(self.directory), clock=lambda: 8.0)
        self.assertEqual(sample.due, again.due)

    def test_another_file_is_refused(self):
        for text in ("x\ny\n", '{"step": "due"}\n\n', '{"step": "due", "at": "x"}\n\n'):
            with self.subTest(text):
                path = self.write_file("forecast.ndjson", text)
                self.assertRaises(forecast.ForecastError, forecast.read, path)

    def test_it_stays_small_and_keeps_what_is_due(self):
        self.patch(forecast, "LIMIT", 20_000)
        now = [0.0]
        sample = forecast.Forecast(str(self.directory), clock=lambda: now[0])
        root = sysroots.make_host(self)
        settings = sysroots.settings(root)
        sample.update(settings)
        first = dict(sample.due)
        for number in range(300):
            now[0] += 1.0
            sample.update(settings[: 1 + number % 2])
        path = os.path.join(self.directory, forecast.FILE)
        self.assertLess(os.path.getsize(path), 30_000)
        due = [change for change in forecast.read(path) if change.until is None]
        self.assertEqual(
            {change.key for change in sample.due.values()}, {change.key for change in due}
        )
        self.assertEqual(first[settings[0].kind, settings[0].target, settings[0].identity], due[0])
