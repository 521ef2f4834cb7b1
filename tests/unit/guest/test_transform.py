# SPDX-License-Identifier: Apache-2.0
"""A request written into domains of all kinds: valid for libvirt, minimal, repeatable."""

import difflib

import hypothesis
from hypothesis import strategies

from nova_perf_tuning.guest import network, parsing, storage, transform
from nova_perf_tuning.guest.domain import LeftOut, Omission
from nova_perf_tuning.specs import parsing as spec_parsing
from nova_perf_tuning.specs import request
from tests.support import corpus, spec_strategies, testcase

REQUESTS = spec_strategies.VALID_SPECS.map(spec_parsing.parse)


def changed(name, specs, **options):
    """Return the lines that a request adds to a domain (metadata apart), and what is left out."""
    result = transform.transform(corpus.text(name), spec_parsing.parse(specs), **options)
    lines = [
        line[2:].strip()
        for line in difference(corpus.text(name), result.xml)
        if line.startswith("+ ")
    ]
    return [line for line in lines if "perf:" not in line], list(result.left_out)


def difference(before, after):
    return difflib.ndiff(
        transform.text(parsing.parse_xml(before)).splitlines(), after.splitlines()
    )


class PropertyTest(testcase.TestCase):
    @hypothesis.given(
        strategies.sampled_from(corpus.names()),
        REQUESTS,
        strategies.one_of(strategies.none(), strategies.integers(0, 16)),
    )
    def test_valid_repeatable_and_carried_along(self, name, wanted, housekeeping):
        options = {"housekeeping_cpus": housekeeping}
        once = transform.transform(corpus.text(name), wanted, **options)
        self.assertEqual([], corpus.schema_errors(once.xml))
        self.assertEqual(once.xml, transform.transform(once.xml, wanted, **options).xml)
        if wanted:
            self.assertEqual(wanted, parsing.parse_domain(once.xml).request)

    @hypothesis.given(strategies.sampled_from(corpus.names()), REQUESTS, REQUESTS)
    def test_a_second_request_takes_over(self, name, first, second):
        hypothesis.assume(bool(second))
        twice = transform.transform(transform.transform(corpus.text(name), first).xml, second).xml
        self.assertEqual([], corpus.schema_errors(twice))
        self.assertEqual(second, parsing.parse_domain(twice).request)
        self.assertEqual(twice, transform.transform(twice, second).xml)

    def test_nothing_asked_changes_no_byte(self):
        for name in corpus.names():
            text = corpus.text(name).replace('"', "'").replace("\n", "\r\n")
            self.assertEqual(
                transform.Transformed(text, ()), transform.transform(text, request.Request())
            )


