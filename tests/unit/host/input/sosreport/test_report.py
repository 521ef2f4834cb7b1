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
from tests.support import hwloc, program, sosreports, sysroots, testcase

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
                irq.fired = None  # the counts are not those of the masks
        self.assertEqual(irqs, facts.irqs)
        self.assertEqual(
            [(domain.name, domain.vcpu_pins, domain.interfaces) for domain in self.facts.domains],
            [(domain.name, domain.vcpu_pins, domain.interfaces) for domain in facts.domains],
        )

    def threads(self, facts: host_model.HostFacts) -> dict[str, list[tuple[object, ...]]]:
        """Return name -> kind, index and affinity of the threads of each guest."""
        found: dict[str, list[tuple[object, ...]]] = {}
        for guest in facts.guests:
            rows = found.setdefault(guest.name, [])
            rows += [
                (thread.tid, thread.kind, thread.index, thread.affinity)
                for thread in guest.threads
            ]
        return found

    def test_threads_of_guests(self) -> None:
        """Since sos 4.10 a report has their names and where they may run."""
        facts = reader.read_host(sosreports.write(self.host, self.out))
        self.assertEqual(self.threads(self.facts), self.threads(facts))

    def test_threads_without_names(self) -> None:
        """Before, libvirt's files name vCPUs and the main thread; the affinities are unknown."""
        facts = reader.read_host(sosreports.write(self.host, self.out, names=False))
        expected: dict[str, list[tuple[object, ...]]] = {}
        for guest in self.facts.guests:
            expected[guest.name] = [
                (thread.tid, thread.kind, thread.index, None)
                for thread in guest.threads
                if thread.kind == "vcpu" or thread.tid == guest.pid
            ]
        self.assertEqual(expected, self.threads(facts))
        lacks = [
            note.params["lacks"] for note in facts.warnings if note.code is NoteCode.REPORT_LACKS
        ]
        self.assertIn("affinities of threads", str(lacks[0]))

    def test_a_guest_whose_threads_are_unknown_is_no_false_one(self) -> None:
        """Without libvirt's status file nothing says which thread is a vCPU."""
        report = sosreports.write(self.host, self.out, names=False)
        for path in pathlib.Path(report, "run/libvirt/qemu").glob("*.xml"):
            path.unlink()
        facts = reader.read_host(report)
        self.assertEqual((), facts.guests)
        self.assertEqual(len(self.facts.domains), len(facts.domains))
        wrong = {NoteCode.PROCESS_GONE, NoteCode.PROCESS_NOT_QEMU}
        self.assertEqual(set(), wrong & codes(facts))

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

    def test_columns_in_another_language(self) -> None:
        """They say nothing; all CPUs that the kernel lists stay online."""
        report = pathlib.Path(sosreports.write(self.host, self.out))
        path = report / "sos_commands/processor/lscpu_-ae"
        path.write_text("CPU KNOTEN SOCKEL KERN L1d:L1i:L2:L3 ONLINE\n0 0 0 0 0:0:0:0 ja\n")
        self.assertEqual(self.facts.cpus, reader.read_host(str(report)).cpus)

    def test_books_and_caches_of_s390(self) -> None:
        report = pathlib.Path(sosreports.write(self.host, self.out, sysfs=False))
        rows = ["CPU NODE DRAWER BOOK SOCKET CORE L1d:L1i:L2d:L2i ONLINE CONFIGURED"]
        for cpu, place in enumerate(("0 0 0", "0 0 0", "0 0 1", "1 1 2")):
            rows.append(f"{cpu} 0 {place} {cpu} {cpu}:{cpu}:{cpu}:{cpu} yes yes")
        rows.append("4 - - - - - - no yes")
        path = report / "sos_commands/processor/lscpu_-ae"
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        cpus = reader.read_host(str(report)).cpus[:5]
        self.assertEqual(["0", "1", "2", "3", None], [cpu.l2 for cpu in cpus])
        self.assertEqual([0, 0, 0, 1, None], [cpu.book for cpu in cpus])
        self.assertEqual([0, 0, 0, 1, None], [cpu.drawer for cpu in cpus])
        self.assertEqual([0, 0, 1, 2, None], [cpu.package for cpu in cpus])

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


