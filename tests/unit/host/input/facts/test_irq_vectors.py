# SPDX-License-Identifier: Apache-2.0
"""How many interrupts each CPU can have, out of the kernel's own table."""

from nova_perf_tuning.host.input.facts import irq_vectors, reader
from nova_perf_tuning.host.input.facts.root import Root
from tests.support import directories

_PATH = "sys/kernel/debug/irq/domains/VECTOR"
#: As irq_matrix_debug_show() writes it (Linux 6.1 to 6.12), of a host with two CPUs.
_TABLE = """name:   VECTOR
 size:   0
 mapped: 41
 flags:  0x00000103
Online bitmaps:        2
Global available:    394
Global reserved:       6
Total allocated:      13
System: 37: 0-19,29-31,50,236,240-242,244,246-255
 | CPU | avl | man | mac | act | vectors
     0   196     1     1     7  32-37,48
     1   198     1     0     3  33-35
"""


class VectorsTest(directories.DirectoryCase):
    def read(self, text: str) -> dict[int, int]:
        self.write_file(_PATH, text)
        return irq_vectors.read_vectors(Root(str(self.directory)))

    def test_what_is_free_and_what_is_used_without_managed_ones(self) -> None:
        self.assertEqual({0: 202, 1: 201}, self.read(_TABLE))

    def test_another_table_says_nothing(self) -> None:
        head = " | CPU | avl | man | mac | act | vectors\n"
        for text in (
            "",
            "name:   VECTOR\n",
            _TABLE.replace("| mac ", ""),  # before Linux 4.20
            _TABLE.replace("196", "9999"),
            _TABLE.replace("     0   196", "    -1   196"),
        ):
            with self.subTest(text):
                self.assertEqual({}, self.read(text))
        self.assertEqual({0: 202}, self.read(f"{head}0 196 1 1 7\nnonsense\n"))

    def test_it_is_a_fact_of_the_host(self) -> None:
        self.write_file("proc/cpuinfo", "processor\t: 0\n")
        self.assertEqual({}, reader.read_host(str(self.directory)).vectors)
        self.write_file(_PATH, _TABLE)
        self.assertEqual({0: 202, 1: 201}, reader.read_host(str(self.directory)).vectors)
