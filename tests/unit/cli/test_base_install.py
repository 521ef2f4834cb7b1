# SPDX-License-Identifier: Apache-2.0
"""An environment without the extras: help is whole, and what lacks a package ends with 3 and one line."""

import re
import sys

from tests.support import directories, patience

EXTRAS = ("jinja2", "numpy", "scipy", "sqlalchemy", "alembic", "tenacity", "openstack", "osc_lib")
_CODE = f"import sys; sys.modules.update(dict.fromkeys({EXTRAS}))\n"
_CODE += "from nova_perf_tuning.cli import main; sys.exit(main.main(sys.argv[1:]))"


class BaseInstallTest(directories.DirectoryCase):
    def run_base(self, *words):
        return patience.run([sys.executable, "-c", _CODE, *words])

    def test_help_is_whole(self):
        done = self.run_base("--help")
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        self.assertNotIn("Could not", done.stdout)
        self.assertTrue(re.search("^  validate +Measure", done.stdout, re.MULTILINE), done.stdout)

    def test_validate_and_report_say_what_is_missing(self):
        """No result of an earlier run stays where it could be taken for one of this run."""
        results, report = (self.write_file(name, "{}") for name in ("results.json", "report.html"))
        done = self.run_base("validate", "--output", str(self.directory))
        self.assertEqual((3, ""), (done.returncode, done.stdout))
        self.assertIn("jinja2 is missing; install nova-perf-tuning[validation]\n", done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        for file in (results, report):
            self.assertFalse((self.directory / file).exists(), file)
        names = {path.name for path in self.directory.iterdir()}
        self.assertEqual({"results.previous.json", "report.previous.html"}, names)