class NetworkTest(testcase.TestCase):
    def test_auto_queues_follow_vcpus_and_housekeeping(self):
        for vcpus, housekeeping, expected in (
            (4, None, 4),
            (16, None, 8),
            (16, 3, 3),
            (1, 8, 1),
            (4, 0, 1),
        ):
            with self.subTest(vcpus):
                self.assertEqual(expected, network.vif_queues("auto", vcpus, housekeeping))
        self.assertEqual(4, network.vif_queues(8, 4, None))
        self.assertEqual(12, network.vif_queues(12, 16, 2))

    def test_driver_of_the_interface_follows_the_accelerator(self):
        """A tap with KVM has vhost, under TCG what Nova chose; one queue is written by leaving the number out."""
        for name, specs, lines in (
            (
                "config-drive.xml",
                {"perf:vif_queues": "auto"},
                ['<driver name="vhost" queues="2"/>'],
            ),
            ("q35-tcg.xml", {"perf:vif_queues": "2"}, ['<driver name="qemu" queues="2"/>']),
            ("numa-pinned.xml", {"perf:vif_queues": "1"}, ['<driver name="vhost" packed="on"/>']),
            (
                "uefi.xml",
                {"perf:vif_host_offload.tso4": "off", "perf:vif_guest_offload.csum": "on"},
                ['<driver name="vhost">', '<host tso4="off"/>', '<guest csum="on"/>', "</driver>"],
            ),
        ):
            with self.subTest(name):
                self.assertEqual(lines, changed(name, specs)[0], name)

    def test_vhostuser_has_no_name_and_honours_the_transmit_ring(self):
        lines, left_out = changed(
            "vhostuser.xml", {"perf:vif_queues": "2", "perf:vif_tx_queue_size": "1024"}
        )
        self.assertEqual(['<driver queues="2" rx_queue_size="1024" tx_queue_size="1024"/>'], lines)
        self.assertEqual([], left_out)

    def test_transmit_ring_left_out_elsewhere(self):
        lines, (left_out,) = changed("rescue.xml", {"perf:vif_tx_queue_size": "512"})
        self.assertEqual([], lines)
        self.assertEqual(
            (Omission.NO_TRANSMIT_RING, "bridge"), (left_out.omission, left_out.detail)
        )

    def test_vdpa_as_nova_writes_it(self):
        """Without a model: libvirt drops a driver that is written there, so the reason is not that of an e1000."""
        wanted = spec_parsing.parse(
            {"perf:vif_rx_queue_size": "512", "perf:vif_tx_queue_size": "512"}
        )
        for model, omissions in (
            ("", [Omission.VDPA_WITHOUT_MODEL]),
            ('<model type="virtio"/>', []),
        ):
            with self.subTest(model):
                xml = (
                    '<domain type="kvm"><name>a</name><memory>1</memory><devices><interface type="vdpa">'
                    f'<mac address="52:54:00:00:00:01"/><source dev="/dev/vhost-vdpa-0"/>{model}</interface>'
                    "</devices></domain>"
                )
                done = transform.transform(xml, wanted)
                self.assertEqual(omissions, [left_out.omission for left_out in done.left_out])
                self.assertEqual(not omissions, 'tx_queue_size="512"' in done.xml)

    def test_a_multiqueue_tap_made_beforehand_keeps_two(self):
        lines, _ = changed("multi-nic.xml", {"perf:vif_queues": "auto"}, housekeeping_cpus=1)
        self.assertEqual(['<driver name="vhost" queues="2"/>'], lines)


