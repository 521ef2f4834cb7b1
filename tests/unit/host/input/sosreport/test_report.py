# SPDX-License-Identifier: Apache-2.0
"""A sosreport as a recorded host: facts equal to those of the host, as far as sos collects them."""

import dataclasses
import importlib.resources
import os
import pathlib
import shutil
import tarfile
import tempfile
import tomllib

import testtools

from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import archive, guests, reader, unpacked, whose
from nova_perf_tuning.host.input.facts.root import FactsError
from nova_perf_tuning.host.input.sosreport import kept
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import NoteCode
from tests.support import hwloc, sosreports, sysroots, testcase

#: A report of a real compute host: Ubuntu 20.04, sos 4.3, cut by those who published it.
PUBLISHED = hwloc.DIRECTORY.parent / "sosreports" / "openstack-compute.tar.xz"


def place(test: testcase.TestCase) -> str:
    """Return a directory that is removed after the test."""
    return test.enterContext(
        tempfile.TemporaryDirectory(prefix="nova-perf-sos-", dir=sysroots.workplace())
    )


def codes(facts: host_model.HostFacts) -> set[NoteCode]:
    return {note.code for note in facts.warnings}


def known(nic: host_model.Nic) -> host_model.Nic:
    """Return a NIC without what no report has."""
    nothing = (None,) * nic.rx_queues, (None,) * nic.tx_queues
    return dataclasses.replace(nic, rps=nothing[0], xps=nothing[1])


class FactsTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.host = sysroots.make_host(self, "small")
        self.facts = reader.read_host(self.host)
        self.out = os.path.join(place(self), "report")

    def assert_equal_facts(self, facts: host_model.HostFacts, *, affinities: bool = True) -> None:
        self.assertEqual(self.facts.cpus, facts.cpus)
        self.assertEqual(self.facts.nodes, facts.nodes)
        self.assertEqual((self.facts.online, self.facts.sysctls), (facts.online, facts.sysctls))
        physical = [nic for nic in facts.nics if nic.kind == "physical"]
        expected = [known(nic) for nic in self.facts.nics if nic.kind == "physical"]
        self.assertEqual(expected, physical)
        self.assertEqual(
            [(nic.name, nic.kind) for nic in self.facts.nics],
            [(nic.name, nic.kind) for nic in facts.nics],
        )
        irqs = self.facts.irqs
        if not affinities:
            irqs = {
                irq.number: dataclasses.replace(irq, affinity=None, effective=None, node=None)
                for irq in irqs.values()
            }
            for irq in facts.irqs.values():
                irq.node = None
        self.assertEqual(irqs, facts.irqs)
        self.assertEqual(self.facts.domains, facts.domains)

    def test_a_whole_report(self) -> None:
        facts = reader.read_host(sosreports.write(self.host, self.out))
        self.assert_equal_facts(facts)
        self.assertIn(NoteCode.REPORT_LACKS, codes(facts))

    def test_a_report_without_sysfs(self) -> None:
        """CPUs, nodes and interrupts come out of lscpu, numactl and /proc/interrupts."""
        facts = reader.read_host(sosreports.write(self.host, self.out, sysfs=False))
        numbered = {cpu.siblings: cpu.core for cpu in facts.cpus}
        self.facts = dataclasses.replace(
            self.facts,
            cpus=tuple(
                dataclasses.replace(cpu, core=numbered[cpu.siblings]) for cpu in self.facts.cpus
            ),
        )
        self.assert_equal_facts(facts, affinities=False)

    def test_cpus_beyond_the_limit_of_sos(self) -> None:
        """sos copies the directories of 64 CPUs; the others come out of lscpu."""
        report = sosreports.write(self.host, self.out)
        for cpu in range(40, 64):
            shutil.rmtree(f"{report}/sys/devices/system/cpu/cpu{cpu}")
        facts = reader.read_host(report)
        for before, after in zip(self.facts.cpus, facts.cpus, strict=True):
            self.assertEqual(before.siblings, after.siblings)
            self.assertEqual((before.node, before.l3), (after.node, after.l3))

    def test_an_archive_is_read_like_its_directory(self) -> None:
        report = sosreports.write(self.host, self.out)
        pathlib.Path(report, "var/log").mkdir(parents=True)
        pathlib.Path(report, "var/log/messages").write_bytes(b"x" * (1 << 20))
        expected = reader.read_host(report)
        for mode in ("w:xz", "w:gz"):
            with self.subTest(mode):
                file = sosreports.pack(report, f"{self.out}.tar", mode)
                self.assertEqual(expected, reader.read_host(file))

    def test_an_archive_that_was_packed_again(self) -> None:
        """Its one directory has another name, or there is none around the report."""
        report = sosreports.write(self.host, self.out)
        expected = reader.read_host(report)
        for name in ("compute0", "."):
            with self.subTest(name):
                with tarfile.open(f"{self.out}.tar", "w") as file:
                    file.add(report, name)
                self.assertEqual(expected, reader.read_host(f"{self.out}.tar"))


