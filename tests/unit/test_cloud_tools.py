"""Wrong usage of tools/cloud: one line and exit code 3 as everywhere, and nothing is made."""

import os
import pathlib
import shutil
import subprocess

import fixtures
import testtools

TOP = pathlib.Path(__file__).parents[2]


class UsageTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        os.chmod(self.folder, 0o777)  # so that any user could make something in it

    def copy(self):
        """Return a tree with the same tools that any user can read."""
        top = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        os.chmod(top, 0o755)
        shutil.copytree(TOP / "tools", top / "tools")
        return top

    def call(self, name, *arguments, top=TOP, **how):
        return subprocess.run(
            [str(top / "tools" / "cloud" / name), *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "NOVA_PERF_CLOUD": f"{self.folder}/state"},
            **how,
        )

    def test_wrong_usage_is_one_line_and_exit_3(self):
        for arguments, told in (
            (("up", "--hosts", "3"), "--hosts: invalid choice: 3"),
            (("run", "--host", "3", "--", "true"), "--host: invalid choice: 3"),
            (("run",), "no command given; see --help"),
            (("status", "-f", "xml"), "invalid choice: 'xml'"),
            (("down", "--nosuch"), "unrecognized arguments: --nosuch"),
        ):
            done = self.call(*arguments)
            self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")), done.stderr)
            self.assertIn(told, done.stderr)
        self.assertEqual([], os.listdir(self.folder))

    def test_no_credentials_of_a_cloud_that_is_not_there(self):
        done = self.call("openrc", "--state", f"{self.folder}/nowhere")
        self.assertEqual((3, ""), (done.returncode, done.stdout))
        self.assertIn(f"{self.folder}/nowhere: no cloud runs here; start one with tools/cloud/up", done.stderr)

    def test_who_is_not_root_leaves_nothing(self):
        nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
        done = self.call("up", top=self.copy(), **nobody)
        self.assertEqual(3, done.returncode, done.stderr)
        self.assertIn("only root can start a cloud", done.stderr)
        self.assertEqual([], os.listdir(self.folder))
