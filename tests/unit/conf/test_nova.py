# SPDX-License-Identifier: Apache-2.0
"""Options that Nova's services read."""

import datetime
import pathlib

from oslo_config import cfg, generator

from nova_perf_tuning.conf import nova
from tests.support import directories


class OptionsTest(directories.DirectoryCase):
    def test_registered_twice_as_driver_and_weigher_do(self):
        conf = cfg.ConfigOpts()
        nova.register_opts(conf)
        nova.register_opts(conf)
        conf([], project="test", default_config_files=[], default_config_dirs=[])
        self.assertEqual("fail", conf.nova_perf_tuning.on_error)
        self.assertEqual(
            "/var/lib/nova-perf-tuning/verdict.json", conf.nova_perf_tuning.result_file
        )

    def test_sample_has_every_option(self):
        path = self.directory / "sample.conf"
        source = pathlib.Path(__file__).parents[3] / "etc" / "config-generator.conf"
        generator.main(["--config-file", str(source), "--output-file", str(path)])
        sample = path.read_text()
        self.assertIn("[nova_perf_tuning]\n", sample)
        for option in nova.OPTS:
            self.assertRegex(sample, rf"(?m)^#{option.name} = ")


class MistakesTest(directories.DirectoryCase):
    def mistakes(self, **values):
        """Return option -> what is said of it, for a file with these values."""
        lines = [f"{name} = {value}\n" for name, value in values.items()]
        path = self.write_file("nova.conf", "".join(["[nova_perf_tuning]\n", *lines]))
        conf = cfg.ConfigOpts()
        nova.register_opts(conf)
        conf(["--config-file", path], project="test", default_config_dirs=[])
        return nova.mistakes(conf)

    def test_sound_options_have_no_mistakes(self):
        self.assertEqual({}, self.mistakes())
        self.assertEqual(
            {}, self.mistakes(on_error="ignore", result_max_age=60, profile_dir="/nowhere")
        )
        self.assertEqual({}, self.mistakes(profile_dir=""))

    def test_each_has_one_line_that_names_option_and_value(self):
        for name, value in (
            ("on_error", "ignor"),
            ("on_error", "\u0456gnore"),
            ("result_max_age", "30 days"),
            ("result_max_age", "-1"),
            ("result_max_age", "9" * 30),
            ("perf_weight_multiplier", "1,5"),
            ("result_max_age", ""),
            ("result_file", ""),
        ):
            with self.subTest(name):
                ((option, line),) = self.mistakes(**{name: value}).items()
                self.assertEqual(name, option)
                self.assertTrue(line.startswith(f"[nova_perf_tuning] {name}: "), line)
                self.assertTrue(line.isprintable() and len(line) < 600, line)

    def test_longest_age_is_one_that_a_date_can_hold(self):
        (option,) = (option for option in nova.OPTS if option.name == "result_max_age")
        age = datetime.timedelta(seconds=option.type.max)
        self.assertTrue(datetime.datetime.now(datetime.UTC) - age)
