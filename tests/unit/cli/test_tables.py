# SPDX-License-Identifier: Apache-2.0
"""Tables on terminals: they fit, and cut nothing."""

import contextlib
import io
import os
import re
from unittest import mock

from nova_perf_tuning.cli import command
from tests.support import testcase

_CPUS = ",".join(f"{first}-{first + 7}" for first in range(100, 900, 20))
_NICS = ("device", "kind", "driver", "PCI", "node", "queues", "MTU", "Mbit/s", "interrupts")


def shown(head, rows, columns, printer=command.print_table):
    """Return the lines of a table on a terminal that is so wide."""
    output = io.StringIO()
    output.isatty = lambda: True
    with contextlib.redirect_stdout(output), mock.patch.dict(os.environ, COLUMNS=str(columns)):
        printer(head, rows)
    return output.getvalue().splitlines()


class TerminalTableTest(testcase.TestCase):
    def test_every_word_is_there_and_whole(self):
        head = ("CPU set", "CPUs", "role")
        row = ("housekeeping, shared, emulator", _CPUS, "interrupts and the host's own work")
        for columns in (60, 80, 100, 200):
            with self.subTest(columns):
                lines = shown(head, [row], columns)
                self.assertLessEqual(max(map(len, lines)), columns)
                words = re.findall(r"[^\s,]+", "\n".join(lines))
                expected = re.findall(r"[^\s,]+", "\n".join((*head, *row)))
                self.assertEqual(sorted(expected), sorted(words))

    def test_a_column_is_as_narrow_as_its_longest_word(self):
        rules = [("numa-balancing-with-pinned-guests", "warning", "because of this and that " * 3)]
        lines = shown(("rule", "level", "why"), rules, 60)
        self.assertTrue(lines[1].startswith("numa-balancing-with-pinned-guests  warning  because"))
        self.assertLessEqual(max(map(len, lines)), 60)

    def test_columns_without_room_follow_after_the_first(self):
        nic = ("eth0", "physical", "mlx5_core", "0000:3b:00.0", 0, "64/64", 9000, 100000)
        rows = [(*nic, "24-87 on 0-1"), (*nic, None)]
        lines = shown(_NICS, rows, 80)
        self.assertLessEqual(max(map(len, lines)), 80)
        place = lines.index("")
        self.assertEqual(3, place)
        self.assertEqual(["device  interrupts", "eth0    24-87 on 0-1"], lines[place + 1 :])
        self.assertEqual(3, len(shown(_NICS, rows, 100)))

    def test_one_long_field_takes_no_room_from_the_others(self):
        """The reasons of a plan are long, of its values one alone."""
        rows = [("irq:24", "0-63", "because of this and that " * 4)] * 20
        rows.append(("new_irqs", "ffffffff," * 8, "short"))
        why = shown(("target", "now", "reason"), rows, 80)[0].index("reason")
        self.assertLess(why, 40)

    def test_no_number_is_torn(self):
        rows = [("fio", "tuned", "2,120 IO/s", "154 ms/1,000 IO")] * 2
        text = "\n".join(shown(("benchmark", "arm", "median", "service CPU"), rows, 38))
        self.assertEqual((2, 2), (text.count("2,120"), text.count("ms/1,000")))

    def test_a_path_in_the_last_column_is_whole(self):
        path = f"/sys/devices/{'virtual/' * 10}cpumask"
        self.assertIn(path, shown(("rule", "read"), [("nic-irq-one-cpu", path)], 60)[-1])

    def test_a_cut_is_said(self):
        text = " ".join(shown(("rule", "read"), [("one", "x" * 3000)], 80))
        self.assertEqual(2000, text.count("x"))
        self.assertIn("(and 1000 characters; -f json has all)", " ".join(text.split()))

    def test_a_column_without_anything_is_left_out(self):
        rows = [(None, "eth0", None), (None, "eth1", None)]
        lines = shown(("node", "device", "member of"), rows, 80, command.print_known)
        self.assertEqual(["node  device", "-     eth0", "-     eth1"], lines)
