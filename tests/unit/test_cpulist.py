"""CPU lists and masks in the kernel's own two forms."""

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning import cpulist

CPUS = strategies.frozensets(strategies.integers(0, 4095))


class CpuListTest(testtools.TestCase):
    def test_kernel_texts(self):
        for text, cpus in (
            ("", set()),
            ("(null)\n", set()),
            ("0", {0}),
            ("0-3,8\n", {0, 1, 2, 3, 8}),
            ("0-15:2/4", {0, 1, 4, 5, 8, 9, 12, 13}),
        ):
            self.assertEqual(frozenset(cpus), cpulist.parse(text), text)

    def test_masks(self):
        self.assertEqual(frozenset({0, 1, 32, 63}), cpulist.parse_mask("80000001,00000003\n"))
        self.assertEqual("80000001,00000003", cpulist.format_mask(frozenset({0, 1, 32, 63}), 64))
        # %*pb: the first group is as wide as the CPU count needs, 8 CPUs are two digits.
        self.assertEqual("0f", cpulist.format_mask(frozenset(range(4)), 8))
        self.assertEqual("3,00000000", cpulist.format_mask(frozenset({32, 33}), 36))

    def test_wrong_texts(self):
        for text in (
            "a",
            "3-1",
            "-1",
            "1-",
            "1,,2",
            "0-99999999999",
            "+1",
            "1_0",
            "٣",
            "0-3:0/2",
            "0-3:3/2",
            "0-3:x",
        ):
            self.assertRaises(cpulist.CpuListError, cpulist.parse, text)
        for text in ("", "g", "0x3", "-1", "f" * 100000, "1_0"):
            self.assertRaises(cpulist.CpuListError, cpulist.parse_mask, text)

    @hypothesis.given(CPUS)
    def test_list_round_trip(self, cpus):
        self.assertEqual(cpus, cpulist.parse(cpulist.format(cpus)))

    @hypothesis.given(CPUS, strategies.integers(0, 4096))
    def test_mask_round_trip(self, cpus, width):
        self.assertEqual(cpus, cpulist.parse_mask(cpulist.format_mask(cpus, width)))

    @hypothesis.given(strategies.text())
    def test_any_text_parses_or_is_refused(self, text):
        for parse in (cpulist.parse, cpulist.parse_mask):
            try:
                parse(text)
            except cpulist.CpuListError:
                pass