@testtools.skipUnless(PUBLISHED.exists(), "no published report here (NOVA_PERF_TOPOLOGIES)")
class PublishedTest(testcase.TestCase):
    def test_facts(self) -> None:
        facts = reader.read_host(str(PUBLISHED))
        self.assertEqual(("0-1", "x86_64"), (facts.online, facts.arch))
        self.assertEqual("5.4.0-97-generic", facts.kernel)
        self.assertEqual({0: 16008 << 10}, {node.id: node.memory_kib for node in facts.nodes})
        (nic,) = [nic for nic in facts.nics if nic.name == "ens3"]
        self.assertEqual(
            ("physical", "virtio_net", "0000:00:03.0", 1, "br-ens3", (24, 25, 26)),
            (nic.kind, nic.driver, nic.pci, nic.rx_queues, nic.bridge, nic.irqs),
        )
        self.assertEqual("virtio0-input.0", facts.irqs[25].name)
        self.assertIsNone(facts.irqs[25].affinity)
        self.assertEqual(["instance-00000001"], [domain.name for domain in facts.domains])


class BoundsTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.report = os.path.join(place(self), "report")
        sosreports.write(sysroots.make_host(self), self.report)

    def test_what_is_no_plain_file_is_not_opened(self) -> None:
        cpu = f"{self.report}/sys/devices/system/cpu"
        os.unlink(f"{cpu}/online")
        os.mkfifo(f"{cpu}/online")
        os.unlink(f"{self.report}/proc/cmdline")
        os.symlink("/etc/hostname", f"{self.report}/proc/cmdline")
        shutil.rmtree(f"{self.report}/proc/irq")
        os.symlink("/proc/irq", f"{self.report}/proc/irq")
        root = reader.open_root(self.report)
        self.assertEqual(8, len(reader.read_root(root).cpus))
        self.assertIsNone(root.read(root.directory("proc"), "cmdline"))
        self.assertEqual(b"0-7\n", root.read(root.directory("sys/devices/system/cpu"), "online"))

    def test_a_large_file_is_noted(self) -> None:
        self.patch(unpacked, "MAX_FILE", 1000)
        self.patch(archive, "MAX_FILE", 1000)
        pathlib.Path(self.report, "proc/cmdline").write_text("x" * 1001)
        packed = sosreports.pack(self.report, f"{self.report}.tar.xz")
        for path in (self.report, packed):
            facts = reader.read_host(path)
            places = [
                note.params["places"] for note in facts.warnings if note.code is NoteCode.TOO_LONG
            ]
            self.assertIn("proc/cmdline", places[0])

    def test_all_of_it_is_bounded(self) -> None:
        packed = sosreports.pack(self.report, f"{self.report}.tar.xz")
        self.patch(unpacked, "MAX_KEPT", 1000)
        self.patch(archive, "MAX_KEPT", 1000)
        for path in (self.report, packed):
            self.assertRaises(FactsError, reader.read_host, path)

    def test_what_is_passed_over_is_bounded(self) -> None:
        packed = sosreports.pack(self.report, f"{self.report}.tar.xz")
        self.patch(archive, "MAX_REPORT", 10000)
        self.assertRaises(FactsError, reader.read_host, packed)


class KeptTest(testcase.TestCase):
    def test_all_that_facts_are_read_from_is_kept(self) -> None:
        recorded = importlib.resources.files("nova_perf_tuning.host.input") / "recorded.toml"
        paths = list(novaconf.NEUTRON_FILES) + list(whose.SWITCH_FILES) + list(whose.USER_FILES)
        for place_of_nova in novaconf.PLACES:
            paths += [path.replace("*", "x") for path in place_of_nova]
        for directory in guests.XML_DIRECTORIES:
            paths.append(f"{directory}/instance-1.xml")
        for directory, names in tomllib.loads(recorded.read_text())["files"].items():
            paths += [
                f"{directory}/{name}".replace("[0-9]*", "1").replace("*", "x")
                for name in names.split()
            ]
        for path in paths:
            with self.subTest(path):
                self.assertTrue(kept.keeps(path.split("/")))

    def test_devices_lie_anywhere(self) -> None:
        device = "sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0"
        for path in ("numa_node", "virtio0/net/eth0/statistics/rx_packets", "net/eth0/flags"):
            parts = f"{device}/{path}".split("/")
            self.assertTrue(kept.keeps(parts), path)
            for length in range(1, len(parts)):
                self.assertTrue(kept.enters(parts[:length]), parts[:length])
        for path in ("var/log/messages", "etc/shadow", "sys/kernel/debug/x"):
            self.assertFalse(kept.keeps(path.split("/")))
