# SPDX-License-Identifier: Apache-2.0
"""Destination XML, element by element: the cases that a whole Nova does not bring about by itself."""

from nova_perf_tuning.guest import parsing, transform
from nova_perf_tuning.nova import migration
from nova_perf_tuning.specs import request
from tests.support import testcase

DOMAIN = """<domain type='kvm'>
  <name>g</name>
  <uuid>6fd2ba4e-ea9b-4d41-8a4b-0a6a4b0c7a11</uuid>
  <vcpu>4</vcpu>
  <cputune>
    <emulatorpin cpuset='{emulator}'/>
{pins}  </cputune>
  <devices>
{devices}  </devices>
</domain>
"""


def domain(devices="", emulator="0", pins=()):
    lines = "".join(f"    <iothreadpin iothread='{n}' cpuset='{cpus}'/>\n" for n, cpus in pins)
    return DOMAIN.format(emulator=emulator, pins=lines, devices=devices)


def interface(driver, mac="52:54:00:00:00:01", kind="ethernet"):
    return f"    <interface type='{kind}'><mac address='{mac}'/><model type='virtio'/>{driver}</interface>\n"


def disk(driver, name="vda"):
    return f"    <disk type='block' device='disk'>{driver}<target dev='{name}' bus='virtio'/></disk>\n"


def finished(running, rewritten):
    """Return the destination's XML in one form of quotes and lines."""
    return same(migration.destination_xml(running, rewritten))


def same(xml):
    return transform.text(parsing.parse_xml(xml)).replace('"', "'")


class InterfaceTest(testcase.TestCase):
    def kept(self, running, rewritten, **kwargs):
        return finished(domain(interface(running)), domain(interface(rewritten, **kwargs)))

    def test_guests_view_is_kept_and_back_end_is_novas(self):
        xml = self.kept(
            "<driver name='vhost' queues='4' packed='on'><guest tso4='off'/></driver>",
            "<driver name='qemu' queues='2' rx_queue_size='512'><host gso='off'/></driver>",
        )
        self.assertIn("<driver name='qemu' queues='4' packed='on'>", xml)
        self.assertIn("<guest tso4='off'/>", xml)
        self.assertNotIn("gso", xml)

    def test_of_novas_driver_the_name_alone_is_taken(self):
        xml = self.kept(
            "<driver name='vhost' queues='4'/>", "<driver event_idx='off' iommu='on' name='qemu'/>"
        )
        self.assertEqual(same(domain(interface("<driver name='qemu' queues='4'/>"))), xml)

    def test_driver_that_runs_without_is_removed(self):
        self.assertEqual(same(domain(interface(""))), self.kept("", "<driver queues='2'/>"))

    def test_driver_that_nova_left_out_comes_back_without_a_name(self):
        """For vhost-user the name must stay away."""
        xml = self.kept("<driver name='vhost' queues='2'/>", "", kind="vhostuser")
        self.assertIn("<driver queues='2'/>", xml)

    def test_driver_that_has_offloads_alone_is_kept(self):
        """A driver without attributes still says what the guest was promised."""
        for offload in ("<host gso='off'/>", "<guest tso4='off'/>"):
            with self.subTest(offload):
                running = f"<driver>{offload}</driver>"
                self.assertEqual(same(domain(interface(running))), self.kept(running, ""))

    def test_mac_in_other_case_is_the_same(self):
        running = domain(interface("<driver queues='2'/>", mac="52:54:00:AA:00:01"))
        xml = finished(running, domain(interface("", mac="52:54:00:aa:00:01")))
        self.assertIn("queues='2'", xml)


class DiskTest(testcase.TestCase):
    def test_lost_attributes_come_back(self):
        running = domain(disk("<driver name='qemu' type='raw' queues='2' iothread='3'/>"))
        xml = finished(running, domain(disk("<driver name='qemu' type='raw' cache='none'/>")))
        self.assertIn("<driver name='qemu' type='raw' cache='none' queues='2' iothread='3'/>", xml)

    def test_mapping_of_several_threads_comes_back(self):
        mapping = "<driver name='qemu'><iothreads><iothread id='1'/><iothread id='2'/></iothreads></driver>"
        xml = finished(domain(disk(mapping)), domain(disk("<driver name='qemu'/>")))
        self.assertEqual(same(domain(disk(mapping))), xml)


class GuestTest(testcase.TestCase):
    def test_a_request_is_found_in_the_metadata(self):
        xml = domain(disk("<driver name='qemu'/>"))
        self.assertFalse(migration.has_request(xml))
        tuned = transform.transform(xml, request.Request(iothreads=1)).xml
        self.assertTrue(migration.has_request(tuned))

    def test_the_xml_of_the_destination_is_finished_where_nova_gives_one(self):
        """Without one libvirt takes the guest's own; whatever else Nova says and asks goes through."""
        guest = MovingGuest()
        migrating = migration.MigratingGuest(guest, lambda of, xml: f"{of.name}: {xml}")
        self.assertEqual(
            "moved", migrating.migrate("qemu+tcp://b", destination_xml="<domain/>", flags=1)
        )
        migrating.migrate("qemu+tcp://b", destination_xml=None)
        migrating.migrate("qemu+tcp://b")
        expected = [{"destination_xml": "g: <domain/>", "flags": 1}, {"destination_xml": None}, {}]
        self.assertEqual(expected, guest.calls)
        self.assertEqual("g", migrating.name)


class MovingGuest:
    """Stands in for Nova's guest, which wants a running libvirt."""

    name = "g"

    def __init__(self):
        self.calls = []

    def migrate(self, _destination, **named):
        self.calls.append(named)
        return "moved"


class PinTest(testcase.TestCase):
    def test_every_iothread_follows_the_emulator(self):
        running = domain(emulator="0-3", pins=((1, "0-3"), (2, "0-3"), (3, "0-3")))
        rewritten = domain(emulator="7", pins=((1, "7"), (2, "0-3"), (3, "0-3")))
        expected = domain(emulator="7", pins=((1, "7"), (2, "7"), (3, "7")))
        self.assertEqual(same(expected), finished(running, rewritten))

    def test_twice_changes_nothing_more(self):
        xml = domain(
            interface("<driver queues='2'/>") + disk("<driver iothread='1'/>"), "4", ((1, "4"),)
        )
        self.assertEqual(same(xml), finished(xml, xml))
