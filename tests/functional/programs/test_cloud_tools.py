# SPDX-License-Identifier: Apache-2.0
"""Wrong usage of tools/cloud: one line and exit code 3 as everywhere, and nothing is made."""

import os
import pathlib

from tests.support import directories, patience

TOP = pathlib.Path(__file__).parents[3]


class UsageTest(directories.DirectoryCase):
    def call(self, name, *arguments):
        environment = {**os.environ, "NOVA_PERF_CLOUD": f"{self.directory}/state"}
        return patience.run([TOP / "tools" / "cloud" / name, *arguments], env=environment)

    def test_wrong_usage_is_one_line_and_exit_3(self):
        for arguments, words in (
            (("up", "--hosts", "3"), "--hosts: invalid choice: 3"),
            (("run", "--host", "3", "--", "true"), "--host: invalid choice: 3"),
            (("run",), "no command given; see --help"),
            (("status", "-f", "xml"), "invalid choice: 'xml'"),
            (("down", "--nosuch"), "unrecognized arguments: --nosuch"),
        ):
            with self.subTest(arguments):
                done = self.call(*arguments)
                self.assertEqual(
                    (3, "", 1),
                    (done.returncode, done.stdout, done.stderr.count("\n")),
                    done.stderr,
                )
                self.assertIn(words, done.stderr)
        self.assertEqual([], os.listdir(self.directory))

    def test_no_credentials_of_a_cloud_that_is_not_there(self):
        done = self.call("openrc", "--state", f"{self.directory}/nowhere")
        self.assertEqual((3, ""), (done.returncode, done.stdout))
        self.assertIn(
            f"{self.directory}/nowhere: no cloud runs here; start one with tools/cloud/up",
            done.stderr,
        )
