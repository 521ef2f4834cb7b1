# SPDX-License-Identifier: Apache-2.0
"""nova.conf as nova-compute reads it, and what goes wrong with it."""

from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.plan.layout import CpuSets
from tests.support import directories


class NovaConfTest(directories.DirectoryCase):
    def files(self, *texts):
        return [self.write_file(f"{number}.conf", text) for number, text in enumerate(texts)]

    def test_sets_and_power_management(self):
        [path] = self.files(
            "[compute]\ncpu_dedicated_set = 4-15,\t^8\ncpu_shared_set=0-3\n[libvirt]\ncpu_power_management = yes\n"
        )
        self.assertEqual(CpuSets("4-7,9-15", "0-3", None, True), novaconf.read([path]))

    def test_a_later_file_wins_option_by_option(self):
        paths = self.files(
            "[compute]\ncpu_dedicated_set = 4-15\ncpu_shared_set = 0\n[libvirt]\ncpu_power_management = yes\n",
            f"[compute]\ncpu_dedicated_set={'2,' * 3000}3\n[libvirt]\ncpu_power_management_strategy = governor\n",
        )
        self.assertEqual(CpuSets("2-3", "0", None, False), novaconf.read(paths))

    def test_the_audit_passes_over_what_is_no_option(self):
        """The same reader; a wrong line costs itself alone."""
        text = "  x\n[compute\ngarbage\n[compute]\ncpu_shared_set = 1,\n  3\n= 4\ncpu_dedicated_set = 5\n"
        options = novaconf.merge([("a", text), ("b", "[compute]\ncpu_dedicated_set = 6-x\n")])
        self.assertEqual({1, 3}, novaconf.cpu_set(options, novaconf.SHARED))
        self.assertIsNone(novaconf.cpu_set(options, novaconf.DEDICATED))
        self.assertEqual(
            "b [compute] cpu_dedicated_set", options["compute", "cpu_dedicated_set"].source
        )

    def test_faults_name_the_file_and_the_option(self):
        for texts, words in (
            (
                ["[compute]\ncpu_dedicated_set = 4\xa0,x\n"],
                ("0.conf", "[compute] cpu_dedicated_set", "4 ,x"),
            ),
            (
                ["", "[libvirt]\ncpu_power_management = maybe\n"],
                ("1.conf", "cpu_power_management", "maybe"),
            ),
            (
                ["[libvirt]\ncpu_power_management_strategy = x\n"],
                ("0.conf", "_strategy", "governor"),
            ),
            (["[compute\n"], ("0.conf:1", "Invalid section")),
            (["\ufeff[compute]\ncpu_shared_set = 0\n"], ("0.conf:1", "byte order mark")),
            (["\ufeff# Nova\n[compute]\n"], ("0.conf:1", "byte order mark")),
            ([b"\xff\xfe[compute]"], ("0.conf", "not UTF-8")),
            (["[compute]\ncpu_dedicated_set = 4,^4\n"], ("0.conf", "names no CPU")),
            (["[compute]\ncpu_shared_set = 0-7:1/2\n"], ("0.conf", "_shared_set", "stride")),
            (
                ["[compute]\ncpu_dedicated_set = $cpu_dedicated_set\n"],
                ("0.conf", "is not followed"),
            ),
            (
                ["[DEFAULT]\nconfig_source = remote\n[remote]\ndriver = remote_file\n"],
                ("0.conf", "config_source"),
            ),
            (["#" * (novaconf.MAX_BYTES + 1)], ("0.conf", "larger than 4 MiB")),
        ):
            with self.subTest(texts):
                paths = self.files(*texts)
                error = str(self.assertRaises(novaconf.NovaConfigError, novaconf.read, paths))
                self.assertEqual([], [word for word in words if word not in error], error)
                self.assertNotIn("\n", error)

    def test_a_record_keeps_no_words_that_are_not_of_the_option(self):
        """To oslo.config an indented line belongs to the option before it."""
        for text, expected in (
            ("cpu_shared_set = 0-1\n  password = s3cr3t\n", ""),
            ("cpu_shared_set = 0-1\n  password:s3cr3t\n", ""),
            ("cpu_shared_set = 0-1 s3cr3t\n", ""),
            ("cpu_shared_set = 0-1 # s3cr3t\n", "[compute]\ncpu_shared_set = 0-1 #\n"),
            ("cpu_shared_set = 0-1,\n  4, 6\n", "[compute]\ncpu_shared_set = 0-1, 4, 6\n"),
            ("cpu_shared_set = 0-1\n  ,4\n", "[compute]\ncpu_shared_set = 0-1 ,4\n"),
        ):
            with self.subTest(text):
                self.assertEqual(expected, novaconf.recorded(f"[compute]\n{text}"))
