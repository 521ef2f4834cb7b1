# SPDX-License-Identifier: Apache-2.0
"""Plug-ins of other packages that are broken: ours go on, and who needs one reads why it is not there."""

from importlib import metadata

import fixtures

from nova_perf_tuning import entry_points
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.kinds import registry
from tests.support import testcase


class BrokenTest(testcase.TestCase):
    def install(self, group: str, name: str, value: str) -> None:
        """Let ``name`` be the only plug-in that other packages bring."""
        entry = metadata.EntryPoint(name, value, group)
        self.useFixture(fixtures.MockPatchObject(metadata, "entry_points", lambda group: [entry]))
        for forget in (
            entry_points.forget,
            registry._classes.cache_clear,
            runner.load.cache_clear,
        ):
            forget()
            self.addCleanup(forget)
        self.log = self.useFixture(fixtures.FakeLogger())

    def test_a_setting_that_cannot_be_imported_takes_no_other_along(self):
        ours = set(registry.kinds())
        for value in ("nova_perf_tuning.not_there:Kind", "json:loads"):
            with self.subTest(value):
                self.install(registry.GROUP, "broken", value)
                self.assertEqual(ours, set(registry.kinds()))
        self.install(registry.GROUP, "broken", "nova_perf_tuning.not_there:Kind")
        registry.kinds()
        self.assertIn("'broken' cannot be imported: ", self.log.output)

    def test_the_audit_names_a_rule_that_cannot_be_used(self):
        for value, said in (
            ("nova_perf_tuning.not_there:Rule", "rule 'broken' cannot be imported: "),
            ("json:loads", "is not a rule of that name"),
        ):
            with self.subTest(value):
                self.install(runner.GROUP, "broken", value)
                error = self.assertRaises(runner.AuditError, runner.load)
                self.assertIn(said, str(error))