class StorageTest(testcase.TestCase):
    def threads(self, name, specs, **options):
        """Return target (or controller) -> I/O threads that serve it."""
        xml = transform.transform(corpus.text(name), spec_parsing.parse(specs), **options).xml
        served = {}
        for device in parsing.parse_xml(xml).xpath(
            "devices/*[self::disk or self::controller][driver]"
        ):
            mapped = device.xpath("driver/iothreads/iothread/@id")
            key = (
                device.get("index")
                if device.tag == "controller"
                else device.find("target").get("dev")
            )
            served[key] = mapped or [device.find("driver").get("iothread")]
        return served

    def test_disks_spread(self):
        expected = {"vda": ["1"], "vdb": ["2"], "vdc": ["3"]}
        self.assertEqual(expected, self.threads("numa-pinned.xml", {"perf:iothreads": "3"}))

    def test_controllers_spread_and_their_disks_stay(self):
        served = self.threads("virtio-scsi.xml", {"perf:iothreads": "2", "perf:disk_queues": "4"})
        self.assertEqual((["1"], ["2"], [None]), (served["0"], served["1"], served["sda"]))

    def test_cdroms_and_other_buses_are_left_out(self):
        lines, left_out = changed("config-drive.xml", {"perf:iothreads": "1"})
        self.assertEqual(
            [
                "<iothreads>1</iothreads>",
                '<driver name="qemu" type="qcow2" cache="none" iothread="1"/>',
            ],
            lines,
        )
        self.assertIn(LeftOut(Omission.NO_DISK, "disk hda", "cdrom"), left_out)
        self.assertIn(
            "disk hda: a cdrom has neither queues nor an I/O thread",
            [part.text for part in left_out],
        )

    def test_new_threads_are_pinned_where_the_emulator_is(self):
        lines, _ = changed("vhostuser.xml", {"perf:iothreads": "3"})
        self.assertIn('<iothreadpin iothread="2" cpuset="0-1"/>', lines)
        self.assertIn('<iothreadpin iothread="3" cpuset="0-1"/>', lines)
        self.assertFalse([line for line in lines if 'iothread="1" cpuset' in line])

    def test_threads_are_never_taken_away(self):
        text = transform.transform(
            corpus.text("virtio-blk.xml"), spec_parsing.parse({"perf:iothreads": "4"})
        ).xml
        result = transform.transform(text, spec_parsing.parse({"perf:iothreads": "1"}))
        self.assertEqual(4, parsing.parse_domain(result.xml).iothreads)
        self.assertEqual([], corpus.schema_errors(result.xml))

    def test_zero_gives_disks_back_to_the_emulator(self):
        text = transform.transform(
            corpus.text("virtio-blk.xml"), spec_parsing.parse({"perf:iothreads": "2"})
        ).xml
        self.assertIn('iothread="2"', text)
        self.assertNotIn(
            'iothread="',
            transform.transform(text, spec_parsing.parse({"perf:iothreads": "0"})).xml,
        )

    def test_own_numbers_of_threads(self):
        ids = '<iothreads>2</iothreads>\n  <iothreadids><iothread id="2"/><iothread id="7"/></iothreadids>'
        text = corpus.text("numa-pinned.xml").replace("<iothreads>1</iothreads>", ids)
        done = transform.transform(text, spec_parsing.parse({"perf:iothreads": "3"}))
        self.assertEqual([], corpus.schema_errors(done.xml))
        self.assertNotIn('cache="none" iothread=', done.xml)
        self.assertEqual((LeftOut(Omission.THREADS_NUMBERED),), done.left_out)

    def test_versions_that_spread_a_device_over_threads(self):
        for libvirt, qemu, tags in (
            (9_000_000, 7_002_022, set()),
            (10_000_000, 9_000_000, {"disk"}),
            (11_001_000, 10_000_000, {"disk"}),
            (11_002_000, 9_002_000, {"disk"}),
            (11_002_000, 10_000_000, {"disk", "controller"}),
        ):
            with self.subTest(libvirt=libvirt, qemu=qemu):
                self.assertEqual(tags, storage.spreadable(libvirt, qemu))

    def test_spare_threads_share_a_device_where_qemu_can(self):
        four, disk, both = {"perf:iothreads": "4"}, {"disk"}, {"disk", "controller"}
        one_queue = {"perf:iothreads": "4", "perf:disk_queues": "1"}
        for name, specs, spread, served, codes in (
            ("virtio-blk.xml", four, disk, {"vda": ["1", "3"], "vdb": ["2", "4"]}, []),
            (
                "virtio-blk.xml",
                four,
                (),
                {"vda": ["1"], "vdb": ["2"]},
                ["disk vda", "disk vdb", ""],
            ),
            ("virtio-blk.xml", one_queue, disk, {"vda": ["1"], "vdb": ["2"]}, [""]),
            (
                "numa-pinned.xml",
                {"perf:iothreads": "2"},
                disk,
                {"vda": ["1"], "vdb": ["2"], "vdc": ["1"]},
                [],
            ),
            ("virtio-scsi.xml", four, both, {"0": ["1", "3"], "1": ["2", "4"]}, []),
            ("virtio-scsi.xml", one_queue, both, {"0": ["1"], "1": ["2"]}, [""]),
            (
                "virtio-scsi.xml",
                four,
                disk,
                {"0": ["1"], "1": ["2"]},
                ["scsi controller 0", "scsi controller 1", ""],
            ),
        ):
            with self.subTest(name, spread=spread, specs=specs):
                wanted = spec_parsing.parse(specs)
                once = transform.transform(corpus.text(name), wanted, spread=spread)
                threads = self.threads(name, specs, spread=spread)
                self.assertEqual(served, {device: threads[device] for device in served})
                reasons = {Omission.ONE_THREAD, Omission.IDLE_THREADS}
                self.assertEqual(
                    codes, [part.device for part in once.left_out if part.omission in reasons]
                )
                self.assertEqual(
                    once.xml, transform.transform(once.xml, wanted, spread=spread).xml
                )

    def test_a_refused_controller_says_what_it_needs(self):
        _, left_out = changed("virtio-scsi.xml", {"perf:iothreads": "4"}, spread={"disk"})
        needed = LeftOut(Omission.ONE_THREAD, "scsi controller 0", "libvirt 11.2 and QEMU 10.0")
        self.assertIn(needed, left_out)


