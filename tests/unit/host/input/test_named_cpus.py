# SPDX-License-Identifier: Apache-2.0
"""CPUs of records that lack parts of sysfs: each file and each output that names them counts."""

from collections.abc import Mapping

from nova_perf_tuning.host.audit import generate, host
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode
from tests.support import audit_hosts, testcase

_NODES = """available: 3 nodes (0-2)
node 0 cpus: 1 2 8 9
node 0 size: 4096 MB
node 1 cpus: 0 3
node 1 size: 4096 MB
node 2 cpus:
node 2 size: 2048 MB
node distances:
node   0   1   2
  0:  10  20  30
  1:  20  10  30
  2:  30  30  10
"""
_SUMMARY = """Architecture:        x86_64
CPU(s):              8
On-line CPU(s) list: 0-3,8-11
Thread(s) per core:  {threads}
NUMA node0 CPU(s):   0-3
NUMA node1 CPU(s):   8-11
"""
#: Of a report that is otherwise empty: columns of ``lscpu -ae``, and a row for a CPU.
_HYBRID = ("CPU NODE SOCKET CORE ONLINE MAXMHZ MINMHZ", "{cpu} 0 0 {core} yes {mhz}.0000 800.0000")


class PartialCase(testcase.TestCase):
    def view(self, files: Mapping[str, str]) -> host.Host:
        """Return the host of a root that has these files alone."""
        root = reader.open_root(audit_hosts.grow(self, dict(files)))
        return host.Host(root, reader.read_root(root))

    def facts(self, files: Mapping[str, str]) -> host_model.HostFacts:
        return self.view(files).facts

    def report(self, files: Mapping[str, str]) -> host.Host:
        """Return the host of a sosreport that has these outputs alone."""
        tree = {f"sos_commands/{path}": text for path, text in files.items()}
        return self.view({**tree, "proc/version": "Linux\n"})

    def outputs(self, files: Mapping[str, str]) -> host_model.HostFacts:
        return self.report(files).facts

    def codes(self, facts: host_model.HostFacts) -> set[NoteCode]:
        return {note.code for note in facts.warnings}

    def online(self, facts: host_model.HostFacts) -> list[int]:
        return [cpu.id for cpu in facts.cpus if cpu.online]


class SysfsTest(PartialCase):
    def test_the_list_of_those_online(self) -> None:
        facts = self.facts({"sys/devices/system/cpu/online": "0-2,5\n"})
        self.assertEqual(("0-2,5", [0, 1, 2, 5]), (facts.online, self.online(facts)))
        self.assertIn(NoteCode.CORE_UNKNOWN, self.codes(facts))
        self.assertNotIn(NoteCode.NO_CPUS, self.codes(facts))

    def test_those_that_are_present_stay_known(self) -> None:
        facts = self.facts(
            {
                "sys/devices/system/cpu/online": "0-1\n",
                "sys/devices/system/cpu/present": "0-3\n",
            }
        )
        self.assertEqual([0, 1], self.online(facts))
        self.assertEqual([0, 1, 2, 3], [cpu.id for cpu in facts.cpus])

    def test_the_head_of_the_table_of_interrupts(self) -> None:
        rows = "           CPU0       CPU2       CPU99999\n 25:  1 2 3  PCI-MSI 49153-edge  eth0\n"
        facts = self.facts({"proc/interrupts": rows})
        self.assertEqual([0, 2], self.online(facts))

    def test_a_directory_lacks_for_some(self) -> None:
        """sos copies those of 64 CPUs; the list has all of them."""
        place = "sys/devices/system/cpu/cpu{}/topology/core_cpus_list"
        facts = self.facts(
            {
                "sys/devices/system/cpu/online": "0-3\n",
                place.format(0): "0-1\n",
                place.format(1): "0-1\n",
            }
        )
        self.assertEqual(["0-1", "0-1", "2", "3"], [cpu.siblings for cpu in facts.cpus])

    def test_none(self) -> None:
        facts = self.facts({"proc/cmdline": "quiet\n"})
        self.assertIn(NoteCode.NO_CPUS, self.codes(facts))


class ReportTest(PartialCase):
    def test_numactl_alone(self) -> None:
        facts = self.outputs({"numa/numactl_--hardware": _NODES})
        self.assertEqual([0, 1, 2, 3, 8, 9], self.online(facts))
        self.assertEqual(["1-2,8-9", "0,3", ""], [node.cpus for node in facts.nodes])
        self.assertEqual([1, 0, 0, 1, 0, 0], [cpu.node for cpu in facts.cpus])
        self.assertIn(NoteCode.CORE_UNKNOWN, self.codes(facts))

    def test_generated_sets_say_that_threads_are_unknown(self) -> None:
        shared, dedicated, reasons = generate.split(
            self.report({"numa/numactl_--hardware": _NODES})
        )
        self.assertIn(0, shared)
        self.assertEqual({1, 2, 3, 8, 9, 0}, shared | dedicated)
        self.assertEqual(1, sum("hardware threads are unknown" in reason for reason in reasons))

    def test_the_summary_of_lscpu_alone(self) -> None:
        facts = self.outputs({"processor/lscpu": _SUMMARY.format(threads=1)})
        self.assertEqual([0, 1, 2, 3, 8, 9, 10, 11], self.online(facts))
        self.assertEqual(["0-3", "8-11"], [node.cpus for node in facts.nodes])
        self.assertNotIn(NoteCode.CORE_UNKNOWN, self.codes(facts))
        facts = self.outputs({"processor/lscpu": _SUMMARY.format(threads=2)})
        self.assertIn(NoteCode.CORE_UNKNOWN, self.codes(facts))

    def test_each_column_counts_for_itself(self) -> None:
        for columns, rows in (("SOCKET", "0 0\n1 1\n2 -\n"), ("NODE", "0 0\n1 1\n2 -\n")):
            with self.subTest(columns):
                facts = self.outputs({"processor/lscpu_-ae": f"CPU {columns}\n{rows}"})
                self.assertEqual([0, 1], self.online(facts))
                self.assertEqual([0, 1, 2], [cpu.id for cpu in facts.cpus])
                self.assertIn(NoteCode.CORE_UNKNOWN, self.codes(facts))
                packages = [cpu.package for cpu in facts.cpus]
                expected = [0, 1, None] if columns == "SOCKET" else [None] * 3
                self.assertEqual(expected, packages)

    def test_kinds_of_cores_by_their_frequency(self) -> None:
        head, row = _HYBRID
        for slow, capacities in ((4100, {1024, 777}), (4900, {None})):
            with self.subTest(slow):
                rows = [head]
                for cpu in range(8):
                    is_fast = cpu < 4
                    mhz = 5400 if is_fast else slow
                    core = cpu // 2 if is_fast else cpu - 2
                    rows.append(row.format(cpu=cpu, core=core, mhz=mhz))
                view = self.report({"processor/lscpu_-ae": "\n".join(rows) + "\n"})
                self.assertEqual(capacities, {cpu.capacity for cpu in view.facts.cpus})
                _shared, dedicated, reasons = generate.split(view)
                said = any("weaker cores" in reason for reason in reasons)
                self.assertEqual((slow == 4100, slow == 4100), (said, dedicated <= {2, 3}))
