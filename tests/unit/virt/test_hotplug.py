"""Devices plugged into a running guest."""

import testtools

from nova_perf_tuning.guest import features, network
from nova_perf_tuning.specs import request
from nova_perf_tuning.virt import hotplug

DOMAIN = """<domain type='kvm'>
  <name>g</name>
  <uuid>6fd2ba4e-ea9b-4d41-8a4b-0a6a4b0c7a11</uuid>
  <vcpu>4</vcpu>
  {iothreads}
  <devices>
    <disk type='file' device='disk'><driver name='qemu' iothread='1'/><target dev='vda' bus='virtio'/></disk>
  </devices>
</domain>
"""
DISK = '<disk type="block" device="disk"><driver name="qemu"/><target dev="{}" bus="{}"/></disk>'
ANYTHING = features.Features()


class DiskTest(testtools.TestCase):
    def plugged(self, iothreads, asked, bus="virtio"):
        domain = DOMAIN.format(iothreads=iothreads)
        return hotplug.disk(DISK.format("vdb", bus), domain, request.Request(**asked), ANYTHING)[0]

    def test_thread_that_serves_fewest(self):
        xml = self.plugged("<iothreads>3</iothreads>", {"iothreads": 3, "disk_queues": "auto"})
        self.assertIn("queues='4' iothread='2'", xml)

    def test_no_thread_that_the_guest_has_not(self):
        for iothreads in ("", "<iothreads>0</iothreads>"):
            self.assertEqual(DISK.format("vdb", "virtio"), self.plugged(iothreads, {"iothreads": 2}))
        self.assertIn("iothread='1'", self.plugged("<iothreads>1</iothreads>", {"iothreads": 2}))

    def test_disk_of_another_bus_is_left_alone(self):
        asked = {"iothreads": 2, "disk_queues": 2}
        self.assertEqual(DISK.format("vdb", "scsi"), self.plugged("<iothreads>2</iothreads>", asked, "scsi"))


class InterfaceTest(testtools.TestCase):
    def test_other_models_are_left_alone(self):
        xml = '<interface type="bridge"><mac address="52:54:00:00:00:01"/><model type="e1000"/></interface>'
        guest = network.Guest(4, True, None, ANYTHING)
        tuned, notes = hotplug.interface(xml, request.Request(vif_queues=2), guest)
        self.assertEqual(xml, tuned)
        self.assertEqual(1, len(notes))
