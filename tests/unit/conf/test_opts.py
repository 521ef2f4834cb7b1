# SPDX-License-Identifier: Apache-2.0
"""Configuration files of the agent and the commands: what is refused, and how."""

import os

from nova_perf_tuning.conf import opts
from tests.support import directories


class LoadTest(directories.DirectoryCase):
    def refused(self, text, *words):
        path = self.write_file("x.conf", text.encode("latin-1"))
        line = str(self.assertRaises(opts.ConfigError, opts.load, [path]))
        for word in (path, *words):
            self.assertIn(word, line)
        for word in ("\n", "LocationInfo", "<"):
            self.assertNotIn(word, line)
        return line

    def test_values_that_are_empty_or_no_directory(self):
        for key in ("interval", "rewrite_limit", "metrics_port"):
            self.refused(f"[agent]\n{key} =\n", f"[agent] {key}: it is empty")
        for group, key in (("nova_perf_tuning", "state_dir"), ("agent", "run_dir")):
            for value in ("", "x/y"):
                self.refused(
                    f"[{group}]\n{key} = {value}\n", f"[{group}] {key}: ", "correct or remove"
                )

    def test_what_oslo_config_refuses_names_the_key_and_the_remedy(self):
        for line, words in (
            ("interval = soon", "correct or remove the line"),
            ("interval = 0", "0.5"),
            ("on_stop = explode", "leave"),
            ("rps =", "correct or remove"),
            ("metrics_address = !", "correct or remove"),
        ):
            self.refused(f"[agent]\n{line}\n", f"[agent] {line.split()[0]}: ", words)
        self.refused("nothing\n", "correct that line")

    def test_files_that_are_none(self):
        self.refused("[agent]\n# gr\xfcn\n", "not UTF-8 text")
        for make, word in ((os.mkdir, "directory"), (os.mkfifo, "not a plain file")):
            with self.subTest(make):
                path = f"{self.directory}/{make.__name__}.conf"
                make(path)
                self.assertIn(word, str(self.assertRaises(opts.ConfigError, opts.load, [path])))

    def test_no_other_source_is_fetched(self):
        """oslo.config would fetch the address, as root."""
        for key in ("config_source", "config-source"):
            self.refused(
                f"[DEFAULT]\n{key} = far\n[far]\ndriver = remote_file\nuri = http://192.0.2.1/x\n",
                "config_source",
            )

    def test_empty_where_that_means_something(self):
        path = self.write_file("x.conf", "[agent]\nhousekeeping =\n")
        self.assertFalse(opts.load([path]).agent.housekeeping)
