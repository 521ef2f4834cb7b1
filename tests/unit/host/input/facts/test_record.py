# SPDX-License-Identifier: Apache-2.0
"""A recorded host gives the facts of the live one, holds nothing private, and is written whole or not at all."""

import dataclasses
import json
import os
import pathlib
import re
import tarfile
from typing import Any

from nova_perf_tuning.cli import topology
from nova_perf_tuning.guest import parsing
from nova_perf_tuning.host.input import record
from nova_perf_tuning.host.input.facts import irqbalance_unit, reader
from nova_perf_tuning.host.input.facts.root import FactsError
from nova_perf_tuning.host.model import host_model
from tests.support import audit_hosts, corpus, program, sysroots, testcase, trees

RECORDED = pathlib.Path(__file__).parents[4] / "support" / "recorded"
#: Guests come and go and memory balloons breathe while tests run.
_ATTEMPTS = 20


def facts(sysroot: str = "/") -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(json.dumps(topology.as_json(reader.read_host(sysroot))))
    return recorded


def members(path: str) -> dict[str, bytes]:
    """Return the files of a recorded host."""
    with tarfile.open(path) as file:
        return {member.name: file.extractfile(member).read() for member in file if member.isreg()}  # type: ignore[union-attr]


def _exported(unit: irqbalance_unit.IrqbalanceUnit) -> set[str]:
    """Return the texts of variables that systemd ignores."""
    return {text for file in unit.files for text in file.exported.values()}


