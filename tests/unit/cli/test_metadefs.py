"""nova-perf metadefs as an operator runs it; a real Glance is in tests/nova."""

import json
import os

import fixtures
import testtools

from nova_perf_tuning.metadefs import definitions
from tests.unit.cli import program


class MetadefsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path

    def run_command(self, *arguments):
        """Run without anything of a cloud in the environment."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        clean |= {"HOME": self.folder, "XDG_CONFIG_HOME": self.folder}
        return program.nova_perf("metadefs", *arguments, env=clean)

    def test_show(self):
        done = self.run_command("show", "-f", "json")
        self.assertEqual(["", 0], [done.stderr, done.returncode])
        self.assertEqual(list(definitions.namespaces().values()), json.loads(done.stdout)["namespaces"])
        done = self.run_command("show")
        for key in ("perf:iothreads", "perf:vif_host_offload.csum", "hw_perf_vif_host_offload_csum"):
            self.assertIn(key, done.stdout)

    def test_write(self):
        folder = os.path.join(self.folder, "written")
        os.mkdir(folder)
        self.assertEqual(0, self.run_command("show", "--write", folder).returncode)
        for name, entry in definitions.namespaces().items():
            with open(os.path.join(folder, name)) as file:
                self.assertEqual(definitions.text(entry), file.read())
        self.assertEqual(sorted(definitions.namespaces()), sorted(os.listdir(folder)))

    def test_write_to_nowhere_is_one_line(self):
        self.refused("/nonexistent", "show", "--write", "/nonexistent")

    def test_load_without_a_cloud_is_one_line(self):
        self.refused("auth_url", "load")
        self.refused("no-such", "load", "--os-cloud", "no-such")

    def refused(self, words, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(["", 3], [done.stdout, done.returncode], done.stderr)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        self.assertIn(words, done.stderr)
