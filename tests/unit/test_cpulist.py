# SPDX-License-Identifier: Apache-2.0
"""CPU lists and masks in the kernel's own two forms."""

import tracemalloc

import hypothesis
from hypothesis import strategies

from nova_perf_tuning import cpulist
from tests.support import testcase

CPUS = strategies.frozensets(strategies.integers(0, 4095))


class CpuListTest(testcase.TestCase):
    @hypothesis.given(CPUS, CPUS)
    def test_bits_are_the_same_set(self, included, excluded):
        exclusions = [f"^{part}" for part in cpulist.format(excluded).split(",") if part]
        text = ",".join([cpulist.format(included), *exclusions])
        left = cpulist.spec_bits(text)
        self.assertEqual(cpulist.parse_spec(text), frozenset(cpulist.of_bits(left)))
        self.assertEqual(cpulist.format(included - excluded), cpulist.format_bits(left))

    def test_bits_have_no_stride(self):
        self.assertRaises(cpulist.CpuListError, cpulist.spec_bits, "0-15:2/4")

    def test_kernel_texts(self):
        for text, cpus in (
            ("", set()),
            ("(null)\n", set()),
            ("0", {0}),
            ("0-3,8\n", {0, 1, 2, 3, 8}),
            ("0-15:2/4", {0, 1, 4, 5, 8, 9, 12, 13}),
            ("8191", {8191}),
        ):
            with self.subTest(text):
                self.assertEqual(frozenset(cpus), cpulist.parse(text), text)

    def test_one_cpu_and_several_by_their_noun(self):
        self.assertEqual(("CPU 3", "CPUs 0-1,8"), (cpulist.named({3}), cpulist.named({8, 0, 1})))

    def test_exclusions_of_nova_and_libvirt(self):
        for text, cpus in (
            ("4-12,^8,15", "4-7,9-12,15"),
            (" 1 - 3 , ^2", "1,3"),
            ("^5,4-6", "4,6"),
            ("0-7,^2-5", "0-1,6-7"),
            ("4,^4", ""),
            ("1,,^2, 3-4,", "1,3-4"),
        ):
            with self.subTest(text):
                self.assertEqual(cpus, cpulist.format(cpulist.parse_spec(text)), text)
        for text in ("0-3,^2", "1,,2"):
            self.assertRaises(cpulist.CpuListError, cpulist.parse, text)

    def test_masks_are_read_in_groups_of_32_bits(self):
        self.assertEqual(frozenset({0, 1, 32, 63}), cpulist.parse_mask("80000001,00000003\n"))
        self.assertEqual(frozenset({32, 33}), cpulist.parse_mask("3,00000000"))

    def test_what_is_no_list_is_refused(self):
        for text in (
            *(
                "a",
                "3-1",
                "-1",
                "1-",
                "0-99999999999",
                "+1",
                "1_0",
                "٣",
                "\u00b2",
                "0-\u00b2",
                "1,\u0663",
            ),
            *(
                "0-3:0/2",
                "0-3:3/2",
                "0-3:x",
                "0-3:1",
                "0-3:1/2/3",
                "8192",
                "0-8192",
                "9" * 400,
                "^^1",
            ),
        ):
            with self.subTest(text):
                self.assertRaises(cpulist.CpuListError, cpulist.parse, text)
                self.assertRaises(cpulist.CpuListError, cpulist.parse_spec, text)
                self.assertIsNone(cpulist.find(text), text)
                self.assertFalse(cpulist.is_list(text), text)
        for text in ("", "g", "0x3", "-1", "f" * 100000, "1_0", "123456789"):
            with self.subTest(text):
                self.assertRaises(cpulist.CpuListError, cpulist.parse_mask, text)

    def test_hostile_lists_cost_nothing(self):
        """What is refused is so before it is expanded, and kept nowhere."""
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        self.assertFalse(cpulist.is_list(",".join(["0-8191"] * 6000)))
        self.assertRaises(cpulist.CpuListError, cpulist.parse, ",".join(["0-8191"] * 6000))
        self.assertLess(tracemalloc.get_traced_memory()[1], 10 << 20)

    @hypothesis.given(CPUS)
    def test_list_round_trip(self, cpus):
        self.assertEqual(cpus, cpulist.parse(cpulist.format(cpus)))

    @hypothesis.given(strategies.text() | strategies.text("0123456789,-:/^ "))
    def test_any_text_parses_or_is_refused(self, text):
        self.assertEqual(cpulist.is_list(text), cpulist.find(text) is not None)
        for parse in (cpulist.parse, cpulist.parse_spec, cpulist.parse_mask):
            try:
                parse(text)
            except cpulist.CpuListError:
                pass