class SteeringTest(testcase.TestCase):
    def test_rps_that_was_used_on_guests_cpus(self) -> None:
        """No report has masks of RPS; softnet_stat counts the packets that it handed to a CPU."""
        host = sysroots.make_host(self)
        out = os.path.join(place(self), "report")
        sosreports.write(host, out)
        os.makedirs(f"{out}/proc/77/net")
        os.symlink("77", f"{out}/proc/self")
        os.symlink("self/net", f"{out}/proc/net")
        for used in (0, 0x1B0C):
            rows = ""
            for cpu in range(8):
                count = used if cpu == 3 else 0
                rows += f"00000001 {'00000000 ' * 8}{count:08x} 00000000 00000000 {cpu:08x}\n"
            pathlib.Path(out, "proc/77/net/softnet_stat").write_text(rows)
            done = program.nova_perf(
                "audit", "--sysroot", out, "-f", "json", "--rule", "rps-on-dedicated"
            )
            document = program.json.loads(done.stdout)
            if used:
                (finding,) = document["findings"]
                self.assertEqual("/proc/net/softnet_stat", finding["evidence"][0]["path"])
                self.assertIn("CPU 3: 6924", finding["evidence"][0]["value"])
            else:
                self.assertEqual("no_data", document["unknown"][0]["code"])


class ProgramsTest(testcase.TestCase):
    SWITCH = (
        "5 S openvsw+ 819 1 {} 10 4 70 -10 - 58948 poll_s Feb09 ? 00:00:33 ovs-vswitchd unix:db\n"
    )

    def report(self, outputs: dict[str, str], user: str = "openvsw+") -> host_model.HostFacts:
        """Return the facts of a report with Open vSwitch and irqbalance in it."""
        out = os.path.join(place(self), "report")
        sosreports.write(sysroots.make_host(self), out)
        rows = "".join(self.SWITCH.format(tid) for tid in (819, 827, 849))
        ps = pathlib.Path(out, "sos_commands/process/ps_-elfL")
        ps.write_text(ps.read_text() + rows.replace("openvsw+", user))
        pathlib.Path(out, "sos_commands/openvswitch").mkdir()
        for name, text in outputs.items():
            pathlib.Path(out, "sos_commands", name).write_text(text)
        return reader.read_host(out)

    def test_pmd_threads_by_what_runs(self) -> None:
        text = "pmd thread numa_id 0 core_id 2:\n  isolated : false\npmd thread numa_id 1 core_id 5:\n"
        facts = self.report({"openvswitch/ovs-appctl_dpif-netdev.pmd-rxq-show": text})
        self.assertEqual(
            [("ovs-vswitchd", 819, "2", True), ("ovs-vswitchd", 819, "5", True)],
            sorted(
                (thread.program, thread.pid, thread.affinity, thread.is_bound)
                for thread in facts.programs
            ),
        )

    def test_pmd_threads_by_configuration(self) -> None:
        path = "openvswitch/ovs-vsctl_-t_5_get_Open_vSwitch_._other_config"
        facts = self.report({path: '{dpdk-init="true", pmd-cpu-mask="0x24"}\n'})
        self.assertEqual({"2", "5"}, {thread.affinity for thread in facts.programs})
        facts = self.report({path: '{dpdk-init="false", pmd-cpu-mask="0x24"}\n'})
        self.assertEqual((), facts.programs)

    def test_the_switch_of_another_user_owns_nothing(self) -> None:
        text = "pmd thread numa_id 0 core_id 2:\n"
        facts = self.report({"openvswitch/ovs-appctl_dpif-netdev.pmd-rxq-show": text}, "alice")
        self.assertEqual((), facts.programs)


