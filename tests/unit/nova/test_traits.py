# SPDX-License-Identifier: Apache-2.0
"""Traits and score that a result earns; Placement and scheduler are in tests/nova."""

import datetime
import logging
import os
import re

import fixtures
import hypothesis
from oslo_config import cfg

from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.nova import traits
from tests.support import directories, host_results, testcase


class Provider:
    """One compute node in Nova's ProviderTree; Nova's own class is in tests/nova."""

    def __init__(self, names):
        self.traits = set(names)

    def data(self, _nodename):
        return self

    def add_traits(self, _nodename, *names):
        self.traits |= set(names)

    def remove_traits(self, _nodename, *names):
        self.traits -= set(names)


class WantedTest(testcase.TestCase):
    def test_a_pass_and_each_passed_budget_earn_a_trait(self):
        budgets = {"net-10g": "PASS", "disk": "FAIL", "x": "INCONCLUSIVE"}
        for verdict, of_budgets, names in (
            ("PASS", {}, {"CUSTOM_PERF_VALIDATED"}),
            ("FAIL", budgets, {"CUSTOM_PERF_BUDGET_NET_10G"}),
            ("INVALID", budgets, set()),
        ):
            with self.subTest(verdict):
                result = host_results.result(verdict=verdict, budgets=of_budgets)
                self.assertEqual(names, traits.wanted(result))

    def test_budgets_that_share_a_trait_must_all_have_passed(self):
        budgets = {"a.b": "PASS", "a_b": "FAIL"}
        self.assertEqual(
            frozenset(), traits.wanted(host_results.result(verdict="FAIL", budgets=budgets))
        )
        budgets["a_b"] = "PASS"
        earned = traits.wanted(host_results.result(verdict="FAIL", budgets=budgets))
        self.assertEqual({"CUSTOM_PERF_BUDGET_A_B"}, earned)

    @hypothesis.given(host_results.RESULTS)
    def test_names_are_what_placement_takes(self, result):
        """https://docs.openstack.org/api-ref/placement/#update-trait"""
        for name in traits.wanted(result):
            self.assertTrue(re.fullmatch(r"CUSTOM_[A-Z0-9_]+", name) and len(name) <= 255, name)
            self.assertTrue(name.startswith(traits.PREFIX))


class ReportTest(directories.DirectoryCase):
    """One log line for each new reason, none of them an exception."""

    def setUp(self):
        super().setUp()
        self.conf = cfg.ConfigOpts()
        self.conf([], project="test", default_config_files=[], default_config_dirs=[])
        options.register_opts(self.conf)
        self.path = f"{self.directory}/verdict.json"
        self.set("result_file", self.path)
        self.log = self.useFixture(fixtures.FakeLogger(level=logging.INFO))
        self.traits = traits.HostTraits(self.conf)

    def set(self, name, value):
        """Set an option for this test; oslo.config keeps it in the group's object, which outlives ``conf``."""
        self.conf.set_override(name, value, group="nova_perf_tuning")
        self.addCleanup(self.conf.clear_override, name, group="nova_perf_tuning")

    def write(self, text):
        self.write_file("verdict.json", text)

    def fresh(self, **kwargs):
        return host_results.result(
            created_at=datetime.datetime.now(datetime.UTC), **kwargs
        ).to_json()

    def lines(self):
        return self.log.output.splitlines()

    def test_valid_score_is_a_statistic_of_the_host(self):
        for fields, stats in (
            ({"score": 97.53}, {"perf_score": "97.53"}),
            ({"score": 0}, {"perf_score": "0"}),
            ({"score": 97.53, "verdict": "INVALID"}, {}),
            ({}, {}),
        ):
            self.write(self.fresh(**fields))
            self.assertEqual(stats, self.traits.stats("cmp1"))

    def update(self, *present):
        """Return the traits of a compute node after an update; those of others are left alone."""
        provider = Provider({"HW_CPU_X86_AVX2", *present})
        self.traits.update_provider_tree(provider, "cmp1")
        return provider.traits - {"HW_CPU_X86_AVX2"}

    def test_traits_follow_the_result_file(self):
        validated, managed = traits.VALIDATED, traits.MANAGED
        self.assertEqual({validated}, self.update(validated), "set by hand, there is no file")
        self.write(self.fresh(verdict="PASS"))
        self.assertEqual({validated, managed}, self.update())
        self.assertEqual({validated, managed}, self.update("CUSTOM_PERF_BUDGET_OLD", validated))
        self.write(self.fresh(verdict="FAIL"))
        self.assertEqual({managed}, self.update(validated, managed))
        self.write("{")
        self.assertEqual({managed}, self.update(validated, managed))
        trial = f"{traits.TRIAL}0A"
        self.assertEqual({managed, trial}, self.update(validated, managed, trial))
        os.remove(self.path)
        self.assertEqual(set(), self.update(validated, managed))

    def test_a_change_of_traits_is_logged_and_nothing_else(self):
        self.write(self.fresh(verdict="PASS"))
        self.update(traits.VALIDATED, traits.MANAGED)
        self.assertEqual([], self.lines())
        self.update()
        self.assertEqual([f"Traits of cmp1: {traits.MANAGED}, {traits.VALIDATED}"], self.lines())
        os.remove(self.path)
        self.update(traits.MANAGED)
        self.assertEqual("Traits of cmp1: no CUSTOM_PERF_*", self.lines()[-1])

    def test_same_reason_is_said_once(self):
        for _ in range(3):
            self.assertEqual({}, self.traits.stats("cmp1"))
        self.assertEqual(1, len(self.lines()))
        self.assertIn("no validation result yet", self.lines()[0])
        self.write("{")
        for _ in range(3):
            self.assertIsNone(self.traits.result("cmp1"))
        self.assertEqual(2, len(self.lines()))
        self.assertIn(self.path, self.lines()[1])
        self.write(self.fresh())
        self.assertIsNotNone(self.traits.result("cmp1"))
        self.write("{")
        self.assertIsNone(self.traits.result("cmp1"))
        self.assertEqual(3, len(self.lines()))
