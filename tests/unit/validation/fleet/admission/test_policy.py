# SPDX-License-Identifier: Apache-2.0
"""The policy file: read whole or refused with all its faults."""

import datetime

from nova_perf_tuning.validation.fleet.admission import policy
from nova_perf_tuning.validation.results import schema
from tests.support import directories

WHOLE = """
schema: 1
groups:
  - name: network
    aggregates: [net-*]
    budget: default
    share: 0.1
    keep: 3
  - name: others
triggers: {rebooted: true, renew_after_days: 10, max_age_days: 14}
windows:
  - {days: [sat, sun], from: "00:00", to: "23:59"}
  - {from: "22:00", to: "05:00"}
retries: 0
undecided_retries: 1
quarantine_days: 0
max_trials: 8
enable_reasons: [burn-in]
"""


class PolicyTest(directories.DirectoryCase):
    def load(self, text):
        return policy.load(self.write_file("policy.yaml", text))

    def refused(self, text):
        return str(self.assertRaises(schema.InputError, self.load, text))

    def test_a_whole_one(self):
        read = self.load(WHOLE)
        self.assertEqual("network", read.group("a", "nova", ["net-1"]).name)
        self.assertEqual("others", read.group("a", "nova", []).name)
        self.assertEqual((True, 14), (read.triggers.rebooted, read.triggers.max_age_days))
        self.assertEqual(["burn-in"], read.enable_reasons)

    def test_all_faults_at_once(self):
        line = self.refused(
            "schema: 1\ngroups: [{name: a, share: 2}, {label: b}]\nretries: -1\nfoo: 1\n"
        )
        for part in ("share", "label", "retries", "foo"):
            self.assertIn(part, line)

    def test_contradictions_at_once(self):
        line = self.refused(
            "schema: 1\n"
            "groups: [{name: a, share: 0.6}, {name: a, hosts: [x], budget: /missing.yaml}]\n"
            "triggers: {renew_after_days: 30, max_age_days: 30}\n"
            "windows: [{from: '01:00', to: '01:00'}]\n"
            "enable_reasons: ['nova-perf: x']\n"
        )
        for part in (
            "allow_whole_group: true",
            "another group",
            "move it last",
            "renew_after_days",
            "same time",
            "reasons of this program",
            "/missing.yaml",
        ):
            self.assertIn(part, line)

    def test_a_word_allows_a_whole_group(self):
        read = self.load("schema: 1\ngroups: [{name: a, share: 1, allow_whole_group: true}]\n")
        self.assertEqual([0, 1, 10], [read.groups[0].most_out(size) for size in (0, 1, 10)])

    def test_how_many_may_be_out(self):
        for share, keep, size, most in (
            (0.05, 0, 1000, 50),
            (0.05, 0, 10, 1),
            (0.05, 0, 1, 0),
            (0.05, 10, 10, 0),
            (0.5, 8, 10, 2),
            (0.5, 20, 10, 0),
        ):
            with self.subTest(share=share, keep=keep, size=size):
                group = policy.HostGroup("a", share=share, keep=keep)
                self.assertEqual(most, group.most_out(size))

    def test_windows(self):
        read = self.load(WHOLE)
        for day, time, is_open in (
            (28, "12:00", True),  # a Saturday
            (30, "12:00", False),
            (30, "22:00", True),
            (30, "04:59", True),
            (30, "05:00", False),
        ):
            with self.subTest(day=day, time=time):
                moment = datetime.datetime.fromisoformat(f"2026-11-{day}T{time}")
                self.assertEqual(is_open, read.is_open(moment))
        self.assertTrue(policy.AdmissionPolicy([]).is_open(moment))

    def test_options_that_a_trial_cannot_have(self):
        for words, fault in (
            ("[--hosts, a]", "sets --hosts itself"),
            ("[--budget=b.yaml]", "sets --budget itself"),
            ("[--flavor, bench]", "leave out --flavor"),
            ("[--flavor=bench]", "leave out --flavor"),
        ):
            with self.subTest(words=words):
                line = self.refused(f"schema: 1\ngroups: [{{name: a, validate: {words}}}]\n")
                self.assertIn(fault, line)
        self.load("schema: 1\ngroups: [{name: a, validate: [--profile, balanced]}]\n")