@testtools.skipUnless(PUBLISHED.exists(), "no published report here (NOVA_PERF_TOPOLOGIES)")
class PublishedTest(testcase.TestCase):
    def test_facts(self) -> None:
        facts = reader.read_host(str(PUBLISHED))
        self.assertEqual(("0-1", "x86_64"), (facts.online, facts.arch))
        self.assertEqual("5.4.0-97-generic", facts.kernel)
        self.assertEqual({0: 16393164}, {node.id: node.memory_kib for node in facts.nodes})
        (nic,) = [nic for nic in facts.nics if nic.name == "ens3"]
        self.assertEqual(
            ("physical", "virtio_net", "0000:00:03.0", 1, "br-ens3", (24, 25, 26)),
            (nic.kind, nic.driver, nic.pci, nic.rx_queues, nic.bridge, nic.irqs),
        )
        self.assertEqual("virtio0-input.0", facts.irqs[25].name)
        self.assertIsNone(facts.irqs[25].affinity)
        self.assertEqual(["instance-00000001"], [domain.name for domain in facts.domains])
        (guest,) = facts.guests
        found = [(thread.tid, thread.kind, thread.index) for thread in guest.threads]
        self.assertEqual(
            [(1791722, "emulator", None), (1791749, "vcpu", 0), (1791747, "vhost", 0)], found
        )

    def test_rules_say_what_lacks(self) -> None:
        """Rules without data once held, or said that the kernel has no such thing."""
        document = program.document(self, "audit", "--sysroot", str(PUBLISHED), code=1)
        unknown = {unjudged["rule"]: unjudged for unjudged in document["unknown"]}
        for rule in ("ksm-with-pinned-guests", "thp-never", "machine-slice-cpus", "kvm-missing"):
            self.assertEqual("no_data", unknown[rule]["code"], rule)
            self.assertIn("nova-perf record", unknown[rule]["reason"])
        found = {finding["rule"]: finding for finding in document["findings"]}
        self.assertEqual("/proc/interrupts", found["nic-irq-on-cpu0"]["evidence"][0]["path"])
        self.assertIn("irqbalance-unaware", found)

    def test_other_commands_take_it(self) -> None:
        for command in (["plan"], ["topology"], ["generate", "nova-conf"]):
            done = program.nova_perf(*command, "--sysroot", str(PUBLISHED))
            self.assertEqual(0, done.returncode, (command, done.stderr))


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

    def test_garbage_is_no_crash(self) -> None:
        """Whatever commands have printed: the facts are read, and what makes no sense is unknown."""
        commands = pathlib.Path(self.report, "sos_commands")
        (commands / "openvswitch").mkdir()
        (commands / "openvswitch/ovs-appctl_dpif-netdev.pmd-rxq-show").write_text("pmd")
        (commands / "kernel").mkdir()
        for name in ("sysctl_-a", "uname_-a", "lsmod"):
            (commands / "kernel" / name).write_text("a = b")
        files = [path for path in commands.rglob("*") if path.is_file()]
        files.append(pathlib.Path(self.report, "proc/interrupts"))
        shutil.rmtree(f"{self.report}/sys/devices/system")
        shutil.rmtree(f"{self.report}/proc/irq")
        for path in files:
            good = path.read_text()
            lines = good.splitlines()
            for bad in (
                "",
                "\0\n\x1b[31m\n",
                good.replace("0", "99999999999999999999"),
                good.replace("1", "-"),
                good.replace(" ", "\n"),
                good[: len(good) // 2],
                "\n".join(reversed(lines)),
                "\n".join(line.split(" ", 1)[-1] for line in lines),
            ):
                path.write_text(bad)
                with self.subTest(path.name, start=bad[:20]):
                    reader.read_host(self.report)
            path.write_text(good)

    def test_what_outputs_name_is_bounded(self) -> None:
        rows = "{0}: t{0}: <UP> mtu 1500 state UP\n    x numtxqueues 4096 numrxqueues 4096\n"
        path = pathlib.Path(self.report, "sos_commands/networking/ip_-s_-d_link")
        path.write_text("".join(rows.format(number) for number in range(100)))
        error = self.assertRaises(FactsError, reader.read_host, self.report)
        self.assertIn("300000", str(error))

    def test_long_lines_are_read_in_no_time(self) -> None:
        """Patterns that try again at each place took minutes for a line of a megabyte."""
        for name, line in (
            ("process/ps_-elfL", "1 S a 5 1 5 0 1 80 0 - 1 p 1 ? 0 " + "qemu" * 250_000),
            ("pci/lspci_-nnvv", "00:01.0 " + "[0200]: x " * 100_000),
            ("pci/lspci_-nnvv", "00:01.0 x [0200]: y [8086:1592]" + "\n " * 500_000),
        ):
            path = pathlib.Path(self.report, "sos_commands", name)
            good = path.read_text()
            path.write_text(good + line + "\n")
            reader.read_host(self.report)
            path.write_text(good)
        status = pathlib.Path(self.report, "run/libvirt/qemu/instance-00000001.xml")
        status.write_text("<domstatus " * 100_000)
        reader.read_host(self.report)

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