class RecordTest(testcase.TestCase):
    def setUp(self) -> None:
        super().setUp()
        self.path = f"{trees.grow(self, {'x': 'x'})}/host.tar.xz"

    def test_live_host(self) -> None:
        """This machine as a recorded host says what the machine says before and after it."""
        for _ in range(_ATTEMPTS):
            before = facts()
            record.record(self.path)
            recorded = facts(self.path)
            after = facts()
            if before == recorded == after:
                return
            os.unlink(self.path)
        self.assertEqual((before, after), (recorded, recorded), f"in {_ATTEMPTS} attempts")

    def test_generated_host_twice(self) -> None:
        root = sysroots.make_host(self, "small")
        path = pathlib.Path(self.path)
        record.record(self.path, root)
        self.assertEqual(facts(root), facts(self.path))
        first = path.read_bytes()
        path.unlink()
        record.record(self.path, root)
        self.assertEqual(first, path.read_bytes())

    def test_of_extra_specs_and_properties_only_those_that_place_are_kept(self) -> None:
        wanted = '<nova:extraSpec name="hw:numa_nodes">1</nova:extraSpec>'
        private = '<nova:extraSpec name="acme:tenant">s3cr3t</nova:extraSpec>'
        image = '<nova:property name="hw_vif_multiqueue_enabled">true</nova:property>'
        owner = '<nova:property name="owner_name">s3cr3t</nova:property>'
        instance = (
            '<metadata><nova:instance xmlns:nova="http://openstack.org/xmlns/libvirt/nova/1.1">'
            f"<nova:flavor><nova:extraSpecs>{wanted}{private}</nova:extraSpecs></nova:flavor>"
            f"<nova:image><nova:properties>{image}{owner}</nova:properties></nova:image>"
            "</nova:instance></metadata>"
        )
        xml = f"<domain type='kvm'><name>guest</name>{instance}</domain>"
        text = record.redacted(xml)
        self.assertIn("hw:numa_nodes", text)
        self.assertIn("hw_vif_multiqueue_enabled", text)
        for word in ("s3cr3t", "acme:tenant", "owner_name"):
            self.assertNotIn(word, text)

    def test_nothing_private(self) -> None:
        root = pathlib.Path(sysroots.make_host(self))
        secret = "s3cr3t"
        for path in root.glob("proc/[0-9]*/cmdline"):
            path.write_text(f"qemu\0-vnc\0password={secret}\0")
            (path.parent / "environ").write_text(f"TOKEN={secret}\0")
        for path in root.glob("etc/libvirt/qemu/*.xml"):
            text = path.read_text().replace(
                "</devices>", f"<graphics type='vnc' passwd='{secret}'/></devices>"
            )
            path.write_text(
                text.replace(
                    "<memory ",
                    f"<title>{secret}</title><description>{secret}</description><memory ",
                )
            )
        (root / "proc/cmdline").write_text(f"root=/dev/sda luks={secret}")
        (root / "proc/cpuinfo").write_text(f"processor : 0\nSerial : {secret}\nflags : lm\n")
        for path in root.glob("sys/devices/**/net/*"):
            (path / "ifalias").write_text(secret)
        record.record(self.path, str(root))
        for name, data in members(self.path).items():
            self.assertNotIn(secret.encode(), data, name)
            self.assertIsNone(
                re.search(rb"[0-9a-f]{2}(:[0-9a-f]{2}){5}", data), f"MAC address in {name}"
            )
            self.assertIsNone(re.search(rb"[0-9a-f]{8}-[0-9a-f]{4}-", data), f"UUID in {name}")
            self.assertNotIn(
                os.path.basename(name), ("environ", "boot_id", "address", "product_uuid")
            )

    def test_of_other_programs_nothing_but_that_they_were_looked_for(self) -> None:
        root = pathlib.Path(sysroots.make_host(self))
        for pid, name in ((1, "systemd"), (700, "irqbalance"), (701, "s3cr3t")):
            comm = root / f"proc/{pid}/comm"
            comm.parent.mkdir(parents=True, exist_ok=True)
            comm.write_text(f"{name}\n")
            (comm.parent / "status").write_text("Uid:\t0\t0\t0\t0\n")
        record.record(self.path, str(root))
        files = members(self.path)
        found = {pid: files.get(f"proc/{pid}/comm") for pid in (1, 700, 701)}
        self.assertEqual({1: b"init\n", 700: b"irqbalance\n", 701: None}, found)

    def test_work_of_the_kernel_is_kept_without_names_of_namespaces(self) -> None:
        masks = {
            "proc/irq/default_smp_affinity": "0f\n",
            "sys/devices/virtual/workqueue/cpumask": "03\n",
            "sys/devices/virtual/workqueue/cpumask_requested": "0f\n",
            "nova-perf/namespaces": "2\n",
        }
        thread = audit_hosts.kernel_thread("kcompactd0", "0-3")
        bound = audit_hosts.kernel_thread("kworker/0:1", "0", tid=37, flags=0x4208060)
        root = pathlib.Path(sysroots.make_host(self))
        for name, text in {**masks, **thread, **bound}.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text or "")
        record.record(self.path, str(root))
        recorded = reader.read_host(self.path)
        self.assertEqual(("0f", "0f"), (recorded.new_irq_mask, recorded.workqueue_mask))
        self.assertEqual(2, recorded.namespaces)
        expected = (host_model.KernelThread(36, "kcompactd0", "0-3", 55),)
        self.assertEqual(expected, recorded.kernel_threads)
        self.assertNotIn("proc/37/stat", members(self.path))

    def test_masks_of_every_device_are_kept(self) -> None:
        root = pathlib.Path(sysroots.make_host(self))
        tree = audit_hosts.virtual("br7", "bridge", 1500)
        tree["sys/devices/virtual/net/br7/queues/rx-0/rps_cpus"] = "ff\n"
        for name, text in tree.items():
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            if text and text.startswith("-> "):
                path.symlink_to(text[3:])
            else:
                path.write_text(text or "")
        record.record(self.path, str(root))
        masks = {nic.name: nic.rps for nic in reader.read_host(self.path).nics}
        self.assertEqual(("ff",), masks["br7"])

    def test_bans_of_irqbalance_are_kept(self) -> None:
        root = pathlib.Path(sysroots.make_host(self))
        for directory in ("default", "sysconfig"):
            path = root / f"etc/{directory}/irqbalance"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("#comment\nIRQBALANCE_BANNED_CPULIST=2-3\nTOKEN=s3cr3t\n")
        record.record(self.path, str(root))
        files = members(self.path)
        kept = [files[f"etc/{directory}/irqbalance"] for directory in ("default", "sysconfig")]
        self.assertEqual([b"IRQBALANCE_BANNED_CPULIST=2-3\n"] * 2, kept)

    def test_files_that_the_unit_of_irqbalance_names_are_kept(self) -> None:
        root = pathlib.Path(sysroots.make_host(self))
        unit = "lib/systemd/system/irqbalance.service"
        drop_in = "etc/systemd/system/irqbalance.service.d/a.conf"
        for path, text in (
            (unit, "[Service]\nEnvironmentFile=-/etc/irqbalance.env\nExecStart=/x s3cr3t\n"),
            (
                drop_in,
                '[Service]\nEnvironment=TOKEN=s3cr3t "IRQBALANCE_ARGS=-i 9"\nEnvironmentFile=/home/e\n',
            ),
            ("etc/irqbalance.env", "TOKEN=s3cr3t\nexport IRQBALANCE_BANNED_CPUS=c\n"),
            ("home/e", "IRQBALANCE_BANNED_CPUS=c\n"),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        record.record(self.path, str(root))
        files = members(self.path)
        self.assertEqual(b"export IRQBALANCE_BANNED_CPUS=c\n", files["etc/irqbalance.env"])
        self.assertNotIn("home/e", files)
        self.assertNotIn(b"s3cr3t", files[unit] + files[drop_in])
        whole = irqbalance_unit.read(reader.open_root(str(root)))
        self.assertEqual(({"c"}, ("/home/e",)), (_exported(whole), tuple(whole.unread)))
        recorded = irqbalance_unit.read(reader.open_root(self.path))
        self.assertEqual({"IRQBALANCE_ARGS": "-i 9"}, recorded.variables)
        self.assertEqual((whole.unread, {"c"}), (recorded.unread, _exported(recorded)))

    def test_what_is_no_domain_leaves_nothing(self) -> None:
        self.assertEqual("", record.redacted("<domain>s3cr3t"))
        self.assertEqual("", record.redacted("<network><name>s3cr3t</name></network>"))

    def test_directories_may_be_entered(self) -> None:
        record.record(self.path, sysroots.make_host(self))
        with tarfile.open(self.path) as file:
            modes = {member.mode for member in file if member.isdir()}
        self.assertEqual({0o755}, modes)

    def test_never_over_a_file(self) -> None:
        path = pathlib.Path(self.path)
        path.write_text("precious")
        error = self.assertRaises(FactsError, record.record, self.path)
        self.assertIn("exists already", str(error))
        self.assertEqual("precious", path.read_text())

    def test_command_writes_a_file_and_tells_its_size(self) -> None:
        shown = program.document(self, "record", self.path)
        self.assertEqual({"file": self.path, "bytes": os.path.getsize(self.path)}, shown)

    def test_domains_survive(self) -> None:
        """What the planner and the rules use of a domain is the same in a recorded host; nothing else is in it."""
        paths = sorted(corpus.DIRECTORY.glob("*.xml"))
        self.assertGreater(len(paths), 5)
        for path in paths:
            given, kept = path.read_text(), record.redacted(path.read_text())
            self.assertEqual(
                parsing.parse_inventory(given), parsing.parse_inventory(kept), path.name
            )
            domain = parsing.parse_domain(given)
            nics = tuple(dataclasses.replace(nic, mac=None) for nic in domain.interfaces)
            expected = dataclasses.replace(domain, uuid="", title=None, interfaces=nics)
            self.assertEqual(expected, parsing.parse_domain(kept), path.name)
            for private in (domain.uuid, domain.title, "/var/lib/", "address=", ":name"):
                with self.subTest(private):
                    self.assertNotIn(private or "/var/lib/", kept, path.name)


class CommittedHostsTest(testcase.TestCase):
    """Recorded real machines, made by ``nova-perf record``."""

    def test_they_are_there_and_whole(self) -> None:
        paths = sorted(RECORDED.glob("*.tar.xz"))
        self.assertGreaterEqual(len(paths), 1)
        for path in paths:
            recorded = facts(str(path))
            codes = {note["code"] for note in recorded["notes"]}
            self.assertFalse({code for code in codes if code.startswith("not_")}, path.name)
            self.assertTrue(recorded["cpus"] and recorded["nodes"] and recorded["irqs"], path.name)
            for name, data in members(str(path)).items():
                self.assertIsNone(
                    re.search(rb"[0-9a-f]{2}(:[0-9a-f]{2}){5}", data), f"MAC address in {name}"
                )
                self.assertIsNone(re.search(rb"[0-9a-f]{8}-[0-9a-f]{4}-", data), f"UUID in {name}")