class PciTopologyTest(testcase.TestCase):
    """The request decides; what is written is shown in test_pci_topology."""

    def test_numa_alone_writes_expanders(self):
        for value, expected in (("numa", 1), ("flat", 0)):
            with self.subTest(value):
                lines, left_out = changed(
                    "hostdev.xml",
                    {"perf:pci_topology": value},
                    device_nodes={"0000:82:10.1": 0, "0000:84:00.0": 0},
                )
                self.assertEqual([], left_out)
                self.assertEqual(expected, sum("pcie-expander-bus" in line for line in lines))

    def test_no_known_node_leaves_each_device_flat(self):
        _lines, left_out = changed("hostdev.xml", {"perf:pci_topology": "numa"})
        devices = ["PCI device 0000:82:10.1", "PCI device 0000:84:00.0"]
        self.assertEqual([LeftOut(Omission.NODE_UNKNOWN, device) for device in devices], left_out)


class BalloonTest(testcase.TestCase):
    def test_reporting_is_written_as_nova_32_writes_it(self):
        for text, line in (
            ("true", '<memballoon model="virtio" autodeflate="on" freePageReporting="on">'),
            ("false", '<memballoon model="virtio" freePageReporting="off">'),
        ):
            with self.subTest(text):
                lines, left_out = changed("virtio-blk.xml", {"perf:free_page_reporting": text})
                self.assertEqual(([line], []), (lines, left_out))
                domain = transform.transform(
                    corpus.text("virtio-blk.xml"),
                    spec_parsing.parse({"perf:free_page_reporting": text}),
                )
                self.assertEqual(
                    text == "true", parsing.parse_inventory(domain.xml).free_page_reporting
                )

    def test_without_a_balloon_there_is_nothing_to_switch_off(self):
        none = corpus.text("virtio-blk.xml").replace(
            '<memballoon model="virtio">', '<memballoon model="none">'
        )
        for text, omissions in (("true", [Omission.NO_BALLOON]), ("false", [])):
            with self.subTest(text):
                done = transform.transform(
                    none, spec_parsing.parse({"perf:free_page_reporting": text})
                )
                self.assertEqual(omissions, [left_out.omission for left_out in done.left_out])
                self.assertNotIn("freePageReporting", done.xml)


def _interface(kind, *parts):
    return f"<interface type='{kind}'>{''.join(parts)}</interface>"


def _disk(parts, **attributes):
    named = "".join(f" {name}='{value}'" for name, value in attributes.items())
    return f"<disk{named}>{parts}</disk>"


