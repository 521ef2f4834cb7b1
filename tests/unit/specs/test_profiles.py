# SPDX-License-Identifier: Apache-2.0
"""Shipped and operator-made profiles."""

import pathlib

from nova_perf_tuning.specs import parsing, profiles
from tests.support import directories, testcase

GOOD = """
name: mine
description: Something.
specs:
  "perf:iothreads": {value: 3, reason: because}
  "perf:vif_host_offload.ufo": {value: false, reason: because}
  "hw:mem_page_size": {value: 1GB, reason: because, basis: measured}
"""


class ShippedTest(testcase.TestCase):
    def test_aliases_are_refused(self):
        """Nine lists of nine aliases each are 387,420,489 values."""
        for text in ("a: &x [1]\nb: *x\n", "a: &x {c: 1}\nb:\n  <<: *x\n"):
            error = self.assertRaises(profiles.ProfileError, profiles.load_yaml, text, "mine.yaml")
            self.assertIn("mine.yaml: line ", str(error))
            self.assertIn("an alias (*name) is not allowed; write the value out", str(error))

    def test_numbers_of_many_digits_are_refused(self):
        """Python prints no integer of more than 4300 digits, and takes seconds for one of a megabyte."""
        for number in (
            "0x" + "f" * 6000,
            "1" + ":1" * 20_000,
            "1" + ":1" * 20_000 + ".5",
            "9" * 5000,
        ):
            error = self.assertRaises(
                profiles.ProfileError, profiles.load_yaml, f"a: {number}", "mine.yaml"
            )
            self.assertIn(
                "mine.yaml: line 1: not usable YAML: a number has at most 40 characters",
                str(error),
            )
        read = profiles.load_yaml(
            "{a: 0xff, b: 1.5, c: 1:30, d: '" + "9" * 5000 + "'}", "mine.yaml"
        )
        self.assertEqual((255, 1.5, 90, "9" * 5000), tuple(read.values()))

    def test_a_tag_that_does_not_fit_is_one_line(self):
        for text in (
            "a: !!int ''",
            "a: !!bool x",
            "a: !!timestamp x",
            "a: !!float ''",
            "a: !!int x",
        ):
            with self.subTest(text):
                error = self.assertRaises(
                    profiles.ProfileError, profiles.load_yaml, text, "mine.yaml"
                )
                self.assertIn("mine.yaml: not usable YAML: ", str(error))

    def test_shipped_profiles_are_the_documented_ones(self):
        expected = {
            "network-throughput",
            "network-latency",
            "storage",
            "compute",
            "windows",
            "balanced",
            "ai",
        }
        self.assertEqual(expected, set(profiles.shipped()))

    def test_shipped_files_pass_the_schema(self):
        directory = pathlib.Path(profiles.__file__).parent / "profiles"
        for path in directory.glob("*.yaml"):
            profile = profiles.parse(path.read_text(encoding="utf-8"), str(path))
            self.assertEqual(path.stem, profile.name)
            self.assertEqual(profiles.shipped()[path.stem], profile)
            for key, spec in profile.specs.items():
                self.assertIn(spec.basis, ("rule", "practice", "measured"), key)

    def test_no_free_page_reporting_with_memory_of_its_own(self):
        own = {
            name
            for name, profile in profiles.shipped().items()
            if "hw:cpu_policy" in profile.specs
        }
        self.assertEqual({"ai", "compute", "network-latency"}, own)
        for name in own:
            self.assertIs(False, parsing.parse({"perf:profile": name}).free_page_reporting, name)


class ParseTest(testcase.TestCase):
    def error(self, text):
        return str(self.assertRaises(profiles.ProfileError, profiles.parse, text, "mine.yaml"))

    def test_good_profile_is_read_whole(self):
        profile = profiles.parse(GOOD, "mine.yaml")
        self.assertEqual(
            {
                "perf:iothreads": "3",
                "perf:vif_host_offload.ufo": "false",
                "hw:mem_page_size": "1GB",
            },
            {key: spec.value for key, spec in profile.specs.items()},
        )
        self.assertEqual(
            {"ufo": False},
            parsing.parse({"perf:profile": "mine"}, {}, {"mine": profile}).vif_host_offload,
        )

    def test_errors_name_file_and_key(self):
        for wrong, *words in (
            (GOOD.replace("value: 3", "value: 99"), "perf:iothreads=99", "0 to 16"),
            (
                GOOD.replace("perf:iothreads", "perf:iothread"),
                "perf:iothread",
                "did you mean perf:iothreads?",
            ),
            (GOOD.replace("hw:mem_page_size", "quota:cpu"), "quota:cpu", "neither"),
            (
                GOOD.replace("perf:iothreads", "perf:profile").replace(
                    "value: 3", "value: storage"
                ),
                "another profile",
            ),
            (GOOD.replace("name: mine", "name: ../mine"), "name"),
            (GOOD.replace("name: mine\n", ""), "'name' is a required property"),
            (GOOD.replace("reason: because", "why: because", 1), "perf:iothreads"),
            (GOOD + "speed: 9\n", "speed"),
            (GOOD + '  "perf:iothreads": {value: 4, reason: x}\n', "line", "twice"),
            (GOOD.replace("value: 3", "value: [3]"), "perf:iothreads", "value"),
            (GOOD.replace('"perf:iothreads"', "7"), "7"),
            ("specs: !!python/object/apply:os.system [id]\n", "not usable YAML"),
            ("[" * 20000, "not usable YAML"),
            ("", "not of type 'object'"),
            ("a: \x07\n", "not usable YAML"),
        ):
            with self.subTest(wrong):
                message = self.error(wrong)
                self.assertTrue(message.startswith("mine.yaml: "), message)
                for word in words:
                    self.assertIn(word, message)
                self.assertTrue(message.isprintable(), message)


class DirectoryTest(directories.DirectoryCase):
    def error(self):
        return str(self.assertRaises(profiles.ProfileError, profiles.load, str(self.directory)))

    def test_own_profiles_come_beside_the_shipped(self):
        (self.directory / "mine.yaml").write_text(GOOD, encoding="utf-8")
        (self.directory / "README").write_text("no profile", encoding="utf-8")
        self.assertEqual(
            set(profiles.shipped()) | {"mine"}, set(profiles.load(str(self.directory)))
        )

    def test_a_shipped_profile_stays(self):
        path = self.directory / "storage.yaml"
        path.write_text(GOOD.replace("mine", "storage"), encoding="utf-8")
        self.assertIn(f"{path}: name: 'storage' is in ", self.error())

    def test_files_are_read_anew_when_they_have_changed(self):
        for number in (3, 40):
            with self.subTest(number):
                text = GOOD.replace(
                    '"perf:iothreads": {value: 3', f'"perf:disk_queues": {{value: {number}'
                )
                (self.directory / "mine.yaml").write_text(text, encoding="utf-8")
                spec = profiles.load(str(self.directory))["mine"].specs["perf:disk_queues"]
                self.assertEqual(str(number), spec.value)

    def test_a_name_twice(self):
        for name in ("a.yaml", "b.yml"):
            (self.directory / name).write_text(GOOD, encoding="utf-8")
        self.assertIn(f"'mine' is in {self.directory}/a.yaml as well", self.error())

    def test_missing_profile_directory_is_refused(self):
        self.directory /= "missing"
        self.assertIn(f"profile directory {self.directory}: No such file", self.error())
