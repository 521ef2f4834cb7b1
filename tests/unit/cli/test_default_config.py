# SPDX-License-Identifier: Apache-2.0
"""Commands read the configuration file that the agent reads by itself."""

import argparse
from unittest import mock

from nova_perf_tuning.agent import state as agent_module
from nova_perf_tuning.cli import status
from nova_perf_tuning.cli.options import journal as journal_options
from nova_perf_tuning.conf import opts
from tests.support import agent_samples, directories, program, sysroots


class DefaultConfigTest(directories.DirectoryCase):
    def setUp(self):
        super().setUp()
        self.config = self.directory / "default.conf"
        self.enterContext(mock.patch.object(opts, "CONFIG", str(self.config)))
        self.config.write_text(
            f"[nova_perf_tuning]\nstate_dir = {self.directory}/state\n[agent]\nrun_dir = {self.directory}/run\n"
        )
        (self.directory / "run").mkdir()
        agent_module.write(
            str(self.directory / "run"), agent_samples.agent_state(pid=1, pid_start="0")
        )

    def args(self, *words):
        parser = argparse.ArgumentParser()
        journal_options.add_journal(parser)
        return parser.parse_args(words)

    def test_state_and_run_dir(self):
        self.assertEqual("nova-perf restore", journal_options.command_line(self.args()))
        out = program.shown(self, "status")
        self.assertIn(f"journal: {self.directory}/state/journal.sqlite", out)
        self.assertIn("agent: process 1 was killed", out)

    def test_a_flag_wins_and_without_the_file_there_are_defaults(self):
        self.assertEqual("/x", journal_options.directory(self.args("--state-dir", "/x")))
        self.config.unlink()
        self.assertEqual("/var/lib/nova-perf-tuning", journal_options.directory(self.args()))

    def test_it_is_of_the_live_host(self):
        root = sysroots.make_host(self)
        self.assertEqual(
            f"{root}/var/lib/nova-perf-tuning",
            journal_options.directory(self.args("--sysroot", root)),
        )
        self.assertIsNone(status.agent_state(self.args("--sysroot", root)))
        self.assertEqual([], opts.default_files(root))

    def test_one_that_cannot_be_used_does_not_mean_the_defaults(self):
        self.config.unlink()
        self.config.mkdir()
        error = self.assertRaises(opts.ConfigError, journal_options.directory, self.args())
        self.assertIn(str(self.config), str(error))
        program.refused(self, "status")
