"""Options that Nova's services read."""

import os
import pathlib

import fixtures
import testtools
from oslo_config import cfg, generator

from nova_perf_tuning.conf import host, nova


class OptionsTest(testtools.TestCase):
    def test_registered_twice_as_driver_and_weigher_do(self):
        conf = cfg.ConfigOpts()
        nova.register_opts(conf)
        nova.register_opts(conf)
        host.register_opts(conf)
        conf([], project="test", default_config_files=[], default_config_dirs=[])
        self.assertEqual("fail", conf.nova_perf_tuning.on_error)
        self.assertEqual("/var/lib/nova-perf-tuning/verdict.json", conf.nova_perf_tuning.result_file)

    def test_help_is_more_than_a_line(self):
        for option in nova.OPTS:
            self.assertTrue(option.help.count("\n\n") >= 2, option.name)

    def test_sample_has_every_option(self):
        path = os.path.join(self.useFixture(fixtures.TempDir()).path, "sample.conf")
        source = pathlib.Path(__file__).parents[3] / "etc" / "config-generator.conf"
        generator.main(["--config-file", str(source), "--output-file", path])
        with open(path) as file:
            sample = file.read()
        self.assertIn("[nova_perf_tuning]\n", sample)
        for option in nova.OPTS:
            self.assertRegex(sample, rf"(?m)^#{option.name} = ")
