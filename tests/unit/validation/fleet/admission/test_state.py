# SPDX-License-Identifier: Apache-2.0
"""Properties of the state machine and of shares, on any fleet whatever state it is in."""

import datetime

from hypothesis import given, settings
from hypothesis import strategies as st

from nova_perf_tuning.validation.fleet.admission import capacity, model, policy, state
from tests.support import testcase

NOW = datetime.datetime(2026, 11, 30, 12)
STATES = [*model.AdmissionState, "marvellous"]
FINGERPRINTS = st.sampled_from(["A", "B", ""])
MOMENTS = st.integers(0, 60).map(lambda days: NOW - datetime.timedelta(days=days))
VERDICTS = st.builds(
    model.TrialVerdict,
    outcome=st.sampled_from(["PASS", "FAIL", "INCONCLUSIVE", "INVALID"]),
    fingerprint=FINGERPRINTS,
    at=MOMENTS,
)
POLICIES = st.builds(
    policy.AdmissionPolicy,
    groups=st.tuples(
        st.builds(
            policy.HostGroup,
            name=st.just("all"),
            share=st.sampled_from([0.05, 0.2, 0.5, 1.0]),
            keep=st.integers(0, 4),
            close_beyond_share=st.booleans(),
        )
    ),
    triggers=st.builds(
        policy.Triggers, new=st.booleans(), rebooted=st.booleans(), agent_degraded=st.booleans()
    ),
    retries=st.integers(0, 2),
    undecided_retries=st.integers(0, 2),
    invalid_retries=st.integers(0, 2),
    quarantine_days=st.sampled_from([0, 7]),
    max_trials=st.integers(1, 6),
)


@st.composite
def fleets(draw):
    """Draw what is seen, what is known, and measurements: consistent or not."""
    seen, records, runs = [], {}, {}
    for number in range(draw(st.integers(1, 12))):
        name = f"host{number}"
        disabled_by = draw(st.sampled_from(model.DisabledBy))
        host = model.SeenHost(
            name,
            "all",
            up=draw(st.booleans()),
            enabled=disabled_by is model.DisabledBy.NOBODY,
            disabled_by=disabled_by,
            mapped=draw(st.integers(0, 9)) > 0,
            fingerprint=draw(FINGERPRINTS),
            boot=draw(st.sampled_from(["1", "2", ""])),
            published=draw(st.booleans()),
            isolated=draw(st.booleans()),
            degraded=draw(st.booleans()),
            asked=draw(st.booleans()),
        )
        seen.append(host)
        if not draw(st.booleans()):
            continue
        records[name] = model.HostRecord(
            name,
            str(draw(st.sampled_from(STATES))),
            draw(MOMENTS),
            draw(st.sampled_from(model.Cause)).value,
            served=draw(st.booleans()),
            verdict=draw(st.none() | VERDICTS),
            fails=draw(st.integers(0, 3)),
            token=draw(st.sampled_from(["T1", "T2"])),
            attempt=1,
            fingerprint=draw(FINGERPRINTS),
            begun=NOW,
        )
        outcomes = draw(st.sampled_from(["absent", "running", "done"]))
        if outcomes == "running":
            runs[records[name].run_key] = None
        elif outcomes == "done":
            runs[records[name].run_key] = {name: draw(VERDICTS)}
    return seen, records, runs


class StateTest(testcase.TestCase):
    @settings(max_examples=200, deadline=None)
    @given(fleets(), POLICIES)
    def test_properties(self, fleet, chosen):
        seen, records, runs = fleet
        moment = state.Moment(chosen, NOW, runs)
        decision = capacity.decide(moment, seen, records, "FRESH")
        by_name = {host.name: host for host in seen}
        moved = [move.after.host for move in decision.moves]
        self.assertEqual(len(moved), len(set(moved)))
        self.assertEqual(set(by_name), {*moved, *decision.holds})
        for move in decision.moves:
            self.check_move(move, by_name[move.after.host], chosen)
        self.check_shares(decision, by_name, records, chosen)
        for name, record in records.items():
            if record.state == "marvellous" and by_name[name].mapped:
                self.assertEqual(model.Cause.UNKNOWN_STATE, decision.holds[name])

    def check_move(self, move, host, chosen):
        self.assertTrue(host.mapped)
        after = move.after
        if model.AdmissionState.ADMITTED == after.state or move.action is model.Action.ADMIT:
            self.assertEqual(model.Action.ADMIT, move.action)
            self.assertEqual("validating", move.before.state)
            self.assertTrue(
                after.is_valid(host.fingerprint, NOW, chosen.triggers.max_age_days),
                "enabled without a valid verdict of this fingerprint",
            )
        if host.disabled_by is model.DisabledBy.OTHERS:
            self.assertIn(move.action, (model.Action.NONE, model.Action.WITHDRAW))
        if move.action is model.Action.OPEN_TRIAL:
            self.assertTrue(after.token and after.attempt)
        if move.action is model.Action.WITHDRAW:
            self.assertTrue(host.published)
        if move.action is model.Action.NONE and after.cause != model.Cause.DOWN:
            self.assertNotIn(after.state, ("validating", "admitted"))
        if move.action is model.Action.CLOSE:
            self.assertTrue(host.serves and host.fingerprint)
            self.assertFalse(
                after.is_valid(host.fingerprint, NOW, chosen.triggers.max_age_days),
                "it was proven",
            )

    def check_shares(self, decision, by_name, records, chosen):
        """What others have taken out of service is theirs; no move of ours makes it more than allowed."""
        group = chosen.groups[0]
        capacity_hosts = {name for name, record in records.items() if record.served}
        out, taken, opened, beyond = 0, 0, 0, 0
        for name in capacity_hosts:
            is_in_trial = records[name].state == "validating"
            out += not by_name[name].serves or is_in_trial
        for move in decision.moves:
            closes = move.action is model.Action.CLOSE
            taken += closes and move.after.host in capacity_hosts
            beyond += move.after.host in decision.unproven
            is_new = move.before is not None and move.before.state != "validating"
            if move.action is not model.Action.OPEN_TRIAL or not is_new:
                continue
            opened += 1
            taken += by_name[move.after.host].serves and move.after.host in capacity_hosts
        in_trial = [record for record in records.values() if record.state == "validating"]
        self.assertLessEqual(opened, max(0, chosen.max_trials - len(in_trial)))
        if taken:
            if not (group.close_beyond_share and beyond):
                self.assertLessEqual(out + taken, group.most_out(len(capacity_hosts)))
            self.assertGreaterEqual(len(capacity_hosts) - out - taken, min(group.keep, 1))

    @given(fleets(), POLICIES)
    def test_the_same_again(self, fleet, chosen):
        """The decision follows from what holds alone."""
        seen, records, runs = fleet
        moment = state.Moment(chosen, NOW, runs)
        first = capacity.decide(moment, seen, records, "FRESH")
        self.assertEqual(first, capacity.decide(moment, seen, records, "FRESH"))

    @given(fleets(), POLICIES)
    def test_outside_the_windows_no_trial_begins(self, fleet, chosen):
        seen, records, runs = fleet
        window = policy.TimeWindow([0], datetime.time(1), datetime.time(2))
        closed = policy.AdmissionPolicy(chosen.groups, windows=[window])
        decision = capacity.decide(state.Moment(closed, NOW, runs), seen, records, "FRESH")
        asked = {host.name for host in seen if host.asked}
        for move in decision.moves:
            is_begun = move.before is move.after or move.after.host in asked
            self.assertTrue(is_begun or move.action is not model.Action.OPEN_TRIAL)