_VIRTIO = "<model type='virtio'/>"
_SCSI = "<controller type='scsi' index='0' model='lsilogic'/>"
_VDA = "<target dev='vda' bus='virtio'/>"
_HOSTDEV = "<hostdev type='pci'><source><address bus='0x82'/></source></hostdev>"
_CELL = (
    "<cpu><numa><cell id='0'/></numa></cpu><numatune><memnode cellid='0' nodeset='0'/></numatune>"
)
_NUMA = {"pci_topology": "numa"}
#: What the guest has, what its flavor asks for, and why it does not get it.
OMISSIONS = {
    Omission.PASSED_THROUGH: (_interface("hostdev", _VIRTIO), {"vif_queues": 2}),
    Omission.VDPA_WITHOUT_MODEL: (_interface("vdpa"), {"vif_queues": 2}),
    Omission.NIC_NOT_VIRTIO: (_interface("bridge", "<model type='e1000'/>"), {"vif_queues": 2}),
    Omission.NO_MULTIQUEUE: (_interface("user", _VIRTIO), {"vif_queues": 2}),
    Omission.TAP_WITH_ONE_QUEUE: (
        _interface("ethernet", "<target dev='tap0' managed='no'/>", _VIRTIO), {"vif_queues": 2},
    ),
    Omission.NO_TRANSMIT_RING: (_interface("bridge", _VIRTIO), {"vif_tx_queue_size": 512}),
    Omission.NO_DISK: (_disk(_VDA, type="file", device="cdrom"), {"iothreads": 1}),
    Omission.BUS_NOT_VIRTIO: (_disk("<target dev='sda' bus='sata'/>", type="file"), {"iothreads": 1}),
    Omission.OWN_BACK_END: (_disk(_VDA, type="vhostuser"), {"disk_queues": 2}),
    Omission.CONTROLLER_NOT_VIRTIO: (_SCSI, {"disk_queues": 2}),
    Omission.THREADS_NUMBERED: ("", {"iothreads": 1}),
    Omission.NO_BALLOON: ("<memballoon model='none'/>", {"free_page_reporting": True}),
    Omission.NOTHING_TO_SERVE: ("", {"iothreads": 1}),
    Omission.IDLE_THREADS: (_disk(_VDA, type="file"), {"iothreads": 2}),
    Omission.ONE_THREAD: (_disk(_VDA, type="file"), {"iothreads": 2}),
    Omission.NOT_PCI_EXPRESS: ("", _NUMA),
    Omission.NO_CELLS: ("", _NUMA),
    Omission.NODE_UNKNOWN: (_HOSTDEV, _NUMA),
    Omission.NODE_WITHOUT_CELL: (_HOSTDEV, _NUMA),
}  # fmt: skip
_Q35 = "<os><type machine='q35'>hvm</type></os>"
#: What such a guest has outside of its devices.
HEADS = {
    Omission.THREADS_NUMBERED: "<iothreadids><iothread id='7'/></iothreadids>",
    Omission.NO_CELLS: _Q35,
    Omission.NODE_UNKNOWN: _Q35 + _CELL,
    Omission.NODE_WITHOUT_CELL: _Q35 + _CELL,
}


class OmissionTest(testcase.TestCase):
    def test_every_omission_has_a_guest(self):
        self.assertEqual(set(Omission), set(OMISSIONS))
        for omission, (devices, wanted) in OMISSIONS.items():
            with self.subTest(omission.name):
                head = HEADS.get(omission, "")
                xml = (
                    f"<domain type='kvm'><name>a</name><memory>1</memory><vcpu>4</vcpu>{head}"
                    f"<devices>{devices}</devices></domain>"
                )
                nodes = {"0000:82:00.0": 1} if omission is Omission.NODE_WITHOUT_CELL else None
                done = transform.transform(xml, request.Request(**wanted), device_nodes=nodes)
                self.assertIn(omission, {part.omission for part in done.left_out})


class WholeTest(testcase.TestCase):
    def test_other_documents_than_qemu_domains_are_refused(self):
        status = "<domstatus><domain type='kvm'><name>a</name></domain></domstatus>"
        for text, words in (
            (status, "dumpxml"),
            ("<domain type='lxc'><name>a</name></domain>", "'lxc'"),
        ):
            with self.subTest(text):
                error = self.assertRaises(
                    parsing.DomainError, transform.transform, text, request.Request(iothreads=1)
                )
                self.assertIn(words, str(error))
