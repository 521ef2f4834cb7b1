# SPDX-License-Identifier: Apache-2.0
"""A disk that is plugged into a running guest."""

from lxml import etree

from nova_perf_tuning.guest import storage
from nova_perf_tuning.specs import request
from tests.support import testcase

DOMAIN = """<domain type='kvm'>
  <vcpu>4</vcpu>
  {iothreads}
  <devices>
    <disk type='file' device='disk'><driver name='qemu' iothread='1'/><target dev='vda' bus='virtio'/></disk>
  </devices>
</domain>
"""
DISK = '<disk type="block" device="disk"><driver name="qemu"/><target dev="vdb" bus="{}"/></disk>'


class DiskTest(testcase.TestCase):
    def plugged(self, iothreads, fields, bus="virtio"):
        """Return the attributes that the disk's driver gets."""
        disk = etree.fromstring(DISK.format(bus))
        domain = DOMAIN.format(iothreads=iothreads)
        storage.write_plugged(disk, domain, request.Request(**fields))
        self.assertIsNone(disk.getparent())
        return {key: text for key, text in disk.find("driver").attrib.items() if key != "name"}

    def test_thread_that_serves_fewest(self):
        fields = {"iothreads": 3, "disk_queues": "auto"}
        self.assertEqual(
            {"queues": "4", "iothread": "2"}, self.plugged("<iothreads>3</iothreads>", fields)
        )

    def test_no_thread_that_the_guest_has_not(self):
        for iothreads, wanted in (
            ("", {}),
            ("<iothreads>0</iothreads>", {}),
            ("<iothreads>1</iothreads>", {"iothread": "1"}),
        ):
            with self.subTest(iothreads):
                self.assertEqual(wanted, self.plugged(iothreads, {"iothreads": 2}))

    def test_disk_of_another_bus_is_left_alone(self):
        self.assertEqual(
            {},
            self.plugged("<iothreads>2</iothreads>", {"iothreads": 2, "disk_queues": 2}, "scsi"),
        )
