# SPDX-License-Identifier: Apache-2.0
"""Passes of admission on a cloud in memory: what becomes of hosts, and where a process may die."""

import copy
import datetime
from unittest import mock

from nova_perf_tuning.nova import traits
from nova_perf_tuning.placement import hosts
from nova_perf_tuning.validation.fleet.admission import executor, policy, service, store
from nova_perf_tuning.validation.store import owner
from tests.support import admission_cloud, directories

NEW = {"enabled": False, "reason": hosts.NEW_SERVICE}
POLICY = policy.AdmissionPolicy([policy.HostGroup("all", share=0.5)], retries=0)


class ServiceCase(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.url = f"sqlite:///{self.directory}/runs.db"
        self.store = self.opened()
        self.store.take()
        self.cloud = admission_cloud.FakeCloud("old1", "old2", "old3", "old4")
        self.validator = admission_cloud.FakeValidator(self.cloud)
        self.policy = POLICY

    def opened(self):
        opened = store.AdmissionStore(self.url)
        self.addCleanup(opened.close)
        return opened

    def service(self):
        return service.AdmissionService(self.store, self.cloud, self.validator, self.policy)

    def passes(self, number=12):
        """Make passes by one service, and return the report of the last one."""
        running = self.service()
        for _ in range(number):
            report = running.run()
        return report

    def add(self, name, **fields):
        self.cloud.hosts[name] = admission_cloud.FakeHost(name, **fields)
        return self.cloud.hosts[name]

    def states(self):
        return {name: record.state for name, record in self.store.records().items()}


class PassTest(ServiceCase):
    def test_a_new_host_is_admitted(self):
        host = self.add("new", **NEW)
        report = self.passes()
        self.assertEqual({}, report.faults)
        self.assertEqual({"admitted"}, set(self.states().values()))
        self.assertTrue(host.enabled and self.cloud.lands("new"))
        self.assertEqual({traits.VALIDATED}, host.traits)
        self.assertEqual(([], set()), (self.cloud.aggregates(), self.cloud.trial_traits()))
        causes = [move.cause for move in self.store.transitions() if move.host == "new"]
        self.assertEqual(["registered", "registered", "passed"], causes)

    def test_a_failing_host_is_quarantined_and_comes_back_when_it_was_repaired(self):
        host = self.add("new", **NEW)
        self.validator.outcomes["new"] = ["FAIL"]
        self.passes()
        self.assertEqual("quarantined", self.states()["new"])
        self.assertEqual("nova-perf: admission: failed", host.reason)
        host.fingerprint = "B"
        self.passes()
        self.assertEqual("admitted", self.states()["new"])
        self.assertTrue(host.enabled)

    def test_retries_before_quarantine(self):
        self.policy = policy.AdmissionPolicy(
            POLICY.groups, retries=2, undecided_retries=1, invalid_retries=0
        )
        for outcomes, state, cause in (
            (["FAIL", "FAIL"], "admitted", "passed"),
            (["FAIL", "FAIL", "FAIL"], "quarantined", "failed"),
            (["INCONCLUSIVE"], "admitted", "passed"),
            (["INCONCLUSIVE", "INCONCLUSIVE"], "quarantined", "undecided"),
            (["INCONCLUSIVE", "INVALID"], "quarantined", "undecided"),
        ):
            with self.subTest(outcomes):
                name = f"host{len(self.cloud.hosts)}"
                self.add(name, **NEW)
                self.validator.outcomes[name] = list(outcomes)
                self.passes()
                record = self.store.records()[name]
                self.assertEqual((state, cause), (record.state, record.cause))

    def test_another_kernel_withdraws_the_verdict_at_once(self):
        self.passes()
        host = self.cloud.hosts["old1"]
        host.fingerprint = "B"
        self.validator.running = mock.MagicMock(__contains__=lambda _self, _key: True)
        self.passes(1)
        self.assertNotIn(traits.VALIDATED, host.traits)
        self.assertEqual("validating", self.states()["old1"])
        self.assertFalse(self.cloud.lands("old1"))
        causes = [move.after for move in self.store.transitions() if move.host == "old1"]
        self.assertEqual(["suspect", "validating"], causes[-2:])

    def test_the_verdict_goes_before_the_host_is_closed_and_measured(self):
        self.passes()
        self.cloud.hosts["old1"].fingerprint = "B"
        del self.cloud.log[:]
        self.passes(1)
        about = [(what, "old1" in str(it)) for what, it in self.cloud.log]
        steps = [what for what, is_it in about if is_it]
        self.assertEqual(["publish", "join", "mirror", "set_trait"], steps)

    def test_without_a_place_for_its_trial_it_is_disabled_until_then(self):
        self.passes()
        self.policy = policy.AdmissionPolicy(POLICY.groups, retries=0, max_trials=1)
        for name in ("old1", "old2"):
            self.cloud.hosts[name].fingerprint = "B"
        running = mock.MagicMock(__contains__=lambda _self, _key: True)
        self.validator.running = running
        report = self.passes(1)
        self.assertEqual(
            "nova-perf: admission: fingerprint_changed", self.cloud.hosts["old2"].reason
        )
        self.assertEqual([False, False], [self.cloud.lands(name) for name in ("old1", "old2")])
        self.assertEqual(
            ["validating", "suspect"], [self.states()[name] for name in ("old1", "old2")]
        )
        self.assertEqual({}, report.faults)
        self.validator.running = set()
        self.passes()
        self.assertEqual({"admitted"}, set(self.states().values()))
        self.assertTrue(self.cloud.lands("old2"))

    def test_the_share_bounds_what_is_closed_unless_the_policy_says_otherwise(self):
        for word, still_open in ((False, 2), (True, 1)):
            with self.subTest(word):
                self.validator.running = set()
                group = policy.HostGroup("all", share=0.5, keep=1, close_beyond_share=word)
                self.policy = policy.AdmissionPolicy([group])
                self.passes()
                for host in self.cloud.hosts.values():
                    host.fingerprint += "B"
                self.validator.running = mock.MagicMock(__contains__=lambda _self, _key: True)
                report = self.passes(2)
                left = [name for name in self.cloud.hosts if self.cloud.lands(name)]
                self.assertEqual(still_open, len(left))
                self.assertEqual(set(left), report.decision.unproven & set(report.decision.holds))

    def test_a_host_that_is_disabled_meanwhile_proves_nothing(self):
        self.add("new", **NEW)
        self.passes(1)
        self.cloud.isolating = False
        right = self.cloud.is_refused

        def refused(host):
            self.cloud.set_service(host, False, "new RAM, ask Ann")
            return right(host)

        self.cloud.is_refused = refused
        report = self.passes(1)
        self.assertIn("was disabled meanwhile", report.faults[""])
        self.assertFalse(self.cloud.hosts["new"].enabled)

    def test_outside_the_windows_it_is_disabled_until_then(self):
        self.passes()
        now = self.store.now()
        day = [(now.weekday() + 3) % 7]
        window = policy.TimeWindow(day, datetime.time(1), datetime.time(2))
        self.policy = policy.AdmissionPolicy(POLICY.groups, windows=[window])
        self.cloud.hosts["old1"].fingerprint = "B"
        self.passes(1)
        self.assertFalse(self.cloud.hosts["old1"].enabled)

    def test_schedulers_that_do_not_isolate_close_by_disabling(self):
        self.passes()
        self.cloud.isolating = False
        self.cloud.hosts["old1"].fingerprint = "B"
        report = self.passes(1)
        self.assertIn("enable_isolated_aggregate_filtering = True", report.faults[""])
        self.assertFalse(self.cloud.lands("old1"))

    def test_a_measurement_while_nova_compute_was_down_does_not_count(self):
        self.policy = policy.AdmissionPolicy(POLICY.groups, invalid_retries=0)
        self.add("new", **NEW)
        self.validator.outcomes["new"] = ["INVALID"]
        self.passes(1)
        self.passes(1)
        self.validator.running = mock.MagicMock(__contains__=lambda _self, _key: True)
        self.cloud.hosts["new"].up = False
        self.passes(2)
        self.validator.running = set()
        report = self.passes(1)
        self.assertEqual("service_down", report.decision.holds["new"])
        self.cloud.hosts["new"].up = True
        report = self.passes(1)
        self.assertEqual("pause_between_trials", report.decision.holds["new"])
        later = datetime.timedelta(hours=1)
        right = store.AdmissionStore.now
        with mock.patch.object(store.AdmissionStore, "now", lambda this: right(this) + later):
            self.passes(2)
        self.assertEqual("admitted", self.states()["new"])

    def test_hands_off_what_others_have_disabled(self):
        self.passes()
        for name in ("old1", "old2"):
            self.cloud.set_service(name, False, "new RAM, ask Ann")
        self.cloud.hosts["old1"].fingerprint = "B"
        self.passes()
        self.assertEqual("new RAM, ask Ann", self.cloud.hosts["old1"].reason)
        self.assertEqual(("suspect", "admitted"), (self.states()["old1"], self.states()["old2"]))
        self.cloud.set_service("old1", True, "")
        self.passes()
        self.assertEqual("admitted", self.states()["old1"])

    def test_a_person_enables_a_quarantined_host(self):
        self.validator.outcomes["old1"] = ["FAIL"]
        self.passes()
        self.cloud.set_service("old1", True, "")
        self.passes()
        self.assertEqual("admitted", self.states()["old1"])

    def test_a_host_without_a_cell_is_not_new_yet(self):
        self.add("new", mapped=False, **NEW)
        report = self.passes()
        self.assertEqual("no_host_mapping", report.decision.holds["new"])
        self.assertNotIn("new", self.states())

    def test_schedulers_that_do_not_isolate(self):
        self.add("new", **NEW)
        self.cloud.isolating = False
        report = self.passes()
        self.assertIn("enable_isolated_aggregate_filtering = True", report.faults[""])
        self.assertFalse(self.cloud.hosts["new"].enabled)
        left = self.cloud.aggregates(), self.cloud.trial_traits()
        self.assertEqual(([], set()), left)

    def test_no_host_to_show_it_on(self):
        for name in list(self.cloud.hosts):
            self.cloud.set_service(name, False, hosts.NEW_SERVICE)
        report = self.passes()
        self.assertIn("validate and publish one by hand", report.faults[""])

    def test_placement_that_nova_does_not_tell(self):
        self.add("new", **NEW)
        self.cloud.mirrors = False
        self.passes()
        self.assertEqual("admitted", self.states()["new"])
        self.assertEqual(set(), self.cloud.hosts["new"].mirrored)

    def test_the_kill_switch_holds_the_next_step(self):
        self.add("new", **NEW)
        running = self.service()
        running.run()
        other = self.opened()
        self.cloud.watch = lambda: other.stop("maintenance")
        self.assertRaises(store.StoppedError, running.run)
        done = len(self.cloud.log)
        self.assertRaises(store.StoppedError, running.run)
        self.assertEqual(done, len(self.cloud.log))
        self.cloud.watch = lambda: None
        other.stop("")
        self.passes()
        self.assertEqual("admitted", self.states()["new"])

    def test_an_unknown_state_stops_that_host_alone(self):
        self.add("new", **NEW)
        self.passes(1)
        record = self.store.records()["old1"]
        strange = executor.AdmissionMove(
            record, executor.HostRecord("old1", "marvellous", record.since, "x"), "none"
        )
        self.store.write([strange])
        report = self.passes()
        self.assertEqual("unknown_state", report.decision.holds["old1"])
        self.assertEqual("admitted", self.states()["new"])

    def test_two_at_once(self):
        other = self.opened()
        self.assertRaises(store.OwnedError, other.take)
        with mock.patch.object(owner.RunOwner, "is_alive", lambda *_: False):
            other.take()
        self.assertRaises(store.OwnedError, self.service().run)

    def test_a_host_that_leaves_the_groups_leaves_its_trial(self):
        """It is open afterwards only if it was open before its trial and still may be."""
        self.add("new", **NEW)
        self.assert_open_after_leaving("in service without a verdict, and new", {"old1"})
        for name in ("old1", "new"):
            self.store.ask(name)
        self.assert_open_after_leaving("a verdict that still counts", {"old1", "new"})
        self.cloud.hosts["old1"].fingerprint = "another kernel"
        self.store.ask("new")
        self.assert_open_after_leaving("another fingerprint", {"new"})

    def assert_open_after_leaving(self, title, expected):
        """Let two hosts leave the groups in their trials, look at them, and let them come back."""
        names = ("old1", "new")
        running = self.service()
        while not self.in_trials().issuperset(names):
            running.run()
        for name in names:
            self.cloud.hosts[name].group = ""
        running.run()
        records = self.store.records()
        with self.subTest(title):
            self.assertEqual(set(), self.in_trials().intersection(names))
            self.assertEqual({"left_groups"}, {records[name].cause for name in names})
            self.assertEqual(expected, {name for name in names if self.cloud.lands(name)})
            for name in set(names) - expected:
                self.assertIn("no valid verdict", self.cloud.hosts[name].reason)
        for name in names:
            self.cloud.hosts[name].group = "all"
        self.passes()
        self.assertEqual({"admitted"}, set(self.states().values()))

    def in_trials(self):
        members = [aggregate.hosts for aggregate in self.cloud.aggregates()]
        return set().union(*members)

    def test_a_person_asks(self):
        self.passes()
        self.store.ask("old1")
        self.passes(1)
        self.assertEqual("suspect", self.states()["old1"])
        self.passes()
        causes = [move.cause for move in self.store.transitions() if move.host == "old1"]
        self.assertEqual(["asked_by_person", "passed"], [causes[-2], causes[-1]])
        self.assertEqual(frozenset(), self.store.asked())

    def test_verdicts_are_renewed(self):
        self.passes()
        right = store.AdmissionStore.now
        later = datetime.timedelta(days=8)
        with mock.patch.object(store.AdmissionStore, "now", lambda this: right(this) + later):
            self.passes(1)
            self.assertEqual({"expired"}, set(self.states().values()))
            self.assertEqual({traits.VALIDATED}, self.cloud.hosts["old1"].traits)
            self.passes()
        self.assertEqual({"admitted"}, set(self.states().values()))

    def test_a_host_that_comes_out_of_a_canary_is_the_next_canary(self):
        """Not one whose verdict no longer counts: it is about to be closed."""
        self.passes()
        left = self.cloud.make_aggregate("C1")
        self.cloud.require_trait(left, "CUSTOM_PERF_TRIAL_C1")
        for name in ("old2", "old3", "old4"):
            self.cloud.hosts[name].fingerprint = "B"
        self.cloud.join(left, "old1")
        self.policy = policy.AdmissionPolicy([policy.HostGroup("all", share=1)], retries=0)
        asked = []
        right = self.cloud.is_refused
        self.cloud.is_refused = lambda host: asked.append(host) or right(host)
        self.passes(1)
        self.assertEqual(["old1"], asked)
        self.assertTrue(self.cloud.lands("old1"))


class KillTest(ServiceCase):
    """Every kill at a change, before it and behind it; a new process then goes on."""

    def prepare(self):
        """Make a new host, one that will fail, one in quarantine that was repaired, one with another kernel."""
        self.validator.outcomes["old2"] = ["FAIL"]
        self.settle()
        self.add("new", **NEW)
        self.add("bad", **NEW)
        self.validator.outcomes["bad"] = ["FAIL"]
        for name in ("old1", "old2"):
            self.cloud.hosts[name].fingerprint = "B"
        self.cloud.changes = 0
        self.store.leave()
        self.store.close()
        self.kept = copy.deepcopy((self.cloud, self.validator))
        self.database = (self.directory / "runs.db").read_bytes()

    def begin(self, kill_at, behind):
        self.cloud, self.validator = copy.deepcopy(self.kept)
        self.validator.cloud = self.cloud
        self.cloud.watch = self.watch
        self.cloud.kill_at, self.cloud.kill_after = kill_at, behind
        (self.directory / "runs.db").write_bytes(self.database)
        self.store = store.AdmissionStore(self.url)
        self.store.take()

    def settle(self):
        """Make passes until there is nothing to do."""
        running = self.service()
        for _ in range(20):
            report = running.run()
            if not report.decision.moves and not self.cloud.trial_traits():
                return
        self.fail("it does not come to rest")

    def watch(self):
        """No guest may land where no valid verdict is, unless it could before anything was begun."""
        measured = {}
        for outcomes in self.validator.begun.values():
            for host, judged in outcomes.items():
                measured[host] = judged.outcome
        for name in ("new", "bad", "old2"):
            if self.cloud.lands(name) and measured.get(name) != "PASS":
                self.early.append((name, self.cloud.log[-1]))

    def test_no_kill_lets_a_guest_land_early(self):
        self.early = []
        self.prepare()
        self.begin(None, False)
        self.settle()
        steps = self.cloud.changes
        self.store.close()
        self.assertGreater(steps, 30)
        for number in range(1, steps + 1):
            self.begin(number, number % 2)
            self.assertRaises(admission_cloud.Killed, self.settle)
            self.watch()
            self.cloud.kill_at = None
            self.settle()
            states = self.states()
            self.store.close()
            self.assertEqual("quarantined", states.pop("bad"), number)
            self.assertEqual({"admitted"}, set(states.values()), number)
        self.assertEqual([], self.early)
